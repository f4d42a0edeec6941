//! Requests in their wire form.

use super::super::{super::text::*, *};

fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<(), KeyError>) -> String {
    let mut into = b"before ".to_vec();
    match write(&mut into) {
        Ok(()) => String::from_utf8_lossy(&into[7..]).into_owned(),
        Err(error) => {
            assert_eq!(into, b"before ", "nothing is appended on error");
            error.to_string()
        }
    }
}

#[test]
fn retrievals() {
    let get = |keys: &[&str], cas, touch| {
        written(|into| text::get(keys.iter().map(|key| key.as_bytes()), cas, touch, into))
    };
    assert_eq!(get(&["a"], false, None), "get a\r\n");
    assert_eq!(get(&["a", "bc"], true, None), "gets a bc\r\n");
    assert_eq!(get(&["a"], false, Some(-1)), "gat -1 a\r\n");
    assert_eq!(get(&["a", "b"], true, Some(60)), "gats 60 a b\r\n");
    assert_eq!(get(&[], false, None), "a key has at least one byte");
    assert_eq!(
        get(&["a", "b c"], false, None),
        "a key in the text protocol may not have byte 0x20"
    );
    assert_eq!(
        get(&["a", "b\r\nflush_all"], false, None),
        "a key in the text protocol may not have byte 0x0d"
    );
    assert_eq!(get(&["a", &"x".repeat(251)], false, None), "a key has at most 250 bytes here");
    assert_eq!(get(&[&"x".repeat(250)], false, None).len(), 256);
}

#[test]
fn storage_commands() {
    let plain = Store {
        mode: Mode::Set,
        key: b"k",
        flags: 0,
        exptime: 0,
        len: 3,
        cas: None,
        noreply: false,
    };
    let store = |change: Store<'_>| written(|into| text::store(&change, into));
    assert_eq!(store(plain), "set k 0 0 3\r\n");
    assert_eq!(
        store(Store { mode: Mode::Add, flags: u32::MAX, exptime: -1, ..plain }),
        "add k 4294967295 -1 3\r\n"
    );
    assert_eq!(
        store(Store { mode: Mode::Replace, noreply: true, ..plain }),
        "replace k 0 0 3 noreply\r\n"
    );
    assert_eq!(store(Store { mode: Mode::Append, ..plain }), "append k 0 0 3\r\n");
    assert_eq!(store(Store { mode: Mode::Prepend, ..plain }), "prepend k 0 0 3\r\n");
    let cas = Store { cas: Some(u64::MAX), exptime: 60, noreply: true, ..plain };
    assert_eq!(store(cas), "cas k 0 60 3 18446744073709551615 noreply\r\n");
    assert_eq!(store(Store { key: b"", ..plain }), "a key has at least one byte");
}

#[test]
fn the_other_text_commands() {
    let count = Count { key: b"n", delta: u64::MAX, down: false, noreply: false };
    assert_eq!(written(|into| text::count(&count, into)), "incr n 18446744073709551615\r\n");
    let count = Count { delta: 1, down: true, noreply: true, ..count };
    assert_eq!(written(|into| text::count(&count, into)), "decr n 1 noreply\r\n");
    let delete = Delete { key: b"k", noreply: true };
    assert_eq!(written(|into| text::delete(&delete, into)), "delete k noreply\r\n");
    let touch = Touch { key: b"k", exptime: 60, noreply: false };
    assert_eq!(written(|into| text::touch(&touch, into)), "touch k 60\r\n");
    assert_eq!(written(|into| text::stats(b"", into)), "stats\r\n");
    assert_eq!(written(|into| text::stats(b"detail on", into)), "stats detail on\r\n");
    assert!(written(|into| text::stats(b"x\nflush_all", into)).contains("0x0a"));
    let mut rest = Vec::new();
    text::flush(&Flush { delay: 0, noreply: false }, &mut rest);
    text::flush(&Flush { delay: 10, noreply: true }, &mut rest);
    text::version(&mut rest);
    text::verbosity(2, false, &mut rest);
    text::authenticate(b"u", b"secret", &mut rest);
    text::quit(&mut rest);
    let expected = "flush_all\r\nflush_all 10 noreply\r\nversion\r\nverbosity 2\r\nset auth 0 0 \
                    8\r\nu secret\r\nquit\r\n";
    assert_eq!(String::from_utf8_lossy(&rest), expected);
}

