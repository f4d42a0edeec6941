//! Selection of the protocol, and authentication.

use super::*;
use crate::settings::{Secret, WireProtocol};

fn users() -> Option<crate::settings::Users> {
    Some(vec![("user".to_owned(), Secret::new(b"pass").unwrap())].into())
}

#[test]
fn nothing_is_answered_before_the_login() {
    let server = Server::with(MemcachedSettings { auth: users(), ..settings() });
    let no = "CLIENT_ERROR unauthenticated\r\n";
    assert_eq!(server.ask("get a\r\n"), no);
    assert_eq!(server.ask("version\r\nquit\r\n"), [no, no].concat());
    assert_eq!(
        server.ask("set x 0 0 9\r\nuser pass\r\nversion\r\n"),
        "STORED\r\nVERSION 1.6.18\r\n"
    );
    let failed = server.ask("set x 0 0 9\r\nuser word\r\nversion\r\n");
    assert_eq!(failed, format!("CLIENT_ERROR authentication failure\r\n{no}"));
    let counters = &server.face.counters;
    assert_eq!((counters.auth_cmds.get(), counters.auth_errors.get()), (2, 1));
    // A binary client cannot log in, so its bytes are parsed as text.
    assert_eq!(
        server.exchange([&[0x80, 0, 0, 0][..]], NOW),
        Output { answers: vec![], closed: false }
    );
}

#[test]
fn the_first_byte_tells_the_protocol() {
    let noop = [&[0x80, 0x0a][..], &[0; 22]].concat();
    let server = Server::new();
    let output = server.exchange([&noop[..], &noop[..]], NOW);
    assert_eq!(output.answers.len(), 48);
    assert_eq!(output.answers[0], 0x81);
    let ascii = Server::with(MemcachedSettings { protocol: WireProtocol::Ascii, ..settings() });
    let output = ascii.exchange([&[0x80, 0x0b, 0, 0][..], b"\r\nversion\r\n"], NOW);
    assert_eq!(output.answers, b"ERROR\r\nVERSION 1.6.18\r\n");
    let binary = Server::with(MemcachedSettings { protocol: WireProtocol::Binary, ..settings() });
    assert!(binary.exchange([&b"version with a line as long as a header\r\n"[..]], NOW).closed);
    let sasl = Server::with(MemcachedSettings { sasl: users(), ..settings() });
    assert!(sasl.exchange([&b"version with a line as long as a header\r\n"[..]], NOW).closed);
}
