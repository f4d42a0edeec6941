use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::http::{Fields, Header};

/// The text of a page for one request; parts are written as `[src]`.
fn shown(source: &str, target: &str, lines: &[(&str, &str)]) -> String {
    let Some(plan) = parse(source.as_bytes()) else { return source.to_owned() };
    let plan = Plan::decode(&plan.encode(), source.len() as u64).expect("its own bytes");
    let headers: Vec<Header<'_>> =
        lines.iter().map(|&(name, value)| Header { name, value: value.as_bytes() }).collect();
    let personal = Cell::new(false);
    let fields = Fields::new(&headers);
    let facts = Facts { fields, host: "a.test", target, personal: &personal };
    let mut out = Vec::new();
    write(source.as_bytes(), &plan.nodes, &facts, &mut out);
    String::from_utf8(out).expect("text")
}

fn write(source: &[u8], nodes: &[Node], facts: &Facts<'_>, out: &mut Vec<u8>) {
    for node in nodes {
        match node {
            Node::Text(from, to) => out.extend_from_slice(&source[*from as usize..*to as usize]),
            Node::Vars(value) => value.write(facts, Escape::Html, out),
            Node::Include(include) => {
                out.push(b'[');
                include.src.write(facts, Escape::Target, out);
                out.push(b']');
            }
            Node::Try(attempt, _) => write(source, attempt, facts, out),
            Node::Choose(branches) => {
                let holds =
                    |test: &Option<Expression>| test.as_ref().is_none_or(|t| t.holds(facts));
                if let Some((_, nodes)) = branches.iter().find(|(test, _)| holds(test)) {
                    write(source, nodes, facts, out);
                }
            }
            Node::Inline(..) => {}
        }
    }
}

fn plain(source: &str) -> String {
    shown(source, "/", &[])
}

#[test]
fn each_element_has_its_effect() {
    for (source, expected) in [
        ("a<esi:include src=\"/x\"/>b", "a[/x]b"),
        ("a<esi:include src='/x?a=1&amp;b=2' />b", "a[/x?a=1&b=2]b"),
        ("a<esi:include src=\"/x\">b", "a[/x]b"),
        ("a<esi:include src=\"/x\"></esi:include>b", "a[/x]b"),
        ("a<esi:include src=\"/x>y\"/>b", "a[/x>y]b"),
        ("a<esi:remove>x<esi:include src=\"/x\"/></esi:remove>b", "ab"),
        ("a<esi:comment text=\"x > y\"/>b", "ab"),
        ("a<!--esi x<esi:include src=\"/y\"/> -->b", "a x[/y] b"),
        ("a<!--esi<esi:remove>x</esi:remove>-->b", "ab"),
        ("a<!-- x --><!--esix --><p>-->b<esi:comment/>", "a<!-- x --><!--esix --><p>-->b"),
        ("<esi:try><esi:attempt>a</esi:attempt> <esi:except>b</esi:except></esi:try>", "a"),
        (
            "<esi:choose>x<esi:when test=\"1==2\">a</esi:when><esi:when test=\"2>1\">b</esi:when>\
          <esi:otherwise>c</esi:otherwise></esi:choose>",
            "b",
        ),
        (
            "<esi:choose><esi:otherwise>c</esi:otherwise><esi:when test=\"1\">b</esi:when>\
          </esi:choose>",
            "b",
        ),
        ("<esi:choose><esi:when test=\"1==\">a</esi:when></esi:choose>b", "b"),
        ("a<esi:inline name=\"/x\">y</esi:inline>b", "ab"),
        ("<esi:vars>a$(HTTP_HOST)b</esi:vars>$(HTTP_HOST)", "aa.testb$(HTTP_HOST)"),
        // Values without quotes.
        ("a<esi:include src=/x/>b", "a[/x]b"),
        ("a<esi:include src=/x/ >b", "a[/x/]b"),
        ("a<esi:include src = /x?a='1>b", "a[/x?a='1]b"),
        ("a<esi:include onerror=continue src=\"/x y\" ttl=5>b", "a[/x y]b"),
    ] {
        assert_eq!(plain(source), expected, "{source}");
    }
}

