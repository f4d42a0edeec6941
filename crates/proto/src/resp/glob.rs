//! Patterns of KEYS, SCAN and PSUBSCRIBE (Redis: stringmatchlen).

/// The longest pattern of a client, in bytes: a comparison takes the length of the text times that
/// of the pattern.
pub const LONGEST: usize = 1024;
/// Error for a longer one.
pub const TOO_LONG: &str = "ERR a pattern is longer than 1024 bytes";

/// Does `text` match `pattern`? `*` any bytes, `?` one byte, `[a-c]`, `[^a]`, `\` takes the next
/// byte as it is.
///
/// Takes at most (length of text × length of pattern) steps: of several stars only the last is ever
/// moved.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Start of the pattern after the last star, and the position it matches in the text.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            star = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match one(pattern, p, text[t]) {
            Some(next) => (p, t) = (next, t + 1),
            None => match star {
                Some((rest, reached)) => {
                    star = Some((rest, reached + 1));
                    (p, t) = (rest, reached + 1);
                }
                None => return false,
            },
        }
    }
}

/// Matches one byte with the pattern at `p`, returns the position after it.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let (yes, next) = class(pattern, p + 1, byte);
            yes.then_some(next)
        }
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        plain => (*plain == byte).then_some(p + 1),
    }
}

/// The class that begins at `p` (after its bracket): whether it contains `byte`, and the position
/// after it. A class that is not closed extends to the pattern's end.
fn class(pattern: &[u8], mut p: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    loop {
        match pattern.get(p..).unwrap_or_default() {
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                p += 2;
            }
            [b']', ..] => return (found != negated, p + 1),
            [] => return (found != negated, pattern.len()),
            [from, b'-', to, ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                p += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                p += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, yes) in [
            ("*", "", true),
            ("*", "abc", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("[", "[", false),
            ("[]", "]", false),
            ("a\\", "a\\", true),
            ("user:*:name", "user:12:name", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), yes, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let text = vec![b'a'; 4000];
        let pattern = [b"a*".repeat(200), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &text));
    }
}
