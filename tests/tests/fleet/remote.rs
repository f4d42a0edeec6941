//! Pages shared by two Larders through three servers: what is the same for a client, and what is
//! never served.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{Fleet, counted, larder, wait_counted};
use larder_tests::{
    Answer, Larder, Memcached, Origin, Redis, Seen, get, get_with, wait_for, wait_until,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FRESH: &str = "Cache-Control: max-age=600";

/// Each answer names the request's number, so that a page rendered twice shows.
fn numbered() -> Origin {
    Origin::start(|seen, reply| {
        let tag = format!("ETag: \"{}\"", seen.number);
        let fields = [FRESH, &tag, "Content-Type: text/plain", "Age: 7", "Surrogate-Key: red blue"];
        reply.ok(&fields, format!("{} {}", seen.target, seen.number));
    })
}

/// What differs between the answers of two Larders.
fn own(name: &str) -> bool {
    ["x-cache", "x-cache-lookup", "cache-status", "age", "connection"]
        .contains(&&*name.to_ascii_lowercase())
}

fn fields(answer: &Answer) -> Vec<(String, String)> {
    let mut fields = answer.fields.0.clone();
    fields.retain(|(name, _)| !own(name));
    fields
}

/// Renders pages on the first Larder and waits until the fleet has them.
#[track_caller]
fn render(first: &Larder, targets: &[&str]) -> Vec<Answer> {
    let before = counted(first, "stores");
    let answers: Vec<Answer> = targets.iter().map(|target| get(first.addr(), target)).collect();
    wait_counted(first, "stores", before + targets.len() as u64);
    answers
}

#[track_caller]
fn assert_remote(answer: &Answer) {
    assert!(
        answer.cache_status_has("hit") && answer.cache_status_has("detail=remote"),
        "{answer:?}"
    );
}

fn a_page_rendered_once_serves_both(fleet: Fleet) {
    let origin = numbered();
    let announce = "announce = \"X-Served-by-memcached: yes\"";
    let (one, two) = (fleet.larder(&origin, announce), fleet.larder(&origin, announce));
    let rendered = render(&one, &["/get", "/head", "/range", "/match"]);
    let answer = get(two.addr(), "/get");
    assert_remote(&answer);
    assert_eq!(answer.body, rendered[0].body);
    assert_eq!(answer.get("x-served-by-memcached"), Some("yes"));
    let mut same = fields(&answer);
    same.retain(|(name, _)| name != "X-Served-by-memcached");
    assert_eq!(same, fields(&rendered[0]));
    assert!((7..600).contains(&answer.age().unwrap()), "{answer:?}");
    let again = get(two.addr(), "/get");
    assert!(
        again.is_hit() && !again.cache_status_has("detail=remote"),
        "now it is its own: {again:?}"
    );
    assert_eq!(again.get("x-served-by-memcached"), None);
    let head = two.connect().ask("HEAD", "/head", &["Host: site.test"]);
    assert_remote(&head);
    assert_eq!(head.get("content-length"), Some(&*rendered[1].body.len().to_string()));
    let part = get_with(two.addr(), "/range", &["Range: bytes=1-3"]);
    assert_remote(part.assert_status(206));
    assert_eq!(part.body, &rendered[2].body[1..=3]);
    let tag = rendered[3].get("etag").unwrap();
    let unchanged = get_with(two.addr(), "/match", &[&format!("If-None-Match: {tag}")]);
    assert_remote(unchanged.assert_status(304));
    assert_eq!(origin.count(), 4);
    assert_eq!(counted(&two, "stores"), 0, "a copy goes no further");
}

/// A page that is kept in one coding alone is shared so, once it is confirmed in it, and another
/// Larder has it for every client.
fn a_page_in_one_coding_serves_both(fleet: Fleet) {
    let text = "<p>a line of a page with many words in it</p>\n".repeat(500);
    let content = text.clone();
    let origin = Origin::start(move |seen, reply| {
        let fields = [FRESH, "Content-Type: text/html", "ETag: \"one\""];
        match seen.get("if-none-match") {
            Some(_) => drop(reply.answer(304, &fields, "")),
            None => drop(reply.ok(&fields, &content)),
        }
    });
    let lines = "compress = [\"br\"]\nstore_forms = \"one\"";
    let start = || fleet.larder_of(&origin, "compress = \"0\"", lines);
    let ask = |larder: &Larder, accept: &str| {
        get_with(larder.addr(), "/page", &[&format!("Accept-Encoding: {accept}")])
    };
    let one = start();
    let coded = wait_for("the page in br", || {
        Some(ask(&one, "br")).filter(|answer| answer.get("content-encoding") == Some("br"))
    });
    wait_counted(&one, "stores", 1);
    get_with(one.addr(), "/page", &["Cache-Control: no-cache"]);
    wait_counted(&one, "stores", 2);
    let value = fleet.value(&fleet.wait_for_items(1)[0]);
    assert!(!value.windows(10).any(|window| window == b"many words"), "it is coded");
    for first in ["br", "identity"] {
        let two = start();
        assert_remote(&ask(&two, first));
        let (br, plain) = (ask(&two, "br"), ask(&two, "identity"));
        assert_eq!(br.get("content-encoding"), Some("br"));
        assert!(br.assert_hit().body == coded.body && plain.assert_hit().text() == text);
    }
    assert_eq!(origin.count(), 2, "the second time it was confirmed");
}

fn those_who_wait_are_served_from_one_lookup(fleet: Fleet) {
    let origin = numbered();
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let rendered = render(&one, &["/page"]);
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let addr = two.addr();
            std::thread::spawn(move || get(addr, "/page"))
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap().assert_status(200).body, rendered[0].body);
    }
    assert_eq!(origin.count(), 1);
}

