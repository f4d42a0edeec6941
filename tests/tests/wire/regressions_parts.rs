//! Parts of pages (RFC 9111 3.3, 3.4): completed into what was asked for, and never taken for a
//! whole.

use larder_tests::{Answer, Gate, Larder, Origin, Reply, Seen, get, get_with, wait_until};

const BODY: &str = "0123456789";
const STRONG: &[&str] = &["Cache-Control: max-age=60", "ETag: \"v1\""];
const CHUNKED: &str = "Transfer-Encoding: chunked";

/// First and last position asked for; the last one is that of the body when it is open.
fn asked(seen: &Seen) -> Option<(usize, usize)> {
    let (first, last) = seen.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().unwrap_or(BODY.len() - 1)))
}

/// Answers ranges as a file server does.
fn file_server(fields: &[&str], seen: &Seen, reply: &mut Reply) {
    match asked(seen) {
        Some((first, last)) => {
            let range = format!("Content-Range: bytes {first}-{last}/{}", BODY.len());
            reply.answer(206, &[fields, &[range.as_str()]].concat(), &BODY[first..=last]);
        }
        None => {
            reply.ok(fields, BODY);
        }
    }
}

/// A Larder that has the first half of the page; `then` answers what it asks afterwards.
fn with_half(
    fields: &'static [&'static str],
    then: impl Fn(&Seen, &mut Reply) + Send + Sync + 'static,
) -> (Origin, Larder) {
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 { file_server(fields, seen, reply) } else { then(seen, reply) }
    });
    let larder = Larder::before(&origin.url());
    let half = range(&larder, "bytes=0-4");
    assert_eq!((half.status, half.text()), (206, "01234"));
    (origin, larder)
}

fn range(larder: &Larder, range: &str) -> Answer {
    get_with(larder.addr(), "/", &[&format!("Range: {range}")])
}

#[track_caller]
fn assert_whole(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.text(), answer.get("content-range")),
        (200, BODY, None),
        "{answer:?}"
    );
}

#[test]
fn a_part_with_a_strong_tag_is_completed() {
    let (origin, larder) = with_half(STRONG, |seen, reply| file_server(STRONG, seen, reply));
    assert_whole(&get(larder.addr(), "/"));
    let seen = origin.last();
    assert!(seen.get("range").is_some_and(|range| range.starts_with("bytes=5-")), "{seen:?}");
    assert_eq!(seen.get("if-range"), Some("\"v1\""));
    assert_whole(get(larder.addr(), "/").assert_hit());
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_part_is_completed_by_chunks() {
    let (origin, larder) = with_half(STRONG, |seen, reply| match asked(seen) {
        Some((5, 9)) => {
            let fields = [STRONG, &["Content-Range: bytes 5-9/10"]].concat();
            reply.chunked(206, &fields).chunk("567").chunk("89").end();
        }
        _ => file_server(STRONG, seen, reply),
    });
    assert_whole(&get(larder.addr(), "/"));
    // The last byte reaches the client before the last chunk tells that it was the last one.
    wait_until("the page to be stored", || {
        let answer = get(larder.addr(), "/");
        assert_whole(&answer);
        answer.is_hit()
    });
    assert!(origin.count() <= 3, "{:?}", origin.requests());
}

#[test]
fn a_part_of_a_page_that_changed_is_replaced_by_the_new_page() {
    let (_origin, larder) = with_half(STRONG, |_, reply| {
        reply.ok(&["Cache-Control: max-age=60", "ETag: \"v2\""], "another page");
    });
    let answer = get(larder.addr(), "/");
    assert_eq!(
        (answer.status, answer.text(), answer.get("etag")),
        (200, "another page", Some("\"v2\""))
    );
    assert_eq!(get(larder.addr(), "/").assert_hit().text(), "another page");
}

/// Halves of two pages must never be joined: only a strong tag tells that they are of one.
fn fetched_whole(fields: &'static [&'static str]) {
    let (origin, larder) = with_half(fields, |seen, reply| file_server(fields, seen, reply));
    assert_whole(&get(larder.addr(), "/"));
    assert_eq!(origin.last().get("range"), None, "{fields:?}");
    assert_whole(get(larder.addr(), "/").assert_hit());
}

