use super::{auth::*, *};

const URL: &[u8] = b"http://a.example/x";

fn specifier() -> Specifier<'static> {
    Specifier { method: b"GET", url: URL, version: b"HTTP/1.1", fields: b"Accept: */*\r\n" }
}

/// RFC 2756 sections 3 to 6, byte by byte.
#[test]
fn a_tst_has_the_layout_of_the_rfc() {
    let mut expected = vec![0, 65, 0, 1, 0, 59, 0x10, 0x02, 0, 0, 0, 9];
    expected
        .extend(b"\x00\x03GET\x00\x12http://a.example/x\x00\x08HTTP/1.1\x00\x0dAccept: */*\r\n");
    expected.extend([0, 2]);
    let length = expected.len();
    expected[1] = length as u8;
    expected[5] = (length - 6) as u8;
    let mut out = b"rest".to_vec();
    let head = Head::request(Opcode::Tst, 9, true);
    assert!(head.write(&mut out, |out| specifier().write(out), None));
    assert_eq!(out, expected);
    let read = Message::parse(&out).expect("a message");
    assert_eq!((read.opcode, read.answer, read.flag, read.number), (Opcode::Tst, false, true, 9));
    assert_eq!(Specifier::parse(read.data), Some(specifier()));
    assert_eq!((read.auth, read.format), (None, Format::RFC));
}

/// A message of minor version 0 is written in the order in which it was read.
#[test]
fn the_order_of_the_bits_is_kept() {
    for bits in 0..=u16::MAX {
        let [operation, flags] = bits.to_be_bytes();
        for minor in [0, 1] {
            let packet = [0, 14, 0, minor, 0, 8, operation, flags, 0, 0, 0, 9, 0, 2];
            let read = Message::parse(&packet).expect("a message");
            let Message { format, opcode, response, answer, flag, number, .. } = read;
            let (mut out, head) =
                (Vec::new(), Head { format, opcode, response, answer, flag, number });
            assert!(head.write(&mut out, |_| {}, None));
            let again = Message::parse(&out).expect("a message");
            assert_eq!(
                (again.format, again.opcode, again.response, again.answer, again.flag),
                (format, opcode, response, answer, flag),
                "{operation:#x} {flags:#x}"
            );
        }
    }
}

/// As `HTCPPurge` of MediaWiki packs it: `nxxnCxNxxa*n`, the opcode in the lower half.
#[test]
fn a_clr_of_mediawiki_is_read() {
    let mut specifier = b"\x00\x04HEAD\x00\x12http://a.example/x\x00\x08HTTP/1.0\x00\x00".to_vec();
    let data = 8 + 2 + specifier.len();
    let mut packet = ((4 + data + 2) as u16).to_be_bytes().to_vec();
    packet.extend([0, 0]);
    packet.extend((data as u16).to_be_bytes());
    packet.extend([4, 0, 0, 0, 48, 57, 0, 0]);
    packet.append(&mut specifier);
    packet.extend([0, 2]);
    let read = Message::parse(&packet).expect("a message");
    assert_eq!((read.opcode, read.answer, read.flag), (Opcode::Clr, false, false));
    assert_eq!((read.format, read.number), (Format::REVERSED, 12_345));
    let read = Specifier::parse_clr(read.data).expect("a specifier");
    assert_eq!((read.method, read.url, read.fields), (&b"HEAD"[..], URL, &b""[..]));
}

