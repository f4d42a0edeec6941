//! `larder slow` before real databases: one delay for each statement, and each statement's time.
//!
//! Delays are what is tested here, so times are asserted: that nothing is shorter than it must be,
//! and, with hundreds of milliseconds to spare, that concurrent statements do not wait for each
//! other.

#![allow(clippy::unwrap_used)]

use larder_tests::databases::{mariadb, mariadb_client, must, postgres, postgres_bin, psql};
use larder_tests::slow_proxy::Logged;
use larder_tests::{Scratch, SlowProxy, Wire, wait_until};
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MYSQL: &[&str] = &["--protocol", "mysql"];
const POSTGRES: &[&str] = &["--protocol", "postgres"];

fn texts(logged: &[Logged]) -> Vec<&str> {
    logged.iter().map(|request| request.text.as_str()).collect()
}

/// Each was held for the delay, and answered after it.
#[track_caller]
fn assert_held(logged: &[Logged], ms: f64) {
    for request in logged {
        assert!(
            request.held >= ms && request.took.is_some_and(|took| took >= request.held),
            "{request:?}"
        );
    }
}

fn php(script: &str, port: u16) -> String {
    must(Command::new("php").args([
        "-n",
        "-d",
        "extension=mysqlnd",
        "-d",
        "extension=mysqli",
        "-r",
        script,
        "--",
        &port.to_string(),
    ]))
}

#[test]
fn mariadb_statements_are_delayed_once_each() {
    let server = mariadb();
    let slow = SlowProxy::before(server.addr(), &[MYSQL, &["--delay", "300ms"]].concat());
    let printed = must(
        mariadb_client(slow.addr().port())
            .args(["-e", "SELECT 1; SELECT 2; SELECT 'x' FROM seq_1_to_1000"])
            .arg("mysql"),
    );
    assert!(printed.starts_with("1\n2\n"), "{printed}");
    let logged = slow.wait_logged(3);
    assert_eq!(texts(&logged), ["SELECT 1", "SELECT 2", "SELECT 'x' FROM seq_1_to_1000"]);
    assert_held(&logged, 300.0);
    slow.usr1();
    slow.wait_said("requests 3,");
}

#[test]
fn mariadb_through_php_with_prepared_and_multiple_statements() {
    let server = mariadb();
    let slow = SlowProxy::before(server.addr(), &[MYSQL, &["--delay", "100ms"]].concat());
    let script = r#"
        $db = new mysqli('127.0.0.1', 'root', '', 'mysql', (int)$argv[1]);
        $db->ping();
        $s = $db->prepare('SELECT ? + 1'); $x = 41; $s->bind_param('i', $x);
        $s->execute(); echo $s->get_result()->fetch_row()[0], ' ';
        $s->execute(); echo $s->get_result()->fetch_row()[0], ' ';
        $s->close();
        $db->multi_query('SELECT 1; SELECT 2; SELECT 3');
        do { if ($r = $db->store_result()) echo json_encode($r->fetch_all()); } while ($db->more_results() && $db->next_result());
        $db->change_user('root', '', 'mysql');
        try { $db->query('SELECT nothing'); } catch (mysqli_sql_exception $e) { echo ' ', $e->getCode(), ' '; }
        echo strlen($db->query("SELECT REPEAT('y', 20000000)", MYSQLI_USE_RESULT)->fetch_row()[0] ?? '');
    "#;
    must(
        mariadb_client(server.port())
            .args(["-e", "SET GLOBAL max_allowed_packet = 64 * 1024 * 1024"]),
    );
    assert_eq!(php(script, slow.addr().port()), "42 42 [[\"1\"]][[\"2\"]][[\"3\"]] 1054 20000000");
    let logged = slow.wait_logged(5);
    let expected = [
        "SELECT ? + 1",
        "SELECT ? + 1",
        "SELECT 1; SELECT 2; SELECT 3",
        "SELECT nothing",
        "SELECT REPEAT('y', 20000000)",
    ];
    assert_eq!(texts(&logged), expected);
    assert_held(&logged, 100.0);
    assert!(!slow.stderr().contains("told by turns"), "{}", slow.stderr());
}

