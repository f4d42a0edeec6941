//! Variation by parts of fields: `X-Vary-Options`, as MediaWiki sends it and Squid's patch reads
//! it, and `Key` (draft-ietf-httpbis-key-01).
//!
//! Either says which predicates of a request's fields select a variant: whether Cookie contains
//! `wikiToken`, say. A field with its predicates stands among the names of selecting fields
//! ([`vary`](super::vary)) as one name that no field has, `;cookie;string-contains=wikiToken`, and
//! its value are the results. So variants by predicates are kept, found and shared as others are.
//!
//! Where a server may read a field in another way than these rules do, results tell more apart than
//! the rules ask for: a page that was made for one must not be found by those who only look alike.
//! Of a list or a repeated cookie all members count, not the first; names of cookies are compared
//! as PHP reads them too.

use memchr::memmem;

use crate::http::{Elements, Fields, cookie::cookies, fields::is_token};

/// A response field that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaryField {
    /// `X-Vary-Options`
    Options,
    /// `Key`
    Key,
}

impl VaryField {
    /// The field's name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Options => "x-vary-options",
            Self::Key => "key",
        }
    }

    /// The field with that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Options, Self::Key].into_iter().find(|field| field.name() == name)
    }
}

/// Longest value of such a field, in bytes: it is read for each response, and its predicates are
/// kept with each page.
const MAX_LEN: usize = 4096;
/// Most predicates: each is a search of a field of the request on a hit.
const MAX_PREDICATES: usize = 32;

/// A selecting field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    /// The request field, in lower case; `*` stands for anything.
    pub(super) field: String,
    /// Its predicates, as they stand behind its name; empty: its value selects.
    pub(super) predicates: String,
}

impl Selector {
    /// The name by which it selects.
    pub(super) fn name(self) -> String {
        match self.predicates.is_empty() {
            true => self.field,
            false => format!(";{}{}", self.field, self.predicates),
        }
    }
}

/// A question about a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Predicate {
    /// X-Vary-Options: an element of a list, in any case.
    ListContains,
    /// X-Vary-Options: a part of the whole.
    StringContains,
    /// Key: a number divided by this.
    Div,
    /// Key: the segment of a number.
    Partition,
    /// Key: an element of a list.
    Match,
    /// Key: a part of the whole.
    Substr,
    /// Key: the value of a parameter.
    Param,
}

impl Predicate {
    const ALL: [(&str, VaryField, Self); 7] = [
        ("list-contains", VaryField::Options, Self::ListContains),
        ("string-contains", VaryField::Options, Self::StringContains),
        ("div", VaryField::Key, Self::Div),
        ("partition", VaryField::Key, Self::Partition),
        ("match", VaryField::Key, Self::Match),
        ("substr", VaryField::Key, Self::Substr),
        ("param", VaryField::Key, Self::Param),
    ];

    /// The one that `field` has under this name, which is in lower case.
    fn of(field: VaryField, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(n, f, _)| (*n, *f) == (name, field)).map(|(.., found)| found)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, ..)| *known == name).map(|(.., found)| found)
    }

    /// Whether an argument has its syntax.
    fn takes(self, argument: &[u8]) -> bool {
        match self {
            Self::Div => number(argument).is_some_and(|n| n > 0),
            Self::Partition => argument
                .split(|byte| *byte == b':')
                .all(|segment| segment.is_empty() || Decimal::of(segment).is_some()),
            _ => !argument.is_empty(),
        }
    }
}

/// The selectors of a response by one of the fields. `None`: it is malformed, or too long.
pub(super) fn selectors(field: VaryField, response: Fields<'_>) -> Option<Vec<Selector>> {
    let (mut found, mut length, mut predicates) = (Vec::new(), 0, 0);
    for line in response.all(field.name()) {
        length += line.len();
        if length > MAX_LEN {
            return None;
        }
        // Quoted strings are Key's alone.
        let elements: Vec<&[u8]> = match field {
            VaryField::Options => {
                line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect()
            }
            VaryField::Key => Elements::of(line).collect(),
        };
        for element in elements.into_iter().filter(|element| !element.is_empty()) {
            let selector = selector(field, element, &mut predicates)?;
            found.push(selector);
        }
    }
    (!found.is_empty() && predicates <= MAX_PREDICATES).then_some(found)
}

