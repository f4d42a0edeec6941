//! Promises of memcached's document (protocol.txt) and of its flags that a comparison with the real
//! memcached cannot show.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::memcache::{End, Memcached, Talk, wait_refused};
use larder_tests::{Larder, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn value(len: usize) -> String {
    "0123456789abcdef".repeat(len / 16 + 1)[..len].to_owned()
}

/// "clients will not be able to retrieve this item after the expiration time arrives"
#[test]
fn an_item_expires() {
    let larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    talk.expect("set k 0 1 1\r\nx\r\nset stays 0 1000 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    wait_until("the item to expire", || talk.ask("get k\r\n", "END\r\n") == "END\r\n");
    talk.expect("touch k 10\r\nadd k 0 0 1\r\nz\r\n", "NOT_FOUND\r\nSTORED\r\n");
    talk.expect("get stays\r\n", "VALUE stays 0 1\r\ny\r\nEND\r\n");
}

/// "If it's non-zero (either Unix time or offset in seconds from current time)": a UNIX time.
#[test]
fn an_item_expires_at_a_unix_time() {
    let larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    let now: u64 = talk.stat("time").parse().unwrap();
    talk.expect(format!("set k 0 {} 1\r\nx\r\n", now + 1000), "STORED\r\n");
    let left: u64 =
        talk.ask("mg k t\r\n", "\r\n").trim().strip_prefix("HD t").unwrap().parse().unwrap();
    assert!((990..=1000).contains(&left), "{left}");
    talk.expect(format!("set k 0 {} 1\r\nx\r\nget k\r\n", now - 1), "STORED\r\nEND\r\n");
}

/// "flush_all ... The effect of it is that ... the items will be invalidated after the delay"
#[test]
fn a_flush_with_a_delay() {
    let larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    talk.expect("set k 0 0 1\r\nx\r\nflush_all 2\r\n", "STORED\r\nOK\r\n");
    talk.expect("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    wait_until("the flush", || talk.ask("get k\r\n", "END\r\n") == "END\r\n");
    talk.expect("set k 0 0 1\r\ny\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn values_up_to_the_item_size() {
    let larder = Memcached::larder(&["-I", "80m", "-m", "512"]);
    let mut talk = larder.connect();
    for len in [(1 << 20) - 200, 1 << 20, 5_000_000, 64 << 20] {
        let value = value(len);
        talk.expect(format!("set k 0 0 {len}\r\n{value}\r\n"), "STORED\r\n");
        talk.send("get k\r\n");
        assert_eq!(
            talk.take(format!("VALUE k 0 {len}\r\n").len()),
            format!("VALUE k 0 {len}\r\n").as_bytes()
        );
        assert!(talk.take(len) == value.as_bytes(), "{len} bytes came back different");
        assert_eq!(talk.take(7), b"\r\nEND\r\n");
    }
}

#[test]
fn a_value_too_large_is_refused_and_what_it_was_to_replace_is_gone() {
    let larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    let value = value((1 << 20) + 1);
    talk.expect("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    talk.expect(format!("set k 0 0 {}\r\n{value}\r\n", value.len()), too_large);
    talk.expect("get k\r\nversion\r\n", "END\r\nVERSION 1.6.18\r\n");
}

#[test]
fn a_connection_too_many_is_told_so() {
    let larder = Memcached::larder(&["-c", "3"]);
    let mut kept = [(); 3].map(|()| larder.connect());
    for talk in &mut kept {
        talk.expect("mn\r\n", "MN\r\n");
    }
    let refused = larder.connect().rest();
    assert_eq!(String::from_utf8_lossy(&refused), "ERROR Too many open connections\r\n");
    let [mut first, second, _third] = kept;
    drop(second);
    wait_until("a seat", || larder.connect().send("mn\r\n").take(4) == b"MN\r\n");
    assert_ne!(first.stat("rejected_connections"), "0");
}

#[test]
fn an_idle_connection_is_closed() {
    let larder = Memcached::larder(&["-o", "idle_timeout=1"]);
    let mut idle = larder.connect();
    idle.expect("mn\r\n", "MN\r\n");
    assert_eq!(idle.rest(), b"");
    // Counted once it is closed, by its own thread: another may be asked before.
    let mut other = larder.connect();
    wait_until("the closing to be counted", || other.stat("idle_kicks") == "1");
}

#[test]
fn a_unix_socket_has_its_mode() {
    let larder = Memcached::larder(&["-s", "@DIR@/socket", "-a", "0770"]);
    let path = larder.dir().join("socket");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o770, "{mode:o}");
    Talk::unix(&path)
        .expect("set k 0 0 1\r\nx\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn sigterm_ends_it_in_order() {
    let mut larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    talk.expect("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    larder.term();
    assert!(larder.wait_exit().success());
    assert_eq!(talk.rest(), b"", "idle connections are closed");
    wait_refused(larder.addr());
}

#[test]
fn shutdown_ends_it_where_it_is_allowed() {
    let closed = Memcached::larder(&[]);
    closed.connect().expect("shutdown\r\nmn\r\n", "ERROR: shutdown not enabled\r\nMN\r\n");
    let mut larder = Memcached::larder(&["-A"]);
    larder.connect().send("shutdown\r\n").rest();
    assert!(larder.wait_exit().success());
}

#[test]
fn commands_that_are_switched_off() {
    let larder = Memcached::larder(&["-F", "-X", "-W", "-C"]);
    let mut talk = larder.connect();
    talk.expect("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
    talk.expect("stats cachedump 1 1\r\n", "CLIENT_ERROR stats cachedump not allowed\r\n");
    talk.expect("watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n");
    talk.expect("set k 0 0 1\r\nx\r\ngets k\r\n", "STORED\r\nVALUE k 0 1 0\r\nx\r\nEND\r\n");
}

/// "-M: return error on memory exhausted (rather than removing items)": what is there can be
/// touched even so.
#[test]
fn a_full_memory_without_evictions_keeps_and_touches_its_items() {
    let larder = Memcached::larder(&["-M", "-m", "16"]);
    let mut talk = larder.connect();
    let mut stored = 0;
    for len in [100_000, 1000] {
        let value = value(len);
        let refused = "SERVER_ERROR out of memory storing object\r\n";
        while talk.ask(format!("set k{stored} 0 0 {len}\r\n{value}\r\n"), "\r\n") != refused {
            stored += 1;
        }
    }
    let last = stored - 1;
    for n in (0..300).chain([last]) {
        talk.expect(format!("touch k{n} 100\r\nmg k{n} t\r\n"), "TOUCHED\r\nHD t100\r\n");
        talk.expect(format!("mg k{n} T30 t\r\n"), "HD t30\r\n");
        talk.expect(format!("touch k{n} 0\r\nmg k{n} t\r\n"), "TOUCHED\r\nHD t-1\r\n");
    }
    let small = value(1000);
    let one = format!("VALUE k{last} 0 1000\r\n{small}\r\n");
    talk.expect(format!("gat 50 k{last} absent k{last}\r\n"), &format!("{one}{one}END\r\n"));
    let marked = format!("HD\r\nVA 1000 t30 X W\r\n{small}\r\n");
    talk.expect(format!("md k{last} I T30\r\nmg k{last} v t\r\n"), &marked);
    // Too far away for where the item lies, and there is no other place: it stays, and the client
    // learns of it.
    let far = talk.stat("time").parse::<u64>().unwrap() + 1000 * 86_400;
    let refused = "SERVER_ERROR out of memory storing object\r\n";
    talk.expect(format!("touch k5 {far}\r\nmg k5 T{far} t\r\n"), &refused.repeat(2));
    let unread = "SERVER_ERROR out of memory writing get response\r\n";
    talk.expect(
        format!("gat {far} k5\r\ngat {far} k5 k6\r\nmn\r\n"),
        &format!("{unread}{unread}MN\r\n"),
    );
    talk.expect(
        format!("md k5 I T{far}\r\nmg k5 s t\r\n"),
        &format!("{refused}HD s100000 t-1 X W\r\n"),
    );
    assert_eq!(
        (talk.stat("evictions"), talk.stat("touch_misses")),
        ("0".to_owned(), "1".to_owned())
    );
}

/// A client that asks for much and reads nothing costs a bounded amount of memory, and others are
/// served.
#[test]
fn a_slow_reader_costs_little() {
    let larder = Memcached::larder(&["-t", "1"]);
    let mut talk = larder.connect();
    let value = value(500_000);
    talk.expect(format!("set k 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    let before = larder.usage().rss;
    let asks = "get k k k k k k k k\r\n".repeat(500);
    let mut slow = (0..8).map(|_| larder.connect()).collect::<Vec<_>>();
    for reader in &mut slow {
        // Two gigabytes are asked for by each.
        reader.send(&asks);
    }
    for _ in 0..200 {
        talk.expect("mn\r\n", "MN\r\n");
    }
    let grown = larder.usage().rss.saturating_sub(before);
    assert!(grown < 32 << 20, "grew by {grown} bytes");
    // It was no refusal: a slow reader is served when it reads.
    slow[0].patience(Duration::from_secs(20));
    assert_eq!(slow[0].more(), End::Found);
    assert!(slow[0].take(16) == b"VALUE k 0 500000");
}

#[test]
fn many_keys_in_one_get() {
    let larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    let (mut stores, mut line, mut answer) = (String::new(), "get".to_owned(), String::new());
    for n in 0..5000 {
        stores += &format!("set key{n} 0 0 4 noreply\r\nabcd\r\n");
        line += &format!(" key{n} absent{n}");
        answer += &format!("VALUE key{n} 0 4\r\nabcd\r\n");
    }
    talk.send(stores).expect("mn\r\n", "MN\r\n");
    talk.expect(line + "\r\n", &(answer + "END\r\n"));
}

/// `larder serve` says where a face on any port listens.
#[test]
fn serve_with_a_memcached_face() {
    let larder = Larder::with_config(
        "[[site]]\norigin = \"http://127.0.0.1:9\"\n[http]\nlisten = \
         [\"127.0.0.1:0\"]\n[memcached]\nlisten = [\"127.0.0.1:0\"]\n",
    );
    Talk::tcp(larder.face("memcached"))
        .expect("set k 0 0 1\r\nx\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
}
