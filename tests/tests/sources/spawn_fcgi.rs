//! `larder spawn-fcgi` beside Debian's spawn-fcgi: messages, exit codes, sockets, process files,
//! and what an application finds when it starts.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Scratch, get, larder::binary, listening, wait_for, wait_until};
use rustix::process::{Pid, Signal, getuid, kill_process_group, test_kill_process};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const REAL: &str = "/usr/bin/spawn-fcgi";

/// A program whose name for itself is `spawn-fcgi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Real,
    Own,
}

/// A run that has ended, in its directory. Its applications are killed when it is dropped.
struct Ran {
    scratch: Scratch,
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// Code, output and errors, without the numbers of processes.
    fn said(&self) -> (Option<i32>, String, String) {
        let lines = self.out.lines().map(|line| match line.split_once("PID: ") {
            Some((before, _)) => format!("{before}PID: *\n"),
            None => format!("{line}\n"),
        });
        (self.code, lines.collect(), self.err.clone())
    }

    /// The processes it told of.
    fn pids(&self) -> Vec<Pid> {
        let number = |line: &str| line.split_once("PID: ")?.1.parse().ok();
        self.out.lines().filter_map(number).map(|pid| Pid::from_raw(pid).unwrap()).collect()
    }

    /// A file that an application writes.
    #[track_caller]
    fn file(&self, name: &str) -> String {
        wait_for("the application's file", || fs::read_to_string(self.scratch.file(name)).ok())
    }

    /// What the application found, with the directory by another name.
    #[track_caller]
    fn found(&self) -> String {
        let name = self.scratch.path().file_name().unwrap().to_str().unwrap();
        self.file("found").replace(name, "@DIR@")
    }

    /// Mode and owner of the socket.
    fn socket(&self) -> (u32, u32, u32) {
        let data = fs::metadata(self.scratch.file("sock")).unwrap();
        (data.permissions().mode(), data.uid(), data.gid())
    }
}