fn selector(field: VaryField, element: &[u8], predicates: &mut usize) -> Option<Selector> {
    let mut parts = match field {
        VaryField::Options => element.split(|byte| *byte == b';').map(<[u8]>::to_vec).collect(),
        VaryField::Key => unquoted(element)?,
    }
    .into_iter();
    let name = parts.next()?;
    if name != b"*" && !is_token(&name) {
        return None;
    }
    let mut out = Selector {
        field: String::from_utf8(name).ok()?.to_ascii_lowercase(),
        predicates: String::new(),
    };
    for part in parts {
        let at = part.iter().position(|byte| *byte == b'=')?;
        let name = std::str::from_utf8(&part[..at]).ok()?.trim_ascii().to_ascii_lowercase();
        let (predicate, argument) = (Predicate::of(field, &name)?, &part[at + 1..]);
        if !predicate.takes(argument) {
            return None;
        }
        *predicates += 1;
        out.predicates.push(';');
        out.predicates.push_str(&name);
        out.predicates.push('=');
        escape(argument, &mut out.predicates);
    }
    Some(out)
}

/// An element of Key at its semicolons, without the quotes of arguments. `None`: a quote is open,
/// or stands elsewhere.
fn unquoted(element: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = element.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b';' => parts.push(std::mem::take(&mut part)),
            b'"' if part.ends_with(b"=") => {
                loop {
                    match bytes.next()? {
                        b'"' => break,
                        b'\\' => part.push(bytes.next()?),
                        byte => part.push(byte),
                    }
                }
                match bytes.next() {
                    None => break,
                    Some(b';') => parts.push(std::mem::take(&mut part)),
                    Some(_) => return None,
                }
            }
            b'"' => return None,
            byte => part.push(byte),
        }
    }
    parts.push(part);
    Some(parts)
}

