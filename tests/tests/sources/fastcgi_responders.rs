//! Responders of others: FastCGI's own library (an echo in C, started by Larder and by cgi-fcgi),
//! and Python's flup.

#![allow(clippy::unwrap_used)]

use larder_tests::databases::must;
use larder_tests::helper::source_root;
use larder_tests::{Answer, Larder, Scratch, Wire, get, listening, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, DirEntry};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

/// The echo of FastCGI's library, compiled.
fn echo(scratch: &Scratch) -> String {
    let source = source_root().join("tests/clients/echo.c");
    let program = scratch.file("echo");
    must(Command::new("cc").arg("-O1").arg(source).arg("-lfcgi").arg("-o").arg(&program));
    program.display().to_string()
}

fn run(command: &str, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "[[app]]\nname = \"echo\"\ncommand = {command}\n{lines}\n[[site]]\norigin = \"app:echo\"\n"
    ))
}

fn post(wire: &mut Wire, target: &str, body: &[u8]) -> Answer {
    let length = body.len();
    wire.send(format!(
        "POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n"
    ));
    wire.send(body);
    wire.read_for("POST")
}

/// Pages, forms of many lengths, and several clients at a time.
#[track_caller]
fn echoes(larder: &Larder) {
    let first = get(larder.addr(), "/a%20b?c=d");
    assert!(first.assert_status(200).text().starts_with("GET /a%20b?c=d"), "{first:?}");
    let second = get(larder.addr(), "/a%20b?c=d");
    assert_eq!(second.assert_hit().body, first.body);
    thread::scope(|threads| {
        for client in 0..3 {
            threads.spawn(move || {
                let mut wire = larder.connect();
                for length in [1, 7, 8, 9, 65_527, 65_528, 65_529, 200_000] {
                    let body: Vec<u8> = (0..length).map(|at| (at * 31 + client) as u8).collect();
                    let answer = post(&mut wire, &format!("/{client}/{length}"), &body);
                    answer.assert_status(200);
                    let (_, echoed) = answer.body.split_at(answer.body.len() - length);
                    assert!(echoed == body, "{client} {length}");
                    let line = format!("POST /{client}/{length}");
                    assert!(answer.body.starts_with(line.as_bytes()), "{client} {length}");
                }
            });
        }
    });
}

#[test]
fn the_library_of_fastcgi_answers() {
    let scratch = Scratch::new("echo");
    let program = echo(&scratch);
    let larder = run(&format!("[{program:?}]"), "processes = 2");
    echoes(&larder);
    // Its lines for the log come with the request.
    let told = "larder: app:echo: GET site.test/a%20b?c=d: echo /a%20b?c=d\n";
    wait_until("its line", || larder.stderr().contains(told));
}

/// Processes that outlive the command that started them. Killed when dropped.
struct Outliving(PathBuf);

impl Outliving {
    /// The processes of this program.
    fn processes(&self) -> Vec<Pid> {
        let own = |entry: &DirEntry| {
            fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == self.0)
        };
        let entries = fs::read_dir("/proc").unwrap().flatten().filter(own);
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
            .collect()
    }
}

impl Drop for Outliving {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// FastCGI's own way to start an application: two processes on a socket.
#[test]
fn cgi_fcgi_starts_an_application() {
    let scratch = Scratch::new("echo");
    let program = echo(&scratch);
    let started = Outliving(PathBuf::from(&program));
    let socket = scratch.file("echo.sock");
    // It waits for its standard output and error to be closed by all.
    let status = Command::new("cgi-fcgi")
        .args(["-start", "-connect"])
        .args([socket.as_os_str(), program.as_ref(), "2".as_ref()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    wait_until("the application", || listening::path(&socket));
    wait_until("its processes", || started.processes().len() == 2);
    let larder = Larder::before(&format!("fcgi+unix:{}", socket.display()));
    echoes(&larder);
}

#[test]
fn flup_answers() {
    let script = source_root().join("tests/clients/flup_echo.py");
    let library = source_root().join("tests/.cache/flup");
    assert!(library.join("flup").is_dir(), "flup is missing: run scripts/test-deps.sh");
    let command = format!("[\"/usr/bin/python3\", {:?}]", script.display().to_string());
    let env = format!("env = [\"PYTHONPATH={}\"]", library.display());
    echoes(&run(&command, &env));
}
