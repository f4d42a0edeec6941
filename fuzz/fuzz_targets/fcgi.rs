//! The records of an application's answer say the same whole and in pieces, and a head of its
//! output is the same for any following bytes.
#![no_main]

use larder_proto::fcgi::{Decoder, End, HeadLimits, Limits, Step, parse_head};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { stderr: 100 };
const HEAD: HeadLimits = HeadLimits { bytes: 1000, fields: 8 };

/// The content of an answer: output, STDERR, end. False: it has a mistake.
type Said = (Vec<u8>, Vec<u8>, Option<End>, bool);

fuzz_target!(|bytes: &[u8]| {
    let said = decode(bytes, bytes.len().max(1));
    for size in [1, 7, 64] {
        assert_eq!(said, decode(bytes, size));
    }
    assert!(said.1.len() <= LIMITS.stderr);
    head(&said.0);
    head(bytes);
});

fn decode(bytes: &[u8], size: usize) -> Said {
    let mut decoder = Decoder::new(1, LIMITS);
    let (mut said, mut buf): (Said, _) = ((Vec::new(), Vec::new(), None, true), Vec::new());
    for piece in bytes.chunks(size) {
        buf.extend_from_slice(piece);
        loop {
            let used = match decoder.decode(&buf) {
                Ok(Step::Need) => break,
                Ok(Step::Skip { used }) => used,
                Ok(Step::Stdout { used, data }) => {
                    assert_eq!(data, &buf[used - data.len()..used]);
                    said.0.extend_from_slice(data);
                    used
                }
                Ok(Step::Stderr { used, data }) => {
                    said.1.extend_from_slice(data);
                    used
                }
                Ok(Step::End { used, end }) => {
                    said.2 = Some(end);
                    used
                }
                Err(_) => {
                    assert!(decoder.is_over());
                    said.3 = false;
                    return said;
                }
            };
            assert!(used > 0 && used <= buf.len());
            buf.drain(..used);
        }
        assert!(decoder.is_over() || buf.len() < 279);
    }
    said
}

fn head(output: &[u8]) {
    if let Ok(Some(head)) = parse_head(output, HEAD) {
        assert!((200..=999).contains(&head.status) && head.fields.len() <= HEAD.fields);
        assert!(head.used <= HEAD.bytes && output[..head.used].ends_with(b"\n"));
        assert_eq!(parse_head(&output[..head.used], HEAD), Ok(Some(head.clone())));
        for cut in 0..head.used {
            assert_eq!(parse_head(&output[..cut], HEAD), Ok(None));
        }
    }
}
