//! Header fields as borrowed bytes.
//!
//! [`Fields`] is a view of a list with another owner (the connection's slots, a stored head, an
//! origin's header map turned into slices). It never allocates and never copies; names compare
//! case-insensitively (RFC 9110 5.1). Lists are split only here: commas inside quoted strings do
//! not separate (RFC 9110 5.6.1), empty elements are skipped.

use httparse::Header;

/// A borrowed list of header fields, in the order received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    list: &'a [Header<'a>],
}

impl<'a> Fields<'a> {
    /// Views `list`; names must be tokens and values free of CR, LF and NUL (the parsers here
    /// ensure that).
    pub const fn new(list: &'a [Header<'a>]) -> Self {
        Self { list }
    }

    /// The first value of `name`.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.list.iter().find(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value)
    }

    /// Every value of `name`, one for each field line, in order.
    pub fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a, 'n> {
        self.list.iter().filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value)
    }

    /// Whether there is a field line called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Every field line as (name as received, value).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a [u8])> + Clone + use<'a> {
        self.list.iter().map(|h| (h.name, h.value))
    }

    /// The comma-separated elements of all lines of `name`: trimmed, empty ones skipped, quoted
    /// strings respected.
    pub fn elements<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a, 'n> {
        self.all(name).flat_map(Elements::of)
    }

    /// The list behind the view.
    pub const fn as_slice(&self) -> &'a [Header<'a>] {
        self.list
    }

    /// How many field lines there are.
    pub const fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no field line at all.
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The elements of one comma-separated value.
///
/// A quote that is never closed is an ordinary character, and so is every later quote of that
/// value: a damaged value must not swallow the directives that follow it (`x="y, no-store`). Linear
/// in the length of the value.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
    separator: u8,
    quotes: bool,
}

impl<'a> Elements<'a> {
    /// Splits `value` at commas.
    pub const fn of(value: &'a [u8]) -> Self {
        Self { rest: value, separator: b',', quotes: true }
    }

    /// Splits `value` at semicolons: the parameters of one element, the element itself first.
    pub const fn parameters(value: &'a [u8]) -> Self {
        Self { rest: value, separator: b';', quotes: true }
    }

    /// Index of the next separator outside quotes, or the length of the rest.
    fn next_separator(&mut self) -> usize {
        let mut at = 0;
        while at < self.rest.len() {
            let byte = self.rest[at];
            if byte == self.separator {
                return at;
            }
            at += 1;
            if byte == b'"' && self.quotes {
                match quoted_end(&self.rest[at..]) {
                    Some(length) => at += length,
                    None => self.quotes = false,
                }
            }
        }
        at
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = self.next_separator();
            let element = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

/// Bytes up to and including the closing quote, after an opening one (RFC 9110 5.6.4).
fn quoted_end(after_quote: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match after_quote.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Without optional whitespace (space and tab) at both ends.
pub const fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether `value` is `lower` in any case, `lower` being a lower-case literal.
///
/// Since the compiler knows the length, this is a few wide instructions; `eq_ignore_ascii_case`
/// takes a dozen a byte.
#[inline(always)]
pub(super) fn is_word<const N: usize>(value: &[u8], lower: &[u8; N]) -> bool {
    let Ok(value) = <&[u8; N]>::try_from(value) else { return false };
    let mut difference = 0;
    for (a, b) in value.iter().zip(lower) {
        let case = if b.is_ascii_lowercase() { !0x20 } else { 0xff };
        difference |= (a ^ b) & case;
    }
    difference == 0
}

/// Whether `byte` is allowed in a token (RFC 9110 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#' | b'$' | b'%' | b'&'
        | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Whether `value` is a token: one or more token bytes.
pub fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|&b| is_token_byte(b))
}

/// Whether `byte` is allowed in a field value: no control character but the tab (RFC 9110 5.5).
pub const fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// A field section that breaks the grammar of RFC 9112 5, or has more lines than slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No colon, an empty name, or a byte in the name that is not a token byte (a space before the
    /// colon, a fold).
    Name,
    /// A control character in the value.
    Value,
    /// A line that does not end with CRLF.
    LineEnd,
    /// More lines than slots.
    TooMany,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Name => "a field name is not a token followed by a colon",
            Self::Value => "a field value has a control character",
            Self::LineEnd => "a field line does not end with CRLF",
            Self::TooMany => "too many field lines",
        })
    }
}

impl std::error::Error for Malformed {}

/// Splits header bytes (repeated `Name: value` CRLF, no status line) for [`Fields`].
///
/// The empty line at the end is optional; bytes after it are an error. As strict as the request
/// parser: CRLF exactly, no folding, no space before the colon, no control characters. The caller
/// provides the slots.
pub fn parse_fields<'h, 'b: 'h>(
    bytes: &'b [u8],
    slots: &'h mut [Header<'b>],
) -> Result<Fields<'h>, Malformed> {
    let mut rest = bytes;
    let mut used = 0;
    while !rest.is_empty() && rest != b"\r\n" {
        let (header, after) = field_line(rest)?;
        *slots.get_mut(used).ok_or(Malformed::TooMany)? = header;
        used += 1;
        rest = after;
    }
    Ok(Fields::new(&slots[..used]))
}

