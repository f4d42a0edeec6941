//! Patterns of KEYS, SCAN and PSUBSCRIBE (Redis: stringmatchlen).

use std::cell::OnceCell;

/// The longest pattern of a client, in bytes: a comparison may take the length of the text times a
/// 64th of that of the pattern.
pub const LONGEST: usize = 1024;
/// Error for a longer one.
pub const TOO_LONG: &str = "ERR a pattern is longer than 1024 bytes";

/// Steps of the simple comparison for each byte of the text before the automaton takes over.
const PATIENCE: usize = 8;
/// The same at least: an automaton is not worth its table for one short text.
const AT_LEAST: usize = 256;

/// Does `text` match `pattern`? `*` any bytes, `?` one byte, `[a-c]`, `[^a]`, `\` takes the next
/// byte as it is.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Pattern::new(pattern).matches(text)
}

/// As [`matches`]; adds the number of steps to `steps`, each about a nanosecond.
pub fn matches_counted(pattern: &[u8], text: &[u8], steps: &mut usize) -> bool {
    Pattern::new(pattern).matches_counted(text, steps)
}

/// A pattern that several texts are compared with.
#[derive(Debug)]
pub struct Pattern<'p> {
    bytes: &'p [u8],
    /// Made for the first text that needs it.
    automaton: OnceCell<Automaton>,
}

impl<'p> Pattern<'p> {
    /// The pattern with these bytes, at most [`LONGEST`] of a client's.
    pub fn new(bytes: &'p [u8]) -> Pattern<'p> {
        Pattern { bytes, automaton: OnceCell::new() }
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty)] // nobody asks
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// See [`matches`].
    pub fn matches(&self, text: &[u8]) -> bool {
        self.matches_counted(text, &mut 0)
    }

    /// See [`matches_counted`].
    ///
    /// Takes some [`PATIENCE`] x length of text steps, and where these are not enough (length of
    /// text x length of pattern / 64) more: a quarter of a million for a pattern of [`LONGEST`]
    /// bytes and a text of 16 KiB. The first such text costs up to 100,000 more.
    pub fn matches_counted(&self, text: &[u8], steps: &mut usize) -> bool {
        let mut taken = 0;
        let limit = (PATIENCE * text.len()).max(AT_LEAST);
        let simple = compare(self.bytes, text, limit, &mut taken);
        *steps += taken;
        simple.unwrap_or_else(|| {
            let automaton = self.automaton.get_or_init(|| Automaton::new(self.bytes, steps));
            automaton.matches(text, steps)
        })
    }
}

/// Compares from star to star: of several stars only the last is ever moved. None: it would take
/// more than `limit` steps.
fn compare(pattern: &[u8], text: &[u8], limit: usize, steps: &mut usize) -> Option<bool> {
    let (mut p, mut t) = (0, 0);
    // Start of the pattern after the last star, and the position it matches in the text.
    let mut star: Option<(usize, usize)> = None;
    loop {
        *steps += 1;
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            if p == pattern.len() {
                return Some(true);
            }
            star = Some((p, t));
            continue;
        }
        if t == text.len() {
            return Some(p == pattern.len());
        }
        if *steps > limit {
            return None;
        }
        let (yes, next) = one(pattern, p, text[t]);
        *steps += next.saturating_sub(p);
        if yes {
            (p, t) = (next, t + 1);
            continue;
        }
        let Some((rest, reached)) = star else { return Some(false) };
        star = Some((rest, reached + 1));
        (p, t) = (rest, reached + 1);
    }
}

/// A pattern as a set of states, of which a text of any kind costs one pass: state `n` is reached
/// when the first `n` elements of the pattern have matched.
#[derive(Debug)]
struct Automaton {
    /// Words of a set of states.
    words: usize,
    /// For each byte the states that it leads one further from.
    steps: Vec<u64>,
    /// States that every byte leaves as they are: those with a star behind them.
    stays: Vec<u64>,
    /// Number of elements: the state of a match.
    last: usize,
}

impl Automaton {
    fn new(pattern: &[u8], cost: &mut usize) -> Automaton {
        let words = pattern.len() / 64 + 1;
        let (mut steps, mut stays) = (vec![0; 256 * words], vec![0; words]);
        let mut any = vec![0; words];
        let (mut p, mut last) = (0, 0);
        while p < pattern.len() {
            let (word, bit) = (last / 64, 1 << (last % 64));
            match pattern[p] {
                b'*' => {
                    stays[word] |= bit;
                    p += 1;
                    continue;
                }
                b'?' => any[word] |= bit,
                b'[' => {
                    let bytes = class_bytes(pattern, p + 1);
                    let within = (0..256).filter(|byte| bytes[*byte]);
                    within.for_each(|byte| steps[byte * words + word] |= bit);
                }
                b'\\' if p + 1 < pattern.len() => {
                    steps[usize::from(pattern[p + 1]) * words + word] |= bit;
                }
                plain => steps[usize::from(plain) * words + word] |= bit,
            }
            let next = one(pattern, p, 0).1;
            *cost += if pattern[p] == b'[' { 256 + next - p } else { 1 };
            (p, last) = (next, last + 1);
        }
        for row in steps.chunks_exact_mut(words) {
            row.iter_mut().zip(&any).for_each(|(word, any)| *word |= any);
        }
        *cost += 256 * words;
        Automaton { words, steps, stays, last }
    }

