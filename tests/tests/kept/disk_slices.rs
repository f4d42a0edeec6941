//! Large pages in slices on the disk: found again after a stop and a kill, purged with their map,
//! never mixed with those of another version.

#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
};

use larder_tests::{Admin, Answer, Larder, Origin, get, get_with, wait_until};

use crate::disk::{Place, figure, kill, loaded, purge, stop};

pub(crate) const SIZE: usize = 64 << 10;
const SITE: &str = "slice = \"64KiB\"\n";
const ALWAYS: &str = "slice = \"64KiB\"\ndisk = \"always\"\n";

/// Content of which each part is known by its place and its version.
pub(crate) fn content(version: u64, first: usize, last: usize) -> Vec<u8> {
    let line = |n: usize| format!("{version:07}:{n:07}\n");
    let lines = (first / 16..=last / 16).flat_map(|n| line(n).into_bytes());
    lines.skip(first % 16).take(last + 1 - first).collect()
}

/// Files of one length and of one version, under any name.
struct Files {
    length: usize,
    version: AtomicU64,
    /// Bytes of content sent.
    sent: AtomicUsize,
}

impl Files {
    fn new(length: usize) -> Arc<Files> {
        Arc::new(Files { length, version: AtomicU64::new(1), sent: AtomicUsize::new(0) })
    }

    fn origin(self: &Arc<Self>) -> Origin {
        let files = self.clone();
        Origin::start(move |seen, reply| {
            let (version, length) = (files.version.load(SeqCst), files.length);
            let tag = format!("ETag: \"v{version}\"");
            let fields = ["Cache-Control: max-age=6000", &tag, "Surrogate-Key: red"];
            let same = seen.get("if-range").is_none_or(|named| tag.ends_with(named));
            let range = seen.get("range").filter(|_| same);
            let Some((first, last)) = range.and_then(|r| r.strip_prefix("bytes=")?.split_once('-'))
            else {
                files.sent.fetch_add(length, SeqCst);
                reply.ok(&fields, content(version, 0, length - 1));
                return;
            };
            let first: usize = first.parse().unwrap();
            let last = last.parse().unwrap_or(usize::MAX).min(length - 1);
            let place = format!("Content-Range: bytes {first}-{last}/{length}");
            files.sent.fetch_add(last + 1 - first, SeqCst);
            let [control, tag, key] = fields;
            reply.answer(206, &[control, tag, key, &place], content(version, first, last));
        })
    }

    fn sent(&self) -> usize {
        self.sent.load(SeqCst)
    }
}

fn range(larder: &Larder, target: &str, first: usize, last: usize) -> Answer {
    get_with(larder.addr(), target, &[&format!("Range: bytes={first}-{last}")])
}

/// The first bytes of a slice.
fn slice(larder: &Larder, target: &str, number: usize) -> Answer {
    range(larder, target, number * SIZE, number * SIZE + 99)
}

#[track_caller]
fn is(answer: &Answer, version: u64, number: usize) {
    let (first, last) = (number * SIZE, number * SIZE + 99);
    assert!(answer.status == 206 && answer.body == content(version, first, last), "{answer:?}");
}

#[track_caller]
fn from_disk(answer: &Answer) {
    assert!(answer.is_hit() && answer.cache_status_has("detail=disk"), "{answer:?}");
}

#[test]
fn slices_asked_for_again_are_there_after_a_stop() {
    let (place, files) = (Place::new(), Files::new(8 * SIZE));
    let origin = files.origin();
    let larder = loaded(place.start(&origin, SITE));
    for number in [2, 3, 2, 3] {
        is(&slice(&larder, "/file", number), 1, number);
    }
    stop(larder);
    let larder = loaded(place.start(&origin, SITE));
    for number in [2, 3] {
        let answer = slice(&larder, "/file", number);
        is(&answer, 1, number);
        from_disk(&answer);
        let again = slice(&larder, "/file", number);
        assert!(again.is_hit() && !again.cache_status_has("detail=disk"), "{again:?}");
    }
    assert_eq!((files.sent(), figure(&larder, "slice_hits")), (2 * SIZE, 2));
    // The others come from the origin, under the tag of the map.
    let whole = get(larder.addr(), "/file");
    assert!(whole.body == content(1, 0, 8 * SIZE - 1));
    assert!(whole.cache_status_has("fwd=partial"), "{whole:?}");
    assert_eq!(files.sent(), 8 * SIZE);
}

