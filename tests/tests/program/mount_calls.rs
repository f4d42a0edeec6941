//! System calls on `larder mount`, and on its source when that is read-only itself: each call with
//! each kind of name ends alike, in the manner of the read-only part of pjdfstest.

#![allow(clippy::unwrap_used)]

use larder_tests::Scratch;
use larder_tests::mount::{Mount, possible};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Fills a directory with one name of every kind.
const FILL: &str = r##"
import os, socket, sys
os.chdir(sys.argv[1])
def make(name, mode, text="text\n"):
    with open(name, "w") as f: f.write(text)
    os.chmod(name, mode)
for name, mode in ("file", 0o644), ("secret", 0o600), ("none", 0), ("run", 0o755), ("open", 0o666):
    make(name, mode, "#!/bin/sh\nexit 3\n" if name == "run" else "text\n")
make("empty", 0o644, "")
os.chown("open", 65534, 65534)
for name, mode in ("dir", 0o755), ("shut", 0o700), ("sticky", 0o1777), ("blind", 0o711):
    os.mkdir(name)
    make(name + "/file", 0o644)
    os.mkdir(name + "/dir")
    os.chmod(name, mode)
os.mkdir("bare", 0o755)
os.link("file", "dir/second")
for name, to in ("to-file", "file"), ("to-dir", "dir"), ("to-none", "nowhere"), ("loop", "loop"), ("to-shut", "shut/file"):
    os.symlink(to, name)
os.mkfifo("pipe", 0o644)
s = socket.socket(socket.AF_UNIX); s.bind("socket"); s.close()
os.mknod("null", 0o666 | 0o020000, os.makedev(1, 3))
"##;

/// Runs every call with every name in the working directory, and prints how each ended.
const CALLS: &str = r#"
import ctypes, errno, fcntl, mmap, os, socket, sys
if sys.argv[1] == "nobody":
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
libc = ctypes.CDLL(None, use_errno=True)
def direct(number):
    def call(*args):
        if number(*args) != 0:
            raise OSError(ctypes.get_errno(), "")
    return call
def opened(flags, then=None):
    def call(path):
        f = os.open(path, flags | os.O_NONBLOCK, 0o644)
        try: return then(f) if then else None
        finally: os.close(f)
    return call
def reading(then): return opened(os.O_RDONLY, then)
def facts(s): return (oct(s.st_mode), s.st_size, s.st_nlink, s.st_uid, s.st_gid, s.st_rdev)
def run(path):
    pid = os.fork()
    if pid == 0:
        try: os.execv(path, [path])
        except OSError as e: os._exit(100 + e.errno)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def bind(path):
    with socket.socket(socket.AF_UNIX) as s: s.bind(path)
def connect(path):
    with socket.socket(socket.AF_UNIX) as s: s.connect(path)
def mapped(protection, flags=mmap.MAP_SHARED):
    return reading(lambda f: bytes(mmap.mmap(f, 4, flags=flags, prot=protection)[:]))
def entered(path):
    here = os.open(".", os.O_RDONLY)
    try: os.chdir(path)
    finally: os.fchdir(here); os.close(here)
READ, WRITE, O = mmap.PROT_READ, mmap.PROT_WRITE, os
AT_FDCWD = -100
def exchange(flags):
    return lambda path: direct(libc.renameat2)(AT_FDCWD, os.fsencode(path), AT_FDCWD, b"dir/new", flags)
