//! `larder bench http` over TLS, HTTP/2 and HTTP/3: the real program against the real Larder, nginx,
//! and servers that fail.

#![allow(clippy::unwrap_used)]

use larder_tests::sized::{KEPT, content};
use larder_tests::started::Started;
use larder_tests::{Admin, Larder, Origin, Papers, larder::binary};
use serde_json::Value;
use std::process::{Command, Stdio};

/// The ways to speak over TLS.
const VERSIONS: [(&[&str], &str); 3] =
    [(&[], "HTTP/1.1"), (&["--http2"], "HTTP/2"), (&["--http3"], "HTTP/3")];

/// A run with its result, what it said and its exit code.
#[track_caller]
fn run(words: &[&str]) -> (Value, String, i32) {
    let mut command = Command::new(binary());
    command.args(["bench", "http"]).args(words).args(["--json", "-"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let run = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (run, said, output.status.code().unwrap())
}

/// A run whose requests are all answered rightly.
#[track_caller]
fn right(words: &[&str]) -> Value {
    let (run, said, code) = run(&[words, &["--limit", "errors=0"]].concat());
    assert_eq!(code, 0, "{words:?}: {said} {run}");
    assert_eq!(run["answers"], run["requests"]);
    run
}

fn larder(papers: &Papers, origin: &Origin, lines: &str) -> Larder {
    let site = format!("[[site]]\norigin = \"{}\"", origin.url());
    let text = papers.config("server", &format!("http3 = true\n{lines}"), &site);
    Larder::with_config(&text.replacen("[http]\n", "[http]\nh2c = true\n", 1))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][name].as_u64().unwrap()
}

#[test]
fn pages_come_right_by_every_protocol() {
    let (papers, origin) = (Papers::issue(), larder_tests::sized::origin());
    let larder = larder(&papers, &origin, "");
    let addr = larder.face("https");
    let urls = [0, 1_000, 26_510, 300_000].map(|length| format!("https://{addr}/{length}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let authority = papers.path("authority.pem");
    let load =
        ["-c", "3", "-t", "2", "-d", "4", "--requests", "400", "--check", "bytes", "-H", "A: b"];
    for (version, spoken) in VERSIONS {
        let words = [&urls[..], &load, version, &["--cacert", &authority]].concat();
        let first = right(&words);
        let protocol = &first["how"]["protocol"];
        assert!(protocol.as_str().unwrap().starts_with(spoken), "{first}");
        let again = right(&[&words[..], &["--limit", "hits=100%"]].concat());
        assert_eq!(again["answers"], 400);
    }
    let plain = format!("http://{}/26510", larder.addr());
    right(&[&[&plain[..], "--http2"], &load[..]].concat());
    assert_eq!(figure(&larder, "http2_malformed") + figure(&larder, "http3_malformed"), 0);
    assert!(figure(&larder, "http2_requests") >= 1200);
    assert_eq!(figure(&larder, "http3_requests"), 800);
    // The open loop takes the same way.
    for (version, _) in VERSIONS {
        let rate = ["--rate", "2000", "--requests", "300", "--cacert", &authority];
        let open = right(&[&urls[..2], version, &rate, &["-c", "2", "-d", "50"]].concat());
        assert_eq!(open["answers"], 300);
    }
}

#[test]
fn methods_fields_and_bodies_arrive_as_given() {
    let papers = Papers::issue();
    let origin = Origin::start(|seen, reply| {
        reply.ok(&[], seen.body.len().to_string());
    });
    let larder = larder(&papers, &origin, "");
    let (url, authority) =
        (format!("https://{}/", larder.face("https")), papers.path("authority.pem"));
    for (version, _) in VERSIONS {
        let before = origin.count();
        let words = [&[&url[..], "--cacert", &authority, "-H", "X-Own: a b"], version].concat();
        let load = ["--pattern", "/p-{}", "--keys", "10", "--size", "200k", "--requests", "40"];
        let mix = ["--mix", "get=30,set=40,delete=20,head=10", "-d", "3", "-c", "2"];
        right(&[&words[..], &load, &mix].concat());
        let seen = origin.requests().split_off(before);
        assert_eq!(seen.len(), 40, "{version:?}");
        let of = |method: &str| seen.iter().filter(|seen| seen.method == method).count();
        assert!(of("PUT") > 0 && of("DELETE") > 0 && of("GET") > 0, "{version:?}");
        for request in &seen {
            assert_eq!(request.get("x-own"), Some("a b"));
            assert_eq!(request.body.len(), if request.method == "PUT" { 200 << 10 } else { 0 });
        }
    }
}

#[test]
fn servers_that_nobody_vouches_for_are_not_measured() {
    let (papers, others, origin) =
        (Papers::issue(), Papers::issue(), Origin::serving(&[KEPT], "page"));
    let larder = larder(&papers, &origin, "");
    let url = format!("https://{}/", larder.face("https"));
    let (right_one, wrong_one) = (papers.path("authority.pem"), others.path("authority.pem"));
    for (version, _) in VERSIONS {
        let words = [&[&url[..], "--requests", "1"], version].concat();
        for trust in [&["--cacert", &wrong_one][..], &["--cacert", &right_one, "--host", "other"]] {
            let (_, said, code) = run(&[&words[..], trust].concat());
            assert_eq!(code, 4, "{version:?} {trust:?}: {said}");
            assert!(said.contains("certificate"), "{said}");
        }
        right(&[&words[..], &["--insecure", "--host", "other"]].concat());
    }
    assert!(origin.count() <= 1);
    let plain = format!("http://{}/", larder.addr());
    for wrong in [
        &[&plain[..], "--http3"][..],
        &[&plain, "--insecure"],
        &[&plain, &url, "--connect", "127.0.0.1:1"],
        &[&url, "--http2", "-H", "Connection: close"],
        &[&url, "--cacert", "/nowhere.pem"],
    ] {
        assert_eq!(run(wrong).2, 2, "{wrong:?}");
    }
}

#[test]
fn a_server_without_the_protocol_is_told() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[KEPT], "page"));
    let site = format!("[[site]]\norigin = \"{}\"", origin.url());
    let larder = Larder::with_config(&papers.config("server", "http2 = false", &site));
    let (url, authority) =
        (format!("https://{}/", larder.face("https")), papers.path("authority.pem"));
    for (version, words) in [("--http2", "NoApplicationProtocol"), ("--http3", "refused")] {
        let (_, said, code) = run(&[&url, version, "--cacert", &authority, "--requests", "1"]);
        assert_eq!(code, 4, "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_new_connection_has_a_full_handshake_unless_sessions_are_resumed() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[KEPT], "page"));
    for (version, _) in VERSIONS {
        let larder = larder(&papers, &origin, "");
        let (url, authority) =
            (format!("https://{}/", larder.face("https")), papers.path("authority.pem"));
        let words = [&[&url[..], "--cacert", &authority, "--reconnect", "-c", "1"], version];
        let words = [&words.concat()[..], &["--requests", "20"]].concat();
        right(&words);
        assert_eq!(figure(&larder, "tls_handshakes"), 20, "{version:?}");
        assert_eq!(figure(&larder, "tls_resumed"), 0);
        right(&[&words[..], &["--resume"]].concat());
        assert_eq!(figure(&larder, "tls_handshakes"), 40, "{version:?}");
        // Of QUIC it is not known which handshakes were resumed.
        assert!(figure(&larder, "tls_resumed") > 0 || version == ["--http3"], "{version:?}");
    }
}

#[test]
fn failures_are_counted_as_what_they_are() {
    let papers = Papers::issue();
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/gone" => {
            reply.answer(404, &[], "");
        }
        "/cut" => {
            reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").raw(content(50_000));
            reply.close();
        }
        _ => {
            static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            reply.ok(&["Cache-Control: no-store"], count.to_string());
        }
    });
    let larder = larder(&papers, &origin, "");
    let (addr, authority) = (larder.face("https"), papers.path("authority.pem"));
    let common = ["--cacert", &authority, "--requests", "10", "-c", "2", "-d", "2"];
    for (version, name) in &VERSIONS[1..] {
        let errors = |path: &str| {
            let url = format!("https://{addr}{path}");
            let (run, said, code) = run(&[&[&url[..]], *version, &common].concat());
            assert_eq!(code, 1, "{said}");
            run["errors"].as_object().unwrap().clone()
        };
        assert_eq!(errors("/gone")["status 404"], 10, "{name}");
        let cut = errors("/cut");
        assert!(cut.keys().all(|error| error.starts_with("stream reset")), "{cut:?}");
        assert_eq!(cut.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 10);
        let url = format!("https://{addr}/changes");
        let (run, _, code) = run(&[&[&url[..], "--check", "bytes"], *version, &common].concat());
        assert_eq!((code, &run["wrong"], &run["answers"]), (1, &9.into(), &1.into()), "{name}");
    }
}

