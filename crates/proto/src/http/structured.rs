//! Dictionaries of structured fields (RFC 9651 3.2 and 4.2.2), as far as targeted cache control
//! and No-Vary-Search need them, and lists of strings (3.1 and 3.3.3).
//!
//! Every value is checked against the grammar, since one malformed member voids the whole field;
//! only integers, booleans, strings and inner lists are returned. Keys may be upper-case, unlike in
//! the RFC: cache directives are case-insensitive.

use super::fields::is_token_byte;

/// A member's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `?1`, or no value at all.
    True,
    /// `?0`
    False,
    /// An optional `-` and 1 to 15 digits.
    Integer(&'a [u8]),
    /// The inside of a string without escapes in it, or a token.
    Text(&'a [u8]),
    /// The inside of an inner list, which is well-formed; [`inner_strings`] reads it.
    List(&'a [u8]),
    /// A decimal, a byte sequence, a date, a display string, a string with escapes.
    Other,
}

/// The field is not a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotStructured;

/// The members of a dictionary in one field line; parameters are checked and dropped. Ends after an
/// error.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary<'a> {
    rest: &'a [u8],
}

impl<'a> Dictionary<'a> {
    /// The members of `line`.
    pub fn of(line: &'a [u8]) -> Self {
        Self { rest: super::fields::trim(line) }
    }

    fn member(&mut self) -> Result<(&'a [u8], Value<'a>), NotStructured> {
        let name = self.key()?;
        let value = if self.eat(b'=') {
            if self.eat(b'(') { self.inner_list()? } else { self.bare_item()? }
        } else {
            Value::True
        };
        self.parameters()?;
        self.comma()?;
        Ok((name, value))
    }

    /// Takes the separator of two members; nothing after the last.
    fn comma(&mut self) -> Result<(), NotStructured> {
        self.skip(is_space);
        if self.rest.is_empty() {
            return Ok(());
        }
        let comma = self.eat(b',');
        self.skip(is_space);
        if comma && !self.rest.is_empty() { Ok(()) } else { Err(NotStructured) }
    }

    fn key(&mut self) -> Result<&'a [u8], NotStructured> {
        if !matches!(self.rest.first(), Some(b'*' | b'a'..=b'z' | b'A'..=b'Z')) {
            return Err(NotStructured);
        }
        Ok(self.skip(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'*')))
    }

    fn parameters(&mut self) -> Result<(), NotStructured> {
        while self.eat(b';') {
            self.skip(|b| b == b' ');
            self.key()?;
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    fn inner_list(&mut self) -> Result<Value<'a>, NotStructured> {
        let start = self.rest;
        loop {
            self.skip(|b| b == b' ');
            if self.eat(b')') {
                return Ok(Value::List(&start[..start.len() - self.rest.len() - 1]));
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return Err(NotStructured);
            }
        }
    }

    fn bare_item(&mut self) -> Result<Value<'a>, NotStructured> {
        match *self.rest {
            [b'-' | b'0'..=b'9', ..] => self.number(),
            [b'"', ..] => self.string(),
            [b'*' | b'A'..=b'Z' | b'a'..=b'z', ..] => {
                Ok(Value::Text(self.skip(|b| is_token_byte(b) || matches!(b, b':' | b'/'))))
            }
            [b'?', digit @ (b'0' | b'1'), ..] => {
                self.rest = &self.rest[2..];
                Ok(if digit == b'1' { Value::True } else { Value::False })
            }
            [b':', ..] => self
                .delimited(b':', |b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')),
            [b'@', ..] => {
                self.rest = &self.rest[1..];
                match self.number()? {
                    Value::Integer(_) => Ok(Value::Other),
                    _ => Err(NotStructured),
                }
            }
            [b'%', b'"', ..] => {
                self.rest = &self.rest[1..];
                self.delimited(b'"', |b| (b' '..0x7f).contains(&b) && b != b'"')
            }
            _ => Err(NotStructured),
        }
    }

    fn number(&mut self) -> Result<Value<'a>, NotStructured> {
        let start = self.rest;
        self.eat(b'-');
        let whole = self.skip(|b| b.is_ascii_digit()).len();
        if self.eat(b'.') {
            let fraction = self.skip(|b| b.is_ascii_digit()).len();
            let fits = (1..=12).contains(&whole) && (1..=3).contains(&fraction);
            return if fits { Ok(Value::Other) } else { Err(NotStructured) };
        }
        if !(1..=15).contains(&whole) {
            return Err(NotStructured);
        }
        Ok(Value::Integer(&start[..start.len() - self.rest.len()]))
    }

    fn string(&mut self) -> Result<Value<'a>, NotStructured> {
        let inner = &self.rest[1..];
        let (mut at, mut escapes) = (0, false);
        loop {
            match (inner.get(at), inner.get(at + 1)) {
                (Some(b'"'), _) => break,
                (Some(b'\\'), Some(b'"' | b'\\')) => {
                    escapes = true;
                    at += 2;
                }
                (Some(b' '..=b'[' | b']'..=b'~'), _) => at += 1,
                _ => return Err(NotStructured),
            }
        }
        self.rest = &inner[at + 1..];
        Ok(if escapes { Value::Other } else { Value::Text(&inner[..at]) })
    }

    fn delimited(
        &mut self,
        end: u8,
        fits: impl Fn(u8) -> bool,
    ) -> Result<Value<'a>, NotStructured> {
        self.rest = &self.rest[1..];
        self.skip(fits);
        if self.eat(end) { Ok(Value::Other) } else { Err(NotStructured) }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn skip(&mut self, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&b| !fits(b)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

impl<'a> Iterator for Dictionary<'a> {
    type Item = Result<(&'a [u8], Value<'a>), NotStructured>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let member = self.member();
        if member.is_err() {
            self.rest = &[];
        }
        Some(member)
    }
}