calls = {
    "stat": lambda p: facts(os.stat(p)), "lstat": lambda p: facts(os.lstat(p)),
    "readlink": os.readlink, "list": lambda p: sorted(os.listdir(p)), "chdir": entered,
    "open": opened(O.O_RDONLY), "open w": opened(O.O_WRONLY), "open rw": opened(O.O_RDWR),
    "open append": opened(O.O_WRONLY | O.O_APPEND), "open truncate": opened(O.O_WRONLY | O.O_TRUNC),
    "open r truncate": opened(O.O_RDONLY | O.O_TRUNC), "open create": opened(O.O_RDONLY | O.O_CREAT),
    "open w create": opened(O.O_WRONLY | O.O_CREAT), "open exclusive": opened(O.O_RDWR | O.O_CREAT | O.O_EXCL),
    "open directory": opened(O.O_RDONLY | O.O_DIRECTORY), "open nofollow": opened(O.O_RDONLY | O.O_NOFOLLOW),
    "open temporary": opened(O.O_RDWR | O.O_TMPFILE), "open path": opened(O.O_PATH),
    "read": reading(lambda f: os.read(f, 9)), "pread behind": reading(lambda f: os.pread(f, 9, 1 << 40)),
    "write": reading(lambda f: os.write(f, b"x")), "ftruncate": reading(lambda f: os.ftruncate(f, 0)),
    "fallocate": reading(lambda f: os.posix_fallocate(f, 0, 9)), "fchmod": reading(lambda f: os.fchmod(f, 0o600)),
    "fchown": reading(lambda f: os.fchown(f, 0, 0)), "futimens": reading(lambda f: os.utime(f, (1, 1))),
    "fsync": reading(os.fsync), "fdatasync": reading(os.fdatasync),
    "seek before": reading(lambda f: os.lseek(f, -1, os.SEEK_SET)),
    "flock": reading(lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)),
    "lock shared": reading(lambda f: fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB)),
    "lock exclusive": reading(lambda f: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)),
    "map": mapped(READ), "map w": mapped(READ | WRITE), "map private": mapped(READ | WRITE, mmap.MAP_PRIVATE),
    "access r": lambda p: os.access(p, os.R_OK) or direct(libc.access)(os.fsencode(p), os.R_OK),
    "access w": lambda p: direct(libc.access)(os.fsencode(p), os.W_OK),
    "access x": lambda p: direct(libc.access)(os.fsencode(p), os.X_OK),
    "unlink": os.unlink, "rmdir": os.rmdir, "mkdir": os.mkdir, "mkfifo": os.mkfifo,
    "mknod": lambda p: os.mknod(p, 0o644), "mknod device": lambda p: os.mknod(p, 0o020644, os.makedev(1, 3)),
    "symlink": lambda p: os.symlink("to", p), "link to": lambda p: os.link("file", p),
    "link from": lambda p: os.link(p, "dir/new", follow_symlinks=False),
    "rename to": lambda p: os.rename("file", p), "rename from": lambda p: os.rename(p, "dir/new"),
    "rename dir to": lambda p: os.rename("dir", p), "rename itself": lambda p: os.rename(p, p),
    "rename unique": exchange(1), "rename exchange": exchange(2),
    "chmod": lambda p: os.chmod(p, 0o600), "chown": lambda p: os.chown(p, 0, 0), "lchown": lambda p: os.lchown(p, 0, 0),
    "utime": os.utime, "utime set": lambda p: os.utime(p, (1, 1)), "truncate": lambda p: os.truncate(p, 1),
    "setxattr": lambda p: os.setxattr(p, "user.a", b"b"), "removexattr": lambda p: os.removexattr(p, "user.a"),
    "getxattr": lambda p: os.getxattr(p, "user.a"), "bind": bind, "connect": connect, "exec": run,
    "statvfs": lambda p: (os.statvfs(p).f_flag & os.ST_RDONLY, os.statvfs(p).f_namemax),
    "name max": lambda p: os.pathconf(p, "PC_NAME_MAX"),
}
one = ["file", "secret", "none", "run", "open", "empty", "dir", "shut", "sticky", "blind", "bare", "to-file", "to-dir",
       "to-none", "loop", "to-shut", "pipe", "socket", "null", "new"]
names = one + [".", "", "dir/", "file/", "new/", "dir/.", "dir/..", "to-dir/", "to-file/", "to-none/", "file/below", "new/below",
    "pipe/below", "loop/below", "dir/file", "dir/second", "dir/new", "shut/file", "shut/new", "blind/file", "blind/new",
    "sticky/file", "sticky/new", "to-dir/file", "to-none/below", "n" * 255, "n" * 256, "dir/" + "n" * 256, "./" * 2000 + "file", "./" * 2100 + "file"]
for name in names:
    for call, how in calls.items():
        try: end = how(name)
        except OSError as e: end = errno.errorcode.get(e.errno, e.errno)
        except ValueError as e: end = str(e)
        shown = name if len(name) < 40 else f"{name[:9]}...{len(name)}"
        print(f"{call:16} {shown:20} {end}")
"#;

#[track_caller]
fn python(script: &str, argument: &str, place: &Path) -> String {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script, argument]).current_dir(place);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", place.display());
    String::from_utf8(output.stdout).unwrap()
}

/// A file system of its own, read-only; unmounted when dropped.
struct ReadOnly(Scratch);

impl ReadOnly {
    #[track_caller]
    fn filled() -> ReadOnly {
        let place = ReadOnly(Scratch::new("read-only"));
        let path = place.0.path();
        run("mount", &["-t", "tmpfs", "-o", "mode=755", "larder-test", &path.to_string_lossy()]);
        python(FILL, &path.to_string_lossy(), path);
        run("mount", &["-o", "remount,ro", &path.to_string_lossy()]);
        place
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[track_caller]
fn run(program: &str, words: &[&str]) {
    assert!(Command::new(program).args(words).status().unwrap().success(), "{program} {words:?}");
}

#[test]
fn every_call_ends_as_on_a_source_that_is_read_only() {
    if !possible() || !rustix::process::geteuid().is_root() {
        return;
    }
    let source = ReadOnly::filled();
    let place = source.0.path();
    let users = ["root", "nobody"].map(|user| (user, python(CALLS, user, place)));
    for way in ["dev,suid", "dev,suid,nopassthrough"] {
        let mount = Mount::of(&place.to_string_lossy(), &["--allow-other", "-o", way]);
        let above = mount.path().parent().unwrap();
        fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
        for (user, wanted) in &users {
            let found = python(CALLS, user, mount.path());
            let pairs = wanted.lines().zip(found.lines());
            let differing: Vec<_> = pairs.filter(|(wanted, found)| wanted != found).collect();
            assert!(differing.is_empty(), "{way}, {user}: {differing:#?}");
            assert_eq!(wanted.lines().count(), found.lines().count());
            assert!(wanted.lines().count() > 3000, "{}", wanted.lines().count());
        }
    }
}
