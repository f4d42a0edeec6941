//! Values of memcached's items on the disk (`memcached.disk`): more than memory holds is found with
//! the right bytes, and nothing that was written anew, removed, flushed or damaged.

#![allow(clippy::unwrap_used)]

use super::disk::kill;
use larder_tests::memcache::Talk;
use larder_tests::{Admin, Larder, Scratch, wait_until};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Items of about 6 KB: three times the memory of 16 MiB.
pub(super) const ITEMS: u32 = 8_500;

fn start(path: &Path, top: &str, memcached: &str) -> Larder {
    Larder::with_config(&config(path, top, memcached))
}

/// Further lines are of the disk.
pub(super) fn config(path: &Path, top: &str, memcached: &str) -> String {
    format!(
        "memory = \"16MiB\"\n{top}\n[http]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\norigin = \
         \"http://127.0.0.1:9\"\n[memcached]\nlisten = [\"127.0.0.1:0\"]\ndisk = true\n\
         {memcached}\n[admin]\nlisten = \"127.0.0.1:0\"\n[disk]\npath = \"{}\"\nsize = \
         \"256MiB\"\npatience = \"20s\"\n",
        path.display()
    )
}

pub(super) fn talk(larder: &Larder) -> Talk<TcpStream> {
    Talk::tcp(larder.face("memcached"))
}

pub(super) fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["disk"][name].as_u64().unwrap()
}

/// The value of an item's version: each has its own bytes and length.
fn value(n: u32, version: u32) -> String {
    let word = format!("{n}.{version} ");
    word.repeat((5_000 + n as usize % 2_000) / word.len())
}

