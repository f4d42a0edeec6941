//! Programs people use with memcached, unchanged, against Larder: libmemcached and its tools,
//! Python's and PHP's clients.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::helper::{Helper, free_port, source_root};
use larder_tests::memcache::{Memcached, client, script};
use larder_tests::{Wire, listening, wait_until};
use std::process::Command;

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All that `memccapable` knows of this protocol passes.
#[track_caller]
fn capable(protocol: &str) {
    let larder = Memcached::larder(&[]);
    let mut command = Command::new("memccapable");
    let output =
        client(command.args(["-h", "127.0.0.1", "-p", &larder.port().to_string(), protocol]));
    let text = said(&output) + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("All tests passed"), "{text}");
    assert!(!text.contains("FAIL"), "{text}");
}

#[test]
fn memccapable_text() {
    capable("-a");
}

#[test]
fn memccapable_binary() {
    capable("-b");
}

#[test]
fn pymemcache() {
    let larder = Memcached::larder(&[]);
    let output = client(script("/usr/bin/python3", "pymemcache_all.py").arg(larder.server()));
    assert_eq!(said(&output), "ok\n");
}

#[test]
fn pylibmc_text_and_binary() {
    for protocol in ["text", "binary"] {
        let larder = Memcached::larder(&[]);
        let output =
            client(script("/usr/bin/python3", "pylibmc_all.py").args([protocol, &larder.server()]));
        assert_eq!(said(&output), "ok\n", "{protocol}");
    }
}

#[test]
fn pylibmc_spreads_keys_over_two() {
    let servers = [Memcached::larder(&[]), Memcached::larder(&[])];
    let addresses = servers.iter().map(Memcached::server);
    let output = client(script("/usr/bin/python3", "pylibmc_all.py").arg("text").args(addresses));
    assert_eq!(said(&output), "ok\n");
}

#[test]
fn php_text_and_binary() {
    for protocol in ["text", "binary"] {
        let larder = Memcached::larder(&[]);
        let port = larder.port().to_string();
        let output =
            client(script("php", "memcached_all.php").args([protocol, "127.0.0.1", &port]));
        assert_eq!(said(&output), "ok\n", "{protocol}");
    }
}

/// Two requests of one visitor, with locking: the second sees what the first stored.
#[test]
fn php_sessions() {
    let larder = Memcached::larder(&[]);
    let port = free_port();
    let path = format!("session.save_path={}", larder.server());
    let mut command = Command::new("sh");
    // `sh` says that it is ready and becomes PHP's web server, which says so on standard error
    // only.
    command.args([
        "-c",
        "echo ready; exec \"$@\" 2>/dev/null",
        "sh",
        "php",
        "-S",
        &format!("127.0.0.1:{port}"),
    ]);
    command.args(["-d", "session.save_handler=memcached", "-d", &path]);
    command.args(["-d", "memcached.sess_locking=On", "-d", "session.use_strict_mode=0"]);
    command.arg("-t").arg(source_root().join("tests/clients"));
    let _php = Helper::start(&mut command, "ready");
    wait_until("PHP to listen", || listening::port(port));
    let visit = || {
        let mut wire = Wire::connect(([127, 0, 0, 1], port).into());
        let fields = ["Host: site.test", "Cookie: PHPSESSID=visitor1", "Connection: close"];
        wire.ask("GET", "/session.php", &fields).body
    };
    assert_eq!(String::from_utf8_lossy(&visit()), "visits 1 10000\n");
    assert_eq!(String::from_utf8_lossy(&visit()), "visits 2 10000\n");
    let stored = larder.connect().ask("get memc.sess.key.visitor1\r\n", "END\r\n");
    assert!(stored.contains("visits|i:2;"), "{}", &stored[..stored.len().min(200)]);
    let lock = larder.connect().ask("get memc.sess.lock.visitor1\r\n", "END\r\n");
    assert_eq!(lock, "END\r\n", "the lock was given back");
}

#[test]
fn the_tools_of_libmemcached() {
    let larder = Memcached::larder(&[]);
    let servers = format!("--servers={}", larder.server());
    let file = larder.dir().join("copied");
    std::fs::write(&file, "content of a file").unwrap();
    client(Command::new("memccp").arg(&servers).arg(&file));
    assert_eq!(
        said(&client(Command::new("memccat").arg(&servers).arg("copied"))).trim_end(),
        "content of a file"
    );
    assert!(
        said(&client(Command::new("memcdump").arg(&servers))).lines().any(|key| key == "copied")
    );
    client(Command::new("memcexist").arg(&servers).arg("copied"));
    client(Command::new("memctouch").arg(&servers).args(["--expire=900", "copied"]));
    let stat = said(&client(Command::new("memcstat").arg(&servers)));
    assert!(stat.contains("curr_items: 1"), "{stat}");
    client(Command::new("memcping").arg(&servers));
    client(Command::new("memcrm").arg(&servers).arg("copied"));
    larder.connect().expect("get copied\r\n", "END\r\n");
    let slap = ["--concurrency=4", "--execute-number=500", "--initial-load=500", "--test=get"];
    client(Command::new("memcslap").arg(&servers).args(slap));
    client(Command::new("memcslap").arg(&servers).args(slap).arg("--binary"));
    assert_ne!(larder.connect().stat("curr_items"), "0");
    client(Command::new("memcflush").arg(&servers));
    let mut talk = larder.connect();
    assert_ne!(talk.stat("cmd_flush"), "0");
}
