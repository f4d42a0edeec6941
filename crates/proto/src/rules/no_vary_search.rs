//! No-Vary-Search: which spellings of a query are one page (draft-ietf-httpbis-no-vary-search).
//!
//! A response says which query parameters do not change it, and whether their order does. Two URLs
//! that differ in nothing else are one page for it. [`Rule::canonical`] writes all spellings of one
//! page in the same way, so that a cache finds them under one key.
//!
//! Malformed fields are ignored, as the draft asks: then every spelling is a page of its own.
//! Unlike in the draft, bytes that are no UTF-8 are not one replacement character: that would
//! equate values that an origin may tell apart. For the same reason a parameter without meaning is
//! only left out if no reader of queries takes it for one with a meaning, and a query that readers
//! split or decode in different ways is a page of its own ([`is_clear`]).

use crate::http::Fields;
use crate::http::structured::{Dictionary, Value, inner_strings};

/// The field's name.
pub const FIELD: &str = "no-vary-search";
/// Longest value, in bytes: it is kept for each path, and compared with each query there. Longer
/// ones are ignored.
pub const MAX_LEN: usize = 1024;
/// Most parameters of a query that is compared: each costs a search by each rule of its path. One
/// with more is a page of its own.
const MAX_PARAMETERS: usize = 256;

/// The meaning of a No-Vary-Search field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The field's value, its lines joined.
    text: Vec<u8>,
    names: Names,
    /// The order of parameters with different names makes no difference.
    any_order: bool,
}

/// The parameters that make a difference, by their decoded names, which are in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    AllBut(Vec<Vec<u8>>),
    /// As [`reading`] has them.
    Only(Vec<Vec<u8>>),
}

impl Names {
    fn all_but(mut names: Vec<Vec<u8>>) -> Self {
        names.sort();
        Self::AllBut(names)
    }

    fn only(names: &[Vec<u8>]) -> Self {
        let mut names: Vec<_> = names.iter().map(|name| reading(name)).collect();
        names.sort();
        Self::Only(names)
    }

    fn count(&self, name: &[u8]) -> bool {
        match self {
            Self::AllBut(names) => !has(names, name),
            Self::Only(names) if names.is_empty() => false,
            Self::Only(names) => {
                let plain = name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'%');
                !plain || has(names, &reading(name))
            }
        }
    }
}

fn has(names: &[Vec<u8>], name: &[u8]) -> bool {
    names.binary_search_by(|held| held[..].cmp(name)).is_ok()
}

/// A name as any reader may take it: PHP drops spaces before it, makes `_` of `.`, space and an
/// open `[`, and takes `a[b]` for a member of `a`; others take capitals for small letters.
fn reading(name: &[u8]) -> Vec<u8> {
    let member =
        name.iter().position(|&byte| byte == b'[').filter(|at| name[*at..].contains(&b']'));
    let letter = |byte: &u8| match byte {
        b'.' | b' ' | b'[' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    name[..member.unwrap_or(name.len())].trim_ascii_start().iter().map(letter).collect()
}

/// Whether all readers see the same parameters in a query. Some split it at `;` too, end a name at
/// a NUL, or read escapes that are none in ways of their own (`%u0061`).
fn is_clear(query: &[u8]) -> bool {
    let escape = |at: usize| {
        let digits = query.get(at + 1..at + 3).unwrap_or_default();
        digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit) && digits != b"00"
    };
    query.iter().enumerate().all(|(at, byte)| match byte {
        b';' | 0 => false,
        b'%' => escape(at),
        _ => true,
    }) && query.iter().filter(|byte| **byte == b'&').count() < MAX_PARAMETERS
}

impl Rule {
    /// The rule of a response. `None`: it has none, or one that changes nothing.
    pub fn of(response: Fields<'_>) -> Option<Self> {
        if !response.has(FIELD) {
            return None;
        }
        Self::parse(response.all(FIELD))
    }