fn variants_are_shared_with_their_marker(fleet: Fleet) {
    let origin = Origin::start(|seen, reply| {
        let shown = format!("{} {}", seen.fields.joined("x-kind"), seen.number);
        reply.ok(&[FRESH, "Vary: X-Kind, Accept-Encoding"], shown);
    });
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let kinds = ["X-Kind: a", "X-Kind: b"];
    let rendered: Vec<Answer> =
        kinds.iter().map(|kind| get_with(one.addr(), "/", &[kind])).collect();
    wait_counted(&one, "stores", 2);
    for (kind, rendered) in kinds.iter().zip(&rendered) {
        let answer = get_with(two.addr(), "/", &[kind]);
        assert_remote(&answer);
        assert_eq!(answer.body, rendered.body);
    }
    let third = get_with(two.addr(), "/", &["X-Kind: c"]);
    assert!(!third.is_hit());
    wait_counted(&two, "stores", 1);
    assert_eq!(get_with(one.addr(), "/", &["X-Kind: c"]).body, third.body, "and back again");
    assert_eq!(origin.count(), 3);
}

/// Bytes that no compression makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| byte()).collect()
}

fn a_page_above_the_item_limit_is_split_and_needs_every_part(fleet: Fleet) {
    let body = noise(5 << 20);
    let sent = body.clone();
    let origin = Origin::start(move |_, reply| {
        reply.ok(&[FRESH, "Content-Type: text/plain"], &sent);
    });
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    render(&one, &["/big", "/holed"]);
    let answer = get(two.addr(), "/big");
    assert_remote(&answer);
    assert!(answer.body == body, "{} bytes", answer.body.len());
    let parts: Vec<_> =
        fleet.items().into_iter().filter(|(_, key)| key.matches(':').count() > 2).collect();
    assert!(parts.len() >= 12, "{parts:?}");
    for part in parts.iter().filter(|(_, key)| key.ends_with(":3")) {
        fleet.delete(part);
    }
    let answer = get(two.addr(), "/holed");
    assert!(!answer.is_hit() && answer.body == body, "{} bytes", answer.body.len());
    assert_eq!(origin.count(), 3);
}

