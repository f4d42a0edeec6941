//! The disk tier: pages that leave memory come back, also after a stop and a kill; purged ones do
//! not.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Answer, Larder, Origin, Scratch, get, get_with, wait_for, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const FRESH: &[&str] = &["Cache-Control: max-age=6000"];
const HTML: &[&str] = &["Cache-Control: max-age=6000", "Content-Type: text/html"];

/// Answers with the target and a body of that length that only it has.
fn body(target: &str, length: usize) -> Vec<u8> {
    let mut body = target.as_bytes().to_vec();
    while body.len() < length {
        let word = rapid(body.len() as u64 + target.len() as u64 * 7919);
        body.extend_from_slice(&word.to_le_bytes());
    }
    body.truncate(length.max(target.len()));
    body
}

fn rapid(n: u64) -> u64 {
    (n ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29)
}

/// A directory for a disk that outlives its Larders.
pub(crate) struct Place(Scratch);

impl Place {
    pub(crate) fn new() -> Place {
        Place(Scratch::new("disk"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.file("disk")
    }

    pub(crate) fn start(&self, origin: &Origin, lines: &str) -> Larder {
        self.start_with(origin, "", lines)
    }

    /// `top`: further lines before the first table.
    pub(crate) fn start_with(&self, origin: &Origin, top: &str, lines: &str) -> Larder {
        Larder::with_config(&format!(
            "{top}\n[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[disk]\npath = \"{}\"\nsize = \"64MiB\"\n\
             patience = \"10s\"\n[[site]]\norigin = \"{}\"\npurge = {{ from = [\"127.0.0.1\"] }}\n\
             {lines}\n",
            self.path().display(),
            origin.url(),
        ))
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "segment")).collect()
    }

    /// Whether these bytes are anywhere on the disk.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        self.segments()
            .iter()
            .any(|path| fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes))
    }

    /// Changes a byte wherever these are on the disk. In how many places.
    pub(crate) fn damage(&self, bytes: &[u8]) -> usize {
        let mut changed = 0;
        for path in self.segments() {
            let mut data = fs::read(&path).unwrap();
            let places: Vec<usize> = (0..data.len().saturating_sub(bytes.len()))
                .filter(|at| data[*at..].starts_with(bytes))
                .collect();
            places.iter().for_each(|at| data[*at] ^= 1);
            changed += places.len();
            fs::write(&path, data).unwrap();
        }
        changed
    }
}

pub(crate) fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["disk"][name].as_u64().unwrap()
}

pub(crate) fn stop(mut larder: Larder) {
    larder.term();
    assert!(larder.wait_exit().success(), "{}", larder.stderr());
}

pub(crate) fn kill(mut larder: Larder) {
    let pid = rustix::process::Pid::from_raw(larder.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    larder.wait_exit();
}

/// Waits until the index has been filled.
pub(crate) fn loaded(larder: Larder) -> Larder {
    wait_until("the index is filled", || figure(&larder, "load_ms") > 0);
    larder
}

pub(crate) fn purge(larder: &Larder, target: &str, fields: &[&str]) -> Answer {
    let answer = larder.connect().ask("PURGE", target, &[&["Host: site.test"], fields].concat());
    assert!(!String::from_utf8_lossy(&answer.body).contains("\"disk\":false"), "{answer:?}");
    answer
}

#[track_caller]
fn from_disk(larder: &Larder, target: &str) -> Answer {
    let answer = get(larder.addr(), target);
    assert!(answer.is_hit() && answer.cache_status_has("detail=disk"), "{answer:?}");
    answer
}

fn serving(length: usize, fields: &'static [&'static str]) -> Origin {
    Origin::start(move |seen, reply| {
        reply.ok(fields, body(&seen.target, length));
    })
}