impl Drop for Ran {
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Runs the program to its end, in a directory that everybody may write to.
fn run(program: Program, arguments: &[&str]) -> Ran {
    run_in(Scratch::new("spawn"), program, arguments)
}

fn run_in(scratch: Scratch, program: Program, arguments: &[&str]) -> Ran {
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = match program {
        Program::Real => Command::new(REAL),
        Program::Own => Command::new(binary()),
    };
    let command = command.arg0("spawn-fcgi").args(arguments).current_dir(scratch.path());
    let ran = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { scratch, code: ran.status.code(), out: text(ran.stdout), err: text(ran.stderr) }
}

fn root() -> bool {
    getuid().is_root()
}

/// Runs that start no process, all in the same directory.
const ENDING: &[&[&str]] = &[
    &["-p", "x", "--", "/bin/true"],
    &["-p", "80x", "--", "/bin/true"],
    &["-p", "0", "--", "/bin/true"],
    &["-p", "", "--", "/bin/true"],
    &["-p", "9"],
    &["-s", "sock"],
    &["-p", "9", "-s", "sock", "--", "/bin/true"],
    &["--", "/bin/true"],
    &["/bin/true"],
    &["-a", "1.2.3", "-p", "9", "--", "/bin/true"],
    &["-a", "localhost", "-p", "9", "--", "/bin/true"],
    &["-a", "192.0.2.1", "-p", "9999", "--", "/bin/true"],
    &["-s", "missing/sock", "--", "/bin/true"],
    &["-s", "/etc", "--", "/bin/true"],
    &["-s", "sock", "-P", "missing/pid", "--", "/bin/true"],
    &["-s", "sock", "-P", "/tmp", "--", "/bin/true"],
    &["-s", "sock", "-P", "/dev/null", "--", "/bin/true"],
    &["-s", "sock", "-d", "missing", "--", "/bin/true"],
    &["-n", "-s", "sock", "-d", "missing", "--", "/bin/true"],
    &["-n", "-s", "sock", "--", "/missing"],
    &["-n", "-s", "sock", "--", "true"],
    &["-n", "-s", "sock", "-f", "exit 3"],
    &["-n", "-s", "sock", "-f", "/bin/echo a b"],
    &["-n", "-s", "sock", "-f", "/missing", "/bin/echo", "-n", "x", "--", "-s"],
    &["-n", "-s", "sock", "-C", "7", "--", "/bin/sh", "-c", "echo $PHP_FCGI_CHILDREN; kill -9 $$"],
];

/// The same for root.
const ENDING_ROOT: &[&[&str]] = &[
    &["-s", "sock", "-u", "root", "--", "/bin/true"],
    &["-s", "sock", "-u", "no-such-user", "--", "/bin/true"],
    &["-s", "sock", "-u", "33x", "--", "/bin/true"],
    &["-s", "sock", "-g", "root", "--", "/bin/true"],
    &["-s", "sock", "-g", "no-such-group", "--", "/bin/true"],
    &["-s", "sock", "-U", "no-such-user", "--", "/bin/true"],
    &["-s", "sock", "-c", "missing", "--", "/bin/true"],
    &["-s", "sock", "-c", "missing", "-S", "--", "/bin/true"],
    &["-n", "-s", "sock", "-c", "/etc/passwd", "--", "/bin/true"],
    &["-n", "-s", "sock", "-u", "4711", "--", "/bin/sh", "-c", "id; echo $PHP_FCGI_CHILDREN"],
    &["-n", "-s", "sock", "-u", "nobody", "--", "/bin/sh", "-c", "id"],
    &["-n", "-s", "sock", "-u", "nobody", "-g", "www-data", "--", "/bin/sh", "-c", "id"],
    &["-n", "-s", "sock", "-g", "33", "--", "/bin/sh", "-c", "id; test -S /proc/self/fd/0"],
];

#[test]
fn what_starts_no_process_ends_it_as_it_ends_spawn_fcgi() {
    let of_root = if root() { ENDING_ROOT } else { &[] };
    let mut wrong = String::new();
    for arguments in ENDING.iter().chain(of_root) {
        let (real, own) = (run(Program::Real, arguments), run(Program::Own, arguments));
        if real.said() != own.said() {
            wrong.push_str(&format!("{arguments:?}: {:?}, here {:?}\n", real.said(), own.said()));
        }
        let left = |ran: &Ran| fs::exists(ran.scratch.file("sock")).unwrap();
        assert_eq!(left(&real), left(&own), "{arguments:?}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn help_and_version_are_those_of_spawn_fcgi() {
    for arguments in [&["-h"][..], &["-?"], &[], &["-x"], &["-p"], &["--foo"], &["-nh"]] {
        let (real, own) = (run(Program::Real, arguments), run(Program::Own, arguments));
        assert_eq!((real.code, &real.err), (own.code, &own.err), "{arguments:?}");
        let lines = |ran: &Ran| -> Vec<String> {
            ran.out
                .lines()
                .filter(|line| !line.starts_with("spawn-fcgi v"))
                .map(Into::into)
                .collect()
        };
        assert_eq!(lines(&real), lines(&own), "{arguments:?}");
    }
    let (real, own) = (run(Program::Real, &["-v"]), run(Program::Own, &["-v"]));
    let words = |ran: &Ran| ran.out.split(' ').take(2).collect::<Vec<_>>().join(" ");
    assert_eq!((real.code, words(&real)), (own.code, words(&own)));
}

/// An application that writes what it found to the file `found`, then stays.
const FACTS: &str = r#"{
    echo "user=$(id -u) group=$(id -g) groups=$(id -G) children=${PHP_FCGI_CHILDREN-unset}"
    echo "in=$(basename "$(pwd)") input=$(readlink /proc/$$/fd/0 | sed 's/[0-9].*//')"
    echo "output=$(readlink /proc/$$/fd/1) errors=$(readlink /proc/$$/fd/2)"
    echo "leads=$(awk '{ print ($5 == $1) ($6 == $1) ($7 == 0) }' /proc/$$/stat) $*"
} > "$FOUND/.found" && mv "$FOUND/.found" "$FOUND/found"
exec sleep 1000"#;

/// The modes and owners of sockets, and what applications found.
const RUNNING: &[&[&str]] = &[
    &[],
    &["-M", "0600"],
    &["-M", "777"],
    &["-M", "9"],
    &["-C", "3"],
    &["-C", "-1"],
    &["-d", "sub"],
    &["-b", "5"],
    &["-P", "pid"],
];

const RUNNING_ROOT: &[&[&str]] = &[
    &["-u", "nobody"],
    &["-u", "65534"],
    &["-u", "www-data", "-g", "nogroup", "-d", "sub"],
    &["-g", "www-data"],
    &["-u", "nobody", "-U", "www-data", "-G", "33", "-M", "0640"],
    &["-U", "4711"],
];

#[test]
fn applications_find_what_spawn_fcgi_gives_them() {
    let of_root = if root() { RUNNING_ROOT } else { &[] };
    for flags in RUNNING.iter().chain(of_root) {
        let [real, own] = [Program::Real, Program::Own].map(|program| {
            let scratch = Scratch::new("spawn");
            fs::create_dir(scratch.file("sub")).unwrap();
            let script = FACTS.replace("$FOUND", scratch.path().to_str().unwrap());
            let mut arguments = vec!["-s", "sock"];
            arguments.extend_from_slice(flags);
            arguments.extend_from_slice(&["--", "/bin/sh", "-c", &script, "sh", "a  b", "-c"]);
            run_in(scratch, program, &arguments)
        });
        assert_eq!(real.said(), own.said(), "{flags:?}");
        assert_eq!(real.found(), own.found(), "{flags:?}");
        assert_eq!(real.socket(), own.socket(), "{flags:?}");
        assert!(own.found().contains("input=socket:["), "{}", own.found());
        if flags.contains(&"-P") {
            let pid = |ran: &Ran| Pid::from_raw(ran.file("pid").parse().unwrap());
            assert_eq!([pid(&real), pid(&own)], [&real, &own].map(|ran| ran.pids().pop()));
        }
    }
}

#[test]
fn several_processes_share_a_port() {
    let port = larder_tests::helper::free_port();
    for address in [None, Some("127.0.0.1"), Some("::1")] {
        for program in [Program::Real, Program::Own] {
            let port_text = port.to_string();
            let mut arguments = vec!["-p", &port_text, "-F", "3", "-P", "pid"];
            arguments.extend(address.iter().flat_map(|address| ["-a", address]));
            arguments.extend(["--", "/bin/sleep", "1000"]);
            let ran = run(program, &arguments);
            assert_eq!((ran.code, &*ran.err, ran.pids().len()), (Some(0), "", 3), "{}", ran.out);
            let told: Vec<String> =
                ran.pids().iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
            assert_eq!(ran.file("pid"), told.join("\n"));
            assert!(listening::port(port));
            drop(ran);
            wait_until("the port to be free", || !listening::port(port));
        }
    }
}

#[test]
fn a_program_that_ends_at_once_is_told() {
    for (words, code, message) in [
        (&["/missing"][..], 2, "spawn-fcgi: child exited with: 2\n"),
        (&["/bin/sh", "-c", "exit 3"], 3, "spawn-fcgi: child exited with: 3\n"),
        (&["/bin/sh", "-c", "kill -9 $$"], 1, "spawn-fcgi: child signaled: 9\n"),
    ] {
        for program in [Program::Real, Program::Own] {
            // On a busy machine a program may take longer than spawn-fcgi waits for its end.
            wait_until("an early end", || {
                let ran = run(program, &[&["-s", "sock", "-P", "pid", "--"], words].concat());
                let told = ran.said() == (Some(code), String::new(), message.to_owned());
                assert!(told || ran.pids().len() == 1, "{program:?}: {:?}", ran.said());
                assert!(!told || ran.file("pid").is_empty());
                told
            });
        }
    }
}

#[test]
fn a_socket_in_use_is_left_alone_and_an_old_one_is_replaced() {
    for program in [Program::Real, Program::Own] {
        let scratch = Scratch::new("spawn");
        let path = scratch.file("sock").display().to_string();
        let again = ["-s", &path, "--", "/bin/sleep", "1000"];
        let first = run_in(scratch, program, &again);
        let second = run(program, &again);
        let message = "spawn-fcgi: socket is already in use, can't spawn\n";
        assert_eq!(second.said(), (Some(255), String::new(), message.to_owned()));
        first.pids().iter().for_each(|pid| kill_process_group(*pid, Signal::KILL).unwrap());
        wait_until("the socket to be left", || !listening::path(Path::new(&path)));
        assert_eq!(run(program, &again).code, Some(0));
    }
}

#[test]
fn a_socket_in_a_root_of_its_own_is_where_the_application_sees_it() {
    if !root() {
        return;
    }
    for (flag, at) in [(None, "inner/sock"), (Some("-S"), "outside")] {
        for program in [Program::Real, Program::Own] {
            let scratch = Scratch::new("spawn");
            let jail = scratch.file("jail");
            fs::create_dir_all(jail.join("inner")).unwrap();
            // The link leads to the jail's own directory, for who is in it.
            symlink("/inner", jail.join("run")).unwrap();
            let jail = jail.to_str().unwrap().to_owned();
            let path = if flag.is_some() { "outside" } else { "/run/sock" };
            let mut arguments = vec!["-c", &jail, "-s", path];
            arguments.extend(flag);
            arguments.extend(["-n", "--", "/bin/sh"]);
            let ran = run_in(scratch, program, &arguments);
            let message = "spawn-fcgi: exec failed: No such file or directory\n";
            assert_eq!(ran.said(), (Some(2), String::new(), message.to_owned()), "{program:?}");
            let place = if flag.is_some() { at.to_owned() } else { format!("jail/{at}") };
            assert!(ran.scratch.file(&place).exists(), "{program:?}: {place}");
        }
    }
    let [real, own] = [Program::Real, Program::Own].map(|program| {
        let scratch = Scratch::new("spawn");
        let path = scratch.file("sock").display().to_string();
        let script = FACTS.replace("$FOUND", scratch.path().to_str().unwrap());
        let words = ["-c", "/", "-s", &path, "-u", "nobody", "--", "/bin/sh", "-c", &script];
        run_in(scratch, program, &words)
    });
    assert_eq!((real.said(), real.socket()), (own.said(), own.socket()));
    assert_eq!(real.found(), own.found());
}

#[test]
fn applications_outlive_the_command_and_serve_pages() {
    let scratch = Scratch::new("spawn");
    fs::create_dir(scratch.file("site")).unwrap();
    fs::write(scratch.file("site/index.php"), "<?php echo 'pid ', getmypid();").unwrap();
    let site = scratch.file("site").display().to_string();
    // The name of the command, instead of the program's.
    let path = scratch.file("sock").display().to_string();
    let started = Command::new(binary())
        .args(["spawn-fcgi", "-s", &path, "-C", "2", "--", "/usr/bin/php-cgi"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = String::from_utf8(started.stdout).unwrap();
    let ran = Ran { scratch, code: started.status.code(), out, err: String::new() };
    let pid = ran.pids()[0];
    test_kill_process(pid).unwrap();
    let larder =
        Larder::site_with_origin(&format!("url = \"fcgi+unix:{path}\"\nroot = \"{site}\"\n"));
    let page = get(larder.addr(), "/");
    assert_eq!(page.status, 200, "{page:?}");
    let own = page.text().strip_prefix("pid ").unwrap().parse().unwrap();
    assert_ne!(Pid::from_raw(own), Some(pid), "PHP's own children answer: -C has an effect");
}

/// A program of the shell that stays until SIGTERM, and says who it is.
const STAYS: &str = "echo $$ >> pids; trap 'exit 0' TERM; while :; do sleep 0.05; done";

#[test]
fn supervised_processes_are_started_again_replaced_and_ended() {
    let scratch = Scratch::new("supervise");
    let mut supervisor = Command::new(binary())
        .args(["spawn-fcgi", "--supervise", "-s", "sock", "-F", "2", "-P", "pid", "--"])
        .args(["/bin/sh", "-c", STAYS])
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pids = || {
        let text = fs::read_to_string(scratch.file("pids")).unwrap_or_default();
        text.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect::<Vec<_>>()
    };
    let runs = |pid: &Pid| test_kill_process(*pid).is_ok();
    wait_until("two processes", || pids().len() == 2);
    let number = fs::read_to_string(scratch.file("pid")).unwrap();
    assert_eq!(number, supervisor.id().to_string());
    kill_process_group(pids()[0], Signal::KILL).unwrap();
    wait_until("a third one", || pids().len() == 3);
    assert!(runs(&pids()[1]) && runs(&pids()[2]));
    let own = Pid::from_child(&supervisor);
    rustix::process::kill_process(own, Signal::HUP).unwrap();
    wait_until("two others in their places", || {
        pids().len() == 5 && !runs(&pids()[1]) && !runs(&pids()[2])
    });
    rustix::process::kill_process(own, Signal::TERM).unwrap();
    assert!(supervisor.wait().unwrap().success());
    assert!(!pids().iter().any(runs));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut supervisor.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("was ended by signal 9: it is started again\n"), "{said}");
}

#[test]
fn supervised_processes_end_with_a_supervisor_that_is_killed() {
    let scratch = Scratch::new("supervise");
    let mut supervisor = Command::new(binary())
        .args(["spawn-fcgi", "-s", "sock", "--supervise", "--", "/bin/sh", "-c", STAYS])
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = wait_for("the process", || {
        let text = fs::read_to_string(scratch.file("pids")).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    });
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    wait_until("its end", || test_kill_process(pid).is_err());
}
