//! Figures: exactly what was done, under names that Prometheus' own tools accept, each of them
//! documented.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::free_port;
use larder_tests::{
    Answer, Gate, Larder, Origin, Reply, Seen, Talk, Wire, helper::source_root, larder, wait_for,
    wait_until, wire,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FRESH: &[&str] = &["Cache-Control: max-age=1000", "ETag: \"v1\""];
const OPEN_METRICS: &str = "Accept: application/openmetrics-text; version=1.0.0";

/// Where the admin interface is.
fn admin(larder: &Larder) -> SocketAddr {
    wait_for("the admin interface to say where it listens", || {
        larder.stderr().lines().find_map(|line| {
            let address = line.strip_prefix("larder: admin at http://")?.split('/').next()?;
            address.parse().ok()
        })
    })
}

fn scrape(addr: SocketAddr, fields: &[&str]) -> Answer {
    let host = format!("Host: {addr}");
    let answer = Wire::connect(addr).ask("GET", "/metrics", &[&[host.as_str()], fields].concat());
    answer.assert_status(200);
    answer
}

/// Every sample of these families that is not 0.
fn counted(addr: SocketAddr, families: &[&str]) -> BTreeMap<String, f64> {
    let text = scrape(addr, &[]).text().to_owned();
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse::<f64>().unwrap())
    });
    let wanted = |name: &str| families.contains(&name.split('{').next().unwrap());
    samples.filter(|(name, value)| wanted(name) && *value != 0.0).collect()
}

/// These and no others are counted; what is counted a moment after an answer was read is waited
/// for.
#[track_caller]
fn expect(addr: SocketAddr, families: &[&str], expected: &[(&str, u64)]) {
    let expected: BTreeMap<String, f64> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value as f64)).collect();
    let mut held = BTreeMap::new();
    for _ in 0..200 {
        held = counted(addr, families);
        if held == expected {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let all: BTreeSet<_> = held.keys().chain(expected.keys()).collect();
    let differing: Vec<_> = all
        .into_iter()
        .filter(|name| held.get(*name) != expected.get(*name))
        .map(|name| format!("{name}: counted {:?}, done {:?}", held.get(name), expected.get(name)))
        .collect();
    panic!("{}", differing.join("\n"));
}

fn origin_script(seen: &Seen, reply: &mut Reply, gate: &Gate) {
    match seen.target.as_str() {
        "/page" => reply.ok(FRESH, "0123456789"),
        "/private" => reply.ok(&["Cache-Control: private"], "yours"),
        "/swr" => reply
            .ok(&["Cache-Control: max-age=10, stale-while-revalidate=1000", "Age: 20"], "stale"),
        "/etag" if seen.get("if-none-match").is_some() => {
            reply.head(304, &["Cache-Control: max-age=1000", "ETag: \"v1\""])
        }
        "/etag" => reply.ok(&["Cache-Control: max-age=10", "Age: 20", "ETag: \"v1\""], "old"),
        "/vary" => reply.ok(&["Cache-Control: max-age=1000", "Vary: X-Lang"], "word"),
        "/broken" => reply
            .head(200, &["Cache-Control: max-age=1000", "Content-Length: 100"])
            .raw("0123456789")
            .close(),
        "/failing" => reply.answer(500, &["Cache-Control: no-store"], "oops"),
        "/slow" | "/left" => {
            gate.wait();
            reply.ok(FRESH, "at last")
        }
        "/ws" => {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: \
                        websocket\r\n\r\n";
            reply.raw(head);
            let mut stream = reply.take_stream();
            let mut four = [0; 4];
            stream.read_exact(&mut four).unwrap();
            stream.write_all(&four).unwrap();
            reply
        }
        _ => reply.ok(&[], "passed"),
    };
}

/// One site before a scripted origin, one before an address where nobody listens.
fn two_sites(gate: &Gate) -> (Origin, Larder, SocketAddr) {
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| origin_script(seen, reply, &door));
    let dead = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n\n[admin]\nlisten = [\"127.0.0.1:0\"]\n\n[[site]]\nhosts = [\"a.test\"]\norigin = \"{}\"\n\
         purge = {{ from = [\"127.0.0.1\"] }}\n\n[[site.rule]]\npath = \"/pass/*\"\npass = true\n\n\
         [[site]]\nhosts = [\"b.test\"]\norigin = \"http://{dead}\"\n",
        origin.url()
    ));
    let addr = admin(&larder);
    (origin, larder, addr)
}