fn bodies_are_compressed_where_that_makes_them_smaller(fleet: Fleet) {
    let text = "all work and no play ".repeat(20_000);
    let sent = text.clone();
    let origin = Origin::start(move |seen, reply| {
        let kind = if seen.target == "/text" {
            "Content-Type: text/html"
        } else {
            "Content-Type: image/png"
        };
        reply.ok(&[FRESH, kind], &sent);
    });
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let mut known = Vec::new();
    for (target, most) in [("/text", 20_000), ("/image", 500_000)] {
        render(&one, &[target]);
        let item = fleet.next_item(&mut known);
        let length = fleet.value(&item).len();
        assert!(length < most && (target == "/text" || length > text.len()), "{target}: {length}");
        let answer = get(two.addr(), target);
        assert_remote(&answer);
        assert!(answer.text() == text);
    }
}

/// One way to spoil an item.
type Spoil = fn(&mut Vec<u8>);

fn what_does_not_read_back_is_a_miss(fleet: Fleet) {
    let origin = numbered();
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let ways: [(&str, Spoil); 9] = [
        ("/older", |item| item[4] = 1),
        ("/newer", |item| item[4] = 3),
        ("/magic", |item| item[0] = b'X'),
        ("/head", |item| item[30] ^= 1),
        ("/record", |item| item[64 + 4] ^= 1),
        ("/body", |item| *item.iter_mut().rev().nth(30).unwrap() ^= 1),
        ("/short", |item| item.truncate(item.len() - 1)),
        ("/empty", Vec::clear),
        ("/foreign", |item| *item = b"<html>somebody else's</html>".repeat(20)),
    ];
    let mut known = Vec::new();
    for (target, spoil) in ways {
        render(&one, &[target]);
        let item = fleet.next_item(&mut known);
        let mut value = fleet.value(&item);
        spoil(&mut value);
        fleet.put(&item, &value);
        let count = origin.count();
        let answer = get(two.addr(), target);
        assert!(!answer.is_hit(), "{target}: {answer:?}");
        assert_eq!(origin.count(), count + 1);
        assert_eq!(answer.text(), format!("{target} {count}"));
    }
    wait_until("each to be counted", || counted(&two, "damaged") + counted(&two, "foreign") >= 9);
}

fn the_record_of_another_page_is_not_served(fleet: Fleet) {
    let origin = numbered();
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    render(&one, &["/secret"]);
    let mut known = Vec::new();
    let secret = fleet.next_item(&mut known);
    render(&one, &["/public"]);
    let public = fleet.next_item(&mut known);
    fleet.put(&public, &fleet.value(&secret));
    assert!(get(two.addr(), "/public").text().starts_with("/public"));
    wait_counted(&two, "foreign", 1);
}

fn what_is_not_to_be_shared_is_not(fleet: Fleet) {
    let origin = Origin::start(|seen: &Seen, reply| {
        let line = match seen.path() {
            "/private" => "Cache-Control: private, max-age=600",
            "/no-store" => "Cache-Control: no-store",
            "/no-cache" => "Cache-Control: no-cache",
            "/short" => "Cache-Control: max-age=1",
            _ => FRESH,
        };
        reply.ok(&[line, "ETag: \"x\""], "page");
    });
    let one = fleet.larder(&origin, "min_freshness = \"5s\"");
    for target in ["/private", "/no-store", "/no-cache", "/short"] {
        get(one.addr(), target).assert_status(200);
    }
    render(&one, &["/shared"]);
    assert_eq!(fleet.items().len(), 1, "what came before it went before it: {:?}", fleet.items());
    assert_eq!(counted(&one, "stores"), 1);
}

fn read_only_writes_and_deletes_nothing(fleet: Fleet) {
    let origin = numbered();
    let (one, reader) = (fleet.larder(&origin, ""), fleet.larder(&origin, "read_only = true"));
    render(&one, &["/page"]);
    assert_remote(&get(reader.addr(), "/page"));
    get(reader.addr(), "/other").assert_status(200);
    reader.connect().ask("PURGE", "/page", &["Host: site.test"]).assert_status(200);
    assert!(!get(reader.addr(), "/page").is_hit(), "what it purged it does not take again");
    render(&one, &["/last"]);
    // A dump passes over items that are in use.
    wait_until("both pages to be listed", || fleet.items().len() >= 2);
    assert_eq!(fleet.items().len(), 2, "{:?}", fleet.items());
}

