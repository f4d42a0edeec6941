use std::sync::Arc;

use super::*;
use crate::{
    engine::{Address, HttpVersion, slots::Slots, tally::Fault},
    load::{Lengths, Sizes, Verb, value},
};

fn operation(verb: Verb, key: &str, more: &[&str]) -> Operation {
    let more = more.iter().map(|key| key.as_bytes().to_vec()).collect();
    Operation { verb, key: key.as_bytes().to_vec(), more, size: 5, ..Operation::default() }
}

fn plan(protocol: Protocol) -> Plan {
    let lengths = Lengths::Known(Sizes::fixed(5));
    Plan { check: Check::Bytes, lengths, ..Plan::new(Address::Unix("unused".into()), protocol) }
}

fn http() -> Protocol {
    Protocol::Http { host: "h".to_owned(), fields: vec!["A: b".to_owned()] }
}

/// Hits, misses, whether wrong, the failure.
type Summary = (u32, u32, bool, Option<String>);

/// Decodes an answer that arrives in two pieces, as a connection does.
#[track_caller]
fn summary(codec: &Codec<'_>, operations: &[Operation], bytes: &[u8], cut: usize) -> Vec<Summary> {
    let (mut answers, mut summary) = (codec.answers(), Vec::new());
    let (mut start, mut end, mut need) = (0, cut, 1);
    while summary.len() < operations.len() {
        if end - start >= need {
            match answers.take(codec, &operations[summary.len()], &bytes[start..end]) {
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
                    summary.push((
                        outcome.hits,
                        outcome.misses,
                        outcome.wrong,
                        outcome.fault.map(|fault| fault.to_string()),
                    ));
                }
                Step::Leave => panic!("cut at {cut}: the end"),
                Step::Broken(why) => panic!("cut at {cut}: {why}"),
            }
            continue;
        }
        assert!(end < bytes.len(), "cut at {cut}: no end");
        end = bytes.len();
    }
    assert_eq!(start, bytes.len(), "cut at {cut}: all is used");
    summary
}

/// The result must not depend on where the bytes are cut.
#[track_caller]
fn expect(protocol: Protocol, operations: &[Operation], bytes: &[u8], expected: &[Summary]) {
    expect_of(&plan(protocol), operations, bytes, expected);
}

