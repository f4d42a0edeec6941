//! A real MediaWiki behind the real binary: the main job.
//!
//! One wiki and one Larder serve all steps, since installing takes seconds. The steps run in order,
//! each on articles it first asks for, or makes cold by a purge, so that one failing does not fail
//! the next. Bodies of two renders always differ (MediaWiki puts a request id into each), so equal
//! bytes mean one render.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::mediawiki::{HOST, Wiki};
use larder_tests::{Answer, Larder, Visitor, wait_for, wait_until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// What every step works with.
struct House {
    wiki: Wiki,
    larder: Larder,
}

impl House {
    fn build(mut wiki: Wiki) -> House {
        let larder = Larder::with_config(&format!(
            "[[site]]\nhosts = [\"{HOST}\"]\npreset = \"mediawiki\"\npurge = {{ from = \
             [\"127.0.0.1\"] }}\n[site.origin]\n{}",
            wiki.origin()
        ));
        wiki.serve(larder.addr());
        House { wiki, larder }
    }

    /// A reader without any cookie.
    fn anonymous(&self) -> Visitor {
        Visitor::new(self.larder.addr())
    }

    fn article(&self, number: usize) -> String {
        self.wiki.paths()[number].clone()
    }

    /// Purges a page, so that a step can see it cold.
    fn purge(&self, target: &str) -> Answer {
        self.larder.connect().ask("PURGE", target, &[&format!("Host: {HOST}")])
    }
}

/// What is shown, and what shows it.
type Step = (&'static str, fn(&House));

#[test]
fn a_wiki_served_from_memory() {
    served_from_memory(&House::build(Wiki::install()));
}

/// Without a web server: Larder asks php-fpm, and serves scripts and styles itself.
#[test]
fn a_wiki_served_from_memory_by_fastcgi() {
    served_from_memory(&House::build(Wiki::install().by_fastcgi()));
}

fn served_from_memory(house: &House) {
    let steps: &[Step] = &[
        ("second anonymous view is a hit with identical bytes", second_view_is_a_hit),
        ("all 93 articles come from memory on the second round", all_articles_from_memory),
        ("a head and a conditional request are answered from memory", head_and_conditional),
        ("redirects are cached", redirects_are_cached),
        ("gzip and identity clients are both right", gzip_and_identity),
        ("no s-maxage leaks downstream", no_s_maxage_leaks),
        ("scripts and styles are cached", scripts_and_styles_are_cached),
        ("50 clients on a cold page cause one render", fifty_clients_cause_one_render),
        ("a logged-in user never gets or leaves a cached page", logged_in_user_stays_apart),
        ("cookies of others do not matter", cookies_of_others_do_not_matter),
        ("an edit purges, and the next view is new", edit_purges),
        ("a page that is made replaces its 404", creation_replaces_not_found),
        ("editing a template purges the pages that use it", template_edit_purges),
        ("the wiki sees the reader's address", wiki_sees_the_reader),
        ("others may not purge", others_may_not_purge),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        let started = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| step(house))) {
            Ok(()) => println!("ok in {:5} ms: {name}", started.elapsed().as_millis()),
            Err(_) => failed.push(*name),
        }
    }
    assert!(failed.is_empty(), "{} of {} steps failed: {failed:#?}", failed.len(), steps.len());
}

fn second_view_is_a_hit(house: &House) {
    let path = house.article(0);
    let first = house.anonymous().view(&path);
    first.assert_status(200).assert_forwarded();
    assert!(first.text().contains("is generated text, first edition"), "{first:?}");
    let second = house.anonymous().view(&path);
    second.assert_hit();
    assert_eq!(second.body, first.body);
    assert!(second.age().is_some(), "a hit without Age: {second:?}");
    for name in ["content-type", "content-language", "last-modified", "vary", "content-length"] {
        assert_eq!(second.fields.joined(name), first.fields.joined(name), "{name}");
    }
    assert_eq!(house.wiki.renders_of(&path), 1);
}

fn all_articles_from_memory(house: &House) {
    assert_eq!(house.wiki.paths().len(), 93);
    let round = || -> Vec<Answer> {
        let mut wire = house.larder.connect();
        let host = format!("Host: {HOST}");
        house.wiki.paths().iter().map(|path| wire.ask("GET", path, &[&host])).collect()
    };
    let first = round();
    let renders = house.wiki.renders().len();
    let second = round();
    assert_eq!(house.wiki.renders().len(), renders, "the second round reached the wiki");
    for ((path, first), second) in house.wiki.paths().iter().zip(&first).zip(&second) {
        first.assert_status(200);
        second.assert_hit();
        assert_eq!(second.body, first.body, "{path}");
        assert!(first.text().contains("first edition"), "{path} is no article");
    }
}

