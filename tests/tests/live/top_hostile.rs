//! Whom `larder top` tells its secrets, and what becomes of answers that nobody should send.

#![allow(clippy::unwrap_used)]

use larder_tests::larder::run;
use larder_tests::{Redis, Scratch};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// What connections were sent.
type Heard = Arc<Mutex<String>>;

/// Answers the first line of each connection: of HTTP with `http`, `version` as HTTP servers do.
fn listener(http: Vec<u8>) -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, heard) = (listener.local_addr().unwrap(), Heard::default());
    let hears = heard.clone();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while lines.read_line(&mut head).is_ok_and(|n| n > 2) && !head.starts_with("version") {}
            hears.lock().unwrap().push_str(&head);
            let bad: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            // Who asks may have gone.
            let _ = stream.write_all(if head.starts_with("GET") { &http } else { bad });
        }
    });
    (addr, heard)
}

fn refusal() -> Vec<u8> {
    b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()
}

fn answer(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn the_token_is_for_servers_that_were_named_as_larders() {
    let scratch = Scratch::new("token");
    scratch.write("token", "of-the-file\n");
    let file = scratch.path().join("token").display().to_string();
    let [named, found, own] = [refusal(), refusal(), refusal()].map(listener);
    let addresses = [
        format!("http://{}", named.0),
        found.0.to_string(),
        format!("http://{}/#token=its-own", own.0),
    ];
    let (status, out, _) = run(&[
        "top",
        "--once",
        "-l",
        "--token-file",
        &file,
        &addresses[0],
        &addresses[1],
        &addresses[2],
    ]);
    assert_eq!(status.code(), Some(4), "{out}");
    let heard = |server: &(SocketAddr, Heard)| server.1.lock().unwrap().to_ascii_lowercase();
    assert!(heard(&named).contains("authorization: bearer of-the-file\r\n"), "{}", heard(&named));
    let (found_heard, own_heard) = (heard(&found), heard(&own));
    assert!(
        found_heard.contains("get /api/v1/stats") && !found_heard.contains("authorization"),
        "{found_heard}"
    );
    assert!(
        own_heard.contains("bearer its-own\r\n") && !own_heard.contains("of-the-file"),
        "{own_heard}"
    );
    assert!(out.contains(&format!("name it http://{} to send it the token", found.0)), "{out}");
}

#[test]
fn a_redis_with_a_password_is_shown() {
    let redis = Redis::debian(&["--requirepass", "s@cret"]);
    let addr = redis.addr();
    let given = [format!("redis://:s%40cret@{addr}"), format!("redis://default:s@cret@{addr}")];
    let (status, out, _) = run(&["top", "--once", "-l", &given[0], &given[1]]);
    assert_eq!(status.code(), Some(0), "{out}");
    assert!(!out.contains("cret"), "{out}");
    let (status, out, _) =
        run(&["top", "--once", "-l", &addr.to_string(), &format!("redis://:bad@{addr}")]);
    assert_eq!(status.code(), Some(4));
    assert!(out.contains("DOWN: wants a password: redis://:password@host"), "{out}");
    assert!(out.contains("DOWN: refuses the password: -WRONGPASS"), "{out}");
}

#[test]
fn a_message_of_megabytes_is_told_in_short() {
    let long = format!("{{\"version\":\"{}\\u001b[2J\"}}", "x".repeat(1 << 20));
    let (addr, _) = listener(answer(long.as_bytes()));
    let (status, out, _) = run(&["top", "--once", "-l", &format!("http://{addr}")]);
    assert_eq!(status.code(), Some(4));
    assert!(
        out.contains("DOWN: its statistics are not understood"),
        "{}",
        &out[..out.len().min(500)]
    );
    assert!(out.len() < 1500 && !out.contains('\x1b'), "{} bytes", out.len());
}
