//! Replies as memcached 1.6.18 sends them, and bytes that are not a reply.

use super::{super::*, all};

const TEXT: Replies = Replies::new(1 << 20);

fn one(line: &[u8]) -> Reply<'_> {
    let mut read = all(&TEXT, line);
    assert_eq!(read.len(), 1);
    read.remove(0)
}

#[test]
fn values_are_ranges_of_what_was_received() {
    let received = b"VALUE key 7 5\r\nhe\r\no\r\nVALUE k2 0 0 18446744073709551615\r\n\r\nEND\r\n";
    let read = all(&TEXT, received);
    let Reply::Value(first) = &read[0] else { panic!("{read:?}") };
    assert_eq!(
        (first.key, first.flags, first.cas, first.at.clone()),
        (&b"key"[..], 7, None, 15..20)
    );
    assert_eq!(&received[first.at.clone()], b"he\r\no");
    let Reply::Value(second) = &read[1] else { panic!("{read:?}") };
    assert_eq!((second.key, second.cas, second.at.len()), (&b"k2"[..], Some(u64::MAX), 0));
    assert_eq!(read[2], Reply::End);
}

#[test]
fn a_value_on_its_way_says_how_long_the_reply_is() {
    let whole = [&b"VALUE key 7 1000\r\n"[..], &[b'v'; 1000], b"\r\n"].concat();
    for end in 0..whole.len() {
        let need = if end < 18 { end + 1 } else { whole.len() };
        assert_eq!(TEXT.next(&whole[..end]), Decoded::Incomplete { need }, "{end}");
    }
    assert!(
        matches!(TEXT.next(&whole), Decoded::Reply(Reply::Value(_), used) if used == whole.len())
    );
}

#[test]
fn words_of_the_text_protocol() {
    for (line, done) in [
        ("STORED", Done::Stored),
        ("NOT_STORED", Done::NotStored),
        ("EXISTS", Done::Exists),
        ("NOT_FOUND", Done::NotFound),
        ("DELETED", Done::Deleted),
        ("TOUCHED", Done::Touched),
        ("OK", Done::Ok),
        ("RESET", Done::Reset),
        ("HD", Done::Done),
        ("EN", Done::NotFound),
        ("NF", Done::NotFound),
        ("NS", Done::NotStored),
        ("EX", Done::Exists),
    ] {
        for end in ["\r\n", "\n"] {
            assert_eq!(
                one(format!("{line}{end}").as_bytes()),
                Reply::Done(done, Extra::default()),
                "{line}"
            );
        }
    }
    assert_eq!(one(b"18446744073709551615\r\n"), Reply::Number(u64::MAX, Extra::default()));
    assert_eq!(one(b"5 \r\n"), Reply::Number(5, Extra::default()));
    assert_eq!(one(b"VERSION 1.6.18\r\n"), Reply::Version(b"1.6.18"));
    assert_eq!(one(b"STAT pid 1\r\n"), Reply::Stat { name: b"pid", value: b"1" });
    assert_eq!(one(b"STAT a b c\r\n"), Reply::Stat { name: b"a", value: b"b c" });
    assert_eq!(one(b"STAT binding \r\n"), Reply::Stat { name: b"binding", value: b"" });
    assert_eq!(one(b"ME k exp=-1 la=4\r\n"), Reply::Debug(b"k exp=-1 la=4"));
    for (line, fault, words) in [
        ("ERROR", Fault::Command, ""),
        ("ERROR Too many open connections", Fault::Command, "Too many open connections"),
        ("CLIENT_ERROR bad data chunk", Fault::Client, "bad data chunk"),
        (
            "SERVER_ERROR out of memory storing object",
            Fault::Server,
            "out of memory storing object",
        ),
    ] {
        assert_eq!(
            one(format!("{line}\r\n").as_bytes()),
            Reply::Error(fault, words.as_bytes(), Extra::default())
        );
    }
}

#[test]
fn meta_replies_with_their_flags() {
    let received = b"VA 2 f30 c9 t-1 kYSBi b s2 O77 W\r\nhi\r\nHD O78 h1 l4 Z X\r\nEN\r\nMN\r\n";
    let read = all(&TEXT, received);
    let Reply::Value(value) = &read[0] else { panic!("{read:?}") };
    assert_eq!(
        (value.key, value.flags, value.cas, &received[value.at.clone()]),
        (&b""[..], 30, Some(9), &b"hi"[..])
    );
    let extra = &value.extra;
    assert_eq!(
        (extra.opaque(), extra.cas(), extra.left(), extra.number(b's')),
        (Some(77), Some(9), None, Some(2))
    );
    assert_eq!(extra.key(&mut [0; 250]), Some(&b"a b"[..]));
    assert_eq!((extra.won(), extra.stale(), extra.others()), (true, false, false));
    let Reply::Done(Done::Done, extra) = &read[1] else { panic!("{read:?}") };
    assert_eq!(
        (extra.opaque(), extra.number(b'h'), extra.number(b'l')),
        (Some(78), Some(1), Some(4))
    );
    assert_eq!((extra.won(), extra.stale(), extra.others()), (false, true, true));
    assert_eq!((extra.key(&mut [0; 250]), extra.opcode()), (None, None));
    assert_eq!(
        read[2..],
        [Reply::Done(Done::NotFound, Extra::default()), Reply::Noop(Extra::default())]
    );
}

