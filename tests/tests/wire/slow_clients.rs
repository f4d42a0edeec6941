//! `larder slow` under programs that people use: caches by bytes, and everything over unix sockets.

#![allow(clippy::unwrap_used)]

use larder_tests::databases::{mariadb, mariadb_client, must, postgres, postgres_socket, psql};
use larder_tests::memcache::{client, script};
use larder_tests::slow_proxy::Logged;
use larder_tests::{Memcached, Redis, Scratch, SlowProxy};
use std::path::Path;
use std::process::Command;

/// Every byte is late, in pieces of ten milliseconds' worth, both ways.
const LINE: &[&str] = &[
    "--delay",
    "2ms",
    "--jitter",
    "2ms",
    "--rate",
    "20MB/s",
    "--direction",
    "both",
    "--seed",
    "5",
];

fn unix(path: &Path) -> String {
    format!("unix:{}", path.display())
}

/// From one unix socket to another, each request held for 50 ms.
fn between(listen: &Path, server: &Path, protocol: &str) -> SlowProxy {
    SlowProxy::between(&unix(listen), &unix(server), &["--protocol", protocol, "--delay", "50ms"])
}

#[track_caller]
fn assert_held(logged: &[Logged]) {
    let well = |request: &Logged| {
        request.held >= 50.0 && request.took.is_some_and(|took| took >= request.held)
    };
    assert!(logged.iter().all(well), "{logged:?}");
}

#[test]
fn pymemcache_by_bytes() {
    let server = Memcached::larder(&[]);
    let slow = SlowProxy::before(server.addr(), LINE);
    let output =
        client(script("/usr/bin/python3", "pymemcache_all.py").arg(slow.addr().to_string()));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
    assert!(!slow.finish().contains("delays 0,"));
}

#[test]
fn the_tools_of_libmemcached_by_bytes() {
    let server = Memcached::debian(&[]);
    let slow = SlowProxy::before(server.addr(), LINE);
    let servers = format!("--servers={}", slow.addr());
    let scratch = Scratch::new("memccp");
    let value = "a value of some length\n".repeat(20_000);
    let file = scratch.write("value", &value);
    client(Command::new("memccp").arg(&servers).arg(file));
    assert!(
        must(Command::new("memccat").arg(&servers).arg("value")).trim_end() == value.trim_end()
    );
}

#[test]
fn redis_py_by_bytes() {
    let server = Redis::larder(&[]);
    let slow = SlowProxy::before(server.addr(), LINE);
    let port = slow.addr().port().to_string();
    let output = client(script("/usr/bin/python3", "redis_all.py").args(["127.0.0.1", &port, "3"]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.trim_end().ends_with("OK"), "{said}");
}

#[test]
fn redis_cli_over_unix_sockets() {
    let server = Redis::debian(&["--unixsocket", "@DIR@/socket"]);
    let scratch = Scratch::new("slow-unix");
    let at = scratch.file("redis");
    let slow = between(&at, &server.dir().join("socket"), "redis");
    let cli = || {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(&at);
        command
    };
    assert_eq!(must(cli().args(["set", "greeting", "hello"])), "OK\n");
    assert_eq!(must(cli().args(["get", "greeting"])), "hello\n");
    assert_eq!(must(cli().args(["-r", "3", "incr", "n"])), "1\n2\n3\n");
    let logged = slow.wait_logged(5);
    assert_held(&logged);
    slow.finish();
    assert!(!at.exists(), "the socket is taken away at the end");
}

#[test]
fn mariadb_over_unix_sockets() {
    let server = mariadb();
    let scratch = Scratch::new("slow-unix");
    let at = scratch.file("mariadb");
    let slow = between(&at, &server.dir().join("socket"), "mysql");
    let mut client = mariadb_client(0);
    client
        .args(["-h", "localhost", "-S"])
        .arg(&at)
        .args(["-e", "SELECT 1; SELECT @@skip_networking + 2"]);
    assert_eq!(must(&mut client), "1\n2\n");
    let logged = slow.wait_logged(2);
    assert_held(&logged);
    assert_eq!(logged[0].text, "SELECT 1");
}

#[test]
fn psql_over_unix_sockets() {
    let server = postgres();
    let scratch = Scratch::new("slow-unix");
    let slow = between(&scratch.file(".s.PGSQL.5432"), &postgres_socket(&server), "postgres");
    let mut client = psql(5432);
    client.arg("-h").arg(scratch.path()).args([
        "-c",
        "SELECT inet_client_addr() IS NULL",
        "-c",
        "SELECT 2",
    ]);
    assert_eq!(must(&mut client), "t\n2\n");
    assert_held(&slow.wait_logged(2));
}