fn a_site_may_be_kept_out(fleet: Fleet) {
    let origin = numbered();
    let alone = fleet.larder_of(&origin, "", "remote = false");
    let one = fleet.larder(&origin, "");
    get(alone.addr(), "/alone").assert_status(200);
    render(&one, &["/page"]);
    assert!(!get(alone.addr(), "/page").is_hit());
    assert_eq!((counted(&alone, "lookups"), counted(&alone, "stores")), (0, 0));
    assert_eq!(fleet.items().len(), 1);
}

#[test]
fn larders_own_redis_face_is_a_fleet() {
    let face = Redis::larder(&[]);
    let origin = numbered();
    let servers = format!("\"{}\"", face.addr());
    let remote = "protocol = \"redis\"\npurge_interval = \"100ms\"\nlocal_copy = \"1h\"";
    let (one, two) = (larder(&servers, &origin, remote, ""), larder(&servers, &origin, remote, ""));
    render(&one, &["/page"]);
    assert_remote(&get(two.addr(), "/page"));
    assert_eq!(origin.count(), 1);
    assert_eq!(face.connect().say("KEYS larder:l:*"), "[]", "the lease was let go");
    let purged = one.connect().ask("PURGE", "/page", &["Host: site.test"]);
    assert!(
        purged.assert_status(200).text().contains("\"journal\":{\"written\":1,\"of\":1}"),
        "{purged:?}"
    );
    wait_until("the other to hear of it", || get(two.addr(), "/page").text() != "/page 0");
    wait_counted(&two, "purges_learned", 1);
}

#[test]
fn valkeys_that_want_a_password_and_have_databases() {
    let server = Redis::debian(&["--requirepass", "sesame"]);
    let origin = numbered();
    let servers = format!("\"{}\"", server.addr());
    let scratch = larder_tests::Scratch::new("password");
    std::fs::write(scratch.file("right"), "sesame\n").unwrap();
    std::fs::write(scratch.file("wrong"), "millet\n").unwrap();
    let lines = |file: &str, database: u16| {
        let file = scratch.file(file);
        format!(
            "protocol = \"valkey\"\npassword_file = \"{}\"\ndatabase = {database}",
            file.display()
        )
    };
    let with = |lines: &str| larder(&servers, &origin, lines, "");
    let (one, two) = (with(&lines("right", 3)), with(&lines("right", 3)));
    render(&one, &["/page"]);
    assert_remote(&get(two.addr(), "/page"));
    let (other, wrong) = (with(&lines("right", 4)), with(&lines("wrong", 3)));
    assert!(!get(other.addr(), "/page").is_hit(), "another database");
    assert!(!get(wrong.addr(), "/page").assert_status(200).is_hit(), "another password");
    wait_counted(&wrong, "failed", 1);
}

#[test]
fn larders_own_memcached_face_is_a_fleet() {
    let face = Memcached::larder(&[]);
    let origin = numbered();
    let servers = format!("\"{}\"", face.server());
    let (one, two) = (larder(&servers, &origin, "", ""), larder(&servers, &origin, "", ""));
    render(&one, &["/page"]);
    assert_remote(&get(two.addr(), "/page"));
    assert_eq!(origin.count(), 1);
}

fn a_purge_deletes_in_the_fleet_too(fleet: Fleet) {
    let origin = numbered();
    let short = "local_copy = \"300ms\"";
    let (one, two) = (fleet.larder(&origin, short), fleet.larder(&origin, short));
    render(&one, &["/page"]);
    assert_eq!(get(two.addr(), "/page").text(), "/page 0");
    one.connect().ask("PURGE", "/page", &["Host: site.test"]).assert_status(200);
    assert_eq!(fleet.items(), [], "when the purge is answered it is done");
    assert_eq!(get(one.addr(), "/page").text(), "/page 1");
    wait_until("the copy to be over", || get(two.addr(), "/page").text() != "/page 0");
    // The purge is not known to be over on a Larder that has nothing of the page: the fleet had it.
    wait_until("it to be in the fleet", || !fleet.items().is_empty());
    let three = fleet.larder(&origin, short);
    three.connect().ask("PURGE", "/page", &["Host: site.test"]).assert_status(200);
    assert_eq!(fleet.items(), []);
}

