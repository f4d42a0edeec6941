use super::*;
use proptest::prelude::*;

/// The body, and its end with the trailers if it has ended.
type Decoded = (Vec<u8>, Option<(usize, Trailers)>);

const STRICT: ChunkLimits =
    ChunkLimits { extension_bytes: 24, trailer_bytes: 64, trailer_lines: MAX_TRAILERS, padding: 0 };

/// The decoder's results for `bytes`, given `step` more bytes at a time.
fn decode(bytes: &[u8], step: usize) -> Result<Decoded, RejectReason> {
    decode_by(STRICT, bytes, step)
}

fn decode_by(limits: ChunkLimits, bytes: &[u8], step: usize) -> Result<Decoded, RejectReason> {
    let mut decoder = ChunkedDecoder::new(limits);
    let (mut start, mut end, mut body) = (0, 0, Vec::new());
    loop {
        match decoder.decode(&bytes[start..end]).map_err(|reject| reject.reason)? {
            Step::Need if end == bytes.len() => return Ok((body, None)),
            Step::Need => end = (end + step).min(bytes.len()),
            Step::Skip { used } => start += used,
            Step::Data { used, data } => {
                assert!(!data.is_empty());
                assert_eq!(data, &bytes[start + used - data.len()..start + used]);
                body.extend_from_slice(data);
                start += used;
            }
            Step::End { used, trailers } => {
                assert!(decoder.is_over());
                return Ok((body, Some((start + used, trailers))));
            }
        }
    }
}

#[test]
fn bodies() {
    let long = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(23));
    for (bytes, expected) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\nA\r\n0123456789\r\n000\r\n\r\n", "hello0123456789"),
        ("0000000000000001\r\na\r\n0\r\n\r\n", "a"),
        ("1;a\r\na\r\n1 ;b=\"c\"\r\nb\r\n0;d\r\n\r\n", "ab"),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        (&long, "a"),
    ] {
        for step in [1, 2, 3, 1000] {
            let (body, end) = decode(bytes.as_bytes(), step).expect(bytes);
            assert_eq!(String::from_utf8_lossy(&body), expected);
            assert_eq!(end, Some((bytes.len(), Vec::new())), "{bytes:?} by {step}");
        }
    }
    let pipelined = decode(b"1\r\na\r\n0\r\n\r\nGET", 100).expect("well-formed");
    assert_eq!(pipelined.1.map(|(used, _)| used), Some(11));
    for cut in [
        "",
        "5",
        "5\r",
        "5\r\nhel",
        "5\r\nhello",
        "5\r\nhello\r",
        "0\r\n",
        "0\r\n\r",
        "0\r\nA: b\r\n",
    ] {
        assert_eq!(decode(cut.as_bytes(), 1).map(|(_, end)| end), Ok(None), "{cut:?}");
    }
}

#[test]
fn refused() {
    let extensions = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(24));
    let many_extensions = "1;xxxxxxxxxxx\r\na\r\n".repeat(3);
    let endless = format!("1;{}", "x".repeat(40));
    let trailer = format!("0\r\nA: {}\r\n\r\n", "x".repeat(64));
    let endless_trailer = format!("0\r\nA: {}", "x".repeat(70));
    use RejectReason as R;
    for (bytes, expected) in [
        ("\r\n", R::Chunk),
        (" 5\r\n", R::Chunk),
        ("+5\r\n", R::Chunk),
        ("-5\r\n", R::Chunk),
        ("0x5\r\n", R::Chunk),
        ("5 \r\n", R::Chunk),
        ("5 x\r\n", R::Chunk),
        ("g\r\n", R::Chunk),
        ("00000000000000005\r\n", R::Chunk),
        ("10000000000000000\r\n", R::Chunk),
        ("5\n", R::LineEnd),
        ("5\rhello", R::LineEnd),
        ("5;a\nhello", R::LineEnd),
        ("5;a\rb\r\n", R::LineEnd),
        ("5;a\0\r\n", R::ChunkExtension),
        ("5\r\nhello0\r\n", R::Chunk),
        ("5\r\nhello\n0\r\n", R::LineEnd),
        ("5\r\nhello\r0\r\n", R::LineEnd),
        ("0\r\n\n", R::LineEnd),
        ("0\r\nA: b\n\n", R::LineEnd),
        ("0\r\nA: b\nB: c\r\n\r\n", R::LineEnd),
        ("0\r\nA: b\rB: c\r\n\r\n", R::LineEnd),
        ("0\r\nA : b\r\n\r\n", R::Trailer),
        ("0\r\nA: b\r\n c\r\n\r\n", R::Trailer),
        ("0\r\nA: \0\r\n\r\n", R::Trailer),
        ("0\r\nGET / HTTP/1.1\r\n\r\n", R::Trailer),
        (&extensions, R::ChunkExtension),
        (&many_extensions, R::ChunkExtension),
        (&endless, R::ChunkExtension),
        (&trailer, R::TrailerTooLarge),
        (&endless_trailer, R::TrailerTooLarge),
    ] {
        for step in [1, 1000] {
            assert_eq!(decode(bytes.as_bytes(), step), Err(expected), "{bytes:?} by {step}");
        }
    }
    let lines = format!("0\r\n{}\r\n", "a:\r\n".repeat(MAX_TRAILERS + 1));
    let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
    let refused = decoder.decode(lines.as_bytes()).map_err(|r| (r.status, r.reason));
    assert_eq!(refused, Err((431, R::TrailerTooLarge)));
    assert_eq!(decoder.decode(b"0\r\n\r\n"), Ok(Step::Need));
}

