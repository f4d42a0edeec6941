//! Rules of the house that no other tool knows. Each exception is listed here with its reason.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::source_root;
use larder_tests::source::Source;
use larder_tests::words;
use regex::Regex;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Longest function, in lines, outside tests.
const FUNCTION_LINES: usize = 80;
/// Longest file, in lines outside test modules.
const FILE_LINES: usize = 500;

/// Functions that may be longer: `(path, name, reason)`.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];
/// Files that may be longer: `(path, reason)`.
const LONG_FILES: &[(&str, &str)] = &[];

/// Words that belong to some rooms only: `(what, words, where they may stand)`. A room is a path or
/// the beginning of one.
const ROOMS: &[(&str, &str, &[&str])] = &[
    (
        "reads a clock",
        r"\b(Instant|SystemTime)::now\b|\bclock_gettime\(|\.elapsed\(\)",
        &[
            "crates/client/",
            "crates/fuse/",
            "crates/server/src/clock.rs",
            "crates/larder/",
            "crates/top/",
            "crates/lab/",
        ],
    ),
    (
        "touches files",
        r"\b(std|tokio)::fs\b",
        &[
            "crates/disk/",
            "crates/fuse/",
            "crates/queue/",
            "crates/server/",
            "crates/larder/",
            "crates/top/",
            "crates/lab/",
        ],
    ),
    (
        "opens sockets",
        r"\b(Tcp|Udp|Unix)(Stream|Listener|Socket|Datagram)\b",
        &[
            "crates/client/",
            "crates/fuse/",
            "crates/server/",
            "crates/larder/",
            "crates/top/",
            "crates/lab/",
        ],
    ),
    (
        "is asynchronous",
        r"\b(tokio|async|await)\b",
        &[
            "crates/client/",
            "crates/fuse/",
            "crates/server/",
            "crates/larder/",
            "crates/top/",
            "crates/lab/",
        ],
    ),
    ("is unsafe", r"\bunsafe\b", &["crates/store/"]),
];

/// Rooms whose comments are plain English in lines of at most 100 columns. Add a room when all its
/// comments are rewritten.
const PLAIN_COMMENTS: &[&str] = &[
    "crates/disk/",
    "crates/fuse/",
    "crates/larder/",
    "crates/metrics/",
    "crates/proto/",
    "crates/queue/",
    "crates/script/",
    "crates/server/src/access_log/",
    "crates/server/src/acme.rs",
    "crates/server/src/admin/",
    "crates/server/src/app.rs",
    "crates/server/src/clock.rs",
    "crates/server/src/counters/",
    "crates/server/src/disk/",
    "crates/server/src/fetch/",
    "crates/server/src/http/",
    "crates/server/src/measure/",
    "crates/server/src/memcache/",
    "crates/server/src/net/",
    "crates/server/src/object/",
    "crates/server/src/origin/",
    "crates/server/src/page/",
    "crates/server/src/queue/",
    "crates/server/src/redis/",
    "crates/server/src/remote/",
    "crates/server/src/request/",
    "crates/server/src/room.rs",
    "crates/server/src/room/",
    "crates/server/src/server.rs",
    "crates/server/src/server/",
    "crates/server/src/settings.rs",
    "crates/server/src/settings/",
    "crates/server/src/trace/",
    "crates/server/src/wire/",
    "crates/server/src/worker.rs",
    "crates/store/",
    "crates/top/",
    "tests/src/words.rs",
];
/// Documents that are not wrapped at 100 columns yet: `(path, reason)`.
const UNWRAPPED: &[(&str, &str)] =
    &[("CHANGELOG.md", "every change adds to it: wrapped when a version is released")];

/// Rooms of the server in their order: each may import those before it, and none behind it.
const SERVER_ROOMS: &[&str] = &[
    "clock",
    "settings",
    "room",
    "acme",
    "app",
    "net",
    "access_log",
    "trace",
    "origin",
    "counters",
    "page",
    "disk",
    "family",
    "remote",
    "wire",
    "request",
    "fetch",
    "http",
    "asked",
    "object",
    "memcache",
    "redis",
    "queue",
    "measure",
    "worker",
    "admin",
    "server",
];