#[track_caller]
fn expect_of(plan: &Plan, operations: &[Operation], bytes: &[u8], expected: &[Summary]) {
    for cut in 0..=bytes.len() {
        let pages = SeenPages::new();
        let codec = Codec::new(plan, &pages);
        assert_eq!(summary(&codec, operations, bytes, cut), expected, "cut at {cut}");
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
    let operations = [
        operation(Verb::Get, "a", &[]),
        operation(Verb::Get, "a", &["b", "a", "c"]),
        operation(Verb::Get, "b", &[]),
        operation(Verb::Set, "a", &[]),
        operation(Verb::Delete, "a", &[]),
        operation(Verb::Set, "a", &[]),
        operation(Verb::Get, "a", &[]),
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
    expect(Protocol::MemcachedText, &operations, &bytes, &expected);
}

#[test]
fn meta_answers_wherever_they_are_cut() {
    let operations = [
        operation(Verb::Get, "a", &["b", "a"]),
        operation(Verb::Get, "a", &[]),
        operation(Verb::Set, "a", &[]),
        operation(Verb::Delete, "a", &[]),
        operation(Verb::Get, "b", &[]),
    ];
    let value = with_value("a", "VA 5\r\n", "\r\n");
    let bytes = [&value[..], b"EN\r\n", &value, &value, b"HD\r\n", b"NF\r\n", b"VA 5\r\nother\r\n"]
        .concat();
    let expected = [
        (2, 1, false, None),
        (1, 0, false, None),
        (0, 0, false, None),
        (0, 0, false, None),
        (1, 0, true, None),
    ];
    expect(Protocol::MemcachedMeta, &operations, &bytes, &expected);
}

#[test]
fn redis_answers_wherever_they_are_cut() {
    let operations = [
        operation(Verb::Get, "a", &[]),
        operation(Verb::Get, "a", &["b", "c"]),
        operation(Verb::Set, "a", &[]),
        operation(Verb::Delete, "a", &[]),
        operation(Verb::Get, "a", &[]),
        operation(Verb::Get, "b", &[]),
    ];
    let value = with_value("a", "$5\r\n", "\r\n");
    let bytes = [
        &value[..],
        b"*3\r\n",
        &value,
        b"$-1\r\n$5\r\nother\r\n",
        b"+OK\r\n:1\r\n$-1\r\n-LOADING data\r\n",
    ]
    .concat();
    let expected = [
        (1, 0, false, None),
        (2, 1, true, None),
        (0, 0, false, None),
        (0, 0, false, None),
        (0, 1, false, None),
        (0, 0, false, Some("answered: LOADING data".to_owned())),
    ];
    expect(Protocol::Redis, &operations, &bytes, &expected);
}

/// Values are derived from their length, as an empty one has no byte that could be wrong.
#[test]
fn a_value_of_another_length_is_wrong() {
    let with = |lengths: &Lengths, protocol, bytes: &[u8], wrong| {
        let plan = Plan { lengths: lengths.clone(), ..plan(protocol) };
        expect_of(&plan, &[operation(Verb::Get, "a", &[])], bytes, &[(1, 0, wrong, None)]);
    };
    let mut short = Vec::new();
    value::fill(b"a", 3, &mut short);
    let known = Lengths::Known(Sizes::fixed(5));
    // Results for a value of no bytes and of three.
    for (lengths, empty, other) in
        [(known, true, true), (Lengths::NotEmpty, true, false), (Lengths::Any, false, false)]
    {
        for (bytes, wrong) in [(&b""[..], empty), (&short, other)] {
            let number = bytes.len();
            let framed =
                |before: String, after: &str| [before.as_bytes(), bytes, after.as_bytes()].concat();
            let text = framed(format!("VALUE a 0 {number}\r\n"), "\r\nEND\r\n");
            with(&lengths, Protocol::MemcachedText, &text, wrong);
            with(
                &lengths,
                Protocol::MemcachedMeta,
                &framed(format!("VA {number}\r\n"), "\r\n"),
                wrong,
            );
            with(&lengths, Protocol::Redis, &framed(format!("${number}\r\n"), "\r\n"), wrong);
        }
    }
}

#[test]
fn pages_that_are_known_are_compared_with_what_they_are() {
    let known = KnownPages::of([("/a".to_owned(), b"hello".to_vec())]);
    let plan = Plan { known: Arc::new(known), ..plan(http()) };
    let answer = |status: u16, body: &str| {
        format!("HTTP/1.1 {status} OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let bodies = ["hallo", "hello", "hell", "hello!", ""];
    let bytes: String =
        bodies.iter().map(|body| answer(200, body)).chain([answer(201, "hello")]).collect();
    let operations = vec![operation(Verb::Get, "/a", &[]); 6];
    let mut expected: Vec<Summary> =
        bodies.iter().map(|body| (0, 0, *body != "hello", None)).collect();
    expected.push((0, 0, false, Some("status 201".to_owned())));
    expect_of(&plan, &operations, bytes.as_bytes(), &expected);
}

#[test]
fn of_every_few_pages_one_is_compared() {
    let known = KnownPages::of([("/a".to_owned(), b"hello".to_vec())]);
    let plan = Plan { known: Arc::new(known), check: Check::Every(3), ..plan(http()) };
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother".repeat(7);
    let expected: Vec<Summary> = (0..7).map(|n| (0, 0, n % 3 == 0, None)).collect();
    expect_of(&plan, &vec![operation(Verb::Get, "/a", &[]); 7], &bytes, &expected);
}

#[test]
fn pages_wherever_they_are_cut() {
    let operations: Vec<Operation> = (0..5)
        .map(|_| operation(Verb::Get, "/a", &[]))
        .chain([operation(Verb::Head, "/a", &[])])
        .collect();
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Cache: MISS\r\n\r\nhello\
        HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nAge: \
        3\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n\
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
    expect(http(), &operations, bytes, &expected);
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
        let pages = SeenPages::new();
        let plan = plan(protocol.clone());
        let codec = Codec::new(&plan, &pages);
        let step = codec.answers().take(&codec, &operation(verb, "a", &[]), bytes);
        assert!(matches!(step, Step::Broken(_)), "{protocol} {verb:?}: {step:?}");
    }
    // A value for a key nobody requested.
    let operations = [operation(Verb::Get, "a", &["b"])];
    let expected = [(0, 2, true, None)];
    expect(Protocol::MemcachedText, &operations, b"VALUE x 0 1\r\nx\r\nEND\r\n", &expected);
}

#[test]
fn requests_are_written_as_the_protocols_say() {
    let said = |protocol: Protocol, operation: &Operation| {
        let pages = SeenPages::new();
        let mut out = Vec::new();
        let plan = plan(protocol);
        Codec::new(&plan, &pages).encode(operation, &mut out).then_some(out)
    };
    let is = |protocol: Protocol, operation: &Operation, expected: &[u8]| {
        let out = said(protocol, operation).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected));
    };
    is(http(), &operation(Verb::Get, "/a?b", &[]), b"GET /a?b HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n");
    is(
        http(),
        &operation(Verb::Head, "http://x:1", &[]),
        b"HEAD / HTTP/1.1\r\nHost: x:1\r\nA: b\r\n\r\n",
    );
    is(
        http(),
        &operation(Verb::Set, "/a", &[]),
        &with_value("/a", "PUT /a HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 5\r\n\r\n", ""),
    );
    is(Protocol::MemcachedText, &operation(Verb::Get, "a", &["b"]), b"get a b\r\n");
    let timed = Operation { ttl: 60, ..operation(Verb::Set, "a", &[]) };
    is(Protocol::MemcachedText, &timed, &with_value("a", "set a 0 60 5\r\n", "\r\n"));
    is(Protocol::MemcachedMeta, &operation(Verb::Get, "a", &["b"]), b"mg a v\r\nmg b v\r\n");
    is(Protocol::MemcachedMeta, &timed, &with_value("a", "ms a 5 T60\r\n", "\r\n"));
    is(Protocol::Redis, &operation(Verb::Get, "a", &[]), b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    is(
        Protocol::Redis,
        &operation(Verb::Get, "a", &["b"]),
        b"*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n",
    );
    let set =
        with_value("a", "*5\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n", "\r\n$2\r\nEX\r\n$2\r\n60\r\n");
    is(Protocol::Redis, &timed, &set);
    // A request the protocol cannot express appends nothing.
    assert_eq!(said(http(), &operation(Verb::Get, "/a b", &[])), None);
    assert_eq!(said(http(), &operation(Verb::Get, "a", &[])), None);
    assert_eq!(said(Protocol::MemcachedText, &operation(Verb::Get, "a b", &[])), None);
    assert_eq!(
        said(Protocol::MemcachedMeta, &operation(Verb::Get, "a", &[&"b".repeat(300)])),
        None
    );
}

/// The outcome of one request over HTTP/2 whose answer comes in two pieces.
fn over_http2(bytes: &[u8], cut: usize) -> Result<Outcome, String> {
    let (pages, mut plan) = (SeenPages::new(), plan(http()));
    plan.version = HttpVersion::Http2;
    let codec = Codec::new(&plan, &pages);
    let mut slots = Slots::new(1);
    slots.get_mut(0).operation = operation(Verb::Get, "/a", &[]);
    slots.begin();
    let (mut answers, mut out) = (codec.answers(), Vec::new());
    answers.open(&mut out);
    assert!(answers.ask(&codec, 0, &slots.get(0).operation, &mut out));
    let Answers::Http2(http2) = &mut answers else { panic!("HTTP/2") };
    let mut received = Vec::new();
    for piece in [&bytes[..cut], &bytes[cut..]] {
        received.extend_from_slice(piece);
        while !received.is_empty() {
            match http2.take(&slots, &received, &codec) {
                Step::Need(_) => break,
                Step::Part(used) => drop(received.drain(..used)),
                Step::Over { outcome, .. } => return Ok(outcome),
                Step::Leave => return Err("the end".to_owned()),
                Step::Broken(why) => return Err(why),
            }
        }
    }
    Err("nothing".to_owned())
}

/// A frame of stream 1, or of the connection.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let stream = u8::from(matches!(kind, 0 | 1 | 3 | 9));
    let head = [0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream];
    [&head[..], payload].concat()
}

#[test]
fn answers_over_http2_come_in_any_pieces_and_are_judged() {
    // 200 and a Content-Length of 5.
    let (status, length) = (&[0x88][..], &[0x0f, 0x0d, 1, b'5'][..]);
    let head = [frame(4, 0, &[]), frame(1, 0, status), frame(9, 4, length)].concat();
    let body = [frame(0, 8, b"\x02he\0\0"), frame(6, 0, &[7; 8]), frame(0, 0, b"llo")].concat();
    let whole = [&head[..], &body, &frame(0, 1, b"")].concat();
    for cut in 0..=whole.len() {
        let outcome = over_http2(&whole, cut).unwrap_or_else(|why| panic!("cut at {cut}: {why}"));
        assert!(outcome.fault.is_none() && !outcome.wrong, "cut at {cut}");
    }
    let fault = |bytes: &[u8]| over_http2(bytes, 0).map(|outcome| outcome.fault);
    let short = fault(&[&head[..], &frame(0, 1, b"four")].concat());
    assert!(matches!(short, Ok(Some(Fault::Malformed(_)))), "{short:?}");
    let reset = fault(&[&head[..], &frame(3, 0, &[0, 0, 0, 2])].concat());
    assert!(matches!(reset, Ok(Some(Fault::Broke(_)))), "{reset:?}");
    for (what, bytes) in [
        ("content without a head", frame(0, 1, b"hello")),
        ("a head without a status", frame(1, 5, length)),
        ("a status twice", frame(1, 5, &[0x88, 0x88])),
        ("another frame in a head", [frame(1, 0, status), frame(6, 0, &[7; 8])].concat()),
        ("a push", frame(5, 4, status)),
        ("an error of the connection", frame(7, 0, &[0, 0, 0, 1, 0, 0, 0, 11])),
        ("padding without end", frame(0, 8, &[9, 0])),
    ] {
        assert!(over_http2(&bytes, 0).is_err(), "{what}");
    }
    // It has not taken the request: that is sent again on another connection.
    assert_eq!(over_http2(&frame(7, 0, &[0; 8]), 0).err().as_deref(), Some("the end"));
}

#[test]
fn answers_over_http3_come_in_any_pieces_and_are_judged() {
    let (pages, mut plan) = (SeenPages::new(), plan(http()));
    plan.version = HttpVersion::Http3;
    let codec = Codec::new(&plan, &pages);
    let get = operation(Verb::Get, "/a", &[]);
    // 200 (entry 25 of the static table) and a Content-Length (4) of 5.
    let head = [&[1, 6, 0, 0, 0xd9, 0x54, 1, b'5'][..], &[0x21, 2, 9, 9]].concat();
    let whole = [&head[..], &[0, 2], b"he", &[0, 3], b"llo"].concat();
    let judge = |bytes: &[u8], cut: usize| {
        let mut answer = Answer::new();
        answer.take(&bytes[..cut], &get, &codec)?;
        answer.take(&bytes[cut..], &get, &codec)?;
        Ok::<_, String>(answer.end(&get, &codec))
    };
    for cut in 0..=whole.len() {
        let outcome = judge(&whole, cut).unwrap_or_else(|why| panic!("cut at {cut}: {why}"));
        assert!(outcome.fault.is_none() && !outcome.wrong, "cut at {cut}");
    }
    for short in [&whole[..whole.len() - 1], &head, b""] {
        let outcome = judge(short, 0).expect("well-formed so far");
        assert!(matches!(outcome.fault, Some(Fault::Malformed(_))), "{short:?}");
    }
    for (what, bytes) in [
        ("content without a head", &[0, 1, b'x'][..]),
        ("SETTINGS", &[4, 0]),
        ("a head without a status", &[1, 5, 0, 0, 0x54, 1, b'5']),
        ("an entry of a table that is not there", &[1, 3, 0, 0, 0x80]),
    ] {
        assert!(judge(bytes, 0).is_err(), "{what}");
    }
}
