//! The examples of contrib/examples/terminator as they are: a program that takes TLS off before
//! Larder. The log and the origin know the client, and the origin that it came by https.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::source_root;
use larder_tests::{Larder, Origin, Papers, Started, wait_until};
use std::process::Command;

/// A file of the example, with each text replaced by that of the test; all must occur.
#[track_caller]
fn example(file: &str, replaced: &[(&str, &str)]) -> String {
    let path = source_root().join("contrib/examples/terminator").join(file);
    let mut text = std::fs::read_to_string(path).unwrap();
    for (from, to) in replaced {
        assert!(text.contains(from), "{file} has no {from}");
        text = text.replace(from, to);
    }
    text
}

fn larder(origin: &Origin) -> Larder {
    let listen = ("127.0.0.1:8080", "127.0.0.1:0");
    let origin = origin.url();
    Larder::with_config(&example("larder.toml", &[listen, ("http://127.0.0.1:9000", &origin)]))
}

/// Asks over TLS from an address of its own, twice: the second answer is from memory.
#[track_caller]
fn check(terminator: &Started, papers: &Papers, origin: &Origin, larder: &Larder) {
    let url = format!("https://127.0.0.1:{}/page", terminator.port());
    for wanted in ["fwd=", "hit"] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--interface", "127.0.0.2", "--include"]);
        // A client's own fields must not count.
        curl.args([
            "--header",
            "X-Forwarded-For: 192.0.2.1",
            "--header",
            "X-Forwarded-Proto: http",
        ]);
        let output = curl.args(["--cacert", &papers.path("authority.pem"), &url]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
        let status = said.lines().find(|line| line.starts_with("cache-status:"));
        assert!(status.is_some_and(|line| line.contains(wanted)), "{wanted}: {output:?}");
        assert!(said.ends_with("page"), "{said}");
    }
    let seen = origin.last();
    assert_eq!(origin.count(), 1);
    assert_eq!(seen.get("x-forwarded-proto"), Some("https"));
    assert!(seen.get("x-forwarded-for").is_some_and(|list| list.contains("127.0.0.2")));
    assert!(!seen.get("x-forwarded-for").unwrap().contains("192.0.2.1"));
    let log = || std::fs::read_to_string(larder.dir().join("access.log")).unwrap_or_default();
    wait_until("both lines of the log", || log().lines().count() == 2);
    assert!(log().lines().all(|line| line.contains(" 127.0.0.2 ")), "{}", log());
}

#[test]
fn nginx_takes_tls_off() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let (papers, larder) = (Papers::issue(), larder(&origin));
    let nginx = Started::start(|dir, port| {
        let server = example(
            "nginx.conf",
            &[
                ("listen 443 ", &format!("listen 127.0.0.1:{port} ")),
                ("/etc/ssl/www.pem", &papers.path("server.pem")),
                ("/etc/ssl/www.key", &papers.path("server.key")),
                ("127.0.0.1:8080", &larder.addr().to_string()),
            ],
        );
        let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let places = places.map(|name| format!("{name}_temp_path {}/{name};", dir.display()));
        let text = format!(
            "daemon off;\npid {0}/pid;\nerror_log {0}/errors;\nevents {{}}\nhttp {{\naccess_log \
             off;\n{1}\n{server}}}\n",
            dir.display(),
            places.join("\n")
        );
        std::fs::write(dir.join("nginx.conf"), text).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-e").arg(dir.join("errors")).arg("-c").arg(dir.join("nginx.conf"));
        (command, None)
    });
    check(&nginx, &papers, &origin, &larder);
    nginx.term();
}

#[test]
fn haproxy_takes_tls_off() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let (papers, larder) = (Papers::issue(), larder(&origin));
    let both = ["server.pem", "server.key"].map(|name| std::fs::read(papers.file(name)).unwrap());
    std::fs::write(papers.file("both"), both.concat()).unwrap();
    let haproxy = Started::start(|dir, port| {
        let text = example(
            "haproxy.cfg",
            &[
                ("bind :443 ", &format!("bind 127.0.0.1:{port} ")),
                ("/etc/ssl/www.both", &papers.path("both")),
                ("127.0.0.1:8080", &larder.addr().to_string()),
            ],
        );
        std::fs::write(dir.join("haproxy.cfg"), text).unwrap();
        let mut command = Command::new("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(dir.join("haproxy.cfg"));
        (command, None)
    });
    check(&haproxy, &papers, &origin, &larder);
    haproxy.term();
}

#[test]
fn caddy_takes_tls_off() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let (papers, larder) = (Papers::issue(), larder(&origin));
    let caddy = Started::start(|dir, port| {
        let site = example(
            "Caddyfile",
            &[
                ("www.example.org {", &format!("https://127.0.0.1:{port} {{\n\tbind 127.0.0.1")),
                ("/etc/ssl/www.pem", &papers.path("server.pem")),
                ("/etc/ssl/www.key", &papers.path("server.key")),
                ("127.0.0.1:8080", &larder.addr().to_string()),
            ],
        );
        // Nothing but the port of the site, and no files elsewhere.
        let text = format!("{{\n\tadmin off\n\tauto_https off\n}}\n{site}");
        std::fs::write(dir.join("Caddyfile"), text).unwrap();
        let mut command = Command::new("/usr/bin/caddy");
        command.arg("run").arg("--adapter").arg("caddyfile");
        command.arg("--config").arg(dir.join("Caddyfile")).env("HOME", dir);
        command.env("XDG_DATA_HOME", dir).env("XDG_CONFIG_HOME", dir);
        (command, None)
    });
    check(&caddy, &papers, &origin, &larder);
    caddy.term();
}