/// Writes an argument so that it has neither separators of names nor anything but ASCII.
fn escape(argument: &[u8], out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in argument {
        if byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

fn unescape(text: &str) -> Vec<u8> {
    crate::http::cookie::percent_decoded(text.as_bytes())
}

/// The request field of a name with predicates; `None`: it is the name of a field.
pub fn field_of(name: &str) -> Option<&str> {
    Some(name.strip_prefix(';')?.split(';').next().unwrap_or_default())
}

/// Appends the results of the predicates in `name` ([`field_of`]) for a field's value, its lines
/// joined. An absent field is an empty one. Every result ends with a zero byte.
pub fn write_results(name: &str, value: &[u8], out: &mut Vec<u8>) {
    let mut parts = name.split(';').skip(1);
    let is_cookie = parts.next() == Some("cookie");
    for part in parts {
        let (predicate, argument) = part.split_once('=').unwrap_or((part, ""));
        match Predicate::named(predicate) {
            Some(predicate) => result(predicate, &unescape(argument), value, is_cookie, out),
            // Of a version to come: all that could matter.
            None => out.extend_from_slice(value),
        }
        out.push(0);
    }
}

fn result(predicate: Predicate, argument: &[u8], value: &[u8], is_cookie: bool, out: &mut Vec<u8>) {
    let mut elements = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let found = match predicate {
        Predicate::ListContains => elements.any(|element| element.eq_ignore_ascii_case(argument)),
        Predicate::Match if !value.is_empty() => elements.any(|element| element == argument),
        Predicate::StringContains => contains(value, argument, is_cookie),
        Predicate::Substr if !value.is_empty() => contains(value, argument, is_cookie),
        Predicate::Param if is_cookie => return write_cookies(value, argument, out),
        Predicate::Param => return write_parameters(value, argument, out),
        _ if value.is_empty() => return out.extend_from_slice(b"none"),
        Predicate::Div => match (number(value), number(argument)) {
            (Some(value), Some(by)) if by > 0 => {
                return out.extend_from_slice((value / by).to_string().as_bytes());
            }
            _ => return write_raw(value, out),
        },
        Predicate::Partition => return write_segment(value, argument, out),
        Predicate::Match | Predicate::Substr => false,
    };
    out.push(if found { b'1' } else { b'0' });
}

/// A value that a predicate says nothing of stands for itself.
fn write_raw(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'=');
    out.extend_from_slice(value);
}

/// Whether a value has a part. Names of cookies are read by PHP with `.`, space and `[` as `_`,
/// and with escapes by older ones.
fn contains(value: &[u8], part: &[u8], is_cookie: bool) -> bool {
    if memmem::find(value, part).is_some() {
        return true;
    }
    let odd = |byte: &u8| matches!(byte, b'.' | b' ' | b'[' | b'%');
    if !is_cookie || !value.iter().any(odd) {
        return false;
    }
    let fold = |bytes: &[u8]| -> Vec<u8> {
        let folded = |byte| if matches!(byte, b'.' | b' ' | b'[') { b'_' } else { byte };
        bytes.iter().copied().map(folded).collect()
    };
    let (value, part) = (fold(&crate::http::cookie::percent_decoded(value)), fold(part));
    memmem::find(&value, &part).is_some()
}

/// All cookies that a server may read under this name.
fn write_cookies(value: &[u8], name: &[u8], out: &mut Vec<u8>) {
    // Members of a list may be cookies to the draft's rules.
    for cookie in cookies(value).filter(|cookie| !cookie.name().is_empty()) {
        let named = cookie.reads_as(|bytes, read| {
            bytes.len() == name.len()
                && bytes.iter().zip(name).all(|(a, b)| read(*a).eq_ignore_ascii_case(b))
        });
        if named {
            out.extend_from_slice(cookie.pair);
            out.push(b';');
        }
    }
}

/// The values of all parameters with this name, in any case.
fn write_parameters(value: &[u8], name: &[u8], out: &mut Vec<u8>) {
    for part in value.split(|byte| matches!(byte, b',' | b';')).map(<[u8]>::trim_ascii) {
        let Some(at) = part.iter().position(|byte| *byte == b'=') else { continue };
        if part[..at].trim_ascii().eq_ignore_ascii_case(name) {
            out.extend_from_slice(&part[at + 1..]);
            out.push(b';');
        }
    }
}

fn write_segment(value: &[u8], segments: &[u8], out: &mut Vec<u8>) {
    let Some(value) = Decimal::of(value) else { return write_raw(value, out) };
    let below = |segment: &[u8]| Decimal::of(segment).is_some_and(|segment| value < segment);
    let number = segments.split(|byte| *byte == b':').take_while(|segment| !below(segment)).count();
    out.extend_from_slice(number.to_string().as_bytes());
}

/// A number of digits.
fn number(digits: &[u8]) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// A number of any length: digits before the point without leading zeros, those behind it without
/// trailing ones.
#[derive(PartialEq, Eq)]
struct Decimal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
}

impl<'a> Decimal<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let (mut whole, mut fraction): (&[u8], &[u8]) =
            match text.iter().position(|byte| *byte == b'.') {
                Some(at) => (&text[..at], &text[at + 1..]),
                None => (text, b"0"),
            };
        let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        if fraction.is_empty() || !digits(whole) || !digits(fraction) || text.is_empty() {
            return None;
        }
        while let [b'0', rest @ ..] = whole {
            whole = rest;
        }
        while let [rest @ .., b'0'] = fraction {
            fraction = rest;
        }
        Some(Self { whole, fraction })
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let whole = self.whole.len().cmp(&other.whole.len()).then(self.whole.cmp(other.whole));
        Some(whole.then(self.fraction.cmp(other.fraction)))
    }
}

#[cfg(test)]
mod tests;
