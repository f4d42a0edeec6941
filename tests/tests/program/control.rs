//! Commands of the same user on the same machine: the control socket, without an address, a token
//! or a permission in the configuration.

#![allow(clippy::unwrap_used)]

use larder_tests::larder::{binary, command_in};
use larder_tests::{Gate, Larder, Origin, Scratch, get, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

fn socket(larder: &Larder) -> PathBuf {
    larder.dir().join(format!("{}.sock", larder.pid()))
}

/// `GET path` over the control socket, whole.
fn ask(larder: &Larder, request: &str) -> String {
    let mut stream = UnixStream::connect(socket(larder)).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_purge_needs_neither_address_nor_permission() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let larder = Larder::before(&origin.url());
    let url = "http://site.test/a";
    for _ in 0..2 {
        get(larder.addr(), "/a");
    }
    assert_eq!(origin.count(), 1);
    let (status, said, wrong) = larder.command(&["purge", url]);
    assert_eq!((status.code(), said.as_str()), (Some(0), "purged: 1 page\n"), "{wrong}");
    get(larder.addr(), "/a");
    assert_eq!(origin.count(), 2);
    let (status, said, _) = larder.command(&["purge", "--ban", "url ~ \"^/a\""]);
    assert_eq!((status.code(), said.as_str()), (Some(0), "purged: 1 page\n"));
    let (status, said, _) = larder.command(&["purge", url]);
    assert_eq!((status.code(), said.as_str()), (Some(1), "nothing was there\n"));
}

#[test]
fn the_socket_is_for_the_same_user_and_root() {
    let larder = Larder::before("http://127.0.0.1:1");
    let path = socket(&larder);
    assert!(larder.stderr().contains(&format!("control at unix:{}", path.display())));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(ask(&larder, "GET /api/v1/instance").contains(&format!("\"pid\":{}", larder.pid())));
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Another user cannot even connect; where the file lets it in, the kernel tells who it is.
    let connect = |open: bool| {
        if open {
            std::fs::set_permissions(larder.dir(), PermissionsExt::from_mode(0o755)).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        }
        let script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                      s.sendall(b'GET /api/v1/stats HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); \
                      print(len(s.recv(100)))";
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            script,
        ]);
        command.arg(&path).current_dir("/").output().unwrap()
    };
    assert!(!connect(false).status.success());
    let output = connect(true);
    let said = String::from_utf8_lossy(&output.stderr);
    let nothing = output.stdout == b"0\n" || said.contains("ConnectionResetError");
    assert!(nothing || said.contains("BrokenPipeError"), "{output:?}");
}

#[test]
fn orders_over_tcp_are_refused_with_the_token_too() {
    let larder = Larder::with_config(
        "[admin]\nlisten = [\"127.0.0.1:0\"]\n[http]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\norigin \
         = \"http://127.0.0.1:1\"\n",
    );
    let printed = larder.stderr();
    let link = printed.lines().find_map(|line| line.strip_prefix("larder: admin at http://"));
    let (address, token) = link.unwrap().split_once("/#token=").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /api/v1/stop HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("only_local"), "{answer}");
    assert!(ask(&larder, "GET /api/v1/instance").starts_with("HTTP/1.1 200"));
}