fn head_and_conditional(house: &House) {
    let path = house.article(1);
    let full = house.anonymous().view(&path);
    let renders = house.wiki.renders().len();
    let head = house.anonymous().head(&path);
    head.assert_hit();
    assert_eq!(head.get("content-length"), full.get("content-length"));
    let modified = full.get("last-modified").unwrap().to_owned();
    let unchanged =
        house.anonymous().view_with(&path, &[&format!("If-Modified-Since: {modified}")]);
    unchanged.assert_status(304);
    assert!(unchanged.is_hit(), "{unchanged:?}");
    assert_eq!(house.wiki.renders().len(), renders);
}

fn redirects_are_cached(house: &House) {
    for (path, target) in [("/", "/wiki/Main_Page"), ("/wiki/main_Page", "/wiki/Main_Page")] {
        let first = house.anonymous().view(path);
        first.assert_status(301).assert_forwarded();
        let second = house.anonymous().view(path);
        second.assert_status(301);
        assert!(second.is_hit(), "{second:?}");
        assert_eq!(second.get("location"), Some(format!("http://{HOST}{target}").as_str()));
        assert_eq!(second.body, first.body);
        assert_eq!(house.wiki.renders_of(path), 1);
    }
}

fn gzip_and_identity(house: &House) {
    let path = house.article(2);
    house.purge(&path);
    let gzip = ["Accept-Encoding: gzip, deflate"];
    let plain = house.anonymous().view(&path);
    // The preset compresses; the form is made behind the first view that takes it.
    let packed = wait_for("the compressed page", || {
        let answer = house.anonymous().view_with(&path, &gzip);
        answer.get("content-encoding").is_some().then_some(answer)
    });
    for answer in [&packed, &plain] {
        answer.assert_status(200);
        let vary = answer.fields.joined("vary").to_ascii_lowercase();
        assert!(vary.contains("accept-encoding"), "{answer:?}");
    }
    assert_eq!(packed.get("content-encoding"), Some("gzip"), "{packed:?}");
    assert_eq!(plain.get("content-encoding"), None, "{plain:?}");
    let unpacked = String::from_utf8(house.wiki.gunzip(&packed.body)).unwrap();
    assert_eq!(without_render_marks(&unpacked), without_render_marks(plain.text()));
    // Both forms are kept, each for its clients, however they word it.
    let other = house.anonymous().view_with(&path, &["Accept-Encoding: br;q=0, GZIP"]);
    assert_eq!(other.assert_hit().body, packed.body);
    assert_eq!(
        house.anonymous().view_with(&path, &["Accept-Encoding: gzip;q=0"]).assert_hit().body,
        plain.body
    );
    // And one purge takes both.
    house.purge(&path).assert_status(200);
    house.anonymous().view_with(&path, &gzip).assert_forwarded();
    // One page for all of them.
    house.anonymous().view(&path).assert_hit();
}

/// A page without what differs between two renders of the same revision: a request id, and how long
/// it took.
fn without_render_marks(page: &str) -> String {
    let without = |page: &str, mark: &str, end: char| {
        let at = page.find(mark).unwrap_or_else(|| panic!("no {mark} in a page of MediaWiki"))
            + mark.len();
        let end = at + page[at..].find(end).unwrap();
        format!("{}{}", &page[..at], &page[end..])
    };
    without(&without(page, "\"wgRequestId\":\"", '"'), "\"wgBackendResponseTime\":", '}')
}

fn no_s_maxage_leaks(house: &House) {
    let article = house.article(3);
    let raw = "/index.php?title=Main_Page&action=raw";
    let script = "/load.php?lang=en&modules=startup&only=scripts&raw=1&skin=vector";
    for target in [article.as_str(), "/", "/wiki/Nothing_here", raw, script] {
        for _ in 0..2 {
            let answer = house.anonymous().view(target);
            let control = answer.fields.joined("cache-control");
            assert!(!control.contains("s-maxage"), "{target}: {control}");
            assert!(
                control.contains("max-age="),
                "{target}: the rest of it must stay: {control:?}"
            );
        }
    }
    let control = house.anonymous().view(&article).fields.joined("cache-control");
    assert!(control.contains("must-revalidate"), "{control:?}");
    // Sanity: the wiki itself does send it.
    let plain = Larder::site_with_origin(&house.wiki.origin());
    let direct = Visitor::new(plain.addr()).view(&article);
    assert!(direct.fields.joined("cache-control").contains("s-maxage=18000"), "{direct:?}");
}

