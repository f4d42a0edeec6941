//! Texts with variables: `/menu?lang=$(HTTP_COOKIE{lang}|en)`.

use std::borrow::Cow;

use memchr::memmem;

use super::Facts;

/// A text with variables.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Value {
    /// In order.
    pub pieces: Vec<Piece>,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As it is.
    Text(Box<[u8]>),
    /// The value of a variable.
    Variable(Variable),
}

/// `$(NAME{key}|default)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// `HTTP_COOKIE`
    pub name: Box<[u8]>,
    /// Which of its members.
    pub key: Option<Box<[u8]>>,
    /// The value where the request has none.
    pub default: Option<Box<[u8]>>,
}

/// How the values of variables are written. A request chooses them: none may become markup, or
/// another part of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// As they are: to be compared.
    None,
    /// References of HTML for `<`, `>`, `&` and quotes.
    Html,
    /// Percent-encoded but for letters, digits and `-`, `.`, `_`, `~`; what is encoded stays.
    Target,
}

/// Most pieces of one text, and beginnings of variables that are none: what follows stays as it is.
const MAX_PIECES: usize = 1024;

impl Value {
    /// Reads a text. Text that looks like a variable and is none stays as it is.
    pub fn parse(mut text: &[u8]) -> Self {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut none = 0;
        while pieces.len() + none < MAX_PIECES
            && let Some(at) = memmem::find(text, b"$(")
        {
            plain.extend_from_slice(&text[..at]);
            match Variable::parse(&text[at..]) {
                Some((variable, used)) => {
                    push_text(&mut pieces, &mut plain);
                    pieces.push(Piece::Variable(variable));
                    text = &text[at + used..];
                }
                None => {
                    none += 1;
                    plain.extend_from_slice(b"$(");
                    text = &text[at + 2..];
                }
            }
        }
        plain.extend_from_slice(text);
        push_text(&mut pieces, &mut plain);
        Self { pieces }
    }

    /// Whether it has other values for other requests.
    pub fn has_variables(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Variable(_)))
    }

    /// Appends the text for one request.
    pub fn write(&self, facts: &Facts<'_>, escape: Escape, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Variable(variable) => {
                    if let Some(value) = variable.get(facts) {
                        escape.write(&value, out);
                    }
                }
            }
        }
    }
}

fn push_text(pieces: &mut Vec<Piece>, plain: &mut Vec<u8>) {
    if !plain.is_empty() {
        pieces.push(Piece::Text(std::mem::take(plain).into()));
    }
}

impl Variable {
    /// The variable at the start of a text, and its length there.
    pub(super) fn parse(text: &[u8]) -> Option<(Self, usize)> {
        let rest = text.strip_prefix(b"$(")?;
        let named = rest.iter().take_while(|b| b.is_ascii_uppercase() || **b == b'_').count();
        let (name, mut rest) = rest.split_at(named);
        if name.is_empty() {
            return None;
        }
        let mut key = None;
        if let Some(within) = rest.strip_prefix(b"{") {
            let end = within.iter().take(256).position(|&b| b == b'}')?;
            key = Some(unquoted(&within[..end]).into());
            rest = &within[end + 1..];
        }
        let mut default = None;
        if let Some(after) = rest.strip_prefix(b"|") {
            let end = match after.first() {
                Some(b'\'') => after[1..].iter().take(1024).position(|&b| b == b'\'')? + 2,
                _ => after.iter().take(1024).position(|&b| b == b')')?,
            };
            default = Some(unquoted(&after[..end]).into());
            rest = &after[end..];
        }
        let rest = rest.strip_prefix(b")")?;
        Some((Self { name: name.into(), key, default }, text.len() - rest.len()))
    }

    /// Its value, or its default.
    pub fn get<'v>(&'v self, facts: &Facts<'v>) -> Option<Cow<'v, [u8]>> {
        facts
            .get(&self.name, self.key.as_deref())
            .filter(|value| !value.is_empty())
            .or_else(|| self.default.as_deref().map(Cow::Borrowed))
    }
}

fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'")).unwrap_or(text)
}

impl Escape {
    fn write(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::None => out.extend_from_slice(value),
            Self::Html => value.iter().for_each(|&byte| match byte {
                b'<' => out.extend_from_slice(b"&lt;"),
                b'>' => out.extend_from_slice(b"&gt;"),
                b'&' => out.extend_from_slice(b"&amp;"),
                b'"' => out.extend_from_slice(b"&quot;"),
                b'\'' => out.extend_from_slice(b"&#39;"),
                _ => out.push(byte),
            }),
            // A segment of dots would lead out of the directory.
            Self::Target if matches!(value, b"." | b"..") => {}
            Self::Target => {
                for (at, &byte) in value.iter().enumerate() {
                    let encoded = || {
                        let digits = value.get(at + 1..at + 3);
                        digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
                    };
                    let plain = byte.is_ascii_alphanumeric()
                        || matches!(byte, b'-' | b'.' | b'_' | b'~')
                        || (byte == b'%' && encoded());
                    if plain { out.push(byte) } else { percent(byte, out) }
                }
            }
        }
    }
}

/// Appends a byte as `%XX`.
pub(super) fn percent(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}