#[test]
fn sizes_of_answers_may_be_padded() {
    let padded = ChunkLimits { padding: 8, ..STRICT };
    let many = format!("{}0\r\n\r\n", "1        \r\na\r\n".repeat(9));
    for (bytes, expected) in [
        ("5  \r\nhello\r\n0 \t\r\n\r\n", "hello"),
        ("000000000000000000000001\r\na\r\n00000000000000000000\r\n\r\n", "a"),
        ("1 ;b\r\na\r\n0\r\n\r\n", "a"),
        // More blanks in all than bytes of extensions are allowed.
        (&many, "aaaaaaaaa"),
    ] {
        for step in [1, 2, 3, 1000] {
            let (body, end) = decode_by(padded, bytes.as_bytes(), step).expect(bytes);
            assert_eq!(String::from_utf8_lossy(&body), expected);
            assert_eq!(end, Some((bytes.len(), Vec::new())), "{bytes:?} by {step}");
        }
    }
    use RejectReason as R;
    for (bytes, expected) in [
        ("5         \r\n", R::Chunk),
        ("0000000000000000000000001\r\n", R::Chunk),
        ("10000000000000000\r\n", R::Chunk),
        (" 5\r\n", R::Chunk),
        ("5 x\r\n", R::Chunk),
        ("5 \n", R::LineEnd),
        ("5 \rx", R::LineEnd),
        ("\r\n", R::Chunk),
    ] {
        for step in [1, 1000] {
            let refused = decode_by(padded, bytes.as_bytes(), step);
            assert_eq!(refused, Err(expected), "{bytes:?} by {step}");
        }
    }
    let lines = format!("0\r\n{}\r\n", "a:\r\n".repeat(MAX_TRAILERS + 1));
    let large = ChunkLimits { trailer_bytes: 1000, trailer_lines: MAX_TRAILERS + 1, ..STRICT };
    let (_, end) = decode_by(large, lines.as_bytes(), 1).expect("within the limits");
    assert_eq!(end.map(|(_, trailers)| trailers.len()), Some(MAX_TRAILERS + 1));
}

#[test]
fn trailers_that_matter_to_framing_are_dropped() {
    let bytes = b"0\r\nX-Sum: 1\r\nContent-Length: 5\r\nHOST: a\r\nSet-Cookie: x\r\n\r\n";
    let (_, end) = decode(bytes, 1).expect("well-formed");
    assert_eq!(end, Some((bytes.len(), vec![("X-Sum".to_owned(), b"1".to_vec())])));
}

fn encode(pieces: &[Vec<u8>], trailers: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces.iter().filter(|p| !p.is_empty()) {
        let before = out.len();
        write_chunk_head(piece.len(), &mut out);
        assert!(out.len() - before <= CHUNK_HEAD);
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    write_end(trailers.iter().copied(), &mut out);
    out
}

#[test]
fn written_to_the_byte() {
    let trailers = [
        ("X-Sum", &b"1"[..]),
        ("Content-Length", b"2"),
        ("a b", b""),
        ("", b""),
        ("C", b"d\r\ne: f"),
    ];
    let got = encode(&[vec![b'x'; 26], vec![b'y'; 256]], &trailers);
    let expected =
        format!("1a\r\n{}\r\n100\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n", "x".repeat(26), "y".repeat(256));
    assert_eq!(String::from_utf8_lossy(&got), expected);
}

#[test]
fn a_bare_line_end_among_trailers_has_one_reason_however_it_comes() {
    for step in [1, 4, 1000] {
        assert_eq!(
            decode(b"0\r\n\n\r\n\r\n", step),
            Err(RejectReason::LineEnd),
            "in steps of {step}"
        );
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..5),
        step in 1..400_usize,
    ) {
        let bytes = encode(&pieces, &[("A", b"b")]);
        let (body, end) = decode(&bytes, step).expect("well-formed");
        prop_assert_eq!(body, pieces.concat());
        prop_assert_eq!(end, Some((bytes.len(), vec![("A".to_owned(), b"b".to_vec())])));
    }

    #[test]
    fn cuts_make_no_difference(bytes in "[0-3a;\r\n :]{0,40}", step in 1..5_usize) {
        prop_assert_eq!(decode(bytes.as_bytes(), step), decode(bytes.as_bytes(), 1000));
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..100), step in 1..100_usize,
    ) {
        let _ = decode(&bytes, step);
    }
}
