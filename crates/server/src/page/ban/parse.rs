//! Reading an expression. Every mistake is told with its place.

use std::fmt;

use larder_proto::units;
use regex::bytes::RegexBuilder;

use crate::page::ban::{How, Number, Term, Text, Wanted};

/// Bytes of an expression.
const LENGTH: usize = 4096;
/// Terms of an expression: each is looked at for every page stored.
const TERMS: usize = 16;
/// Bytes a compiled regular expression may take: a worker compiles it in one go.
const REGEX: usize = 256 << 10;

/// Fault in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The character where it goes wrong, counted from 1.
    pub(crate) column: usize,
    /// The expected and the found text.
    pub(crate) message: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.column, self.message)
    }
}

const FIELDS: &str = "url, host, tag, content_type, status, age or size";

pub(crate) fn expression(text: &str) -> Result<Vec<Term>, Wrong> {
    let mut reader = Reader { text, at: 0 };
    if text.len() > LENGTH {
        return Err(reader.wrong(0, format!("an expression has at most {LENGTH} bytes")));
    }
    let mut terms = Vec::new();
    loop {
        terms.push(reader.term()?);
        reader.blanks();
        let at = reader.at;
        if reader.rest().is_empty() {
            return Ok(terms);
        }
        if !reader.take("&&") {
            let found = reader.found();
            return Err(reader.wrong(at, format!("expected && or the end, found {found}")));
        }
        if terms.len() == TERMS {
            return Err(reader.wrong(at, format!("an expression has at most {TERMS} terms")));
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    /// In bytes, always between characters.
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.rest().starts_with(word);
        self.at += if there { word.len() } else { 0 };
        there
    }

    fn wrong(&self, at: usize, message: String) -> Wrong {
        Wrong { column: self.text[..at].chars().count() + 1, message }
    }

    /// The text at this position, for a message.
    fn found(&self) -> String {
        let word: String =
            self.rest().chars().take_while(|c| !c.is_whitespace()).take(20).collect();
        if word.is_empty() { "the end".to_owned() } else { format!("{word:?}") }
    }

    /// Letters, digits and what else names and numbers have.
    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| {
                c.is_whitespace() || matches!(c, '=' | '!' | '~' | '<' | '>' | '&' | '"')
            })
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn term(&mut self) -> Result<Term, Wrong> {
        self.blanks();
        let at = self.at;
        let found = self.found();
        let name = self.word();
        match name {
            "url" | "req.url" => self.text_test().map(Term::Url),
            "host" | "req.http.host" => self.text_test().map(Term::Host),
            "tag" => self.text_test().map(Term::Tag),
            "content_type" | "obj.http.content-type" => self.text_test().map(Term::ContentType),
            "status" | "obj.status" => self.number_test("404 or 5xx", status).map(Term::Status),
            "age" | "obj.age" => {
                self.number_test("a time such as 90s, 1h30m or 2d", time).map(Term::Age)
            }
            "size" => self.number_test("a size such as 1000, 64KiB or 1MB", size).map(Term::Size),
            _ => Err(self.wrong(at, format!("expected {FIELDS}, found {found}"))),
        }
    }

    fn text_test(&mut self) -> Result<Text, Wrong> {
        self.blanks();
        let (like, negated) = match () {
            () if self.take("==") => (false, false),
            () if self.take("!=") => (false, true),
            () if self.take("!~") => (true, true),
            () if self.take("~") => (true, false),
            () => {
                return Err(self
                    .wrong(self.at, format!("expected ==, !=, ~ or !~, found {}", self.found())));
            }
        };
        self.blanks();
        let at = self.at;
        let text = self.text_value()?;
        let with = if like {
            let regex = RegexBuilder::new(&text).size_limit(REGEX).build();
            Wanted::Like(regex.map_err(|error| self.wrong(at, reason(&error)))?)
        } else {
            Wanted::Same(text.into_bytes())
        };
        Ok(Text { with, negated })
    }

    fn text_value(&mut self) -> Result<String, Wrong> {
        let start = self.at;
        if !self.take("\"") {
            let word = self.word();
            return match word {
                "" => Err(self.wrong(start, format!("expected a text, found {}", self.found()))),
                word => Ok(word.to_owned()),
            };
        }
        let mut out = String::new();
        let mut escaped = false;
        for (offset, c) in self.rest().char_indices() {
            match c {
                // Only what would end the text is escaped: a regular expression keeps its own
                // backslashes.
                '"' | '\\' if escaped => {
                    out.push(c);
                    escaped = false;
                }
                c if escaped => {
                    out.extend(['\\', c]);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    self.at += offset + 1;
                    return Ok(out);
                }
                c => out.push(c),
            }
        }
        Err(self.wrong(start, "this text has no closing quote".to_owned()))
    }

    fn number_test(
        &mut self,
        expected: &str,
        read: fn(&str) -> Option<(u64, u64)>,
    ) -> Result<Number, Wrong> {
        self.blanks();
        let how = match () {
            () if self.take("==") => How::Equal,
            () if self.take("!=") => How::Unequal,
            () if self.take("<=") => How::AtMost,
            () if self.take("<") => How::Less,
            () if self.take(">=") => How::AtLeast,
            () if self.take(">") => How::More,
            () => {
                let message = format!("expected ==, !=, <, <=, > or >=, found {}", self.found());
                return Err(self.wrong(self.at, message));
            }
        };
        self.blanks();
        let (at, found) = (self.at, self.found());
        let (low, high) = read(self.word())
            .ok_or_else(|| self.wrong(at, format!("expected {expected}, found {found}")))?;
        Ok(Number { how, low, high })
    }
}

/// The last line of what the regex crate says: the reason, without the drawing above it.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("expected a regular expression ({reason})")
}

fn status(text: &str) -> Option<(u64, u64)> {
    if let Some(class) = text.strip_suffix("xx") {
        let class: u64 = class.parse().ok().filter(|class| (1..=5).contains(class))?;
        return Some((class * 100, class * 100 + 99));
    }
    let status = text.parse().ok().filter(|status| (100..=599).contains(status))?;
    Some((status, status))
}

/// Seconds of a time such as 1h30m.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let time = units::duration(text).ok()?;
    (time.subsec_nanos() == 0).then_some(time.as_secs())
}

fn time(text: &str) -> Option<(u64, u64)> {
    seconds(text).map(|seconds| (seconds, seconds))
}

fn size(text: &str) -> Option<(u64, u64)> {
    units::size(text).ok().map(|bytes| (bytes, bytes))
}
