//! Reloads while clients are connected: listeners of every face, memory, and what takes a restart.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::free_port;
use larder_tests::{Admin, H2, Larder, Origin, Papers, Wire, get, wait_for, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

/// An address that nobody else takes.
fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn reload(larder: &Larder, config: &str) -> (bool, String) {
    larder.rewrite_config(config);
    let (status, said, wrong) = larder.command(&["reload"]);
    (status.success(), format!("{said}{wrong}"))
}

/// `version` of memcached.
fn version(mut stream: impl Read + Write) -> String {
    stream.write_all(b"version\r\nquit\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn refuses(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err()
}

#[test]
fn listeners_of_pages_come_and_go_and_connections_stay() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let site = format!("[[site]]\norigin = \"{}\"\n", origin.url());
    let (one, two) = (free(), free());
    let config = |listen: &str| format!("[http]\nlisten = [{listen}]\n{site}");
    let larder = Larder::with_config(&config(&format!("\"{one}\"")));
    let mut kept = Wire::connect(one);
    assert_eq!(kept.get("/", &[]).text(), "page");
    let (done, said) = reload(&larder, &config(&format!("\"{one}\", \"{two}\"")));
    assert!(done, "{said}");
    get(one, "/").assert_hit();
    get(two, "/").assert_hit();
    wait_until("the line", || larder.stderr().contains(&format!("listening on http://{two}")));
    let (done, said) = reload(&larder, &config(&format!("\"{two}\"")));
    assert!(done, "{said}");
    wait_until("the first to be closed", || refuses(one));
    assert!(larder.stderr().contains(&format!("no longer listening on http://{one}")));
    get(two, "/").assert_hit();
    kept.get("/", &[]).assert_hit();
    // And back: the port is free again.
    let (done, said) = reload(&larder, &config(&format!("\"{one}\"")));
    assert!(done, "{said}");
    get(one, "/").assert_hit();
    assert_eq!(origin.count(), 1, "memory has stayed");
}

#[test]
fn an_address_may_grow_to_all_of_the_machine_and_shrink_again() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let site = format!("[[site]]\norigin = \"{}\"\n", origin.url());
    let port = free().port();
    let config = |ip: &str| format!("[http]\nlisten = [\"{ip}:{port}\"]\n{site}");
    let larder = Larder::with_config(&config("127.0.0.1"));
    for ip in ["0.0.0.0", "127.0.0.1"] {
        let (done, said) = reload(&larder, &config(ip));
        assert!(done, "{said}");
        let other = SocketAddr::from(([127, 0, 0, 2], port));
        wait_until("the other address", || refuses(other) == (ip == "127.0.0.1"));
        get(SocketAddr::from(([127, 0, 0, 1], port)), "/");
    }
}

#[test]
fn an_address_that_is_taken_changes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap();
    let (one, socket) = (free(), "unix:@DIR@/objects");
    let config = |listen: &str, objects: &str, ttl: &str| {
        format!(
            "[http]\nlisten = [{listen}]\n[memcached]\nlisten = [{objects}]\n[[site]]\norigin = \
             \"http://127.0.0.1:1\"\nttl = \"{ttl}\"\nbypass_cookies = [\"a\"]\n"
        )
    };
    let larder = Larder::with_config(&config(&format!("\"{one}\""), "\"127.0.0.1:0\"", "1s"));
    let objects = format!("\"127.0.0.1:0\", \"{socket}\"");
    let (done, said) =
        reload(&larder, &config(&format!("\"{one}\", \"{taken_at}\""), &objects, "1s"));
    assert!(!done && said.contains(&format!("cannot listen on {taken_at}")), "{said}");
    assert!(said.contains("another program listens there"), "{said}");
    get(one, "/").assert_status(502);
    assert!(!larder.dir().join("objects").exists(), "nothing is left of the others");
    drop(taken);
    let (done, said) =
        reload(&larder, &config(&format!("\"{one}\", \"{taken_at}\""), &objects, "1s"));
    assert!(done, "{said}");
    get(taken_at, "/").assert_status(502);
    let over_unix = UnixStream::connect(larder.dir().join("objects")).unwrap();
    assert!(version(over_unix).starts_with("VERSION "));
    let (done, said) = reload(&larder, &config(&format!("\"{one}\""), "\"127.0.0.1:0\"", "1s"));
    assert!(done, "{said}");
    assert!(!larder.dir().join("objects").exists(), "the socket goes with its listener");
    assert!(version(TcpStream::connect(larder.face("memcached")).unwrap()).starts_with("VERSION"));
}

