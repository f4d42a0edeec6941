use super::*;
use proptest::prelude::*;

type Lines = Vec<(String, String)>;

fn decoded(section: &[u8]) -> Result<Lines, QpackError> {
    let mut lines = Lines::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decode(section, usize::MAX, &mut Vec::new(), &mut |line| {
        lines.push((text(line.name), text(line.value)));
    })?;
    Ok(lines)
}

fn encoded(status: u16, lines: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut section = Section::new(&mut out);
    section.status(status);
    section.lines(lines.as_bytes());
    out
}

fn pairs(lines: &[(&str, &str)]) -> Lines {
    lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn example_of_appendix_b_1() {
    let section = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(decoded(section), Ok(pairs(&[(":path", "/index.html")])));
}

#[test]
fn entries_of_the_static_table_have_their_place() {
    for (index, name, value) in [
        (0, ":authority", ""),
        (1, ":path", "/"),
        (17, ":method", "GET"),
        (23, ":scheme", "https"),
        (25, ":status", "200"),
        (31, "accept-encoding", "gzip, deflate, br"),
        (41, "cache-control", "public, max-age=31536000"),
        (52, "content-type", "text/html; charset=utf-8"),
        (62, "x-xss-protection", "1; mode=block"),
        (71, ":status", "500"),
        (83, "alt-svc", "clear"),
        (92, "server", ""),
        (98, "x-frame-options", "sameorigin"),
    ] {
        let mut section = vec![0, 0];
        crate::hpack::integer::encode(index, 6, 0xc0, &mut section);
        assert_eq!(decoded(&section), Ok(pairs(&[(name, value)])));
    }
}

#[test]
fn every_status_comes_back() {
    for status in 100..1000 {
        let lines = decoded(&encoded(status, "")).expect("our own section");
        assert_eq!(lines, pairs(&[(":status", &status.to_string())]));
    }
}

#[test]
fn heads_come_back_without_fields_of_the_connection() {
    let head = "Content-Type: text/html; charset=utf-8\r\nContent-Type: text/x\r\nServer: larder\r\n\
                Connection: close\r\nTransfer-Encoding: chunked\r\nKeep-Alive: 5\r\nUpgrade: x\r\n\
                Set-Cookie: a=b\r\nX-Own:  some value \r\nX-Cache: HIT\r\n\r\n";
    let lines = [
        (":status", "200"),
        ("content-type", "text/html; charset=utf-8"),
        ("content-type", "text/x"),
        ("server", "larder"),
        ("set-cookie", "a=b"),
        ("x-own", "some value"),
        ("x-cache", "HIT"),
    ];
    assert_eq!(decoded(&encoded(200, head)), Ok(pairs(&lines)));
}

#[test]
fn a_cookie_is_never_indexed() {
    let section = encoded(200, "Set-Cookie: a=b\r\n");
    let mut marks = Vec::new();
    decode(&section, usize::MAX, &mut Vec::new(), &mut |line| marks.push(line.never_indexed))
        .expect("our own section");
    assert_eq!(marks, [false, true]);
}

#[test]
fn dynamic_tables_are_refused() {
    for section in [
        &b"\x02\x00\xc1"[..],
        b"\x00\x80\xc1",
        b"\x00\x00\x81",
        b"\x00\x00\x41\x01a",
        b"\x00\x00\x10",
        b"\x00\x00\x01\x01a",
    ] {
        assert_eq!(decoded(section), Err(QpackError::Dynamic), "{section:x?}");
    }
}

#[test]
fn malformed_sections_are_refused() {
    for (section, error) in [
        (&b""[..], HpackError::Truncated),
        (b"\x00", HpackError::Truncated),
        (b"\x00\x00\xff\x24", HpackError::Index),
        (b"\x00\x00\x5f\x54\x00", HpackError::Index),
        (b"\x00\x00\x51\x0b/ind", HpackError::Truncated),
        (b"\x00\x00\x51", HpackError::Truncated),
        (b"\x00\x00\xff\xff\xff\xff\xff\xff\x01", HpackError::Integer),
        (b"\x00\x00\x51\x81\x00", HpackError::Huffman),
        (b"\x00\x00\x27\x01", HpackError::Truncated),
    ] {
        assert_eq!(decoded(section), Err(QpackError::Malformed(error)), "{section:x?}");
    }
}

#[test]
fn a_list_above_the_limit_is_cut_and_measured() {
    let section = encoded(200, "a: b\r\nc: d\r\n");
    let mut count = 0;
    let decoded =
        decode(&section, 80, &mut Vec::new(), &mut |_| count += 1).expect("our own section");
    assert_eq!((count, decoded.size, decoded.too_large), (2, 42 + 34 + 34, true));
}

proptest! {
    #[test]
    fn fields_come_back(
        fields in prop::collection::vec(("[a-z][a-z0-9-]{0,70}", "[!-~]([ -~]{0,150}[!-~])?"), 0..10)
    ) {
        let head: String =
            fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let dropped =
            ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
        let mut expected = pairs(&[(":status", "200")]);
        expected.extend(fields.into_iter().filter(|(name, _)| !dropped.contains(&name.as_str())));
        prop_assert_eq!(decoded(&encoded(200, &head)), Ok(expected));
    }

    #[test]
    fn any_bytes_are_decoded_within_bounds(
        section in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        let section = [&[0, 0], &section[..]].concat();
        let mut size = 0;
        let result = decode(&section, usize::MAX, &mut Vec::new(), &mut |line| {
            size += line.name.len() + line.value.len() + 32;
        });
        if let Ok(decoded) = result {
            prop_assert_eq!(decoded.size, size);
        }
    }
}
