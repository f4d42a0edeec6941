//! Applications that do what they must not, and what happens to them.

#![allow(clippy::unwrap_used)]

use larder_tests::apps::{children, more, number, php, pid, printed, runs, shell, visitors};
use larder_tests::{Larder, Scratch, get, wait_for, wait_until};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// An application of FastCGI that closes a connection as soon as it sees a record that it does not
/// know, with the rest of it unread.
const CURT: &str = r#"
import socket
listener = socket.socket(fileno=0)
while True:
    conn, _ = listener.accept()
    head = conn.recv(8)
    if head[1] == 1:
        conn.recv(65536)
        text = b"Cache-Control: no-store\n\ncurt"
        record = lambda kind, data: bytes([1, kind, 0, 1, 0, len(data), 0, 0]) + data
        conn.sendall(record(6, text) + record(3, bytes(8)))
    conn.close()
"#;

/// Kills each process again and again: for the time in `LARDER_KILL_SECONDS`, one of three every
/// third of a second (`scripts/kill-apps.sh`), else twelve times in all.
#[test]
fn while_processes_are_killed_again_and_again_no_visitor_fails() {
    let (config, _site) = php("processes = 3\nenv = [\"PHP_FCGI_MAX_REQUESTS=1000000\"]");
    let larder = Larder::with_config(&config);
    let processes = || children(larder.pid(), "php-cgi");
    wait_until("three processes", || processes().len() == 3);
    let long = std::env::var("LARDER_KILL_SECONDS").ok().map(|text| text.parse().unwrap());
    let began = Instant::now();
    let mut killed: Vec<u32> = Vec::new();
    let (pages, ()) = visitors(&larder, |pages| {
        loop {
            more(pages, 5);
            // The oldest of those that are there.
            let victim = wait_for("a process", || {
                processes().into_iter().filter(|process| !killed.contains(process)).min()
            });
            // It may have been told to end by itself.
            let _ = kill_process(pid(victim), Signal::KILL);
            killed.push(victim);
            let over = match long {
                Some(seconds) => {
                    std::thread::sleep(Duration::from_millis(333));
                    began.elapsed() >= Duration::from_secs(seconds)
                }
                None => killed.len() == 12,
            };
            if over {
                break;
            }
        }
        more(pages, 20);
    });
    println!("{} processes killed, {pages} pages, none failed", killed.len());
    wait_until("three processes", || processes().len() == 3);
    wait_until("those that were killed to be gone", || !killed.iter().copied().any(runs));
}

#[test]
fn a_number_of_requests_replaces_a_process_and_no_visitor_notices() {
    let lines = "max_requests = 50\nenv = [\"PHP_FCGI_MAX_REQUESTS=1000000\"]";
    let (config, _site) = php(lines);
    let larder = Larder::with_config(&config);
    let first = number(get(larder.addr(), "/").text(), "pid");
    visitors(&larder, |_| wait_until("the first to leave", || !runs(first)));
    assert!(!larder.stderr().contains("ended:"), "{}", larder.stderr());
    larder.usr1();
    let requests = printed(&larder, "apps.php.requests ");
    assert!(requests >= 50, "{requests}");
}

#[test]
fn one_that_closes_the_connection_at_a_question_is_ready() {
    let scratch = Scratch::new("curt");
    let script = scratch.write("curt.py", CURT);
    let config = format!(
        "[[app]]\nname = \"curt\"\nstart_timeout = \"1h\"\ncommand = [\"/usr/bin/python3\", \
         \"{}\"]\n[[site]]\norigin = \"app:curt\"\n",
        script.display()
    );
    let larder = Larder::with_config(&config);
    wait_until("a page", || get(larder.addr(), "/").text() == "curt");
    larder.hup();
    wait_until("a new process", || larder.stderr().contains("app curt: 1 new processes"));
    assert_eq!(get(larder.addr(), "/").text(), "curt");
}

#[test]
fn a_process_that_was_stopped_ends_when_it_is_told_to() {
    let mut larder =
        Larder::with_config(&shell("still", "exec sleep 1000", "stop_timeout = \"1h\""));
    let process = wait_for("the process", || children(larder.pid(), "sleep 1000").pop());
    kill_process(pid(process), Signal::STOP).unwrap();
    wait_until("it to stop", || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.contains(") T ")
    });
    larder.term();
    assert!(larder.wait_exit().success());
    assert!(!runs(process));
}