pub(super) fn set(talk: &mut Talk<TcpStream>, n: u32, version: u32) {
    let value = value(n, version);
    talk.expect(format!("set key{n} {n} 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
}

pub(super) fn hit(n: u32, version: u32) -> String {
    let value = value(n, version);
    format!("VALUE key{n} {n} {}\r\n{value}\r\n", value.len())
}

/// Writes items, about as fast as the disk takes what leaves memory. One that it does not take in
/// time is evicted.
fn write(larder: &Larder, talk: &mut Talk<TcpStream>, items: std::ops::Range<u32>) {
    let before = figure(larder, "object_stores") + figure(larder, "object_drops");
    let mut room = None;
    for (count, n) in (1u64..).zip(items) {
        set(talk, n, 0);
        if count % 10 != 0 {
            continue;
        }
        // Memory is full within a segment or two of items: from then on, as many have to leave.
        if room.is_none() && talk.stat("slab_global_page_pool").parse::<u64>().unwrap() <= 3 {
            room = Some(count + 90);
        }
        if let Some(room) = room {
            let left = || figure(larder, "object_stores") + figure(larder, "object_drops") - before;
            wait_until("the disk keeps up", || left() + room >= count);
        }
    }
}

pub(super) fn fill(larder: &Larder, talk: &mut Talk<TcpStream>) {
    write(larder, talk, 0..ITEMS);
}

#[test]
fn three_times_the_memory_is_found_with_its_bytes() {
    let place = Scratch::new("objects");
    let larder = start(&place.file("disk"), "", "");
    let mut talk = talk(&larder);
    fill(&larder, &mut talk);
    // One by one, and many at once: with other keys around, and one that was never there.
    let mut found = 0;
    for n in 0..ITEMS / 2 {
        let answer = talk.ask(format!("get key{n}\r\n"), "END\r\n");
        found += u32::from(answer != "END\r\n");
        assert!(answer == "END\r\n" || answer == format!("{}END\r\n", hit(n, 0)), "{n}");
    }
    for n in (ITEMS / 2..ITEMS).step_by(50) {
        let keys: String = (n..n + 50).map(|n| format!(" key{n} no{n}")).collect();
        let answer = talk.ask(format!("get{keys}\r\n"), "END\r\n");
        let there = (n..n + 50).map(|n| hit(n, 0)).filter(|hit| answer.contains(hit));
        let hits: Vec<String> = there.collect();
        assert!(answer == format!("{}END\r\n", hits.concat()), "from {n} on");
        found += hits.len() as u32;
    }
    assert!(found > ITEMS / 2, "{found} of {ITEMS} found");
    let evicted: u32 = talk.stat("evictions").parse().unwrap();
    assert!(found + evicted >= ITEMS, "{found} found, {evicted} evicted");
    let read = figure(&larder, "object_hits");
    assert!(read > u64::from(ITEMS / 3), "{read} values were read");
    let figure = |name: &str| figure(&larder, name);
    assert_eq!((figure("object_lost"), figure("object_late")), (0, 0));
    assert_eq!(talk.stat("get_hits"), found.to_string());
    assert_eq!(talk.stat("get_extstore"), read.to_string());
    assert_eq!(talk.stat("recache_from_extstore"), read.to_string());
    assert_eq!(talk.stat("extstore_objects_read"), read.to_string());
    let metric = Admin::of(&larder).metric("larder_disk_objects_total{outcome=\"hit\"}");
    assert_eq!(metric, read);
}

/// Has the first items leave memory for the disk: others take their place. Where the disk did not
/// take one of them in time, all is done again.
pub(super) fn away(larder: &Larder, talk: &mut Talk<TcpStream>, first: u32, also: &str) {
    for _ in 0..20 {
        (0..first).for_each(|n| set(talk, n, 0));
        if !also.is_empty() {
            talk.expect(also, "STORED\r\n");
        }
        write(larder, talk, 100_000..104_500);
        let mut is_there = |key: String| talk.ask(format!("mg {key}\r\n"), "\r\n") == "HD\r\n";
        let others = also.is_empty() || is_there("number".to_owned());
        if others && (0..first).all(|n| is_there(format!("key{n}"))) {
            return;
        }
    }
    panic!("the disk never keeps up");
}

#[test]
fn every_command_does_what_it_does_in_memory() {
    let place = Scratch::new("objects");
    let larder = start(&place.file("disk"), "", "");
    let mut talk = talk(&larder);
    let number = format!("set number 0 0 6000\r\n{:<6000}\r\n", 41);
    away(&larder, &mut talk, 40, &number);
    let hits = || figure(&larder, "object_hits");
    // Those that need no value read none.
    set(&mut talk, 0, 1);
    talk.expect("delete key1\r\n", "DELETED\r\n");
    talk.expect("add key2 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    talk.expect("add key1 0 0 1\r\nx\r\n", "STORED\r\n");
    talk.expect("replace key3 0 0 1\r\ny\r\n", "STORED\r\n");
    talk.expect("touch key4 1000\r\n", "TOUCHED\r\n");
    talk.expect("touch key5 -1\r\n", "TOUCHED\r\n");
    let length = value(6, 0).len();
    talk.expect("mg key6 s f t\r\n", &format!("HD s{length} f6 t-1\r\n"));
    talk.expect("cas key7 0 0 1 1\r\nx\r\n", "EXISTS\r\n");
    talk.expect("md key8\r\n", "HD\r\n");
    talk.expect("md key9 x\r\n", "HD\r\n");
    let version = talk.ask("mg key10 c\r\n", "\r\n").trim().replace("HD c", "");
    talk.expect(format!("ms key10 1 C{version}\r\nz\r\n"), "HD\r\n");
    talk.expect("verbosity 0\r\n", "OK\r\n");
    assert_eq!(hits(), 0);
    talk.expect("get key0\r\n", &format!("{}END\r\n", hit(0, 1)));
    talk.expect(
        "get key1 key3 key5 key8\r\n",
        "VALUE key1 0 1\r\nx\r\nVALUE key3 0 1\r\ny\r\nEND\r\n",
    );
    talk.expect("mg key9 v s\r\n", "VA 0 s0\r\n\r\n");
    talk.expect("mg key10 v\r\n", "VA 1\r\nz\r\n");
    assert_eq!(hits(), 0);
    // Those that need it get it: the same version, flags and expiry.
    talk.expect("get key4\r\n", &format!("{}END\r\n", hit(4, 0)));
    let left: i64 = talk.ask("mg key4 t\r\n", "\r\n").trim().replace("HD t", "").parse().unwrap();
    assert!((900..=1000).contains(&left), "{left}");
    let before = talk.ask("mg key11 c\r\n", "\r\n");
    let answer = talk.ask("gets key11\r\n", "END\r\n");
    let version = before.trim().replace("HD c", "");
    let head = format!("VALUE key11 11 {} {version}\r\n", value(11, 0).len());
    assert!(answer.starts_with(&head), "{}", &answer[..60]);
    talk.expect("append key12 0 0 3\r\nend\r\n", "STORED\r\n");
    talk.expect("prepend key13 0 0 5\r\nstart\r\n", "STORED\r\n");
    talk.expect("ms key14 3 MA\r\nend\r\n", "HD\r\n");
    let long = "l".repeat(100_000);
    talk.expect(format!("append key15 0 0 100000\r\n{long}\r\n"), "STORED\r\n");
    for (n, start, end) in [(12, "", "end"), (13, "start", ""), (14, "", "end"), (15, "", &*long)] {
        let value = format!("{start}{}{end}", value(n, 0));
        let answer = format!("VALUE key{n} {n} {}\r\n{value}\r\nEND\r\n", value.len());
        talk.expect(format!("get key{n}\r\n"), &answer);
    }
    talk.expect("incr number 1\r\n", "42\r\n");
    talk.expect(
        "incr key16 1\r\n",
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    );
    talk.expect("md key17 I\r\n", "HD\r\n");
    let stale = format!("VA {} W X\r\n{}\r\n", value(17, 0).len(), value(17, 0));
    let stale = stale.replace(" W X", " X W");
    talk.expect("mg key17 v\r\n", &stale);
    talk.expect("gat 500 key18\r\n", &format!("{}END\r\n", hit(18, 0)));
    let value19 = value(19, 0);
    talk.expect("mg key19 v q\r\nmn\r\n", &format!("VA {}\r\n{value19}\r\nMN\r\n", value19.len()));
    assert_eq!(hits(), 11);
    assert_eq!(figure(&larder, "object_lost"), 0);
}

#[test]
fn the_binary_protocol_and_datagrams() {
    let place = Scratch::new("objects");
    // A port that was free a moment ago.
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let larder = start(&place.file("disk"), "", &format!("udp = [\"{free}\"]"));
    let mut text = talk(&larder);
    away(&larder, &mut text, 10, "");
    let packet = |opcode: u8, key: &str, extras: usize, value: &str| {
        let body = (extras + key.len() + value.len()) as u32;
        let mut out = vec![0x80, opcode, 0, key.len() as u8, extras as u8, 0, 0, 0];
        out.extend_from_slice(&body.to_be_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(value.as_bytes());
        out
    };
    let mut binary = talk(&larder);
    // A get, an append, a get of what is not there, in one batch.
    let all = [(0u8, "key1", ""), (0x0e, "key2", "end"), (0, "none", ""), (0, "key2", "")];
    let batch: Vec<u8> =
        all.iter().flat_map(|(op, key, value)| packet(*op, key, 0, value)).collect();
    binary.send(&batch);
    for (opcode, status, extra, value) in [
        (0u8, 0u8, 4, value(1, 0)),
        (0x0e, 0, 0, String::new()),
        (0, 1, 0, "Not found".to_owned()),
        (0, 0, 4, value(2, 0) + "end"),
    ] {
        let head = binary.take(24);
        assert_eq!((head[1], head[7], head[4]), (opcode, status, extra));
        let body = binary.take(usize::from(extra) + value.len());
        assert_eq!(&body[usize::from(extra)..], value.as_bytes());
    }
    assert_eq!(figure(&larder, "object_hits"), 2);
    // A datagram is answered at once: a miss, and the item stays.
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(larder_tests::wait::PATIENCE)).unwrap();
    udp.connect(free).unwrap();
    udp.send(b"\0\x07\0\0\0\x01\0\0get key1 key3\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"END\r\n") {
        let mut piece = [0; 2_000];
        let read = udp.recv(&mut piece).unwrap();
        answer.extend_from_slice(&piece[8..read]);
    }
    assert_eq!(String::from_utf8(answer).unwrap(), format!("{}END\r\n", hit(1, 0)));
    text.expect("get key3\r\n", &format!("{}END\r\n", hit(3, 0)));
}

#[test]
fn a_flush_and_expiries_hold_on_the_disk() {
    let place = Scratch::new("objects");
    let larder = start(&place.file("disk"), "", "");
    let mut talk = talk(&larder);
    away(&larder, &mut talk, 100, "");
    let past = (0..50).map(|n| format!("touch key{n} -1\r\n")).collect::<String>();
    talk.send(past);
    for _ in 0..50 {
        assert_eq!(talk.take(9), b"TOUCHED\r\n");
    }
    for n in 0..50 {
        talk.expect(format!("get key{n}\r\n"), "END\r\n");
    }
    talk.expect("get key50\r\n", &format!("{}END\r\n", hit(50, 0)));
    talk.expect("flush_all\r\n", "OK\r\n");
    for n in (50..100).chain(100_000..104_500) {
        talk.expect(format!("get key{n}\r\n"), "END\r\n");
    }
    // The same keys have no value of before.
    set(&mut talk, 60, 1);
    talk.expect("get key60 key61\r\n", &format!("{}END\r\n", hit(60, 1)));
}

#[test]
fn a_damaged_segment_is_a_miss_and_never_a_wrong_byte() {
    let place = Scratch::new("objects");
    let path = place.file("disk");
    let larder = start(&path, "", "");
    let mut talk = talk(&larder);
    fill(&larder, &mut talk);
    // A bit in every 3,000 bytes of all segments: no value is whole.
    for file in std::fs::read_dir(&path).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "segment") {
            continue;
        }
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        for at in (0..file.metadata().unwrap().len()).step_by(3_000) {
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 4], at).unwrap();
        }
    }
    let (mut found, mut gone) = (0, 0);
    for n in 0..ITEMS {
        let answer = talk.ask(format!("get key{n}\r\n"), "END\r\n");
        if answer != "END\r\n" {
            assert_eq!(answer, format!("{}END\r\n", hit(n, 0)));
            found += 1;
        } else {
            gone = n;
        }
    }
    let lost = figure(&larder, "object_lost");
    assert!(lost > 2_000 && found + lost <= u64::from(ITEMS), "{found} found, {lost} lost");
    assert_eq!(talk.stat("miss_from_extstore"), lost.to_string());
    assert_eq!(talk.stat("get_misses"), (u64::from(ITEMS) - found).to_string());
    // A lost one is gone, and can be written again.
    assert_eq!(talk.stat("curr_items"), found.to_string());
    talk.expect(format!("add key{gone} 0 0 1\r\nx\r\n"), "STORED\r\n");
}

