use super::*;

fn head(text: &str) -> Result<Option<ResponseHead>, BadResponse> {
    parse_response(text.replace('\n', "\r\n").as_bytes(), false)
}

#[track_caller]
fn whole(text: &str) -> ResponseHead {
    head(text).expect("a head").expect("all of it")
}

#[test]
fn bodies_end_as_the_fields_say() {
    for (text, body) in [
        ("HTTP/1.1 200 OK\nContent-Length: 5\n\n", ResponseBody::Length(5)),
        ("HTTP/1.1 200 OK\ncontent-length: 0\n\n", ResponseBody::None),
        ("HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 5\n\n", ResponseBody::Length(5)),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", ResponseBody::Chunked),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, Chunked\n\n", ResponseBody::Chunked),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n\n", ResponseBody::UntilClose),
        ("HTTP/1.1 200 OK\n\n", ResponseBody::UntilClose),
        ("HTTP/1.1 204 No Content\n\n", ResponseBody::None),
        ("HTTP/1.1 304 Not Modified\nContent-Length: 5\n\n", ResponseBody::None),
        ("HTTP/1.1 100 Continue\n\n", ResponseBody::None),
    ] {
        assert_eq!(whole(text).body, body, "{text}");
    }
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(
        parse_response(answer, true).expect("a head").expect("all").body,
        ResponseBody::None
    );
}

#[test]
fn unclear_framing_is_an_error() {
    for fields in [
        "Content-Length: 5\nContent-Length: 6\n",
        "Content-Length: 5, 5\n",
        "Content-Length: -1\n",
        "Content-Length:\n",
        "Content-Length: 5\nTransfer-Encoding: chunked\n",
    ] {
        assert_eq!(
            head(&format!("HTTP/1.1 200 OK\n{fields}\n")),
            Err(BadResponse::Framing),
            "{fields}"
        );
    }
}

#[test]
fn connections_stay_or_go() {
    for (text, keep_alive) in [
        ("HTTP/1.1 200 OK\nContent-Length: 1\n\n", true),
        ("HTTP/1.1 200 OK\nContent-Length: 1\nConnection: Close\n\n", false),
        ("HTTP/1.1 200 OK\nContent-Length: 1\nConnection: x, close\n\n", false),
        ("HTTP/1.0 200 OK\nContent-Length: 1\n\n", false),
        ("HTTP/1.0 200 OK\nContent-Length: 1\nConnection: keep-alive\n\n", true),
        ("HTTP/1.1 200 OK\nConnection: keep-alive\n\n", false),
    ] {
        assert_eq!(whole(text).keep_alive, keep_alive, "{text}");
    }
}

#[test]
fn caches_say_whether_they_hit() {
    for (fields, cached) in [
        ("Cache-Status: larder; hit; ttl=5\n", Cached::Hit),
        ("Cache-Status: larder; fwd=uri-miss; stored\n", Cached::Miss),
        ("Cache-Status: origin; fwd=miss, edge; hit\n", Cached::Hit),
        ("Cache-Status: hit; fwd=miss\n", Cached::Miss),
        ("Cache-Status: a; fwd=miss\nCache-Status: b; hit\n", Cached::Hit),
        ("X-Cache: HIT from larder\n", Cached::Hit),
        ("X-Cache: MISS from white.example\n", Cached::Miss),
        ("X-Cache: MISS, HIT\n", Cached::Hit),
        ("X-Cache-Status: STALE\n", Cached::Hit),
        ("X-Cache-Status: EXPIRED\n", Cached::Miss),
        ("X-Varnish: 32770 3\n", Cached::Hit),
        ("X-Varnish: 32770\n", Cached::Miss),
        ("Age: 10\n", Cached::Hit),
        ("Age: 0\n", Cached::Miss),
        ("Cache-Status: a; fwd=stale\nX-Cache: HIT\nAge: 9\n", Cached::Miss),
        ("X-Varnish: 5\nAge: 0\nX-Cache: hit\n", Cached::Hit),
        ("Server: shit\n", Cached::Unknown),
        ("X-Cache: whiter\n", Cached::Miss),
    ] {
        assert_eq!(whole(&format!("HTTP/1.1 200 OK\n{fields}\n")).cached, cached, "{fields}");
    }
}

#[test]
fn a_head_is_the_same_wherever_it_was_cut() {
    let text =
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\nX-Cache: MISS\r\nConnection: close\r\n\r\nbody";
    let end = text.len() - 4;
    let head = parse_response(text, false).expect("a head").expect("all of it");
    assert_eq!((head.status, head.used), (404, end));
    for cut in 0..end {
        assert_eq!(parse_response(&text[..cut], false), Ok(None), "{cut}");
    }
    for cut in end..text.len() {
        assert_eq!(parse_response(&text[..cut], false), Ok(Some(head)), "{cut}");
    }
}

#[test]
fn what_is_no_head_is_refused() {
    for text in [
        "SSH-2.0-OpenSSH\n\n",
        "HTTP/2 200\n\n",
        "HTTP/1.1 20 OK\n\n",
        "HTTP/1.0 096 OK\n\n",
        "HTTP/1.1 200 OK\nno colon\n\n",
    ] {
        assert_eq!(head(text), Err(BadResponse::Syntax), "{text}");
    }
    let many = format!("HTTP/1.1 200 OK\n{}\n", "a: b\n".repeat(MAX_RESPONSE_FIELDS + 1));
    assert_eq!(head(&many), Err(BadResponse::TooLarge));
    let long = format!("HTTP/1.1 200 OK\na: {}", "b".repeat(MAX_RESPONSE_HEAD));
    assert_eq!(head(&long), Err(BadResponse::TooLarge));
}
