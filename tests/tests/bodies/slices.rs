//! Large pages in slices: each is fetched once, whatever ranges clients ask for, and none of another
//! version is mixed in.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use larder_tests::{Admin, Answer, Gate, Larder, Origin, Reply, Seen, get, get_with, wait_until};

const SIZE: usize = 64 << 10;
const SITE: &str = "slice = \"64KiB\"\npurge = { from = [\"127.0.0.1\"] }";

/// Content of which each part is known by its place and its version.
fn content(length: usize, version: u64) -> Vec<u8> {
    let line = |n: usize| format!("{version:07}:{n:07}\n");
    (0..length.div_ceil(16)).flat_map(|n| line(n).into_bytes()).take(length).collect()
}

/// A file of an origin that knows ranges, conditions and its version.
struct File {
    length: usize,
    /// Of its versions, from the first on.
    contents: Vec<Vec<u8>>,
    version: AtomicU64,
    /// Bytes of content sent.
    sent: AtomicUsize,
}

impl File {
    fn new(length: usize) -> Arc<Self> {
        let contents = (1..=3).map(|version| content(length, version)).collect();
        let (version, sent) = (AtomicU64::new(1), AtomicUsize::new(0));
        Arc::new(Self { length, contents, version, sent })
    }

    fn answer(&self, seen: &Seen, reply: &mut Reply, lifetime: &str) {
        let version = self.version.load(Relaxed);
        let tag = format!("\"v{version}\"");
        let fields = [format!("ETag: {tag}"), format!("Cache-Control: {lifetime}")];
        let mut fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        if seen.get("if-none-match") == Some(&tag) {
            reply.head(304, &fields);
            return;
        }
        let all = &self.contents[version as usize - 1];
        let range = seen.get("range").filter(|_| seen.get("if-range").is_none_or(|t| t == tag));
        let Some(range) = range.and_then(|range| range.strip_prefix("bytes=")) else {
            self.sent.fetch_add(all.len(), Relaxed);
            reply.ok(&fields, all);
            return;
        };
        let (first, last) = range.split_once('-').unwrap();
        let first: usize = first.parse().unwrap();
        let last = last.parse().unwrap_or(usize::MAX).min(self.length.saturating_sub(1));
        let place = match first < self.length {
            true => format!("Content-Range: bytes {first}-{last}/{}", self.length),
            false => format!("Content-Range: bytes */{}", self.length),
        };
        fields.push(&place);
        if first >= self.length {
            reply.answer(416, &fields, "");
            return;
        }
        self.sent.fetch_add(last + 1 - first, Relaxed);
        reply.answer(206, &fields, &all[first..=last]);
    }
}

fn serve(file: &Arc<File>, lifetime: &'static str) -> Origin {
    let file = file.clone();
    Origin::start(move |seen, reply| file.answer(seen, reply, lifetime))
}

fn range(larder: &Larder, range: &str) -> Answer {
    get_with(larder.addr(), "/file", &[&format!("Range: bytes={range}")])
}