fn scripts_and_styles_are_cached(house: &House) {
    let target = "/load.php?lang=en&modules=skins.vector.styles.legacy&only=styles&skin=vector";
    let first = house.anonymous().view(target);
    first.assert_status(200).assert_forwarded();
    let second = house.anonymous().view(target);
    assert_eq!(second.assert_hit().body, first.body);
    let tag = first.get("etag").unwrap().to_owned();
    let same = house.anonymous().view_with(target, &[&format!("If-None-Match: {tag}")]);
    same.assert_status(304);
    assert_eq!(house.wiki.renders_of(target), 1);
}

fn fifty_clients_cause_one_render(house: &House) {
    let path = house.article(4);
    house.purge(&path);
    let before = house.wiki.renders_of(&path);
    let start = Barrier::new(50);
    let answers: Vec<Answer> = thread::scope(|scope| {
        let client = || {
            let mut wire = house.larder.connect();
            start.wait();
            wire.ask("GET", &path, &[&format!("Host: {HOST}")])
        };
        let clients: Vec<_> = (0..50).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(house.wiki.renders_of(&path), before + 1);
    for answer in &answers {
        answer.assert_status(200);
        assert_eq!(answer.body, answers[0].body);
    }
}

fn logged_in_user_stays_apart(house: &House) {
    let path = house.article(5);
    let mut user = house.anonymous();
    user.log_in();
    let named = |answer: &Answer| answer.text().contains("\"wgUserName\":\"Admin\"");

    // The user comes first: what is rendered for her is not kept.
    house.purge(&path);
    assert!(named(user.view(&path).assert_status(200)));
    let anonymous = house.anonymous().view(&path);
    anonymous.assert_forwarded();
    assert!(!named(&anonymous));
    // Now a page is stored: she does not get it, and does not disturb it.
    for _ in 0..2 {
        let own = user.view(&path);
        assert!(!own.is_hit() && named(&own), "{own:?}");
        assert!(own.fields.joined("cache-control").contains("private"), "{own:?}");
    }
    assert_eq!(house.anonymous().view(&path).assert_hit().body, anonymous.body);
    // Together on a cold page: nobody waits for somebody else's page.
    together_on_a_cold_page(house, &mut user, &path);
    // A session that is over: the wiki must see the dead cookies, and once they are gone she is
    // anybody.
    user.log_out();
    assert!(
        user.cookies().contains_key("wikiUserName"),
        "MediaWiki remembers the name: {:?}",
        user.cookies()
    );
    let mut afterwards = house.anonymous();
    for (name, value) in user.cookies().clone() {
        // UseCDNCache is for the seconds after an edit and belongs to another step.
        if !name.starts_with("Use") {
            afterwards = afterwards.with_cookie(&name, &value);
        }
    }
    let page = house.anonymous().view(&path);
    assert_eq!(afterwards.view(&path).assert_hit().body, page.body);
    let mut dead = house.anonymous().with_cookie("wikiToken", "0123456789abcdef");
    let answer = dead.view(&path);
    assert!(!answer.is_hit() && answer.get("set-cookie").is_some(), "{answer:?}");
    assert_eq!(house.anonymous().view(&path).assert_hit().get("set-cookie"), None);
}

fn together_on_a_cold_page(house: &House, user: &mut Visitor, path: &str) {
    house.purge(path);
    let start = Barrier::new(21);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..20)
            .map(|_| {
                let mut reader = house.anonymous();
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    reader.view(path)
                })
            })
            .collect();
        start.wait();
        let own = user.view(path);
        assert!(own.text().contains("\"wgUserName\":\"Admin\""), "the user got an anonymous page");
        for reader in readers {
            let page = reader.join().unwrap();
            assert!(page.text().contains("\"wgUserName\":null"), "a reader got the user's page");
        }
    });
}

fn cookies_of_others_do_not_matter(house: &House) {
    let path = house.article(6);
    let page = house.anonymous().view(&path);
    for (name, value) in
        [("_ga", "GA1.2.3"), ("wikimwuser-sessionId", "0a1b2c"), ("wikiUserName", "Somebody")]
    {
        let mut reader = house.anonymous().with_cookie(name, value);
        assert_eq!(reader.view(&path).assert_hit().body, page.body, "{name}");
    }
    // What is not part of the key does not reach a render that is stored.
    house.purge(&path);
    house.anonymous().with_cookie("wikiUserName", "Mallory").view(&path).assert_forwarded();
    let last = house.wiki.renders().into_iter().rfind(|seen| seen.target == path).unwrap();
    assert_eq!(last.cookies, "-");
}

