//! Lua's patterns (reference manual of Lua 5.1, section 5.4.1), as its lstrlib.c matches them, but
//! so that a long search can be left in the middle.

use crate::{native::Outcome, pause::Pause};

/// Maximum of captures.
const CAPTURES: usize = 32;
/// Maximum of nested matches.
const DEPTH: usize = 4000;
/// Comparisons between two looks at the time.
const STEPS: usize = 4096;

/// Length of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Open,
    Position,
    Of(usize),
}

/// A captured part of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// From and to.
    Part(usize, usize),
    /// A position, from 1 on.
    Position(usize),
}

/// A search in a subject.
pub(crate) struct Matcher<'a> {
    pause: &'a Pause<'a>,
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    steps: usize,
    depth: usize,
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(pause: &'a Pause<'a>, subject: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        Matcher { pause, subject, pattern, captures: Vec::new(), steps: 0, depth: 0 }
    }

    /// The end of a match that begins at `start` of the subject.
    pub(crate) fn at(&mut self, start: usize) -> Outcome<Option<usize>> {
        self.captures.clear();
        self.depth = 0;
        self.run(start, 0)
    }

    /// The captures of the last match; without any, and if `whole`, the whole match.
    pub(crate) fn captures(&self, from: usize, to: usize, whole: bool) -> Outcome<Vec<Capture>> {
        if self.captures.is_empty() && whole {
            return Ok(vec![Capture::Part(from, to)]);
        }
        (0..self.captures.len()).map(|at| self.capture(at, from, to)).collect()
    }

    /// One capture.
    pub(crate) fn capture(&self, at: usize, from: usize, to: usize) -> Outcome<Capture> {
        match self.captures.get(at) {
            None if at == 0 => Ok(Capture::Part(from, to)),
            None => Err("invalid capture index".into()),
            Some((_, Length::Open)) => Err("unfinished capture".into()),
            Some((at, Length::Position)) => Ok(Capture::Position(at + 1)),
            Some((at, Length::Of(len))) => Ok(Capture::Part(*at, at + len)),
        }
    }

    fn tick(&mut self, steps: usize) -> Outcome<()> {
        self.steps += steps;
        if self.steps >= STEPS {
            self.steps = 0;
            self.pause.look()?;
        }
        Ok(())
    }

    fn byte(&self, p: usize) -> Option<u8> {
        self.pattern.get(p).copied()
    }

    fn nested(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("pattern too complex".into());
        }
        let found = self.run(s, p);
        self.depth -= 1;
        found
    }

    fn run(&mut self, mut s: usize, mut p: usize) -> Outcome<Option<usize>> {
        loop {
            self.tick(1)?;
            match self.byte(p) {
                None => return Ok(Some(s)),
                Some(b'(') => {
                    let (p, length) = match self.byte(p + 1) {
                        Some(b')') => (p + 2, Length::Position),
                        _ => (p + 1, Length::Open),
                    };
                    return self.open(s, p, length);
                }
                Some(b')') => return self.close(s, p + 1),
                Some(b'$') if p + 1 == self.pattern.len() => {
                    return Ok((s == self.subject.len()).then_some(s));
                }
                Some(b'%') if self.byte(p + 1) == Some(b'b') => {
                    match self.balanced(s, p + 2)? {
                        Some(end) => (s, p) = (end, p + 4),
                        None => return Ok(None),
                    }
                    continue;
                }
                Some(b'%') if self.byte(p + 1) == Some(b'f') => {
                    match self.frontier(s, p + 2)? {
                        Some(end) => p = end,
                        None => return Ok(None),
                    }
                    continue;
                }
                Some(b'%') if self.byte(p + 1).is_some_and(|byte| byte.is_ascii_digit()) => {
                    match self.again(s, self.byte(p + 1).unwrap_or_default())? {
                        Some(end) => (s, p) = (end, p + 2),
                        None => return Ok(None),
                    }
                    continue;
                }
                Some(_) => {}
            }
            let end = self.class_end(p)?;
            match self.byte(end) {
                Some(b'?') => {
                    if self.single(s, p, end)?
                        && let Some(found) = self.nested(s + 1, end + 1)?
                    {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.most(s, p, end),
                Some(b'+') => {
                    return match self.single(s, p, end)? {
                        true => self.most(s + 1, p, end),
                        false => Ok(None),
                    };
                }
                Some(b'-') => return self.least(s, p, end),
                _ if !self.single(s, p, end)? => return Ok(None),
                _ => (s, p) = (s + 1, end),
            }
        }
    }

    fn most(&mut self, s: usize, p: usize, end: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while self.single(s + count, p, end)? {
            count += 1;
        }
        loop {
            if let Some(found) = self.nested(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Outcome<Option<usize>> {
        loop {
            if let Some(found) = self.nested(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, length: Length) -> Outcome<Option<usize>> {
        if self.captures.len() >= CAPTURES {
            return Err("too many captures".into());
        }
        self.captures.push((s, length));
        let found = self.nested(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let open = self.captures.iter().rposition(|(_, length)| *length == Length::Open);
        let Some(at) = open else { return Err("invalid pattern capture".into()) };
        self.captures[at].1 = Length::Of(s - self.captures[at].0);
        let found = self.nested(s, p)?;
        if found.is_none() {
            self.captures[at].1 = Length::Open;
        }
        Ok(found)
    }

    /// `%1`: the text of an earlier capture.
    fn again(&mut self, s: usize, digit: u8) -> Outcome<Option<usize>> {
        let at = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let Some((from, Length::Of(len))) = self.captures.get(at).copied() else {
            return Err("invalid capture index".into());
        };
        self.tick(len / 16)?;
        let text = &self.subject[from..from + len];
        Ok(self.subject[s..].starts_with(text).then_some(s + len))
    }

    /// `%bxy`
    fn balanced(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let (Some(open), Some(close)) = (self.byte(p), self.byte(p + 1)) else {
            return Err("unbalanced pattern".into());
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.subject.len() {
            self.tick(1)?;
            if self.subject[at] == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if self.subject[at] == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: the end of the set in the pattern, if a word of it begins here.
    fn frontier(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        if self.byte(p) != Some(b'[') {
            return Err("missing '[' after '%f' in pattern".into());
        }
        let end = self.class_end(p)?;
        let before = if s == 0 { 0 } else { self.subject[s - 1] };
        let here = self.subject.get(s).copied().unwrap_or_default();
        let begins = !self.set(before, p, end - 1)? && self.set(here, p, end - 1)?;
        Ok(begins.then_some(end))
    }

    /// The end of the class that begins at `p`.
    fn class_end(&self, p: usize) -> Outcome<usize> {
        match self.byte(p) {
            Some(b'%') if self.byte(p + 1).is_none() => {
                Err("malformed pattern (ends with '%')".into())
            }
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut at = p + 1 + usize::from(self.byte(p + 1) == Some(b'^'));
                loop {
                    let Some(byte) = self.byte(at) else {
                        return Err("malformed pattern (missing ']')".into());
                    };
                    at += 1;
                    if byte == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.byte(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single(&mut self, s: usize, p: usize, end: usize) -> Outcome<bool> {
        self.tick(1)?;
        let Some(byte) = self.subject.get(s).copied() else { return Ok(false) };
        match self.byte(p) {
            Some(b'.') => Ok(true),
            Some(b'%') => Ok(in_class(byte, self.byte(p + 1).unwrap_or_default())),
            Some(b'[') => self.set(byte, p, end - 1),
            other => Ok(other == Some(byte)),
        }
    }

    /// Is the byte in the set from `p`, its `[`, to `end`, its `]`?
    fn set(&mut self, byte: u8, p: usize, end: usize) -> Outcome<bool> {
        self.tick((end - p) / 8)?;
        let negated = self.byte(p + 1) == Some(b'^');
        let mut at = p + 1 + usize::from(negated);
        while at < end {
            let first = self.pattern[at];
            if first == b'%' && at + 1 < end {
                if in_class(byte, self.pattern[at + 1]) {
                    return Ok(!negated);
                }
                at += 2;
            } else if self.byte(at + 1) == Some(b'-') && at + 2 < end {
                if (first..=self.pattern[at + 2]).contains(&byte) {
                    return Ok(!negated);
                }
                at += 3;
            } else {
                if first == byte {
                    return Ok(!negated);
                }
                at += 1;
            }
        }
        Ok(negated)
    }
}

/// Is the byte in the class of a letter (`%a`)?
fn in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0B,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

/// Has the pattern any character with a meaning of its own?
pub(crate) fn has_specials(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}
