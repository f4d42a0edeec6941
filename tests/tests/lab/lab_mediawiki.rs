//! `larder lab mediawiki` in small: the real MediaWiki, MariaDB, php-fpm, nginx, memcached and
//! Squid, every kind of row.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::larder::{binary, run};
use larder_tests::{Scratch, wait_for};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Every way to the database, every cache in every role, cold and warm.
const ROWS: &str = "none,none-local,memcached-warm-slow,larder-objects-warm,squid-warm,\
                    larder-pages-warm-slow,larder-both-cold";
/// Hits and misses, items, traffic, connections, requests.
const PLOTS: usize = 5;
/// A wiki is there after this time, on the slowest machine.
const INSTALLING: Duration = Duration::from_secs(180);
/// Between two looks at what is printed.
const LOOK: Duration = Duration::from_millis(50);

/// Processes with this text in their command line or in the directory they work in.
fn processes_of(text: &str) -> Vec<String> {
    let mentions = |pid: &Path| {
        let command = fs::read(pid.join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let place = fs::read_link(pid.join("cwd")).unwrap_or_default();
        (command.contains(text) || place.to_string_lossy().contains(text)).then_some(command)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| mentions(&entry.path())).collect()
}

/// A directory in which the experiment makes its own, so that what it leaves can be seen.
struct Place(Scratch);

impl Place {
    fn new() -> Place {
        Place(Scratch::new("lab-mediawiki"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(["lab", "mediawiki", "--report"]).arg(self.report()).args(args);
        command.env("TMPDIR", self.0.path()).stdin(Stdio::null());
        command
    }

    fn report(&self) -> PathBuf {
        self.0.file("report")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.report().join(name)).unwrap()
    }

    /// No process, and no directory but the report's.
    #[track_caller]
    fn assert_nothing_left(&self) {
        let path = self.0.path().to_string_lossy().into_owned();
        assert_eq!(processes_of(&path), Vec::<String>::new());
        let left: Vec<_> =
            fs::read_dir(self.0.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, [self.report()]);
    }
}

#[test]
fn rows_are_listed() {
    let place = Place::new();
    let output = place.command(&["--rows", "list"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let names: Vec<&str> = printed.lines().map(|line| line.split_once("  ").unwrap().0).collect();
    assert!(ROWS.split(',').all(|row| names.contains(&row)), "{printed}");
    assert!(!place.report().exists(), "nothing is to be started");
}

#[test]
fn every_kind_of_row_in_small() {
    let place = Place::new();
    let args = "--articles 5 --threads 2 --loops 3 --delay 5ms --ramp-up 0s --rows";
    let pages = place.report().join("pages");
    let saved = ["--save-pages", pages.to_str().unwrap()];
    let args: Vec<_> = args.split(' ').chain([ROWS]).chain(saved).collect();
    let output = place.command(&args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stdout));
    place.assert_nothing_left();
    for number in 0..5 {
        let page = fs::read_to_string(pages.join(format!("{number}.html"))).unwrap();
        assert!(page.contains("id=\"firstHeading\"") && page.trim_end().ends_with("</html>"));
    }

    let report: Value = serde_json::from_str(&place.read("mediawiki.json")).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ROWS.split(',').collect::<Vec<_>>());
    for row in rows {
        let figure = |name: &str| row["figures"][name].as_f64().unwrap();
        assert_eq!(row["valid"], true, "{row}");
        assert_eq!(figure("n"), 6.0, "{row}");
        assert!(figure("min_ms") > 0.0 && figure("min_ms") <= figure("median_ms"), "{row}");
        assert!(
            figure("median_ms") <= figure("p90_ms") && figure("p90_ms") <= figure("max_ms"),
            "{row}"
        );
        assert!(figure("requests_per_second") > 0.0 && figure("kb_per_second") > 0.0, "{row}");
        assert!(row["articles_compared"].as_u64().unwrap() > 0, "{row}");
    }
    let of = |id: &str, what: &str| rows.iter().find(|row| row["id"] == id).unwrap()[what].clone();
    assert!(
        of("none", "statements_per_answer").as_f64()
            > of("memcached-warm-slow", "statements_per_answer").as_f64()
    );
    assert_eq!(of("squid-warm", "page_hits"), 6);
    assert_eq!(of("larder-pages-warm-slow", "statements_per_answer"), 0.0);

    let page = place.read("mediawiki.html");
    for server in ["memcached", "Squid", "Larder, objects", "Larder, pages"] {
        let plots = page.matches(&format!("<figcaption>{server}: ")).count();
        assert_eq!(plots, PLOTS, "plots of {server}");
    }
    assert!(page.matches("<svg").count() > 4 * PLOTS);
    assert!(
        !page.contains("src=\"http") && !page.contains("href=\"http"),
        "the page needs something from elsewhere"
    );
    let table = place.read("mediawiki.md");
    for row in rows {
        assert!(table.contains(&format!("| {} | 6 |", row["title"].as_str().unwrap())), "{row}");
    }
    assert!(!report["lessons"].as_array().unwrap().is_empty());
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let place = Place::new();
    let log = place.0.file("printed");
    let printed = || fs::read_to_string(&log).unwrap_or_default();
    let file = fs::File::create(&log).unwrap();
    let args = ["--articles", "2", "--delay", "1s", "--rows", "none-slow"];
    let mut child = place.command(&args).stdout(Stdio::null()).stderr(file).spawn().unwrap();
    // Installing takes longer than other waits may, where many tests run at once.
    let began = Instant::now();
    while !printed().contains("requests of") {
        assert!(child.try_wait().unwrap().is_none(), "{}", printed());
        assert!(began.elapsed() < INSTALLING, "{}", printed());
        std::thread::sleep(LOOK);
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = wait_for("the experiment to end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130), "{}", printed());
    fs::remove_file(&log).unwrap();
    place.assert_nothing_left();
}

#[test]
fn an_unknown_row_is_refused_with_the_names_there_are() {
    let (status, _, printed) = run(&["lab", "mediawiki", "--rows", "nonesuch"]);
    assert_eq!(status.code(), Some(2));
    assert!(
        printed.contains("\"nonesuch\"") && printed.contains("larder-both-cold-slow"),
        "{printed}"
    );
}
