//! Faults of `larder mount`: what fails in it is told, and stops nothing else.

#![allow(clippy::unwrap_used)]

use larder_tests::mount::{Mount, possible};
use larder_tests::{Scratch, wait_until};
use rustix::fs::Dir;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The names in a directory that is open already.
fn names(open: &File) -> BTreeSet<String> {
    let entries = Dir::new(open.try_clone().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "." && name != "..").collect()
}

#[test]
fn names_that_cannot_be_looked_at_are_listed() {
    if !possible() {
        return;
    }
    let source = Scratch::new("listed");
    let wanted: BTreeSet<String> = (0..300).map(|number| format!("file-{number}")).collect();
    for name in &wanted {
        source.write(name, name);
    }
    let mount = Mount::of(&source.path().to_string_lossy(), &[]);
    let open = File::open(mount.path()).unwrap();
    // The directory is open; there is no descriptor for any name in it.
    let before = mount.limit_descriptors(3);
    let listed = names(&open);
    let looked = fs::symlink_metadata(mount.file("file-7"));
    mount.limit_descriptors(before);
    assert_eq!(listed, wanted);
    assert_eq!(looked.unwrap_err().raw_os_error(), Some(24), "EMFILE");
    assert_eq!(fs::read_to_string(mount.file("file-7")).unwrap(), "file-7");
    let all = fs::read_dir(mount.path()).unwrap();
    let read = all.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>();
    assert_eq!(read, wanted.iter().map(|name| name.len() as u64).sum::<u64>());
}

/// A mount in the state of a server that does not answer.
struct Stopped<'a>(&'a Mount);

impl<'a> Stopped<'a> {
    fn new(mount: &'a Mount) -> Stopped<'a> {
        mount.signal(Signal::STOP);
        // A thread that runs stops a moment later.
        wait_until("all threads to be stopped", || {
            threads(mount).all(|thread| {
                let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
                stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
            })
        });
        Stopped(mount)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

/// The directories of a process's threads.
fn threads(mount: &Mount) -> impl Iterator<Item = PathBuf> {
    let threads = fs::read_dir(format!("/proc/{}/task", mount.pid().as_raw_nonzero())).unwrap();
    threads.flatten().map(|thread| thread.path())
}

fn stat(path: &Path) -> Child {
    let mut command = Command::new("stat");
    command.arg("-t").arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Whether a thread of this process is in a system call that waits for another file system.
fn waits_for_a_file_system(mount: &Mount) -> bool {
    threads(mount).any(|thread| {
        fs::read_to_string(thread.join("wchan"))
            .is_ok_and(|place| place.contains("request_wait_answer"))
    })
}

#[test]
fn a_file_system_that_does_not_answer_stops_no_other() {
    if !possible() || !rustix::process::geteuid().is_root() {
        return;
    }
    let (far, source) = (Scratch::new("far"), Scratch::new("near"));
    far.write("file", "far");
    fs::create_dir(source.file("far")).unwrap();
    fs::create_dir(source.file("near")).unwrap();
    source.write("near/file", "near");
    let server = Mount::of(&far.path().to_string_lossy(), &["-o", "lifetime=1h"]);
    let bound = source.file("far");
    let run = |words: &[&std::ffi::OsStr]| {
        assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success());
    };
    run(&["mount".as_ref(), "--bind".as_ref(), server.path().as_ref(), bound.as_ref()]);
    let mount = Mount::of(&source.path().to_string_lossy(), &["-o", "threads=4"]);
    assert!(mount.file("far").is_dir());
    let stopped = Stopped::new(&server);
    let mut waiting = stat(&mount.file("far/file"));
    wait_until("a request to the server", || waits_for_a_file_system(&mount));
    let mut other = stat(&mount.file("near/file"));
    wait_until("another file", || other.try_wait().unwrap().is_some());
    assert!(waiting.try_wait().unwrap().is_none());
    drop(stopped);
    assert!(waiting.wait().unwrap().success());
    drop(mount);
    run(&["umount".as_ref(), "-l".as_ref(), bound.as_ref()]);
}
