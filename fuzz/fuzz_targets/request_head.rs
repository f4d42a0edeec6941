//! Whatever head is accepted must read the same to a plain line splitter, alone and with bytes
//! after it.
#![no_main]

use larder_proto::http::{
    BodyFraming, HeadLimits, Parsed, RequestHead, Version, parse_request, slots,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = HeadLimits { head_bytes: 4096, request_line: 512, fields: 24 };
    let mut room = slots::<32>();
    let Ok(Parsed::Complete(head)) = parse_request(bytes, &mut room, &limits) else { return };
    check_lines(&head, &bytes[..head.len]);
    check_framing(&head);
    let mut other = slots::<32>();
    match parse_request(&bytes[..head.len], &mut other, &limits) {
        Ok(Parsed::Complete(again)) => assert_eq!(again.len, head.len),
        _ => panic!("the same head without what follows is not accepted"),
    }
    for end in [head.len - 1, head.len / 2] {
        let mut other = slots::<32>();
        let start = parse_request(&bytes[..end], &mut other, &limits);
        assert!(matches!(start, Ok(Parsed::Partial)), "the start of an accepted head is {start:?}");
    }
});

fn check_lines(head: &RequestHead<'_>, bytes: &[u8]) {
    let text = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let text = text.strip_suffix(b"\r\n\r\n").expect("ends with an empty line");
    let text = std::str::from_utf8(text)
        .map(str::to_owned)
        .unwrap_or_else(|_| text.iter().map(|&b| b as char).collect());
    assert!(text.split("\r\n").all(|line| !line.contains(['\r', '\n', '\0'])));
    let mut lines = text.split("\r\n");
    let line = lines.next().expect("a request line");
    let minor = if head.version == Version::Http10 { 0 } else { 1 };
    assert_eq!(line, format!("{} {} HTTP/1.{minor}", head.method.as_str(), head.raw_target));
    let names: Vec<&str> = lines.map(|l| l.split_once(':').expect("a colon").0).collect();
    assert_eq!(names, head.fields.iter().map(|(name, _)| name).collect::<Vec<_>>());
}

fn check_framing(head: &RequestHead<'_>) {
    let lengths = head.fields.all("content-length").count();
    let codings = head.fields.all("transfer-encoding").count();
    assert!(lengths + codings <= 1);
    match head.framing {
        BodyFraming::Chunked => assert_eq!((codings, head.version), (1, Version::Http11)),
        BodyFraming::Length(length) => {
            let value = head.fields.get("content-length").expect("a length");
            let digits = std::str::from_utf8(value).expect("digits").trim_start_matches('0');
            assert_eq!(digits, length.to_string());
        }
        BodyFraming::None => assert_eq!(codings, 0),
    }
    assert!(head.host.is_some() || head.version == Version::Http10);
}
