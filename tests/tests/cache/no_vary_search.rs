//! No-Vary-Search: pages found by every spelling of their query that their origin calls the same,
//! and by no other; purges and invalidation reach all spellings.

#![allow(clippy::unwrap_used)]

use larder_tests::{Answer, Gate, Larder, Origin, Seen, get, get_with, wait_until};

const FRESH: &str = "Cache-Control: max-age=600";

/// The rule that a target's path names: its last segment, with `_` for a blank.
fn rule_of(seen: &Seen) -> String {
    let path = seen.target.split('?').next().unwrap();
    let rule = match path {
        "/tracked" => "params=(\"utm\" \"fbclid\")",
        "/only" => "params, except=(\"id\")",
        "/order" => "key-order",
        "/none" => "params",
        "/wrong" => "params=(utm)",
        "/both" => "key-order, params=(\"utm\")",
        _ => return "X-No-Rule: 1".to_owned(),
    };
    format!("No-Vary-Search: {rule}")
}

/// Each answer names its target and the request's number.
fn ruled(lines: &str) -> (Origin, Larder) {
    let origin = Origin::start(|seen, reply| {
        let rule = rule_of(seen);
        reply.ok(&[FRESH, &rule], format!("{} {}", seen.target, seen.number));
    });
    let lines = format!("purge = {{ from = [\"127.0.0.1\"] }}\n{lines}");
    let larder = Larder::site(&origin.url(), &lines);
    (origin, larder)
}

fn ask(larder: &Larder, method: &str, target: &str) -> Answer {
    larder.connect().ask(method, target, &["Host: site.test", "Content-Length: 0"])
}

#[test]
fn spellings_of_one_page_are_hits() {
    let (origin, larder) = ruled("");
    for (same, other) in [
        (
            &["/tracked?utm=1&a=1", "/tracked?a=1", "/tracked?a=1&fbclid=2&utm", "/tracked?%61=1&"]
                [..],
            &["/tracked?a=2", "/tracked?b=1&a=1", "/tracked?a=1&UTM=1"][..],
        ),
        (&["/only?id=7&x=1", "/only?y&id=7", "/only?id=7"], &["/only?id=8", "/only?id=7&id=7"]),
        (&["/order?b=1&a=2", "/order?a=2&b=1"], &["/order?a=2&b=1&b=0", "/order?a=1&b=2"]),
        (&["/none?a", "/none", "/none?", "/none?b=c&d"], &["/none/a"]),
        (&["/both?b&utm&a", "/both?a&b", "/both?b=&a"], &["/both?a"]),
    ] {
        let before = origin.count();
        let first = get(larder.addr(), same[0]);
        for target in same {
            let answer = get(larder.addr(), target);
            assert_eq!(answer.assert_hit().body, first.body, "{target}");
        }
        assert_eq!(origin.count(), before + 1, "{same:?}");
        for target in other {
            let answer = get(larder.addr(), target);
            assert!(answer.text().starts_with(&format!("{target} ")), "{target}: {answer:?}");
        }
        get(larder.addr(), same[0]).assert_hit();
        assert_eq!(origin.count(), before + 1 + other.len());
    }
}

/// The origin's URL is that of the client, whatever the page is found under.
#[test]
fn the_origin_sees_the_query_as_it_was_asked() {
    let (origin, larder) = ruled("");
    get(larder.addr(), "/tracked?a=1&utm=x");
    assert_eq!(ask(&larder, "PURGE", "/tracked?a=1").status, 200);
    let answer = get(larder.addr(), "/tracked?utm=y&a=1");
    assert_eq!(
        (answer.text(), &*origin.last().target),
        ("/tracked?utm=y&a=1 1", "/tracked?utm=y&a=1")
    );
}

#[test]
fn fields_that_are_not_valid_are_ignored() {
    let (origin, larder) = ruled("");
    for target in ["/wrong?utm=1", "/wrong?utm=2", "/wrong", "/plain?utm=1", "/plain?utm=2"] {
        assert!(!get(larder.addr(), target).is_hit());
        get(larder.addr(), target).assert_hit();
    }
    assert_eq!(origin.count(), 5);
}

