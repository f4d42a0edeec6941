//! The real binary: exit codes and output.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// In a directory of its own, so that no larder.toml of the tree is read.
fn larder(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    // Servers of other tests and users are not seen.
    command.args(arguments).current_dir(scratch("")).env("RUNTIME_DIRECTORY", scratch("run"));
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = larder(arguments).output().expect("larder runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// A file name in a directory of this process.
fn scratch(name: &str) -> PathBuf {
    let directory =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

fn file(name: &str, text: &str) -> String {
    let path = scratch(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn version_and_help() {
    let (code, out, _) = run(&["--version"]);
    assert_eq!((code, out), (0, format!("larder {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, 0);
    for command in ["serve", "demo", "purge", "check"] {
        assert!(out.contains(command), "{out}");
    }
    assert_eq!(run(&["serv"]).0, 2);
    assert_eq!(run(&[]).0, 2);
}

#[test]
fn check_says_what_is_good_and_what_is_not() {
    let (code, out, err) = run(&[
        "check",
        "--config",
        &file("good.toml", "[[site]]\norigin = \"http://127.0.0.1:9000\"\n"),
    ]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("listens on http://127.0.0.1:8080"), "{out}");
    let (code, ..) =
        run(&["check", &file("named.toml", "[[site]]\norigin = \"http://127.0.0.1:9000\"\n")]);
    assert_eq!(code, 0, "a file without `--config`");
    let bad = file(
        "bad.toml",
        "memory = \"1GiB\"\n[[site]]\norigin = \"http://127.0.0.1:9000\"\nprset = \"mediawiki\"\n",
    );
    let (code, out, err) = run(&["check", "--config", &bad]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("bad.toml:4:1: error: unknown key `prset` in [[site]]"), "{err}");
    assert!(err.contains("did you mean `preset`?"), "{err}");
    let (code, _, err) = run(&["check"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("larder.toml: cannot read the configuration: there is no such file"),
        "{err}"
    );
}

#[test]
fn a_wrong_configuration_starts_nothing() {
    let (code, _, err) = run(&["serve", "--http", "127.0.0.1:0", "--origin", "127.0.0.1:9000"]);
    assert_eq!(code, 2);
    assert!(err.contains("--origin: error: expected an origin such as"), "{err}");
    assert!(err.ends_with("larder: 1 error, nothing started\n"), "{err}");
    assert!(!err.contains("listening"), "{err}");
    let (code, _, err) = run(&["serve", "--http", "127.0.0.1:0"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no origin"), "{err}");
}

#[test]
fn files_that_never_end_are_refused() {
    let fifo = scratch("fifo");
    // A file of an earlier process with this number.
    let _ = std::fs::remove_file(&fifo);
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
    assert!(made.success());
    for path in [fifo.to_str().expect("UTF-8"), "/dev/zero"] {
        for arguments in [
            &["check", "--config", path][..],
            &["serve", "--config", path],
            &["purge", "http://a.org/", "--token-file", path],
        ] {
            let (code, _, err) = run(arguments);
            assert_eq!(code, 2, "{arguments:?}: {err}");
            assert!(
                err.contains(&format!("{path}: ")) && err.contains("it is not a regular file"),
                "{err}"
            );
        }
    }
}

#[test]
fn an_address_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, _, err) = run(&["serve", "--http", &address, "--origin", "http://127.0.0.1:9"]);
    assert_eq!(code, 1);
    assert!(err.contains(&format!("cannot listen on {address}")), "{err}");
}

#[test]
fn the_documentation_is_printed() {
    let (code, out, _) = run(&["docs", "configuration"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("# Configuration\n"), "{out}");
}

/// Time limit for a line.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines as they come; the channel closes at the end.
fn lines(stderr: ChildStderr) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    lines
}

/// A running server; killed when dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
    address: SocketAddr,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("larder runs");
        let lines = lines(child.stderr.take().expect("stderr"));
        let mut running = Running { child, lines, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
        let line = running.line_with("listening on http://");
        let address = line.trim().rsplit("http://").next().expect("an address");
        running.address = address.parse().expect("an address");
        running
    }

    /// The next line with this in it. Ends the test when the server ends or is silent for long.
    fn line_with(&mut self, part: &str) -> String {
        let mut seen = String::new();
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no {part:?} in:\n{seen}"));
            if line.contains(part) {
                return line;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn signals_reload_and_stop() {
    let good = "[[site]]\norigin = \"http://127.0.0.1:9\"\n";
    let config = file("reload.toml", good);
    let mut running = Running::start(larder(&[
        "serve",
        "--http",
        "127.0.0.1:0",
        "--threads",
        "1",
        "--config",
        &config,
    ]));
    file("reload.toml", "[[site]]\norigin = 5\n");
    running.signal("HUP");
    running.line_with("reload.toml:2:10: error: expected a server such as");
    let refused = running.line_with("larder: ");
    assert_eq!(refused, "larder: 1 error, the configuration in use stays as it was");
    std::fs::remove_file(&config).expect("removed");
    running.signal("HUP");
    running.line_with("cannot read the configuration: there is no such file");
    assert_eq!(running.line_with("larder: "), "larder: the configuration in use stays as it was");
    file("reload.toml", good);
    running.signal("HUP");
    running.line_with("configuration reloaded");
    running.signal("TERM");
    running.line_with("stopped");
    assert_eq!(running.child.wait().expect("it ends").code(), Some(0));
}

/// Answers one request with `answer`, and returns the request.
fn once(answer: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("a request") == 1 {
            head.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).expect("an answer is taken");
        String::from_utf8(head).expect("text")
    });
    (address, asked)
}

#[test]
fn purge_sends_what_was_asked_for() {
    let (server, asked) = once("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"purged\":2}");
    let (code, out, err) =
        run(&["purge", "http://wiki.example.org:81/a b?c=d", "--soft", "--server", &server]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "marked as stale: 2 pages\n", ""));
    let head = asked.join().expect("a request");
    assert!(
        head.starts_with("PURGE /a%20b?c=d HTTP/1.1\r\nHost: wiki.example.org:81\r\n"),
        "{head}"
    );
    assert!(
        head.contains("\r\nLarder-Purge: url\r\n") && head.contains("\r\nLarder-Soft-Purge: 1\r\n"),
        "{head}"
    );

    let token = file("token", "  s3cret\n");
    let (server, asked) = once("HTTP/1.1 404 Not Found\r\n\r\n");
    let (code, out, _) =
        run(&["purge", "--tag", "a", "--tag", "b", "--token-file", &token, "--server", &server]);
    assert_eq!((code, out.as_str()), (1, "nothing was there\n"));
    let head = asked.join().expect("a request");
    assert!(head.starts_with(&format!("PURGE / HTTP/1.1\r\nHost: {server}\r\n")), "{head}");
    assert!(
        head.contains("\r\nLarder-Purge: tag\r\n") && head.contains("\r\nSurrogate-Key: a b\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nAuthorization: Bearer s3cret\r\n"), "{head}");
    assert!(!head.contains("Soft"), "{head}");

    let (server, asked) = once("HTTP/1.1 403 Forbidden\r\n\r\n");
    let (code, _, err) = run(&["purge", "--prefix", "http://a.org/x/", "--server", &server]);
    assert_eq!(code, 3, "{err}");
    let head = asked.join().expect("a request");
    assert!(
        head.starts_with("PURGE /x/ HTTP/1.1\r\n") && head.contains("\r\nLarder-Purge: prefix\r\n"),
        "{head}"
    );
}

#[test]
fn purge_says_when_nobody_answers() {
    let (server, asked) = once("SSH-2.0-x\r\n\r\n");
    assert_eq!(run(&["purge", "http://a.org/", "--server", &server]).0, 4);
    asked.join().expect("a request");
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .to_string();
    let (code, _, err) = run(&["purge", "http://a.org/", "--server", &closed]);
    assert_eq!(code, 4);
    assert!(err.contains(&closed), "{err}");
}

#[test]
fn purge_refuses_what_it_cannot_send() {
    for arguments in [
        &["purge"][..],
        &["purge", "/x"],
        &["purge", "http://a.org/", "--tag", "t"],
        &["purge", "--tag", "a b"],
        &["purge", "--tag", "a\r\nX: y"],
        &["purge", "--tag", "t", "--host", "a\r\nb"],
        &["purge", "http://a.org/", "--token-file", "/nonexistent"],
    ] {
        assert_eq!(run(arguments).0, 2, "{arguments:?}");
    }
}

#[test]
fn the_demo_starts_and_stops() {
    let mut running = Running::start(larder(&["demo", "--http", "127.0.0.1:0", "--delay", "1ms"]));
    TcpStream::connect(running.address).expect("it listens");
    running.signal("INT");
    running.line_with("stopped");
    assert_eq!(running.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn commands_without_a_server_say_that_there_is_none() {
    // Nothing of this test listens at the usual addresses; another program of the machine might.
    let taken = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
    // Servers of the other tests are not seen.
    let alone = |arguments: &[&str]| {
        let mut command = larder(arguments);
        let output = command.env("RUNTIME_DIRECTORY", scratch("nobody")).output();
        let output = output.expect("larder runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let none = "no Larder of yours runs on this machine";
    if ![8080, 8081, 11211].into_iter().any(taken) {
        for arguments in [
            &["purge", "http://a.org/"][..],
            &["why"],
            &["log"],
            &["hist", "--once"],
            &["top", "--once", "--lifetime"],
        ] {
            let (code, err) = alone(arguments);
            assert_eq!(code, Some(4), "{arguments:?}: {err}");
            assert!(err.contains(none), "{arguments:?}: {err}");
        }
    }
    // One that was named is not looked for here.
    let (code, err) = alone(&["why", "--admin", "127.0.0.1:1"]);
    assert_eq!(code, Some(4), "{err}");
    assert!(!err.contains(none), "{err}");
}

#[test]
fn certificates_need_a_configuration_and_no_origin_is_spoken_of() {
    let (code, _, err) = run(&["certificates"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no configuration") && !err.contains("origin"), "{err}");
}

#[test]
fn half_a_disk_starts_nothing() {
    let origin = ["serve", "--http", "127.0.0.1:0", "--origin", "http://127.0.0.1:9"];
    let disk = scratch("disk");
    let flags = ["--disk", disk.to_str().expect("UTF-8")];
    let (code, _, err) = run(&[&origin[..], &flags].concat());
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("`--disk-size SIZE` is missing"), "{err}");
}
