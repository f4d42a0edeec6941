//! Pages with No-Vary-Search in the fleet: found and purged there by every spelling.

use larder_tests::fleet::{Fleet, wait_counted};
use larder_tests::{Larder, Origin, get};

fn ruled() -> Origin {
    Origin::start(|seen, reply| {
        let fields = ["Cache-Control: max-age=600", "No-Vary-Search: params=(\"utm\")"];
        reply.ok(&fields, format!("{} {}", seen.target, seen.number));
    })
}

fn text(larder: &Larder, target: &str) -> String {
    get(larder.addr(), target).assert_status(200).text().to_owned()
}

#[test]
fn another_larder_finds_a_page_by_another_spelling() {
    let (fleet, origin) = (Fleet::memcached(), ruled());
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let page = text(&one, "/p?a=1&utm=1");
    wait_counted(&one, "stores", 1);
    // The page, and the rules of its path.
    fleet.wait_for_items(2);
    let answer = get(two.addr(), "/p?utm=2&a=1");
    assert!(answer.cache_status_has("detail=remote"), "{answer:?}");
    assert_eq!(answer.text(), page);
    assert_eq!(text(&two, "/p?a=1"), page);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_purge_of_one_spelling_reaches_the_fleet() {
    let (fleet, origin) = (Fleet::memcached(), ruled());
    let one = fleet.larder(&origin, "");
    let page = text(&one, "/p?a=1&utm=1");
    wait_counted(&one, "stores", 1);
    fleet.wait_for_items(2);
    // It has neither the page nor its rule.
    let two = fleet.larder(&origin, "");
    two.connect().ask("PURGE", "/p?utm=2&a=1", &["Host: site.test"]).assert_status(200);
    assert_eq!(fleet.items().len(), 1, "the rules alone");
    assert_ne!(text(&two, "/p?a=1&utm=3"), page);
}
