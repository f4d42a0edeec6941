//! Vary: the request fields that select a variant, and the form in which they are compared (RFC
//! 9111 4.1).

use super::vary_by::{self, Selector, field_of, write_results};
use super::{Policy, RequestView};
use crate::http::accept::{is_coding, write_languages};
use crate::http::fields::is_token;
use crate::http::{Codings, Elements, Fields, cookie, dictionary, overrides};

/// A response that names more selecting fields than this counts as `*`: it would never be found
/// again.
const MAX_NAMES: usize = 32;

/// Meaning of Vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// No selection: one representation for all.
    None,
    /// `*`, or an unreadable value: no two requests are alike.
    Star,
    /// These fields select: lower case, sorted, each once.
    Names(Vec<String>),
}

/// Reads all lines of the response's Vary. A `*` anywhere makes the whole field `*` (RFC 9110
/// 12.5.5).
///
/// A response in a content coding varies on Accept-Encoding whether it says so or not. Fields that
/// do not reach the origin as the client sent them select nothing ([`overrides`]): those that go on
/// are in the key. Only the client's address does reach it, and is in no key: what varies on it is
/// for nobody else.
pub fn names(response: Fields<'_>) -> Vary {
    let elements = response.elements("vary").map(|element| {
        let field = std::str::from_utf8(element).ok().filter(|_| is_token(element)).unwrap_or("*");
        Selector { field: field.to_ascii_lowercase(), predicates: String::new() }
    });
    collect(response, elements)
}

/// [`names`], or those of a field that the policy prefers to Vary ([`vary_by`]), where the response
/// has one that can be read.
pub(super) fn finest(response: Fields<'_>, policy: &Policy) -> Vary {
    let preferred = policy.vary_fields.iter().filter(|field| response.has(field.name()));
    match preferred.copied().find_map(|field| vary_by::selectors(field, response)) {
        Some(selectors) => collect(response, selectors.into_iter()),
        None => names(response),
    }
}

fn collect(response: Fields<'_>, selectors: impl Iterator<Item = Selector>) -> Vary {
    let mut names: Vec<String> = Vec::new();
    for selector in selectors {
        let field = &*selector.field;
        if field == "*" || ADDRESS.contains(&field) {
            return Vary::Star;
        }
        if overrides::is_override(field) || !overrides::is_plain(field) {
            continue;
        }
        if names.len() >= MAX_NAMES {
            return Vary::Star;
        }
        // Codings are compared by what the response is coded in, whatever is said of the field.
        names.push(if field == ENCODING { ENCODING.to_owned() } else { selector.name() });
    }
    if is_coded(response) {
        names.push(ENCODING.to_owned());
    }
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { Vary::None } else { Vary::Names(names) }
}

/// Names that select among stored responses under a policy. Where this cache compresses pages
/// itself the origin is asked for uncoded content by everybody, and without the client's
/// dictionary: Accept-Encoding and Available-Dictionary select nothing among the uncoded ones.
pub fn selecting(response: Fields<'_>, policy: &Policy) -> Vary {
    match finest(response, policy) {
        Vary::Names(mut names) if !policy.compress.is_empty() && !is_coded(response) => {
            names.retain(|name| name != ENCODING && !dictionary::is_request_field(name));
            if names.is_empty() { Vary::None } else { Vary::Names(names) }
        }
        names => names,
    }
}

const ENCODING: &str = "accept-encoding";
/// Fields in which the origin is told the client's address.
const ADDRESS: [&str; 2] = ["forwarded", "x-forwarded-for"];

pub(super) fn is_coded(response: Fields<'_>) -> bool {
    response.elements("content-encoding").any(is_coding)
}

/// Appends the request's value of the field `name` (lower case) in the form used for comparison;
/// false, and nothing appended, if the request lacks it.
///
/// Forms (RFC 9111 4.1 allows changes that keep the meaning): Accept-Encoding as the set of
/// relevant codings, where an absent field asks for none; Accept-Language in lower case, sorted by
/// weight and name; Cookie as the policy's cookies only, if it names some; of other fields the
/// joined lines without the whitespace around their commas.
pub fn write_normalised(
    name: &str,
    req: &RequestView<'_>,
    policy: &Policy,
    out: &mut Vec<u8>,
) -> bool {
    if let Some(field) = field_of(name) {
        let mut value = Vec::new();
        let lines = req.fields.all(field);
        match field {
            "cookie" => {
                cookie::write(lines, &policy.vary_cookies, |_| false, &mut value);
            }
            _ => join(lines, b",", &mut value),
        }
        write_results(name, &value, out);
        return true;
    }
    let lines = req.fields.all(name);
    match name {
        "accept-encoding" => {
            out.extend_from_slice(&Codings::parse(lines).normalised());
            return true;
        }
        "cookie" => return cookie::write(lines, &policy.vary_cookies, |_| false, out),
        _ if !req.fields.has(name) => return false,
        "accept-language" => write_languages(lines, out),
        _ => join(lines.flat_map(Elements::of), b",", out),
    }
    true
}

/// [`write_normalised`] into its own buffer; `None` if the request lacks the field.
pub fn normalise(name: &str, req: &RequestView<'_>, policy: &Policy) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_normalised(name, req, policy, &mut out).then_some(out)
}

