//! The disk over an upgrade: it has one process at a time, and hears of everything that happens
//! while it has none.

#![allow(clippy::unwrap_used)]

use larder_tests::{Gate, Larder, Origin, get, wait_until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const FRESH: &[&str] = &["Cache-Control: max-age=6000"];

fn start(origin: &Origin) -> Larder {
    Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n[disk]\npath = \"@DIR@/disk\"\nsize = \"64MiB\"\n\
         patience = \"10s\"\n[[site]]\norigin = \"{}\"\ndisk = \"always\"\npurge = {{ from = \
         [\"127.0.0.1\"] }}\n",
        origin.url()
    ))
}

fn script(larder: &Larder, text: &str) -> PathBuf {
    let path = larder.dir().join("program");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn process(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).unwrap()
}

fn lives(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    test_kill_process(process(pid)).is_ok() && !status.contains(") Z ")
}

/// Whether the segments have these bytes.
fn is_on_disk(larder: &Larder, bytes: &[u8]) -> bool {
    let Ok(files) = std::fs::read_dir(larder.dir().join("disk")) else { return false };
    let segments = files.map(|file| file.unwrap().path());
    let mut segments = segments.filter(|path| path.extension().is_some_and(|e| e == "segment"));
    segments.any(|path| {
        let content = std::fs::read(path).unwrap_or_default();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

/// Takes over as the program behind it does, but holds its last message before it gets the memory
/// back until a file is there.
const HOLDS: &str = r#"#!/usr/bin/env python3
import os, select, socket, subprocess, sys, time
BINARY, DIR = "@BINARY@", "@DIR@"
old = socket.socket(fileno=0)
ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
child = subprocess.Popen([BINARY] + sys.argv[1:], stdin=its)
its.close()
while True:
    for one in select.select([old, ours], [], [])[0]:
        data, files, _, _ = socket.recv_fds(one, 1 << 18, 64)
        if not data:
            sys.exit(0)
        if one is ours and b'"listening"' in data:
            open(DIR + "/held", "w").close()
            while not os.path.exists(DIR + "/go"):
                time.sleep(0.01)
        socket.send_fds(old if one is ours else ours, [data], files)
        for file in files:
            os.close(file)
"#;

/// A page that is fetched anew after the old process closed the disk, and is in the memory that the
/// new one gets: the older page on the disk once came back when memory had lost the newer one.
#[test]
fn a_page_that_is_replaced_while_nobody_has_the_disk_does_not_come_back() {
    let (gate, arrived) = (Gate::closed(), Gate::closed());
    let (waits, tells) = (gate.clone(), arrived.clone());
    let origin = Origin::start(move |seen, reply| {
        let again = seen.get("cache-control").is_some();
        if again {
            tells.open();
            waits.wait();
        }
        reply.ok(FRESH, format!("version {} of the page", seen.number));
    });
    let mut larder = start(&origin);
    let old = larder.pid();
    assert_eq!(get(larder.addr(), "/").text(), "version 0 of the page");
    wait_until("it is written", || is_on_disk(&larder, b"version 0 of the page"));
    let mut http = larder.connect();
    http.send_get("/", &["Host: site.test", "Cache-Control: no-cache"]);
    arrived.wait();
    let dir = larder.dir().to_owned();
    let binary = larder_tests::larder::binary();
    let text = HOLDS.replace("@BINARY@", binary.to_str().unwrap());
    let program = script(&larder, &text.replace("@DIR@", dir.to_str().unwrap()));
    let said = std::thread::scope(|scope| {
        let upgrade =
            scope.spawn(|| larder.command(&["upgrade", "--program", program.to_str().unwrap()]));
        wait_until("the disk to be closed", || dir.join("held").exists());
        gate.open();
        assert_eq!(http.read().text(), "version 1 of the page");
        std::fs::write(dir.join("go"), "").unwrap();
        upgrade.join().unwrap()
    });
    let (status, said, wrong) = said;
    assert!(status.success() && said.contains("with the memory"), "{said}{wrong}");
    let new: u32 = said.split(' ').nth(1).unwrap().parse().unwrap();
    wait_until("the old process to end", || !lives(old));
    assert_eq!(get(larder.addr(), "/").text(), "version 1 of the page");
    kill_process(process(new), Signal::TERM).unwrap();
    wait_until("the new process to end", || !lives(new));
    larder.wait_exit();
    let config = std::fs::read_to_string(dir.join("larder.toml")).unwrap();
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
    let next = super::disk::loaded(Larder::with_config(&format!("{config}{admin}")));
    // The stop wrote it, in place of the older one.
    assert_eq!(get(next.addr(), "/").text(), "version 1 of the page");
}

/// The disk that a new process gave back hears of no purge until a restart, so it is emptied: a
/// page that was purged meanwhile once came back.
#[test]
fn a_disk_that_nobody_took_is_emptied() {
    let origin = Origin::start(|_, reply| {
        reply.ok(FRESH, "a page");
    });
    let larder = start(&origin);
    let program = script(&larder, RUNAWAY);
    let superblock = larder.dir().join("disk/superblock");
    wait_until("the disk to be open", || superblock.exists());
    let (status, ..) = larder.command(&["upgrade", "--program", program.to_str().unwrap()]);
    assert!(!status.success());
    wait_until("the disk to be emptied", || larder.stderr().contains("is empty, and not used"));
    assert!(!superblock.exists());
}

/// A new process that ends when it has the memory.
const RUNAWAY: &str = "#!/usr/bin/env python3\nimport socket\ns = socket.socket(fileno=0)\n\
     s.send(b'{\"kind\":\"hello\",\"protocol\":1}')\n\
     while b'\"all\"' not in s.recv(65536): pass\n\
     s.send(b'{\"kind\":\"ready\"}')\n\
     s.recv(65536)\n\
     s.send(b'{\"kind\":\"listening\"}')\n\
     s.recv(65536)\n";