/// nginx ends its connections of HTTP/2 after a thousand requests, or as many as it is told.
#[test]
fn connections_that_a_server_ends_in_time_cost_no_request() {
    let papers = Papers::issue();
    let page = "x".repeat(20_000);
    let nginx = Started::start(|dir, port| {
        std::fs::write(dir.join("page"), &page).unwrap();
        let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
        let text = format!(
            "daemon off;\nworker_processes 1;\npid {0}/pid;\nerror_log {0}/errors;\nevents {{ }}\n\
             http {{\naccess_log off;\nclient_body_temp_path {0}/a;\nproxy_temp_path {0}/b;\n\
             fastcgi_temp_path {0}/c;\nuwsgi_temp_path {0}/d;\nscgi_temp_path {0}/e;\nserver {{\n\
             listen 127.0.0.1:{port} ssl http2;\nssl_certificate {cert};\n\
             ssl_certificate_key {key};\nkeepalive_requests 30;\nroot {0};\n}}\n}}\n",
            dir.display()
        );
        std::fs::write(dir.join("config"), text).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-c").arg(dir.join("config")).arg("-p").arg(dir);
        (command, None)
    });
    let (url, authority) = (format!("https://{}/page", nginx.addr()), papers.path("authority.pem"));
    for version in [&[][..], &["--http2"]] {
        let load = ["--requests", "1000", "-c", "3", "-d", "5", "--check", "bytes"];
        let words = [&[&url[..], "--cacert", &authority], version, &load].concat();
        assert_eq!(right(&words)["answers"], 1000, "{version:?}");
    }
}