#[test]
fn a_guard_that_is_killed_is_followed_by_another() {
    let script = "sleep 1000 & echo grandchild=$!; exec sleep 2000";
    let other = shell("other", "exec sleep 3000", "");
    let (other, _) = other.split_once("[[site]]").unwrap();
    let mut larder = Larder::with_config(&format!("{other}{}", shell("tree", script, "")));
    let grandchild = printed(&larder, "grandchild=");
    let begun = wait_for("the other", || children(larder.pid(), "sleep 3000").pop());
    let guard = wait_for("the guard", || children(larder.pid(), "app-guard").pop());
    kill_process(pid(guard), Signal::KILL).unwrap();
    // Nothing begins or ends meanwhile.
    let next = wait_for("another guard", || {
        children(larder.pid(), "app-guard").into_iter().find(|process| *process != guard)
    });
    // The thread that has started the guard tells it of all before it does anything else.
    kill_process(pid(begun), Signal::KILL).unwrap();
    wait_for("the other again", || {
        children(larder.pid(), "sleep 3000").into_iter().find(|process| *process != begun)
    });
    kill_process(pid(larder.pid()), Signal::KILL).unwrap();
    larder.wait_exit();
    wait_until("all to end", || !runs(grandchild) && !runs(next));
}

#[test]
fn a_flood_of_bytes_holds_up_no_other_application() {
    let (config, _site) = php("");
    // One line without an end.
    let script = "exec tr '\\0' x </dev/zero >&2";
    let flood = shell("flood", script, "");
    let (flood, _) = flood.split_once("[[site]]").unwrap();
    let larder = Larder::with_config(&format!("{flood}{config}"));
    wait_until("lines to be left out", || {
        larder.usr1();
        let printed = larder.stderr();
        let mut figures = printed.lines().filter_map(|line| line.strip_prefix("larder: "));
        figures.any(|line| line.starts_with("apps.flood.lines_dropped ") && !line.ends_with(" 0"))
    });
    let first = number(get(larder.addr(), "/").text(), "pid");
    kill_process(pid(first), Signal::KILL).unwrap();
    wait_until("the next process", || {
        let answer = get(larder.addr(), "/");
        answer.status == 200 && number(answer.text(), "pid") != first
    });
}

#[test]
fn one_that_closes_its_socket_costs_a_timeout_and_no_more() {
    let script = "exec 0<&-; exec sleep 1000";
    let config = shell("gone", script, "")
        .replace("\"app:gone\"", "{ url = \"app:gone\", first_byte_timeout = \"200ms\" }");
    let mut larder = Larder::with_config(&config);
    wait_for("the process", || children(larder.pid(), "sleep 1000").pop());
    assert_eq!(get(larder.addr(), "/").status, 504);
    // Connections that wait are taken by those of a reload.
    larder.rewrite_config(&config.replace(script, "exec php-cgi"));
    larder.hup();
    wait_until("an answer", || get(larder.addr(), "/").status == 404);
    larder.term();
    assert!(larder.wait_exit().success());
}

#[test]
fn a_reload_mends_one_that_ends_again_and_again() {
    let config = shell("bad", "exit 3", "");
    let larder = Larder::with_config(&config);
    wait_until("the loop", || larder.stderr().contains("its processes end again and again"));
    larder.rewrite_config(&config.replace("exit 3", "exit 4"));
    larder.hup();
    wait_until("the failure", || larder.stderr().contains("new processes do not answer"));
    larder.rewrite_config(&config.replace("exit 3", "exec php-cgi"));
    larder.hup();
    // PHP without a script says so: it answers.
    wait_until("an answer", || get(larder.addr(), "/").status == 404);
    // The origin is the one of before, and counts on.
    larder.usr1();
    assert!(printed(&larder, "apps.bad.requests ") > 0);
    assert_eq!(children(larder.pid(), "php-cgi").len(), 1);
}

#[test]
fn a_socket_whose_directory_was_removed_is_opened_again() {
    let (config, _site) = php("");
    let larder = Larder::with_config(&config);
    let first = number(get(larder.addr(), "/").text(), "pid");
    let own = format!("/larder-{}/", larder.pid());
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let path = sockets
        .split_ascii_whitespace()
        .find(|word| word.contains(&own) && word.contains("php"))
        .expect("the application's socket");
    fs::remove_dir_all(Path::new(path).parent().unwrap()).unwrap();
    wait_until("new processes", || larder.stderr().contains("app php: 1 new processes"));
    wait_until("a page", || get(larder.addr(), "/").text().contains("pid="));
    assert_ne!(number(get(larder.addr(), "/").text(), "pid"), first);
    assert!(larder.stderr().contains("app php: its socket was removed"), "{}", larder.stderr());
}
