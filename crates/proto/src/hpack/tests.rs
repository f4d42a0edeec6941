//! Examples of RFC 7541 appendix C, and encoder against decoder.

use super::*;
use proptest::prelude::*;

type Lines = Vec<(String, String)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Lines, HpackError> {
    let mut lines = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode(block, usize::MAX, &mut Vec::new(), &mut |line| {
        lines.push((text(line.name), text(line.value)));
    })?;
    Ok(lines)
}

fn lines(of: &[(&str, &str)]) -> Lines {
    of.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn appendix_c_2() {
    let mut decoder = Decoder::default();
    let block = bytes("400a637573746f6d2d6b65790d637573746f6d2d686561646572");
    assert_eq!(decode(&mut decoder, &block), Ok(lines(&[("custom-key", "custom-header")])));
    assert_eq!(decode(&mut decoder, &[0xbe]), Ok(lines(&[("custom-key", "custom-header")])));
    let block = bytes("040c2f73616d706c652f70617468");
    assert_eq!(decode(&mut decoder, &block), Ok(lines(&[(":path", "/sample/path")])));
    let block = bytes("100870617373776f726406736563726574");
    let mut never = false;
    let sink = &mut |line: Line<'_>| never = line.never_indexed;
    assert!(decoder.decode(&block, 1000, &mut Vec::new(), sink).is_ok());
    assert!(never);
    assert_eq!(decode(&mut decoder, &[0x82]), Ok(lines(&[(":method", "GET")])));
}

#[test]
fn appendix_c_3_and_c_4_requests() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let coded = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    let first = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ];
    let second = [&first[..], &[("cache-control", "no-cache")]].concat();
    let third = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        for (block, expected) in blocks.iter().zip([&first[..], &second, &third]) {
            assert_eq!(decode(&mut decoder, &bytes(block)), Ok(lines(expected)), "{block}");
        }
    }
}

#[test]
fn appendix_c_5_and_c_6_responses_evict() {
    let plain = [
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e\
         1768747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
        "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d\
         4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b20766572\
         73696f6e3d31",
    ];
    let coded = [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b\
         97c8e9ae82ae43d3",
        "4883640effc1c0bf",
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdf\
         cd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
    ];
    let first = [
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ];
    let second = [&[(":status", "307")][..], &first[1..]].concat();
    let third = [
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        decoder.set_table_size(256);
        let update = bytes("3fe101");
        for (n, (block, expected)) in blocks.iter().zip([&first[..], &second, &third]).enumerate() {
            let block = [if n == 0 { &update[..] } else { b"" }, &bytes(block)].concat();
            assert_eq!(decode(&mut decoder, &block), Ok(lines(expected)), "{block:?}");
        }
    }
}

#[test]
fn faults_are_named() {
    for (block, fault) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("ff21", HpackError::Index),
        ("7f0000", HpackError::Index),
        ("0f3000", HpackError::Index),
        ("00", HpackError::Truncated),
        ("0003616263", HpackError::Truncated),
        ("000161", HpackError::Truncated),
        ("0005616263", HpackError::Truncated),
        ("ffffffffff7f", HpackError::Integer),
        ("3fe21f", HpackError::TableSize),
        ("202020", HpackError::TableSize),
        ("8220", HpackError::TableSize),
        ("008161016a", HpackError::Huffman),
    ] {
        assert_eq!(decode(&mut Decoder::default(), &bytes(block)), Err(fault), "{block}");
    }
    assert_eq!(decode(&mut Decoder::default(), &bytes("203fe11f")), Ok(Vec::new()));
}

#[test]
fn lowered_setting_needs_a_size_update() {
    let mut decoder = Decoder::default();
    decoder.set_table_size(100);
    assert_eq!(decode(&mut decoder, &[0x82]), Err(HpackError::TableSize));
    assert!(decode(&mut decoder, &bytes("3f4582")).is_ok());
}

#[test]
fn lists_above_the_limit_keep_the_table_in_step() {
    let mut decoder = Decoder::default();
    let block = bytes("400a637573746f6d2d6b65790d637573746f6d2d686561646572");
    let mut seen = 0;
    let decoded = decoder.decode(&block, 50, &mut Vec::new(), &mut |_| seen += 1);
    assert_eq!(decoded, Ok(Decoded { size: 55, too_large: true }));
    assert_eq!(seen, 0);
    assert_eq!(decode(&mut decoder, &[0xbe]), Ok(lines(&[("custom-key", "custom-header")])));
}

/// Two bytes insert a copy of a long name: the work for a block is bounded by the list's limit.
#[test]
fn lists_many_times_above_the_limit_are_an_error() {
    let mut decoder = Decoder::default();
    let name = [&b"\x40\x7f\xa1\x1e"[..], &[b'n'; 4000], b"\0"].concat();
    let decoded = decoder.decode(&name, 10_000, &mut Vec::new(), &mut |_| {});
    assert_eq!(decoded, Ok(Decoded { size: 4032, too_large: false }));
    let copies = |n: usize| b"\x7e\0".repeat(n);
    let mut decode = |n, limit| decoder.decode(&copies(n), limit, &mut Vec::new(), &mut |_| {});
    assert_eq!(decode(19, 10_000), Ok(Decoded { size: 19 * 4032, too_large: true }));
    assert_eq!(decode(19, 1), Err(HpackError::TooLarge), "64 KiB, however small the limit is");
    assert_eq!(decode(8000, 10_000), Err(HpackError::TooLarge));
    assert_eq!(decode(8000, usize::MAX), Ok(Decoded { size: 8000 * 4032, too_large: false }));
}