#[test]
fn values_are_found_after_a_stop_with_a_snapshot_and_not_after_a_kill() {
    let place = Scratch::new("objects");
    let snapshot = format!("snapshot = \"{}\"", place.file("snapshot").display());
    let mut larder = start(&place.file("disk"), &snapshot, "");
    let mut client = talk(&larder);
    fill(&larder, &mut client);
    larder.term();
    assert!(larder.wait_exit().success(), "{}", larder.stderr());
    let larder = start(&place.file("disk"), &snapshot, "");
    wait_until("the index is filled", || figure(&larder, "load_ms") > 0);
    let mut client = talk(&larder);
    // Values that are written now have names of their own.
    (0..1_000).for_each(|n| set(&mut client, n, 1));
    let mut missing = 0;
    for n in 0..ITEMS {
        let answer = client.ask(format!("get key{n}\r\n"), "END\r\n");
        missing += u32::from(answer == "END\r\n");
        let expected = format!("{}END\r\n", hit(n, u32::from(n < 1_000)));
        assert!(answer == expected || answer == "END\r\n", "{n}");
    }
    assert!(missing < ITEMS / 2, "{missing}");
    assert!(figure(&larder, "object_hits") > 2_000);
    kill(larder);
    let larder = start(&place.file("disk"), &snapshot, "");
    let mut client = talk(&larder);
    for n in 0..ITEMS {
        client.expect(format!("get key{n}\r\n"), "END\r\n");
    }
}

#[test]
fn where_it_cannot_be_it_is_refused() {
    let refused = |text: &str| {
        let place = Scratch::new("refused");
        std::fs::write(place.file("larder.toml"), text).unwrap();
        let file = place.file("larder.toml");
        let (status, out, error) = larder_tests::larder::run(&["check", file.to_str().unwrap()]);
        assert!(!status.success(), "{text}");
        out + &error
    };
    let disk = "[disk]\npath = \"disk\"\nsize = \"64MiB\"\n";
    let own = "[memcached]\nlisten = [\"127.0.0.1:0\"]\ndisk = true\n";
    assert!(refused(own).contains("needs a table [disk]"));
    assert!(refused(&format!("{own}evict = false\n{disk}")).contains("`evict` is false"));
    let shared = "[redis]\nlisten = [\"127.0.0.1:0\"]\nshare_memcached = true\n";
    assert!(refused(&format!("{own}{shared}{disk}")).contains("share_memcached"));
}
