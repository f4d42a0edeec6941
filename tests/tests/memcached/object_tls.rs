//! memcached's and Redis's protocols over TLS, by their own clients and command lines.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::free_port;
use larder_tests::memcache::client;
use larder_tests::{Admin, Larder, Memcached, Papers, Redis, Resp, Wire, wait_for, wait_until};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::version::{TLS12, TLS13};

/// A site, for a server that says where it serves pages.
const SITE: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:1\"\n";

/// Both faces over TLS alone, with a certificate of these papers and further lines.
fn config(papers: &Papers, certificate: &str, lines: &str) -> String {
    let tls = format!(
        "listen = \"127.0.0.1:0\"\ncert = \"{}\"\nkey = \"{}\"\n{lines}\n",
        papers.path(&format!("{certificate}.pem")),
        papers.path(&format!("{certificate}.key"))
    );
    format!("[memcached.tls]\n{tls}[redis.tls]\n{tls}{SITE}")
}

fn connect(larder: &Larder, papers: &Papers, face: &str) -> Wire {
    Wire::connect_tls(larder.face(face), &papers.client(), "127.0.0.1")
}

fn redis_cli(address: SocketAddr, papers: &Papers, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "--tls"]);
    command.args(["--cacert", &papers.path("authority.pem")]).args(arguments);
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    (ran.status.success(), said)
}

/// A program for Python that stores, asks and counts by pymemcache over TLS.
const PYMEMCACHE: &str = "
import ssl, sys
from pymemcache.client.base import Client
context = ssl.create_default_context(cafile=sys.argv[2])
client = Client(('127.0.0.1', int(sys.argv[1])), tls_context=context)
large = b'x' * 900000
client.set('large', large, noreply=False)
client.set('n', 1, noreply=False)
assert client.get('large') == large and client.incr('n', 4, noreply=False) == 5
assert len(client.get_many(['large', 'n', 'none'])) == 2
print('ok')
";