    fn matches(&self, text: &[u8], cost: &mut usize) -> bool {
        let mut states = vec![0; self.words];
        states[0] = 1;
        for byte in text {
            *cost += self.words;
            let row = &self.steps[usize::from(*byte) * self.words..][..self.words];
            let mut carry = 0;
            for ((state, step), stay) in states.iter_mut().zip(row).zip(&self.stays) {
                let moved: u64 = *state & step;
                (*state, carry) = (moved << 1 | carry | *state & stay, moved >> 63);
            }
        }
        states[self.last / 64] & 1 << (self.last % 64) != 0
    }
}

/// Matches one byte with the element of the pattern at `p`: whether it does, and the position after
/// that element.
fn one(pattern: &[u8], p: usize, byte: u8) -> (bool, usize) {
    match pattern.get(p) {
        None => (false, p),
        Some(b'?') => (true, p + 1),
        Some(b'[') => class(pattern, p + 1, byte),
        Some(b'\\') if p + 1 < pattern.len() => (pattern[p + 1] == byte, p + 2),
        Some(plain) => (*plain == byte, p + 1),
    }
}

/// The class that begins at `p` (after its bracket): whether it contains `byte`, and the position
/// after it.
fn class(pattern: &[u8], p: usize, byte: u8) -> (bool, usize) {
    let mut found = false;
    let (negated, next) = walk_class(pattern, p, |from, to| found |= (from..=to).contains(&byte));
    (found != negated, next)
}

/// The bytes in the class that begins at `p`.
fn class_bytes(pattern: &[u8], p: usize) -> [bool; 256] {
    let mut found = [false; 256];
    let (negated, _) = walk_class(pattern, p, |from, to| {
        found[usize::from(from)..=usize::from(to)].fill(true);
    });
    found.map(|found| found != negated)
}

/// Passes the ranges of the class that begins at `p` to `range`. Returns whether the class is
/// negated, and the position after it. A class that is not closed extends to the pattern's end.
fn walk_class(pattern: &[u8], mut p: usize, mut range: impl FnMut(u8, u8)) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    loop {
        match pattern.get(p..).unwrap_or_default() {
            [b'\\', escaped, ..] => {
                range(*escaped, *escaped);
                p += 2;
            }
            [b']', ..] => return (negated, p + 1),
            [] => return (negated, pattern.len()),
            [from, b'-', to, ..] => {
                range(*from.min(to), *from.max(to));
                p += 3;
            }
            [plain, ..] => {
                range(*plain, *plain);
                p += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Patterns and texts over few bytes, so that all ways of matching happen.
    #[test]
    fn the_automaton_says_what_the_comparison_says() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (state >> 33) % below
        };
        let parts: [&[u8]; 10] =
            [b"*", b"*", b"a", b"b", b"?", b"[ab]", b"[^a]", b"[a-", b"\\", b"[\\]c]"];
        let (mut yes, rounds) = (0, 20_000);
        for _ in 0..rounds {
            let pattern: Vec<u8> = (0..random(8))
                .flat_map(|_| parts[random(parts.len() as u64) as usize])
                .copied()
                .collect();
            let text: Vec<u8> = (0..random(7)).map(|_| b"abc]"[random(4) as usize]).collect();
            let simple = compare(&pattern, &text, usize::MAX, &mut 0);
            let automaton = Automaton::new(&pattern, &mut 0).matches(&text, &mut 0);
            assert_eq!(Some(automaton), simple, "{:?}", (pattern, text));
            yes += u32::from(automaton);
        }
        assert!(yes > rounds / 20, "{yes}");
    }

    /// The longest pattern and the longest name of a channel, in all shapes that once took the
    /// product of both.
    #[test]
    fn a_comparison_takes_a_bounded_number_of_steps() {
        let text = vec![b'a'; 16 * 1024];
        let shapes = [
            [b"*".to_vec(), vec![b'a'; 1022], b"b".to_vec()].concat(),
            [b"a*".repeat(511), b"b".to_vec()].concat(),
            [b"*".to_vec(), b"?".repeat(1022), b"b".to_vec()].concat(),
            [b"*".to_vec(), b"[a-b]".repeat(204), b"b".to_vec()].concat(),
            [b"*[^".to_vec(), b"a".repeat(1000), b"]".to_vec()].concat(),
            [b"*[".to_vec(), b"b-c".repeat(330), b"]".to_vec()].concat(),
        ];
        for pattern in shapes {
            let mut steps = 0;
            assert!(!matches_counted(&pattern, &text, &mut steps));
            assert!(steps < 1_000_000, "{steps} steps: {}", String::from_utf8_lossy(&pattern));
            assert!(matches(&pattern, &[&text[..], b"b"].concat()));
        }
    }
}