#[derive(Debug)]
struct File {
    /// Relative to the top of the tree, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Code that ships: not tests, benches, fuzz targets, build scripts.
    fn ships(&self) -> bool {
        let parts: Vec<_> = self.path.split('/').collect();
        self.is_rust()
            && parts[0] == "crates"
            && !parts.iter().any(|part| matches!(*part, "tests" | "benches" | "fuzz" | "examples"))
            && !matches!(*parts.last().unwrap(), "tests.rs" | "build.rs")
    }
}

/// Every text file of the tree that is ours: nothing built, nothing installed, nothing hidden but
/// .ci.
fn files() -> Vec<File> {
    let root = source_root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let skipped =
                matches!(name.as_str(), "target" | "node_modules" | "artifacts" | "corpus");
            if skipped || (name.starts_with('.') && name != ".ci") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else if let Ok(text) = fs::read_to_string(entry.path()) {
                found.push(File { path: relative(&entry.path(), &root), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.iter().filter(|f| f.ships()).count() > 10, "the sources were not found");
    found
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap().to_string_lossy().into_owned()
}

#[track_caller]
fn assert_none(what: &str, faults: Vec<String>) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

fn within(line: usize, ranges: &[Range<usize>]) -> bool {
    ranges.iter().any(|range| range.contains(&line))
}

#[test]
fn functions_are_short() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|f| f.ships()) {
        let source = Source::new(&file.text);
        let tests = source.test_lines();
        for f in source.functions().iter().filter(|f| !within(f.lines.start, &tests)) {
            let excused =
                LONG_FUNCTIONS.iter().any(|(path, name, _)| *path == file.path && *name == f.name);
            if f.lines.len() > FUNCTION_LINES && !excused {
                faults.push(format!(
                    "{}:{}: fn {} has {} lines",
                    file.path,
                    f.lines.start + 1,
                    f.name,
                    f.lines.len()
                ));
            }
        }
    }
    assert_none("functions longer than 80 lines", faults);
}

#[test]
fn files_are_about_one_thing() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|f| f.ships()) {
        let tests: usize =
            Source::new(&file.text).test_lines().iter().map(|range| range.len()).sum();
        let lines = file.text.lines().count() - tests;
        if lines > FILE_LINES && !LONG_FILES.iter().any(|(path, _)| *path == file.path) {
            faults.push(format!("{}: {lines} lines", file.path));
        }
    }
    assert_none("files longer than 500 lines", faults);
}

#[test]
fn exceptions_are_still_needed() {
    let files = files();
    let exists = |path: &str| files.iter().any(|f| f.path == path);
    let listed = LONG_FUNCTIONS
        .iter()
        .map(|(path, ..)| *path)
        .chain(LONG_FILES.iter().map(|(path, _)| *path));
    let listed = listed.chain(UNWRAPPED.iter().map(|(path, _)| *path));
    let rooms = ROOMS
        .iter()
        .flat_map(|(.., rooms)| rooms.iter().copied())
        .filter(|room| !room.ends_with('/'));
    let gone: Vec<_> =
        listed.chain(rooms).filter(|path| !exists(path)).map(str::to_owned).collect();
    assert_none("exceptions for files that are gone", gone);
}

#[test]
fn each_thing_stays_in_its_room() {
    let mut faults = Vec::new();
    for (what, words, rooms) in ROOMS {
        let words = Regex::new(words).unwrap();
        for file in files()
            .iter()
            .filter(|f| f.ships() && !rooms.iter().any(|room| f.path.starts_with(room)))
        {
            let source = Source::new(&file.text);
            let tests = source.test_lines();
            for (n, line) in source.lines().enumerate() {
                if words.is_match(line)
                    && !line.contains("forbid(unsafe_code)")
                    && !within(n, &tests)
                {
                    faults.push(format!("{}:{} {what}: {}", file.path, n + 1, line.trim()));
                }
            }
        }
    }
    assert_none("code outside its room", faults);
}