#[test]
fn slices_by_rule_are_there_after_a_kill() {
    let (place, files) = (Place::new(), Files::new(20 * SIZE + 5));
    let origin = files.origin();
    let larder = loaded(place.start(&origin, ALWAYS));
    get(larder.addr(), "/file").assert_status(200);
    wait_until("they are written", || {
        figure(&larder, "slice_stores") == 21 && figure(&larder, "entries") == 22
    });
    kill(larder);
    let path = place.path().display().to_string();
    let command = |args: &[&str]| larder_tests::larder::run(&[&["disk"], args].concat());
    let (_, listed, _) = command(&["list", &path]);
    assert!(listed.contains(&format!(" {} ", 20 * SIZE + 5)), "{listed}");
    let (done, checked, _) = command(&["check", &path]);
    assert!(done.success() && checked.starts_with("22 records"), "{checked}");
    let (done, dumped, _) = command(&["dump", &path, "http://site.test/file"]);
    assert!(done.success() && dumped.as_bytes() == content(1, 0, 20 * SIZE + 4));
    let larder = loaded(place.start(&origin, ALWAYS));
    let whole = get(larder.addr(), "/file");
    from_disk(&whole);
    assert!(whole.body == content(1, 0, 20 * SIZE + 4));
    assert_eq!((files.sent(), origin.count()), (20 * SIZE + 5, 21));
}

#[test]
fn slices_that_leave_memory_come_back() {
    let (place, files) = (Place::new(), Files::new(480 * SIZE));
    let origin = files.origin();
    let larder = loaded(place.start_with(&origin, "memory = \"16MiB\"", SITE));
    for number in (0..480).flat_map(|number| [number; 3]) {
        is(&slice(&larder, "/file", number), 1, number);
    }
    wait_until("slices are written", || figure(&larder, "slice_stores") > 100);
    let sent = files.sent();
    assert!(get(larder.addr(), "/file").body == content(1, 0, 480 * SIZE - 1));
    let (again, hits) = (files.sent() - sent, figure(&larder, "slice_hits"));
    assert!(hits > 50, "{hits} hits of the disk, {again} bytes of the origin");
    // Without a stop, the map and what was written are there.
    kill(larder);
    let larder = loaded(place.start_with(&origin, "memory = \"16MiB\"", SITE));
    let sent = files.sent();
    assert!(get(larder.addr(), "/file").body == content(1, 0, 480 * SIZE - 1));
    assert!(files.sent() < sent + 460 * SIZE, "{} bytes", files.sent() - sent);
}

#[test]
fn slices_of_another_version_are_not_used() {
    let (place, files) = (Place::new(), Files::new(8 * SIZE));
    let origin = files.origin();
    let larder = loaded(place.start(&origin, ALWAYS));
    for number in [0, 1, 2] {
        slice(&larder, "/file", number);
    }
    wait_until("they are written", || figure(&larder, "entries") == 4);
    kill(larder);
    files.version.store(2, SeqCst);
    let larder = loaded(place.start(&origin, ALWAYS));
    let first = slice(&larder, "/file", 0);
    is(&first, 1, 0);
    from_disk(&first);
    // This one shows that the file is another one now.
    is(&slice(&larder, "/file", 5), 2, 5);
    for number in [0, 1, 2, 5] {
        is(&slice(&larder, "/file", number), 2, number);
    }
    // The new map has the place of the old one, whose slices are of no use.
    wait_until("they are written", || {
        figure(&larder, "slice_stores") == 4 && figure(&larder, "entries") == 8
    });
    stop(larder);
    let larder = loaded(place.start(&origin, ALWAYS));
    for number in [0, 1, 2, 5, 7] {
        is(&slice(&larder, "/file", number), 2, number);
    }
    assert!(get(larder.addr(), "/file").body == content(2, 0, 8 * SIZE - 1));
}

