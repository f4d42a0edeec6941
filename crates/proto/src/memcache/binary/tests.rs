//! Bytes as a memcached 1.6.18 was seen to read and write them.

use super::*;

/// A request; `cas` and data type have values that clients do not usually send, to see that they do
/// no harm.
fn request(code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let header = Header {
        opcode: code,
        key: key.len() as u16,
        extras: extras.len() as u8,
        body,
        opaque: 0xdead_beef,
        cas: 0,
    };
    let mut bytes = Vec::new();
    header.write(&mut bytes);
    bytes.extend([extras, key, value].concat());
    bytes
}

fn taken(bytes: &[u8]) -> (Header, Command<'_>, usize) {
    match decode(bytes, true) {
        Decoded::Command(header, command, used) => (header, command, used),
        other => panic!("{other:?}"),
    }
}

fn refused(bytes: &[u8], admitted: bool) -> (Status, u64, bool) {
    match decode(bytes, admitted) {
        Decoded::Refused(refused) => (refused.status, refused.skip, refused.close),
        other => panic!("{other:?}"),
    }
}

const CLOSED: (Status, u64, bool) = (Status::Invalid, 0, true);

#[test]
fn the_header_is_read_as_it_lies_on_the_wire() {
    let bytes =
        *b"\x80\x01\x00\x03\x08\x07\x00\x09\x00\x00\x00\x0c\xde\xad\xbe\xef\x01\x02\x03\x04\x05\x06\x07\x08";
    let header = Header::read(&bytes).expect("a request");
    let expected = Header {
        opcode: opcode::SET,
        key: 3,
        extras: 8,
        body: 12,
        opaque: 0xdead_beef,
        cas: 0x0102_0304_0506_0708,
    };
    assert_eq!(header, expected);
    let mut written = Vec::new();
    header.write(&mut written);
    assert_eq!(
        (&written[..5], &written[8..]),
        (&bytes[..5], &bytes[8..]),
        "but for data type and vbucket"
    );
    assert_eq!(Header::read(&[RESPONSE; HEADER]), None);
}

#[test]
fn a_request_is_whole_or_says_how_much_is_missing() {
    let bytes = request(opcode::SET, b"\0\0\0\x07\0\0\0\x0a", b"key", b"value");
    for end in 0..HEADER {
        assert_eq!(decode(&bytes[..end], true), Decoded::Partial(HEADER), "{end}");
    }
    for end in HEADER..HEADER + 11 {
        assert_eq!(decode(&bytes[..end], true), Decoded::Partial(HEADER + 11), "{end}");
    }
    let store =
        store::Store { mode: Mode::Set, key: b"key", flags: 7, exptime: 10, len: 5, quiet: false };
    for end in HEADER + 11..=bytes.len() {
        let (_, command, used) = taken(&bytes[..end]);
        assert_eq!((command, used), (Command::Store(store), HEADER + 11));
    }
}

#[test]
fn every_opcode_is_known_by_its_number_and_no_other() {
    let known = (0..=0x24).filter(|code| !matches!(code, 0x1b | 0x1f)).collect::<Vec<u8>>();
    for code in 0..=u8::MAX {
        let unknown = matches!(
            decode(&request(code, b"", b"", b""), true),
            Decoded::Refused(Refused { status: Status::Unknown, .. })
        );
        assert_eq!(unknown, !known.contains(&code), "{code:#x}");
    }
}

#[test]
fn gets() {
    let seen = |code, extras: &[u8]| match taken(&request(code, extras, b"k", b"")).1 {
        Command::Get(get) => (get.touch, get.value, get.with_key, get.quiet),
        other => panic!("{other:?}"),
    };
    assert_eq!(seen(opcode::GET, b""), (None, true, false, false));
    assert_eq!(seen(opcode::GETQ, b""), (None, true, false, true));
    assert_eq!(seen(opcode::GETK, b""), (None, true, true, false));
    assert_eq!(seen(opcode::GETKQ, b""), (None, true, true, true));
    let exptime = b"\xff\0\0\x01";
    assert_eq!(seen(opcode::TOUCH, exptime), (Some(0xff00_0001), false, false, false));
    assert_eq!(seen(opcode::GAT, exptime), (Some(0xff00_0001), true, false, false));
    assert_eq!(seen(opcode::GATQ, exptime), (Some(0xff00_0001), true, false, true));
    assert_eq!(seen(opcode::GATK, exptime), (Some(0xff00_0001), true, true, false));
    assert_eq!(seen(opcode::GATKQ, exptime), (Some(0xff00_0001), true, true, true));
}

