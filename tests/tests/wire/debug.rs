//! `Larder-Debug`: who may know is told how an answer came about; nobody else is, and nothing of it
//! is kept or passed on.

use larder_tests::fleet::{Fleet, wait_counted};
use larder_tests::{Answer, Larder, Origin};

const ALLOWED: &str = "debug = { from = [\"127.0.0.1\"] }";

fn ask(larder: &Larder, target: &str, fields: &[&str]) -> Answer {
    let with: Vec<&str> = fields.iter().copied().chain(["Larder-Debug: 1"]).collect();
    larder.connect().get(target, &with)
}

/// The value of a member of the answer's dictionary, quotes and all.
#[track_caller]
fn member(answer: &Answer, name: &str) -> String {
    let line = answer.get("larder-debug").unwrap_or_else(|| panic!("no Larder-Debug: {answer:?}"));
    let start = format!("{name}=");
    line.split(", ")
        .find_map(|member| member.strip_prefix(&start))
        .unwrap_or_else(|| panic!("no {name} in {line}"))
        .to_owned()
}

#[test]
fn a_miss_and_a_hit_say_why() {
    let origin = Origin::serving(
        &["Cache-Control: max-age=100, stale-while-revalidate=7", "Age: 30"],
        "page",
    );
    let larder = Larder::site(&origin.url(), ALLOWED);
    let miss = ask(&larder, "/a?b=1", &[]);
    assert_eq!(member(&miss, "found"), "nothing");
    assert_eq!(member(&miss, "why"), "\"nothing is stored under this key\"");
    assert!(member(&miss, "key").ends_with("/a?b=1\""), "{miss:?}");
    let hit = ask(&larder, "/a?b=1", &[]);
    hit.assert_hit();
    for (name, value) in [
        ("found", "page"),
        ("decision", "fresh"),
        ("tier", "memory"),
        ("initial-age", "30"),
        ("lifetime", "100"),
        ("lifetime-by", "response-or-rule"),
        ("stale-while-revalidate", "7"),
        ("size", "4"),
        ("soft-purged", "?0"),
        ("varies", "?0"),
    ] {
        assert_eq!(member(&hit, name), value, "{name}: {hit:?}");
    }
    let number = |name| member(&hit, name).parse::<i64>().expect("a number");
    assert_eq!(number("age"), 30 + number("resident"));
    assert_eq!(number("ttl"), 100 - number("age"));
    assert_eq!(Some(number("age") as u64), hit.age());
    // What the client wishes counts, and is said.
    let newer = ask(&larder, "/a?b=1", &["Cache-Control: max-age=1"]);
    assert_eq!(member(&newer, "decision"), "revalidate");
    assert!(member(&newer, "why").contains("the request wants a newer one"), "{newer:?}");
}

#[test]
fn a_page_of_the_fleet_says_so() {
    let (origin, fleet) =
        (Origin::serving(&["Cache-Control: max-age=100"], "page"), Fleet::memcached());
    let (one, two) = (fleet.larder_of(&origin, "", ALLOWED), fleet.larder_of(&origin, "", ALLOWED));
    assert_eq!(member(&ask(&one, "/", &[]), "tier"), "origin");
    wait_counted(&one, "stores", 1);
    let remote = ask(&two, "/", &[]);
    assert_eq!(
        (member(&remote, "found"), member(&remote, "tier")),
        ("nothing".into(), "remote".into())
    );
    assert_eq!(member(&ask(&two, "/", &[]), "tier"), "memory");
    assert_eq!(origin.count(), 1);
}

