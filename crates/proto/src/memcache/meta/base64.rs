//! Base64 (RFC 4648, 4) as memcached's decoder reads it: bytes outside the alphabet are skipped,
//! the first group with padding ends the text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn value(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    })
}

/// Decodes `text` into `into` and returns the decoded bytes. `None`: the text is not a whole number
/// of groups, has three or more bytes of padding, or decodes to nothing or to more than `into`
/// holds.
pub(crate) fn decode<'o>(text: &[u8], into: &'o mut [u8]) -> Option<&'o [u8]> {
    let count = text.iter().filter(|byte| value(**byte).is_some()).count();
    if count == 0 || !count.is_multiple_of(4) || count / 4 * 3 > into.len() {
        return None;
    }
    let mut digits =
        text.iter().filter_map(|byte| value(*byte).map(|value| (value, *byte == b'=')));
    let mut len = 0;
    let mut padding = 0;
    while padding == 0
        && let (Some(a), Some(b), Some(c), Some(d)) =
            (digits.next(), digits.next(), digits.next(), digits.next())
    {
        let group = [a.0 << 2 | b.0 >> 4, b.0 << 4 | c.0 >> 2, c.0 << 6 | d.0];
        into[len..len + 3].copy_from_slice(&group);
        padding = [a, b, c, d].iter().filter(|digit| digit.1).count();
        len += 3;
    }
    if padding > 2 {
        return None;
    }
    Some(&into[..len - padding])
}

/// Appends `bytes` as base64.
pub(crate) fn encode(bytes: &[u8], into: &mut Vec<u8>) {
    let digit = |bits: u32| ALPHABET[(bits & 63) as usize];
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let mut text = [digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), digit(bits)];
        text[group.len() + 1..].fill(b'=');
        into.extend_from_slice(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        decode(text.as_bytes(), &mut [0; 250]).map(<[u8]>::to_vec)
    }

    #[test]
    fn vectors_of_rfc_4648() {
        for (plain, text) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut encoded = Vec::new();
            encode(plain.as_bytes(), &mut encoded);
            assert_eq!(encoded, text.as_bytes());
            assert_eq!(decoded(text).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn what_memcached_makes_of_odd_texts() {
        assert_eq!(decoded("YQ"), None);
        assert_eq!(decoded(""), None);
        assert_eq!(decoded("===="), None);
        assert_eq!(decoded("Y==="), None);
        assert_eq!(decoded("\"!\""), None);
        assert_eq!(decoded("YQ=a").as_deref(), Some(&b"a\0"[..]));
        assert_eq!(decoded("YR==").as_deref(), Some(&b"a"[..]));
        assert_eq!(decoded("Y-W-I-=").as_deref(), Some(&b"ab"[..]));
        assert_eq!(decoded("Zg==Zg==").as_deref(), Some(&b"f"[..]));
        assert_eq!(decode(b"AAAAAAAA", &mut [0; 5]), None);
    }
}