#[test]
fn a_part_without_a_tag_is_not_completed_but_fetched_whole() {
    fetched_whole(&["Cache-Control: max-age=60"]);
}

#[test]
fn a_part_with_a_weak_tag_is_not_completed_but_fetched_whole() {
    fetched_whole(&["Cache-Control: max-age=60", "ETag: W/\"v1\""]);
}

/// Chunks in which the origin sends something else than its `Content-Range` says.
fn lied_about(second_half: &'static str) {
    let (_origin, larder) = with_half(STRONG, move |seen, reply| match asked(seen) {
        Some((5, _)) => {
            let fields = [STRONG, &["Content-Range: bytes 5-9/10", CHUNKED]].concat();
            reply.head(206, &fields).chunk(second_half).end();
        }
        _ => file_server(STRONG, seen, reply),
    });
    for _ in 0..3 {
        let mut wire = larder.connect();
        wire.send_get("/", &["Host: site.test"]);
        // Cut off, an error, or fetched whole: anything but wrong bytes that look complete.
        if let Ok(answer) = wire.try_read_for("GET") {
            assert!(
                answer.status == 502 || (answer.status == 200 && answer.text() == BODY),
                "{second_half}: {answer:?}"
            );
        }
    }
}

#[test]
fn a_second_half_shorter_than_it_says_completes_nothing() {
    lied_about("56");
}

#[test]
fn a_second_half_longer_than_it_says_completes_nothing() {
    lied_about("5678901234");
}

#[test]
fn a_range_that_cannot_be_satisfied_is_no_answer_to_others() {
    let origin = Origin::start(|seen, reply| {
        if seen.get("range").is_some() {
            reply.answer(416, &["Cache-Control: max-age=60", "Content-Range: bytes */10"], "");
        } else {
            reply.ok(STRONG, BODY);
        }
    });
    let larder = Larder::before(&origin.url());
    range(&larder, "bytes=100-").assert_status(416);
    assert_whole(&get(larder.addr(), "/"));
    assert_whole(get(larder.addr(), "/").assert_hit());
}

#[test]
fn a_416_to_the_completion_of_a_part_does_not_reach_who_asked_for_the_page() {
    let (_origin, larder) = with_half(STRONG, |seen, reply| {
        if seen.get("range").is_some() {
            reply.answer(416, &["Cache-Control: max-age=60", "Content-Range: bytes */3"], "");
        } else {
            reply.ok(STRONG, BODY);
        }
    });
    let first = get(larder.addr(), "/");
    assert!([200, 502].contains(&first.status), "{first:?}");
    assert_whole(&get(larder.addr(), "/"));
}

#[test]
fn a_forced_part_leaves_the_whole_page_stored() {
    let origin = Origin::start(|seen, reply| file_server(STRONG, seen, reply));
    let larder = Larder::before(&origin.url());
    assert_whole(&get(larder.addr(), "/"));
    // Either is right (RFC 9110 14.2): a range may be ignored.
    let forced = get_with(larder.addr(), "/", &["Range: bytes=0-4", "Cache-Control: no-cache"]);
    assert!([(206, "01234"), (200, BODY)].contains(&(forced.status, forced.text())), "{forced:?}");
    assert_eq!(origin.count(), 2);
    assert_whole(get(larder.addr(), "/").assert_hit());
}

