//! The public test suite for HTTP caches (npm `http-cache-tests`) against the real binary.
//!
//! Every required test must pass but for those named, with a reason from the RFC, in
//! docs/conformance.md. What is named there must exist and must really fail, so that the list
//! cannot outlive its reasons. `LARDER_CACHE_SUITE_BASE` runs the suite against another server that
//! has `http://127.0.0.1:LARDER_CACHE_SUITE_ORIGIN_PORT` as its origin.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::{free_port, source_root};
use larder_tests::{Helper, Larder, Papers};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// One test of the suite.
struct Outcome {
    id: String,
    kind: String,
    verdict: String,
    detail: String,
}

impl Outcome {
    fn passed(&self) -> bool {
        self.verdict == "pass" || self.verdict == "yes"
    }
}

#[test]
fn every_required_test_passes_or_is_explained() {
    let room = source_root().join("tests/http-cache-tests");
    let suite = room.join("node_modules/http-cache-tests");
    assert!(suite.is_dir(), "the suite is not installed: run scripts/test-deps.sh");
    let port = std::env::var("LARDER_CACHE_SUITE_ORIGIN_PORT")
        .map_or_else(|_| free_port(), |p| p.parse().unwrap());
    let _origin = start_origin(&suite, port);
    let outcomes = match std::env::var("LARDER_CACHE_SUITE_BASE") {
        Ok(base) => run_suite(&room, &base, &[]),
        Err(_) => {
            let larder = Larder::before(&format!("http://127.0.0.1:{port}"));
            let base = format!("http://{}", larder.addr());
            let outcomes = run_suite(&room, &base, &[]);
            with_cookies_allowed(&room, port);
            with_compression(&room, port);
            same_over_http2(&room, port, &base, &outcomes);
            same_over_http3(&room, port, &base, &outcomes);
            outcomes
        }
    };
    assert!(outcomes.len() >= 340, "only {} tests ran", outcomes.len());
    print_scores(&outcomes);
    keep(&outcomes);
    let faults = faults(&outcomes, &excused());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn start_origin(suite: &Path, port: u16) -> Helper {
    let mut command = Command::new("node");
    command
        .arg("server/server.mjs")
        .current_dir(suite)
        .env("npm_config_protocol", "http")
        .env("npm_config_port", port.to_string())
        .env(
            "npm_config_pidfile",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache-suite-origin.pid"),
        );
    Helper::start(&mut command, "Listening on")
}

/// Tests that fail only because answers with cookies are not kept by default (docs/conformance.md).
const ABOUT_COOKIES: &[&str] =
    &["304-etag-update-response-Set-Cookie", "headers-store-Set-Cookie", "other-set-cookie"];

/// The whole suite with `allow_set_cookie`: the tests about cookies pass, and no other fails for it.
fn with_cookies_allowed(room: &Path, port: u16) {
    let larder = Larder::site(&format!("http://127.0.0.1:{port}"), "allow_set_cookie = true");
    let outcomes = run_suite(room, &format!("http://{}", larder.addr()), &[]);
    let about = |o: &&Outcome| ABOUT_COOKIES.contains(&o.id.as_str());
    assert_eq!(outcomes.iter().filter(about).count(), ABOUT_COOKIES.len());
    for o in outcomes.iter().filter(about) {
        assert!(o.passed(), "with allow_set_cookie: {} {}: {}", o.verdict, o.id, o.detail);
    }
    let excused = excused().into_iter().filter(|id| !ABOUT_COOKIES.contains(&id.as_str()));
    let faults = faults(&outcomes, &excused.collect());
    assert!(faults.is_empty(), "with allow_set_cookie: {}", faults.join("\n"));
}

/// The whole suite with pages that are kept in compressed forms, and with pages that are kept in
/// one alone: the same tests pass.
fn with_compression(room: &Path, port: u16) {
    for more in ["", "\nstore_forms = \"one\""] {
        let lines = format!("compress = [\"zstd\", \"br\", \"gzip\"]{more}");
        let larder = Larder::site(&format!("http://127.0.0.1:{port}"), &lines);
        let outcomes = run_suite(room, &format!("http://{}", larder.addr()), &[]);
        let faults = faults(&outcomes, &excused());
        assert!(faults.is_empty(), "with {lines}: {}", faults.join("\n"));
    }
}

/// The same requests by HTTP/2, each answer judged as over HTTP/1.
fn same_over_http2(room: &Path, port: u16, base: &str, outcomes: &[Outcome]) {
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[[site]]\norigin = \
         \"http://127.0.0.1:{port}\"\n"
    ));
    let mut bridge = Command::new("node");
    bridge.arg(source_root().join("tests/http2/bridge.mjs"));
    bridge.arg(format!("http://{}", larder.addr()));
    same_over("HTTP/2", bridge, room, base, outcomes);
}

