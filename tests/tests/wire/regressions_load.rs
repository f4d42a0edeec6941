//! Clients that send or read slowly, many of them: what they hold must not be what others need.

use larder_tests::{Larder, Origin, Talk, Wire, get, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

const FRESH: &[&str] = &["Cache-Control: max-age=1000"];

#[test]
fn unread_pipelines_do_not_pile_up_in_memory() {
    let body = "v".repeat(3500);
    let origin = Origin::start(move |_, reply| {
        reply.ok(FRESH, &body);
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    let before = larder.usage().rss;
    let many = "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(600);
    // 200 * 600 * 3.5 kB are 420 MB; next to nothing of it is read.
    let mut stalled = Vec::new();
    for _ in 0..200 {
        let mut wire = Wire::connect_narrow(larder.addr());
        // The head of the first answer tells that Larder is at work on them.
        wire.send(&many).read_head();
        stalled.push(wire);
    }
    // Both workers have come round to others since.
    for _ in 0..50 {
        get(larder.addr(), "/").assert_hit();
    }
    let grown = larder.usage().peak_rss.saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB more for 200 connections", grown >> 20);
}

#[test]
fn slow_uploads_leave_the_origin_to_others() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(FRESH, &seen.target);
    });
    let text = format!("[[site]]\norigin = {{ url = \"{}\", max_connections = 8 }}", origin.url());
    let larder = Larder::with_config(&text);
    get(larder.addr(), "/warm");
    // The hit before each tells that Larder has read the upload too.
    let both = "GET /warm HTTP/1.1\r\nHost: site.test\r\n\r\nPOST /slow HTTP/1.1\r\nHost: \
                site.test\r\nContent-Length: 10\r\n\r\nx";
    let mut slow: Vec<Wire> = (0..200).map(|_| larder.connect()).collect();
    for wire in &mut slow {
        wire.send(both);
    }
    for wire in &mut slow {
        wire.read().assert_hit();
    }
    for n in 0..20 {
        let target = format!("/page/{n}");
        assert_eq!(get(larder.addr(), &target).assert_status(200).text(), target);
    }
    // One that goes on is served like any other.
    slow[0].send("123456789");
    slow[0].read().assert_status(200);
}

/// Bodies that are too long to be taken first keep a connection to the origin each. Clients of one
/// address that send nothing more keep 32 of them: a further one is told that it took too long.
#[test]
fn long_uploads_that_stand_still_leave_the_origin_to_others() {
    long_uploads_leave_the_origin_to_others(None);
}

/// The same with clients that send a byte now and then.
#[test]
fn long_uploads_that_drip_leave_the_origin_to_others() {
    long_uploads_leave_the_origin_to_others(Some(Duration::from_millis(400)));
}

/// `pause`: between two bytes of each upload.
fn long_uploads_leave_the_origin_to_others(pause: Option<Duration>) {
    // The share of one client, of 45.
    const CONNECTIONS: usize = 34;
    let origin = Origin::start(|seen, reply| {
        reply.ok(FRESH, &seen.target);
    });
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\nlimits = {{ body_timeout = \"1h\" }}\n\
         [[site]]\norigin = {{ url = \"{}\", max_connections = 45 }}",
        origin.url()
    ));
    let begin = |framing: &str| {
        let mut wire = larder.connect();
        wire.send(format!(
            "POST /up HTTP/1.1\r\nHost: site.test\r\n{framing}\r\n\r\n5\r\nabcde\r\n"
        ));
        wire
    };
    // A byte more is no chunk.
    let framings = match pause {
        None => ["Content-Length: 100000", "Transfer-Encoding: chunked"],
        Some(_) => ["Content-Length: 100000"; 2],
    };
    let mut slow: Vec<Wire> = (0..CONNECTIONS).map(|at| begin(framings[at % 2])).collect();
    wait_until("all connections to be in use", || origin.open_connections() == CONNECTIONS);
    let (over, served) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let mut streams: Vec<&TcpStream> = slow.iter().map(Wire::stream).collect();
        scope.spawn(move || {
            let Some(pause) = pause else { return };
            while served.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                streams.retain_mut(|stream| stream.write_all(b"x").is_ok());
            }
        });
        assert_eq!(get(larder.addr(), "/page").assert_status(200).text(), "/page");
        drop(over);
    });
    let told = slow.iter_mut().filter_map(|wire| {
        if wire.is_idle() { None } else { Some(wire.try_read_for("POST").map(|a| a.status)) }
    });
    let told: Vec<_> = told.collect();
    assert!(!told.is_empty() && told.len() <= CONNECTIONS - 32, "{told:?}");
    assert!(told.iter().all(|status| matches!(status, Ok(408))), "{told:?}");
}

