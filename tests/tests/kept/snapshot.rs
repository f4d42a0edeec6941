//! Snapshots: the file has the content of memory between a stop and the next start. It is used
//! once, and refused where it is damaged or too old.

#![allow(clippy::unwrap_used)]

use larder_tests::redis::{keys, words};
use larder_tests::{Larder, Origin, Scratch, get};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

struct Place(Scratch);

impl Place {
    fn file(&self) -> PathBuf {
        self.0.file("snapshot")
    }

    fn start(&self, origin: &Origin, top: &str) -> Larder {
        let config = format!(
            "snapshot = \"{}\"\n{top}\n[http]\nlisten = [\"127.0.0.1:0\"]\n[memcached]\nlisten = \
             [\"127.0.0.1:0\"]\n[redis]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\norigin = \"{}\"\n\
             purge = {{ from = [\"127.0.0.1\"] }}\nsurrogate_control = true\n",
            self.file().display(),
            origin.url()
        );
        Larder::with_config(&config)
    }
}

fn place() -> Place {
    Place(Scratch::new("snapshot"))
}

fn stop(mut larder: Larder) -> String {
    larder.term();
    assert!(larder.wait_exit().success(), "{}", larder.stderr());
    larder.stderr()
}

fn origin() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=6000", "Surrogate-Key: all"], seen.target.repeat(400));
    })
}

/// Sends, and reads up to an end.
fn talk(at: SocketAddr, ask: &[u8], end: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(larder_tests::wait::PATIENCE)).unwrap();
    stream.write_all(ask).unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while !answer.ends_with(end) {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
    }
    answer
}

/// The members of sets and the fields of hashes lie where their hash values say, which must be
/// those of before. (They were not: nothing was found in a large set.)
#[test]
fn members_and_fields_of_large_collections_are_found() {
    let (place, origin) = (place(), origin());
    let larder = place.start(&origin, "");
    let mut redis = larder_tests::Resp::tcp(larder.face("redis"));
    let names = keys("name", 3000);
    redis.ask(&words(&["SADD", "s"], &names));
    redis.ask(&words(&["HSET", "h"], names.iter().flat_map(|name| [name, name])));
    let one = "1".to_owned();
    redis.ask(&words(&["ZADD", "z"], names.iter().flat_map(|name| [&one, name])));
    redis.say("HPEXPIREAT h 4102444800005 FIELDS 1 name7");
    stop(larder);
    let larder = place.start(&origin, "");
    let mut redis = larder_tests::Resp::tcp(larder.face("redis"));
    for (line, answer) in [
        ("HLEN h", "3000"),
        ("HPEXPIRETIME h FIELDS 2 name7 name8", "[4102444800005 -1]"),
        ("SCARD s", "3000"),
    ] {
        assert_eq!(redis.say(line), answer, "{line}");
    }
    for name in names.iter().step_by(50) {
        assert_eq!(redis.ask(&["SISMEMBER", "s", name]).text(), "1", "{name}");
        assert_eq!(redis.ask(&["HGET", "h", name]).text(), *name);
        assert_eq!(redis.ask(&["ZSCORE", "z", name]).text(), "1", "{name}");
    }
    assert_eq!(redis.ask(&words(&["HDEL", "h"], &names)).text(), "3000");
    assert_eq!(redis.ask(&words(&["SREM", "s"], &names)).text(), "3000");
}