/// The same by HTTP/3, with aioquic as the client.
fn same_over_http3(room: &Path, port: u16, base: &str, outcomes: &[Outcome]) {
    let papers = Papers::issue();
    let site = format!("[[site]]\norigin = \"http://127.0.0.1:{port}\"");
    let larder = Larder::with_config(&papers.config("server", "http3 = true", &site));
    let mut bridge = Command::new("/usr/bin/python3");
    bridge.env("PYTHONPATH", source_root().join("tests/.cache/http3"));
    bridge.arg(source_root().join("tests/http3/bridge.py"));
    bridge.args([larder.face("http3+udp").port().to_string(), papers.path("authority.pem")]);
    same_over("HTTP/3", bridge, room, base, outcomes);
}

/// Runs the suite through a program that takes HTTP/1 on a port, its last argument, and sends it on
/// by another protocol. `base` is Larder's over HTTP/1.
///
/// The suite waits for seconds to pass, and a busy machine can have pages go stale too early for it.
/// So tests that differ are asked again, both ways.
fn same_over(protocol: &str, mut bridge: Command, room: &Path, base: &str, outcomes: &[Outcome]) {
    let at = free_port();
    let _bridge = Helper::start(bridge.arg(at.to_string()), "Listening");
    let through = format!("http://127.0.0.1:{at}");
    let mut differ = differences(outcomes, &run_suite(room, &through, &[]));
    for _ in 0..REPEATS {
        if differ.is_empty() {
            return;
        }
        let ids: Vec<&str> = differ.keys().map(String::as_str).collect();
        differ = differences(&run_suite(room, base, &ids), &run_suite(room, &through, &ids));
    }
    assert!(differ.is_empty(), "over {protocol}: {differ:#?}");
}

/// How often tests that differ are asked again.
const REPEATS: usize = 3;

/// Tests whose verdicts differ, with both.
fn differences(one: &[Outcome], other: &[Outcome]) -> BTreeMap<String, (String, Option<String>)> {
    let verdicts = |outcomes: &[Outcome]| -> BTreeMap<String, String> {
        outcomes.iter().map(|o| (o.id.clone(), format!("{} {}", o.verdict, o.detail))).collect()
    };
    let mut other = verdicts(other);
    let pairs = verdicts(one).into_iter().map(|(id, verdict)| {
        let theirs = other.remove(&id);
        (id, (verdict, theirs))
    });
    pairs.filter(|(_, (verdict, theirs))| theirs.as_ref() != Some(verdict)).collect()
}

/// Writes the whole list to a file.
fn keep(outcomes: &[Outcome]) {
    let told = |o: &Outcome| (o.id.clone(), json!([o.kind, o.verdict, o.detail]));
    let list: serde_json::Map<_, _> = outcomes.iter().map(told).collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache-suite.json");
    std::fs::write(&path, format!("{:#}", Value::Object(list))).unwrap();
    say(&format!("cache suite: the whole list is in {}", path.display()));
}

/// Runs the whole suite, or the tests named.
fn run_suite(room: &Path, base: &str, only: &[&str]) -> Vec<Outcome> {
    let output = Command::new("node")
        .args(["--no-warnings", "run.mjs", base])
        .args(only)
        .current_dir(room)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the suite's runner failed: {}", output.status);
    let all: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.into_iter()
        .map(|(id, v)| Outcome {
            id,
            kind: text(&v["kind"]),
            verdict: text(&v["verdict"]),
            detail: text(&v["detail"]),
        })
        .collect()
}

/// Prints past cargo's capture: the scores are worth seeing when the test passes.
fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn print_scores(outcomes: &[Outcome]) {
    for kind in ["required", "optimal", "check"] {
        let of_kind: Vec<_> = outcomes.iter().filter(|o| o.kind == kind).collect();
        let passed = of_kind.iter().filter(|o| o.passed()).count();
        say(&format!("cache suite: {kind}: {passed} of {}", of_kind.len()));
        if kind == "check" {
            continue; // a check asks what a cache does; neither answer is wrong
        }
        for o in of_kind.iter().filter(|o| !o.passed()) {
            say(&format!("  {} {}: {}", o.verdict, o.id, o.detail));
        }
    }
}

/// Required tests that fail unexplained, and explanations without a failure.
fn faults(outcomes: &[Outcome], excused: &BTreeSet<String>) -> Vec<String> {
    let failed: BTreeMap<&str, &Outcome> = outcomes
        .iter()
        .filter(|o| o.kind == "required" && !o.passed())
        .map(|o| (o.id.as_str(), o))
        .collect();
    let unexplained = failed
        .values()
        .filter(|o| !excused.contains(&o.id))
        .map(|o| format!("required test fails: {} ({}: {})", o.id, o.verdict, o.detail));
    let outlived = excused
        .iter()
        .filter(|id| !failed.contains_key(id.as_str()))
        .map(|id| format!("docs/conformance.md explains {id}, which is no failing required test"));
    unexplained.chain(outlived).collect()
}

/// The test names in the table under "Required tests that do not pass": rows beginning with "|
/// `name` |".
fn excused() -> BTreeSet<String> {
    let text = std::fs::read_to_string(source_root().join("docs/conformance.md")).unwrap();
    let section = text
        .split("## Required tests that do not pass")
        .nth(1)
        .expect("the section of the exceptions");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (id, reason) = row.split_once("` |")?;
        assert!(reason.contains("RFC"), "docs/conformance.md gives no RFC for {id}");
        Some(id.to_owned())
    })
    .collect()
}