/// The members of a list of strings, of all lines of a field: each as it is written, with its
/// escapes (there is one way to write a string). Parameters are checked and dropped. `None`: the
/// field is not a list, or has a member that is no string, and counts as absent.
pub fn strings<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<&'a [u8]>> {
    let mut all = Vec::new();
    for line in lines {
        let mut rest = Dictionary::of(line);
        while !rest.rest.is_empty() {
            let written = rest.rest.strip_prefix(b"\"")?;
            rest.string().ok()?;
            all.push(&written[..written.len() - rest.rest.len() - 1]);
            rest.parameters().ok()?;
            rest.comma().ok()?;
        }
    }
    Some(all)
}

/// The items of an inner list ([`Value::List`]), each as its string is written, with its escapes.
/// Parameters are dropped. `None`: one is no string.
pub fn inner_strings(list: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut all, items) = (Vec::new(), &mut Dictionary { rest: list });
    loop {
        items.skip(|b| b == b' ');
        if items.rest.is_empty() {
            return Some(all);
        }
        let written = items.rest.strip_prefix(b"\"")?;
        items.string().ok()?;
        all.push(&written[..written.len() - items.rest.len() - 1]);
        items.parameters().ok()?;
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (line, expected) in [
            ("a", Ok(Value::True)),
            ("a;b;c=1", Ok(Value::True)),
            ("a=?1", Ok(Value::True)),
            ("a=?0", Ok(Value::False)),
            ("a=1", Ok(Value::Integer(b"1"))),
            ("a=-1; b", Ok(Value::Integer(b"-1"))),
            ("a=999999999999999", Ok(Value::Integer(b"999999999999999"))),
            ("a=\"b,c\"", Ok(Value::Text(b"b,c"))),
            ("a=b/c:d", Ok(Value::Text(b"b/c:d"))),
            ("a=\"\\\"\"", Ok(Value::Other)),
            ("a=1.5", Ok(Value::Other)),
            ("a=:aGk=:", Ok(Value::Other)),
            ("a=@1659578233", Ok(Value::Other)),
            ("a=%\"%c3%bc\"", Ok(Value::Other)),
            ("a=()", Ok(Value::List(b""))),
            ("a=( 1 \"b)\";c  d );e", Ok(Value::List(b" 1 \"b)\";c  d "))),
            ("a=(1", Err(NotStructured)),
            ("a=(1\"b\")", Err(NotStructured)),
            ("a=1000000000000000", Err(NotStructured)),
            ("a=1.", Err(NotStructured)),
            ("a=1.1234", Err(NotStructured)),
            ("a=-", Err(NotStructured)),
            ("a=?2", Err(NotStructured)),
            ("a=\"b", Err(NotStructured)),
            ("a=\"\\b\"", Err(NotStructured)),
            ("a=\"\u{e9}\"", Err(NotStructured)),
            ("a=@1.5", Err(NotStructured)),
            ("a=", Err(NotStructured)),
            ("a =1", Err(NotStructured)),
            ("a= 1", Err(NotStructured)),
            ("a;", Err(NotStructured)),
            ("1=a", Err(NotStructured)),
            ("a b", Err(NotStructured)),
            ("a,", Err(NotStructured)),
            (",a", Err(NotStructured)),
        ] {
            let first = Dictionary::of(line.as_bytes()).next().map(|m| m.map(|(_, value)| value));
            assert_eq!(first, Some(expected), "{line}");
        }
        assert_eq!(Dictionary::of(b"  ").count(), 0);
        let names: Vec<_> =
            Dictionary::of(b"a\t,\t b=1 , *c").map(|m| m.map(|(name, _)| name)).collect();
        assert_eq!(names, [Ok(&b"a"[..]), Ok(b"b"), Ok(b"*c")]);
        assert_eq!(Dictionary::of(b"a, &, b").collect::<Vec<_>>().len(), 2);
    }

    #[test]
    fn strings_of_inner_lists() {
        let all: Vec<&[u8]> = vec![b"a", b"b) \\\"", b""];
        assert_eq!(inner_strings(b" \"a\";x=1  \"b) \\\"\" \"\" "), Some(all));
        assert_eq!(inner_strings(b"  "), Some(vec![]));
        for wrong in ["a", "\"a\" b", "1", "\"a\" :aGk=:"] {
            assert_eq!(inner_strings(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn lists_of_strings() {
        let of = |lines: &[&'static str]| strings(lines.iter().map(|line| line.as_bytes()));
        assert_eq!(of(&[]), Some(vec![]));
        assert_eq!(of(&["", "  "]), Some(vec![]));
        let three: Vec<&[u8]> = vec![b"a", b"b, c", b"\\\"d"];
        assert_eq!(of(&["\"a\" ,\t\"b, c\";x=1;y", "\"\\\"d\""]), Some(three));
        for wrong in
            ["a", "\"a\", b", "\"a", "\"a\",", "\"a\" \"b\"", "(\"a\")", "\"a\"x", ",\"a\""]
        {
            assert_eq!(of(&["\"fine\"", wrong]), None, "{wrong}");
        }
    }
}