#[test]
fn a_range_costs_the_slices_that_it_touches() {
    let file = File::new(40 * SIZE + 100);
    let (origin, total) = (serve(&file, "max-age=60"), file.length);
    let larder = Larder::site(&origin.url(), SITE);
    let all = content(total, 1);
    let first = range(&larder, "200000-200009");
    assert_eq!((first.status, &first.body[..]), (206, &all[200_000..200_010]));
    assert_eq!(first.get("content-range"), Some(format!("bytes 200000-200009/{total}").as_str()));
    assert_eq!(file.sent.load(Relaxed), SIZE);
    // The slice has its neighbours' bytes too.
    range(&larder, "196608-262143").assert_status(206);
    assert_eq!((file.sent.load(Relaxed), origin.count()), (SIZE, 1));
    for (asked, from, to) in [
        ("0-0", 0, 1),
        ("65535-65536", SIZE - 1, SIZE + 1),
        ("-50", total - 50, total),
        ("65000-700000", 65_000, 700_001),
    ] {
        for hit in [false, true] {
            let answer = range(&larder, asked);
            assert!(answer.status == 206 && answer.body == all[from..to], "{asked}");
            if hit {
                assert!(answer.is_hit(), "{asked}: {answer:?}");
            }
        }
    }
    let several = range(&larder, "0-3,1000000-1000003,2000000-2000003");
    assert_eq!(several.status, 206);
    assert!(several.text().contains(std::str::from_utf8(&all[2_000_000..2_000_004]).unwrap()));
    let beyond = range(&larder, &format!("{total}-"));
    assert_eq!(beyond.status, 416);
    // The whole costs what is missing.
    let whole = get(larder.addr(), "/file");
    assert!(whole.status == 200 && whole.body == all);
    assert_eq!(whole.get("content-length"), Some(total.to_string().as_str()));
    assert_eq!(file.sent.load(Relaxed), total, "each byte once");
    let head = larder.connect().ask("HEAD", "/file", &["Host: site.test"]);
    assert_eq!(head.get("content-length"), Some(total.to_string().as_str()));
    let same = get_with(larder.addr(), "/file", &["If-None-Match: \"v1\""]);
    assert_eq!(same.status, 304);
}

/// The request that brings the map and a slice is a miss, whatever is in memory then; a field about
/// the bytes of the slice is none of the page's.
/// Only pages of a type with markup are put together of parts.
#[test]
fn files_are_in_slices_where_markup_is_looked_for() {
    let file = File::new(40 * SIZE);
    let origin = {
        let file = file.clone();
        Origin::start(move |seen, reply| match seen.path() {
            "/page" => {
                let fields =
                    ["Content-Type: text/html", "ETag: \"a\"", "Cache-Control: max-age=60"];
                let body = "0123456789<esi:remove>x</esi:remove>rest";
                match seen.get("range") {
                    Some(_) => reply.answer(
                        206,
                        &[&fields[..], &["Content-Range: bytes 0-39/40"]].concat(),
                        body,
                    ),
                    None => reply.ok(&fields, body),
                };
            }
            _ => file.answer(seen, reply, "max-age=60"),
        })
    };
    let larder = Larder::site(&origin.url(), &format!("{SITE}\nesi = \"always\""));
    let first = range(&larder, "0-9");
    assert_eq!((first.status, &first.body[..]), (206, &content(10, 1)[..]));
    assert_eq!(file.sent.load(Relaxed), SIZE);
    for _ in 0..2 {
        let part = get_with(larder.addr(), "/page", &["Range: bytes=8-11"]);
        assert!(
            matches!((part.status, part.text()), (206, "89re") | (200, "0123456789rest")),
            "{part:?}"
        );
    }
    assert_eq!(get(larder.addr(), "/page").text(), "0123456789rest");
}