#[test]
fn the_refresh_behind_a_stale_range_brings_the_whole_page() {
    const STALE: &[&str] =
        &["Cache-Control: max-age=10, stale-while-revalidate=1000", "Age: 20", "ETag: \"v0\""];
    let origin = Origin::start(|seen, reply| {
        let fields = if seen.number == 0 { STALE } else { STRONG };
        file_server(fields, seen, reply);
    });
    let larder = Larder::before(&origin.url());
    assert_whole(&get(larder.addr(), "/"));
    let part = range(&larder, "bytes=0-4");
    assert_eq!((part.status, part.text()), (206, "01234"));
    origin.wait_for(2);
    assert_eq!(origin.requests()[1].get("range"), None, "the refresh asked for a part");
    wait_until("the new page", || {
        let answer = get(larder.addr(), "/");
        assert_whole(&answer);
        answer.get("etag") == Some("\"v1\"")
    });
}

#[test]
fn a_part_at_the_end_of_all_numbers_breaks_nothing() {
    let origin = Origin::start(|seen, reply| {
        if seen.target == "/sane" {
            reply.ok(STRONG, BODY);
        } else {
            let range = "Content-Range: bytes \
                         18446744073709551610-18446744073709551614/18446744073709551615";
            reply.answer(206, &[STRONG, &[range]].concat(), "hello");
        }
    });
    let mut larder = Larder::before(&origin.url());
    for asked in ["bytes=0-4", "bytes=-3", "bytes=18446744073709551610-", "bytes=0-4"] {
        let mut wire = larder.connect();
        wire.send_get("/", &["Host: site.test", &format!("Range: {asked}")]);
        // What it makes of it is free, as long as it is an answer.
        wire.read();
        assert_whole(&get(larder.addr(), "/sane"));
    }
    assert!(larder.is_running());
}

/// The body of a stored part lies beyond its record's first piece by as much as its position says.
#[test]
fn a_part_from_far_within_its_page_is_served_from_the_store() {
    const LENGTH: usize = 5000;
    let body: String = (0..LENGTH / 5).map(|n| format!("{n:04}\n")).collect();
    let sent = body.clone();
    let origin = Origin::start(move |seen, reply| {
        let (first, last) = asked(seen).unwrap_or((0, LENGTH - 1));
        let content_range = format!("Content-Range: bytes {first}-{last}/{LENGTH}");
        reply.answer(206, &[STRONG, &[content_range.as_str()]].concat(), &sent[first..=last]);
    });
    let larder = Larder::before(&origin.url());
    for (asked, first, last) in
        [("4000-4009", 4000, 4009), ("4000-4009", 4000, 4009), ("4003-4006", 4003, 4006)]
    {
        let part = range(&larder, &format!("bytes={asked}"));
        assert_eq!((part.status, part.text()), (206, &body[first..=last]), "{asked}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_part_nobody_asked_for_is_an_error_of_the_origin() {
    let origin = Origin::start(|_, reply| {
        reply.answer(206, &[STRONG, &["Content-Range: bytes 0-4/10"]].concat(), "01234");
    });
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        get(larder.addr(), "/").assert_status(502);
    }
}

#[test]
fn a_304_nobody_asked_for_is_an_error_of_the_origin() {
    let origin = Origin::start(|_, reply| {
        reply.head(304, STRONG);
    });
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        get(larder.addr(), "/").assert_status(502);
    }
}

/// Two who wait for one page, one of them for a part of it, each get what they asked for.
#[test]
fn who_waits_behind_a_part_gets_the_page() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 {
            door.wait();
        }
        file_server(STRONG, seen, reply);
    });
    let larder = Larder::before(&origin.url());
    let mut part = larder.connect();
    part.send_get("/", &["Host: site.test", "Range: bytes=0-4"]);
    origin.wait_for(1);
    let mut whole = larder.connect();
    whole.send_get("/", &["Host: site.test"]);
    gate.open();
    assert_eq!(part.read().text(), "01234");
    assert_whole(&whole.read());
}