    /// Reads the lines of the field (section 4.1 of the draft). `None`: malformed, too long, or
    /// without an effect.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut text = Vec::new();
        for line in lines.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
            if !text.is_empty() {
                text.extend_from_slice(b", ");
            }
            text.extend_from_slice(line);
            if text.len() > MAX_LEN {
                return None;
            }
        }
        let (mut params, mut except, mut order) = (None, None, None);
        for member in Dictionary::of(&text) {
            let (name, value) = member.ok()?;
            // Keys of structured fields are in lower case.
            if name.iter().any(u8::is_ascii_uppercase) {
                return None;
            }
            match name {
                b"params" => params = Some(value),
                b"except" => except = Some(value),
                b"key-order" => order = Some(value),
                _ => {}
            }
        }
        let any_order = match order {
            None | Some(Value::False) => false,
            Some(Value::True) => true,
            Some(_) => return None,
        };
        let names = match (params, except) {
            (Some(Value::True), None) => Names::only(&[]),
            (Some(Value::True), Some(Value::List(list))) => Names::only(&decoded(list)?),
            (_, Some(_)) => return None,
            (None | Some(Value::False), None) => Names::all_but(Vec::new()),
            (Some(Value::List(list)), None) => Names::all_but(decoded(list)?),
            (Some(_), None) => return None,
        };
        let is_default = !any_order && names == Names::AllBut(Vec::new());
        (!is_default).then_some(Self { text, names, any_order })
    }

    /// The field's value, for [`Rule::parse`].
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Path and query in the one spelling of all that are the same page by this rule (section 5 of
    /// the draft). A query that has only visible characters, none of them escaped without need, and
    /// no parameter too many is its own canonical spelling. So is one that readers understand in
    /// different ways, unless no parameter counts.
    pub fn canonical(&self, path_and_query: &[u8]) -> Vec<u8> {
        let Some(at) = path_and_query.iter().position(|&byte| byte == b'?') else {
            return path_and_query.to_vec();
        };
        let (path, query) = (&path_and_query[..at], &path_and_query[at + 1..]);
        if self.names == Names::Only(Vec::new()) {
            return path.to_vec();
        }
        let mut out = Vec::with_capacity(path_and_query.len());
        if !is_clear(query) {
            out.extend_from_slice(&path_and_query[..=at]);
            encode(query, |_| false, &mut out);
            return out;
        }
        let mut parameters: Vec<(Vec<u8>, Vec<u8>)> = query
            .split(|&byte| byte == b'&')
            .filter(|parameter| !parameter.is_empty())
            .map(pair)
            .filter(|(name, _)| self.names.count(name))
            .collect();
        if self.any_order {
            // Stable: parameters that are one for some reader keep their order.
            parameters.sort_by_cached_key(|(name, _)| reading(name));
        }
        out.extend_from_slice(path);
        for (index, (name, value)) in parameters.iter().enumerate() {
            out.push(if index == 0 { b'?' } else { b'&' });
            encode(name, |byte| escaped(byte) || byte == b'=', &mut out);
            // A name without a value is that name with an empty one.
            if name.is_empty() || !value.is_empty() {
                out.push(b'=');
            }
            encode(value, escaped, &mut out);
        }
        out
    }

    /// Whether two paths with queries are the same page by this rule.
    pub fn same(&self, a: &[u8], b: &[u8]) -> bool {
        a == b || self.canonical(a) == self.canonical(b)
    }
}

/// The names in an inner list (section 4.3 of the draft).
fn decoded(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    let names = inner_strings(list)?;
    Some(names.into_iter().map(|name| decode(&unescape(name))).collect())
}

/// A string of a structured field without its escapes.
fn unescape(written: &[u8]) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::with_capacity(written.len()), written.iter());
    while let Some(&byte) = bytes.next() {
        let byte = if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte };
        out.push(byte);
    }
    out
}

/// Name and value of a parameter, decoded as application/x-www-form-urlencoded.
fn pair(parameter: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let at = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
    let value = parameter.get(at + 1..).unwrap_or_default();
    (decode(&parameter[..at]), decode(value))
}

fn decode(written: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        out.push(match (byte, digit(0), digit(1)) {
            (b'+', ..) => b' ',
            (b'%', Some(high), Some(low)) => {
                rest = &after[2..];
                (high * 16 + low) as u8
            }
            _ => byte,
        });
    }
    out
}

/// Characters that mean something in a query, or do to some readers.
fn escaped(byte: u8) -> bool {
    matches!(byte, b'%' | b'&' | b'+' | b'#' | b';')
}

