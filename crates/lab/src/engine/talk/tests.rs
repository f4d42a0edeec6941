use std::sync::Arc;

use super::*;
use crate::{
    engine::Address,
    load::{Lengths, Sizes, Verb, value},
};

fn ask(verb: Verb, key: &str, more: &[&str]) -> Ask {
    let more = more.iter().map(|key| key.as_bytes().to_vec()).collect();
    Ask { verb, key: key.as_bytes().to_vec(), more, size: 5, ..Ask::default() }
}

fn plan(protocol: Protocol) -> Plan {
    let lengths = Lengths::Known(Sizes::fixed(5));
    Plan { check: Check::Bytes, lengths, ..Plan::new(Address::Unix("unused".into()), protocol) }
}

fn http() -> Protocol {
    Protocol::Http { host: "h".to_owned(), fields: vec!["A: b".to_owned()] }
}

/// Hits, misses, whether wrong, what failed.
type Came = (u32, u32, bool, Option<String>);

/// What comes of an answer that arrives in two pieces, as a connection takes it.
#[track_caller]
fn came(speech: &Speech<'_>, asks: &[Ask], bytes: &[u8], cut: usize) -> Vec<Came> {
    let (mut answers, mut came) = (speech.answers(), Vec::new());
    let (mut start, mut end, mut need) = (0, cut, 1);
    while came.len() < asks.len() {
        if end - start >= need {
            match answers.take(speech, &asks[came.len()], &bytes[start..end]) {
                Step::Need(more) => {
                    assert!(more > end - start, "asks for what it has");
                    need = more;
                }
                Step::Part(used) => {
                    assert!(used > 0 && used <= end - start);
                    (start, need) = (start + used, 1);
                }
                Step::Over { used, outcome, .. } => {
                    (start, need) = (start + used, 1);
                    came.push((
                        outcome.hits,
                        outcome.misses,
                        outcome.wrong,
                        outcome.fault.map(|fault| fault.to_string()),
                    ));
                }
                Step::Broken(why) => panic!("cut at {cut}: {why}"),
            }
            continue;
        }
        assert!(end < bytes.len(), "cut at {cut}: no end");
        end = bytes.len();
    }
    assert_eq!(start, bytes.len(), "cut at {cut}: all is used");
    came
}

/// The same wherever the bytes are cut.
#[track_caller]
fn expect(protocol: Protocol, asks: &[Ask], bytes: &[u8], expected: &[Came]) {
    expect_of(&plan(protocol), asks, bytes, expected);
}

#[track_caller]
fn expect_of(plan: &Plan, asks: &[Ask], bytes: &[u8], expected: &[Came]) {
    for cut in 0..=bytes.len() {
        let pages = Pages::new();
        let speech = Speech::new(plan, &pages);
        assert_eq!(came(&speech, asks, bytes, cut), expected, "cut at {cut}");
    }
}

fn with_value(key: &str, before: &str, after: &str) -> Vec<u8> {
    let mut bytes = before.as_bytes().to_vec();
    value::fill(key.as_bytes(), 5, &mut bytes);
    bytes.extend_from_slice(after.as_bytes());
    bytes
}

#[test]
fn text_answers_wherever_they_are_cut() {
    let asks = [
        ask(Verb::Get, "a", &[]),
        ask(Verb::Get, "a", &["b", "a", "c"]),
        ask(Verb::Get, "b", &[]),
        ask(Verb::Set, "a", &[]),
        ask(Verb::Delete, "a", &[]),
        ask(Verb::Set, "a", &[]),
        ask(Verb::Get, "a", &[]),
    ];
    let value = with_value("a", "VALUE a 0 5\r\n", "\r\n");
    let bytes = [
        &value[..],
        b"END\r\n",
        &value,
        &value,
        b"END\r\n",
        b"END\r\n",
        b"STORED\r\n",
        b"NOT_FOUND\r\n",
        b"SERVER_ERROR out of memory\r\n",
        b"VALUE a 0 5\r\nother\r\nEND\r\n",
    ]
    .concat();
    let expected = [
        (1, 0, false, None),
        (2, 2, false, None),
        (0, 1, false, None),
        (0, 0, false, None),
        (0, 0, false, None),
        (0, 0, false, Some("answered: out of memory".to_owned())),
        (1, 0, true, None),
    ];
    expect(Protocol::MemcachedText, &asks, &bytes, &expected);
}