/// Larder has the first half; the origin completes it by `second`, or sends the whole. Everybody
/// gets the whole: the part that cannot be completed is dropped, and no request is cut.
#[track_caller]
fn not_completed_by(second: &'static str) {
    let (origin, larder) = with_half(STRONG, move |seen, reply| match asked(seen) {
        Some(_) => {
            reply.raw(second);
        }
        None => file_server(STRONG, seen, reply),
    });
    assert_whole(&get(larder.addr(), "/"));
    let last = origin.last();
    assert_eq!(last.get("range"), None, "{second:?}: {last:?}");
    assert_whole(get(larder.addr(), "/").assert_hit());
    assert_eq!(origin.count(), 3, "{second:?}");
}

#[test]
fn a_completion_whose_length_contradicts_its_range_is_not_used() {
    for length in [
        "Content-Length: 2\r\n\r\n56",
        "Content-Length: 7\r\n\r\n5678901",
        "Content-Length: 0\r\n\r\n",
    ] {
        let head = "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nCache-Control: \
                    max-age=60\r\nContent-Range: bytes 5-9/10\r\n";
        not_completed_by(Box::leak(format!("{head}{length}").into_boxed_str()));
    }
}

#[test]
fn a_completion_of_another_representation_is_not_used() {
    for (range, fields) in [
        ("bytes 5-9/10", "Content-Encoding: br\r\n"),
        ("bytes 5-9/10", "Content-Type: text/plain\r\n"),
        ("bytes 5-9/10", "Content-Language: de\r\n"),
        ("bytes 5-9/10", "Content-Type: multipart/byteranges; boundary=x\r\n"),
        ("bytes 5-9/11", ""),
        ("bytes 6-9/10", ""),
        ("bytes 5-8/10", ""),
        ("bytes 5-9/*", ""),
        ("items 5-9/10", ""),
    ] {
        let length = if range.starts_with("bytes 6") || range.contains("-8") { 4 } else { 5 };
        let body = "56789".get(..length).unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nCache-Control: \
             max-age=60\r\nContent-Range: {range}\r\n{fields}Content-Length: \
             {length}\r\n\r\n{body}"
        );
        not_completed_by(Box::leak(answer.into_boxed_str()));
    }
}

#[test]
fn a_304_to_the_completion_of_a_part_is_not_used() {
    not_completed_by("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n");
}

/// The length of chunks is known at their end: one client is cut, and nobody after it.
#[test]
fn a_completion_in_chunks_that_contradicts_its_range_cuts_nobody_twice() {
    for second_half in ["56", "5678901234"] {
        let (_origin, larder) = with_half(STRONG, move |seen, reply| match asked(seen) {
            Some(_) => {
                let fields = [STRONG, &["Content-Range: bytes 5-9/10"]].concat();
                reply.chunked(206, &fields).chunk(second_half).end();
            }
            None => file_server(STRONG, seen, reply),
        });
        let mut first = larder.connect();
        first.send_get("/", &["Host: site.test"]);
        if let Ok(answer) = first.try_read_for("GET") {
            assert!(answer.status == 502 || answer.text() == BODY, "{answer:?}");
        }
        assert_whole(&get(larder.addr(), "/"));
        assert_whole(get(larder.addr(), "/").assert_hit());
    }
}

/// A 206 to If-Range need not repeat what the client knows (RFC 9110 15.3.7): the whole has the
/// fields of both.
#[test]
fn a_completed_page_keeps_the_fields_that_its_completion_left_out() {
    const KNOWN: &[&str] = &[
        "Cache-Control: max-age=60",
        "ETag: \"v1\"",
        "Content-Type: text/html",
        "X-Kept: yes",
        "X-New: 1",
    ];
    let (_origin, larder) = with_half(KNOWN, |seen, reply| {
        file_server(&["Cache-Control: max-age=60", "ETag: \"v1\"", "X-New: 2"], seen, reply);
    });
    for round in 0..2 {
        let answer = get(larder.addr(), "/");
        assert_whole(&answer);
        assert_eq!(answer.is_hit(), round == 1);
        let fields =
            ["content-type", "x-kept", "x-new"].map(|name| answer.get(name).unwrap_or_default());
        assert_eq!(fields, ["text/html", "yes", "2"], "{answer:?}");
    }
}