#[test]
fn the_first_answer_of_a_page_in_slices_is_a_miss() {
    let origin = Origin::start({
        let all = content(3 * SIZE, 1);
        move |seen, reply| {
            let (first, last) = seen.get("range").unwrap()[6..].split_once('-').unwrap();
            let first: usize = first.parse().unwrap();
            let last = last.parse::<usize>().unwrap().min(all.len() - 1);
            let place = format!("Content-Range: bytes {first}-{last}/{}", all.len());
            let fields = [
                "Cache-Control: max-age=60",
                "ETag: \"v1\"",
                "Content-Digest: sha-256=:of the slice:",
                "Repr-Digest: sha-256=:of the whole:",
                &place,
            ];
            reply.answer(206, &fields, &all[first..=last]);
        }
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nhosts = \
         [\"site.test\"]\norigin = \"{}\"\n{SITE}\n",
        origin.url()
    ));
    let ask = |method: &str, target: &str, field: &str| {
        larder.connect().ask(method, target, &["Host: site.test", field])
    };
    for (method, target, field) in [
        ("GET", "/one", "Range: bytes=0-9"),
        ("HEAD", "/head", "Accept: */*"),
        ("GET", "/whole", "Accept: */*"),
    ] {
        let answer = ask(method, target, field);
        let said = answer.get("cache-status").unwrap();
        let told = said.contains("fwd=uri-miss; fwd-status=206") && said.contains("; stored");
        assert!(told && !said.contains("collapsed"), "{target}: {said}");
        assert_eq!(answer.get("x-cache").map(|told| told.contains("HIT")), Some(false), "{said}");
        assert_eq!(answer.get("content-digest"), None);
        assert_eq!(answer.get("repr-digest"), Some("sha-256=:of the whole:"));
        let again = ask(method, target, field);
        assert!(again.is_hit() && again.get("content-digest").is_none(), "{again:?}");
    }
    let other = ask("GET", "/one", "Range: bytes=70000-70009");
    assert!(other.cache_status_has("fwd=partial"), "{other:?}");
    let admin = Admin::of(&larder);
    let requests = |result: &str| {
        admin.metric(&format!(
            "larder_http_requests_total{{site=\"site.test\",result=\"{result}\"}}"
        ))
    };
    // The last one is counted when it has been sent.
    wait_until("the last request to be counted", || requests("miss") == 4);
    assert_eq!((requests("hit"), requests("coalesced")), (3, 0));
}

#[test]
fn many_clients_at_random_places_cost_each_byte_once() {
    let file = File::new(60 * SIZE + 1);
    let (origin, total) = (serve(&file, "max-age=60"), file.length);
    let larder = Larder::site(&origin.url(), SITE);
    let all = content(total, 1);
    std::thread::scope(|scope| {
        for client in 0..8_u64 {
            let (larder, all) = (&larder, &all);
            scope.spawn(move || {
                let mut state = client.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut random = |below: usize| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) as usize % below
                };
                for _ in 0..40 {
                    let first = random(total);
                    let last = (first + random(3 * SIZE)).min(total - 1);
                    let answer = range(larder, &format!("{first}-{last}"));
                    assert!(answer.status == 206 && answer.body == all[first..=last]);
                }
            });
        }
    });
    assert!(get(larder.addr(), "/file").body == all);
    assert_eq!(file.sent.load(Relaxed), total);
}

#[test]
fn a_version_is_never_mixed_with_another() {
    let file = File::new(4 * SIZE);
    let origin = serve(&file, "max-age=60");
    let larder = Larder::site(&origin.url(), SITE);
    assert!(range(&larder, "0-9").body == content(10, 1));
    file.version.store(2, Relaxed);
    // A slice that is missing shows that the page has changed: nothing of the old one is left.
    let answer = range(&larder, "65536-65551");
    assert!(answer.status == 206 && answer.body == content(4 * SIZE, 2)[SIZE..SIZE + 16]);
    assert_eq!(answer.get("etag"), Some("\"v2\""));
    assert!(range(&larder, "0-15").body == content(16, 2));
    // In the middle of an answer there is no way back: it ends.
    file.version.store(3, Relaxed);
    let mut client = larder.connect();
    client.send_get("/file", &["Host: site.test"]);
    let head = client.read_head();
    assert_eq!(head.fields.get("etag"), Some("\"v2\""));
    let began = client.read_bytes(2 * SIZE);
    assert!(began == content(2 * SIZE, 2));
    client.expect_closed();
    assert!(get(larder.addr(), "/file").body == content(4 * SIZE, 3));
}

#[test]
fn a_page_in_slices_is_confirmed_and_purged_as_one() {
    let file = File::new(3 * SIZE);
    let origin = serve(&file, "max-age=0");
    let larder = Larder::site(&origin.url(), SITE);
    assert!(get(larder.addr(), "/file").body == content(3 * SIZE, 1));
    for _ in 0..2 {
        assert!(get(larder.addr(), "/file").body == content(3 * SIZE, 1));
        assert_eq!(origin.last().get("if-none-match"), Some("\"v1\""));
    }
    assert_eq!(file.sent.load(Relaxed), 3 * SIZE, "confirmed, not fetched again");
    file.version.store(2, Relaxed);
    assert!(range(&larder, "0-9").body == content(10, 2));
    assert_eq!(file.sent.load(Relaxed), 4 * SIZE);
    let purged = larder.connect().ask("PURGE", "/file", &["Host: site.test"]);
    purged.assert_status(200);
    assert!(range(&larder, "0-9").body == content(10, 2));
    assert_eq!(file.sent.load(Relaxed), 5 * SIZE);
}

