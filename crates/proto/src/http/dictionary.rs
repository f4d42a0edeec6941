//! Compression Dictionary Transport (RFC 9842): its fields, and the first bytes of a body in one of
//! its codings.

use super::structured::{Dictionary, Value};

/// The place of the dictionary that this cache makes of a site's documents.
pub const PATH: &str = "/.well-known/larder/dictionary";
/// The value of `Link` by which a document names it (RFC 9842 3).
pub const LINK: &str = "</.well-known/larder/dictionary>; rel=\"compression-dictionary\"";
/// The value of `Use-As-Dictionary` in its own answer: it is for documents of the whole origin. For
/// others clients would name it in vain, as they are not what it was made of.
pub const USE: &str = "match=\"/*\", match-dest=(\"document\" \"frame\" \"iframe\")";

/// SHA-256 of a dictionary's content.
pub type Hash = [u8; HASH_LEN];

/// Bytes of a [`Hash`].
pub const HASH_LEN: usize = 32;
/// The first bytes of a `dcb` body; the hash and a stream of brotli follow (RFC 9842 4).
pub const DCB_START: [u8; 4] = [0xff, 0x44, 0x43, 0x42];
/// The first bytes of a `dcz` body, a frame that decoders of zstd skip; the hash, which is its
/// content, and a frame of zstd follow (RFC 9842 5).
pub const DCZ_START: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

/// Characters of a hash in base64, one `=` included.
const BASE64_LEN: usize = 44;
/// Longest pattern that is compared, in bytes, and the most stars in it: each costs a walk over the
/// target. Longer patterns match nothing.
const LONGEST_PATTERN: usize = 256;
const MOST_STARS: usize = 8;
/// Longest target that is compared, in bytes: pages with longer ones are not compressed.
const LONGEST_TARGET: usize = 2048;

/// Whether a request field is for whoever compresses with dictionaries.
pub fn is_request_field(name: &str) -> bool {
    ["available-dictionary", "dictionary-id"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Whether a line of `Link` names the dictionary that this cache makes.
pub fn is_linked(line: &[u8]) -> bool {
    line.windows(PATH.len()).any(|part| part == PATH.as_bytes())
}

/// The dictionary that a client has for a request, by the lines of `Available-Dictionary` (RFC 9842
/// 2.2): one item, a byte sequence of the right length. Anything else is no dictionary.
pub fn available<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<Hash> {
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let text = line.trim_ascii().strip_prefix(b":")?.strip_suffix(b":")?;
    decode(text.first_chunk::<BASE64_LEN>().filter(|all| all.len() == text.len())?)
}

/// The content of 32 bytes in base64 (RFC 4648 4).
fn decode(text: &[u8; BASE64_LEN]) -> Option<Hash> {
    let [digits @ .., b'='] = text else { return None };
    let (mut out, mut at) = ([0; HASH_LEN], 0);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            *out.get_mut(at)? = (bits >> held) as u8;
            at += 1;
            bits &= (1 << held) - 1;
        }
    }
    // One way to write a hash: the two bits that are left are 0.
    (bits == 0).then_some(out)
}

/// The pattern of the requests that an answer is a dictionary for, by the lines of
/// `Use-As-Dictionary` (RFC 9842 2.1). None: the answer is no dictionary of a type that is known
/// here.
pub fn pattern<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let mut pattern = None;
    for line in lines {
        for member in Dictionary::of(line) {
            match member.ok()? {
                (b"match", Value::Text(text)) => pattern = Some(text),
                (b"type", Value::Text(b"raw")) => {}
                (b"match" | b"type", _) => return None,
                _ => {}
            }
        }
    }
    pattern.filter(|pattern| pattern.len() <= LONGEST_PATTERN)
}

