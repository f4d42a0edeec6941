//! From the bytes of a page to its plan, in one pass.
//!
//! A closing tag closes the nearest open element of its name; elements that are open within it
//! have no closing tag, so their tags stay as text. The stack of open elements is short, so that
//! the time depends on the length of the page alone.

use super::scan::{self, Element, Kind, Tag, attributes};
use super::{Expression, Include, MAX_ELEMENTS, MAX_NESTING, Node, Plan, Value};

/// A piece of the page, its elements not judged yet.
enum Raw {
    Text(usize, usize),
    Element { element: Element, attributes: (usize, usize), content: Vec<Raw> },
}

/// An open element.
struct Open {
    tag: Tag,
    content: Vec<Raw>,
}

/// The plan of a page; None: it has no markup, or is longer than 4 GiB.
pub fn parse(source: &[u8]) -> Option<Plan> {
    u32::try_from(source.len()).ok()?;
    let raw = tree(source);
    if !raw.iter().any(|raw| matches!(raw, Raw::Element { .. })) {
        return None;
    }
    let mut nodes = Vec::new();
    lower(source, raw, false, &mut nodes);
    Some(Plan { nodes })
}

fn tree(source: &[u8]) -> Vec<Raw> {
    let (mut top, mut stack) = (Vec::new(), Vec::<Open>::new());
    let (mut at, mut hidden, mut elements, mut broken) = (0, 0_usize, 0, 0);
    while elements < MAX_ELEMENTS
        && let Some(tag) = scan::next(source, at, hidden > 0, &mut broken)
    {
        text(content(&mut top, &mut stack), at, tag.from);
        at = tag.to;
        match tag.kind {
            // Without `src` there is nothing to put in.
            Kind::Empty if tag.element == Element::Include && !has_src(source, &tag) => {
                text(content(&mut top, &mut stack), tag.from, tag.to);
            }
            Kind::Empty => {
                elements += 1;
                let Tag { element, attributes, .. } = tag;
                let empty = Raw::Element { element, attributes, content: Vec::new() };
                content(&mut top, &mut stack).push(empty);
            }
            Kind::Open if stack.len() < MAX_NESTING => {
                elements += 1;
                hidden += usize::from(tag.element == Element::Hidden);
                stack.push(Open { tag, content: Vec::new() });
            }
            Kind::Close if stack.iter().any(|open| open.tag.element == tag.element) => {
                while let Some(open) = stack.pop() {
                    hidden -= usize::from(open.tag.element == Element::Hidden);
                    let closed = open.tag.element == tag.element;
                    close(content(&mut top, &mut stack), open, closed);
                    if closed {
                        break;
                    }
                }
            }
            // A tag of an element that is empty by nature says nothing.
            Kind::Close if tag.element.is_void() => {}
            Kind::Open | Kind::Close => text(content(&mut top, &mut stack), tag.from, tag.to),
        }
    }
    text(content(&mut top, &mut stack), at, source.len());
    while let Some(open) = stack.pop() {
        close(content(&mut top, &mut stack), open, false);
    }
    top
}

fn has_src(source: &[u8], tag: &Tag) -> bool {
    get(&attributes(&source[tag.attributes.0..tag.attributes.1]), b"src").is_some()
}

/// Where the next piece goes.
fn content<'t>(top: &'t mut Vec<Raw>, stack: &'t mut [Open]) -> &'t mut Vec<Raw> {
    stack.last_mut().map_or(top, |open| &mut open.content)
}

fn text(into: &mut Vec<Raw>, from: usize, to: usize) {
    if from == to {
        return;
    }
    match into.last_mut() {
        Some(Raw::Text(_, end)) if *end == from => *end = to,
        _ => into.push(Raw::Text(from, to)),
    }
}

/// Puts an element into the one around it: as an element, or its tag as text and what follows it.
fn close(into: &mut Vec<Raw>, open: Open, closed: bool) {
    let Open { tag, content } = open;
    if closed {
        let Tag { element, attributes, .. } = tag;
        return into.push(Raw::Element { element, attributes, content });
    }
    text(into, tag.from, tag.to);
    for raw in content {
        match raw {
            Raw::Text(from, to) => text(into, from, to),
            element => into.push(element),
        }
    }
}

