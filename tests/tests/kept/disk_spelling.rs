//! Pages with No-Vary-Search on the disk: found and purged there by every spelling.

use larder_tests::{Admin, Larder, Origin, Scratch, get, wait_until};

fn start(place: &Scratch, origin: &Origin) -> Larder {
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[disk]\npath = \
         \"{}\"\nsize = \"64MiB\"\npatience = \"10s\"\n[[site]]\norigin = \"{}\"\ndisk = \
         \"always\"\npurge = {{ from = [\"127.0.0.1\"] }}\n",
        place.file("disk").display(),
        origin.url(),
    ));
    wait_until("the index is filled", || figure(&larder, "load_ms") > 0);
    larder
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["disk"][name].as_u64().unwrap_or_default()
}

fn stop(mut larder: Larder) {
    larder.term();
    assert!(larder.wait_exit().success(), "{}", larder.stderr());
}

#[test]
fn a_page_is_found_and_purged_by_another_spelling_after_a_stop() {
    let origin = Origin::start(|seen, reply| {
        let fields = ["Cache-Control: max-age=6000", "No-Vary-Search: params=(\"utm\")"];
        reply.ok(&fields, format!("{} {}", seen.target, seen.number));
    });
    let place = Scratch::new("disk");
    let larder = start(&place, &origin);
    let page = get(larder.addr(), "/p?a=1&utm=1").text().to_owned();
    // The page, and the rules of its path.
    wait_until("both are written", || figure(&larder, "entries") == 2);
    stop(larder);
    let larder = start(&place, &origin);
    let answer = get(larder.addr(), "/p?utm=2&a=1");
    assert!(answer.cache_status_has("detail=disk"), "{answer:?}");
    assert_eq!((answer.text(), origin.count()), (&*page, 1));
    stop(larder);
    // Memory knows neither the page nor its rule.
    let larder = start(&place, &origin);
    larder.connect().ask("PURGE", "/p?a=1&utm=3", &["Host: site.test"]).assert_status(200);
    assert_ne!(get(larder.addr(), "/p?a=1&utm=4").text(), page);
}