/// Appends a text with all that is no visible character escaped, and those that `special` names.
fn encode(text: &[u8], special: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        match byte {
            b' ' => out.push(b'+'),
            b'!'..=b'~' if !special(byte) => out.push(byte),
            _ => out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(lines: &[&str]) -> Option<Rule> {
        Rule::parse(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn values_that_are_ignored() {
        for lines in [
            &[][..],
            &[""],
            &["unknown-key"],
            &["key-order=\"not a boolean\""],
            &["key-order=1"],
            &["params=\"not a boolean or inner list\""],
            &["params=token"],
            &["params=(not-a-string)"],
            &["params=(\"a\" 1)"],
            &["params=(\"a\"), except=(\"x\")"],
            &["params=(), except=()"],
            &["params=?0, except=(\"x\")"],
            &["params, except=(not-a-string)"],
            &["params, except=\"not an inner list\""],
            &["params, except=?1"],
            &["except=(\"x\")"],
            &["except=()"],
            &["params=?0"],
            &["params=()"],
            &["key-order=?0"],
            &["Params"],
            &["params, "],
            &["params=(\"a\"", "\"b\")"],
            &["params", "&"],
            &["key-order", "key-order=?0"],
        ] {
            assert_eq!(rule(lines), None, "{lines:?}");
        }
        let long = format!("params=(\"{}\")", "a".repeat(MAX_LEN));
        assert_eq!(rule(&[&long]), None);
    }

    #[test]
    fn spellings_of_one_page() {
        for (lines, written, canonical) in [
            (&["params"][..], "/?a=1&b", "/"),
            (&["params=?1"], "/p?", "/p"),
            (&["params;x=1, unknown=(1)"], "/p?a", "/p"),
            (&["params=(\"a\" \"b\")"], "/?b=1&c=2&a=3&a", "/?c=2"),
            (&["params=(\"a\")"], "/?A=1&aa=2&%61=3&a=4", "/?A=1&aa=2"),
            (&["params=(\"a+b\" \"%C3%A9\")"], "/?a%20b=1&\u{e9}=2&c", "/?c"),
            (&["params=(\"a\\\\b\")"], "/?a\\b=1&ab=2", "/?ab=2"),
            (&["params, except=(\"id\")"], "/?x&id=7&utm=1&id=8", "/?id=7&id=8"),
            (&["params", "except=(\"id\")"], "/?x&id=7", "/?id=7"),
            (&["params=(\"a\"), params=(\"b\")"], "/?a&b", "/?a"),
            (&["key-order"], "/?b=2&a=1&b=1", "/?a=1&b=2&b=1"),
            (&["key-order, params=(\"c\")"], "/?c&b&a", "/?a&b"),
            (&["key-order"], "/?a=&&b&", "/?a&b"),
            (&["key-order"], "/?=&=1", "/?=&=1"),
            (&["key-order"], "/?a=%20+&b=%2b%26%3D&c%3d=1", "/?a=++&b=%2B%26=&c%3D=1"),
            (&["key-order"], "/?b=%25zz&a=%3b", "/?a=%3B&b=%25zz"),
            (&["key-order"], "/?title=User:A/b&x=1=2", "/?title=User:A/b&x=1=2"),
            (&["key-order"], "/?a=%ff%7f\u{e9}", "/?a=%FF%7F%C3%A9"),
            (&["key-order"], "/?b.c=1&b_c=2&B=1&a", "/?a&B=1&b.c=1&b_c=2"),
            (&["params"], "/?a;b&%00&%zz", "/"),
            (&["key-order"], "/a?b?c=1", "/a?b?c=1"),
            (&["params"], "/p", "/p"),
        ] {
            let rule = rule(lines).expect("a rule");
            let found = rule.canonical(written.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), canonical, "{lines:?} {written}");
            assert_eq!(rule.canonical(&found), found, "{written}");
            assert!(rule.same(written.as_bytes(), canonical.as_bytes()));
            assert_eq!(Rule::parse(std::iter::once(rule.text())).as_ref(), Some(&rule));
        }
    }

    #[test]
    fn other_pages() {
        for (line, a, b) in [
            ("params=(\"a\")", "/?b=1", "/?b=2"),
            ("params=(\"a\")", "/?b=1&c=2", "/?c=2&b=1"),
            ("params=(\"a\")", "/", "/?b"),
            ("params", "/a", "/b?c"),
            ("key-order", "/?a=1&a=2", "/?a=2&a=1"),
            ("key-order", "/?a=b", "/?a%3Db"),
            ("key-order", "/?a;b", "/?a&b"),
            ("params, except=(\"a\")", "/?a=1", "/?a=%311"),
            ("key-order", "/?a=%f6", "/?a=%ef%bf%bd"),
            ("key-order", "/?a=%zz", "/?a=%25zz"),
            ("key-order", "/?a=;b", "/?a=%3Bb"),
            ("key-order", "/?a[b]=1&a=2", "/?a=2&a[b]=1"),
        ] {
            let rule = rule(&[line]).expect("a rule");
            assert!(!rule.same(a.as_bytes(), b.as_bytes()), "{line} {a} {b}");
        }
    }

    /// A visitor's own parameter that the rule does not name, and that some reader takes for one
    /// that counts, must not make the page of others.
    #[test]
    fn parameters_that_some_reader_understands_count() {
        let rule_of = |line| rule(&[line]).expect("a rule");
        let except = rule_of("params, except=(\"id\" \"a.b\" \"user id\")");
        for query in [
            "id%00=x",
            "+id=x",
            "%20id=x",
            "id[]=x",
            "id[0]=x",
            "ID=x",
            "%49d=x",
            "utm;id=x",
            "utm=1;id=x",
            "a_b=x",
            "a%5Bb=x",
            "user_id=x",
            "user.id=x",
            "%u0069d=x",
            "%25u0069=x",
            "%C3%AFd=x",
            "id%0a=x",
        ] {
            let written = format!("/?{query}");
            assert!(!except.same(written.as_bytes(), b"/"), "{query}");
            assert!(!except.same(format!("/?id=1&{query}").as_bytes(), b"/?id=1"), "{query}");
        }
        let but = rule_of("params=(\"utm\")");
        for query in ["utm=1;b=2", "utm;b", "utm%00=1", "+utm=1", "utm[]=1"] {
            assert!(!but.same(format!("/?a=1&{query}").as_bytes(), b"/?a=1"), "{query}");
        }
        let many = format!("/?{}", "a&".repeat(MAX_PARAMETERS));
        assert!(!but.same(format!("{many}&utm").as_bytes(), many.as_bytes()));
    }

    fn rules() -> impl Strategy<Value = Rule> {
        let lines = ["params", "key-order", "params=(\"a\")", "params, except=(\"b\"), key-order"];
        prop::sample::select(lines.to_vec()).prop_map(|line| rule(&[line]).expect("a rule"))
    }

    type Parameters = Vec<(Vec<u8>, Vec<u8>)>;

    /// The comparison of the draft, by its lists.
    fn listed(rule: &Rule, url: &str) -> (String, Parameters) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        if !is_clear(query.as_bytes()) && rule.names != Names::Only(Vec::new()) {
            return (url.replace(' ', "+"), Vec::new());
        }
        let split = query.split('&').filter(|part| !part.is_empty());
        let mut list: Vec<_> = split.map(|part| pair(part.as_bytes())).collect();
        list.retain(|(name, _)| rule.names.count(name));
        if rule.any_order {
            list.sort_by_cached_key(|(name, _)| reading(name));
        }
        (path.to_owned(), list)
    }

    proptest! {
        #[test]
        fn equal_spellings_have_one_canonical_form(
            rule in rules(), a in "/(\\?[ab=&+%4162 ]{0,10})?", b in "/(\\?[ab=&+%4162 ]{0,10})?",
        ) {
            let same = listed(&rule, &a) == listed(&rule, &b);
            prop_assert_eq!(rule.same(a.as_bytes(), b.as_bytes()), same);
            let once = rule.canonical(a.as_bytes());
            prop_assert_eq!(rule.canonical(&once), once);
        }

        #[test]
        fn no_bytes_make_it_panic(
            line in prop::collection::vec(any::<u8>(), 0..60),
            url in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            for line in [line.clone(), [b"params=(", &line[..], b")"].concat()] {
                if let Some(rule) = Rule::parse(std::iter::once(&line[..])) {
                    let once = rule.canonical(&url);
                    prop_assert!(once.iter().skip_while(|b| **b != b'?').all(u8::is_ascii_graphic));
                    prop_assert!(rule.same(&url, &once));
                }
            }
        }
    }
}
