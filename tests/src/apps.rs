//! Applications that Larder runs, and their processes.

use crate::larder::Larder;
use crate::scratch::Scratch;
use crate::wait::wait_until;
use crate::wire::get;
use rustix::process::Pid;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// A page that tells which process made it, never from memory.
pub const PAGE: &str = r#"<?php
header('Cache-Control: no-store');
echo 'pid=', getmypid(), ' parent=', posix_getppid(), ' env=', getenv('COLOUR'), "\n";
"#;

/// PHP behind a site, with further lines for its `[[app]]`.
pub fn php(lines: &str) -> (String, Scratch) {
    let site = Scratch::new("site");
    site.write("index.php", PAGE);
    let config = format!(
        "[[app]]\nname = \"php\"\ncommand = \"php-cgi -d log_errors=1\"\n{lines}\n[[site]]\norigin \
         = {{ url = \"app:php\", root = \"{}\" }}\n",
        site.path().display()
    );
    (config, site)
}

/// A shell behind a site, which need not answer.
pub fn shell(name: &str, script: &str, lines: &str) -> String {
    format!(
        "[[app]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", {script:?}]\nstart_timeout = \
         \"1h\"\n{lines}\n[[site]]\norigin = \"app:{name}\"\n"
    )
}

/// A process by its number.
pub fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// A process that has ended and that nobody has waited for has ended.
pub fn runs(number: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    matches!(state, Some(Some(state)) if state != 'Z')
}

/// The children of a process whose command line holds these words.
pub fn children(of: u32, words: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_ascii_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
    }
    found.retain(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(words)
    });
    found
}

/// A number from a page: `pid=123`.
#[track_caller]
pub fn number(text: &str, name: &str) -> u32 {
    let begin = format!("{name}=");
    let word = text.split_ascii_whitespace().find_map(|word| word.strip_prefix(&begin));
    word.unwrap_or_else(|| panic!("no {name} in {text:?}")).parse().unwrap()
}

/// Asks for pages until `done`; every one of them has to come. The result is their number.
pub fn visitors<T>(larder: &Larder, work: impl FnOnce(&AtomicU32) -> T) -> (u32, T) {
    let (done, pages) = (AtomicBool::new(false), AtomicU32::new(0));
    let result = thread::scope(|threads| {
        for visitor in 0..3 {
            let (done, pages) = (&done, &pages);
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let answer = get(larder.addr(), &format!("/index.php?{visitor}"));
                    assert_eq!(answer.status, 200, "{answer:?}\n{}", larder.stderr());
                    pages.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let result = work(&pages);
        done.store(true, Ordering::Relaxed);
        result
    });
    (pages.load(Ordering::Relaxed), result)
}

/// Waits until so many more pages have come.
pub fn more(pages: &AtomicU32, count: u32) {
    let before = pages.load(Ordering::Relaxed);
    wait_until("pages", || pages.load(Ordering::Relaxed) >= before + count);
}

/// The number that a shell prints behind this word: `grandchild=123`.
#[track_caller]
pub fn printed(larder: &Larder, word: &str) -> u32 {
    crate::wait::wait_for(word, || {
        let printed = larder.stderr();
        let (_, rest) = printed.split_once(word)?;
        rest.split_once('\n')?.0.parse().ok()
    })
}
