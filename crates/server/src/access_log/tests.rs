use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    net::{IpAddr, Ipv4Addr},
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt, net::UnixListener},
    },
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::*;

fn record(url: &str) -> Record<'_> {
    Record {
        time: 1_753_000_000_000,
        elapsed_us: 1000,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        method: "GET",
        url,
        http_version: "HTTP/1.1",
        status: 200,
        bytes: 10,
        body_bytes: 5,
        result: ResultCode::TcpMemHit,
        hierarchy: Hierarchy::None,
        content_type: None,
        user: None,
        referer: None,
        user_agent: None,
        cache_status: None,
        reference: None,
        tls: None,
    }
}

/// Runs as a worker thread does, with the clock stopped.
fn worker(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("runtime");
    LocalSet::new().block_on(&runtime, test);
}

fn open(path: &Path) -> Arc<Logger> {
    let settings = AccessLogSettings { path: path.to_owned(), format: LogFormat::Squid };
    Logger::open(&settings).expect("open")
}

fn urls(path: &Path) -> Vec<String> {
    let lines = fs::read_to_string(path).expect("the log");
    lines.lines().map(|line| line.split_whitespace().nth(6).expect("the URL").to_owned()).collect()
}

#[test]
fn lines_reach_the_file_in_order_and_are_appended() {
    let room = TempDir::new().expect("room");
    let path = room.path().join("access.log");
    for run in 0..2 {
        worker(async {
            let logger = open(&path);
            let log = logger.worker();
            for number in 0..3 {
                log.clone().record(&record(&format!("/{run}/{number}")));
            }
            drop(log);
            logger.close();
            assert_eq!(logger.figures().dropped, 0);
        });
    }
    assert_eq!(urls(&path), ["/0/0", "/0/1", "/0/2", "/1/0", "/1/1", "/1/2"]);
}

#[test]
fn a_young_small_batch_waits_and_an_old_one_is_handed_over() {
    for (waited, expected) in [(Duration::from_millis(150), 0), (Duration::from_millis(250), 1)] {
        let room = TempDir::new().expect("room");
        let path = room.path().join("access.log");
        worker(async {
            let logger = open(&path);
            let log = logger.worker();
            log.record(&record("/"));
            tokio::time::sleep(waited).await;
            logger.close();
            assert_eq!(urls(&path).len(), expected, "after {waited:?}");
            drop(log);
        });
    }
}

#[test]
fn a_large_batch_is_handed_over_at_once() {
    let room = TempDir::new().expect("room");
    let path = room.path().join("access.log");
    worker(async {
        let logger = open(&path);
        let log = logger.worker();
        let long = format!("/{}", "x".repeat(5000));
        for _ in 0..5 {
            log.record(&record(&long));
        }
        logger.close();
        assert_eq!(
            urls(&path).len(),
            4,
            "four lines are more than 16 KiB, the fifth is a new batch"
        );
        drop(log);
        assert_eq!(logger.figures().dropped, 1, "what comes after the end is counted");
    });
}

/// Waits until the condition holds.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

#[test]
fn a_renamed_file_is_opened_anew() {
    let room = TempDir::new().expect("room");
    let (path, old) = (room.path().join("access.log"), room.path().join("access.log.1"));
    worker(async {
        let logger = open(&path);
        let log = logger.worker();
        let long = |name: &str| format!("/{name}/{}", "x".repeat(17_000));
        log.record(&record(&long("first")));
        until(|| !urls(&path).is_empty());
        fs::rename(&path, &old).expect("rename");
        log.record(&record(&long("second")));
        until(|| urls(&old).len() == 2);
        logger.reopen();
        until(|| path.exists());
        log.record(&record("/third"));
        drop(log);
        logger.close();
        assert_eq!(urls(&path), ["/third"]);
        assert_eq!(urls(&old).len(), 2);
        assert_eq!(logger.figures().dropped, 0);
    });
}