#[test]
fn pages_items_and_data_come_back() {
    let (place, origin) = (place(), origin());
    let larder = place.start(&origin, "");
    for n in 0..300 {
        get(larder.addr(), &format!("/{n}"));
    }
    talk(larder.face("memcached"), b"set a 7 0 3\r\none\r\n", b"STORED\r\n");
    talk(larder.face("memcached"), b"set gone 0 1 3\r\none\r\n", b"STORED\r\n");
    talk(larder.face("redis"), b"RPUSH list x y\r\n", b":2\r\n");
    talk(larder.face("redis"), b"SET n 41\r\n", b"+OK\r\n");
    let said = stop(larder);
    assert!(said.contains("segments of memory are in"), "{said}");
    let mode = std::fs::metadata(place.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let larder = place.start(&origin, "");
    assert!(larder.stderr().contains("entries of the snapshot"), "{}", larder.stderr());
    assert!(!place.file().exists(), "it is used once");
    for n in 0..300 {
        let path = format!("/{n}");
        assert_eq!(get(larder.addr(), &path).text(), path.repeat(400));
    }
    assert_eq!(origin.count(), 300);
    let item = talk(larder.face("memcached"), b"get a\r\n", b"END\r\n");
    assert_eq!(item, b"VALUE a 7 3\r\none\r\nEND\r\n");
    let list = talk(larder.face("redis"), b"LRANGE list 0 -1\r\n", b"y\r\n");
    assert_eq!(list, b"*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
    assert_eq!(talk(larder.face("redis"), b"INCR n\r\n", b"\r\n"), b":42\r\n");
    larder_tests::wait_until("the item to expire", || {
        talk(larder.face("memcached"), b"get gone\r\n", b"END\r\n") == b"END\r\n"
    });
    // Purges and tags know what came back, and again after the next stop.
    let purge = |larder: &Larder, path: &str, fields: &[&str]| {
        larder.connect().ask("PURGE", path, &[&["Host: site.test"], fields].concat()).status
    };
    let mut one = larder.connect();
    one.get("/purged", &[]);
    assert_eq!(purge(&larder, "/purged", &[]), 200);
    stop(larder);
    let larder = place.start(&origin, "");
    let before = origin.count();
    larder.connect().get("/purged", &[]);
    assert_eq!(origin.count(), before + 1, "a purged page does not come back");
    stop(larder);
}

#[test]
fn a_kill_leaves_none_behind() {
    let (place, origin) = (place(), origin());
    let larder = place.start(&origin, "");
    get(larder.addr(), "/page");
    stop(larder);
    let mut larder = place.start(&origin, "");
    let pid = Pid::from_raw(larder.pid() as i32).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    larder.wait_exit();
    let larder = place.start(&origin, "");
    get(larder.addr(), "/page");
    assert_eq!(origin.count(), 2, "what may be stale is not used");
}

#[test]
fn damage_and_age_and_other_memory_are_refused() {
    let origin = origin();
    let change = |change: &dyn Fn(Vec<u8>) -> Vec<u8>, top: &str| {
        let place = place();
        let larder = place.start(&origin, "");
        get(larder.addr(), "/page");
        stop(larder);
        let bytes = std::fs::read(place.file()).unwrap();
        std::fs::write(place.file(), change(bytes)).unwrap();
        let larder = place.start(&origin, top);
        assert!(!place.file().exists());
        get(larder.addr(), "/page");
        let said = larder.stderr();
        stop(larder);
        said.lines().find(|line| line.contains("is not used")).unwrap_or_default().to_owned()
    };
    let flip = |at: usize| {
        move |mut bytes: Vec<u8>| {
            let at = at % bytes.len();
            bytes[at] ^= 4;
            bytes
        }
    };
    for at in [3, 20, 30, 1000, 70_000, usize::MAX / 2, usize::MAX / 3] {
        assert!(change(&flip(at), "").ends_with("it is damaged"), "{at}");
    }
    for end in [0, 5, 40, 100_000] {
        let cut = move |bytes: Vec<u8>| bytes[..end.min(bytes.len() - 1)].to_vec();
        assert!(change(&cut, "").ends_with("it is damaged"), "{end}");
    }
    let same = |bytes: Vec<u8>| bytes;
    assert_eq!(change(&same, ""), "");
    let more = change(&same, "memory = \"96MiB\"");
    assert!(more.contains("made for less"), "{more}");
    let old = |mut bytes: Vec<u8>| {
        // Written a day before; its checksum does not fit then, so it is refused as damaged.
        bytes[8..16].copy_from_slice(&0u64.to_le_bytes());
        bytes
    };
    assert!(change(&old, "").ends_with("it is damaged"));
}

/// A device in its place, for one, is neither read nor replaced.
#[test]
fn what_is_no_file_stays_as_it_is() {
    let (place, origin) = (place(), origin());
    let made = std::process::Command::new("mkfifo").arg(place.file()).status().unwrap();
    assert!(made.success());
    let larder = place.start(&origin, "");
    get(larder.addr(), "/page");
    let said = stop(larder);
    assert!(said.contains("is not used: it is not a file of this user"), "{said}");
    assert!(!said.contains("segments of memory are in"), "{said}");
    let kind = std::fs::symlink_metadata(place.file()).unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
    assert!(!place.file().with_extension("new").exists());
}

#[test]
fn an_old_snapshot_is_refused() {
    let (place, origin) = (place(), origin());
    let larder = place.start(&origin, "");
    get(larder.addr(), "/page");
    stop(larder);
    // The clock cannot be set here: it is waited for.
    let written = std::fs::metadata(place.file()).unwrap().modified().unwrap();
    larder_tests::wait_until("it to be old", || written.elapsed().unwrap().as_millis() > 1500);
    let larder = place.start(&origin, "snapshot_max_age = \"1s\"");
    let said = larder.stderr();
    assert!(said.contains("is not used: it is ") && said.contains(" s old"), "{said}");
    get(larder.addr(), "/page");
    assert_eq!(origin.count(), 2);
}

#[test]
fn memcached_has_its_flag() {
    let place = place();
    let file = place.file();
    let flags = ["-e", file.to_str().unwrap(), "-t", "2", "-U", "0"];
    let mut first = larder_tests::memcache::Memcached::larder(&flags);
    talk(first.addr(), b"set a 7 0 3\r\none\r\n", b"STORED\r\n");
    first.term();
    first.wait_exit();
    assert!(file.exists());
    let second = larder_tests::memcache::Memcached::larder(&flags);
    let item = talk(second.addr(), b"get a\r\n", b"END\r\n");
    assert_eq!(item, b"VALUE a 7 3\r\none\r\nEND\r\n");
}