/// Clients that always have sent more, over HTTP and over an object face: the others of their
/// worker are served meanwhile.
#[test]
fn clients_that_send_without_pause_keep_nobody_out() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[memcached]\nlisten = \
         \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"",
        origin.url()
    ));
    get(larder.addr(), "/").assert_status(200);
    let requests = "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(500);
    let value = "v".repeat(10_000);
    let sets = format!("set k 0 0 {} noreply\r\n{value}\r\n", value.len()).repeat(20);
    let (over, streamed) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        for at in 0..8 {
            let (to, bytes) = match at % 2 {
                0 => (larder.addr(), requests.as_bytes()),
                _ => (larder.face("memcached"), sets.as_bytes()),
            };
            let mut sends = TcpStream::connect(to).expect("connected");
            let mut reads = sends.try_clone().expect("a second handle");
            let (over, streamed) = (&over, &streamed);
            scope.spawn(move || {
                while !over.load(Relaxed) && sends.write_all(bytes).is_ok() {
                    streamed.store(true, Relaxed);
                }
                let _ = sends.shutdown(std::net::Shutdown::Both);
            });
            scope.spawn(move || {
                let mut scrap = vec![0; 1 << 20];
                while reads.read(&mut scrap).is_ok_and(|read| read > 0) {}
            });
        }
        wait_until("the clients to stream", || streamed.load(Relaxed));
        let mut other = Talk::tcp(larder.face("memcached"));
        for turn in 0..20 {
            let served = std::panic::catch_unwind(|| get(larder.addr(), "/").is_hit());
            let hit = served.is_ok_and(|hit| hit);
            if turn == 19 || !hit {
                over.store(true, Relaxed);
            }
            assert!(hit, "turn {turn}");
            if turn < 19 {
                other.expect("mn\r\n", "MN\r\n");
            }
        }
    });
}

#[test]
fn stalled_readers_of_large_pages_leave_the_store_to_others() {
    let large = "q".repeat(3_500_000);
    let origin = Origin::start(move |seen, reply| {
        let body: &str = if seen.target.starts_with("/large") { &large } else { &seen.target };
        reply.ok(FRESH, body);
    });
    let text = format!("memory = \"16MiB\"\n[[site]]\norigin = \"{}\"", origin.url());
    let larder = Larder::with_config(&text);
    // 14 * 3.5 MB are three times the memory there is.
    let mut stalled = Vec::new();
    for n in 0..14 {
        let target = format!("/large/{n}");
        get(larder.addr(), &target);
        let mut wire = Wire::connect_narrow(larder.addr());
        wire.send_get(&target, &["Host: site.test"]).read_head();
        stalled.push(wire);
    }
    // Whoever does not read for two seconds counts as stalled; together they may hold half of the
    // memory.
    wait_until("room in the store", || {
        get(larder.addr(), "/small");
        get(larder.addr(), "/small").is_hit()
    });
    for n in 0..20 {
        let target = format!("/small/{n}");
        get(larder.addr(), &target);
        assert_eq!(get(larder.addr(), &target).assert_hit().text(), target);
    }
}