#[test]
fn the_old_file_is_kept_when_the_new_one_cannot_be_opened() {
    let room = TempDir::new().expect("room");
    let logs = room.path().join("logs");
    fs::create_dir(&logs).expect("directory");
    let moved = room.path().join("moved");
    worker(async {
        let logger = open(&logs.join("access.log"));
        fs::rename(&logs, &moved).expect("rename");
        logger.reopen();
        let log = logger.worker();
        log.record(&record("/kept"));
        drop(log);
        logger.close();
        assert_eq!(urls(&moved.join("access.log")), ["/kept"]);
        assert_eq!(logger.figures().dropped, 0);
    });
}

#[test]
fn a_writer_that_stands_still_costs_lines_not_time() {
    // A pipe without a reader stands for a stalled disk.
    let (mut reader, full) = io::pipe().expect("pipe");
    let file = File::from(OwnedFd::from(full));
    worker(async {
        let sink = Sink::File { path: "pipe".into(), file };
        let logger = Logger::start(LogFormat::Squid, sink).expect("writer");
        let log = logger.worker();
        let url = format!("/{}", "x".repeat(1000));
        let mut recorded = 0_u64;
        while logger.figures().dropped == 0 {
            log.record(&record(&url));
            recorded += 1;
            assert!(recorded < 1_000_000, "the queue has no limit");
        }
        for _ in 0..100 {
            log.record(&record(&url));
            recorded += 1;
        }
        let reader = thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).expect("read");
            all.lines().count() as u64
        });
        drop(log);
        logger.close();
        let dropped = logger.figures().dropped;
        assert_eq!(reader.join().expect("reader") + dropped, recorded, "{dropped} dropped");
    });
}

#[test]
fn what_cannot_be_written_is_counted() {
    let full = Path::new("/dev/full");
    worker(async {
        let logger = open(full);
        let log = logger.worker();
        log.record(&record("/a"));
        log.record(&record("/b"));
        drop(log);
        logger.close();
        assert_eq!(logger.figures().dropped, 2);
    });
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error_at_the_start() {
    let room = TempDir::new().expect("room");
    let settings =
        AccessLogSettings { path: room.path().join("none/access.log"), format: LogFormat::Json };
    assert_eq!(Logger::open(&settings).expect_err("no directory").kind(), io::ErrorKind::NotFound);
}

fn fifo(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("fifo");
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let room = TempDir::new().expect("room");
    let at = |name: &str| room.path().join(name);
    fifo(&at("unread"));
    fifo(&at("read"));
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let _reader =
        OpenOptions::new().read(true).custom_flags(nonblocking).open(at("read")).expect("reader");
    let _socket = UnixListener::bind(at("socket")).expect("socket");
    for name in ["unread", "read", "socket"] {
        let settings = AccessLogSettings { path: at(name), format: LogFormat::Squid };
        let error = Logger::open(&settings).expect_err(name).to_string();
        assert!(error.contains("neither a file nor a character device"), "{name}: {error}");
    }
    let settings = AccessLogSettings { path: room.path().to_owned(), format: LogFormat::Squid };
    assert!(Logger::open(&settings).is_err(), "a directory");
}

#[test]
fn a_fifo_in_the_place_of_the_file_is_not_taken_when_it_is_reopened() {
    let room = TempDir::new().expect("room");
    let (path, old) = (room.path().join("access.log"), room.path().join("access.log.1"));
    worker(async {
        let logger = open(&path);
        fs::rename(&path, &old).expect("rename");
        fifo(&path);
        logger.reopen();
        let log = logger.worker();
        log.record(&record("/kept"));
        drop(log);
        logger.close();
        assert_eq!(urls(&old), ["/kept"]);
        assert_eq!(logger.figures().dropped, 0);
    });
}

#[test]
fn closing_twice_is_harmless() {
    let room = TempDir::new().expect("room");
    worker(async {
        let logger = open(&room.path().join("access.log"));
        logger.close();
        logger.close();
        assert_eq!(logger.figures().dropped, 0);
    });
}
