//! The text for Prometheus and the conventions of the table.

use crate::{
    App, Certificate, Counts, Disk, Format, Histogram, Http, Latencies, Namespace, Objects, Origin,
    Outcome, Protocol, Recorder, Remote, RemoteServer, Site, Snapshot, Spans, prometheus,
    table::{self, Kind},
    text::Seconds,
};

/// A snapshot in which every metric has a sample.
fn full() -> Snapshot {
    let recorder = Recorder::default();
    [10, 63, 64, 5000, 20_000_000].into_iter().for_each(|micros| recorder.record(micros));
    let histogram = || Histogram::of([&recorder].into_iter());
    let one = |word: &'static str| Counts::from_iter([(word, 1)]);
    let site = Site {
        name: "a\"b\\c\nd".to_owned(),
        results: [(Outcome::Hit, 7)].into_iter().collect(),
        latency: Latencies { hit: histogram(), ..Latencies::default() },
        ..Site::default()
    };
    let protocol = Protocol { name: "HTTP/2".to_owned(), latency: site.latency.clone() };
    let origin = Origin {
        name: "http://127.0.0.1:9000".to_owned(),
        failures: one("connect"),
        connections_open: 5,
        connections_idle: 2,
        ..Origin::default()
    };
    let http = Http {
        sites: vec![site],
        protocols: vec![protocol],
        origins: vec![origin],
        why_missed: one("uri-miss"),
        not_stored: one("private"),
        tls_failures: one("no-tls"),
        http2_floods: one("pings"),
        rejected: one("line_end"),
        ..Http::default()
    };
    let server = RemoteServer {
        name: "10.0.0.1:11211".to_owned(),
        state: "up".to_owned(),
        ..RemoteServer::default()
    };
    let mut snapshot = Snapshot {
        http: Some(http),
        memcached: Some(Objects { commands: one("get"), ..Objects::default() }),
        queues: Some(crate::Queues {
            largest: vec![crate::Queue { name: "work".to_owned(), ..crate::Queue::default() }],
            ..crate::Queues::default()
        }),
        disk: Some(Disk::default()),
        family: Some(crate::Family {
            peers: vec![crate::FamilyPeer { name: "squid".to_owned(), ..Default::default() }],
            asked: vec![crate::FamilyAsked { name: "icp".to_owned(), ..Default::default() }],
        }),
        remote: Some(Remote { servers: vec![server], events: one("leases"), ..Remote::default() }),
        compression: Some(crate::Compression::default()),
        certificates: vec![Certificate { name: "a.example".to_owned(), ..Certificate::default() }],
        apps: vec![App { name: "php".to_owned(), ..App::default() }],
        loop_delay: histogram(),
        started_ms: 1_700_000_000_123,
        tracing: Some(Spans::default()),
        ..Snapshot::default()
    };
    snapshot.memory.namespaces = vec![Namespace {
        name: "pages".to_owned(),
        floor: Some(1),
        ceiling: Some(2),
        ..Namespace::default()
    }];
    snapshot
}

#[test]
fn samples_are_written_as_the_formats_want_them() {
    let (plain, open) =
        (prometheus(&full(), Format::Prometheus), prometheus(&full(), Format::OpenMetrics));
    for line in [
        "# TYPE larder_http_requests_total counter",
        "larder_http_requests_total{site=\"a\\\"b\\\\c\\nd\",result=\"hit\"} 7",
        "larder_loop_delay_seconds_bucket{le=\"0.000064\"} 2",
        "larder_loop_delay_seconds_bucket{le=\"16.777216\"} 4",
        "larder_loop_delay_seconds_bucket{le=\"+Inf\"} 5",
        "larder_loop_delay_seconds_sum 20.005137",
        "larder_loop_delay_seconds_count 5",
        "larder_origin_connections{origin=\"http://127.0.0.1:9000\",state=\"busy\"} 3",
        "process_start_time_seconds 1700000000.123",
        "larder_store_ceiling_bytes{namespace=\"pages\"} 2",
        "larder_remote_up{server=\"10.0.0.1:11211\"} 1",
    ] {
        assert!(plain.lines().any(|written| written == line), "{line}\n{plain}");
    }
    assert!(!plain.contains("# EOF") && !plain.contains("# UNIT"));
    assert!(open.ends_with("\n# EOF\n"));
    for line in ["# TYPE larder_http_requests counter", "# UNIT larder_loop_delay_seconds seconds"]
    {
        assert!(open.lines().any(|written| written == line), "{line}");
    }
}

/// The rules of `promtool check metrics`, for every metric.
#[test]
fn the_table_keeps_to_the_conventions() {
    let (plain, mut names) =
        (prometheus(&full(), Format::Prometheus), std::collections::BTreeSet::new());
    for metric in table::all() {
        let name = metric.name;
        assert!(names.insert(name), "{name} twice");
        assert!(name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_')), "{name}");
        assert!(
            !name.ends_with("_total") && !name.contains("_count") && !name.ends_with("_sum"),
            "{name}"
        );
        assert!(metric.unit() == "seconds" || metric.kind != Kind::Histogram, "{name}");
        let sentence = |text: &str| {
            text.ends_with('.') && !text.contains(['\n', '\\']) && !text.contains("  ")
        };
        assert!(sentence(metric.help()) && sentence(metric.rises), "{name}");
        let family = format!("# TYPE {} {}\n", metric.full_name(), metric.kind.as_str());
        assert_eq!(plain.matches(&family).count(), 1, "{name}");
    }
}

#[test]
fn seconds_are_exact() {
    let written = |micros| Seconds(micros).to_string();
    assert_eq!([written(0), written(1), written(1_500_000)], ["0.0", "0.000001", "1.5"]);
    assert_eq!(written(1 << 24), "16.777216");
}