#[test]
fn the_rules_that_matched_and_why_it_was_passed() {
    let origin = Origin::serving(&["Cache-Control: max-age=100"], "page");
    let larder = Larder::site(
        &origin.url(),
        &format!(
            "{ALLOWED}\nbypass_cookies = [\"session\"]\n[[site.rule]]\npath = \"/x*\"\nttl = \
             \"5m\"\n[[site.rule]]\npath = \"/xy*\"\npass = true\n"
        ),
    );
    let passed = ask(&larder, "/xyz", &[]);
    assert_eq!(
        (member(&passed, "rules"), member(&passed, "why")),
        ("(1 2)".into(), "\"a rule says pass\"".into())
    );
    assert_eq!(member(&passed, "tier"), "origin");
    assert_eq!(member(&ask(&larder, "/x", &[]), "rules"), "(1)");
    assert_eq!(member(&ask(&larder, "/x", &[]), "lifetime"), "300");
    let cookie = ask(&larder, "/", &["Cookie: session=1"]);
    assert!(member(&cookie, "why").contains("bypass_cookies"), "{cookie:?}");
    assert_eq!(member(&cookie, "rules"), "()");
}

#[test]
fn other_variants_and_answers_not_to_be_kept_are_told_apart() {
    let origin = Origin::start(|seen, reply| {
        let fields: &[&str] = match seen.target.as_str() {
            "/private" => &["Cache-Control: private"],
            _ => &["Cache-Control: max-age=100", "Vary: X-Kind"],
        };
        reply.ok(fields, "page");
    });
    let larder = Larder::site(&origin.url(), ALLOWED);
    ask(&larder, "/", &["X-Kind: a"]);
    let other = ask(&larder, "/", &["X-Kind: b"]);
    assert_eq!(
        (member(&other, "found"), member(&other, "varies")),
        ("other-variants".into(), "?1".into())
    );
    let hit = ask(&larder, "/", &["X-Kind: b"]);
    assert_eq!((member(&hit, "found"), member(&hit, "vary")), ("page".into(), "\"x-kind\"".into()));
    ask(&larder, "/private", &[]);
    assert_eq!(member(&ask(&larder, "/private", &[]), "found"), "hit-for-miss");
}

#[test]
fn nobody_else_is_told_and_the_origin_neither_sees_nor_says_it() {
    let origin = Origin::start(|seen, reply| {
        assert_eq!(seen.get("larder-debug"), None);
        reply.ok(&["Cache-Control: max-age=100", "Larder-Debug: site=\"inner\""], "page");
    });
    let closed = Larder::before(&origin.url());
    for _ in 0..2 {
        let answer = ask(&closed, "/", &[]);
        assert_eq!((answer.text(), answer.get("larder-debug")), ("page", None));
    }
    let larder = Larder::site(&origin.url(), ALLOWED);
    assert_eq!(larder.connect().get("/", &[]).get("larder-debug"), None);
    // Stored and asked for with the field and without: the same page, told once and told not.
    assert_eq!(ask(&larder, "/", &[]).assert_hit().fields.all("larder-debug").count(), 1);
    assert_eq!(larder.connect().get("/", &[]).assert_hit().get("larder-debug"), None);
    assert_eq!(origin.faults(), Vec::<String>::new());
}

#[test]
fn a_token_opens_it_from_anywhere() {
    let origin = Origin::serving(&["Cache-Control: max-age=100"], "page");
    let scratch = larder_tests::Scratch::new("debug-token");
    let file = scratch.write("debug.token", "let-me-see\n");
    let larder = Larder::site(&origin.url(), &format!("debug = {{ token_file = {file:?} }}"));
    larder.connect().get("/", &[]);
    let hit = ask(&larder, "/", &["Authorization: Bearer let-me-see"]);
    assert_eq!(member(&hit, "found"), "page");
    let wrong = ask(&larder, "/", &["Authorization: Bearer let-me-in"]);
    assert_eq!((wrong.text(), wrong.get("larder-debug")), ("page", None));
}

#[test]
fn what_a_client_puts_into_a_url_stays_within_its_string() {
    let origin = Origin::serving(&["Cache-Control: max-age=100"], "page");
    let larder = Larder::site(&origin.url(), ALLOWED);
    let answer = ask(&larder, "/a\"b,why=c%0d%0aX-Evil:1", &[]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.get("x-evil"), None);
    assert!(
        answer
            .get("larder-debug")
            .is_some_and(|line| line.contains("/a\\\"b,why=c%0d%0aX-Evil:1\"")),
        "{answer:?}"
    );
}
