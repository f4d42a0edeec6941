//! Changes of a mounted directory: noticed at once, long before a lifetime ends.

#![allow(clippy::unwrap_used)]

use larder_tests::mount::{Mount, possible};
use larder_tests::{Scratch, wait_until};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;

/// Nothing that is kept ends by itself during a test.
const LONG: [&[&str]; 3] =
    [&["-o", "lifetime=1h"], &["-o", "lifetime=1h,nopassthrough"], &["-o", "lifetime=1h,noopen"]];

#[test]
fn changes_are_noticed_at_once() {
    if !possible() {
        return;
    }
    for way in LONG {
        let source = Scratch::new("changes");
        fs::create_dir(source.file("d")).unwrap();
        source.write("d/changed", "before");
        source.write("d/replaced", "before");
        source.write("d/gone", "before");
        source.write("d/mode", "before");
        let mount = Mount::of(&source.path().to_string_lossy(), way);
        let reads = |name: &str| fs::read_to_string(mount.file(name)).unwrap_or_default();
        let names = || {
            let entries = fs::read_dir(mount.file("d")).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        for name in ["changed", "replaced", "gone", "mode"] {
            assert_eq!(reads(&format!("d/{name}")), "before");
        }
        assert!(!mount.file("d/new").exists(), "its absence is kept");
        assert_eq!(names().len(), 4);

        source.write("d/changed", "and after, longer");
        wait_until("changed content", || reads("d/changed") == "and after, longer");
        let length = || fs::metadata(mount.file("d/changed")).unwrap().len();
        wait_until("changed length", || length() == 17);
        fs::OpenOptions::new().append(true).open(source.file("d/changed")).unwrap();
        fs::rename(source.write("d/.new", "replaced"), source.file("d/replaced")).unwrap();
        wait_until("the replaced file", || reads("d/replaced") == "replaced");
        fs::remove_file(source.file("d/gone")).unwrap();
        wait_until("a file that is gone", || !mount.file("d/gone").exists());
        source.write("d/new", "new");
        wait_until("a new file", || reads("d/new") == "new");
        wait_until("the new list", || !names().contains(&"gone".to_owned()) && names().len() == 4);
        fs::set_permissions(source.file("d/mode"), fs::Permissions::from_mode(0o601)).unwrap();
        let mode = || fs::metadata(mount.file("d/mode")).unwrap().mode() & 0o777;
        wait_until("the new mode", || mode() == 0o601);
        fs::create_dir_all(source.file("d/deep/er")).unwrap();
        source.write("d/deep/er/x", "x");
        wait_until("a new directory", || reads("d/deep/er/x") == "x");
        fs::rename(source.file("d"), source.file("moved")).unwrap();
        wait_until("a moved directory", || reads("moved/deep/er/x") == "x");
        wait_until("the name of old", || !mount.file("d").exists());
        source.write("moved/deep/er/x", "y");
        wait_until("a change in it", || reads("moved/deep/er/x") == "y");
    }
}

#[test]
fn a_file_with_two_names_changes_by_both() {
    if !possible() {
        return;
    }
    let source = Scratch::new("links");
    source.write("one", "before");
    let mount = Mount::of(&source.path().to_string_lossy(), &["-o", "lifetime=1h"]);
    let stat = |name: &str| fs::metadata(mount.file(name));
    assert_eq!(stat("one").unwrap().nlink(), 1);
    fs::hard_link(source.file("one"), source.file("two")).unwrap();
    wait_until("the second name", || stat("one").unwrap().nlink() == 2);
    assert_eq!(stat("one").unwrap().ino(), stat("two").unwrap().ino());
    source.write("two", "after, longer");
    wait_until("the change by the other name", || stat("one").unwrap().len() == 13);
    fs::remove_file(source.file("one")).unwrap();
    wait_until("the first name to go", || stat("one").is_err());
    let two = || fs::read_to_string(mount.file("two")).unwrap();
    wait_until("the second to stay", || stat("two").unwrap().nlink() == 1);
    assert_eq!(two(), "after, longer");
}

#[test]
fn open_files_stay_what_they_are() {
    if !possible() {
        return;
    }
    for way in LONG {
        let source = Scratch::new("open");
        source.write("file", "the first content");
        source.write("grows", "1");
        let mount = Mount::of(&source.path().to_string_lossy(), way);
        let mut open = File::open(mount.file("file")).unwrap();
        fs::rename(source.write("other", "the second"), source.file("file")).unwrap();
        let second = || fs::read_to_string(mount.file("file")).unwrap_or_default();
        wait_until("the replaced file", || second() == "the second");
        let mut first = String::new();
        open.read_to_string(&mut first).unwrap();
        assert_eq!(first, "the first content");
        assert_eq!(open.metadata().unwrap().len(), 17);
        fs::remove_file(source.file("file")).unwrap();
        wait_until("the name to go", || !mount.file("file").exists());
        let mut again = [0; 3];
        open.read_exact_at(&mut again, 4).unwrap();
        assert_eq!(&again, b"fir");

        let grows = File::open(mount.file("grows")).unwrap();
        let mut written = fs::OpenOptions::new().append(true).open(source.file("grows")).unwrap();
        std::io::Write::write_all(&mut written, b"23456").unwrap();
        let mut tail = [0; 8];
        wait_until("what was appended", || grows.read_at(&mut tail, 1).unwrap() == 5);
        assert_eq!(&tail[..5], b"23456");
        written.set_len(2).unwrap();
        wait_until("what was cut off", || grows.read_at(&mut tail, 1).unwrap() == 1);
    }
}

#[test]
fn nothing_outside_of_the_source_is_reached() {
    if !possible() {
        return;
    }
    let place = Scratch::new("escape");
    fs::create_dir_all(place.file("in/d/deep")).unwrap();
    fs::create_dir(place.file("out")).unwrap();
    for name in ["in/d/known", "in/d/unknown", "in/d/deep/unknown", "out/secret"] {
        place.write(name, "content");
    }
    let mount = Mount::of(&place.file("in").to_string_lossy(), &["-o", "lifetime=1h"]);
    assert_eq!(fs::read_to_string(mount.file("d/known")).unwrap(), "content");
    assert!(mount.file("d/deep").is_dir());
    // A process that is in the directory has it open, in the mount as in any file system.
    let inside = File::open(mount.file("d")).unwrap();
    let by_handle =
        |name: &str| fs::read_to_string(format!("/proc/self/fd/{}/{name}", inside.as_raw_fd()));
    assert_eq!(by_handle("known").unwrap(), "content");
    fs::rename(place.file("in/d"), place.file("out/d")).unwrap();
    wait_until("the moved directory to be gone", || !mount.file("d").exists());
    assert!(by_handle("unknown").is_err(), "a name in a directory that left the source");
    assert!(by_handle("deep/unknown").is_err(), "a directory below it");

    // A directory becomes a link that leads out.
    fs::create_dir(place.file("in/e")).unwrap();
    place.write("in/e/secret", "inside");
    wait_until("the directory", || mount.file("e/secret").exists());
    let inside = File::open(mount.file("e")).unwrap();
    fs::remove_file(place.file("in/e/secret")).unwrap();
    fs::remove_dir(place.file("in/e")).unwrap();
    symlink("../out", place.file("in/e")).unwrap();
    let target = || fs::read_link(mount.file("e")).ok();
    wait_until("the link", || target().is_some_and(|target| target.as_os_str() == "../out"));
    let path = format!("/proc/self/fd/{}/secret", inside.as_raw_fd());
    assert!(fs::read_to_string(path).is_err(), "a link that took a directory's place");
}

#[test]
fn changes_without_watches_are_noticed_after_the_lifetime() {
    if !possible() {
        return;
    }
    let source = Scratch::new("unwatched");
    source.write("file", "before");
    let mount = Mount::of(
        &source.path().to_string_lossy(),
        &["-o", "watches=0,unwatched=50ms", "-o", "threads=1"],
    );
    let reads = || fs::read_to_string(mount.file("file")).unwrap_or_default();
    assert_eq!(reads(), "before");
    source.write("file", "after, longer");
    wait_until("the change", || reads() == "after, longer");
    fs::rename(source.write("new", "replaced"), source.file("file")).unwrap();
    wait_until("the replaced file", || reads() == "replaced");
    fs::remove_file(source.file("file")).unwrap();
    wait_until("the file to be gone", || !mount.file("file").exists());
}

#[test]
fn the_mount_bound_below_its_source_waits_for_nothing() {
    if !possible() || !rustix::process::geteuid().is_root() {
        return;
    }
    let source = Scratch::new("loop");
    fs::create_dir(source.file("inner")).unwrap();
    source.write("file", "content");
    for number in 0..50 {
        source.write(&format!("file-{number}"), "");
    }
    let mount = Mount::of(&source.path().to_string_lossy(), &["-o", "threads=1"]);
    let inner = source.file("inner");
    let run = |program: &str, words: &[&std::ffi::OsStr]| {
        Command::new(program).args(words).status().unwrap().success()
    };
    let bind = ["--bind".as_ref(), mount.path().as_os_str(), inner.as_os_str()];
    assert!(run("mount", &bind));
    // A shared mount appears in other namespaces, too; each look ends, with an error.
    let looked = fs::metadata(mount.file("inner/file"));
    let listed = fs::read_dir(mount.path());
    let listed = listed.map(|all| all.map(|name| name.unwrap().file_name()).collect::<Vec<_>>());
    assert!(run("umount", &[inner.as_os_str()]));
    assert!(looked.is_err(), "{looked:?}");
    // A name that cannot be looked at is listed all the same.
    let listed = listed.unwrap();
    assert!(listed.len() == 52 && listed.contains(&"inner".into()), "{listed:?}");
    assert_eq!(fs::read_to_string(mount.file("file")).unwrap(), "content");
}