#[test]
fn stores() {
    let seen = |code, extras: &[u8]| match taken(&request(code, extras, b"k", b"xyz")).1 {
        Command::Store(store) => (store.mode, store.flags, store.exptime, store.len, store.quiet),
        other => panic!("{other:?}"),
    };
    let extras = b"\0\0\0\x05\0\0\0\x06";
    assert_eq!(seen(opcode::SET, extras), (Mode::Set, 5, 6, 3, false));
    assert_eq!(seen(opcode::SETQ, extras), (Mode::Set, 5, 6, 3, true));
    assert_eq!(seen(opcode::ADD, extras), (Mode::Add, 5, 6, 3, false));
    assert_eq!(seen(opcode::ADDQ, extras), (Mode::Add, 5, 6, 3, true));
    assert_eq!(seen(opcode::REPLACE, extras), (Mode::Replace, 5, 6, 3, false));
    assert_eq!(seen(opcode::REPLACEQ, extras), (Mode::Replace, 5, 6, 3, true));
    assert_eq!(seen(opcode::APPEND, b""), (Mode::Append, 0, 0, 3, false));
    assert_eq!(seen(opcode::APPENDQ, b""), (Mode::Append, 0, 0, 3, true));
    assert_eq!(seen(opcode::PREPEND, b""), (Mode::Prepend, 0, 0, 3, false));
    assert_eq!(seen(opcode::PREPENDQ, b""), (Mode::Prepend, 0, 0, 3, true));
}

#[test]
fn counters() {
    let extras = |exptime: u32| {
        [7u64.to_be_bytes(), 9u64.to_be_bytes()].concat().into_iter().chain(exptime.to_be_bytes())
    };
    let seen = |code, exptime| match taken(&request(
        code,
        &extras(exptime).collect::<Vec<_>>(),
        b"k",
        b"",
    ))
    .1
    {
        Command::Count(count) => (count.delta, count.down, count.initial, count.quiet),
        other => panic!("{other:?}"),
    };
    assert_eq!(seen(opcode::INCREMENT, 0), (7, false, Some((9, 0)), false));
    assert_eq!(seen(opcode::INCREMENTQ, 0xffff_fffe), (7, false, Some((9, 0xffff_fffe)), true));
    assert_eq!(seen(opcode::DECREMENT, 0xffff_ffff), (7, true, None, false));
    assert_eq!(seen(opcode::DECREMENTQ, 0xffff_ffff), (7, true, None, true));
}

#[test]
fn the_others() {
    let seen = |code, extras: &'static [u8], key: &'static [u8]| {
        format!("{:?}", taken(&request(code, extras, key, b"")).1)
    };
    assert_eq!(seen(opcode::DELETE, b"", b"k"), "Delete(Delete { key: [107], quiet: false })");
    assert_eq!(seen(opcode::DELETEQ, b"", b"k"), "Delete(Delete { key: [107], quiet: true })");
    assert_eq!(seen(opcode::FLUSH, b"", b""), "Flush(Flush { exptime: 0, quiet: false })");
    assert_eq!(
        seen(opcode::FLUSHQ, b"\0\0\x01\0", b""),
        "Flush(Flush { exptime: 256, quiet: true })"
    );
    assert_eq!(seen(opcode::STAT, b"", b""), "Stat(Stat { what: [] })");
    assert_eq!(seen(opcode::STAT, b"", b"k"), "Stat(Stat { what: [107] })");
    assert_eq!(seen(opcode::QUIT, b"", b""), "Quit(false)");
    assert_eq!(seen(opcode::QUITQ, b"", b""), "Quit(true)");
    let auth = request(opcode::SASL_AUTH, b"", b"PLAIN", b"\0u\0p");
    let expected = sasl::Sasl { mechanism: b"PLAIN", step: false, len: 4 };
    assert_eq!(taken(&auth).1, Command::Sasl(expected));
    let step = request(opcode::SASL_STEP, b"", b"PLAIN", b"\0u\0p");
    assert_eq!(taken(&step).1, Command::Sasl(sasl::Sasl { step: true, ..expected }));
}

