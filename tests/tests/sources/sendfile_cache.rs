//! Large pages that are asked for often are sent from copies in files: the same bytes, whole and in
//! part, as long as they are the page's.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Answer, Larder, Origin, Reply, Seen, Wire, get, get_with, wait_until};
use std::sync::atomic::{AtomicUsize, Ordering};

const FIELDS: &[&str] = &["Cache-Control: max-age=60", "ETag: \"v1\""];

/// So many bytes, that differ by `seed`.
fn body(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 7 + n / 251 + seed * 13) % 256) as u8).collect()
}

/// Pages as long as their paths say: `/100000`, `/100000/7`.
fn origin() -> Origin {
    Origin::start(|seen: &Seen, reply: &mut Reply| {
        let mut parts = seen.target[1..].split('/').map(|part| part.parse::<usize>().unwrap());
        let (len, seed) = (parts.next().unwrap(), parts.next().unwrap_or(0));
        reply.ok(FIELDS, body(len, seed));
    })
}

fn larder(origin: &Origin, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "memory = \"64MiB\"\nthreads = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \
         \"127.0.0.1:0\"\n{lines}\n[[site]]\norigin = \"{}\"\npurge = {{ from = [\"127.0.0.1\"] \
         }}\n",
        origin.url()
    ))
}

/// Bytes of copies.
fn held(larder: &Larder) -> u64 {
    Admin::of(larder).metric("larder_http_sendfile_cache_bytes")
}

/// Asks so often that it has a copy.
fn warm(larder: &Larder, target: &str) -> Answer {
    let before = held(larder);
    for _ in 0..40 {
        get(larder.addr(), target);
    }
    assert!(held(larder) > before, "{target} has no copy");
    get(larder.addr(), target)
}

#[test]
fn a_copy_has_the_pages_bytes() {
    let origin = origin();
    let larder = larder(&origin, "");
    for len in [20_000, 26_510, 100_000, 1_000_000] {
        let answer = warm(&larder, &format!("/{len}"));
        assert!(answer.is_hit() && answer.body == body(len, 0), "{len}");
        assert_eq!(answer.get("content-length"), Some(&*len.to_string()));
    }
    assert_eq!(origin.count(), 4);
}

#[test]
fn ranges_and_conditions_are_answered_from_it() {
    let origin = origin();
    let larder = larder(&origin, "");
    warm(&larder, "/200000");
    let page = body(200_000, 0);
    for (from, to) in [(0, 99_999), (1, 199_999), (4095, 60_000), (150_000, 199_999), (5, 9)] {
        let answer = get_with(larder.addr(), "/200000", &[&format!("Range: bytes={from}-{to}")]);
        assert_eq!((answer.status, answer.body == page[from..=to]), (206, true), "{from}-{to}");
    }
    let several = get_with(larder.addr(), "/200000", &["Range: bytes=0-49999,100000-149999"]);
    assert_eq!(several.status, 206);
    assert!(several.body.windows(50_000).any(|part| part == &page[100_000..150_000]));
    assert_eq!(get_with(larder.addr(), "/200000", &["If-None-Match: \"v1\""]).status, 304);
    let head = larder.connect().ask("HEAD", "/200000", &["Host: a"]);
    assert_eq!(
        (head.status, head.body.len(), head.get("content-length")),
        (200, 0, Some("200000"))
    );
}

#[test]
fn what_was_purged_is_not_sent_any_more() {
    static VERSION: AtomicUsize = AtomicUsize::new(1);
    let origin = Origin::start(|_: &Seen, reply: &mut Reply| {
        reply.ok(FIELDS, body(50_000, VERSION.load(Ordering::Relaxed)));
    });
    let larder = larder(&origin, "");
    for version in 1..4 {
        VERSION.store(version, Ordering::Relaxed);
        assert!(warm(&larder, "/page").body == body(50_000, version), "{version}");
        assert_eq!(larder.connect().ask("PURGE", "/page", &["Host: site.test"]).status, 200);
    }
}

#[test]
fn answers_that_are_asked_for_in_a_row_come_in_order() {
    let origin = origin();
    let larder = larder(&origin, "");
    let pages =
        [("/30000/1", 30_000, 1), ("/9", 9, 0), ("/500000/2", 500_000, 2), ("/30000/3", 30_000, 3)];
    for (target, len, _) in pages {
        if len > 9 {
            warm(&larder, target);
        }
    }
    // The client sends all before it reads, and takes little at a time: what does not fit waits in
    // the middle of a file.
    let mut wire = Wire::connect_narrow(larder.addr());
    for _ in 0..20 {
        for (target, ..) in pages {
            wire.send_get(target, &["Host: site.test"]);
        }
    }
    for (target, len, seed) in pages.iter().cycle().take(pages.len() * 20) {
        assert!(wire.read().body == body(*len, *seed), "{target}");
    }
}

#[test]
fn no_more_is_held_than_is_allowed() {
    let origin = origin();
    let larder = larder(&origin, "sendfile_cache = \"1MiB\"");
    for round in 0..60 {
        for page in 0..30 {
            let answer = get(larder.addr(), &format!("/100000/{page}"));
            assert!(answer.body == body(100_000, page), "round {round}, page {page}");
        }
    }
    let now = held(&larder);
    assert!(now > 500_000 && now <= 1 << 20, "{now}");
}

#[test]
fn it_can_be_turned_off() {
    let origin = origin();
    let larder = larder(&origin, "sendfile_cache = 0");
    for _ in 0..60 {
        assert!(get(larder.addr(), "/100000").body == body(100_000, 0));
    }
    assert_eq!(held(&larder), 0);
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_nothing_behind() {
    let origin = origin();
    let larder = larder(&origin, "");
    warm(&larder, "/1500000");
    for _ in 0..20 {
        let mut wire = Wire::connect_narrow(larder.addr());
        wire.send_get("/1500000", &["Host: site.test"]).read_head();
    }
    wait_until("the connections to be gone", || {
        Admin::of(&larder).metric("larder_http_connections") == 0
    });
    assert!(get(larder.addr(), "/1500000").body == body(1_500_000, 0));
    assert!(held(&larder) < 2_000_000);
}