#[test]
fn a_purge_of_one_spelling_removes_all() {
    let (origin, larder) = ruled("");
    for (number, purged) in
        ["/tracked?utm=9&a=1", "/tracked?a=1", "/tracked?fbclid&a=1"].iter().enumerate()
    {
        get(larder.addr(), "/tracked?a=1&utm=1");
        get(larder.addr(), "/tracked?a=2&utm=1");
        get(larder.addr(), "/tracked?a=1&utm=2").assert_hit();
        assert_eq!(ask(&larder, "PURGE", purged).status, 200, "{purged}");
        assert_eq!(origin.count(), 2 + number);
        for target in ["/tracked?a=1&utm=1", "/tracked?a=1"] {
            let answer = get(larder.addr(), target);
            let fetched = format!("/tracked?a=1&utm=1 {}", 3 + number - 1);
            assert_eq!(answer.text(), fetched, "{purged} {target}");
        }
        get(larder.addr(), "/tracked?utm&a=2").assert_hit();
    }
    assert_eq!(ask(&larder, "PURGE", "/tracked?a=3").status, 404);
}

#[test]
fn an_unsafe_request_invalidates_all_spellings() {
    let (origin, larder) = ruled("");
    get(larder.addr(), "/only?id=1&x=1");
    get(larder.addr(), "/only?id=2");
    ask(&larder, "POST", "/only?y&id=1").assert_status(200);
    for target in ["/only?id=1", "/only?id=1&x=1"] {
        assert_eq!(get(larder.addr(), target).text(), "/only?id=1 3", "{target}");
    }
    get(larder.addr(), "/only?id=2&z").assert_hit();
    assert_eq!(origin.count(), 4);
}

/// Pages of an earlier rule are still what their own rule says, and purges find them.
#[test]
fn a_rule_that_changes_holds_for_the_pages_that_have_it() {
    let origin = Origin::start(|seen, reply| {
        let rule = match seen.number {
            0 => "No-Vary-Search: params=(\"a\")",
            1 => "No-Vary-Search: params=(\"b\")",
            _ => "X-None: 1",
        };
        reply.ok(&[FRESH, rule], seen.number.to_string());
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    let text = |target: &str| get(larder.addr(), target).text().to_owned();
    // The first rule: a makes no difference.
    assert_eq!(text("/p?a=1&b=1"), "0");
    assert_eq!(text("/p?b=1&a=2"), "0");
    // The second, of another page: b makes none.
    assert_eq!(text("/p?a=1&b=2"), "1");
    assert_eq!(text("/p?b=3&a=1"), "1");
    // By the first rule still.
    assert_eq!(text("/p?b=1&a=7"), "0");
    // Pages without a rule answer their own spelling alone.
    assert_eq!(text("/p?a=5&b=5"), "2");
    assert_eq!(text("/p?b=5"), "3");
    assert_eq!(text("/p?b=5&a=6"), "4", "the first rule writes it as the key of the page before");
    assert_eq!(ask(&larder, "PURGE", "/p?b=1&a=9").status, 200);
    assert_eq!(text("/p?b=1&a=9"), "5");
    assert_eq!(text("/p?a=1&b=4"), "1", "not purged");
}

#[test]
fn variants_lie_under_the_canonical_spelling() {
    let origin = Origin::start(|seen, reply| {
        let text = format!("{} {}", seen.get("x-kind").unwrap_or("none"), seen.number);
        reply.ok(&[FRESH, "No-Vary-Search: params=(\"utm\")", "Vary: X-Kind"], text);
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    let text = |target: &str, kind: &str| {
        get_with(larder.addr(), target, &[&format!("X-Kind: {kind}")]).text().to_owned()
    };
    assert_eq!(text("/p?utm=1", "a"), "a 0");
    assert_eq!(text("/p?utm=2", "b"), "b 1");
    assert_eq!(text("/p?utm=3", "a"), "a 0");
    assert_eq!(text("/p", "b"), "b 1");
    assert_eq!(ask(&larder, "PURGE", "/p?utm=4").status, 200);
    assert_eq!(text("/p?utm=5", "a"), "a 2");
    assert_eq!(text("/p?utm=6", "b"), "b 3");
}

#[test]
fn spellings_wait_for_one_fetch() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number > 0 && seen.target != "/warm" {
            door.wait();
        }
        reply.ok(&[FRESH, "No-Vary-Search: params=(\"utm\")"], format!("{}", seen.number));
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    // The rule is known from another page of the path.
    get(larder.addr(), "/p?id=0");
    get(larder.addr(), "/warm");
    let mut wires: Vec<_> = (0..8).map(|_| larder.connect()).collect();
    for (number, wire) in wires.iter_mut().enumerate() {
        let ask = "GET /warm HTTP/1.1\r\nHost: site.test\r\n\r\n";
        wire.send(format!("{ask}GET /p?id=1&utm={number} HTTP/1.1\r\nHost: site.test\r\n\r\n"));
    }
    for wire in &mut wires {
        wire.read().assert_hit();
    }
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.read().text(), "2");
    }
    assert_eq!(origin.count(), 3);
}

/// The rule comes with the answer, and the purge of another spelling came before.
#[test]
fn a_purge_during_the_first_fetch_means_the_other_spelling_too() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 {
            door.wait();
        }
        reply.ok(&[FRESH, "No-Vary-Search: params=(\"utm\")"], format!("{}", seen.number));
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    let mut first = larder.connect();
    first.send_get("/p?a&utm=1", &["Host: site.test"]);
    origin.wait_for(1);
    ask(&larder, "PURGE", "/p?utm=2&a");
    gate.open();
    assert_eq!(first.read().text(), "0");
    assert_eq!(get(larder.addr(), "/p?a&utm=1").text(), "1", "the first answer is not kept");
}