#[test]
fn real_clients_speak_to_both_faces() {
    let papers = Papers::issue();
    let larder = Larder::with_config(&config(&papers, "server", ""));
    let redis = larder.face("redis+tls");
    assert_eq!(redis_cli(redis, &papers, &["set", "a", "b"]), (true, "OK\n".to_owned()));
    assert_eq!(redis_cli(redis, &papers, &["get", "a"]), (true, "b\n".to_owned()));
    let port = larder.face("memcached+tls").port().to_string();
    let python = &mut Command::new("/usr/bin/python3");
    let said = client(python.args(["-c", PYMEMCACHE, &port, &papers.path("authority.pem")]));
    assert_eq!(said.stdout, b"ok\n", "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn large_values_in_both_directions_come_as_they_are() {
    let papers = Papers::issue();
    let larder = Larder::with_config(&config(&papers, "server", ""));
    let mut wire = connect(&larder, &papers, "memcached+tls");
    let value: Vec<u8> = (0..700_000u32).map(|at| (at % 251) as u8).collect();
    let set = [format!("set k 0 0 {}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
    for _ in 0..3 {
        wire.send(&set);
        assert_eq!(wire.read_bytes(8), b"STORED\r\n");
    }
    let get = "get k\r\n".repeat(20) + "mn\r\n";
    wire.send(&get);
    let head = format!("VALUE k 0 {}\r\n", value.len());
    let answer = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
    for _ in 0..20 {
        assert!(wire.read_bytes(answer.len()) == answer);
    }
    assert_eq!(wire.read_bytes(4), b"MN\r\n");
    // Thousands of commands in one flight.
    let mut wire = connect(&larder, &papers, "redis+tls");
    wire.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n".repeat(20_000));
    assert!(wire.read_bytes(5 * 20_000) == b"+OK\r\n".repeat(20_000));
}

#[test]
fn a_client_without_tls_or_without_its_certificate_is_not_heard() {
    let (papers, clients) = (Papers::issue(), Papers::issue());
    clients.sign("app", "DNS:app");
    let lines = format!("client_ca = \"{}\"", clients.path("authority.pem"));
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
    let larder = Larder::with_config(&(config(&papers, "server", &lines) + admin));
    for face in ["memcached+tls", "redis+tls"] {
        let mut plain = Wire::connect(larder.face(face));
        plain.send("version\r\n");
        let mut said = Vec::new();
        while let Ok(byte) =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| plain.read_bytes(1)))
        {
            said.extend(byte);
        }
        assert!(said.first().is_none_or(|kind| *kind == 21), "an alert at the most: {said:?}");
    }
    let redis = larder.face("redis+tls");
    let (well, said) = redis_cli(redis, &papers, &["ping"]);
    assert!(!well && !said.contains("PONG"), "{said}");
    let metric = |name: &str, face: &str| {
        Admin::of(&larder).metric(&format!("larder_object_tls_{name}_total{{face=\"{face}\"}}"))
    };
    wait_until("the failures to be counted", || {
        metric("failures", "memcached") == 1 && metric("failures", "redis") == 2
    });
    assert_eq!((metric("handshakes", "memcached"), metric("handshakes", "redis")), (0, 0));
    let (cert, key) = (clients.path("app.pem"), clients.path("app.key"));
    let shown = ["--cert", &cert, "--key", &key, "ping"];
    assert_eq!(redis_cli(redis, &papers, &shown), (true, "PONG\n".to_owned()));
    assert_eq!(metric("handshakes", "redis"), 1);
}

#[test]
fn certificates_are_read_again_and_clients_stay() {
    let papers = Papers::issue();
    papers.sign("next", "IP:127.0.0.1");
    let larder = Larder::with_config(&config(&papers, "server", ""));
    let mut old = connect(&larder, &papers, "memcached+tls");
    old.send("mn\r\n");
    assert_eq!(old.read_bytes(4), b"MN\r\n");
    larder.rewrite_config(&config(&papers, "next", ""));
    larder.hup();
    let next = CertificateDer::from_pem_file(papers.file("next.pem")).unwrap();
    for face in ["memcached+tls", "redis+tls"] {
        wait_until("the new certificate", || {
            let mut wire = connect(&larder, &papers, face);
            wire.shake_hands().unwrap();
            wire.tls().peer_certificates().unwrap()[0] == next
        });
    }
    old.send("mn\r\n");
    assert_eq!(old.read_bytes(4), b"MN\r\n");
}

#[test]
fn a_face_listens_with_and_without_tls_where_both_are_named() {
    let papers = Papers::issue();
    let text = config(&papers, "server", "");
    let text = text.replace("[redis.tls]", "[redis]\nlisten = \"127.0.0.1:0\"\n[redis.tls]");
    let larder = Larder::with_config(&text);
    let mut plain = Wire::connect(larder.face("redis"));
    plain.send("PING\r\n");
    assert_eq!(plain.read_bytes(7), b"+PONG\r\n");
    assert!(redis_cli(larder.face("redis+tls"), &papers, &["ping"]).0);
    assert!(!larder.stderr().contains("memcached://"), "{}", larder.stderr());
}

#[test]
fn memcacheds_own_options_of_tls() {
    let (papers, clients) = (Papers::issue(), Papers::issue());
    clients.sign("app", "DNS:app");
    let files = format!(
        "ssl_chain_cert={},ssl_key={}",
        papers.path("server.pem"),
        papers.path("server.key")
    );
    let verified = format!("ssl_verify_mode=2,ssl_ca_cert={}", clients.path("authority.pem"));
    let open = format!("notls:127.0.0.1:{}", free_port());
    for flags in [&["-Z", "-o", &files][..], &["-Z", "-o", &files, "-o", &verified, "-l", &open]] {
        let larder = Memcached::larder(flags);
        let asked = |client| {
            let mut wire = Wire::connect_tls(larder.addr(), &client, "127.0.0.1");
            wire.send("mn\r\n");
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wire.read_bytes(4))).is_ok()
        };
        assert_eq!(asked(papers.client()), flags.len() == 3);
        assert!(asked(clients.client_with("app", &papers, &[&TLS13, &TLS12])));
        if let Some(open) = flags.get(6) {
            let mut plain = Wire::connect(open["notls:".len()..].parse().unwrap());
            plain.send("mn\r\n");
            assert_eq!(plain.read_bytes(4), b"MN\r\n");
        }
    }
    let ran = Command::new(larder_tests::larder::binary())
        .args(["memcached", "-u", "root", "-l", "127.0.0.1", "-Z"])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(64));
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("ssl_"), "{said}");
}