/// Whether a pattern allows a dictionary for a request of the same origin. `base`: the target of
/// the dictionary; `target`: that of the request; `origin`: scheme and host of both,
/// `https://host`.
///
/// Of the patterns of URLs (WHATWG URL Pattern) these are known: a path, or the origin and a path,
/// and behind `?` a query, with `*` for any characters. Those with more in them match nothing: the
/// answer is sent without the dictionary.
pub fn matches(pattern: &[u8], base: &[u8], origin: &[u8], target: &[u8]) -> bool {
    let stars = pattern.iter().filter(|byte| **byte == b'*').count();
    if stars > MOST_STARS || target.len() > LONGEST_TARGET {
        return false;
    }
    let pattern = match pattern.strip_prefix(origin) {
        Some(rest) if rest.first() == Some(&b'/') => rest,
        _ => pattern,
    };
    if pattern.iter().any(|byte| b":(){}+\\#".contains(byte)) {
        return false;
    }
    let (path, query) = split(pattern);
    // A question mark behind a star is of the star.
    if query.is_some() && matches!(path.last(), None | Some(b'*')) {
        return false;
    }
    let (asked, asked_query) = split(target);
    let same_query = query.is_none_or(|query| glob(query, asked_query.unwrap_or_default()));
    let directory = split(base).0;
    let end = directory.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let before = if path.first() == Some(&b'/') { &[][..] } else { &directory[..end] };
    same_query && asked.strip_prefix(before).is_some_and(|rest| glob(path, rest))
}

/// Path and query.
fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Whether text is as a pattern says, in which `*` stands for any bytes.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(from) {
            Some(b'*') => {
                star = Some((from, at));
                from += 1;
            }
            Some(byte) if *byte == text[at] => {
                (at, from) = (at + 1, from + 1);
            }
            _ => match star {
                // The last star takes one byte more.
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (at, from) = (taken + 1, place + 1);
                }
                None => return false,
            },
        }
    }
    pattern[from..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 9842 2.2.
    const EXAMPLE: &str = ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:";

    #[test]
    fn a_hash_is_a_byte_sequence_of_its_length() {
        let of = |lines: &[&'static str]| available(lines.iter().map(|line| line.as_bytes()));
        let hash = of(&[EXAMPLE]).expect("a hash");
        assert_eq!(hash[..4], [0xa5, 0x91, 0xa6, 0xd4]);
        assert_eq!(hash[31], 0x6e);
        assert_eq!(of(&["  :pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=: "]), Some(hash));
        for wrong in [
            "",
            ":",
            "::",
            "pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=",
            ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4:",
            ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG5=:",
            ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG==:",
            ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2f-_4=:",
            ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:, :AA==:",
            "\"pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=\"",
        ] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
        assert_eq!(of(&[EXAMPLE, EXAMPLE]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn patterns_of_dictionaries() {
        let of = |line: &'static str| pattern([line.as_bytes()].into_iter());
        assert_eq!(of("match=\"/product/*\""), Some(&b"/product/*"[..]));
        assert_eq!(of(USE), Some(&b"/*"[..]));
        let all = "match=\"/a\", match-dest=(\"document\" \"frame\"), id=\"dict-1\", type=raw";
        assert_eq!(of(all), Some(&b"/a"[..]));
        for wrong in ["", "id=\"a\"", "match", "match=\"/a\", type=brotli", "match=\"/a", "match=5"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn patterns_match_targets() {
        let is = |pattern: &str, target: &str| {
            let base = b"/app/v1/main.js?x";
            matches(pattern.as_bytes(), base, b"https://site.test", target.as_bytes())
        };
        for (pattern, target, expected) in [
            ("/*", "/", true),
            ("/*", "/a/b?c=d", true),
            ("/a", "/a", true),
            ("/a", "/a?b", true),
            ("/a", "/ab", false),
            ("/a/*.js", "/a/x/y.js", true),
            ("/a/*.js", "/a/x.css", false),
            ("/*/b/*", "/a/c/b/", true),
            ("/a?v=*", "/a?v=1", true),
            ("/a?v=*", "/a?w=1", false),
            ("/a?v=*", "/a", false),
            ("https://site.test/a*", "/abc", true),
            ("https://other.test/*", "/abc", false),
            ("https://site.test.evil/*", "/abc", false),
            ("*", "/app/v1/other.js", true),
            ("main.*.js", "/app/v1/main.2.js", true),
            ("main.*.js", "/main.2.js", false),
            ("../*", "/app/x", false),
            // Patterns with more in them than is known here.
            ("/:name", "/a", false),
            ("/a/*?", "/a/b", false),
            ("/{a}", "/a", false),
            ("/(.*)", "/a", false),
            ("/a+", "/a", false),
            ("/*********", "/a", false),
            ("", "/", false),
        ] {
            assert_eq!(is(pattern, target), expected, "{pattern} {target}");
        }
        assert!(!is("/*", &format!("/{}", "a".repeat(LONGEST_TARGET))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(a in prop::collection::vec(any::<u8>(), 0..60),
                                  b in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = available([&a[..]].into_iter());
            let _ = pattern([&a[..]].into_iter());
            let _ = matches(&a, &b, b"https://a", &b);
        }
    }
}