/// `variables`: the text has the values of variables.
fn lower(source: &[u8], raw: Vec<Raw>, variables: bool, out: &mut Vec<Node>) {
    for raw in raw {
        let (element, attributes, content) = match raw {
            Raw::Text(from, to) => {
                out.push(plain(source, from, to, variables));
                continue;
            }
            Raw::Element { element, attributes, content } => (element, attributes, content),
        };
        let attributes = scan::attributes(&source[attributes.0..attributes.1]);
        match element {
            Element::Include => out.extend(include(&attributes).map(Node::Include)),
            Element::Remove | Element::Comment => {}
            Element::Vars => lower(source, content, true, out),
            // Outside of what they belong to these say nothing.
            Element::Hidden
            | Element::Attempt
            | Element::Except
            | Element::When
            | Element::Otherwise => lower(source, content, variables, out),
            Element::Try => out.push(attempt(source, content, variables)),
            Element::Choose => out.push(choose(source, content, variables)),
            Element::Inline => {
                let mut nodes = Vec::new();
                lower(source, content, variables, &mut nodes);
                if let Some(name) = get(&attributes, b"name") {
                    out.push(Node::Inline(unescaped(name).into(), nodes));
                }
            }
        }
    }
}

fn plain(source: &[u8], from: usize, to: usize, variables: bool) -> Node {
    let value = || Value::parse(&source[from..to]);
    match variables.then(value).filter(Value::has_variables) {
        Some(value) => Node::Vars(value),
        // The page is shorter than 4 GiB.
        None => Node::Text(from as u32, to as u32),
    }
}

fn attempt(source: &[u8], content: Vec<Raw>, variables: bool) -> Node {
    let (mut attempt, mut except) = (Vec::new(), Vec::new());
    for raw in content {
        match raw {
            Raw::Element { element: Element::Attempt, content, .. } => {
                lower(source, content, variables, &mut attempt);
            }
            Raw::Element { element: Element::Except, content, .. } => {
                lower(source, content, variables, &mut except);
            }
            _ => {}
        }
    }
    Node::Try(attempt, except)
}

/// A condition that cannot be read never applies.
fn choose(source: &[u8], content: Vec<Raw>, variables: bool) -> Node {
    let mut branches = Vec::new();
    for raw in content {
        let Raw::Element { element, attributes: (from, to), content } = raw else { continue };
        let test = match element {
            Element::When => {
                let attributes = attributes(&source[from..to]);
                let test = get(&attributes, b"test").map(unescaped);
                match test.and_then(|test| Expression::parse(&test)) {
                    Some(expression) => Some(expression),
                    None => continue,
                }
            }
            Element::Otherwise => None,
            _ => continue,
        };
        let mut nodes = Vec::new();
        lower(source, content, variables, &mut nodes);
        branches.push((test, nodes));
    }
    // `otherwise` comes last wherever it stands.
    branches.sort_by_key(|(test, _)| test.is_none());
    Node::Choose(branches)
}

fn include(attributes: &[(&[u8], &[u8])]) -> Option<Include> {
    let value = |name| get(attributes, name).map(|value| Value::parse(&unescaped(value)));
    let (age, stale) = match get(attributes, b"max-age").map(|age| age.split(|&b| b == b'+')) {
        Some(mut numbers) => (numbers.next().and_then(seconds), numbers.next().and_then(seconds)),
        None => (None, None),
    };
    Some(Include {
        src: value(b"src")?,
        alt: value(b"alt"),
        continues: get(attributes, b"onerror").is_some_and(|value| value == b"continue"),
        ttl: get(attributes, b"ttl").and_then(seconds).or(age),
        grace: stale,
    })
}

fn get<'a>(attributes: &[(&'a [u8], &'a [u8])], name: &[u8]) -> Option<&'a [u8]> {
    attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Seconds, or a number with `s`, `m`, `h` or `d`.
fn seconds(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}

/// The value of an attribute without the references of XML.
fn unescaped(value: &[u8]) -> Vec<u8> {
    const NAMES: [(&[u8], u8); 5] =
        [(b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&quot;", b'"'), (b"&apos;", b'\'')];
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(&byte) = rest.first() {
        let named = NAMES.iter().find(|(name, _)| byte == b'&' && rest.starts_with(name));
        let (byte, used) = named.map_or((byte, 1), |(name, byte)| (*byte, name.len()));
        out.push(byte);
        rest = &rest[used..];
    }
    out
}