#[test]
fn redis_servers_own_options_of_tls() {
    let papers = Papers::issue();
    let port = free_port();
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let tls = ["--tls-port", &port.to_string(), "--tls-cert-file", &cert, "--tls-key-file", &key];
    let larder = Redis::larder(&[&tls[..], &["--tls-auth-clients", "no"]].concat());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(redis_cli(address, &papers, &["ping"]), (true, "PONG\n".to_owned()));
    assert!(!larder.connect().ask(&["PING"]).is_error());
    // As in redis-server, clients must have a certificate unless it is said otherwise.
    let ran = Command::new(larder_tests::larder::binary()).arg("redis").args(tls).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && said.contains("authorities"), "{said}");
}

#[test]
fn the_admin_interface_and_those_who_watch_it() {
    let papers = Papers::issue();
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let tls =
        format!("[admin.tls]\nlisten = \"127.0.0.1:0\"\ncert = \"{cert}\"\nkey = \"{key}\"\n");
    let larder = Larder::with_config(&format!("{tls}[redis]\nlisten = \"127.0.0.1:0\"\n{SITE}"));
    let url = wait_for("the address", || {
        let said = larder.stderr();
        let line = said.lines().find_map(|line| line.strip_prefix("larder: admin at "))?;
        Some(line.to_owned())
    });
    let address = url.strip_prefix("https://").unwrap().split('/').next().unwrap();
    let mut wire = Wire::connect_tls(address.parse().unwrap(), &papers.client(), "127.0.0.1");
    wire.ask("GET", "/api/v1/stats", &["Host: 127.0.0.1"]).assert_status(200);
    let mut plain = Wire::connect(address.parse().unwrap());
    plain.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(plain.try_read_for("GET").is_err());
    let top = |authority: &str| {
        let mut command = Command::new(larder_tests::larder::binary());
        command.args(["top", "--once", &url]).env("SSL_CERT_FILE", papers.path(authority));
        let ran = command.output().unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        (ran.status.success(), said)
    };
    let (well, said) = top("authority.pem");
    assert!(well, "{said}");
    papers.sign("other", "DNS:other");
    let (well, said) = top("other.pem");
    assert!(!well && said.contains("UnknownIssuer"), "{said}");
}

/// A record of a handshake message that announces 60,000 bytes, and most of the next record.
fn half_a_hello() -> Vec<u8> {
    let record = [22, 3, 1, 0x40, 0];
    let [high, low] = 60_000_u16.to_be_bytes();
    let message = [1, 0, high, low];
    [&record[..], &message, &[0; 16_384 - 4], &record, &[0; 16_000]].concat()
}

#[test]
fn handshakes_that_stop_half_way_count_as_memory_of_clients() {
    let papers = Papers::issue();
    let config = format!("memory = \"64MiB\"\n{}", config(&papers, "server", ""));
    let plain = "[redis]\nlisten = \"127.0.0.1:0\"\n[redis.tls]";
    let larder = Larder::with_config(&config.replace("[redis.tls]", plain));
    let face = larder.face("redis+tls");
    let hello = half_a_hello();
    let mut client = Resp::tcp(larder.face("redis"));
    let mut used = || {
        let info = client.ask(&["INFO", "memory"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.parse::<usize>().unwrap()
    };
    let before = used();
    let crowd: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = TcpStream::connect(face).unwrap();
            stream.write_all(&hello).unwrap();
            stream
        })
        .collect();
    // Memory is lent by the store in segments, some of which may be half used.
    let held = crowd.len() * hello.len() / 2;
    wait_until("the bytes to be counted", || used() >= before + held);
    drop(crowd);
    wait_until("the bytes to be given back", || used() < before + held);
}