/// Whatever does not keep anybody waiting.
fn plain_traffic(wire: &mut Wire) {
    let a = "Host: a.test";
    wire.ask("GET", "/page", &[a]).assert_forwarded();
    for _ in 0..3 {
        wire.ask("GET", "/page", &[a]).assert_hit();
    }
    wire.ask("HEAD", "/page", &[a]).assert_status(200);
    wire.ask("GET", "/page", &[a, "If-None-Match: \"v1\""]).assert_status(304);
    wire.ask("GET", "/page", &[a, "Range: bytes=0-3"]).assert_status(206);
    wire.ask("GET", "/page", &[a, "Range: bytes=50-"]).assert_status(416);
    wire.send("GET /page HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(5));
    for _ in 0..5 {
        wire.read().assert_hit();
    }
    for method in ["GET", "GET", "DELETE"] {
        wire.ask(method, "/pass/x", &[a]).assert_status(200);
    }
    for _ in 0..2 {
        wire.ask("GET", "/private", &[a]).assert_status(200);
    }
    wire.ask("GET", "/etag", &[a]).assert_status(200);
    wire.ask("GET", "/etag", &[a]).assert_status(200);
    wire.ask("GET", "/vary", &[a, "X-Lang: en"]).assert_status(200);
    wire.ask("GET", "/vary", &[a, "X-Lang: de"]).assert_status(200);
    wire.ask("GET", "/failing", &[a]).assert_status(500);
    wire.ask("GET", "/", &["Host: b.test"]).assert_status(502);
    wire.ask("GET", "/", &["Host: c.test"]).assert_status(421);
    wire.ask("PURGE", "/page", &[a]).assert_status(200);
    wire.ask("PURGE", "/page", &[a]).assert_status(404);
    wire.ask("PURGE", "/page", &["Host: b.test"]).assert_status(403);
}

#[test]
fn every_request_is_counted_once_as_what_it_was() {
    let gate = Gate::closed();
    let (origin, larder, addr) = two_sites(&gate);
    let mut wire = larder.connect();
    plain_traffic(&mut wire);

    // Served stale, refreshed behind.
    wire.ask("GET", "/swr", &["Host: a.test"]).assert_status(200);
    wire.ask("GET", "/swr", &["Host: a.test"]).assert_hit();
    wait_until("the refresh", || origin.count_of("/swr") == 2);
    // One fetches, one waits for it, and one leaves before its answer.
    let ask = |target: &str| {
        let mut wire = larder.connect();
        wire.send_get(target, &["Host: a.test"]);
        wire
    };
    let mut leader = ask("/slow");
    wait_until("the fetch", || origin.count_of("/slow") == 1);
    let mut follower = ask("/slow");
    let waits = "larder_http_coalesced_waits_total";
    wait_until("the wait", || counted(addr, &[waits]).get(waits) == Some(&1.0));
    let leaver = ask("/left");
    wait_until("the other fetch", || origin.count_of("/left") == 1);
    drop(leaver);
    wait_until("the client to be missed", || {
        counted(addr, &["larder_http_requests_total"]).keys().any(|name| name.contains("aborted"))
    });
    gate.open();
    leader.read().assert_status(200);
    follower.read().assert_status(200);
    // The origin breaks off; a tunnel; a line ends as none does.
    let mut broken = ask("/broken");
    assert!(broken.try_read_for("GET").is_err());
    let mut tunnel = larder.connect();
    tunnel.send_get("/ws", &["Host: a.test", "Connection: upgrade", "Upgrade: websocket"]);
    tunnel.read_head();
    tunnel.send("ping");
    assert_eq!(tunnel.read_bytes(4), b"ping");
    drop(tunnel);
    let mut odd = larder.connect();
    odd.send("GET / HTTP/1.1\nHost: a.test\n\n");
    odd.read().assert_status(400);

    expect(
        addr,
        &["larder_http_requests_total"],
        &[
            ("larder_http_requests_total{site=\"a.test\",result=\"hit\"}", 12),
            ("larder_http_requests_total{site=\"a.test\",result=\"stale\"}", 1),
            ("larder_http_requests_total{site=\"a.test\",result=\"refresh\"}", 1),
            ("larder_http_requests_total{site=\"a.test\",result=\"coalesced\"}", 1),
            // /page, /private, /etag, two of /vary, /failing, /swr, /slow, /broken.
            ("larder_http_requests_total{site=\"a.test\",result=\"miss\"}", 9),
            ("larder_http_requests_total{site=\"a.test\",result=\"hit_for_miss\"}", 1),
            ("larder_http_requests_total{site=\"a.test\",result=\"pass\"}", 3),
            ("larder_http_requests_total{site=\"a.test\",result=\"purge\"}", 2),
            ("larder_http_requests_total{site=\"a.test\",result=\"tunnel\"}", 1),
            ("larder_http_requests_total{site=\"a.test\",result=\"aborted\"}", 1),
            ("larder_http_requests_total{site=\"b.test\",result=\"error\"}", 1),
            ("larder_http_requests_total{site=\"b.test\",result=\"denied\"}", 1),
            // No such site, and a line that ends oddly.
            ("larder_http_requests_total{site=\"-\",result=\"refused\"}", 2),
        ],
    );
    expect(
        addr,
        &["larder_http_responses_total"],
        &[
            ("larder_http_responses_total{site=\"a.test\",class=\"1xx\"}", 1),
            ("larder_http_responses_total{site=\"a.test\",class=\"2xx\"}", 26),
            ("larder_http_responses_total{site=\"a.test\",class=\"3xx\"}", 1),
            ("larder_http_responses_total{site=\"a.test\",class=\"4xx\"}", 2),
            ("larder_http_responses_total{site=\"a.test\",class=\"5xx\"}", 1),
            ("larder_http_responses_total{site=\"a.test\",class=\"none\"}", 1),
            ("larder_http_responses_total{site=\"b.test\",class=\"4xx\"}", 1),
            ("larder_http_responses_total{site=\"b.test\",class=\"5xx\"}", 1),
            ("larder_http_responses_total{site=\"-\",class=\"4xx\"}", 2),
        ],
    );
    expect(
        addr,
        &["larder_http_request_duration_seconds_count"],
        &[
            ("larder_http_request_duration_seconds_count{site=\"a.test\",from=\"memory\"}", 13),
            // Not the one that broke off, and not the tunnel.
            ("larder_http_request_duration_seconds_count{site=\"a.test\",from=\"origin\"}", 14),
            ("larder_http_request_duration_seconds_count{site=\"b.test\",from=\"origin\"}", 1),
        ],
    );
    reasons_are_told(addr);
    origins_are_told(addr, &origin);
}

fn reasons_are_told(addr: SocketAddr) {
    expect(
        addr,
        &["larder_http_forwarded_total"],
        &[
            // The misses but one of /vary, the second /private, the follower, who left, the dead
            // origin.
            ("larder_http_forwarded_total{reason=\"uri-miss\"}", 12),
            ("larder_http_forwarded_total{reason=\"vary-miss\"}", 1),
            ("larder_http_forwarded_total{reason=\"stale\"}", 1),
            ("larder_http_forwarded_total{reason=\"bypass\"}", 3),
            ("larder_http_forwarded_total{reason=\"method\"}", 1),
        ],
    );
    expect(
        addr,
        &["larder_http_not_stored_total", "larder_http_truncated_total"],
        &[
            ("larder_http_not_stored_total{reason=\"private\"}", 2),
            ("larder_http_not_stored_total{reason=\"no-store\"}", 1),
            ("larder_http_not_stored_total{reason=\"truncated\"}", 1),
            ("larder_http_truncated_total", 1),
        ],
    );
    expect(
        addr,
        &["larder_http_rejected_total", "larder_http_coalesced_waits_total"],
        &[
            ("larder_http_rejected_total{reason=\"line_end\"}", 1),
            ("larder_http_coalesced_waits_total", 1),
        ],
    );
    // One for plain traffic, and those for /slow (2), /left, /broken, /ws and the odd line.
    expect(
        addr,
        &["larder_http_connections_accepted_total"],
        &[("larder_http_connections_accepted_total", 7)],
    );
}

fn origins_are_told(addr: SocketAddr, origin: &Origin) {
    let all = counted(addr, &["larder_origin_requests_total"]);
    let own = format!("larder_origin_requests_total{{origin=\"{}\"}}", origin.url());
    assert_eq!(all.get(&own), Some(&(origin.count() as f64)), "{all:?}");
    assert_eq!((all.len(), all.values().sum::<f64>()), (2, origin.count() as f64 + 1.0), "{all:?}");
    let failures = counted(addr, &["larder_origin_failures_total"]);
    let count =
        |end: &str| failures.iter().filter(|(name, n)| name.ends_with(end) && **n == 1.0).count();
    let reasons = [count("reason=\"connect\"}"), count("reason=\"truncated\"}"), failures.len()];
    assert_eq!(reasons, [1, 1, 2], "{failures:?}");
    // Every answer whose head came; the one nobody waited for any more was given up.
    let heads = counted(addr, &["larder_origin_first_byte_seconds_count"]);
    assert!(heads.values().sum::<f64>() >= origin.count() as f64 - 1.0, "{heads:?}");
}

#[test]
fn bytes_are_those_of_the_wire_and_json_says_the_same() {
    let origin = Origin::serving(FRESH, "0123456789");
    let larder = Larder::serve(&[
        "--http",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--threads",
        "2",
        "--origin",
        &origin.url(),
    ]);
    let addr = admin(&larder);
    let (mut sent, mut received) = (0, 0);
    for _ in 0..20 {
        let mut stream = TcpStream::connect(larder.addr()).unwrap();
        let ask = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n".repeat(7)
            + "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(ask.as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        (sent, received) = (sent + ask.len() as u64, received + all.len() as u64);
    }
    expect(
        addr,
        &[
            "larder_http_received_bytes_total",
            "larder_http_sent_bytes_total",
            "larder_http_response_bytes_total",
        ],
        &[
            ("larder_http_received_bytes_total", sent),
            ("larder_http_sent_bytes_total", received),
            ("larder_http_response_bytes_total{site=\"default\"}", received),
        ],
    );
    let answer = Wire::connect(addr).ask("GET", "/api/v1/stats", &[&format!("Host: {addr}")]);
    let stats: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    let http = &stats["http"];
    assert_eq!(http["requests"], 160);
    assert_eq!((&http["results"]["hit"], &http["results"]["miss"]), (&159.into(), &1.into()));
    assert_eq!((&http["bytes_in"], &http["bytes_out"]), (&sent.into(), &received.into()));
    assert_eq!(
        (&http["latency"]["hit"]["count"], &http["sites"][0]["requests"]),
        (&159.into(), &160.into())
    );
    assert_eq!(
        (&stats["version"], &stats["threads"], &stats["memcached"]),
        (&1.into(), &2.into(), &serde_json::Value::Null)
    );
    // Buckets are those of the count, in order, few.
    let buckets = http["latency"]["hit"]["buckets"].as_array().unwrap();
    let counts: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
    assert!(counts == 159 && buckets.len() <= 40, "{buckets:?}");
}

#[test]
fn objects_are_counted_by_face() {
    let larder = Larder::serve(&[
        "--http",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--origin",
        "http://127.0.0.1:9",
        "--memcached",
        "127.0.0.1:0",
    ]);
    let addr = admin(&larder);
    let mut talk = Talk::tcp(larder.face("memcached"));
    talk.expect(
        "set a 0 0 1\r\nx\r\nget a\r\nget b\r\ndelete a\r\ndelete a\r\ntouch a 5\r\n",
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\nDELETED\r\nNOT_FOUND\r\nNOT_FOUND\r\n",
    );
    expect(
        addr,
        &[
            "larder_object_gets_total",
            "larder_object_get_hits_total",
            "larder_object_get_misses_total",
            "larder_object_sets_total",
            "larder_object_deletes_total",
            "larder_object_touches_total",
            "larder_object_connections",
            "larder_object_connections_accepted_total",
        ],
        &[
            ("larder_object_gets_total{face=\"memcached\"}", 2),
            ("larder_object_get_hits_total{face=\"memcached\"}", 1),
            ("larder_object_get_misses_total{face=\"memcached\"}", 1),
            ("larder_object_sets_total{face=\"memcached\"}", 1),
            ("larder_object_deletes_total{face=\"memcached\"}", 2),
            ("larder_object_touches_total{face=\"memcached\"}", 1),
            ("larder_object_connections{face=\"memcached\"}", 1),
            ("larder_object_connections_accepted_total{face=\"memcached\"}", 1),
        ],
    );
}

#[test]
fn the_hottest_urls_are_known() {
    let origin = Origin::start(|seen, reply| {
        let fields: &[&str] =
            if seen.target.starts_with("/never") { &["Cache-Control: no-store"] } else { FRESH };
        reply.ok(fields, "page");
    });
    let listen = ["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "1"];
    let larder = Larder::serve(&[&listen[..], &["--origin", &origin.url()]].concat());
    let mut wire = larder.connect();
    // All of a second's first 1,024 answers from memory are looked at, and every other.
    for _ in 0..84 {
        wire.get("/hot", &[]);
    }
    for _ in 0..5 {
        wire.get("/never", &[]);
    }
    let addr = admin(&larder);
    let top = |by: &str| {
        let target = format!("/api/v1/top?by={by}&limit=1");
        let answer = Wire::connect(addr).ask("GET", &target, &[&format!("Host: {addr}")]);
        let json: serde_json::Value =
            serde_json::from_str(answer.assert_status(200).text()).unwrap();
        assert_eq!(json["sampled_one_in"], 61);
        let url = &json["urls"][0];
        (url["url"].as_str().unwrap().to_owned(), url["requests"].as_u64(), url["misses"].as_u64())
    };
    assert_eq!(top("requests"), ("http://site.test/hot".to_owned(), Some(84), Some(1)));
    assert_eq!(top("misses"), ("http://site.test/never".to_owned(), Some(5), Some(5)));
}

/// Runs a checker over `input`; what it prints in the end.
#[track_caller]
fn checked(command: &mut Command, input: &str) -> String {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run scripts/test-deps.sh first");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn prometheus_own_tools_accept_it_under_load() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::serve(&[
        "--http",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--threads",
        "2",
        "--origin",
        &origin.url(),
        "--memcached",
        "127.0.0.1:0",
        "--redis",
        "127.0.0.1:0",
    ]);
    let (addr, at) = (admin(&larder), larder.addr());
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..3)
        .map(|n| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut wire = Wire::connect(at);
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    wire.get(&format!("/{}", (round * 7 + n) % 50), &[]).assert_status(200);
                }
            })
        })
        .collect();
    let parser = source_root().join("tests/metrics/parse.py");
    for _ in 0..5 {
        let plain = scrape(addr, &[]);
        assert_eq!(plain.get("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let said = checked(Command::new("promtool").args(["check", "metrics"]), plain.text());
        assert_eq!(said.trim(), "");
        checked(Command::new("/usr/bin/python3").arg(&parser).arg("text"), plain.text());
        let open = scrape(addr, &[OPEN_METRICS]);
        assert!(
            open.get("content-type")
                .is_some_and(|kind| kind.starts_with("application/openmetrics-text; version=1.0.0"))
        );
        checked(Command::new("/usr/bin/python3").arg(&parser).arg("openmetrics"), open.text());
    }
    stop.store(true, Ordering::Relaxed);
    load.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Every metric of the documentation: the names of their families' samples.
fn documented() -> BTreeSet<String> {
    let (status, page, _) = larder::run(&["docs", "metrics"]);
    assert!(status.success());
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    assert!(names.len() > 50, "{names:?}");
    names
}

#[test]
fn everything_served_is_documented() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::serve(&[
        "--http",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--origin",
        &origin.url(),
    ]);
    wire::get(larder.addr(), "/");
    let text = scrape(admin(&larder), &[]).text().to_owned();
    let families: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .map(str::to_owned)
        .collect();
    let documented = documented();
    let unknown: Vec<_> = families.difference(&documented).collect();
    assert!(unknown.is_empty() && families.len() > 25, "{unknown:?} of {families:?}");
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let documented = documented();
    let name = regex::Regex::new(r"\b(?:larder|process)_[a-z_]+\b").unwrap();
    for file in ["contrib/grafana/larder.json", "contrib/prometheus/alerts.yml"] {
        let text = std::fs::read_to_string(source_root().join(file)).unwrap();
        let named: BTreeSet<&str> = name.find_iter(&text).map(|found| found.as_str()).collect();
        let unknown: Vec<_> = named
            .iter()
            .filter(|name| {
                let family =
                    ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                !documented.contains(**name)
                    && !family.is_some_and(|family| documented.contains(family))
            })
            .collect();
        assert!(unknown.is_empty() && named.len() > 8, "{file}: {unknown:?}");
    }
    let board = std::fs::read_to_string(source_root().join("contrib/grafana/larder.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert!(ids.len() == panels.len() && panels.len() > 20);
    let rules = source_root().join("contrib/prometheus/alerts.yml");
    checked(Command::new("promtool").args(["check", "rules"]).arg(rules), "");
}
