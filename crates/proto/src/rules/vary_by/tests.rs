use proptest::prelude::*;

use super::*;
use crate::rules::{
    Policy,
    test_support::{fields, with_request},
    vary::{Vary, normalise, selecting},
};

/// As MediaWiki's `getXVO` writes it for a wiki with this prefix of cookies.
const MEDIAWIKI: &str = "Accept-Encoding;list-contains=gzip,Cookie;string-contains=wikiToken;\
    string-contains=wikiLoggedOut;string-contains=wiki_session";

fn policy() -> Policy {
    Policy { vary_fields: vec![VaryField::Options, VaryField::Key], ..Policy::default() }
}

fn names(lines: &[(&str, &str)]) -> Vary {
    selecting(Fields::new(&fields(lines)), &policy())
}

fn listed(names: &[&str]) -> Vary {
    Vary::Names(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn fields_become_names() {
    for (name, value, expected) in [
        (
            "X-Vary-Options",
            MEDIAWIKI,
            &[
                ";cookie;string-contains=wikiToken;string-contains=wikiLoggedOut;\
             string-contains=wiki_session",
                "accept-encoding",
            ][..],
        ),
        ("X-Vary-Options", "Accept", &["accept"]),
        ("X-Vary-Options", "B;list-contains=a b\"", &[";b;list-contains=a%20b%22"]),
        ("Key", "Accept-Encoding, Cookie;param=foo", &[";cookie;param=foo", "accept-encoding"]),
        (
            "Key",
            "User-Agent;substr=MSIE;Substr=\"mo;b,\\\"i\"",
            &[";user-agent;substr=MSIE;substr=mo%3Bb%2C%22i"],
        ),
        (
            "Key",
            "Bar;div=5, Foo;partition=20:30.5::40",
            &[";bar;div=5", ";foo;partition=20:30.5::40"],
        ),
        ("Key", "X-Original-Url;match=a, Baz", &["baz"]),
    ] {
        assert_eq!(names(&[("Vary", "Foo"), (name, value)]), listed(expected), "{value}");
        assert_eq!(names(&[("Vary", "*"), (name, value)]), listed(expected), "instead of Vary");
        let plain =
            selecting(Fields::new(&fields(&[("Vary", "Foo"), (name, value)])), &Policy::default());
        assert_eq!(plain, listed(&["foo"]), "off");
    }
    let both = [("Key", "A"), ("X-Vary-Options", "B"), ("Content-Encoding", "br")];
    assert_eq!(names(&both), listed(&["accept-encoding", "b"]));
    for star in ["*", "A, *", "Forwarded;match=a", "A, X-Forwarded-For;substr=\"10.\""] {
        assert_eq!(names(&[("Key", star), ("Vary", "A")]), Vary::Star, "{star}");
    }
}

#[test]
fn malformed_ones_leave_it_to_vary() {
    let long = format!("Cookie;string-contains={}", "a".repeat(MAX_LEN));
    let many = format!("Cookie{}", ";string-contains=a".repeat(MAX_PREDICATES + 1));
    for (name, value) in [
        ("X-Vary-Options", ""),
        ("X-Vary-Options", " , "),
        ("X-Vary-Options", "Cookie;"),
        ("X-Vary-Options", "Cookie;string-contains"),
        ("X-Vary-Options", "Cookie;string-contains="),
        ("X-Vary-Options", "Cookie;param=a"),
        ("X-Vary-Options", "Coo kie;string-contains=a"),
        ("X-Vary-Options", ";string-contains=a"),
        ("X-Vary-Options", "A, Cookie;starts-with=a"),
        ("X-Vary-Options", &long),
        ("X-Vary-Options", &many),
        ("Key", "Cookie;string-contains=a"),
        ("Key", "A;div=0"),
        ("Key", "A;div=1.5"),
        ("Key", "A;div=-1"),
        ("Key", "A;partition=20:x"),
        ("Key", "A;partition=1."),
        ("Key", "A;match=\"a"),
        ("Key", "A;match=\"a\"b"),
        ("Key", "A;match=a\"b\""),
        ("Key", "A;match=\"\""),
    ] {
        assert_eq!(names(&[(name, value), ("Vary", "Foo")]), listed(&["foo"]), "{value}");
        assert_eq!(names(&[(name, value), ("Vary", "*")]), Vary::Star, "{value}");
    }
    let second = [("X-Vary-Options", "A;b=c"), ("Key", "B;match=c"), ("Vary", "Foo")];
    assert_eq!(names(&second), listed(&[";b;match=c"]), "the other field");
}

/// The results for requests with these lines of a field.
fn results(name: &str, lines: &[&str]) -> Vec<u8> {
    let field = field_of(name).expect("a field");
    let list: Vec<_> = lines.iter().map(|line| (field, *line)).collect();
    with_request("GET", &list, |req| normalise(name, req, &policy())).expect("results")
}

#[test]
fn anonymous_visitors_of_a_wiki_are_one() {
    let Vary::Names(names) = names(&[("X-Vary-Options", MEDIAWIKI)]) else { panic!() };
    let of = |cookies: &str| results(&names[0], &[cookies]);
    let anonymous = results(&names[0], &[]);
    for cookies in ["", "_ga=1; _gid=2", "wikiUserName=A", "stopMobileRedirect=true; a.b[c]=%20"] {
        assert_eq!(of(cookies), anonymous, "{cookies}");
    }
    let mut all: Vec<Vec<u8>> =
        ["wikiToken=1", "wikiLoggedOut=1", "_ga=1; wiki_session=ab", "wikiToken; wiki_session"]
            .map(of)
            .to_vec();
    assert_eq!(of("wiki_session=ab"), of("x=y; wiki_session=other"), "the value does not select");
    // PHP reads all of these as wiki_session.
    for odd in [
        "wiki.session=a",
        "wiki session=a",
        "wiki[session=a",
        "wiki%5Fsession=a",
        "wiki%2Esession=a",
    ] {
        assert_eq!(of(odd), of("wiki_session=a"), "{odd}");
    }
    all.push(anonymous);
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "no two are alike");
}

/// The examples of the draft, in section 2.3; lists are told apart where it takes their first.
#[test]
fn parameters_of_key() {
    for (name, same, others) in [
        (
            ";bar;div=5",
            &[&["1"][..], &["4"], &["0"]][..],
            &[&["5"][..], &[], &["x"], &["1, 9"]][..],
        ),
        (";bar;div=5", &[&["12"], &["10"], &["14"]], &[&["15"], &["9"]]),
        (
            ";foo;partition=20:30:40",
            &[&["1"], &["0"], &["19.9"], &["0019.99"], &[".5"]],
            &[&["20"], &[], &["-1"], &["1."]],
        ),
        (";foo;partition=20:30:40", &[&["20"], &["29.999"], &["20.0"]], &[&["30"], &["40"]]),
        (
            ";foo;partition=20:30:40",
            &[&["40"], &["41"], &["123456789012345678901234567890"]],
            &[&["39.9"]],
        ),
        (
            ";baz;match=charlie",
            &[&["charlie"], &["foo, charlie"], &["bar, charlie     , abc"], &["a", "charlie"]],
            &[&["theodore"], &[]],
        ),
        (
            ";baz;match=charlie",
            &[&["theodore"], &["joe, sam"], &["\"charlie\""], &["Charlie"], &["charlie2"]],
            &[&["charlie"], &[]],
        ),
        (
            ";abc;substr=bennet",
            &[&["bennet"], &["foo, bennet"], &["abennet00"], &["\"bennet\""]],
            &[&["Bennet"], &[]],
        ),
        (
            ";def;param=liam",
            &[&["liam=123"], &["a=b; Liam=123"], &["x, liam=123"]],
            &[&["liam=124"], &[], &["mno=456"], &["liam=\"123\""], &["liam=123;liam=4"]],
        ),
        (";def;param=liam", &[&["mno=456"], &[], &["liam"]], &[&["liam=1"]]),
        (
            ";cookie;param=ID",
            &[&["ID=1"], &["a=b; ID=1; c"]],
            &[&["ID=2"], &[], &["ID=1; ID=2"], &["id=1; ID=1"]],
        ),
        (";cookie;param=my_id", &[&["a=1"], &[]], &[&["my.id=1"], &["my%5fid=1"], &["MY_ID=1"]]),
        (";lang;list-contains=de", &[&["de"], &["en, DE"], &["en", "de"]], &[&["de;q=1"], &[]]),
        (";a;match=b;match=c", &[&["b"], &["x,b"]], &[&["c"], &["b,c"], &["x"]]),
    ] {
        let first = results(name, same[0]);
        for lines in same {
            assert_eq!(results(name, lines), first, "{name} {lines:?}");
        }
        for lines in others {
            assert_ne!(results(name, lines), first, "{name} {lines:?}");
        }
    }
}

#[test]
fn only_the_cookies_that_the_origin_gets_count() {
    let policy = Policy { vary_cookies: vec!["lang".to_owned()], ..policy() };
    let of = |cookies: &str| {
        with_request("GET", &[("Cookie", cookies)], |req| {
            normalise(";cookie;string-contains=wiki_session", req, &policy)
        })
    };
    assert_eq!(of("wiki_session=1"), of("lang=de"));
    assert_ne!(of("lang=wiki_session"), of("lang=de"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        line in "[A-Za-z*=;:,.\"\\\\0-9 -]{0,40}", value in prop::collection::vec(any::<u8>(), 0..40),
        name in ";[a-z;=%0-9]{0,30}", key: bool,
    ) {
        let field = if key { VaryField::Key } else { VaryField::Options };
        let lines = fields(&[(field.name(), &line)]);
        let mut out = Vec::new();
        for selector in selectors(field, Fields::new(&lines)).unwrap_or_default() {
            let name = selector.name();
            if field_of(&name).is_some() {
                write_results(&name, &value, &mut out);
            }
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','));
        }
        write_results(&name, &value, &mut out);
    }
}
