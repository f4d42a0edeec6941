//! Cookies of a request (RFC 6265 section 4.2.1): how they are split, how servers read their names,
//! and the one form in which they select a page and go to the origin.

use super::fields::trim;

/// One cookie of a `Cookie` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie<'a> {
    /// The whole pair without whitespace around it.
    pub pair: &'a [u8],
    /// The name as written: PHP keeps whitespace before the `=`. A pair without `=` is a name.
    pub written: &'a [u8],
    /// The value without whitespace around it; empty where there is no `=`.
    pub value: &'a [u8],
    /// The pair has a `=`.
    pub valued: bool,
}

impl<'a> Cookie<'a> {
    /// The name without whitespace around it.
    pub const fn name(&self) -> &'a [u8] {
        trim(self.written)
    }

    /// Whether `is` holds of the name in one of the ways in which servers read it. It is handed
    /// bytes and what to make of each of them.
    ///
    /// PHP reads `.`, a space and a `[` as `_`; `a[b]` is a part of the cookie `a`; before 7.2.34,
    /// 7.3.23 and 7.4.11 it decoded `%` in names. Allocates only for names with `%`.
    pub fn reads_as(&self, mut is: impl FnMut(&[u8], fn(u8) -> u8) -> bool) -> bool {
        fn as_is(byte: u8) -> u8 {
            byte
        }
        let name = self.name();
        if is(name, as_is) {
            return true;
        }
        if is_odd(self.written) && php(self.written, &mut is) {
            return true;
        }
        if !name.contains(&b'%') {
            return false;
        }
        let decoded = percent_decoded(name);
        is(&decoded, as_is) || php(&decoded, &mut is)
    }
}

fn is_odd(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'.' | b' ' | b'\t' | b'['))
}

/// Whether `is` holds of the name as PHP reads it.
fn php(written: &[u8], is: &mut impl FnMut(&[u8], fn(u8) -> u8) -> bool) -> bool {
    fn folded(byte: u8) -> u8 {
        if matches!(byte, b'.' | b' ' | b'[') { b'_' } else { byte }
    }
    let array = written.iter().position(|&byte| byte == b'[');
    [Some(written), Some(trim(written)), array.map(|at| &written[..at])]
        .into_iter()
        .flatten()
        .any(|name| is(name, folded))
}

/// Escapes `%XX` undone; others stay as they are.
pub(crate) fn percent_decoded(name: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&b| char::from(b).to_digit(16)).map(|d| d as u8);
    let (mut out, mut rest) = (Vec::with_capacity(name.len()), name);
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                rest = &after[2..];
            }
            _ => out.push(*byte),
        }
    }
    out
}

/// The cookies of one `Cookie` line; empty pairs are skipped.
pub fn cookies(line: &[u8]) -> impl Iterator<Item = Cookie<'_>> + Clone {
    line.split(|&b| b == b';').map(trim).filter(|pair| !pair.is_empty()).map(|pair| {
        match pair.iter().position(|&b| b == b'=') {
            Some(at) => {
                Cookie { pair, written: &pair[..at], value: trim(&pair[at + 1..]), valued: true }
            }
            None => Cookie { pair, written: pair, value: b"", valued: false },
        }
    })
}

/// Appends the cookies that count, in the one form that selects a page and that the origin is sent;
/// false, and nothing appended, where none does.
///
/// Where `select` names cookies, those alone count, in its order, every one of a name in the order
/// in which they came. Where it is empty all do, in their order. Never one of which `ignored`
/// holds.
pub fn write<'a>(
    lines: impl Iterator<Item = &'a [u8]> + Clone,
    select: &[String],
    ignored: impl Fn(&Cookie<'_>) -> bool,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    let counting = || lines.clone().flat_map(cookies).filter(|cookie| !ignored(cookie));
    let separate = |out: &mut Vec<u8>| {
        if out.len() > start {
            out.extend_from_slice(b"; ");
        }
    };
    if select.is_empty() {
        for cookie in counting() {
            separate(out);
            out.extend_from_slice(cookie.pair);
        }
    }
    // "None of them" is said by an empty name, which no cookie with a name has.
    for name in select.iter().filter(|name| !name.is_empty()) {
        for cookie in counting().filter(|c| c.valued && c.name() == name.as_bytes()) {
            separate(out);
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            out.extend_from_slice(cookie.value);
        }
    }
    out.len() > start
}