#[test]
fn meta_answers_wherever_they_are_cut() {
    let asks = [
        ask(Verb::Get, "a", &["b", "a"]),
        ask(Verb::Get, "a", &[]),
        ask(Verb::Set, "a", &[]),
        ask(Verb::Delete, "a", &[]),
        ask(Verb::Get, "b", &[]),
    ];
    let value = with_value("a", "VA 5\r\n", "\r\n");
    let bytes = [&value[..], b"EN\r\n", &value, &value, b"HD\r\n", b"NF\r\n", b"VA 5\r\nother\r\n"].concat();
    let expected = [
        (2, 1, false, None),
        (1, 0, false, None),
        (0, 0, false, None),
        (0, 0, false, None),
        (1, 0, true, None),
    ];
    expect(Protocol::MemcachedMeta, &asks, &bytes, &expected);
}

#[test]
fn redis_answers_wherever_they_are_cut() {
    let asks = [
        ask(Verb::Get, "a", &[]),
        ask(Verb::Get, "a", &["b", "c"]),
        ask(Verb::Set, "a", &[]),
        ask(Verb::Delete, "a", &[]),
        ask(Verb::Get, "a", &[]),
        ask(Verb::Get, "b", &[]),
    ];
    let value = with_value("a", "$5\r\n", "\r\n");
    let bytes =
        [&value[..], b"*3\r\n", &value, b"$-1\r\n$5\r\nother\r\n", b"+OK\r\n:1\r\n$-1\r\n-LOADING data\r\n"]
            .concat();
    let expected = [
        (1, 0, false, None),
        (2, 1, true, None),
        (0, 0, false, None),
        (0, 0, false, None),
        (0, 1, false, None),
        (0, 0, false, Some("answered: LOADING data".to_owned())),
    ];
    expect(Protocol::Redis, &asks, &bytes, &expected);
}

/// The bytes of a value come of its length, so that an empty one has no byte that could be wrong.
#[test]
fn a_value_of_another_length_is_wrong() {
    let with = |lengths: &Lengths, protocol, bytes: &[u8], wrong| {
        let plan = Plan { lengths: lengths.clone(), ..plan(protocol) };
        expect_of(&plan, &[ask(Verb::Get, "a", &[])], bytes, &[(1, 0, wrong, None)]);
    };
    let mut short = Vec::new();
    value::fill(b"a", 3, &mut short);
    let known = Lengths::Known(Sizes::fixed(5));
    // What each makes of no bytes and of three.
    for (lengths, empty, other) in
        [(known, true, true), (Lengths::NotEmpty, true, false), (Lengths::Any, false, false)]
    {
        for (bytes, wrong) in [(&b""[..], empty), (&short, other)] {
            let number = bytes.len();
            let framed = |before: String, after: &str| [before.as_bytes(), bytes, after.as_bytes()].concat();
            let text = framed(format!("VALUE a 0 {number}\r\n"), "\r\nEND\r\n");
            with(&lengths, Protocol::MemcachedText, &text, wrong);
            with(&lengths, Protocol::MemcachedMeta, &framed(format!("VA {number}\r\n"), "\r\n"), wrong);
            with(&lengths, Protocol::Redis, &framed(format!("${number}\r\n"), "\r\n"), wrong);
        }
    }
}