#[test]
fn clients_that_come_together_cause_one_request() {
    let (gate, file) = (Gate::closed(), File::new(2 * SIZE));
    let origin = Origin::start({
        let (gate, file) = (gate.clone(), file.clone());
        move |seen, reply| {
            gate.wait();
            file.answer(seen, reply, "max-age=60");
        }
    });
    let larder = Larder::site(&origin.url(), SITE);
    let mut clients: Vec<_> = (0..6)
        .map(|_| {
            let mut client = larder.connect();
            client.send_get("/file", &["Host: site.test", "Range: bytes=0-99"]);
            client
        })
        .collect();
    origin.wait_for(1);
    gate.open();
    for client in &mut clients {
        assert!(client.read().body == content(100, 1));
    }
    assert_eq!(file.sent.load(Relaxed), SIZE);
}

/// A body that is shorter than it says, and one that breaks off.
#[test]
fn a_slice_that_is_cut_is_not_kept() {
    let (file, cut) = (File::new(3 * SIZE), Arc::new(AtomicUsize::new(0)));
    let origin = Origin::start({
        let (file, cut) = (file.clone(), cut.clone());
        move |seen, reply| {
            let second = seen.get("range").is_some_and(|range| range.starts_with("bytes=65536-"));
            if second && cut.fetch_add(1, Relaxed) < 1 {
                let place = format!("Content-Range: bytes 65536-131071/{}", file.length);
                let length = format!("Content-Length: {SIZE}");
                reply.head(206, &["ETag: \"v1\"", "Cache-Control: max-age=60", &place, &length]);
                reply.raw("short").close();
                return;
            }
            file.answer(seen, reply, "max-age=60");
        }
    });
    let larder = Larder::site(&origin.url(), SITE);
    assert!(range(&larder, "0-9").body == content(10, 1));
    range(&larder, "65536-65545").assert_status(502);
    assert!(get(larder.addr(), "/file").body == content(3 * SIZE, 1));
}

#[test]
fn origins_that_know_no_ranges_are_served_as_without() {
    let origin = Origin::start(|seen, reply| match (seen.path(), seen.get("range")) {
        ("/ranges", _) => {
            reply.ok(&["Cache-Control: max-age=60", "ETag: \"x\""], "0123456789");
        }
        ("/empty", Some(_)) => {
            reply.answer(416, &["Content-Range: bytes */0"], "");
        }
        ("/empty", None) => {
            reply.ok(&["Cache-Control: max-age=60"], "");
        }
        // Without a strong tag nobody could tell the versions apart.
        (_, Some("bytes=2-3")) => {
            let fields = ["Content-Range: bytes 2-3/10", "Cache-Control: max-age=60"];
            reply.answer(206, &fields, "23");
        }
        (_, Some(_)) => {
            let fields = ["Content-Range: bytes 0-9/10", "Cache-Control: max-age=60"];
            reply.answer(206, &fields, "0123456789");
        }
        (_, None) => {
            reply.ok(&["Cache-Control: max-age=60"], "0123456789");
        }
    });
    let larder = Larder::site(&origin.url(), SITE);
    let ask = |target: &str| get_with(larder.addr(), target, &["Range: bytes=2-3"]);
    ask("/ranges");
    let answer = ask("/ranges");
    assert_eq!((answer.status, answer.text()), (206, "23"));
    assert_eq!(origin.count_of("/ranges"), 1);
    assert_eq!(get(larder.addr(), "/empty").assert_status(200).text(), "");
    let answer = ask("/untagged");
    assert_eq!((answer.status, answer.text()), (206, "23"));
    assert_eq!(get(larder.addr(), "/whole").assert_status(200).text(), "0123456789");
}