/// A page that is kept in one coding alone lies on the disk so, and comes back for every client.
#[test]
fn a_page_in_one_coding_is_there_after_a_stop() {
    let text = "<p>a line of a page with many words in it</p>\n".repeat(500);
    let content = text.clone();
    let origin = Origin::start(move |_, reply| {
        reply.ok(HTML, &content);
    });
    let place = Place::new();
    let lines = "compress = [\"br\"]\nstore_forms = \"one\"";
    let larder = loaded(place.start(&origin, lines));
    let ask = |larder: &Larder, accept: &str| {
        get_with(larder.addr(), "/page", &[&format!("Accept-Encoding: {accept}")])
    };
    let coded = wait_for("the page in br", || {
        Some(ask(&larder, "br")).filter(|answer| answer.get("content-encoding") == Some("br"))
    });
    stop(larder);
    assert!(place.holds(&coded.body) && !place.holds(b"with many words"));
    for accept in ["br", "identity"] {
        let larder = loaded(place.start(&origin, lines));
        let first = ask(&larder, accept);
        assert!(first.is_hit() && first.cache_status_has("detail=disk"), "{first:?}");
        for (taken, coding) in [(accept, first), ("br", ask(&larder, "br"))] {
            let plain = taken == "identity";
            let expected = if plain { text.as_bytes() } else { &coded.body[..] };
            assert!(coding.body == expected, "{taken}");
            assert_eq!(coding.get("content-encoding"), (!plain).then_some("br"));
        }
        assert!(ask(&larder, "identity").assert_hit().text() == text);
        stop(larder);
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn pages_asked_for_twice_are_there_after_a_stop() {
    let (place, origin) = (Place::new(), serving(5_000, FRESH));
    let larder = loaded(place.start(&origin, ""));
    for target in ["/twice", "/large"] {
        get(larder.addr(), target);
        get(larder.addr(), target).assert_hit();
    }
    get(larder.addr(), "/once");
    stop(larder);
    let asked = origin.count();
    let larder = loaded(place.start(&origin, ""));
    assert_eq!(from_disk(&larder, "/twice").body, body("/twice", 5_000));
    get(larder.addr(), "/twice").assert_hit();
    assert_eq!(origin.count(), asked);
    get(larder.addr(), "/once").assert_forwarded();
    assert_eq!(figure(&larder, "hits"), 1);
}

#[test]
fn pages_by_rule_are_there_after_a_kill() {
    let (place, origin) = (Place::new(), serving(300_000, FRESH));
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    let first = get(larder.addr(), "/page");
    wait_until("it is written", || figure(&larder, "entries") == 1);
    kill(larder);
    let larder = loaded(place.start(&origin, ""));
    assert_eq!(from_disk(&larder, "/page").body, first.body);
    assert_eq!(origin.count(), 1);
}

#[test]
fn pages_that_leave_memory_come_back() {
    let (place, origin) = (Place::new(), serving(20_000, FRESH));
    let larder = loaded(place.start_with(&origin, "memory = \"16MiB\"", ""));
    let target = |n: u32| format!("/page/{n}");
    for n in 0..1500 {
        for _ in 0..3 {
            assert_eq!(get(larder.addr(), &target(n)).body, body(&target(n), 20_000));
        }
    }
    wait_until("pages are written", || figure(&larder, "entries") > 300);
    let asked = origin.count();
    for n in 0..1500 {
        assert_eq!(get(larder.addr(), &target(n)).body, body(&target(n), 20_000));
    }
    let again = origin.count() - asked;
    let hits = figure(&larder, "hits");
    assert!(hits > 300, "{hits} hits of the disk, {again} times the origin");
}

#[test]
fn purged_pages_do_not_come_back() {
    let place = Place::new();
    let tagged: &[&str] = &["Cache-Control: max-age=6000", "Surrogate-Key: red blue"];
    let origin = serving(1_000, tagged);
    let rule = "disk = \"always\"";
    let larder = loaded(place.start(&origin, rule));
    let all = ["/url", "/below/a", "/below/b", "/ban/a", "/kept"];
    for target in all {
        get(larder.addr(), target);
    }
    wait_until("they are written", || figure(&larder, "entries") == 5);
    purge(&larder, "/url", &[]).assert_status(200);
    purge(&larder, "/below/", &["Larder-Purge: prefix"]).assert_status(200);
    let ban = serde_json::json!({ "ban": "url ~ \"^/ban/\"" });
    assert_eq!(Admin::of(&larder).purge(&ban), 1);
    kill(larder);
    let larder = loaded(place.start(&origin, rule));
    let asked = origin.count();
    from_disk(&larder, "/kept");
    for target in &all[..4] {
        get(larder.addr(), target).assert_forwarded();
    }
    assert_eq!(origin.count(), asked + 4);
    // By a tag, when nothing of it is in memory.
    stop(larder);
    let larder = loaded(place.start(&origin, rule));
    purge(&larder, "/", &["Larder-Purge: tag", "Surrogate-Key: red"]);
    for target in all {
        get(larder.addr(), target).assert_forwarded();
    }
    kill(larder);
    let larder = loaded(place.start(&origin, rule));
    purge(&larder, "/kept", &[]);
    get(larder.addr(), "/kept").assert_forwarded();
}

#[test]
fn pages_purged_while_memory_has_them_do_not_come_back() {
    let (place, origin) = (Place::new(), serving(1_000, FRESH));
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    get(larder.addr(), "/soft");
    get(larder.addr(), "/gone");
    wait_until("they are written", || figure(&larder, "entries") == 2);
    purge(&larder, "/soft", &["Larder-Soft-Purge: 1"]).assert_status(200);
    purge(&larder, "/gone", &[]).assert_status(200);
    assert_eq!(figure(&larder, "entries"), 0);
    stop(larder);
    let larder = loaded(place.start(&origin, "disk = \"never\""));
    get(larder.addr(), "/soft").assert_forwarded();
    get(larder.addr(), "/gone").assert_forwarded();
}

#[test]
fn variants_are_found_by_their_marker() {
    let place = Place::new();
    let origin = Origin::start(|seen, reply| {
        let language = seen.get("x-language").unwrap_or("none");
        reply.ok(
            &["Cache-Control: max-age=6000", "Vary: X-Language"],
            format!("in {language} {}", "x".repeat(500)),
        );
    });
    let larder = loaded(place.start(&origin, ""));
    for language in ["X-Language: de", "X-Language: fr"] {
        for _ in 0..2 {
            get_with(larder.addr(), "/", &[language]);
        }
    }
    stop(larder);
    let larder = loaded(place.start(&origin, ""));
    for (field, word) in [("X-Language: fr", "in fr"), ("X-Language: de", "in de")] {
        let answer = get_with(larder.addr(), "/", &[field]);
        assert!(answer.text().starts_with(word) && answer.is_hit(), "{answer:?}");
    }
    assert_eq!(origin.count(), 2);
    get_with(larder.addr(), "/", &["X-Language: it"]).assert_forwarded();
    // A purge of the URL is one of all its variants.
    purge(&larder, "/", &[]).assert_status(200);
    kill(larder);
    let larder = loaded(place.start(&origin, ""));
    get_with(larder.addr(), "/", &["X-Language: de"]).assert_forwarded();
}

#[test]
fn private_pages_and_those_of_a_rule_never_touch_it() {
    let place = Place::new();
    let origin = Origin::start(|seen, reply| {
        let control = match &*seen.target {
            "/private" => "Cache-Control: private, max-age=6000",
            "/no-store" => "Cache-Control: no-store, max-age=6000",
            _ => "Cache-Control: max-age=6000",
        };
        reply.ok(&[control], format!("the secret of {}", seen.target));
    });
    let lines = "cache = true\nttl = \"1h\"\n\
                 [[site.rule]]\npath = \"/rule\"\ndisk = \"never\"\n\
                 [[site.rule]]\npath = \"/always\"\ndisk = \"always\"\n";
    let larder = loaded(place.start(&origin, lines));
    for target in ["/private", "/no-store", "/rule", "/always", "/plain"] {
        get(larder.addr(), target);
        get(larder.addr(), target).assert_hit();
    }
    stop(larder);
    for target in ["/private", "/no-store", "/rule"] {
        assert!(!place.holds(format!("the secret of {target}").as_bytes()), "{target}");
    }
    for target in ["/always", "/plain"] {
        assert!(place.holds(format!("the secret of {target}").as_bytes()), "{target}");
    }
    for entry in fs::read_dir(place.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_stale_page_from_the_disk_is_validated() {
    let place = Place::new();
    let origin = Origin::start(|seen, reply| match seen.get("if-none-match") {
        Some("\"v1\"") => {
            reply.head(304, &["Cache-Control: max-age=6000", "ETag: \"v1\""]);
        }
        _ => {
            let fields = &["Cache-Control: max-age=10", "Age: 20", "ETag: \"v1\""];
            reply.ok(fields, "the page");
        }
    });
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    get(larder.addr(), "/");
    wait_until("it is written", || figure(&larder, "entries") == 1);
    kill(larder);
    let larder = loaded(place.start(&origin, ""));
    let answer = get(larder.addr(), "/");
    assert_eq!(answer.text(), "the page");
    assert!(answer.cache_status_has("fwd-status=304"), "{answer:?}");
    assert_eq!(origin.count(), 2);
}

#[test]
fn damaged_files_are_a_miss() {
    let (place, origin) = (Place::new(), serving(50_000, FRESH));
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    for n in 0..20 {
        get(larder.addr(), &format!("/{n}"));
    }
    wait_until("they are written", || figure(&larder, "entries") == 20);
    stop(larder);
    for path in place.segments() {
        let mut bytes = fs::read(&path).unwrap();
        for at in (3_000..bytes.len()).step_by(40_000) {
            bytes[at] ^= 0x10;
        }
        fs::write(path, bytes).unwrap();
    }
    let larder = loaded(place.start(&origin, ""));
    for n in 0..20 {
        let target = format!("/{n}");
        assert_eq!(get(larder.addr(), &target).assert_status(200).body, body(&target, 50_000));
    }
    assert!(figure(&larder, "damaged") > 0);
}

#[test]
fn a_disk_that_cannot_be_used_stops_nothing() {
    let place = Place::new();
    place.0.write("disk", "a file in the way");
    let origin = serving(1_000, FRESH);
    let larder = place.start(&origin, "");
    get(larder.addr(), "/");
    get(larder.addr(), "/").assert_hit();
    assert_eq!(figure(&larder, "up"), 0);
    assert_eq!(larder.stderr().matches("cannot be opened").count(), 1, "{}", larder.stderr());
    // Its pages are not known: no purge is safe from a restart.
    let purged = larder.connect().ask("PURGE", "/", &["Host: site.test"]);
    assert!(purged.text().contains("\"disk\":false"), "{purged:?}");
}

#[test]
fn two_larders_do_not_share_a_directory() {
    let (place, origin) = (Place::new(), serving(1_000, FRESH));
    let first = loaded(place.start(&origin, ""));
    let second = place.start(&origin, "");
    assert_eq!((figure(&first, "up"), figure(&second, "up")), (1, 0));
    assert!(second.stderr().contains("another Larder uses it"), "{}", second.stderr());
}

#[test]
fn a_page_fetched_anew_covers_the_one_on_the_disk() {
    let place = Place::new();
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=6000"], format!("version {}", seen.number));
    });
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    assert_eq!(get(larder.addr(), "/").text(), "version 0");
    wait_until("it is written", || figure(&larder, "entries") == 1);
    let reload = get_with(larder.addr(), "/", &["Cache-Control: no-cache"]);
    assert_eq!(reload.text(), "version 1");
    wait_until("the new one is written", || figure(&larder, "stores") == 2);
    stop(larder);
    let larder = loaded(place.start(&origin, ""));
    assert_eq!(get(larder.addr(), "/").text(), "version 1");
}

/// Runs `larder disk` with these arguments.
fn disk(args: &[&str]) -> (bool, String, String) {
    let (status, out, err) = larder_tests::larder::run(&[&["disk"], args].concat());
    (status.success(), out, err)
}

#[test]
fn the_command_shows_checks_dumps_and_empties() {
    let (place, origin) = (Place::new(), serving(9_000, FRESH));
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    for target in ["/a?x=1", "/b", "/purged"] {
        get(larder.addr(), target);
    }
    wait_until("they are written", || figure(&larder, "entries") == 3);
    purge(&larder, "/purged", &[]).assert_status(200);
    let path = place.path().display().to_string();
    let host = "http://site.test";
    // While it is in use.
    let (_, listed, _) = disk(&["list", &path]);
    let mut urls: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    urls.sort_unstable();
    assert_eq!(urls, [format!("{host}/a?x=1"), format!("{host}/b")], "{listed}");
    assert!(listed.contains(" 9000  200 "), "{listed}");
    let (done, checked, _) = disk(&["check", &path]);
    assert!(done && checked.contains("0 damaged"), "{checked}");
    let (done, dumped, _) = disk(&["dump", &path, &format!("{host}/b"), "--head"]);
    assert!(done && dumped.starts_with("HTTP/1.1 200 OK\r\n"), "{dumped}");
    let (done, _, why) = disk(&["dump", &path, &format!("{host}/purged")]);
    assert!(!done && why.contains("is not on the disk"), "{why}");
    let (done, _, why) = disk(&["empty", &path]);
    assert!(!done && why.contains("a Larder uses it"), "{why}");
    stop(larder);
    let file = place.segments().remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(2).position(|window| window == b"/b").unwrap();
    bytes[at + 5_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (done, checked, _) = disk(&["check", &path]);
    assert!(!done && checked.contains("1 damaged"), "{checked}");
    let (done, ..) = disk(&["empty", &path]);
    assert!(done && place.segments().is_empty());
    let (done, _, why) = disk(&["list", &path]);
    assert!(!done && why.contains("there is no disk"), "{why}");
}

/// The newer page is in memory alone and nobody asks for it again.
#[test]
fn a_page_that_was_replaced_does_not_come_back() {
    let place = Place::new();
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=6000"], format!("version {}", seen.number));
    });
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    get(larder.addr(), "/");
    wait_until("it is written", || figure(&larder, "entries") == 1);
    stop(larder);
    let larder = loaded(place.start(&origin, ""));
    let reload = get_with(larder.addr(), "/", &["Cache-Control: no-cache"]);
    assert_eq!(reload.text(), "version 1");
    stop(larder);
    let larder = loaded(place.start(&origin, ""));
    assert_eq!(get(larder.addr(), "/").text(), "version 2");
}

#[test]
fn a_page_that_a_304_makes_private_stays_off_it() {
    let place = Place::new();
    let origin = Origin::start(|seen, reply| match seen.get("if-none-match") {
        Some(_) => {
            reply.head(304, &["Cache-Control: private, max-age=6000", "ETag: \"v1\""]);
        }
        None => {
            reply.ok(&["Cache-Control: max-age=6000", "ETag: \"v1\""], "the secret of one");
        }
    });
    let larder = loaded(place.start(&origin, "cache = true\nttl = \"1h\""));
    get(larder.addr(), "/");
    let again = get_with(larder.addr(), "/", &["Cache-Control: no-cache"]);
    assert!(again.cache_status_has("fwd-status=304"), "{again:?}");
    get(larder.addr(), "/").assert_hit();
    stop(larder);
    assert!(!place.holds(b"the secret of one"));
}
