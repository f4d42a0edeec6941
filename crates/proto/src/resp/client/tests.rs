use super::*;
use crate::resp::{Reply, Version};

#[test]
fn replies_are_what_the_server_writes() {
    let mut bytes = Vec::new();
    let mut reply = Reply::new(&mut bytes, Version::V2);
    reply.ok();
    reply.error("ERR no\r\nno");
    reply.integer(-12);
    reply.bulk(b"a\r\nb");
    reply.bulk(b"");
    reply.null();
    reply.null_array();
    reply.array(2);
    let expected = [
        Got::Status(b"OK"),
        Got::Error(b"ERR no  no"),
        Got::Integer(-12),
        Got::Bulk(b"a\r\nb"),
        Got::Bulk(b""),
        Got::Null,
        Got::Null,
        Got::Array(2),
    ];
    let mut at = 0;
    for expected in expected {
        let Received::Reply(got, used) = receive(&bytes[at..], 100) else {
            panic!("no reply at {at}")
        };
        assert_eq!(got, expected);
        at += used;
    }
    assert_eq!(at, bytes.len());
}

#[test]
fn a_reply_is_the_same_wherever_it_was_cut() {
    for text in
        ["+OK\r\n", "-ERR x\r\n", ":-5\r\n", "$5\r\na\r\nbc\r\n", "$-1\r\n", "*3\r\n", "$0\r\n\r\n"]
    {
        let bytes = text.as_bytes();
        let whole = receive(bytes, 100);
        assert!(
            matches!(whole, Received::Reply(_, used) if used == bytes.len()),
            "{text}: {whole:?}"
        );
        for cut in 0..bytes.len() {
            match receive(&bytes[..cut], 100) {
                Received::Incomplete { need } => {
                    assert!(need > cut && need <= bytes.len(), "{text} {cut} {need}")
                }
                other => panic!("{text} cut at {cut}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_is_no_reply_is_refused() {
    for (text, fault) in [
        ("HTTP/1.1 400\r\n", BadReply::Kind),
        ("+OK\n", BadReply::Line),
        (":x\r\n", BadReply::Length),
        ("$-2\r\n", BadReply::Length),
        ("$\r\n", BadReply::Length),
        ("*-7\r\n", BadReply::Length),
        ("$101\r\n", BadReply::TooLarge),
        ("$1\r\nabc", BadReply::End),
    ] {
        assert_eq!(receive(text.as_bytes(), 100), Received::Broken(fault), "{text}");
    }
    let long = [b"+".as_slice(), &[b'a'; MAX_REPLY_LINE]].concat();
    assert_eq!(receive(&long, 100), Received::Broken(BadReply::Line));
}