fn edit_purges(house: &House) {
    let path = house.article(7);
    let title = title_of(&path);
    let untouched = house.article(8);
    let history = format!("/index.php?title={}&action=history", path.trim_start_matches("/wiki/"));
    let mut user = house.anonymous();
    user.log_in();
    house.anonymous().view(&untouched);
    for target in [path.as_str(), history.as_str()] {
        house.anonymous().view(target);
        house.anonymous().view(target).assert_hit();
        house.anonymous().view_with(target, &["Accept-Encoding: gzip"]);
    }
    let old_history = house.anonymous().view(&history);

    user.edit(&title, "Rewritten: a second edition.");
    // MediaWiki answers the edit before it purges. Freshness lasts for hours, so only its purge can
    // make this true.
    let new = wait_for("the edit to be seen", || {
        Some(house.anonymous().view(&path)).filter(|page| page.text().contains("a second edition"))
    });
    assert_eq!(house.anonymous().view(&path).assert_hit().body, new.body);
    let packed = wait_for("the compressed page", || {
        let answer = house.anonymous().view_with(&path, &["Accept-Encoding: gzip"]);
        answer.get("content-encoding").is_some().then_some(answer)
    });
    let unpacked = String::from_utf8(house.wiki.gunzip(&packed.body)).unwrap();
    assert!(unpacked.contains("a second edition"), "the gzip variant is old");
    wait_until("the history to be purged", || {
        house.anonymous().view(&history).body != old_history.body
    });
    house.anonymous().view(&untouched).assert_hit();
    // For some seconds MediaWiki asks that the editor's own views reach it.
    assert_eq!(user.cookies().get("UseCDNCache").map(String::as_str), Some("false"));
    let mut editor = house.anonymous().with_cookie("UseCDNCache", "false");
    assert!(!editor.view(&path).is_hit());
}

/// Article 7 has a title that is escaped in its URL, so this undoes `wfUrlencode`.
fn title_of(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.trim_start_matches("/wiki/").bytes();
    while let Some(b) = rest.next() {
        bytes.push(match b {
            b'%' => {
                let hex: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&hex, 16).unwrap()
            }
            b'_' => b' ',
            _ => b,
        });
    }
    String::from_utf8(bytes).unwrap()
}

fn creation_replaces_not_found(house: &House) {
    let path = "/wiki/Made_by_a_test";
    house.anonymous().view(path).assert_status(404);
    let missing = house.anonymous().view(path);
    assert!(
        missing.status == 404 && missing.is_hit(),
        "MediaWiki lets a missing page be kept: {missing:?}"
    );
    let mut user = house.anonymous();
    user.log_in();
    user.edit("Made by a test", "Now it is here.");
    wait_until("the new page to be seen", || house.anonymous().view(path).status == 200);
}

fn template_edit_purges(house: &House) {
    let users: Vec<String> = (10..20).map(|number| house.article(number)).collect();
    for path in &users {
        house.anonymous().view(path);
        house.anonymous().view(path).assert_hit();
    }
    let mut user = house.anonymous();
    user.log_in();
    user.edit(
        "Template:Note",
        "<div class=\"note\">{{{1}}} is generated text, later edition.</div>",
    );
    for path in &users {
        wait_until(&format!("{path} to show the new template"), || {
            // MediaWiki purges them from jobs, which it runs after some request for a page that
            // reaches it.
            user.view("/wiki/Special:Version");
            house.anonymous().view(path).text().contains("later edition")
        });
    }
}

fn wiki_sees_the_reader(house: &House) {
    let path = house.article(21);
    house.purge(&path);
    // A header that a client makes up is not believed.
    house.anonymous().view_with(&path, &["X-Forwarded-For: 203.0.113.9"]).assert_forwarded();
    let seen = house.wiki.renders().into_iter().rfind(|seen| seen.target == path).unwrap();
    assert_eq!((seen.host.as_str(), seen.forwarded_for.as_str()), (HOST, "127.0.0.1"));
}

fn others_may_not_purge(house: &House) {
    let strict = Larder::with_config(&format!(
        "[[site]]\npreset = \"mediawiki\"\n[site.origin]\n{}",
        house.wiki.origin()
    ));
    let path = house.article(22);
    let mut reader = Visitor::new(strict.addr());
    reader.view(&path).assert_status(200);
    strict.connect().ask("PURGE", &path, &[&format!("Host: {HOST}")]).assert_status(403);
    reader.view(&path).assert_hit();
    house.purge("/wiki/Never_asked_for").assert_status(404);
}