#[test]
fn both_orders_are_told_apart_in_requests_and_answers() {
    for reversed in [false, true] {
        let format = Format { minor: 0, reversed };
        for opcode in [Opcode::Tst, Opcode::Clr, Opcode::Set] {
            for (answer, flag, response) in
                [(false, false, 0), (false, true, 0), (true, false, 1), (true, true, 5)]
            {
                let head = Head { format, opcode, response, answer, flag, number: 3 };
                let mut out = Vec::new();
                assert!(head.write(&mut out, |out| specifier().write(out), None));
                let read = Message::parse(&out).expect("a message");
                let Message { format, opcode, response, answer, flag, number, .. } = read;
                assert_eq!(Head { format, opcode, response, answer, flag, number }, head);
            }
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_faults() {
    let mut out = Vec::new();
    assert!(Head::request(Opcode::Tst, 9, true).write(
        &mut out,
        |out| specifier().write(out),
        None
    ));
    for end in 0..out.len() {
        assert!(Message::parse(&out[..end]).is_err(), "{end}");
    }
    // Bytes behind the message are ignored.
    let longer = [&out[..], b"more"].concat();
    assert!(Message::parse(&longer).is_ok());
    let with = |at: usize, byte: u8| {
        let mut bytes = out.clone();
        bytes[at] = byte;
        Message::parse(&bytes).map(|read| Specifier::parse(read.data).is_some())
    };
    assert_eq!(with(2, 1), Err(Fault::Version));
    assert_eq!(with(5, 7), Err(Fault::Length));
    assert_eq!(with(5, 255), Err(Fault::Length));
    // The method takes all that is there.
    assert_eq!(with(13, 255), Ok(false));
    assert!(Specifier::parse_clr(b"\0").is_none());
}

#[test]
fn a_message_that_would_be_too_long_is_not_written() {
    let fields = vec![b'a'; 65_000];
    let mut out = Vec::new();
    let long = Specifier { fields: &fields, url: &fields[..1000], ..specifier() };
    let head = Head::request(Opcode::Tst, 9, true);
    assert!(!head.write(&mut out, |out| long.write(out), None));
    assert!(out.is_empty());
}

fn signing(secret: &[u8]) -> Signing<'_> {
    let way = Way {
        from: "192.0.2.1:40000".parse().expect("an address"),
        to: "192.0.2.2:4827".parse().expect("an address"),
    };
    Signing { key: Key { name: b"larder", secret }, way, now: 1_700_000_000, valid: 60 }
}

#[test]
fn a_signature_holds_for_its_bytes_addresses_and_time() {
    let sign = signing(b"secret");
    let mut out = Vec::new();
    let head = Head::request(Opcode::Clr, 9, false);
    assert!(head.write(&mut out, |out| specifier().write_clr(out), Some(&sign)));
    let read = Message::parse(&out).expect("a message");
    let auth = read.auth.expect("authenticated");
    assert_eq!((auth.signed_at, auth.expires), (1_700_000_000, 1_700_000_060));
    let valid = |key: Key<'_>, way, data: &[u8], now| auth.is_valid(&key, way, 1, data, now);
    let Signing { key, way, now, .. } = sign;
    assert!(valid(key, way, read.signed, now));
    assert!(valid(key, way, read.signed, now + 119), "clocks may be apart by a minute");
    assert!(!valid(key, way, read.signed, now + 120));
    assert!(!valid(key, way, read.signed, now - 61));
    assert!(!valid(Key { secret: b"other", ..key }, way, read.signed, now));
    assert!(!valid(Key { name: b"other", ..key }, way, read.signed, now));
    assert!(!valid(key, Way { from: way.to, to: way.from }, read.signed, now));
    let mut other = read.signed.to_vec();
    other[20] ^= 1;
    assert!(!valid(key, way, &other, now));
    // A signature that claims to be valid for a year is believed for five minutes.
    let long = Signing { valid: 31_536_000, ..sign };
    assert!(head.write(&mut out, |out| specifier().write_clr(out), Some(&long)));
    let read = Message::parse(&out).expect("a message");
    let auth = read.auth.expect("authenticated");
    assert!(auth.is_valid(&key, way, 1, read.signed, now + 299));
    assert!(!auth.is_valid(&key, way, 1, read.signed, now + 300));
}

#[test]
fn an_answer_repeats_number_and_order() {
    let mut out = Vec::new();
    let request = Head { format: Format::REVERSED, ..Head::request(Opcode::Tst, 77, true) };
    assert!(request.write(&mut out, |out| specifier().write(out), None));
    let asked = Message::parse(&out).expect("a message");
    let mut answer = Vec::new();
    let detail = [&b"Age: 3\r\n"[..], b"", b""];
    assert!(Head::answer(&asked, 0).write(&mut answer, |out| write_detail(out, detail), None));
    let read = Message::parse(&answer).expect("a message");
    assert_eq!((read.answer, read.flag, read.response, read.number), (true, false, 0, 77));
    assert_eq!((read.format, read.data), (Format::REVERSED, &b"\0\x08Age: 3\r\n\0\0\0\0"[..]));
    let refusal = Head::refusal(&asked, error::OPCODE);
    assert!(refusal.write(&mut answer, |_| (), None));
    let read = Message::parse(&answer).expect("a message");
    assert_eq!((read.answer, read.flag, read.response), (true, true, 2));
}
