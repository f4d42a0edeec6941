//! The library `cjson`: decoding.

use mlua::{Lua, Value};

use crate::{json::Options, native::Outcome, pause::Pause};

/// Items between two looks at the time.
const ITEMS: usize = 256;

pub(crate) fn decode(
    lua: &Lua,
    pause: &Pause<'_>,
    text: &[u8],
    options: &Options,
) -> Outcome<Value> {
    // Neither UTF-16 nor UTF-32: one of the first two bytes would be zero.
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let mut reader = Reader { lua, pause, options, text, at: 0, depth: 0, items: 0 };
    let token = reader.token()?;
    let value = reader.value(token)?;
    match reader.token()? {
        Token { kind: Kind::End, .. } => Ok(value),
        token => reader.unexpected("the end", &token),
    }
}

/// A word of the text.
#[derive(Debug, PartialEq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// An error, in lua-cjson's words.
    Invalid(&'static str),
}

#[derive(Debug)]
struct Token {
    kind: Kind,
    at: usize,
}

struct Reader<'a> {
    lua: &'a Lua,
    pause: &'a Pause<'a>,
    options: &'a Options,
    text: &'a [u8],
    at: usize,
    depth: usize,
    items: usize,
}

impl Reader<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or_default()
    }

    fn unexpected<T>(&self, wanted: &str, token: &Token) -> Outcome<T> {
        let found = match token.kind {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::String(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Invalid(text) => text,
        };
        let at = token.at + 1;
        Err(format!("Expected {wanted} but found {found} at character {at}").into())
    }

    fn token(&mut self) -> Outcome<Token> {
        self.items += 1;
        if self.items.is_multiple_of(ITEMS) {
            self.pause.look()?;
        }
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r')
            && self.at < self.text.len()
        {
            self.at += 1;
        }
        let at = self.at;
        let one = |kind| Token { kind, at };
        self.at += 1;
        Ok(match self.byte(at) {
            0 if at >= self.text.len() => one(Kind::End),
            b'{' => one(Kind::ObjectBegin),
            b'}' => one(Kind::ObjectEnd),
            b'[' => one(Kind::ArrayBegin),
            b']' => one(Kind::ArrayEnd),
            b':' => one(Kind::Colon),
            b',' => one(Kind::Comma),
            b'"' => self.string(at),
            b't' if self.text[at..].starts_with(b"true") => self.word(at, 4, Kind::Boolean(true)),
            b'f' if self.text[at..].starts_with(b"false") => self.word(at, 5, Kind::Boolean(false)),
            b'n' if self.text[at..].starts_with(b"null") => self.word(at, 4, Kind::Null),
            byte if is_number_start(byte) => self.number(at),
            _ => one(Kind::Invalid("invalid token")),
        })
    }

    fn word(&mut self, at: usize, len: usize, kind: Kind) -> Token {
        self.at = at + len;
        Token { kind, at }
    }

    fn string(&mut self, start: usize) -> Token {
        let mut out = Vec::new();
        let mut at = start + 1;
        loop {
            let Some(byte) = self.text.get(at).copied() else {
                return Token { kind: Kind::Invalid("unexpected end of string"), at };
            };
            match byte {
                b'"' => break,
                b'\\' => {
                    let escaped = match self.byte(at + 1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        b'u' => match self.unicode(at) {
                            Some((character, len)) => {
                                let mut bytes = [0; 4];
                                out.extend_from_slice(encode(character, &mut bytes));
                                at += len;
                                continue;
                            }
                            None => {
                                let kind = Kind::Invalid("invalid unicode escape code");
                                return Token { kind, at };
                            }
                        },
                        _ => return Token { kind: Kind::Invalid("invalid escape code"), at },
                    };
                    out.push(escaped);
                    at += 2;
                }
                _ => {
                    out.push(byte);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        Token { kind: Kind::String(out), at: start }
    }

    /// The character of `\uXXXX`, or of two of them, and their length.
    fn unicode(&self, at: usize) -> Option<(u32, usize)> {
        let first = self.digits(at + 2)?;
        if !(0xD800..0xE000).contains(&first) {
            return Some((first, 6));
        }
        if first >= 0xDC00 || self.byte(at + 6) != b'\\' || self.byte(at + 7) != b'u' {
            return None;
        }
        let second = self.digits(at + 8).filter(|second| (0xDC00..0xE000).contains(second))?;
        Some((((first & 0x3FF) << 10 | second & 0x3FF) + 0x10000, 12))
    }

    fn digits(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |all, digit| Some(all << 4 | char::from(*digit).to_digit(16)?))
    }

    /// A number as C's `strtod` reads it, if such numbers are allowed.
    fn number(&mut self, at: usize) -> Token {
        let invalid = |text| Token { kind: Kind::Invalid(text), at };
        if !self.options.decode_invalid && is_odd_number(&self.text[at..]) {
            return invalid("invalid number");
        }
        match strtod(&self.text[at..]) {
            Some((number, len)) => {
                self.at = at + len;
                Token { kind: Kind::Number(number), at }
            }
            None => invalid(match self.byte(at) {
                b'+' | b'-' | b'0'..=b'9' => "invalid number",
                _ => "invalid token",
            }),
        }
    }

    fn value(&mut self, token: Token) -> Outcome<Value> {
        Ok(match token.kind {
            Kind::String(text) => Value::String(self.lua.create_string(text)?),
            Kind::Number(number) => Value::Number(number),
            Kind::Boolean(value) => Value::Boolean(value),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin => self.object()?,
            Kind::ArrayBegin => self.array()?,
            _ => return self.unexpected("value", &token),
        })
    }

    fn descend(&mut self) -> Outcome<()> {
        self.depth += 1;
        if self.depth <= self.options.decode_depth {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        Err(format!("Found too many nested data structures ({depth}) at character {at}").into())
    }

    fn object(&mut self) -> Outcome<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.token()?;
        if token.kind != Kind::ObjectEnd {
            loop {
                let Kind::String(key) = &token.kind else {
                    return self.unexpected("object key string", &token);
                };
                let key = self.lua.create_string(key)?;
                let colon = self.token()?;
                if colon.kind != Kind::Colon {
                    return self.unexpected("colon", &colon);
                }
                let next = self.token()?;
                table.raw_set(key, self.value(next)?)?;
                token = self.token()?;
                match token.kind {
                    Kind::ObjectEnd => break,
                    Kind::Comma => token = self.token()?,
                    _ => return self.unexpected("comma or object end", &token),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Outcome<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.token()?;
        if token.kind != Kind::ArrayEnd {
            for at in 1_u32.. {
                table.raw_set(f64::from(at), self.value(token)?)?;
                token = self.token()?;
                match token.kind {
                    Kind::ArrayEnd => break,
                    Kind::Comma => token = self.token()?,
                    _ => return self.unexpected("comma or array end", &token),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}

fn is_number_start(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'i' | b'I' | b'n' | b'N')
}

/// Hexadecimal, infinite, not a number, or with a sign or zeros before it.
fn is_odd_number(text: &[u8]) -> bool {
    let text = match text.first() {
        Some(b'+') => return true,
        Some(b'-') => &text[1..],
        _ => text,
    };
    match text.first() {
        Some(b'0') => matches!(text.get(1), Some(b'x' | b'X' | b'0'..=b'9')),
        Some(b'1'..=b'9') => false,
        _ => true,
    }
}

/// The number at the start of a text, and its length.
fn strtod(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let rest = &text[sign..];
    let starts =
        |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let (value, len) = if starts(b"infinity") {
        (f64::INFINITY, 8)
    } else if starts(b"inf") {
        (f64::INFINITY, 3)
    } else if starts(b"nan") {
        (f64::NAN, 3)
    } else if starts(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        let digits = rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit());
        let number = |all: f64, digit: &u8| {
            all * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or_default())
        };
        (digits.clone().fold(0.0, number), 2 + digits.count())
    } else {
        decimal(rest)?
    };
    Some((if text.first() == Some(&b'-') { -value } else { value }, sign + len))
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let digits = |from: usize| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut len = digits(0);
    let mut any = len;
    if text.get(len) == Some(&b'.') {
        let more = digits(len + 1);
        any += more;
        len += 1 + more;
    }
    if any == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let more = digits(len + 1 + sign);
        if more > 0 {
            len += 1 + sign + more;
        }
    }
    let number = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((number, len))
}

/// A code point in UTF-8; zero, too, is one byte.
fn encode(character: u32, bytes: &mut [u8; 4]) -> &[u8] {
    match char::from_u32(character) {
        Some(character) => character.encode_utf8(bytes).as_bytes(),
        None => b"",
    }
}