#[test]
fn mariadb_takes_files_and_statements_longer_than_a_packet() {
    let server = mariadb();
    must(mariadb_client(server.port()).args([
        "-e",
        "SET GLOBAL max_allowed_packet = 64 * 1024 * 1024; CREATE DATABASE d; CREATE TABLE d.t (a \
         INT, b TEXT)",
    ]));
    let slow = SlowProxy::before(server.addr(), &[MYSQL, &["--delay", "50ms"]].concat());
    let scratch = Scratch::new("infile");
    let lines: String = (0..20_000).map(|n| format!("{n}\ttext of line {n}\n")).collect();
    let file = scratch.write("lines", &lines);
    let load = format!(
        "LOAD DATA LOCAL INFILE '{}' INTO TABLE d.t; SELECT COUNT(*), SUM(a) FROM d.t",
        file.display()
    );
    let printed = must(mariadb_client(slow.addr().port()).args(["--local-infile=1", "-e", &load]));
    assert_eq!(printed, "20000\t199990000\n");
    let long = scratch
        .write("long.sql", &format!("SELECT LENGTH('{}');\nSELECT 7;\n", "x".repeat(17_000_000)));
    let script = std::fs::File::open(long).unwrap();
    let printed =
        must(mariadb_client(slow.addr().port()).arg("--max-allowed-packet=64M").stdin(script));
    assert_eq!(printed, "17000000\n7\n");
    let logged = slow.wait_logged(4);
    assert!(
        logged[0].text.starts_with("LOAD DATA") && logged[2].text.starts_with("SELECT LENGTH('xxx")
    );
    assert_held(&logged, 50.0);
    assert_eq!(slow.finish().matches("told by turns").count(), 0);
}