/// Whether [`write()`] would append anything.
pub fn counts<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    select: &[String],
    ignored: impl Fn(&Cookie<'_>) -> bool,
) -> bool {
    let selected = |cookie: &Cookie<'_>| {
        let named = |name: &String| !name.is_empty() && name.as_bytes() == cookie.name();
        select.is_empty() || cookie.valued && select.iter().any(named)
    };
    lines.flat_map(cookies).any(|cookie| selected(&cookie) && !ignored(&cookie))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(lines: &[&str], select: &[&str]) -> Option<String> {
        let select: Vec<String> = select.iter().map(|&name| name.to_owned()).collect();
        let mut out = Vec::new();
        let ignored = |cookie: &Cookie<'_>| cookie.name().starts_with(b"_ga");
        let some = write(lines.iter().map(|line| line.as_bytes()), &select, ignored, &mut out);
        assert_eq!(counts(lines.iter().map(|line| line.as_bytes()), &select, ignored), some);
        some.then(|| String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn pairs_are_split_as_browsers_send_them() {
        let all: Vec<_> =
            cookies(b" a=1; b = x=y ;;c; d=").map(|c| (c.name(), c.value, c.valued)).collect();
        let expected: [(&[u8], &[u8], bool); 4] =
            [(b"a", b"1", true), (b"b", b"x=y", true), (b"c", b"", false), (b"d", b"", true)];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_counts_in_one_form() {
        for (lines, expected) in [
            (&["theme=dark; visit=1"][..], Some("theme=dark")),
            (&["theme =dark"], Some("theme=dark")),
            (&["theme\t=dark"], Some("theme=dark")),
            (&[";theme= dark ;"], Some("theme=dark")),
            (&["theme=light; theme=dark"], Some("theme=light; theme=dark")),
            (&["theme=light", "lang=de; theme=dark"], Some("lang=de; theme=light; theme=dark")),
            (&["theme=a=b"], Some("theme=a=b")),
            (&["theme="], Some("theme=")),
            (&["theme; Theme=x; xtheme=y; the.me=z; theme[a]=1; =theme"], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(written(lines, &["lang", "theme"]).as_deref(), expected, "{lines:?}");
        }
        assert_eq!(
            written(&["_ga=1; a=\"x y\" ;_gab=2;c", "d=1"], &[]).as_deref(),
            Some("a=\"x y\"; c; d=1")
        );
        assert_eq!(written(&["_ga=1;"], &[]), None);
        assert_eq!(written(&["a=1; =b"], &[""]), None, "none of them counts");
    }

    #[test]
    fn names_are_read_as_php_reads_them_too() {
        let reads = |text: &str, name: &str| {
            let cookie = cookies(text.as_bytes()).next().expect("a cookie");
            cookie.reads_as(|bytes, fold| bytes.iter().map(|&b| fold(b)).eq(name.bytes()))
        };
        for (text, name) in [
            ("mw_session=1", "mw_session"),
            ("mw[session=1", "mw_session"),
            ("mw.session=1", "mw_session"),
            ("mw session=1", "mw_session"),
            ("mw_session =1", "mw_session"),
            ("mw session =1", "mw_session"),
            ("mw =1", "mw_"),
            ("mw_session[a]=1", "mw_session"),
            ("mw_%73ession=1", "mw_session"),
            ("mw%5Bsession=1", "mw_session"),
            ("mw.session", "mw_session"),
        ] {
            assert!(reads(text, name), "{text} {name}");
        }
        for (text, name) in [("mw-session=1", "mw_session"), ("mw_sessio%=1", "mw_session")] {
            assert!(!reads(text, name), "{text} {name}");
        }
    }

    proptest! {
        #[test]
        fn the_form_is_its_own(line in "[ab =;\t]{0,20}", all: bool) {
            let select = if all { Vec::new() } else { vec!["a".to_owned(), "b".to_owned()] };
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            let some = write([line.as_bytes()].into_iter(), &select, |_| false, &mut once);
            prop_assert_eq!(some, !once.is_empty());
            write([&once[..]].into_iter(), &select, |_| false, &mut twice);
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn no_name_makes_it_panic(line in prop::collection::vec(any::<u8>(), 0..40)) {
            for cookie in cookies(&line) {
                cookie.reads_as(|_, _| false);
            }
        }
    }
}