#[test]
fn pages_that_are_known_are_compared_with_what_they_are() {
    let known = Known::of([("/a".to_owned(), b"hello".to_vec())]);
    let plan = Plan { known: Arc::new(known), ..plan(http()) };
    let answer = |status: u16, body: &str| {
        format!("HTTP/1.1 {status} OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let bodies = ["hallo", "hello", "hell", "hello!", ""];
    let bytes: String = bodies.iter().map(|body| answer(200, body)).chain([answer(201, "hello")]).collect();
    let asks = vec![ask(Verb::Get, "/a", &[]); 6];
    let mut expected: Vec<Came> = bodies.iter().map(|body| (0, 0, *body != "hello", None)).collect();
    expected.push((0, 0, false, Some("status 201".to_owned())));
    expect_of(&plan, &asks, bytes.as_bytes(), &expected);
}

#[test]
fn of_every_few_pages_one_is_compared() {
    let known = Known::of([("/a".to_owned(), b"hello".to_vec())]);
    let plan = Plan { known: Arc::new(known), check: Check::Every(3), ..plan(http()) };
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother".repeat(7);
    let expected: Vec<Came> = (0..7).map(|n| (0, 0, n % 3 == 0, None)).collect();
    expect_of(&plan, &vec![ask(Verb::Get, "/a", &[]); 7], &bytes, &expected);
}

#[test]
fn pages_wherever_they_are_cut() {
    let asks: Vec<Ask> =
        (0..5).map(|_| ask(Verb::Get, "/a", &[])).chain([ask(Verb::Head, "/a", &[])]).collect();
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Cache: MISS\r\n\r\nhello\
        HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nAge: 3\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother\
        HTTP/1.1 304 Not Modified\r\n\r\n\
        HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad\
        HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let expected = [
        (0, 1, false, None),
        (1, 0, false, None),
        (0, 0, true, None),
        (0, 0, false, None),
        (0, 0, false, Some("status 500".to_owned())),
        (0, 0, false, None),
    ];
    expect(http(), &asks, bytes, &expected);
}

#[test]
fn what_answers_nothing_that_was_asked_is_no_answer() {
    for (protocol, verb, bytes) in [
        (Protocol::MemcachedText, Verb::Get, &b"STORED\r\n"[..]),
        (Protocol::MemcachedText, Verb::Set, b"END\r\n"),
        (Protocol::MemcachedMeta, Verb::Delete, b"VA 1\r\na\r\n"),
        (Protocol::Redis, Verb::Get, b"*1\r\n"),
        (Protocol::Redis, Verb::Get, b":1\r\n"),
        (Protocol::Redis, Verb::Set, b"+QUEUED\r\n"),
        (http(), Verb::Get, b"VALUE a 0 5\r\n"),
    ] {
        let pages = Pages::new();
        let plan = plan(protocol.clone());
        let speech = Speech::new(&plan, &pages);
        let step = speech.answers().take(&speech, &ask(verb, "a", &[]), bytes);
        assert!(matches!(step, Step::Broken(_)), "{protocol} {verb:?}: {step:?}");
    }
    // A value under a name nobody asked for.
    let asks = [ask(Verb::Get, "a", &["b"])];
    let expected = [(0, 2, true, None)];
    expect(Protocol::MemcachedText, &asks, b"VALUE x 0 1\r\nx\r\nEND\r\n", &expected);
}

#[test]
fn requests_are_written_as_the_protocols_say() {
    let said = |protocol: Protocol, ask: &Ask| {
        let pages = Pages::new();
        let mut out = Vec::new();
        let plan = plan(protocol);
        Speech::new(&plan, &pages).ask(ask, &mut out).then_some(out)
    };
    let is = |protocol: Protocol, ask: &Ask, expected: &[u8]| {
        let out = said(protocol, ask).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected));
    };
    is(http(), &ask(Verb::Get, "/a?b", &[]), b"GET /a?b HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n");
    is(http(), &ask(Verb::Head, "http://x:1", &[]), b"HEAD / HTTP/1.1\r\nHost: x:1\r\nA: b\r\n\r\n");
    is(
        http(),
        &ask(Verb::Set, "/a", &[]),
        &with_value("/a", "PUT /a HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 5\r\n\r\n", ""),
    );
    is(Protocol::MemcachedText, &ask(Verb::Get, "a", &["b"]), b"get a b\r\n");
    let timed = Ask { ttl: 60, ..ask(Verb::Set, "a", &[]) };
    is(Protocol::MemcachedText, &timed, &with_value("a", "set a 0 60 5\r\n", "\r\n"));
    is(Protocol::MemcachedMeta, &ask(Verb::Get, "a", &["b"]), b"mg a v\r\nmg b v\r\n");
    is(Protocol::MemcachedMeta, &timed, &with_value("a", "ms a 5 T60\r\n", "\r\n"));
    is(Protocol::Redis, &ask(Verb::Get, "a", &[]), b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    is(Protocol::Redis, &ask(Verb::Get, "a", &["b"]), b"*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n");
    let set = with_value("a", "*5\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n", "\r\n$2\r\nEX\r\n$2\r\n60\r\n");
    is(Protocol::Redis, &timed, &set);
    // What a protocol cannot say is not said, and leaves nothing behind.
    assert_eq!(said(http(), &ask(Verb::Get, "/a b", &[])), None);
    assert_eq!(said(http(), &ask(Verb::Get, "a", &[])), None);
    assert_eq!(said(Protocol::MemcachedText, &ask(Verb::Get, "a b", &[])), None);
    assert_eq!(said(Protocol::MemcachedMeta, &ask(Verb::Get, "a", &[&"b".repeat(300)])), None);
}