#[test]
fn mariadb_connections_do_not_wait_for_each_other() {
    let server = mariadb();
    let slow = SlowProxy::before(server.addr(), &[MYSQL, &["--delay", "2s"]].concat());
    let begin = Instant::now();
    let mut clients: Vec<_> = (0..8)
        .map(|_| {
            mariadb_client(slow.addr().port())
                .args(["-e", "SELECT 1"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for client in &mut clients {
        assert!(client.wait().unwrap().success());
    }
    // One delay, not eight: sixteen seconds.
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(10), "{took:?}");
    assert_held(&slow.wait_logged(8), 2000.0);
}

#[test]
fn mariadb_statements_are_chosen_by_what_they_say() {
    let server = mariadb();
    let script = "[[rule]]\nstatement = \"(?i)from seq_\"\ndelay = \"200ms\"\n[[rule]]\nstatement \
                  = \"BREAK\"\nreset = 0\n";
    let slow = SlowProxy::scripted(server.addr(), script, MYSQL);
    must(mariadb_client(slow.addr().port()).args([
        "-e",
        "SELECT 1; SELECT seq FROM seq_1_to_3",
        "mysql",
    ]));
    let logged = slow.wait_logged(2);
    assert!(logged[0].held == 0.0 && logged[1].held >= 200.0, "{logged:?}");
    let broken =
        mariadb_client(slow.addr().port()).args(["-e", "SELECT 'BREAK'"]).output().unwrap();
    assert!(!broken.status.success());
    assert!(String::from_utf8_lossy(&broken.stderr).contains("Lost connection"), "{broken:?}");
    assert!(slow.finish().contains("resets 1,"));
}

#[test]
fn mariadb_garbage_ends_what_is_known_and_not_the_proxy() {
    let server = mariadb();
    let slow = SlowProxy::before(server.addr(), &[MYSQL, &["--delay", "50ms"]].concat());
    // Garbage for a login, half a packet, and nobody at all.
    let mut garbage = None;
    wait_until("garbage before the greeting", || {
        // The greeting may come first: then the next one tries.
        garbage.insert(Wire::connect(slow.addr())).send("GET / HTTP/1.1\r\n\r\n");
        slow.stderr().contains("the client spoke before the server's greeting")
    });
    drop(garbage);
    let mut half = TcpStream::connect(slow.addr()).unwrap();
    half.write_all(&[200, 0, 0]).unwrap();
    drop(half);
    drop(TcpStream::connect(slow.addr()).unwrap());
    assert_eq!(must(mariadb_client(slow.addr().port()).args(["-e", "SELECT 1"])), "1\n");
    wait_until("broken connections to end", || {
        slow.usr1();
        slow.stderr().lines().rev().any(|line| line.contains(", open 0,"))
    });
}

#[test]
fn postgres_statements_are_delayed_once_each() {
    let server = postgres();
    let slow = SlowProxy::before(server.addr(), &[POSTGRES, &["--delay", "300ms"]].concat());
    let printed = must(psql(slow.addr().port()).args([
        "-c",
        "SELECT 1",
        "-c",
        "SELECT 2; SELECT 3",
        "-c",
        "PREPARE p AS SELECT $1::int + 1",
        "-c",
        "EXECUTE p(41)",
    ]));
    assert_eq!(printed, "1\n2\n3\nPREPARE\n42\n");
    let logged = slow.wait_logged(4);
    assert_eq!(
        texts(&logged),
        ["SELECT 1", "SELECT 2; SELECT 3", "PREPARE p AS SELECT $1::int + 1", "EXECUTE p(41)"]
    );
    assert_held(&logged, 300.0);
}

#[test]
fn postgres_copies_and_errors() {
    let server = postgres();
    let slow = SlowProxy::before(server.addr(), &[POSTGRES, &["--delay", "50ms"]].concat());
    let scratch = Scratch::new("copy");
    let lines: String = (0..20_000).map(|n| format!("{n}\ttext of line {n}\n")).collect();
    let file = scratch.write("lines", &lines);
    let printed = must(
        psql(slow.addr().port())
            .args(["-q", "-c", "CREATE TABLE t (a int, b text)"])
            .args(["-c", &format!("\\copy t FROM '{}'", file.display())])
            .args(["-c", "\\copy (SELECT sum(a) FROM t) TO STDOUT"]),
    );
    assert_eq!(printed, "199990000\n");
    let wrong = psql(slow.addr().port()).args(["-c", "SELECT nothing"]).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("does not exist"));
    // Back, a few megabytes of it, in thousands of messages each way.
    let back = scratch.file("back");
    let out = format!("\\copy (SELECT a, b FROM t ORDER BY a) TO '{}'", back.display());
    must(psql(slow.addr().port()).args(["-q", "-c", &out]));
    assert!(std::fs::read_to_string(back).unwrap() == lines);
    // A line that is none ends the statement, and the connection goes on.
    let printed = must(
        psql(slow.addr().port())
            .args(["-c", "\\copy t FROM PROGRAM 'yes no number | head -50000'"])
            .args(["-c", "SELECT count(*) FROM t"]),
    );
    assert_eq!(printed, "20000\n");
    let logged = slow.wait_logged(7);
    assert_held(&logged, 50.0);
    assert!(logged[1].text.starts_with("COPY t FROM STDIN"), "{logged:?}");
    let said = slow.finish();
    assert_eq!(said.matches("told by turns").count(), 0);
    // One delay each: the data of a COPY are not delayed by themselves.
    assert!(said.contains("\ndelays 7,"), "{said}");
}

/// The extended protocol: Parse, Bind, Execute.
#[test]
fn postgres_prepared_statements_of_eight_connections_do_not_wait_for_each_other() {
    let server = postgres();
    let slow = SlowProxy::before(server.addr(), &[POSTGRES, &["--delay", "1s"]].concat());
    let scratch = Scratch::new("pgbench");
    let statement = scratch.write("one.sql", "SELECT 4 + 1;\n");
    let begin = Instant::now();
    let mut bench = Command::new(postgres_bin().join("pgbench"));
    bench.args([
        "-h",
        "127.0.0.1",
        "-U",
        "tester",
        "-n",
        "-M",
        "prepared",
        "-c",
        "8",
        "-j",
        "2",
        "-t",
        "2",
        "-p",
        &slow.addr().port().to_string(),
        "-f",
    ]);
    let printed = must(bench.arg(&statement).arg("postgres"));
    assert!(printed.contains("transactions actually processed: 16/16"), "{printed}");
    // Two delays, not sixteen.
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(10), "{took:?}");
    let logged = slow.wait_logged(16);
    assert!(logged.iter().all(|request| request.text.starts_with("SELECT 4 + 1")), "{logged:?}");
    assert_held(&logged, 1000.0);
}

#[test]
fn postgres_garbage_ends_what_is_known_and_not_the_proxy() {
    let server = postgres();
    let slow = SlowProxy::before(server.addr(), &[POSTGRES, &["--delay", "50ms"]].concat());
    let mut garbage = Wire::connect(slow.addr());
    garbage.send("GET / HTTP/1.1\r\n\r\n");
    slow.wait_said("the client's first packet is not PostgreSQL's");
    drop(garbage);
    let mut half = TcpStream::connect(slow.addr()).unwrap();
    half.write_all(&[0, 0, 0]).unwrap();
    drop(half);
    assert_eq!(must(psql(slow.addr().port()).args(["-c", "SELECT 1"])), "1\n");
    wait_until("broken connections to end", || {
        slow.usr1();
        slow.stderr().lines().rev().any(|line| line.contains(", open 0,"))
    });
}
