//! The bytes of a request are the same whole and in pieces; a head that was accepted is one request
//! to the parser of HTTP/1.1, or none; memory is bounded. The same for the streams of a connection.
#![no_main]

use larder_proto::http::{HeadLimits, Parsed, parse_request, slots};
use larder_proto::http3::{Connection, Event, Incoming, Limits};
use larder_proto::pseudo::Workspace;
use libfuzzer_sys::fuzz_target;

// The first byte is the size of the pieces and which of both it is.
fuzz_target!(|input: &[u8]| {
    let Some((&step, bytes)) = input.split_first() else { return };
    let pieces = usize::from(step >> 1).max(1);
    if step & 1 == 0 {
        assert_eq!(request(bytes, pieces), request(bytes, bytes.len().max(1)));
    } else {
        assert_eq!(connection(bytes, pieces), connection(bytes, bytes.len().max(1)));
    }
});

/// Events as text, pieces of a body joined.
fn request(bytes: &[u8], step: usize) -> (Vec<String>, Vec<u8>) {
    let limits = Limits { connect_protocol: true, ..Limits::default() };
    let (mut incoming, mut work) = (Incoming::default(), Workspace::default());
    let (mut events, mut body) = (Vec::new(), Vec::new());
    let count = bytes.len().div_ceil(step).max(1);
    for (place, piece) in bytes.chunks(step).chain(bytes.is_empty().then_some(&[][..])).enumerate()
    {
        let (mut at, end) = (0, place + 1 == count);
        loop {
            let got = incoming.receive(&piece[at..], end, &limits, &mut work);
            match got.event {
                Event::More => break,
                Event::Data(range) => body.extend_from_slice(&piece[at..][range]),
                event => {
                    if let Event::Request { .. } = event {
                        check_head(&work.head);
                    }
                    events.push(format!("{event:?}"));
                }
            }
            at += got.used;
            assert!(at <= piece.len());
        }
        assert!(incoming.memory() < 300_000);
    }
    (events, body)
}

/// The result of the first stream, a control stream, and the priorities it sets.
fn connection(bytes: &[u8], step: usize) -> (String, String) {
    let (mut connection, limits) = (Connection::default(), Limits::default());
    let mut result = Ok(true);
    for piece in bytes.chunks(step) {
        if result != Ok(true) {
            break;
        }
        result = connection.receive(2, piece, false, &limits);
    }
    (format!("{result:?}"), format!("{:?}", connection.updates(|_| false)))
}

/// The parser finds one head that ends where ours ends, or refuses it.
fn check_head(head: &[u8]) {
    assert!(head.ends_with(b"\r\n\r\n"));
    assert_eq!(head.windows(4).filter(|four| four == b"\r\n\r\n").count(), 1);
    match parse_request(head, &mut slots::<64>(), &HeadLimits::default()) {
        Ok(Parsed::Complete(parsed)) => assert_eq!(parsed.len, head.len()),
        Ok(Parsed::Partial) => panic!("a head without an end"),
        Err(_) => {}
    }
}