/// The first field line, and the bytes after its CRLF.
fn field_line(bytes: &[u8]) -> Result<(Header<'_>, &[u8]), Malformed> {
    let colon = bytes.iter().position(|&b| !is_token_byte(b)).ok_or(Malformed::Name)?;
    if colon == 0 || bytes[colon] != b':' {
        return Err(Malformed::Name);
    }
    let name = std::str::from_utf8(&bytes[..colon]).map_err(|_| Malformed::Name)?;
    let rest = &bytes[colon + 1..];
    let end = rest.iter().position(|&b| !is_value_byte(b)).ok_or(Malformed::LineEnd)?;
    match (rest[end], rest.get(end + 1)) {
        (b'\r', Some(b'\n')) => Ok((Header { name, value: trim(&rest[..end]) }, &rest[end + 2..])),
        (b'\r' | b'\n', _) => Err(Malformed::LineEnd),
        _ => Err(Malformed::Value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(value: &str) -> Vec<String> {
        Elements::of(value.as_bytes()).map(|e| String::from_utf8_lossy(e).into_owned()).collect()
    }

    #[test]
    fn lists_are_split_outside_quotes() {
        for (value, expected) in [
            ("", &[][..]),
            (" , ,\t,", &[]),
            ("a", &["a"]),
            (" a ,b ,, c", &["a", "b", "c"]),
            (r#"x="a,b", c"#, &[r#"x="a,b""#, "c"]),
            (r#"x="a\",b", c"#, &[r#"x="a\",b""#, "c"]),
            (r#""","""#, &[r#""""#, r#""""#]),
            (r#"x="a, no-store"#, &[r#"x="a"#, "no-store"]),
            (r#"x="a\", no-store"#, &[r#"x="a\""#, "no-store"]),
            (r#"x="\"#, &[r#"x="\"#]),
        ] {
            assert_eq!(elements(value), expected, "{value}");
        }
    }

    #[test]
    fn words_in_any_case() {
        for (value, expected) in [
            ("keep-alive", true),
            ("KEEP-Alive", true),
            ("keep-alive ", false),
            ("keep\ralive", false),
            ("", false),
        ] {
            assert_eq!(is_word(value.as_bytes(), b"keep-alive"), expected, "{value:?}");
        }
        for byte in 0..=255_u8 {
            assert_eq!(is_word(&[byte], b"k"), byte == b'k' || byte == b'K');
            assert_eq!(is_word(&[byte], b"1"), byte == b'1');
        }
    }

    #[test]
    fn an_unclosed_quote_costs_one_pass() {
        let value = [b"\"".as_slice(), &br#"\","#.repeat(20_000)].concat();
        assert_eq!(Elements::of(&value).count(), 20_000);
    }

    #[test]
    fn names_are_case_insensitive_and_lines_combine() {
        let list = [
            Header { name: "VARY", value: b"a, b" },
            Header { name: "Age", value: b"1" },
            Header { name: "vary", value: b", c" },
        ];
        let fields = Fields::new(&list);
        assert_eq!(fields.get("age"), Some(&b"1"[..]));
        assert_eq!(fields.get("ag"), None);
        assert_eq!(fields.all("Vary").count(), 2);
        assert_eq!(fields.elements("Vary").collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(fields.iter().len(), 3);
    }

    #[test]
    fn stored_heads_are_split_strictly() {
        for (bytes, expected) in [
            (&b""[..], Ok(0)),
            (b"\r\n", Ok(0)),
            (b"A: b\r\n", Ok(1)),
            (b"A:\t b \t\r\nB:\r\n\r\n", Ok(2)),
            (b"A: \xe9\r\n", Ok(1)),
            (b"A: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\n", Err(Malformed::TooMany)),
            (b"A: b", Err(Malformed::LineEnd)),
            (b"A: b\n", Err(Malformed::LineEnd)),
            (b"A: b\rc\r\n", Err(Malformed::LineEnd)),
            (b"A: b\0\r\n", Err(Malformed::Value)),
            (b"A : b\r\n", Err(Malformed::Name)),
            (b": b\r\n", Err(Malformed::Name)),
            (b"A\r\n", Err(Malformed::Name)),
            (b"A: b\r\n c\r\n", Err(Malformed::Name)),
            (b"A: b\r\n\r\nB: c\r\n", Err(Malformed::Name)),
        ] {
            let mut slots = [httparse::EMPTY_HEADER; 3];
            assert_eq!(
                parse_fields(bytes, &mut slots).map(|f| f.len()),
                expected,
                "{}",
                bytes.escape_ascii()
            );
        }
        let mut slots = [httparse::EMPTY_HEADER; 3];
        let fields = parse_fields(b"A:\t b \t\r\nB:\r\n\r\n", &mut slots).expect("well-formed");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("A", &b"b"[..]), ("B", b"")]);
    }
}
