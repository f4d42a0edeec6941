//! A body decoded in one go, in pieces, and by a plain reading of the grammar comes out the same.
#![no_main]

use larder_proto::http::{ChunkLimits, ChunkedDecoder, Step};
use libfuzzer_sys::fuzz_target;

type Decoded = Result<(Vec<u8>, Option<usize>), ()>;

fuzz_target!(|input: &[u8]| {
    let Some((&step, bytes)) = input.split_first() else { return };
    let of_requests = ChunkLimits {
        extension_bytes: 64,
        trailer_bytes: 128,
        trailer_lines: 8,
        padding: 0,
    };
    let of_answers = ChunkLimits { padding: 16, ..of_requests };
    let strict = decode(of_requests, bytes, bytes.len().max(1));
    for limits in [of_requests, of_answers] {
        let whole = decode(limits, bytes, bytes.len().max(1));
        assert_eq!(decode(limits, bytes, usize::from(step).max(1)), whole);
        if strict.is_ok() {
            assert_eq!(whole, strict, "the tolerant one reads all that the strict one does");
        }
        if let Ok((body, Some(end))) = whole {
            assert_eq!(plain(&bytes[..end]), body);
        }
    }
});

fn decode(limits: ChunkLimits, bytes: &[u8], step: usize) -> Decoded {
    let mut decoder = ChunkedDecoder::new(limits);
    let (mut start, mut end, mut body) = (0, 0, Vec::new());
    loop {
        match decoder.decode(&bytes[start..end]).map_err(drop)? {
            Step::Need if end == bytes.len() => return Ok((body, None)),
            Step::Need => end = (end + step).min(bytes.len()),
            Step::Skip { used } => start += used,
            Step::Data { used, data } => {
                body.extend_from_slice(data);
                start += used;
            }
            Step::End { used, .. } => return Ok((body, Some(start + used))),
        }
    }
}

/// The body of an accepted message, read without any state kept.
fn plain(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").expect("a size line");
        let line = std::str::from_utf8(bytes[..end].split(|&b| b == b';').next().expect("a size"))
            .expect("digits");
        let size = usize::from_str_radix(line.trim_end_matches([' ', '\t']), 16).expect("a number");
        bytes = &bytes[end + 2..];
        if size == 0 {
            assert!(bytes.ends_with(b"\r\n"));
            return body;
        }
        body.extend_from_slice(&bytes[..size]);
        bytes = bytes[size..].strip_prefix(b"\r\n").expect("CRLF after the data");
    }
}