#[test]
fn marks_stay_with_their_lines() {
    let mut decoder = Decoder::default();
    let mut marks = Vec::new();
    for block in ["4001610162", "be", "4001630164", "bfbe82"] {
        let sink = &mut |line: Line<'_>| {
            marks.push(*line.mark);
            *line.mark = line.name[0];
        };
        assert!(decoder.decode(&bytes(block), 1000, &mut Vec::new(), sink).is_ok());
    }
    assert_eq!(marks, [0, b'a', 0, b'a', b'c', 0]);
}

fn encode(encoder: &mut Encoder, status: u16, lines: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = encoder.block(&mut out);
    block.status(status);
    block.lines(lines);
    out
}

#[test]
fn repeated_fields_are_one_byte_and_names_are_lower_case() {
    let (mut encoder, mut decoder) = (Encoder::new(4096), Decoder::default());
    let head =
        b"Server: larder\r\nContent-Type: text/html\r\nX-Cache: HIT\r\nConnection: close\r\n";
    let expected = [
        (":status", "200"),
        ("server", "larder"),
        ("content-type", "text/html"),
        ("x-cache", "HIT"),
    ];
    let first = encode(&mut encoder, 200, head);
    assert_eq!(decode(&mut decoder, &first), Ok(lines(&expected)));
    assert_eq!(encode(&mut encoder, 200, head), [0x88, 0xc0, 0xbf, 0xbe]);
    assert_eq!(decode(&mut decoder, &[0x88, 0xc0, 0xbf, 0xbe]), Ok(lines(&expected)));
}

#[test]
fn secrets_and_changing_values_are_not_indexed() {
    let mut encoder = Encoder::new(4096);
    let out =
        encode(&mut encoder, 200, b"Set-Cookie: a=b\r\nAge: 5\r\nETag: \"x\"\r\nX-Own: 1\r\n");
    assert_eq!(encoder.table_len(), 0);
    assert_eq!(out[1..3], [0x1f, 55 - 15]);
    let mut out = Vec::new();
    encoder.block(&mut out).sensitive(b"Server", b"s");
    assert_eq!((out[0], encoder.table_len()), (0x1f, 0));
}

#[test]
fn prepared_fields_fit_any_block() {
    let head =
        b"Server: larder\r\nX-Cache: HIT\r\nConnection: close\r\nSet-Cookie: a\r\nX-Own: 1\r\n\r\n";
    let mut fields = Vec::new();
    prepare(head, &mut fields);
    let expected = [
        (":status", "200"),
        ("via", "b"),
        ("server", "larder"),
        ("x-cache", "HIT"),
        ("set-cookie", "a"),
        ("x-own", "1"),
    ];
    let (mut encoder, mut decoder) = (Encoder::new(4096), Decoder::default());
    for _ in 0..3 {
        let mut out = Vec::new();
        let mut block = encoder.block(&mut out);
        block.status(200);
        block.lines(b"Via: b");
        block.prepared(&fields);
        assert_eq!(decode(&mut decoder, &out), Ok(lines(&expected)));
    }
}

#[test]
fn sizes_are_announced() {
    let mut encoder = Encoder::new(100);
    assert_eq!(encode(&mut encoder, 200, b"")[..], bytes("3f4588"));
    assert_eq!(encode(&mut encoder, 200, b"")[..], [0x88]);
    encoder.set_peer_table_size(0);
    encoder.set_peer_table_size(4096);
    assert_eq!(encode(&mut encoder, 200, b"")[..], bytes("203f4588"));
    let mut encoder = Encoder::new(4096);
    encode(&mut encoder, 200, b"server: larder\r\n");
    assert!(encoder.memory() > 0);
    encoder.rest();
    assert_eq!(encoder.memory(), 0);
    assert_eq!(encode(&mut encoder, 200, b"")[..], bytes("203fe11f88"));
}

prop_compose! {
    fn field()(
        name in prop_oneof![
            Just("server"), Just("Content-Type"), Just("date"), Just("set-cookie"), Just("x-own"),
            Just("Cache-Control"), Just("Cache-Status"), Just("via"),
            Just("x-a-name-that-is-longer-than-all-names-that-the-policy-knows-or-keeps-on-its-stack"),
        ],
        value in prop_oneof!["[a-c]{0,2}", "[!-~]{0,300}", "[!-~]([ -~]{0,100}[!-~])?"],
    ) -> (String, String) {
        (name.to_owned(), value)
    }
}

proptest! {
    #[test]
    fn responses_come_back(
        own in 0_u32..5000,
        heads in prop::collection::vec(
            (
                100_u16..1000,
                0_usize..24,
                prop::collection::vec(field(), 0..12),
                prop::option::of(0_u32..6000),
            ),
            1..12),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(own), Decoder::default());
        let mut last = Vec::new();
        for (status, kept, fields, resized) in heads {
            // Heads of one connection begin with the same lines.
            last.truncate(kept);
            let fields: Vec<_> = last.into_iter().chain(fields).collect();
            last = fields.clone();
            if let Some(size) = resized {
                encoder.set_peer_table_size(size);
                decoder.set_table_size(size);
            }
            if status % 7 == 0 {
                encoder.rest();
            }
            let head: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let block = encode(&mut encoder, status, head.as_bytes());
            let mut expected = vec![(":status".to_owned(), status.to_string())];
            expected.extend(fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(),
                value)));
            prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
        }
    }

    #[test]
    fn any_blocks_are_decoded_within_bounds(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..20),
    ) {
        let mut decoder = Decoder::default();
        for block in blocks {
            let _ = decode(&mut decoder, &block);
            prop_assert!(decoder.memory() <= 5 * DEFAULT_TABLE_SIZE as usize);
        }
    }
}