#[test]
fn markup_that_is_not_understood_stays() {
    for source in [
        "a<esi:include src=\"/x\"",
        "a<esi:include/>b",
        "a<esi:includes src=\"/x\"/>b",
        "a<esi:unknown>x</esi:unknown>b",
        "a<esi:remove>b",
        "a</esi:remove>b",
        "a<esi:try>b",
        "a<!--esi b",
        "a<esi:>b</esi:>",
        "a<esi:include src=/>b",
        "a<esi:include src= >b",
        // In comments and CDATA sections.
        "a<!-- <esi:include src=\"/x\"/> -->b",
        "<!--<esi:vars>-->a<!--</esi:vars>-->",
        "<!-- <!--esi <esi:vars>a</esi:vars> -->",
        "<![CDATA[ <esi:include src=\"/x\"/> ]]>b",
        "<!--esix <esi:remove>a</esi:remove> -->",
        "<!-- <esi:remove>a</esi:remove>",
        "<![CDATA[ --> <esi:remove>a</esi:remove>",
    ] {
        assert_eq!(plain(source), source);
    }
    // The markup around comments is understood; HTML knows two short ones.
    for source in ["<!-- <esi:vars> -->", "<!-->", "<!--->", "<![CDATA[]]>"] {
        let around = format!("<esi:remove>a{source}b</esi:remove>c<esi:comment/>");
        assert_eq!(plain(&around), "c", "{source}");
    }
    // The end of `<!--esi` is the first `-->` in it.
    let nested = "<!--esi a<!-- <esi:include src=\"/x\"/> -->b-->";
    assert_eq!(plain(nested), " a<!-- [/x] b-->");
    // The elements around it are understood.
    assert_eq!(plain("<esi:vars>a<esi:remove>b</esi:vars>c"), "a<esi:remove>bc");
    assert_eq!(plain("<esi:remove>a<esi:try>b</esi:remove>c"), "c");
    assert_eq!(plain("<!--esi a<esi:vars>b--></esi:vars>c"), " a<esi:vars>b</esi:vars>c");
}

#[test]
fn elements_of_every_number_and_depth_end() {
    let deep = "<esi:vars>".repeat(100_000);
    assert_eq!(plain(&deep), deep);
    let mut balanced = "<esi:vars>".repeat(MAX_NESTING);
    balanced.push('x');
    balanced.push_str(&"</esi:vars>".repeat(MAX_NESTING));
    assert_eq!(plain(&balanced), "x");
    let many = "<esi:include src=\"/x\"/>".repeat(MAX_ELEMENTS + 1);
    assert_eq!(plain(&many).matches("[/x]").count(), MAX_ELEMENTS);
    let endless = "<esi:include src=\"".repeat(100_000);
    assert_eq!(plain(&endless).len(), endless.len());
}

const LINES: [(&str, &str); 4] = [
    ("Cookie", "user=anna; n=10; x=<b>"),
    ("Accept-Language", "de-CH, en;q=0.5"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux)"),
    ("X-One", "1"),
];

#[test]
fn variables_have_the_values_of_the_request() {
    for (text, expected) in [
        ("$(HTTP_COOKIE{user})", "anna"),
        ("$(HTTP_COOKIE{none})", ""),
        ("$(HTTP_COOKIE{none}|guest)", "guest"),
        ("$(HTTP_COOKIE{none}|'a guest')", "a guest"),
        ("$(HTTP_COOKIE{'user'})", "anna"),
        ("$(HTTP_COOKIE{x})", "&lt;b&gt;"),
        ("$(QUERY_STRING)", "a=1&amp;b=%3C"),
        ("$(QUERY_STRING{b})", "%3C"),
        ("$(HTTP_ACCEPT_LANGUAGE{de})$(HTTP_ACCEPT_LANGUAGE{fr})", "true"),
        ("$(HTTP_USER_AGENT{browser})-$(HTTP_USER_AGENT{os})", "MOZILLA-UNIX"),
        ("$(HTTP_USER_AGENT{version})$(HTTP_USER_AGENT{vendor})", "5.0"),
        ("$(HTTP_X_ONE)$(REQUEST_PATH)", "1/p"),
        ("$(NO_SUCH)", ""),
        ("$(lower)$($(HTTP_X_ONE)", "$(lower)$(1"),
        ("$(HTTP_COOKIE{user}", "$(HTTP_COOKIE{user}"),
    ] {
        let source = format!("<esi:vars>{text}</esi:vars>");
        assert_eq!(shown(&source, "/p?a=1&b=%3C", &LINES), expected, "{text}");
    }
    let include = "<esi:include src=\"/u/$(HTTP_COOKIE{x})?q=$(QUERY_STRING{a})\"/>";
    assert_eq!(shown(include, "/?a=../%41%4&b", &LINES), "[/u/%3Cb%3E?q=..%2F%41%254]");
    assert_eq!(shown("<esi:include src=\"/u/$(QUERY_STRING{a})\"/>", "/?a=..", &[]), "[/u/]");
}

