//! The dashboard in a browser (Debian's Chromium, playwright-core) against the real binary under
//! load.
//!
//! The scripts are in tests/dashboard; each asserts by itself and ends with `ok`. Here they get a
//! Larder, an origin and what only the outside can do: end the server and bring it back.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::{free_port, source_root};
use larder_tests::{Admin, Larder, Origin, Scratch, wait_for};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Our part of npm.
fn room() -> PathBuf {
    let room = source_root().join("tests/dashboard");
    assert!(room.join("node_modules").is_dir(), "not installed: run scripts/test-deps.sh");
    room
}

pub(super) fn node(args: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.args(args).current_dir(room()).stdin(Stdio::null());
    command
}

/// Runs it to its end.
#[track_caller]
pub(super) fn succeeds(mut command: Command) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}

/// An origin whose pages may be stored, but for those under `/api/`.
fn origin() -> Origin {
    Origin::start(|seen, reply| {
        if seen.target.starts_with("/api/") {
            reply.ok(&["Cache-Control: private"], "private");
        } else if seen.target == "/kept" {
            reply.ok(&["Cache-Control: max-age=600", "Surrogate-Key: tag-of-kept"], "kept");
        } else {
            reply.ok(&["Cache-Control: max-age=600", "Content-Type: text/html"], "<p>page</p>");
        }
    })
}

/// Larder with its admin interface at `admin`.
fn larder(origin: &Origin, admin: &str) -> Larder {
    let site = "hosts = [\"wiki.example.org\"]";
    let rule = "[[site.rule]]\npath = \"/api/*\"\npass = true";
    Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = [\"{admin}\"]\n[[site]]\norigin = \"http://{}\"\n{site}\n{rule}\n",
        origin.addr()
    ))
}

/// Where the dashboard is, with the token, as it is printed.
pub(super) fn dashboard(larder: &Larder) -> String {
    wait_for("the line of the admin interface", || {
        larder
            .stderr()
            .lines()
            .find_map(|line| line.strip_prefix("larder: admin at ").map(str::to_owned))
    })
}

/// Runs a script against a Larder of its own; it gets the dashboard's address and that of the HTTP
/// face.
#[track_caller]
fn script(name: &str, with_token: bool) {
    let origin = origin();
    let larder = larder(&origin, "127.0.0.1:0");
    let printed = dashboard(&larder);
    let admin = if with_token { printed.as_str() } else { printed.split('#').next().unwrap() };
    succeeds(node(&[name, admin, &format!("http://{}", larder.addr())]));
}

#[test]
fn what_is_committed_is_what_the_source_gives() {
    succeeds(node(&["node_modules/typescript/bin/tsc", "--project", "tsconfig.json"]));
    let built = Scratch::new("dashboard");
    succeeds(node(&["build.mjs", built.path().to_str().unwrap()]));
    let committed = source_root().join("crates/server/src/admin/web/dist");
    let names = |dir: &std::path::Path| {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(built.path()), names(&committed));
    for name in names(&committed) {
        let same =
            fs::read(built.path().join(&name)).unwrap() == fs::read(committed.join(&name)).unwrap();
        assert!(
            same,
            "{name:?} is not what the source gives: run `npm run build` in tests/dashboard"
        );
    }
}

#[test]
fn advice_names_sections_that_are_there() {
    let hints =
        fs::read_to_string(source_root().join("crates/server/src/admin/web/src/hints.ts")).unwrap();
    let named: Vec<&str> = hints
        .lines()
        .filter_map(|line| line.trim().strip_prefix("docs: '")?.strip_suffix("',"))
        .collect();
    assert!(named.len() >= 8, "{named:?}");
    let origin = origin();
    let larder = larder(&origin, "127.0.0.1:0");
    let admin = Admin::of(&larder);
    for name in named {
        let (file, section) = name.split_once(", ").unwrap_or((name, ""));
        let text = fs::read_to_string(source_root().join(file)).unwrap_or_default();
        assert!(!text.is_empty(), "{file} is not there");
        let heading = format!("## {}", section.trim_matches(['“', '”']));
        assert!(
            section.is_empty() || text.lines().any(|line| line == heading),
            "{file} has no {heading:?}"
        );
        // The server serves it, and the section has the anchor that the dashboard links to.
        let page = admin.get(&format!("/{file}"));
        let page = page.assert_status(200).text().to_owned();
        let kept = |c: &char| c.is_ascii_alphanumeric() || [' ', '-', '_'].contains(c);
        let anchor: String = section.to_lowercase().chars().filter(kept).collect();
        let anchor = format!("id=\"{}\"", anchor.replace(' ', "-"));
        assert!(section.is_empty() || page.contains(&anchor), "{file} has no {anchor}");
    }
    assert_eq!(admin.get("/docs/none.md").status, 404);
}

#[test]
fn numbers_agree_with_the_metrics_and_with_the_load() {
    script("numbers.mjs", false);
}

#[test]
fn the_purge_box_purges() {
    script("purge.mjs", true);
}

#[test]
fn urls_that_are_markup_stay_text() {
    script("hostile.mjs", false);
}

#[test]
fn everything_can_be_done_by_keyboard_and_fits_a_phone() {
    script("keyboard.mjs", false);
}

#[test]
fn axe_core_finds_nothing_to_complain_of() {
    script("axe.mjs", false);
}

/// With LARDER_PICTURES, the pictures are those of docs/images; LARDER_PICTURES_SECONDS says of how
/// many seconds.
#[test]
fn what_is_seen_at_three_widths() {
    let origin = origin();
    let larder = larder(&origin, "127.0.0.1:0");
    let scratch = Scratch::new("pictures");
    let out = match std::env::var_os("LARDER_PICTURES") {
        Some(_) => source_root().join("docs/images"),
        None => scratch.path().to_owned(),
    };
    let admin = dashboard(&larder);
    let admin = admin.split('#').next().unwrap();
    let http = format!("http://{}", larder.addr());
    succeeds(node(&["pictures.mjs", admin, &http, out.to_str().unwrap()]));
}

/// A script that is waited for, killed if the test fails before.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_larder_that_is_gone_is_noticed_and_found_again() {
    let origin = origin();
    let admin = format!("127.0.0.1:{}", free_port());
    let first = larder(&origin, &admin);
    dashboard(&first);
    let mut running = Running(
        node(&["disconnect.mjs", &format!("http://{admin}/")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "lose");
    drop(first);
    assert_eq!(lines.next().unwrap().unwrap(), "back");
    let _second = larder(&origin, &admin);
    assert_eq!(lines.next().unwrap().unwrap(), "ok");
    assert!(running.0.wait().unwrap().success());
}