#[test]
fn lengths_that_do_not_fit_end_the_connection() {
    for (code, extras, key, value) in [
        (opcode::GET, &b"xx"[..], &b"k"[..], &b""[..]),
        (opcode::GET, b"", b"", b""),
        (opcode::GET, b"", b"k", b"v"),
        (opcode::TOUCH, b"", b"k", b""),
        (opcode::TOUCH, b"\0\0\0\0", b"", b""),
        (opcode::SET, b"", b"k", b"v"),
        (opcode::SET, b"\0\0\0\0\0\0\0\0\0", b"k", b"v"),
        (opcode::SET, b"\0\0\0\0\0\0\0\0", b"", b"v"),
        (opcode::APPEND, b"\0\0\0\0", b"k", b"v"),
        (opcode::APPEND, b"", b"", b"v"),
        (opcode::INCREMENT, b"", b"k", b""),
        (opcode::INCREMENT, &[0; 20], b"k", b"v"),
        (opcode::INCREMENT, &[0; 20], b"", b""),
        (opcode::DELETE, b"x", b"k", b""),
        (opcode::DELETE, b"", b"", b""),
        (opcode::FLUSH, b"abc", b"", b""),
        (opcode::FLUSH, b"", b"k", b""),
        (opcode::NOOP, b"", b"", b"v"),
        (opcode::VERSION, b"", b"k", b""),
        (opcode::QUIT, b"", b"", b"v"),
        (opcode::STAT, b"e", b"k", b""),
        (opcode::SASL_LIST, b"", b"", b"v"),
        (opcode::SASL_AUTH, b"", b"", b"v"),
        (opcode::SASL_AUTH, b"x", b"PLAIN", b"v"),
        // Bytes that memcached would read as the next command.
        (opcode::TOUCH, b"\0\0\0\0", b"k", b"v"),
        (opcode::GATQ, b"\0\0\0\0", b"k", b"v"),
        (opcode::STAT, b"", b"k", b"v"),
    ] {
        assert_eq!(
            refused(&request(code, extras, key, value), true),
            CLOSED,
            "{code:#x} {extras:?} {key:?}"
        );
    }
}

#[test]
fn a_key_too_long_ends_the_connection_before_it_is_all_there() {
    let bytes = request(opcode::GET, b"", &[b'k'; 251], b"");
    assert_eq!(refused(&bytes[..HEADER], true), CLOSED);
    assert!(matches!(taken(&request(opcode::GET, b"", &[b'k'; 250], b"")).1, Command::Get(_)));
}

#[test]
fn a_body_shorter_than_its_parts_ends_the_connection() {
    let mut bytes = request(opcode::GET, b"", b"abcdef", b"");
    bytes[11] = 2;
    assert_eq!(refused(&bytes, true), (Status::Unknown, 0, true));
    assert_eq!(refused(&bytes, false), (Status::Unknown, 0, true), "before anybody asks who it is");
}

#[test]
fn an_unknown_command_is_thrown_away_with_its_body() {
    let bytes = request(0x50, b"ext", b"key", b"value");
    assert_eq!(refused(&bytes, true), (Status::Unknown, bytes.len() as u64, false));
    assert_eq!(
        refused(&request(0x1b, &[0; 4], b"", b""), true),
        (Status::Unknown, 28, false),
        "verbosity"
    );
}

#[test]
fn garbage_is_told_by_the_first_byte() {
    assert_eq!(decode(b"get k\r\n", true), Decoded::Garbage);
    assert_eq!(decode(&[RESPONSE; 24], true), Decoded::Garbage);
    assert_eq!(decode(b"", true), Decoded::Partial(HEADER));
}

