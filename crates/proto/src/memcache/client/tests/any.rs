//! The server reads any request as it was meant, and the client any reply of the server.

use proptest::prelude::*;

use super::{
    super::{
        super::{self as memcache, Command, MAX_KEY, binary as wire, line, text::*},
        *,
    },
    all,
};

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((b'!'..=0xff).prop_filter("DEL", |byte| *byte != 0x7f), 1..=250)
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![key(), prop::collection::vec(any::<u8>(), 1..=MAX_BASE64)]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend])
}

fn back() -> impl Strategy<Value = meta::Back> {
    (any::<Option<u32>>(), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(opaque, key, cas, quiet)| meta::Back { opaque, key, cas, quiet })
}

/// A version that memcached accepts.
fn version() -> impl Strategy<Value = Option<u64>> {
    any::<Option<u64>>()
}

fn plain(key: &memcache::meta::Key<'_>) -> Vec<u8> {
    key.bytes(&mut [0; MAX_KEY]).to_vec()
}

#[track_caller]
fn command(line: &[u8]) -> Command<'_> {
    match memcache::decode(line) {
        memcache::Decoded::Command(command, used) if used == line.len() => command,
        other => panic!("{other:?} of {:?}", line.escape_ascii().to_string()),
    }
}

proptest! {
    #[test]
    fn text_requests(
        key in key(), mode in mode(), flags: u32, exptime: i32, len in 0..=i32::MAX as u32 - 2,
        cas: Option<u64>, delta: u64, noreply: bool, down: bool,
    ) {
        // `cas` has no mode of its own.
        let mode = if cas.is_some() { Mode::Set } else { mode };
        let key = key.as_slice();
        let mut line = Vec::new();
        let store = Store { mode, key, flags, exptime, len, cas, noreply };
        text::store(&store, &mut line).expect("a good key");
        prop_assert_eq!(command(&line), Command::Store(store));
        line.clear();
        let count = Count { key, delta, down, noreply };
        text::count(&count, &mut line).expect("a good key");
        prop_assert_eq!(command(&line), Command::Count(count));
        line.clear();
        let touch = Touch { key, exptime, noreply };
        text::touch(&touch, &mut line).expect("a good key");
        prop_assert_eq!(command(&line), Command::Touch(touch));
        line.clear();
        let delete = Delete { key, noreply };
        text::delete(&delete, &mut line).expect("a good key");
        prop_assert_eq!(command(&line), Command::Delete(delete));
        line.clear();
        let flush = Flush { delay: exptime, noreply };
        text::flush(&flush, &mut line);
        prop_assert_eq!(command(&line), Command::Flush(flush));
    }

    #[test]
    fn text_retrievals(keys in prop::collection::vec(key(), 1..6), cas: bool, touch: Option<i32>) {
        let mut line = Vec::new();
        text::get(keys.iter().map(Vec::as_slice), cas, touch, &mut line).expect("good keys");
        let Command::Get(get) = command(&line) else { panic!("a retrieval") };
        prop_assert_eq!((get.cas, get.touch), (cas, touch));
        prop_assert!(get.keys.eq(keys.iter().map(Vec::as_slice)));
    }

    #[test]
    fn meta_gets(
        key in any_key(), value: bool, flags: bool, unbumped: bool, ttl: Option<i32>,
        vivify: Option<i32>, recache: Option<i32>, version in version(), back in back(),
    ) {
        let sent = meta::Get { key: &key, value, flags, unbumped, ttl, vivify, recache, version,
            back, ..Default::default() };
        let mut line = Vec::new();
        meta::get(&sent, &mut line).expect("a good key");
        let Command::MetaGet(get) = command(&line) else { panic!("mg") };
        prop_assert_eq!(plain(&get.key), key.clone());
        prop_assert_eq!((get.value, get.quiet, get.unbumped), (value, back.quiet, unbumped));
        prop_assert_eq!(
            (get.ttl, get.vivify, get.recache, get.version), (ttl, vivify, recache, version),
        );
    }

    /// The answer of our server sends back the requested data.
    #[test]
    fn meta_answers(
        key in any_key(), back in back(), bits: u32, cas: u64, left: i64,
        data in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let sent = meta::Get { key: &key, value: true, flags: true, left: true, back,
            ..Default::default() };
        let mut line = Vec::new();
        meta::get(&sent, &mut line).expect("a good key");
        let Command::MetaGet(get) = command(&line) else { panic!("mg") };
        let mut answer = memcache::meta::VA.to_vec();
        line::decimal(data.len() as u64, &mut answer);
        get.echo.write(&get.key, &mut answer, |flag, into| {
            match flag {
                b'f' => line::decimal(u64::from(bits), into),
                b'c' => line::decimal(cas, into),
                b't' => memcache::meta::signed(left, into),
                _ => return false,
            }
            true
        });
        answer.extend([CRLF, &data, CRLF].concat());
        let read = all(&Replies::new(300), &answer);
        let [Reply::Value(value)] = &read[..] else { panic!("{read:?}") };
        prop_assert_eq!(&answer[value.at.clone()], &data[..]);
        prop_assert_eq!((value.flags, value.cas, value.extra.opaque()), (bits,
            back.cas.then_some(cas), back.opaque));
        prop_assert_eq!(value.extra.left(), u64::try_from(left).ok());
        let mut buffer = [0; MAX_KEY];
        prop_assert_eq!(value.extra.key(&mut buffer), back.key.then_some(&key[..]));
    }

    #[test]
    fn meta_sets(
        key in any_key(), len in 0..=i32::MAX as u32 - 2, mode in mode(), flags: u32, ttl: i32,
        compare in version(), version in version(), invalidate: bool, vivify: Option<i32>,
        back in back(),
    ) {
        let sent = meta::Set { key: &key, len, mode, flags, ttl, compare, version, invalidate,
            vivify, back };
        let mut line = Vec::new();
        meta::set(&sent, &mut line).expect("a good key");
        let Command::MetaSet(set) = command(&line) else { panic!("ms") };
        prop_assert_eq!(plain(&set.key), key.clone());
        prop_assert_eq!((set.mode, set.len, set.flags, set.ttl), (mode, len, flags, ttl));
        prop_assert_eq!((set.compare, set.version, set.invalidate), (compare, version, invalidate));
        prop_assert_eq!((set.vivify, set.quiet), (vivify, back.quiet));
    }

    #[test]
    fn meta_deletes_and_counters(
        key in any_key(), compare in version(), version in version(), flag: bool,
        ttl: Option<i32>, delta: u64, vivify: Option<(i32, u64)>, value: bool, back in back(),
    ) {
        let sent =
            meta::Delete { key: &key, compare, version, invalidate: flag, empty: value, ttl, back };
        let mut line = Vec::new();
        meta::delete(&sent, &mut line).expect("a good key");
        let Command::MetaDelete(delete) = command(&line) else { panic!("md") };
        prop_assert_eq!(plain(&delete.key), key.clone());
        prop_assert_eq!((delete.compare, delete.version, delete.ttl), (compare, version, ttl));
        prop_assert_eq!((delete.invalidate, delete.empty, delete.quiet), (flag, value, back.quiet));
        let sent = meta::Count { key: &key, delta, down: flag, vivify, compare, version, ttl,
            value, back };
        line.clear();
        meta::count(&sent, &mut line).expect("a good key");
        let Command::MetaCount(count) = command(&line) else { panic!("ma") };
        prop_assert_eq!(plain(&count.key), key.clone());
        prop_assert_eq!((count.delta, count.down, count.vivify), (delta, flag, vivify));
        prop_assert_eq!((count.compare, count.version, count.ttl), (compare, version, ttl));
        prop_assert_eq!((count.value, count.quiet), (value, back.quiet));
    }

    #[test]
    fn text_answers(
        key in key(), flags: u32, cas: Option<u64>, data in prop::collection::vec(any::<u8>(),
        0..300),
    ) {
        let mut answer = Vec::new();
        value(&key, flags, data.len() as u64, cas, &mut answer);
        answer.extend([&data[..], CRLF, END].concat());
        let read = all(&Replies::new(300), &answer);
        let [Reply::Value(value), Reply::End] = &read[..] else { panic!("{read:?}") };
        prop_assert_eq!((value.key, value.flags, value.cas), (&key[..], flags, cas));
        prop_assert_eq!(&answer[value.at.clone()], &data[..]);
    }

    #[test]
    fn binary_requests_and_answers(
        key in prop::collection::vec(any::<u8>(), 1..=250), touch: Option<u32>, with_key: bool,
        quiet: bool, mode in mode(), flags: u32, exptime: u32, len in 0..1u32 << 31, delta: u64,
        initial: Option<(u64, u32)>, opaque: u32, cas: Option<u64>,
    ) {
        // An expiry of all ones means that no counter is created, a version of 0 that any is
        // accepted.
        let initial = initial.filter(|(_, exptime)| *exptime != u32::MAX);
        let cas = cas.filter(|cas| *cas != 0);
        let (key, tag) = (key.as_slice(), binary::Tag { opaque, cas });
        let read = |bytes: &[u8], expected: wire::Command<'_>| match wire::decode(bytes, true) {
            wire::Decoded::Command(header, command, used) => {
                assert_eq!((header.opaque, header.cas, used), (opaque, cas.unwrap_or(0),
                    bytes.len()));
                assert_eq!(command, expected);
                header
            }
            other => panic!("{other:?}"),
        };
        let mut bytes = Vec::new();
        let get = wire::get::Get { key, touch, value: true, with_key, quiet };
        binary::get(&get, tag, &mut bytes).expect("a good key");
        let header = read(&bytes, wire::Command::Get(get));
        let mut answer = Vec::new();
        wire::get::hit(&mut answer, &header, &get, flags, delta, 2);
        answer.extend_from_slice(b"hi");
        let replies = all(&Replies::binary(2), &answer);
        let [Reply::Value(value)] = &replies[..] else { panic!("{replies:?}") };
        prop_assert_eq!((value.flags, value.cas, value.extra.opaque()), (flags,
            (delta != 0).then_some(delta), Some(opaque)));
        prop_assert_eq!(value.key, if with_key { key } else { b"" });
        bytes.clear();
        let get = wire::get::Get { key, touch: Some(exptime), value: false, with_key: false,
            quiet: false };
        binary::get(&get, tag, &mut bytes).expect("a good key");
        read(&bytes, wire::Command::Get(get));
        bytes.clear();
        let (bits, exptime) =
            if matches!(mode, Mode::Append | Mode::Prepend) { (0, 0) } else { (flags, exptime) };
        let store = wire::store::Store { mode, key, flags: bits, exptime, len, quiet };
        binary::store(&store, tag, &mut bytes).expect("a good key");
        read(&bytes, wire::Command::Store(store));
        bytes.clear();
        let count = wire::count::Count { key, delta, down: with_key, initial, quiet };
        binary::count(&count, tag, &mut bytes).expect("a good key");
        let header = read(&bytes, wire::Command::Count(count));
        answer.clear();
        wire::count::counted(&mut answer, &header, delta, 1);
        let replies = all(&Replies::binary(8), &answer);
        prop_assert!(matches!(replies[..], [Reply::Number(number, _)] if number == delta));
        bytes.clear();
        let delete = wire::delete::Delete { key, quiet };
        binary::delete(&delete, tag, &mut bytes).expect("a good key");
        read(&bytes, wire::Command::Delete(delete));
    }
}