#[test]
fn conditions_are_judged() {
    for (test, expected) in [
        ("$(HTTP_COOKIE{user})", true),
        ("$(HTTP_COOKIE{none})", false),
        ("!$(HTTP_COOKIE{none})", true),
        ("$(HTTP_COOKIE{user})=='anna'", true),
        ("$(HTTP_COOKIE{user}) != 'anna'", false),
        // Nothing is known of what is not there.
        ("$(HTTP_COOKIE{none}) != 'anna'", false),
        ("$(HTTP_COOKIE{none}|'x') != 'anna'", true),
        ("$(HTTP_COOKIE{n}) > 9", true),
        ("$(HTTP_COOKIE{n}) > '9'", true),
        ("'b10' > 'b9'", false),
        ("$(HTTP_COOKIE{n}) >= 10 & $(HTTP_COOKIE{n}) <= 10", true),
        ("1==2 | 1==1", true),
        ("1==2 || 1==1 && 1==2", false),
        ("(1==1 | 1==1) & !(1==1)", false),
        ("!!1", true),
        ("-1 < 0", true),
        ("'false'", false),
        ("''", false),
    ] {
        let source = format!(
            "<esi:choose><esi:when test=\"{}\">1</esi:when><esi:otherwise>0</esi:otherwise>\
             </esi:choose>",
            test.replace('&', "&amp;").replace('<', "&lt;")
        );
        assert_eq!(shown(&source, "/", &LINES) == "1", expected, "{test}");
    }
    let odd = ["", "a", "'a", "1=1", "1==", "(1", "1)", "& 1", "$(x)", "1 1"];
    for text in odd {
        assert_eq!(Expression::parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(Expression::parse(&b"(".repeat(4000)), None);
    assert_eq!(Expression::parse(&b"!".repeat(4000)), None);
    assert_eq!(Expression::parse(&b"1&".repeat(2000)), None);
}

#[test]
fn targets_are_resolved() {
    for (src, authority, expected) in [
        ("/a", None, "/a"),
        ("b?x=1#f", None, "/d/b?x=1"),
        ("../b", None, "/b"),
        ("./b/../c", None, "/d/c"),
        ("/../../x", None, "/x"),
        ("/a/..", None, "/"),
        ("/a/b/..", None, "/a/"),
        ("?x", None, "/d/p?x"),
        ("//b.test/x", Some("b.test"), "/x"),
        ("HTTP://b.test:81?q", Some("b.test:81"), "/?q"),
        ("https://b.test", Some("b.test"), "/"),
        ("/ä b", None, "/%C3%A4%20b"),
        ("/a:b", None, "/a:b"),
    ] {
        let target = resolve(src.as_bytes(), "/d/p?q").expect(src);
        let found = (target.authority.as_deref(), target.path_and_query.as_str());
        assert_eq!(found, (authority, expected), "{src}");
    }
    for none in ["", "#x", "mailto:x", "ftp://x/", "http://", "http://u@x/"] {
        let target = resolve(none.as_bytes(), "/");
        assert!(none == "#x" || target.is_none(), "{none}: {target:?}");
    }
}

#[test]
fn attributes_of_includes() {
    let include = |text: &str| {
        let source = format!("<esi:include src=\"/x\" {text}/>");
        let plan = parse(source.as_bytes()).expect("markup");
        let [Node::Include(include)] = &plan.nodes[..] else { panic!("{plan:?}") };
        (include.continues, include.alt.is_some(), include.ttl, include.grace)
    };
    assert_eq!(include(""), (false, false, None, None));
    assert_eq!(include("onerror=\"continue\" alt='/y'"), (true, true, None, None));
    assert_eq!(include("ttl=\"2m\""), (false, false, Some(120), None));
    assert_eq!(include("max-age=\"600+60\""), (false, false, Some(600), Some(60)));
    assert_eq!(include("ttl=\"x\" max-age=\"5\""), (false, false, Some(5), None));
}

/// The same by other means: all tags first, by looking everywhere; then the closing tags from left
/// to right, each with the nearest open one.
mod naive {
    pub(super) fn shown(source: &str) -> String {
        let tags = tags(source);
        // Where the closing tag of an opening one is.
        let mut closed_by: Vec<Option<usize>> = vec![None; tags.len()];
        let mut gone = vec![false; tags.len()];
        let mut closes = vec![false; tags.len()];
        for at in 0..tags.len() {
            let (_, _, name, closing) = tags[at];
            if !closing {
                continue;
            }
            let open = |&before: &usize| {
                let (_, _, other, closing) = tags[before];
                !closing && other == name && !gone[before] && closed_by[before].is_none()
            };
            if let Some(before) = (0..at).rev().find(open) {
                closed_by[before] = Some(at);
                closes[at] = true;
                for within in before + 1..at {
                    if !tags[within].3 && closed_by[within].is_none() {
                        gone[within] = true;
                    }
                }
            }
        }
        let (mut out, mut at, mut skip_to) = (String::new(), 0, 0);
        for (index, &(from, to, name, closing)) in tags.iter().enumerate() {
            if from >= skip_to {
                out.push_str(&source[at.max(skip_to)..from]);
            }
            let known = if closing { closes[index] } else { closed_by[index].is_some() };
            if from >= skip_to && !known {
                out.push_str(&source[from..to]);
            }
            if let (true, "remove", Some(end)) = (known, name, closed_by[index])
                && from >= skip_to
            {
                skip_to = tags[end].1;
            }
            at = to;
        }
        out.push_str(&source[at.max(skip_to)..]);
        out
    }

    /// Start, end, name and whether it closes.
    fn tags(source: &str) -> Vec<(usize, usize, &'static str, bool)> {
        let known = [
            ("<esi:vars>", "vars", false),
            ("</esi:vars>", "vars", true),
            ("<esi:remove>", "remove", false),
            ("</esi:remove>", "remove", true),
            ("<!--esi ", "hidden", false),
        ];
        let (mut out, mut open, mut behind) = (Vec::new(), Vec::new(), 0);
        for at in 0..source.len() {
            let Some(rest) = source.get(at..).filter(|_| at >= behind) else { continue };
            let found = known.iter().find(|(text, ..)| rest.starts_with(text));
            if found.is_none() && !open.contains(&"hidden") {
                for (begin, end) in [("<!--", "-->"), ("<![CDATA[", "]]>")] {
                    if rest.starts_with(begin) {
                        let from = if begin == "<!--" { 2 } else { begin.len() };
                        let found = rest[from..].find(end).map(|found| from + found + end.len());
                        behind = at + found.unwrap_or(rest.len());
                    }
                }
            }
            let hidden = open.contains(&"hidden") && rest.starts_with("-->");
            let (length, name, closing) = match found {
                Some((text, "hidden", _)) => (text.len() - 1, "hidden", false),
                Some((text, name, closing)) => (text.len(), *name, *closing),
                None if hidden => (3, "hidden", true),
                None => continue,
            };
            if closing && let Some(before) = open.iter().rposition(|other| *other == name) {
                open.truncate(before);
            } else if !closing {
                open.push(name);
            }
            out.push((at, at + length, name, closing));
        }
        out
    }
}

proptest! {
    #[test]
    fn pages_look_as_a_naive_reader_sees_them(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "<esi:vars>", "</esi:vars>", "<esi:remove>", "</esi:remove>", "<!--esi ", "-->",
                "a", "b ", "<", "<esi:", "--", "<!--", ">", "<![CDATA[", "]]>",
            ]),
            0..24,
        ),
    ) {
        let source = words.concat();
        prop_assert_eq!(plain(&source), naive::shown(&source));
    }

    #[test]
    fn any_bytes_are_read(source in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(plan) = parse(&source) {
            prop_assert_eq!(Plan::decode(&plan.encode(), source.len() as u64), Ok(plan));
        }
        let _ = Plan::decode(&source, 100);
        let _ = Expression::parse(&source);
        let _ = resolve(&source, "/");
    }
}

#[test]
fn nodes_within_others_count() {
    let counted = |source: &str| parse(source.as_bytes()).map(|plan| count(&plan.nodes));
    let include = "<esi:include src=\"/a\"/>";
    for (source, nodes) in [
        (format!("a{include}b"), 3),
        (format!("<esi:remove>a{include}</esi:remove>b"), 1),
        (
            format!(
                "<esi:try><esi:attempt>a{include}</esi:attempt><esi:except>b</esi:except></esi:try>"
            ),
            4,
        ),
        (
            "<esi:choose><esi:when test=\"1==1\">a</esi:when><esi:otherwise>b</esi:otherwise>\
             </esi:choose>"
                .to_owned(),
            3,
        ),
        (format!("<esi:inline name=\"/a\">a{include}</esi:inline>"), 3),
    ] {
        assert_eq!(counted(&source), Some(nodes), "{source}");
    }
}