#[test]
fn only_who_is_known_may_ask() {
    for code in 0..=u8::MAX {
        let allowed = matches!(
            code,
            opcode::VERSION | opcode::SASL_LIST | opcode::SASL_AUTH | opcode::SASL_STEP
        );
        let bytes = request(code, b"", b"", b"");
        let turned_away = decode(&bytes, false)
            == Decoded::Refused(Refused {
                header: Header::read(bytes[..].try_into().expect("a header alone"))
                    .expect("a request"),
                status: Status::AuthError,
                skip: 0,
                close: true,
            });
        assert_eq!(turned_away, !allowed, "{code:#x}");
    }
}

#[test]
fn responses() {
    let answer = |code, write: &dyn Fn(&mut Vec<u8>, &Header)| {
        let bytes = request(code, b"", b"", b"");
        let header =
            Header::read(bytes[..].try_into().expect("a header alone")).expect("a request");
        let mut out = Vec::new();
        write(&mut out, &header);
        out
    };
    let got = answer(opcode::SET, &|out, header| done(out, header, 0x3c));
    assert_eq!(got, b"\x81\x01\0\0\0\0\0\0\0\0\0\0\xde\xad\xbe\xef\0\0\0\0\0\0\0\x3c");
    let got = answer(opcode::VERSION, &|out, header| text(out, header, b"1.6.18"));
    assert_eq!(got, b"\x81\x0b\0\0\0\0\0\0\0\0\0\x06\xde\xad\xbe\xef\0\0\0\0\0\0\0\x001.6.18");
    let got = answer(opcode::SETQ, &|out, header| error(out, header, Status::TooLarge));
    assert_eq!(got, b"\x81\x11\0\0\0\0\0\x03\0\0\0\x0a\xde\xad\xbe\xef\0\0\0\0\0\0\0\0Too large.");
    let got = answer(opcode::INCREMENT, &|out, header| count::counted(out, header, 258, 1));
    assert_eq!(
        got,
        b"\x81\x05\0\0\0\0\0\0\0\0\0\x08\xde\xad\xbe\xef\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x01\x02"
    );
    let got = answer(opcode::SASL_AUTH, &|out, header| sasl::go_on(out, header));
    assert_eq!(got, b"\x81\x21\0\0\0\0\0\x21\0\0\0\0\xde\xad\xbe\xef\0\0\0\0\0\0\0\0");
}

#[test]
fn responses_of_gets() {
    let answer = |code, extras: &[u8], found: Option<u32>| {
        let bytes = request(code, extras, b"zz", b"");
        let (header, command, _) = taken(&bytes);
        let Command::Get(get) = command else { panic!("{command:?}") };
        let mut out = Vec::new();
        match found {
            Some(len) => get::hit(&mut out, &header, &get, 7, 1, len),
            None => get::miss(&mut out, &header, &get),
        }
        out
    };
    let hit = |code: u8, key: &str, value: u32| {
        let body = (4 + key.len() as u32 + value).to_be_bytes();
        let start = [0x81, code, 0, key.len() as u8, 4, 0, 0, 0];
        let tail = b"\xde\xad\xbe\xef\0\0\0\0\0\0\0\x01\0\0\0\x07";
        [&start[..], &body, tail, key.as_bytes()].concat()
    };
    assert_eq!(answer(opcode::GET, b"", Some(5)), hit(opcode::GET, "", 5));
    assert_eq!(answer(opcode::GETKQ, b"", Some(5)), hit(opcode::GETKQ, "zz", 5));
    assert_eq!(answer(opcode::TOUCH, &[0; 4], Some(5)), hit(opcode::TOUCH, "", 0));
    assert_eq!(answer(opcode::GATK, &[0; 4], Some(5)), hit(opcode::GATK, "zz", 5));
    assert_eq!(answer(opcode::GETQ, b"", None), b"");
    assert_eq!(answer(opcode::GETKQ, b"", None), b"");
    assert_eq!(answer(opcode::GATKQ, &[0; 4], None), b"");
    assert!(answer(opcode::GET, b"", None).ends_with(b"\0\0\0\0\0\0\0\0Not found"));
    let key_only = b"\x81\x0c\0\x02\0\0\0\x01\0\0\0\x02\xde\xad\xbe\xef\0\0\0\0\0\0\0\0zz";
    assert_eq!(answer(opcode::GETK, b"", None), key_only);
}