fn join<'a>(parts: impl Iterator<Item = &'a [u8]>, separator: &[u8], out: &mut Vec<u8>) {
    for (index, part) in parts.enumerate() {
        if index > 0 {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::test_support::{fields, with_request};

    #[test]
    fn a_star_anywhere_is_a_star() {
        let names_of = |lines: &[&str]| {
            let held = fields(&lines.iter().map(|l| ("Vary", *l)).collect::<Vec<_>>());
            names(Fields::new(&held))
        };
        for lines in [
            &["*"][..],
            &["*, *"],
            &["*", "*"],
            &[", *"],
            &["", "*"],
            &["*, Foo"],
            &["Foo, *"],
            &["Foo Bar"],
            &["\"a\""],
        ] {
            assert_eq!(names_of(lines), Vary::Star, "{lines:?}");
        }
        for lines in [&[][..], &[""], &[" , "]] {
            assert_eq!(names_of(lines), Vary::None, "{lines:?}");
        }
        for lines in [&["X-Forwarded-Proto, X_Odd"][..], &["x-original-url"]] {
            assert_eq!(
                names_of(lines),
                Vary::None,
                "{lines:?}: the origin does not see the client's"
            );
        }
        for lines in [&["Forwarded"][..], &["Accept, X-Forwarded-For"]] {
            assert_eq!(names_of(lines), Vary::Star, "{lines:?}: for this address alone");
        }
        let coded = [("Vary", "Accept"), ("Content-Encoding", "gzip")];
        let both = Vary::Names(vec!["accept".into(), "accept-encoding".into()]);
        assert_eq!(names(Fields::new(&fields(&coded))), both);
        for plain in [
            "identity",
            "utf-8",
            "UTF-8",
            "Utf8",
            "none",
            "",
            "iso-8859-1",
            "Windows-1252",
            "text/html",
            "ISO-8859-1",
            "aws-chunked",
        ] {
            let held = fields(&[("Content-Encoding", plain)]);
            assert_eq!(names(Fields::new(&held)), Vary::None, "{plain}");
        }
        for coded in ["foo", "x-lz4", "GZIP", "Brotli", "none, x-own"] {
            let own = Vary::Names(vec!["accept-encoding".into()]);
            let held = fields(&[("Content-Encoding", coded)]);
            assert_eq!(names(Fields::new(&held)), own, "{coded}");
        }
        let expected = Vary::Names(vec!["accept".into(), "foo".into()]);
        assert_eq!(names_of(&["Foo , accept", "FOO"]), expected);
        let many: Vec<String> = (0..=MAX_NAMES).map(|i| format!("x{i}")).collect();
        assert_eq!(names_of(&[&many.join(",")]), Vary::Star);
    }

    fn value(name: &str, list: &[(&str, &str)], policy: &Policy) -> Option<String> {
        with_request("GET", list, |req| normalise(name, req, policy))
            .map(|v| String::from_utf8(v).expect("ASCII"))
    }

    #[test]
    fn what_means_the_same_compares_the_same() {
        let policy = Policy::default();
        for (name, list, same) in [
            ("foo", &[("Foo", "1, 2")][..], &[("Foo", "1"), ("foo", "2")][..]),
            ("foo", &[("Foo", "1,2")], &[("Foo", " 1,   2 ")]),
            ("accept-language", &[("Accept-Language", "en, de")], &[("Accept-Language", "de, en")]),
            ("accept-language", &[("Accept-Language", "en, de")], &[("Accept-Language", "eN, De")]),
            (
                "accept-language",
                &[("Accept-Language", "en, de")],
                &[("Accept-Language", " en ,   de")],
            ),
            (
                "accept-encoding",
                &[("Accept-Encoding", "gzip, br")],
                &[("Accept-Encoding", "br;q=0.9,GZIP")],
            ),
            ("accept-encoding", &[], &[("Accept-Encoding", "identity")]),
            ("foo", &[("Bar", "1")], &[]),
        ] {
            assert_eq!(value(name, list, &policy), value(name, same, &policy), "{list:?} {same:?}");
        }
        for (name, list, other) in [
            ("foo", &[("Foo", "1")][..], &[("Foo", "2")][..]),
            ("foo", &[("Foo", "")], &[]),
            ("foo", &[("Foo", "1,2")], &[("Foo", "12")]),
            ("foo", &[("Foo", "\"1,  2\"")], &[("Foo", "\"1,2\"")]),
            (
                "accept-language",
                &[("Accept-Language", "en, de;q=0.5")],
                &[("Accept-Language", "de, en;q=0.5")],
            ),
            ("accept-encoding", &[("Accept-Encoding", "gzip")], &[("Accept-Encoding", "gzip;q=0")]),
        ] {
            assert_ne!(
                value(name, list, &policy),
                value(name, other, &policy),
                "{list:?} {other:?}"
            );
        }
    }

    #[test]
    fn only_the_policys_cookies_select() {
        let policy = Policy { vary_cookies: vec!["lang".into(), "ab".into()], ..Policy::default() };
        for (cookies, expected) in [
            (&["x=1; ab=2; lang=de"][..], Some("lang=de; ab=2")),
            (&["x=1", "lang=de"], Some("lang=de")),
            (&["xlang=de; abc=1"], None),
            (&["lang=; lang=en"], Some("lang=; lang=en")),
            (&[], None),
        ] {
            let list: Vec<_> = cookies.iter().map(|c| ("Cookie", *c)).collect();
            assert_eq!(value("cookie", &list, &policy).as_deref(), expected, "{cookies:?}");
        }
        let all = value("cookie", &[("Cookie", "a=1; b=2"), ("Cookie", "c=3")], &Policy::default());
        assert_eq!(all.as_deref(), Some("a=1; b=2; c=3"));
        assert_eq!(value("cookie", &[], &Policy::default()), None);
    }
}