/// The same once the page is on its way under its canonical key.
#[test]
fn a_purge_while_the_body_arrives_means_the_other_spelling_too() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        let fields = [FRESH, "No-Vary-Search: params=(\"utm\")"];
        if seen.number > 0 {
            reply.ok(&fields, format!("{}", seen.number));
            return;
        }
        reply.chunked(200, &fields).chunk("half");
        door.wait();
        reply.chunk("whole").end();
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    let mut first = larder.connect();
    first.send_get("/p?a&utm=1", &["Host: site.test"]);
    first.read_head();
    ask(&larder, "PURGE", "/p?utm=2&a");
    gate.open();
    wait_until("the first answer is not kept", || get(larder.addr(), "/p?a&utm=1").text() == "1");
}

#[test]
fn validation_keeps_a_page_and_a_new_rule_fetches_it_anew() {
    let origin = Origin::start(|seen, reply| {
        let rule = if seen.number < 2 { "params=(\"utm\")" } else { "params=(\"utm\" \"a\")" };
        let rule = format!("No-Vary-Search: {rule}");
        let fields = ["Cache-Control: max-age=0", "ETag: \"1\"", &rule];
        if seen.get("if-none-match").is_some() {
            reply.answer(304, &fields, "");
        } else {
            reply.ok(&fields, format!("{}", seen.number));
        }
    });
    let larder = Larder::before(&origin.url());
    assert_eq!(get(larder.addr(), "/p?a=1&utm=1").text(), "0");
    // 304 with the same rule.
    assert_eq!(get(larder.addr(), "/p?a=1&utm=2").text(), "0");
    assert_eq!(origin.count(), 2);
    // 304 with another: the page lies under the key of its old one.
    assert_eq!(get(larder.addr(), "/p?a=1&utm=3").text(), "3");
    assert_eq!(get(larder.addr(), "/p?a=2").text(), "3");
}

/// Rules are the path's: what one page says is not believed of another host or path, and the
/// request has no say.
#[test]
fn a_rule_is_believed_of_its_own_pages_alone() {
    let (origin, larder) = ruled("");
    get_with(larder.addr(), "/plain?utm=1", &["No-Vary-Search: params"]);
    assert!(!get(larder.addr(), "/plain?utm=2").is_hit());
    get(larder.addr(), "/none?a=1");
    for (target, host) in
        [("/none2?a=2", "site.test"), ("/none/?a=2", "site.test"), ("/none?a=2", "other.test")]
    {
        let answer = larder.connect().ask("GET", target, &[&format!("Host: {host}")]);
        assert!(!answer.is_hit(), "{target} {host}");
    }
    assert_eq!(origin.count(), 6);
    // A page of the path without a rule is found by its own spelling alone.
    let origin = Origin::start(|seen, reply| {
        let rule = if seen.target.contains("rule") {
            "No-Vary-Search: params=(\"rule\" \"a\")"
        } else {
            "X-None: 1"
        };
        reply.ok(&[FRESH, rule], seen.target.clone());
    });
    let larder = Larder::before(&origin.url());
    assert_eq!(get(larder.addr(), "/p").text(), "/p");
    assert_eq!(get(larder.addr(), "/q?rule").text(), "/q?rule");
    assert_eq!(get(larder.addr(), "/p?b&rule").text(), "/p?b&rule");
    assert_eq!(get(larder.addr(), "/p?a=1").text(), "/p?a=1", "/p does not say that it is this");
}
