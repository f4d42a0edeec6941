//! `larder mount` of a directory beside that directory: everything that programs see is equal.

#![allow(clippy::unwrap_used)]

use larder_tests::Scratch;
use larder_tests::mount::{Mount, possible};
use rustix::fs::{FileType, Mode, XattrFlags, mknodat, setxattr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// The ways in which a file is read.
const WAYS: [&[&str]; 2] = [&[], &["-o", "nopassthrough,threads=2"]];

/// Runs a program to its end; gives what it printed.
#[track_caller]
fn done(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output.stdout
}

/// A directory with one of everything.
fn tree() -> Scratch {
    let scratch = Scratch::new("tree");
    let root = scratch.path();
    fs::create_dir_all(root.join("a/b/c/empty")).unwrap();
    fs::create_dir_all(root.join("many")).unwrap();
    for number in 0..400 {
        let name = format!("many/{number:03}-{}", "n".repeat(number % 200));
        fs::write(root.join(name), format!("{number}\n").repeat(number)).unwrap();
    }
    let large: Vec<u8> =
        (0..3_000_017_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(root.join("a/large"), large).unwrap();
    fs::write(root.join("a/nothing"), "").unwrap();
    fs::write(root.join("a/b/one name"), "one inode\n").unwrap();
    fs::hard_link(root.join("a/b/one name"), root.join("a/other name")).unwrap();
    fs::hard_link(root.join("a/b/one name"), root.join("third")).unwrap();
    symlink("../large", root.join("a/b/up")).unwrap();
    symlink("/etc/hostname", root.join("absolute")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("a/b", root.join("into")).unwrap();
    for name in
        [&b"new\nline"[..], b"\xff\xfe not UTF-8", "\u{e4}\u{f6}\u{fc}".as_bytes(), &[b'x'; 255]]
    {
        fs::write(root.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    fs::write(root.join("secret"), "for the owner").unwrap();
    fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(root.join("many"), fs::Permissions::from_mode(0o1751)).unwrap();
    mknodat(rustix::fs::CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    setxattr(root.join("a/large"), "user.kind", b"large", XattrFlags::empty()).unwrap();
    setxattr(root.join("a"), "user.of", &[7; 3000], XattrFlags::empty()).unwrap();
    sparse(&root.join("a/sparse"));
    repository(&root.join("repository"));
    scratch
}

/// A file of a hole, data, and a hole.
fn sparse(path: &Path) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::create(path).unwrap();
    file.write_all_at(b"in the middle", 1 << 20).unwrap();
    file.set_len(2 << 20).unwrap();
}

fn repository(path: &Path) {
    let git = |words: &[&str]| {
        let about = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "gc.auto=0"];
        done(Command::new("git").args(about).arg("-C").arg(path).args(words));
    };
    fs::create_dir(path).unwrap();
    git(&["init", "-q"]);
    for number in 0..30 {
        fs::write(path.join(format!("file-{number}")), format!("content {number}")).unwrap();
    }
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "All"]);
    git(&["status"]);
}

/// Both directories, as one program sees them.
#[track_caller]
fn equal(source: &Path, mount: &Path, program: &str, words: &[&str]) {
    let look = |place: &Path| done(Command::new(program).args(words).current_dir(place));
    let (wanted, found) = (look(source), look(mount));
    if wanted != found {
        let (wanted, found) = (String::from_utf8_lossy(&wanted), String::from_utf8_lossy(&found));
        let differing =
            wanted.split('\0').zip(found.split('\0')).find(|(wanted, found)| wanted != found);
        panic!(
            "{program} {words:?}: {} and {} bytes, first {differing:?}",
            wanted.len(),
            found.len()
        );
    }
}

#[test]
fn programs_see_what_they_see_in_the_source() {
    if !possible() {
        return;
    }
    let tree = tree();
    for way in WAYS {
        let mount = Mount::of(&tree.path().to_string_lossy(), way);
        let (source, target) = (tree.path(), mount.path());
        // The second time the kernel has names, attributes and directories.
        for _ in 0..2 {
            let shown = "%P %y %m %n %U %G %s %b %l %T@ %i\\0";
            equal(source, target, "find", &[".", "-mindepth", "1", "-printf", shown]);
            equal(source, target, "tar", &["--sort=name", "-cf", "-", "."]);
            equal(source, target, "git", &["-C", "repository", "status", "--porcelain=v2"]);
        }
        equal(source, target, "git", &["-C", "repository", "fsck", "--full", "--strict"]);
        equal(source, target, "ls", &["-laRU", "--time-style=full-iso", "a", "many"]);
        let compared = done(
            Command::new("diff")
                .args(["-r", "--no-dereference", "--exclude=pipe"])
                .arg(source)
                .arg(target),
        );
        assert_eq!(String::from_utf8_lossy(&compared), "");
        let changes = done(
            Command::new("rsync")
                .args(["-aHXn", "--checksum", "--delete", "--itemize-changes", "./"])
                .arg(target)
                .current_dir(source),
        );
        assert_eq!(String::from_utf8_lossy(&changes), "");
        println!("{}", mount.stderr());
    }
}

/// Ways to read a file that are not `read`, and what cannot be done.
const READS: &str = r#"
import errno, mmap, os, socket, sys
source, mount = sys.argv[1:]
path = mount + "/a/large"
whole = open(source + "/a/large", "rb").read()
with open(path, "rb") as f:
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    assert m[:] == whole, "mmap"
    shared = mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    shared[0] = 1
    near, far = socket.socketpair()
    got = bytearray()
    at = 0
    while at < len(whole):
        at += os.sendfile(near.fileno(), f.fileno(), at, 65536)
        while len(got) < at:
            got += far.recv(1 << 20)
    assert bytes(got) == whole, "sendfile"
    assert os.pread(f.fileno(), 1000, 2_999_500) == whole[2_999_500:], "the end"
    assert os.pread(f.fileno(), 1000, 4_000_000) == b"", "behind the end"
    import fcntl
    fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
assert os.getxattr(path, "user.kind") == b"large"
assert os.getxattr(mount + "/a", "user.of") == bytes([7]) * 3000
assert os.listxattr(path) == os.listxattr(source + "/a/large"), os.listxattr(path)
for name, wanted in ("user.none", errno.ENODATA), ("nonsense", errno.EOPNOTSUPP):
    try:
        os.getxattr(path, name)
        assert False, name
    except OSError as e:
        assert e.errno == wanted, (name, e)
for place in source, mount:
    with open(place + "/a/sparse", "rb") as f:
        n = f.fileno()
        found = [os.lseek(n, 0, os.SEEK_DATA), os.lseek(n, 1 << 20, os.SEEK_HOLE), os.lseek(n, 0, os.SEEK_HOLE)]
        if place == source: wanted = found
        else: assert found == wanted, (found, wanted)
def refused(call, *args):
    try:
        call(*args)
    except OSError as e:
        assert e.errno == errno.EROFS, (call, args, e)
    else:
        assert False, (call, args)
refused(open, path, "r+b")
refused(open, mount + "/new", "wb")
refused(os.unlink, path)
refused(os.mkdir, mount + "/a/new")
refused(os.rename, path, mount + "/moved")
refused(os.link, path, mount + "/linked")
refused(os.symlink, "x", mount + "/new")
refused(os.chmod, path, 0o600)
refused(os.truncate, path, 0)
refused(os.utime, path)
refused(os.setxattr, path, "user.new", b"x")
# One inode, several names.
links = [os.stat(mount + "/" + name) for name in ("a/b/one name", "a/other name", "third")]
assert len({s.st_ino for s in links}) == 1 and links[0].st_nlink == 3, links
assert os.statvfs(mount).f_blocks == os.statvfs(source).f_blocks
"#;

#[test]
fn mapped_sent_and_refused() {
    if !possible() {
        return;
    }
    let tree = tree();
    for way in WAYS {
        let mount = Mount::of(&tree.path().to_string_lossy(), way);
        done(
            Command::new("/usr/bin/python3").args(["-c", READS]).arg(tree.path()).arg(mount.path()),
        );
    }
}

#[test]
fn other_users_have_their_rights_and_no_more() {
    if !possible() || !rustix::process::geteuid().is_root() {
        return;
    }
    let tree = tree();
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let reads = |mount: &Mount, name: &str| {
        fs::set_permissions(mount.path().parent().unwrap(), fs::Permissions::from_mode(0o755))
            .unwrap();
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "cat"];
        let output = Command::new("setpriv").args(nobody).arg(mount.file(name)).output().unwrap();
        output.status.success()
    };
    let mount = Mount::of(&tree.path().to_string_lossy(), &["--allow-other"]);
    assert!(reads(&mount, "third"));
    assert!(!reads(&mount, "secret"));
    // Root opened it: it is open in the program, and still not for others.
    assert_eq!(fs::read_to_string(mount.file("secret")).unwrap(), "for the owner");
    assert!(!reads(&mount, "secret"));
    drop(mount);
    let mount = Mount::of(&tree.path().to_string_lossy(), &[]);
    assert!(!reads(&mount, "third"), "without allow_other");
}

/// Every content is one line of one number, many times: a mixture would be seen.
fn content(version: usize) -> String {
    format!("{version:08}\n").repeat(3000)
}

#[test]
fn many_threads_see_whole_files_while_they_are_replaced() {
    if !possible() {
        return;
    }
    const FILES: usize = 40;
    let source = Scratch::new("threads");
    let name = |number: usize| format!("d{}/f{number}", number % 5);
    for number in 0..FILES {
        fs::create_dir_all(source.path().join(format!("d{}", number % 5))).unwrap();
        source.write(&name(number), &content(0));
    }
    for way in ["files=8,threads=4", "files=8,threads=4,nopassthrough", "files=8,threads=1"] {
        let mount = Mount::of(&source.path().to_string_lossy(), &["-o", way]);
        std::thread::scope(|scope| {
            let (mount, source, name) = (&mount, &source, &name);
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..200 {
                        let path = mount.file(&name((round * 7 + thread * 11) % FILES));
                        let read = fs::read_to_string(&path).unwrap();
                        let version = read[..8].parse().unwrap();
                        assert!(read == content(version), "{} is mixed", path.display());
                    }
                });
            }
            scope.spawn(move || {
                for version in 1..200 {
                    let number = version % FILES;
                    let new = source.write(&format!("{}.new", name(number)), &content(version));
                    fs::rename(new, source.file(&name(number))).unwrap();
                }
            });
        });
    }
}