#[test]
fn what_is_no_reply() {
    let broken = |received: &[u8]| match TEXT.next(received) {
        Decoded::Broken(why) => why,
        other => panic!("{other:?}"),
    };
    for line in [
        "",
        " ",
        "HTTP/1.1 400 Bad Request",
        "VALUE",
        "VALUE k",
        "VALUE k 0",
        "VALUE k 0 x",
        "VALUE k 0 -1",
        "VALUE k 0 +1",
        "VALUE k 4294967296 1",
        "VALUE k 0 1 x",
        "VALUE k 0 18446744073709551616",
        "VA",
        "VA x",
        "VA 1 fx",
        "VA 1 c",
        "STAT",
        "1 2",
        "-1",
        "18446744073709551616",
        "stored",
    ] {
        assert_eq!(broken(format!("{line}\r\n").as_bytes()), Broken::Unknown, "{line}");
    }
    assert_eq!(broken(b"VALUE k 0 1048577\r\n"), Broken::TooLarge);
    assert_eq!(broken(b"VA 18446744073709551615\r\n"), Broken::TooLarge);
    assert_eq!(broken(b"VALUE k 0 1\r\nab\r\n"), Broken::BadEnd);
    assert_eq!(broken(b"VA 1\r\na\n\n"), Broken::BadEnd);
    assert_eq!(broken(&[b'x'; MAX_LINE]), Broken::LongLine);
    assert_eq!(TEXT.next(&[b'x'; MAX_LINE - 1]), Decoded::Incomplete { need: MAX_LINE });
    assert_eq!(broken(&[&[b'x'; MAX_LINE][..], b"\r\n"].concat()), Broken::LongLine);
}

/// A binary reply.
fn binary(code: u8, status: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = vec![0x81, code, 0, key.len() as u8, extras.len() as u8, 0, 0, status];
    bytes.extend_from_slice(&body.to_be_bytes());
    bytes.extend_from_slice(b"\0\0\0\x05\0\0\0\0\0\0\0\x09");
    bytes.extend([extras, key, value].concat());
    bytes
}

const BINARY: Replies = Replies::binary(100);

#[test]
fn binary_replies() {
    use super::super::super::binary::opcode::*;
    let read = |bytes: &[u8]| format!("{:?}", all(&BINARY, bytes));
    let hit = binary(GETK, 0, b"\0\0\0\x07", b"key", b"value");
    let replies = all(&BINARY, &hit);
    let Reply::Value(value) = &replies[0] else { panic!("{replies:?}") };
    assert_eq!(
        (value.key, value.flags, value.cas, &hit[value.at.clone()]),
        (&b"key"[..], 7, Some(9), &b"value"[..])
    );
    assert_eq!((value.extra.opaque(), value.extra.opcode()), (Some(5), Some(GETK)));
    for (bytes, expected) in [
        (binary(GET, 1, b"", b"", b"Not found"), "Done(NotFound, "),
        (binary(SET, 0, b"", b"", b""), "Done(Stored, "),
        (binary(SET, 2, b"", b"", b"Data exists for key."), "Done(Exists, "),
        (binary(APPEND, 5, b"", b"", b"Not stored."), "Done(NotStored, "),
        (binary(SET, 3, b"", b"", b"Too large."), "Error(Server, "),
        (binary(INCREMENT, 6, b"", b"", b"x"), "Error(Client, "),
        (binary(INCREMENT, 0, b"", b"", &258u64.to_be_bytes()), "Number(258, "),
        (binary(DELETE, 0, b"", b"", b""), "Done(Deleted, "),
        (binary(TOUCH, 0, b"\0\0\0\0", b"", b""), "Done(Touched, "),
        (binary(NOOP, 0, b"", b"", b""), "Noop("),
        (binary(VERSION, 0, b"", b"", b"1.6.18"), "Version([49, 46"),
        (binary(STAT, 0, b"", b"pid", b"1"), "Stat { name: [112, 105, 100], value: [49] }"),
        (binary(STAT, 0, b"", b"", b""), "End"),
        (binary(FLUSH, 0, b"", b"", b""), "Done(Ok, "),
        (binary(SASL_LIST, 0, b"", b"", b"PLAIN"), "Mechanisms("),
        (binary(SASL_AUTH, 0, b"", b"", b"Authenticated"), "Done(Ok, "),
        (binary(SASL_AUTH, 0x20, b"", b"", b"Auth failure."), "Error(Auth, "),
        (binary(SASL_AUTH, 0x21, b"", b"", b""), "Error(Auth, "),
        (binary(0x50, 0x81, b"", b"", b"Unknown command"), "Error(Command, "),
        (binary(GET, 0x86, b"", b"", b"Temporary failure"), "Error(Server, "),
    ] {
        assert!(read(&bytes).starts_with(&format!("[{expected}")), "{}: {expected}", read(&bytes));
    }
}

#[test]
fn binary_replies_that_are_none() {
    use super::super::super::binary::opcode::*;
    let broken = |bytes: &[u8], why| assert_eq!(BINARY.next(bytes), Decoded::Broken(why));
    broken(b"ERROR\r\n", Broken::Unknown);
    broken(&binary(0x50, 0, b"", b"", b""), Broken::Unknown);
    broken(&binary(GET, 0, b"", b"", b"value"), Broken::BadLengths);
    broken(&binary(INCREMENT, 0, b"", b"", b"1"), Broken::BadLengths);
    broken(&binary(GET, 0, b"\0\0\0\0", b"", &[0; 101])[..24], Broken::TooLarge);
    let mut short = binary(GET, 0, b"\0\0\0\0", b"k", b"");
    short[11] = 4;
    broken(&short, Broken::BadLengths);
    let whole = binary(GETK, 0, b"\0\0\0\0", b"k", &[0; 100]);
    for end in 0..whole.len() {
        let need = if end < 24 { 24 } else { whole.len() };
        assert_eq!(BINARY.next(&whole[..end]), Decoded::Incomplete { need });
    }
}
