//! Traces: what a collector gets, read by OpenTelemetry's own definitions of its messages, and what
//! the origin sees.

use std::{path::PathBuf, process::Command};

use larder_tests::{
    Larder, Origin, Scratch,
    helper::{Helper, free_port, source_root},
    wait_for,
};
use serde_json::Value;

const PARENT: &str = "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

struct Collector {
    _helper: Helper,
    _scratch: Scratch,
    out: PathBuf,
    port: u16,
}

impl Collector {
    fn start() -> Collector {
        let (scratch, port) = (Scratch::new("otlp"), free_port());
        let out = scratch.write("spans", "");
        let mut command = Command::new("/usr/bin/python3");
        command
            .env("PYTHONPATH", source_root().join("tests/.cache/otlp"))
            .arg(source_root().join("tests/clients/otlp_collector.py"))
            .arg(&out)
            .arg(port.to_string());
        Collector {
            _helper: Helper::start(&mut command, "collecting"),
            _scratch: scratch,
            out,
            port,
        }
    }

    fn larder(&self, origin: &Origin, more: &str) -> Larder {
        Larder::with_config(&format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[tracing]\nendpoint = \"http://127.0.0.1:{}\"\n{more}\n[[site]]\norigin = \"{}\"\n",
            self.port,
            origin.url()
        ))
    }

    /// The first `count` spans, once they are there; no more may be.
    fn spans(&self, count: usize) -> Vec<Value> {
        let spans = wait_for(&format!("{count} spans"), || {
            let text = std::fs::read_to_string(&self.out).ok()?;
            let spans: Vec<Value> =
                text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            (spans.len() >= count).then_some(spans)
        });
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }
}

/// The spans of the path, the request's own first.
fn of_path<'s>(spans: &'s [Value], path: &str) -> Vec<&'s Value> {
    let is = |span: &&Value| {
        let attributes = &span["attributes"];
        attributes["url.path"] == path
            || attributes["url.full"].as_str().is_some_and(|url| url.ends_with(path))
    };
    let mut found: Vec<&Value> = spans.iter().filter(is).collect();
    found.sort_by_key(|span| span["kind"].as_i64());
    found
}

#[test]
fn a_recorded_request_becomes_spans_and_the_origin_stands_below_them() {
    let collector = Collector::start();
    let origin = Origin::serving(&["Cache-Control: max-age=100"], "page");
    let larder = collector.larder(&origin, "service = \"kitchen\"\none_in = 0");
    let mut wire = larder.connect();
    wire.get("/a", &[PARENT, "Tracestate: vendor=1", "User-Agent: tester"]);
    wire.get("/a", &[PARENT]).assert_hit();
    // Neither recorded by its sender, nor part of a trace: passed through as it came.
    let quiet = "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    wire.get("/quiet", &[quiet]);
    wire.get("/none", &[]);
    let spans = collector.spans(3);
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for span in of_path(&spans, "/a") {
        assert_eq!(span["trace"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(
            (&span["service"], &span["scope"], &span["name"]),
            (&"kitchen".into(), &"larder".into(), &"GET".into())
        );
        assert!(span["start"].as_u64() <= span["end"].as_u64(), "{span}");
        assert_eq!(span["failed"], false);
        if span["kind"] == 2 { servers.push(span) } else { clients.push(span) }
    }
    let [miss, hit] = servers[..] else { panic!("two requests: {servers:#?}") };
    let [fetch] = clients[..] else { panic!("one fetch: {clients:#?}") };
    assert_eq!(
        (&miss["parent"], &hit["parent"]),
        (&"b7ad6b7169203331".into(), &"b7ad6b7169203331".into())
    );
    assert_eq!(miss["attributes"]["larder.result"], "TCP_MISS");
    assert_eq!(miss["attributes"]["user_agent.original"], "tester");
    assert_eq!(hit["attributes"]["larder.result"], "TCP_MEM_HIT");
    assert_eq!(hit["attributes"]["http.response.status_code"], 200);
    assert_eq!(hit["attributes"]["http.response.body.size"], 4);
    assert_eq!(fetch["parent"], miss["span"]);
    assert!(
        fetch["start"].as_u64() >= miss["start"].as_u64()
            && fetch["end"].as_u64() <= miss["end"].as_u64()
    );
    // The origin was told of our span; what is not recorded it gets as it came.
    let seen = origin.requests();
    let told = |target: &str| {
        seen.iter()
            .find(|s| s.target == target)
            .expect(target)
            .get("traceparent")
            .map(str::to_owned)
    };
    let id = fetch["span"].as_str().expect("an id");
    assert_eq!(told("/a"), Some(format!("00-0af7651916cd43dd8448eb211c80319c-{id}-01")));
    assert_eq!(seen[0].get("tracestate"), Some("vendor=1"));
    assert_eq!(told("/quiet").as_deref(), quiet.split_once(": ").map(|(_, value)| value));
    assert_eq!(told("/none"), None);
}

#[test]
fn requests_of_no_trace_begin_one_by_lot() {
    let collector = Collector::start();
    let origin = Origin::start(|seen, reply| match seen.target.as_str() {
        "/fails" => {
            reply.answer(500, &["Cache-Control: no-store"], "no");
        }
        _ => {
            reply.ok(&["Cache-Control: max-age=100"], "page");
        }
    });
    let larder = collector.larder(&origin, "one_in = 1");
    let mut wire = larder.connect();
    for path in ["/x?q=1", "/fails", "/y"] {
        // A broken traceparent counts as none.
        wire.get(path, &["Traceparent: 00-xyz"]);
    }
    let spans = collector.spans(6);
    let [server, client] = of_path(&spans, "/fails")[..] else { panic!("{spans:#?}") };
    assert!(server["failed"] == true && client["failed"] == true, "{server} {client}");
    assert_eq!((&server["parent"], &client["parent"]), (&"".into(), &server["span"]));
    let traces: std::collections::BTreeSet<&str> =
        spans.iter().filter_map(|span| span["trace"].as_str()).collect();
    assert_eq!(traces.len(), 3, "a trace each: {traces:?}");
    assert!(traces.iter().all(|trace| *trace != "0".repeat(32)));
    assert_eq!(spans.iter().filter(|span| span["attributes"]["url.query"] == "q=1").count(), 1);
}

#[test]
fn a_collector_that_refuses_costs_spans_and_nothing_else() {
    let collector = Collector::start();
    let refuse = collector.out.with_extension("refuse");
    std::fs::write(&refuse, "").expect("written");
    let origin = Origin::serving(&["Cache-Control: max-age=100"], "page");
    let larder = collector.larder(&origin, "one_in = 1");
    for _ in 0..20 {
        assert_eq!(larder.connect().get("/", &[]).text(), "page");
    }
    wait_for("the word of the collector", || larder.stderr().contains("503").then_some(()));
    std::fs::remove_file(&refuse).expect("removed");
    larder.connect().get("/later", &[]);
    let arrived = wait_for("a span of the last request", || {
        let text = std::fs::read_to_string(&collector.out).ok()?;
        text.contains("/later").then_some(text)
    });
    assert!(!arrived.contains("\"url.path\": \"/\""), "what was refused is not sent again");
}
