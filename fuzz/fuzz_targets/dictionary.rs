//! A hash that was read is written in a form that reads the same; a pattern allows no target that
//! lacks one of its literal parts. Input: target, 0, origin-relative base, 0, pattern or value.
#![no_main]

use larder_proto::http::dictionary::{HASH_LEN, available, matches, pattern};
use libfuzzer_sys::fuzz_target;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn written(hash: &[u8; HASH_LEN]) -> Vec<u8> {
    let mut out = vec![b':'];
    for three in hash.chunks(3) {
        let bits = (0..3).fold(0_u32, |all, at| all << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for at in 0..=three.len() {
            out.push(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]);
        }
    }
    out.extend_from_slice(b"=:");
    out
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |byte| *byte == 0);
    let (Some(target), Some(base), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    if let Some(hash) = available([value].into_iter()) {
        assert_eq!(written(&hash), value.trim_ascii());
    }
    let named = pattern([value].into_iter());
    for pattern in [Some(value), named].into_iter().flatten() {
        if matches(pattern, base, b"https://site.test", target) {
            let path = pattern.strip_prefix(b"https://site.test").unwrap_or(pattern);
            for literal in path.split(|byte| matches!(byte, b'*' | b'?')) {
                let lies = |place: &[u8]| place.windows(literal.len()).any(|part| part == literal);
                assert!(literal.is_empty() || lies(target), "{pattern:?} {target:?}");
            }
        }
    }
});