/// The modules of its own crate that a source names, by their first name.
fn imports(text: &str) -> Vec<String> {
    let start = Regex::new(r"\bcrate::(\{|[a-z_]+)").unwrap();
    let mut found = Vec::new();
    for name in start.captures_iter(text) {
        if &name[1] != "{" {
            found.push(name[1].to_owned());
            continue;
        }
        let (mut depth, mut word) = (1, String::new());
        for c in text[name.get(0).unwrap().end()..].chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => found.extend([std::mem::take(&mut word)]),
                _ if depth == 1 => word.push(c),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        found.push(word);
    }
    let first = |path: String| path.trim().split("::").next().unwrap_or_default().to_owned();
    found.into_iter().map(first).filter(|name| !name.is_empty()).collect()
}

#[test]
fn rooms_of_the_server_import_downwards() {
    let text = "use crate::{\n    a::{self, b},\n    c::D,\n};\nuse crate::e::F;";
    assert_eq!(imports(text), ["a", "c", "e"]);
    let (mut faults, mut seen) = (Vec::new(), 0);
    for file in files().iter().filter(|f| f.ships()) {
        let Some(path) = file.path.strip_prefix("crates/server/src/") else { continue };
        let room = path.split(['/', '.']).next().unwrap_or_default();
        let Some(place) = SERVER_ROOMS.iter().position(|name| *name == room) else {
            faults.extend((path != "lib.rs").then(|| format!("{path} is in no room of the list")));
            continue;
        };
        seen += 1;
        let named = imports(&file.text);
        let up = named.iter().filter(|name| SERVER_ROOMS[place + 1..].contains(&name.as_str()));
        faults.extend(up.map(|name| format!("{path} imports {name}")));
    }
    assert!(seen > 100, "the rooms were not found");
    assert_none("imports upwards", faults);
}

#[test]
fn every_crate_takes_the_lints_of_the_house() {
    let manifests: Vec<_> =
        files().into_iter().filter(|f| f.path.ends_with("/Cargo.toml")).collect();
    assert!(manifests.len() >= 5);
    let without = manifests
        .iter()
        .filter(|f| !f.path.starts_with("fuzz/") && !f.text.contains("[lints]\nworkspace = true"));
    assert_none("crates without the workspace's lints", without.map(|f| f.path.clone()).collect());
}

#[test]
fn proto_forbids_unsafe_code() {
    let files = files();
    let lib = files.iter().find(|f| f.path == "crates/proto/src/lib.rs").unwrap();
    assert!(lib.text.contains("#![forbid(unsafe_code)]"));
}

/// Lines of any file that match a pattern, but for the files in which they must.
fn lines_with(pattern: &str, allowed: &[&str]) -> Vec<String> {
    let pattern = Regex::new(pattern).unwrap();
    let mut found = Vec::new();
    for file in files()
        .iter()
        .filter(|f| f.path != "tests/tests/tidy.rs" && !allowed.contains(&f.path.as_str()))
    {
        for (n, line) in file.text.lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
            found.push(format!("{}:{}: {}", file.path, n + 1, line.trim()));
        }
    }
    found
}

#[test]
fn nothing_is_left_unfinished() {
    assert_none("unfinished", lines_with(r"\b(todo!|unimplemented!|FIXME|XXX|TODO)", &[]));
}

#[test]
fn no_path_of_one_machine_is_named() {
    assert_none("local paths", lines_with(r"(^|[^\w.])/(work|root|home|tmp)/", &[]));
}

#[test]
fn no_registry_host_is_named() {
    let hosts =
        r"registry\.npmjs\.org|index\.crates\.io|static\.crates\.io|pypi\.org|proxy\.golang\.org";
    assert_none("registry hosts", lines_with(hosts, &[]));
}

