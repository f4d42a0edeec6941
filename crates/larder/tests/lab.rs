//! `larder bench`, `slow` and `lab` start the second program: with the arguments, input, output and
//! exit status it would have by itself.

use std::{
    fs,
    io::Write,
    ops::Deref,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// Prints its arguments and its input, and ends with status 7.
const STAND_IN: &str = "#!/bin/sh\nprintf '<%s>' \"$@\"\ncat\necho \"from $0\" >&2\nexit 7\n";

/// A directory with the `larder` binary alone in it, removed when dropped.
struct Directory(PathBuf);

impl Deref for Directory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that cannot be removed stays in the target directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn directory(name: &str) -> Directory {
    let name = format!("lab-{}-{name}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).expect("a directory");
    fs::hard_link(env!("CARGO_BIN_EXE_larder"), directory.join("larder")).expect("a link");
    Directory(directory)
}

fn stand_in(directory: &Path) {
    let path = directory.join("larder-lab");
    fs::write(&path, STAND_IN).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable");
}

/// Runs `larder` of this directory with this PATH and `input` on standard input.
fn run(directory: &Path, path: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(directory.join("larder"));
    command.args(arguments).env("PATH", path).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("larder runs");
    // A program that ends without reading leaves a broken pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(b"input");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

#[test]
fn the_program_beside_larder_gets_arguments_input_and_gives_its_status() {
    let own = directory("beside");
    stand_in(&own);
    let beside = format!("from {}\n", own.join("larder-lab").display());
    for arguments in [
        &["bench", "http", "--no-such flag", ""][..],
        &["slow", "--help"],
        &["lab", "-h"],
        &["lab"],
        &["help", "bench", "http"],
    ] {
        let (code, out, err) = run(&own, "/usr/bin:/bin", arguments);
        let typed: String = arguments.iter().map(|argument| format!("<{argument}>")).collect();
        assert_eq!((code, out, err), (7, format!("{typed}input"), beside.clone()));
    }
    // Commands of the server's program stay there.
    for arguments in [&["help", "serve"][..], &["--help"], &["check", "bench"]] {
        assert_ne!(run(&own, "/usr/bin:/bin", arguments).0, 7, "{arguments:?}");
    }
}

#[test]
fn without_one_beside_it_the_path_is_searched() {
    let (own, other) = (directory("path"), directory("path-other"));
    stand_in(&other);
    let path = format!("{}:/usr/bin:/bin", other.display());
    let (code, out, err) = run(&own, &path, &["slow", "--to", "x"]);
    let expected = format!("from {}\n", other.join("larder-lab").display());
    assert_eq!((code, out.as_str(), err), (7, "<slow><--to><x>input", expected));
}

#[test]
fn a_missing_program_is_named_with_how_to_install_it() {
    let own = directory("missing");
    for command in ["bench", "slow", "lab"] {
        let (code, out, err) = run(&own, "/nonexistent", &[command, "anything"]);
        assert_eq!((code, out.as_str()), (4, ""));
        assert!(err.contains("program larder-lab, which is neither beside larder nor on"), "{err}");
        assert!(err.contains("`cargo install --path crates/lab` installs it"), "{err}");
    }
}

#[test]
fn a_program_that_cannot_be_started_is_named_with_the_reason() {
    let own = directory("broken");
    fs::write(own.join("larder-lab"), "no program").expect("a file");
    let (code, _, err) = run(&own, "/usr/bin:/bin", &["bench"]);
    assert_eq!(code, 4);
    assert!(err.contains(&format!("{}: ", own.join("larder-lab").display())), "{err}");
    assert!(err.contains("denied"), "{err}");
}
