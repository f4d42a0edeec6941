//! The tags of a page, one after the other.

use memchr::{memchr, memmem};

use super::MAX_ELEMENTS;

/// Names of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Include,
    Inline,
    Remove,
    Comment,
    Vars,
    Try,
    Attempt,
    Except,
    Choose,
    When,
    Otherwise,
    /// `<!--esi`
    Hidden,
}

impl Element {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"include" => Self::Include,
            b"inline" => Self::Inline,
            b"remove" => Self::Remove,
            b"comment" => Self::Comment,
            b"vars" => Self::Vars,
            b"try" => Self::Try,
            b"attempt" => Self::Attempt,
            b"except" => Self::Except,
            b"choose" => Self::Choose,
            b"when" => Self::When,
            b"otherwise" => Self::Otherwise,
            _ => return None,
        })
    }

    /// It has no content, whether its tag says so or not.
    pub(super) fn is_void(self) -> bool {
        matches!(self, Self::Include | Self::Comment)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The element has content, and a closing tag.
    Open,
    /// It has none.
    Empty,
    Close,
}

/// A tag, from the first position up to the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) element: Element,
    pub(super) kind: Kind,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Where its attributes are.
    pub(super) attributes: (usize, usize),
}

const OPEN: &[u8] = b"<esi:";
const CLOSE: &[u8] = b"</esi:";
const HIDDEN: &[u8] = b"<!--esi";
const SHOWN: &[u8] = b"-->";
/// Sections in which nothing is markup, as in Varnish: begin, bytes of it before its end may
/// begin, end. `<!-->` is a whole comment in HTML.
const SKIPPED: [(&[u8], usize, &[u8]); 2] = [(b"<!--", 2, SHOWN), (b"<![CDATA[", 9, b"]]>")];

/// The end of the section that begins at `at`, if one does; one without an end has the rest of the
/// page.
fn skipped(source: &[u8], at: usize) -> Option<usize> {
    let rest = &source[at..];
    let (_, from, end) = SKIPPED.iter().find(|(begin, ..)| rest.starts_with(begin))?;
    let length = memmem::find(&rest[*from..], end).map(|found| from + found + end.len());
    Some(at + length.unwrap_or(rest.len()))
}

/// The tag that begins at `at`, if one does.
fn tag_at(source: &[u8], at: usize, broken: &mut usize) -> Option<Tag> {
    let rest = &source[at..];
    if let Some(after) = rest.strip_prefix(HIDDEN) {
        // `<!--esifoo` is a comment like others.
        let ends = after.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'<');
        let (element, to) = (Element::Hidden, at + HIDDEN.len());
        return ends.then_some(Tag {
            element,
            kind: Kind::Open,
            from: at,
            to,
            attributes: (to, to),
        });
    }
    let (start, closes) = match rest {
        _ if rest.starts_with(OPEN) => (at + OPEN.len(), false),
        _ if rest.starts_with(CLOSE) => (at + CLOSE.len(), true),
        _ => return None,
    };
    let named = source[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let element = Element::named(&source[start..start + named])?;
    let after = start + named;
    let Some(end) = tag_end(source, after) else {
        *broken += MAX_TAG / BROKEN_BYTES;
        return None;
    };
    let empty = source[end - 1] == b'/' && end > after;
    let attributes = (after, if empty { end - 1 } else { end });
    let blank = source[after..attributes.1].first().is_none_or(u8::is_ascii_whitespace);
    let bare = !empty && source[after..attributes.1].trim_ascii().is_empty();
    if !blank || (closes && !bare) {
        return None;
    }
    let kind = match closes {
        true => Kind::Close,
        false if empty || element.is_void() => Kind::Empty,
        false => Kind::Open,
    };
    Some(Tag { element, kind, from: at, to: end + 1, attributes })
}

/// Longest tag, in bytes: a longer one stays as it is. So a page of tags without an end is read in
/// time.
const MAX_TAG: usize = 16 << 10;

/// Bytes that are read for nothing and count as one broken tag.
const BROKEN_BYTES: usize = 1 << 10;

/// The place of the `>` that ends a tag whose name ends at `at`. Values may have one.
fn tag_end(source: &[u8], at: usize) -> Option<usize> {
    let mut place = Place::Names;
    for (offset, &byte) in source[at..].iter().take(MAX_TAG).enumerate() {
        place = match (place, byte) {
            (Place::Quoted(quote), _) if quote == byte => Place::Names,
            (Place::Quoted(_), _) => place,
            (_, b'>') => return Some(at + offset),
            (Place::Names | Place::Value, b'"' | b'\'') => Place::Quoted(byte),
            (Place::Names, b'=') => Place::Value,
            (Place::Bare, _) if byte.is_ascii_whitespace() => Place::Names,
            (Place::Value, _) if !byte.is_ascii_whitespace() => Place::Bare,
            _ => place,
        };
    }
    None
}

/// A place within a tag.
#[derive(Clone, Copy)]
enum Place {
    Names,
    /// A value is to begin.
    Value,
    Quoted(u8),
    /// In a value without quotes.
    Bare,
}

/// The first tag at or behind `at`. `hidden`: an `<!--esi` is open, so that `-->` is one too.
/// `broken` counts what begins as a tag and is none; of a page that has many the rest is text.
pub(super) fn next(source: &[u8], mut at: usize, hidden: bool, broken: &mut usize) -> Option<Tag> {
    while *broken < MAX_ELEMENTS {
        let tag = at + memchr(b'<', source.get(at..)?).unwrap_or(source.len() - at);
        if hidden && let Some(shown) = memmem::find(&source[at..tag], SHOWN) {
            let (from, to) = (at + shown, at + shown + SHOWN.len());
            let (element, kind) = (Element::Hidden, Kind::Close);
            return Some(Tag { element, kind, from, to, attributes: (to, to) });
        }
        if tag == source.len() {
            return None;
        }
        if let Some(found) = tag_at(source, tag, broken) {
            return Some(found);
        }
        // In `<!--esi` the next `-->` is its end.
        if !hidden && let Some(end) = skipped(source, tag) {
            at = end;
            continue;
        }
        let begun = source[tag..].starts_with(OPEN) || source[tag..].starts_with(CLOSE);
        *broken += usize::from(begun);
        at = tag + 1;
    }
    None
}

/// The attributes of a tag, as far as they are well formed: names and values. A value without
/// quotes ends at a blank.
pub(super) fn attributes(mut rest: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut out = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        let named = rest.iter().take_while(|byte| is_name(**byte)).count();
        let (name, after) = rest.split_at(named);
        let Some(after) = after.trim_ascii_start().strip_prefix(b"=") else { return out };
        let after = after.trim_ascii_start();
        let Some(quote) = after.first().filter(|byte| matches!(byte, b'"' | b'\'')) else {
            let bare = after.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
            if bare == 0 {
                return out;
            }
            out.push((name, &after[..bare]));
            rest = &after[bare..];
            continue;
        };
        let Some(end) = memchr(*quote, &after[1..]) else { return out };
        out.push((name, &after[1..1 + end]));
        rest = &after[end + 2..];
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}