#[test]
fn links_in_documents_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#\s]+)(#[^)]*)?\)").unwrap();
    let root = source_root();
    let mut broken = Vec::new();
    for file in files().iter().filter(|f| f.path.ends_with(".md")) {
        let dir = root.join(&file.path).parent().map(PathBuf::from).unwrap();
        for target in link.captures_iter(&file.text).map(|c| c[1].to_owned()) {
            if !target.contains("://")
                && !target.starts_with("mailto:")
                && !dir.join(&target).exists()
            {
                broken.push(format!("{}: {target}", file.path));
            }
        }
    }
    assert_none("broken links", broken);
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

#[test]
fn links_to_sections_lead_to_a_heading() {
    let link = Regex::new(r"\]\(([^)#\s]*)#([^)\s]+)\)").unwrap();
    let heading = Regex::new(r"(?m)^#+ (.+)$").unwrap();
    let root = source_root();
    let mut broken = Vec::new();
    for file in files().iter().filter(|f| f.path.ends_with(".md")) {
        for found in link.captures_iter(&file.text).filter(|found| !found[1].contains("://")) {
            let target = match &found[1] {
                "" => root.join(&file.path),
                path => root.join(&file.path).parent().unwrap().join(path),
            };
            let text = fs::read_to_string(target).unwrap_or_default();
            if !heading.captures_iter(&text).any(|heading| anchor(&heading[1]) == found[2]) {
                broken.push(format!("{}: {}#{}", file.path, &found[1], &found[2]));
            }
        }
    }
    assert_none("links to sections that do not exist", broken);
}

fn told(file: &File, faults: Vec<words::Fault>) -> Vec<String> {
    faults
        .into_iter()
        .map(|fault| format!("{}:{}: {}", file.path, fault.line, fault.words))
        .collect()
}

/// Calls `f` with every source of the clean rooms.
fn of_plain_comments(f: fn(&str) -> Vec<words::Fault>) -> Vec<String> {
    let files = files();
    let clean = |file: &&File| PLAIN_COMMENTS.iter().any(|room| file.path.starts_with(room));
    let sources: Vec<_> = files.iter().filter(|file| file.is_rust()).filter(clean).collect();
    assert!(sources.len() > 10, "the clean rooms were not found");
    sources.into_iter().flat_map(|file| told(file, f(&file.text))).collect()
}

/// Calls `f` with every document but those excused.
fn of_documents(f: fn(&[(usize, String)]) -> Vec<words::Fault>, excused: &[&str]) -> Vec<String> {
    let files = files();
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    documents
        .filter(|file| !excused.contains(&file.path.as_str()))
        .flat_map(|file| told(file, f(&words::document(&file.text))))
        .collect()
}

#[test]
fn comments_of_clean_rooms_have_nouns_as_subjects() {
    let faults = of_plain_comments(|source| words::clauses_as_subjects(&words::comments(source)));
    assert_none("sentences with a clause as their subject: name the thing by its noun", faults);
}

#[test]
fn comments_of_clean_rooms_have_100_columns() {
    assert_none("comments longer than 100 columns", of_plain_comments(words::too_long_comments));
}

#[test]
fn code_has_100_columns() {
    let files = files();
    let sources = files.iter().filter(|file| file.is_rust());
    let faults = sources.flat_map(|file| told(file, words::too_long_code(&file.text))).collect();
    assert_none("lines of code longer than 100 columns", faults);
}

#[test]
fn documents_have_nouns_as_subjects() {
    let faults = of_documents(words::clauses_as_subjects, &[]);
    assert_none("sentences with a clause as their subject: name the thing by its noun", faults);
}

#[test]
fn documents_are_wrapped_at_100_columns() {
    let excused: Vec<_> = UNWRAPPED.iter().map(|(path, _)| *path).collect();
    assert_none("lines longer than 100 columns", of_documents(words::too_long, &excused));
}
