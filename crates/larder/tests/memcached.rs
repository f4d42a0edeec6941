//! The binary under memcached's name beside Debian's memcached: exit codes, messages, the daemon,
//! its files.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::{fs::symlink, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

const REAL: &str = "/usr/bin/memcached";

/// A directory of this test alone.
fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("memcached-{}-{name}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `program` called `memcached`, without variables that change it.
fn memcached(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg0("memcached").args(arguments).stdin(Stdio::null());
    command.env_remove("MEMCACHED_SASL_PWDB").env_remove("MEMCACHED_PORT_FILENAME");
    if root() {
        command.args(["-u", "root"]);
    }
    command
}

fn ends(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("it runs");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Flags that end both programs before they serve: the same code, and the same first line.
const ENDING: &[&[&str]] = &[
    &["-Q"],
    &["--foo"],
    &["--foo=1"],
    &["--ver"],
    &["--l"],
    &["--help=3"],
    &["-V"],
    &["-vV"],
    &["-h"],
    &["--license"],
    &["-I", "1"],
    &["-I", "x"],
    &["-I", "100m", "-m", "64"],
    &["-m", "abc"],
    &["-m", "0"],
    &["-t", "0"],
    &["-t", "x"],
    &["-R", "0"],
    &["-c", "0"],
    &["-f", "1"],
    &["-f", "x"],
    &["-n", "0"],
    &["-N", "0"],
    &["-N", "9"],
    &["-B", "foo"],
    &["-D", ""],
    &["-U", "99999"],
    &["-p", "99999"],
    &["-p70000x"],
    &["-S", "-B", "ascii"],
    &["-S", "-U", "5"],
    &["-o", "foo"],
    &["-o", "foo=3"],
    &["-o", ","],
    &["-o", "modern,hashpower"],
    &["-o", "hashpower=11"],
    &["-o", "hashpower=33"],
    &["-o", "idle_timeout"],
    &["-o", "tail_repair_time=1"],
    &["-o", "hash_algorithm=foo"],
    &["-o", "lru_crawler_sleep=99999999"],
    &["-o", "hot_lru_pct=90"],
    &["-o", "warm_lru_pct=0"],
    &["-o", "hot_max_factor=0"],
    &["-o", "watcher_logbuf_size"],
    &["-o", "watcher_logbuf_size=x"],
    &["-o", "slab_automove=7"],
    &["-o", "slab_automove_window=1"],
    &["-o", "ext_path"],
    &["-o", "ext_path=/srv/ext"],
    &["-l", "127.0.0.1:x"],
    &["-l", "[::1"],
    &["-s", "/nonexistent/socket"],
];

#[test]
fn wrong_flags_end_it_as_they_end_memcached() {
    let mut wrong = String::new();
    for flags in ENDING {
        let (code, said) = ends(memcached(REAL, flags));
        let (own_code, own_said) = ends(memcached(env!("CARGO_BIN_EXE_larder"), flags));
        let first = |text: &str| text.lines().next().unwrap_or("").to_owned();
        // Messages of the system have its error number here, and one message of memcached has no
        // line end.
        let (first, own) = (first(&said), first(&own_said));
        let same = own.starts_with(&first) || (first.starts_with(&own) && !own.is_empty());
        if code != own_code || !same || code.is_none() {
            wrong.push_str(&format!(
                "{flags:?}: {code:?} {said:?}, here {own_code:?} {own_said:?}\n"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn an_unknown_user_is_refused() {
    if !root() {
        return;
    }
    let run = |program: &str| {
        let mut command = Command::new(program);
        command.arg0("memcached").args(["-u", "no-such-user"]).stdin(Stdio::null());
        ends(command)
    };
    assert_eq!(run(env!("CARGO_BIN_EXE_larder")), run(REAL));
    assert_eq!(run(REAL).0, Some(67));
}

/// A program that serves; ended when dropped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it and waits for the line with its address.
fn serve(mut command: Command) -> (Serving, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut err = BufReader::new(child.stderr.take().expect("stderr"));
    let serving = Serving(child);
    let mut said = String::new();
    loop {
        let mut line = String::new();
        let read = err.read_line(&mut line).expect("text");
        assert!(read > 0, "it ended: {said}");
        said.push_str(&line);
        if let Some((_, address)) = line.split_once("listening on ") {
            return (serving, address.trim().to_owned());
        }
    }
}

fn asked(mut stream: impl Read + Write) -> String {
    stream.write_all(b"version\r\n").expect("it takes");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("it answers");
    answer
}

/// The address behind `memcached://`.
fn tcp(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address.strip_prefix("memcached://").expect("TCP"))
        .expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream
}

#[test]
fn it_serves_under_its_own_command_and_under_memcacheds_name() {
    let flags = ["-t", "1", "-l", "127.0.0.1", "-p", "-1", "-m", "8"];
    let mut own = Command::new(env!("CARGO_BIN_EXE_larder"));
    own.arg("memcached").args(flags);
    if root() {
        own.args(["-u", "root"]);
    }
    let link = scratch("name").join("memcached");
    symlink(env!("CARGO_BIN_EXE_larder"), &link).expect("a link");
    let linked = memcached(link.to_str().expect("UTF-8"), &flags);
    for command in [own, linked] {
        let (_serving, address) = serve(command);
        assert!(asked(tcp(&address)).starts_with("VERSION 1."), "{address}");
    }
    fs::remove_dir_all(link.parent().expect("a directory")).expect("removed");
}

#[test]
fn the_ports_taken_are_in_the_file_asked_for() {
    let directory = scratch("ports");
    let file = directory.join("ports");
    let mut command = memcached(
        env!("CARGO_BIN_EXE_larder"),
        &["-t", "1", "-m8", "-l", "127.0.0.1:0", "-a", "0770"],
    );
    command.env("MEMCACHED_PORT_FILENAME", &file);
    let (serving, address) = serve(command);
    asked(tcp(&address));
    drop(serving);
    let port = address.rsplit(':').next().expect("a port");
    assert_eq!(fs::read_to_string(&file).expect("the file"), format!("TCP INET: {port}\n"));
    fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_daemon_is_up_when_its_command_ends_and_takes_its_files_along() {
    let directory = scratch("daemon");
    let (socket, pid) = (directory.join("socket"), directory.join("pid"));
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (socket_path, pid_path) = (path(&socket), path(&pid));
    let flags = ["-d", "-t1", "-m8", "-s", &socket_path, "-P", &pid_path, "-a", "0700"];
    let status = memcached(env!("CARGO_BIN_EXE_larder"), &flags).status().expect("it runs");
    assert!(status.success());
    let number = fs::read_to_string(&pid).expect("a pid file").trim().parse().expect("a number");
    assert!(asked(UnixStream::connect(&socket).expect("it listens")).starts_with("VERSION 1."));
    // A second one cannot listen, and reports that.
    let (code, said) = ends(memcached(env!("CARGO_BIN_EXE_larder"), &flags));
    assert_eq!(code, Some(71), "{said}");
    assert!(said.contains(&format!("failed to listen on UNIX socket: {socket_path}")), "{said}");
    let process = rustix::process::Pid::from_raw(number).expect("a process");
    let handle = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())
        .expect("a handle");
    rustix::process::pidfd_send_signal(&handle, rustix::process::Signal::TERM)
        .expect("it is told to end");
    // It is no child of this process: a handle reports its end.
    let mut ended = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut ended, Some(&patience)), Ok(1), "it has ended");
    assert!(!pid.exists(), "the pid file is removed");
    fs::remove_dir_all(directory).expect("removed");
}
