use super::*;

fn source(client: &str, server: &str, secure: bool) -> Option<Source> {
    let address = |text: &str| text.parse().expect("an address");
    Some(Source { client: address(client), server: address(server), secure })
}

/// The header with nothing and with bytes behind it, and all its beginnings.
#[track_caller]
fn header(bytes: &[u8]) -> Option<Source> {
    for cut in 0..bytes.len() {
        assert_eq!(parse(&bytes[..cut]), Ok(Parsed::Partial), "{cut} of {}", bytes.len());
    }
    let Ok(Parsed::Complete(header)) = parse(bytes) else { panic!("{:?}", parse(bytes)) };
    assert_eq!(header.len, bytes.len());
    assert_eq!(parse(&[bytes, b"GET / HTTP/1.1\r\n"].concat()), Ok(Parsed::Complete(header)));
    header.source
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = (rest.len() as u16).to_be_bytes();
    [SIGNATURE, &[0x20 | command, family][..], &len, rest].concat()
}

const FOUR: &[u8] = &[192, 168, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 1, 187];

#[test]
fn version_1_as_in_the_document() {
    assert_eq!(
        header(b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"),
        source("192.168.0.1:56324", "192.168.0.11:443", false)
    );
    assert_eq!(
        header(b"PROXY TCP6 2001:db8::1 ::1 65535 0\r\n"),
        source("[2001:db8::1]:65535", "[::1]:0", false)
    );
    assert_eq!(header(b"PROXY UNKNOWN\r\n"), None);
    let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(LONGEST_1 - 16));
    assert_eq!(header(longest.as_bytes()), None);
}

#[test]
fn version_1_in_other_words_is_refused() {
    for line in [
        "PROXY TCP4 192.168.0.1 192.168.0.11 56324\r\n",
        "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443 1\r\n",
        "PROXY TCP4 192.168.0.1 192.168.0.11 056324 443\r\n",
        "PROXY TCP4 192.168.0.1 192.168.0.11 65536 443\r\n",
        "PROXY TCP4 192.168.0.1 192.168.0.11 +1 443\r\n",
        "PROXY TCP4 ::1 ::1 1 443\r\n",
        "PROXY TCP6 1.2.3.4 ::1 1 443\r\n",
        "PROXY TCP4  192.168.0.1 192.168.0.11 1 443\r\n",
        "PROXY TCP4 192.168.0.01 192.168.0.11 1 443\r\n",
        "PROXY UDP4 192.168.0.1 192.168.0.11 1 443\r\n",
        "PROXY \r\n",
        "proxy TCP4 192.168.0.1 192.168.0.11 1 443\r\n",
        "GET / HTTP/1.1\r\n",
    ] {
        assert_eq!(parse(line.as_bytes()), Err(Malformed), "{line}");
    }
    let endless = format!("PROXY UNKNOWN {}", "f".repeat(200));
    assert_eq!(parse(endless.as_bytes()), Err(Malformed));
}

#[test]
fn version_2_tells_addresses_and_tls() {
    let expected = |secure| source("192.168.0.1:12345", "10.0.0.2:443", secure);
    assert_eq!(header(&version_2(1, 0x11, FOUR)), expected(false));
    let tls = [FOUR, &[0x20, 0, 5, 1, 0, 0, 0, 0]].concat();
    assert_eq!(header(&version_2(1, 0x11, &tls)), expected(true));
    let no_tls = [FOUR, &[0x04, 0, 1, 0, 0x20, 0, 5, 0, 0, 0, 0, 0]].concat();
    assert_eq!(header(&version_2(1, 0x11, &no_tls)), expected(false));
    let six = [&[0; 15][..], &[1], &[0xfd; 16], &[0, 1, 0, 2]].concat();
    assert_eq!(
        header(&version_2(1, 0x21, &six)),
        source("[::1]:1", "[fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd]:2", false)
    );
    // The proxy's own connection, datagrams, sockets of the file system, an unknown family.
    for (command, family, rest) in
        [(0, 0x11, FOUR), (1, 0x12, FOUR), (1, 0x31, &[0; 216]), (0, 0, &[][..])]
    {
        assert_eq!(header(&version_2(command, family, rest)), None);
    }
}

#[test]
fn a_sum_has_to_be_right() {
    // RFC 3720 appendix B.4: 32 bytes of zeros.
    assert_eq!(crc32c([&[0; 32]]), 0x8a91_36aa);
    let mut bytes = version_2(1, 0x11, &[FOUR, &[0x03, 0, 4, 0, 0, 0, 0]].concat());
    let sum = crc32c([&bytes]);
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&sum.to_be_bytes());
    assert!(header(&bytes).is_some());
    bytes[20] ^= 1;
    assert_eq!(parse(&bytes), Err(Malformed));
}

#[test]
fn version_2_that_contradicts_itself_is_refused() {
    let short = &FOUR[..11];
    let cut_field = [FOUR, &[0x20, 0, 6, 1, 0, 0, 0, 0]].concat();
    let cut_head = [FOUR, &[0x20, 0]].concat();
    for (command, family, rest) in
        [(1, 0x11, short), (1, 0x21, FOUR), (1, 0x41, FOUR), (2, 0x11, FOUR), (1, 0x31, FOUR)]
    {
        assert_eq!(parse(&version_2(command, family, rest)), Err(Malformed), "{family:x}");
    }
    for rest in [cut_field, cut_head, [FOUR, &[0; 5000]].concat()] {
        assert_eq!(parse(&version_2(1, 0x11, &rest)), Err(Malformed));
    }
    let mut version_3 = version_2(1, 0x11, FOUR);
    version_3[12] = 0x31;
    assert_eq!(parse(&version_3), Err(Malformed));
}

#[test]
fn the_headers_of_own_connections_name_no_client() {
    for (version, local) in [(Version::One, false), (Version::Two, true)] {
        let header = Header { len: version.own().len(), source: None, local };
        assert_eq!(parse(version.own()), Ok(Parsed::Complete(header)));
    }
}