#[test]
fn connections_that_wait_in_a_closed_listener_are_served() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let site = format!("[[site]]\norigin = \"{}\"\n", origin.url());
    let (one, two) = (free(), free());
    let larder = Larder::with_config(&format!("[http]\nlisten = [\"{one}\"]\n{site}"));
    let mut clients: Vec<_> = (0..64).map(|_| Wire::connect(one)).collect();
    let (done, said) = reload(&larder, &format!("[http]\nlisten = [\"{two}\"]\n{site}"));
    assert!(done, "{said}");
    for client in &mut clients {
        assert_eq!(client.get("/", &[]).text(), "page");
    }
}

#[test]
fn https_and_the_admin_interface_come_by_a_reload() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let papers = Papers::issue();
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let (https, admin) = (free(), free());
    let config = |more: &str, admin: &str| {
        format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = [{admin}]\n{more}[[site]]\norigin \
             = \"{}\"\n",
            origin.url()
        )
    };
    let larder = Larder::with_config(&config("", "\"127.0.0.1:0\""));
    let before = Admin::of(&larder);
    let tls = format!(
        "[https]\nlisten = \"{https}\"\nredirect = true\ncertificates = [{{ cert = \"{cert}\", key \
         = \"{key}\" }}]\n"
    );
    let (done, said) = reload(&larder, &config(&tls, &format!("\"127.0.0.1:0\", \"{admin}\"")));
    assert!(done, "{said}");
    let client = H2::connect_tls(https, &papers.client(), "127.0.0.1");
    assert_eq!(client.get("/").text(), "page");
    let moved = get(larder.addr(), "/x");
    let place = format!("https://site.test:{}/x", https.port());
    assert_eq!((moved.status, moved.get("location")), (308, Some(place.as_str())));
    let health =
        wait_for("the new address", || TcpStream::connect(admin).ok().map(|_| get_health(admin)));
    assert_eq!(health, 200);
    let listening = before.json("/api/v1/instance")["listening"].to_string();
    assert!(listening.contains(&format!("https://{https}")), "{listening}");
    let (done, said) = reload(&larder, &config("", "\"127.0.0.1:0\""));
    assert!(done, "{said}");
    wait_until("both to be closed", || refuses(https) && refuses(admin));
    assert_eq!(before.get("/health").status, 200);
    assert_eq!(get(larder.addr(), "/y").text(), "page");
}

fn get_health(address: SocketAddr) -> u16 {
    let mut wire = Wire::connect(address);
    wire.ask("GET", "/health", &[&format!("Host: {address}")]).status
}

#[test]
fn memory_shrinks_and_grows_back() {
    let page = "x".repeat(100_000);
    let origin = Origin::start(move |_, reply| {
        reply.ok(&["Cache-Control: max-age=1000"], &page);
    });
    let config = |memory: &str| {
        format!(
            "memory = \"{memory}\"\n[http]\nlisten = \"127.0.0.1:0\"\nsendfile_cache = \
             \"0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\n",
            origin.url()
        )
    };
    let larder = Larder::with_config(&config("128MiB"));
    let admin = Admin::of(&larder);
    let figure = |name: &str| admin.json("/api/v1/stats")["memory"][name].as_u64().unwrap();
    for number in 0..600 {
        get(larder.addr(), &format!("/{number}"));
    }
    assert_eq!(figure("budget"), 128 << 20);
    assert!(figure("payload") > 55 << 20, "{}", figure("payload"));
    let (done, said) = reload(&larder, &config("48MiB"));
    assert!(done, "{said}");
    let budget = figure("budget");
    assert!((48 << 20..49 << 20).contains(&budget), "{budget}");
    assert!(figure("used") <= budget && figure("payload") <= budget);
    get(larder.addr(), "/599").assert_status(200);
    let (done, said) = reload(&larder, &config("128MiB"));
    assert!(done, "{said}");
    assert_eq!(figure("budget"), 128 << 20);
    for number in 0..600 {
        get(larder.addr(), &format!("/{number}"));
    }
    assert!(figure("payload") > 55 << 20, "{}", figure("payload"));
}

#[test]
fn all_that_takes_a_restart_is_said_in_one_line() {
    let config = |first: &str, memory: &str| {
        format!(
            "{first}memory = \"{memory}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \
             \"http://127.0.0.1:1\"\n"
        )
    };
    let larder = Larder::with_config(&config("", "64MiB"));
    let more = config("threads = 3\nredis = { listen = \"127.0.0.1:0\" }\n", "1GiB");
    let (done, said) = reload(&larder, &more);
    assert!(!done);
    let line = "cannot change while running: memory (above that of the start), threads, whether \
                redis is served; restart to use the new configuration";
    assert!(said.contains(line), "{said}");
    assert_eq!(larder.stderr().matches(line).count(), 1);
    get(larder.addr(), "/").assert_status(502);
}