fn purged_variants_cannot_be_found_under_an_old_marker(fleet: Fleet) {
    let origin = Origin::start(|seen, reply| {
        reply.ok(
            &[FRESH, "Vary: X-Kind"],
            format!("{} {}", seen.fields.joined("x-kind"), seen.number),
        );
    });
    let short = "local_copy = \"200ms\"";
    let (one, two) = (fleet.larder(&origin, short), fleet.larder(&origin, short));
    for kind in ["X-Kind: a", "X-Kind: b"] {
        get_with(one.addr(), "/", &[kind]);
    }
    wait_counted(&one, "stores", 2);
    assert_remote(&get_with(two.addr(), "/", &["X-Kind: a"]));
    one.connect().ask("PURGE", "/", &["Host: site.test"]).assert_status(200);
    // The second Larder has the old marker; the fleet still has the record of b under it.
    let answer = get_with(two.addr(), "/", &["X-Kind: b"]);
    assert!(!answer.is_hit(), "{answer:?}");
    wait_until("the copy to be over", || get_with(two.addr(), "/", &["X-Kind: a"]).text() != "a 0");
    assert!(!get_with(one.addr(), "/", &["X-Kind: a"]).text().ends_with(" 0"));
}

fn what_was_purged_by_tag_or_prefix_is_not_taken_back(fleet: Fleet) {
    let origin = numbered();
    let one = fleet.larder(&origin, "");
    render(&one, &["/tagged", "/wiki/cat"]);
    let tag = ["Host: site.test", "Larder-Purge: tag", "Surrogate-Key: red"];
    one.connect().ask("PURGE", "/", &tag).assert_status(200);
    assert_eq!(get(one.addr(), "/tagged").text(), "/tagged 2");
    render(&one, &["/wiki/dog"]);
    one.connect()
        .ask("PURGE", "/wiki/", &["Host: site.test", "Larder-Purge: prefix"])
        .assert_status(200);
    for target in ["/wiki/cat", "/wiki/dog"] {
        assert!(!get(one.addr(), target).is_hit(), "{target}");
    }
    assert_eq!(origin.count(), 6);
}

fn a_page_that_another_refreshed_is_taken_from_it(fleet: Fleet) {
    let changed = Arc::new(AtomicBool::new(false));
    let state = changed.clone();
    let origin = Origin::start(move |seen, reply| {
        let age = if state.load(Ordering::SeqCst) { FRESH } else { "Cache-Control: max-age=5" };
        reply.ok(&[age], format!("page {}", seen.number));
    });
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let target = "/page";
    render(&one, &[target]);
    assert_remote(&get(two.addr(), target));
    changed.store(true, Ordering::SeqCst);
    wait_until("one to refresh it", || get(one.addr(), target).text() == "page 1");
    wait_counted(&one, "stores", 2);
    wait_until("the other to take it", || get(two.addr(), target).text() == "page 1");
    assert_eq!(origin.count(), 2, "one of them asked");
}

larder_tests::on_every_fleet! {
    a_page_rendered_once_serves_both,
    a_page_in_one_coding_serves_both,
    those_who_wait_are_served_from_one_lookup,
    variants_are_shared_with_their_marker,
    a_page_above_the_item_limit_is_split_and_needs_every_part,
    bodies_are_compressed_where_that_makes_them_smaller,
    what_does_not_read_back_is_a_miss,
    the_record_of_another_page_is_not_served,
    what_is_not_to_be_shared_is_not,
    read_only_writes_and_deletes_nothing,
    a_site_may_be_kept_out,
    a_purge_deletes_in_the_fleet_too,
    purged_variants_cannot_be_found_under_an_old_marker,
    what_was_purged_by_tag_or_prefix_is_not_taken_back,
    a_page_that_another_refreshed_is_taken_from_it,
}