#[test]
fn meta_get() {
    let get = |get: meta::Get<'_>| written(|into| meta::get(&get, into));
    let key = b"k".as_slice();
    assert_eq!(get(meta::Get { key, ..Default::default() }), "mg k\r\n");
    let back = meta::Back { opaque: Some(7), key: true, cas: true, quiet: true };
    assert_eq!(
        get(meta::Get { key, value: true, flags: true, back, ..Default::default() }),
        "mg k v f k c q O7\r\n"
    );
    let all = meta::Get {
        left: true,
        size: true,
        hit_before: true,
        idle: true,
        unbumped: true,
        ttl: Some(30),
        vivify: Some(60),
        recache: Some(-1),
        version: Some(5),
        key,
        ..Default::default()
    };
    assert_eq!(get(all), "mg k t s h l u T30 N60 R-1 E5\r\n");
    assert_eq!(
        get(meta::Get { key: b"a b", value: true, ..Default::default() }),
        "mg YSBi b v\r\n"
    );
    assert_eq!(get(meta::Get { key: &[0; 186], ..Default::default() }).len(), 3 + 248 + 2 + 2);
    assert_eq!(
        get(meta::Get { key: &[0; 187], ..Default::default() }),
        "a key has at most 186 bytes here"
    );
    assert_eq!(
        get(meta::Get { key: &[b'x'; 251], ..Default::default() }),
        "a key has at most 250 bytes here"
    );
    assert_eq!(get(meta::Get::default()), "a key has at least one byte");
}

#[test]
fn the_other_meta_commands() {
    let set = |set: meta::Set<'_>| written(|into| meta::set(&set, into));
    let plain = meta::Set { key: b"k", len: 3, ..Default::default() };
    assert_eq!(set(plain), "ms k 3\r\n");
    let all = meta::Set {
        mode: Mode::Append,
        flags: 9,
        ttl: -1,
        compare: Some(1),
        version: Some(2),
        invalidate: true,
        vivify: Some(0),
        ..plain
    };
    assert_eq!(set(all), "ms k 3 MA F9 T-1 C1 E2 I N0\r\n");
    for (mode, flag) in [(Mode::Add, "ME"), (Mode::Replace, "MR"), (Mode::Prepend, "MP")] {
        assert_eq!(set(meta::Set { mode, ..plain }), format!("ms k 3 {flag}\r\n"));
    }
    assert_eq!(set(meta::Set { key: b"\x01", ..plain }), "ms AQ== 3 b\r\n");
    let delete = meta::Delete {
        key: b"k",
        compare: Some(1),
        version: Some(2),
        invalidate: true,
        empty: true,
        ttl: Some(30),
        back: meta::Back { quiet: true, ..Default::default() },
    };
    assert_eq!(written(|into| meta::delete(&delete, into)), "md k C1 E2 I x T30 q\r\n");
    let count = meta::Count { key: b"n", delta: 1, ..Default::default() };
    assert_eq!(written(|into| meta::count(&count, into)), "ma n\r\n");
    let count = meta::Count {
        down: true,
        delta: 5,
        vivify: Some((60, 13)),
        ttl: Some(9),
        value: true,
        ..count
    };
    assert_eq!(written(|into| meta::count(&count, into)), "ma n MD D5 N60 J13 T9 v\r\n");
    assert_eq!(written(|into| meta::debug(b"a b", into)), "me YSBi b\r\n");
    let mut noop = Vec::new();
    meta::noop(&mut noop);
    assert_eq!(noop, b"mn\r\n");
}

#[test]
fn sasl_plain() {
    let mut into = Vec::new();
    binary::mechanisms(1, &mut into);
    binary::authenticate(b"user", b"secret", 2, &mut into);
    let expected = b"\x80\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\
        \x80\x21\0\x05\0\0\0\0\0\0\0\x11\0\0\0\x02\0\0\0\0\0\0\0\0PLAIN\0user\0secret";
    assert_eq!(into, expected);
}