#[test]
fn several_are_told_apart() {
    let directory = Scratch::new("several");
    let start = || {
        let mut child = Command::new(binary())
            .args(["serve", "--http", "127.0.0.1:0", "--origin", "http://127.0.0.1:1"])
            .env("RUNTIME_DIRECTORY", directory.path())
            .current_dir(directory.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("control at")));
        (child, lines)
    };
    let (mut first, _keep) = start();
    let (mut second, _kept) = start();
    let (status, _, said) = command_in(directory.path(), &["stop"]);
    assert_eq!(status.code(), Some(1), "{said}");
    for process in [&first, &second] {
        assert!(said.contains(&format!("{}.sock  http://127.0.0.1:", process.id())), "{said}");
    }
    let line = said.lines().find(|line| line.contains(&format!("{}.sock", first.id()))).unwrap();
    let address = line.split("  ").last().unwrap();
    let stopped = format!("stopped process {} ({address})\n", first.id());
    let (status, said, wrong) = command_in(directory.path(), &["stop", &first.id().to_string()]);
    assert_eq!((status.code(), said.as_str()), (Some(0), stopped.as_str()), "{wrong}");
    assert!(first.wait().unwrap().success());
    let (status, _, wrong) = command_in(directory.path(), &["stop"]);
    assert_eq!(status.code(), Some(0), "{wrong}");
    assert!(second.wait().unwrap().success());
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let (status, _, said) = command_in(directory.path(), &["reload"]);
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("no Larder of yours"), "{said}");
}

#[test]
fn a_reload_tells_its_outcome() {
    let config = "[[site]]\norigin = \"http://127.0.0.1:1\"\n";
    let larder = Larder::with_config(config);
    let (status, said, wrong) = larder.command(&["reload"]);
    assert_eq!(status.code(), Some(0), "{wrong}");
    assert!(said.starts_with("configuration reloaded: process "), "{said}");
    assert!(said.ends_with(&format!(" (http://{})\n", larder.addr())), "{said}");
    larder.rewrite_config("nonsense = 1\n");
    let (status, _, said) = larder.command(&["reload"]);
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("nonsense") && said.contains("stays as it was"), "{said}");
}

#[test]
fn the_live_log_and_top_need_no_address() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let larder = Larder::before(&origin.url());
    let (status, said, wrong) = larder.command(&["top", "--once", "--lifetime"]);
    assert_eq!(status.code(), Some(0), "{wrong}");
    assert!(said.contains("unix:"), "{said}");
    let mut log = Command::new(binary())
        .args(["log", "-n", "1"])
        .env("RUNTIME_DIRECTORY", larder.dir())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It ends by itself after one request.
    wait_until("the log to see a request", || {
        get(larder.addr(), "/seen");
        log.try_wait().unwrap().is_some()
    });
    let mut said = String::new();
    log.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("/seen"), "{said}");
}

#[test]
fn none_is_none() {
    let larder =
        Larder::with_config("control = \"none\"\n[[site]]\norigin = \"http://127.0.0.1:1\"\n");
    assert!(!larder.stderr().contains("control at"));
    assert!(!socket(&larder).exists());
}

/// A site whose application keeps its objects in the same program, as MediaWiki does: a stop waits
/// for its requests, and they may still ask for objects.
#[test]
fn requests_under_way_may_use_the_object_faces_until_they_are_done() {
    let (begun, go_on) = (Arc::new(Gate::closed()), Arc::new(Gate::closed()));
    let memcached = Arc::new(std::sync::OnceLock::<std::net::SocketAddr>::new());
    let origin = Origin::start({
        let (begun, go_on, memcached) = (begun.clone(), go_on.clone(), memcached.clone());
        move |_, reply| {
            begun.open();
            go_on.wait();
            let mut stream = TcpStream::connect(memcached.get().unwrap()).unwrap();
            stream.write_all(b"version\r\n").unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            reply.ok(&[], line);
        }
    });
    let mut larder = Larder::with_config(&format!(
        "[memcached]\nlisten = [\"127.0.0.1:0\"]\n[http]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\n\
         origin = \"{}\"\n",
        origin.url()
    ));
    memcached.set(larder.face("memcached")).unwrap();
    let address = larder.addr();
    let client = std::thread::spawn(move || get(address, "/"));
    begun.wait();
    larder.term();
    wait_until("no more connections for pages", || TcpStream::connect(address).is_err());
    go_on.open();
    let answer = client.join().unwrap();
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 200 && body.starts_with("VERSION "), "{body}");
    assert!(larder.wait_exit().success());
}
