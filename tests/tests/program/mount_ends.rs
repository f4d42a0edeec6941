//! The start and the end of `larder mount`: refusals, signals, unmounts in every state.

#![allow(clippy::unwrap_used)]

use larder_tests::larder::{binary, run};
use larder_tests::mount::{Mount, is_mounted, possible};
use larder_tests::{Scratch, wait_until};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

fn source() -> Scratch {
    let source = Scratch::new("source");
    fs::create_dir(source.file("below")).unwrap();
    source.write("file", "content");
    source
}

fn of(source: &Scratch) -> Mount {
    Mount::of(&source.path().to_string_lossy(), &[])
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn mounts_that_would_wait_for_themselves_are_refused() {
    let source = source();
    symlink(source.path(), source.file("link")).unwrap();
    let (root, below, link) = (source.path().to_owned(), source.file("below"), source.file("link"));
    for (from, to) in [(&root, &root), (&root, &below), (&below, &root), (&link, &below)] {
        let (status, _, said) = run(&["mount", &from.to_string_lossy(), &to.to_string_lossy()]);
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains("one below the other"), "{said}");
        assert!(!is_mounted(to));
    }
    if !is_root() {
        return;
    }
    // The same directory under another name.
    let other = Scratch::new("bound");
    let bound = |program: &str, words: &[&Path]| {
        assert!(Command::new(program).args(words).status().unwrap().success());
    };
    bound("mount", &[Path::new("--bind"), &root, other.path()]);
    let target = other.file("below");
    let (status, _, said) = run(&["mount", &root.to_string_lossy(), &target.to_string_lossy()]);
    bound("umount", &[other.path()]);
    assert_eq!(status.code(), Some(2), "{said}");
}

#[test]
fn a_mirror_of_a_mirror_is_refused_for_it_may_end_in_a_circle() {
    let source = source();
    let mirror = of(&source);
    let (from, to) = (mirror.path(), source.file("below"));
    let (status, _, said) = run(&["mount", &from.to_string_lossy(), &to.to_string_lossy()]);
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("Mount the source"), "{said}");
    assert!(!is_mounted(&to));
    assert_eq!(fs::read_to_string(from.join("file")).unwrap(), "content");
}

#[test]
fn wrong_words_are_refused() {
    let source = source();
    let target = Scratch::new("target");
    let (from, to) = (source.path().to_string_lossy(), target.path().to_string_lossy());
    let nowhere = source.file("nowhere");
    let file = source.file("file");
    for (words, code, wanted) in [
        (vec!["mount", &from, &to, "-o", "allow_other,nonsense"], 2, "nonsense: unknown"),
        (vec!["mount", &from, &to, "-o", "lifetime=soon"], 2, "lifetime=soon"),
        (vec!["mount", &from, &to, "-o", "fsname=http://x"], 2, "fsname=http://x"),
        (vec!["mount", &from], 2, "TARGET"),
        (vec!["mount", &nowhere.to_string_lossy(), &to], 1, "No such file"),
        (vec!["mount", &file.to_string_lossy(), &to], 1, "is not a directory"),
        (vec!["mount", &from, &file.to_string_lossy()], 1, "is not a directory"),
    ] {
        let (status, _, said) = run(&words);
        assert_eq!(status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
}

#[test]
fn a_signal_or_an_unmount_ends_it() {
    if !possible() {
        return;
    }
    let source = source();
    for signal in [Signal::TERM, Signal::INT] {
        let mut mount = of(&source);
        assert_eq!(fs::read_to_string(mount.file("file")).unwrap(), "content");
        mount.signal(signal);
        assert_eq!(mount.ended().code(), Some(0), "{}", mount.stderr());
        assert!(!is_mounted(mount.path()));
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    }
    if !is_root() {
        return;
    }
    for flag in ["--", "-l"] {
        let mut mount = of(&source);
        assert!(mount.file("file").exists());
        let status = Command::new("umount").arg(flag).arg(mount.path()).status().unwrap();
        assert!(status.success());
        assert_eq!(mount.ended().code(), Some(0), "{}", mount.stderr());
    }
}

#[test]
fn files_that_are_open_at_the_end_stay_until_they_are_closed() {
    if !possible() {
        return;
    }
    let source = source();
    for way in [&[][..], &["-o", "nopassthrough"]] {
        let mut mount = Mount::of(&source.path().to_string_lossy(), way);
        let mut open = File::open(mount.file("file")).unwrap();
        mount.signal(Signal::TERM);
        wait_until("the name to go", || !is_mounted(mount.path()));
        let mut content = String::new();
        open.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        assert!(!mount.has_ended());
        drop(open);
        assert_eq!(mount.ended().code(), Some(0), "{}", mount.stderr());

        let mut mount = Mount::of(&source.path().to_string_lossy(), way);
        let open = File::open(mount.file("file")).unwrap();
        mount.signal(Signal::TERM);
        wait_until("the name to go", || !is_mounted(mount.path()));
        mount.signal(Signal::TERM);
        assert_eq!(mount.ended().code(), Some(0), "{}", mount.stderr());
        assert!(mount.stderr().contains("ended while files were open"), "{}", mount.stderr());
        drop(open);
    }
}

#[test]
fn a_mount_whose_program_was_killed_is_mounted_over() {
    if !possible() || !is_root() {
        return;
    }
    let source = source();
    let mut mount = of(&source);
    let open = File::open(mount.file("file")).unwrap();
    mount.signal(Signal::KILL);
    mount.ended();
    let error = fs::metadata(mount.path()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(107), "ENOTCONN");
    let (from, to) = (source.path().to_string_lossy(), mount.path().to_string_lossy());
    let (status, _, said) = run(&["mount", &from, &to, "--background"]);
    assert!(status.success(), "{said}");
    assert_eq!(fs::read_to_string(mount.file("file")).unwrap(), "content");
    drop(open);
    // The file may be open in the program for a moment yet.
    wait_until("the mount to be let go", || {
        Command::new("umount").arg(mount.path()).status().unwrap().success()
    });
}

#[test]
fn mount_starts_it_by_its_helper() {
    if !possible() || !is_root() {
        return;
    }
    let (source, place) = (source(), Scratch::new("helper"));
    let (helper, target) = (place.file("mount.larder"), place.file("mnt"));
    symlink(binary(), &helper).unwrap();
    fs::create_dir(&target).unwrap();
    // As mount(8) calls it for a line of fstab.
    let fstab = "rw,nofail,x-systemd.automount,allow_other,lifetime=10s";
    let helped = |flags: &str| {
        let mut command = Command::new(&helper);
        command.arg(source.path()).arg(&target).args([flags, "-o", fstab]);
        command.output().unwrap()
    };
    let faked = helped("-fn");
    assert!(faked.status.success() && !is_mounted(&target), "{faked:?}");
    let mounted = helped("-n");
    assert!(mounted.status.success(), "{mounted:?}");
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "content");
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.contains(&*target.to_string_lossy())).unwrap();
    assert!(line.contains(" fuse.larder ro,"), "{line}");
    assert!(line.starts_with(&*source.path().to_string_lossy()), "{line}");
    assert!(Command::new("umount").arg(&target).status().unwrap().success());
    let wrong = Command::new(&helper).arg(source.path()).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