#[test]
fn purges_mean_all_slices() {
    let (place, files) = (Place::new(), Files::new(4 * SIZE));
    let origin = files.origin();
    let all = ["/url", "/below/a", "/ban/a", "/kept"];
    let larder = loaded(place.start(&origin, ALWAYS));
    for target in all {
        get(larder.addr(), target).assert_status(200);
    }
    wait_until("they are written", || figure(&larder, "entries") == 20);
    kill(larder);
    // Some are on the disk alone.
    let larder = loaded(place.start(&origin, ALWAYS));
    for target in ["/url", "/kept"] {
        from_disk(&slice(&larder, target, 1));
    }
    purge(&larder, "/url", &[]).assert_status(200);
    // Nothing of it is in memory.
    purge(&larder, "/below/", &["Larder-Purge: prefix"]).assert_status(404);
    Admin::of(&larder).purge(&serde_json::json!({ "ban": "url ~ \"^/ban/\"" }));
    kill(larder);
    files.version.store(2, SeqCst);
    let larder = loaded(place.start(&origin, ALWAYS));
    from_disk(&slice(&larder, "/kept", 2));
    for target in &all[..3] {
        for number in [1, 0, 2, 3] {
            is(&slice(&larder, target, number), 2, number);
        }
    }
    purge(&larder, "/", &["Larder-Purge: tag", "Surrogate-Key: red"]);
    files.version.store(3, SeqCst);
    kill(larder);
    let larder = loaded(place.start(&origin, ALWAYS));
    for target in all {
        assert!(get(larder.addr(), target).body == content(3, 0, 4 * SIZE - 1), "{target}");
    }
}

#[test]
fn slices_of_forbidden_pages_stay_in_memory() {
    let (place, files) = (Place::new(), Files::new(3 * SIZE));
    let origin = files.origin();
    let rule = "slice = \"64KiB\"\n[[site.rule]]\npath = \"/never/*\"\ndisk = \"never\"\n";
    let larder = loaded(place.start(&origin, rule));
    for target in ["/never/file", "/never/file", "/file", "/file"] {
        get(larder.addr(), target).assert_status(200);
    }
    stop(larder);
    assert!(place.holds(b"/file") && !place.holds(b"/never/file"));
    let larder = loaded(place.start(&origin, rule));
    assert_eq!(figure(&larder, "loaded"), 4, "a map and three slices");
}

/// A 304 says that the page is private from now on, which the operator has kept all the same.
#[test]
fn slices_of_a_page_that_becomes_private_stay_off_the_disk() {
    let place = Place::new();
    let origin = Origin::start(|seen, reply| {
        let private = seen.number >= 2;
        let control = ["Cache-Control: max-age=6000", "Cache-Control: private, max-age=6000"];
        let fields = [control[usize::from(private)], "ETag: \"v1\""];
        if seen.get("if-none-match").is_some() {
            reply.head(304, &fields);
            return;
        }
        let first = if seen.get("range").is_some_and(|r| r.contains("=0-")) { 0 } else { SIZE };
        let part = format!("Content-Range: bytes {first}-{}/{}", first + SIZE - 1, 2 * SIZE);
        let [control, tag] = fields;
        reply.answer(206, &[control, tag, &part], content(1, first, first + SIZE - 1));
    });
    let larder = loaded(place.start(&origin, "slice = \"64KiB\"\ncache = true\nttl = \"1h\""));
    for number in [0, 1, 0, 1] {
        is(&slice(&larder, "/file", number), 1, number);
    }
    assert_eq!(origin.count(), 2);
    let fields = ["Range: bytes=0-99", "Cache-Control: no-cache"];
    is(&get_with(larder.addr(), "/file", &fields), 1, 0);
    for number in [0, 1, 0, 1] {
        is(&slice(&larder, "/file", number), 1, number);
    }
    stop(larder);
    for first in [0, SIZE] {
        assert!(!place.holds(&content(1, first, first + 63)), "{first}");
    }
}

#[test]
fn damaged_slices_are_fetched_again() {
    let (place, files) = (Place::new(), Files::new(4 * SIZE));
    let origin = files.origin();
    let larder = loaded(place.start(&origin, ALWAYS));
    get(larder.addr(), "/file").assert_status(200);
    wait_until("they are written", || figure(&larder, "entries") == 5);
    kill(larder);
    let found = content(1, 2 * SIZE, 2 * SIZE + 31);
    assert_eq!(place.damage(&found), 1);
    let larder = loaded(place.start(&origin, ALWAYS));
    let sent = files.sent();
    assert!(get(larder.addr(), "/file").body == content(1, 0, 4 * SIZE - 1));
    assert_eq!(files.sent() - sent, SIZE);
    assert_eq!(figure(&larder, "damaged"), 1);
}
