//! The dashboard's `types.ts`, generated from the types of the API. Run with LARDER_BLESS=1 to
//! write it.

use std::{fmt::Write as _, path::Path};

use ts_rs::{Config, TS};

use crate::{
    Advice, AnsweredError, App, Certificate, Columns, Compression, Conditions, Connections, Counts,
    Disk, Family, FamilyAsked, FamilyPeer, Histogram, HotKey, HotUrl, Http, Latencies, LogFigures,
    LogLine, Memory, Namespace, ObjectRow, Objects, Origin, Outcome, Protocol, Purge, Queue,
    Queues, Remote, RemotePages, RemoteServer, Results, Site, Snapshot, Spans, Statuses, Timeouts,
    TopKeys, TopUrls, histogram::HistogramJson,
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/src/admin/web/src/types.ts");

fn declare<T: TS>(out: &mut String) {
    let config = Config::default().with_large_int("number");
    let docs = T::docs().unwrap_or_default();
    let text = format!("{docs}export {}", T::decl(&config));
    let text = text.replace("/**\n * ", "/** ").replace("\n */", " */").replace(", };", ",\n};");
    out.push('\n');
    let mut inside = false;
    for line in text.lines().map(str::trim_end) {
        inside &= line != "};";
        let _ = writeln!(out, "{}{line}", if inside { "    " } else { "" });
        inside |= line.ends_with("= {");
    }
}

macro_rules! declare {
    ($out:ident: $($type:ty),*) => { $(declare::<$type>(&mut $out);)* };
}

fn generated() -> String {
    let mut out = "// The JSON of the admin API. Generated from the types of crates/metrics: \
                   LARDER_BLESS=1 cargo test -p larder-metrics.\n"
        .to_owned();
    declare!(
        out: Snapshot, Counts, HistogramJson, Memory, Namespace, Http, Results, Outcome, Statuses
    );
    declare!(
        out: Connections, Timeouts, Latencies, Certificate, Compression, App, Site, Protocol,
        Origin, Objects,
        Queue, Queues, Remote, RemoteServer, RemotePages, Family, FamilyPeer, FamilyAsked
    );
    declare!(
        out: Advice, Conditions, Disk, LogFigures, Spans, Columns, TopUrls, HotUrl, TopKeys, HotKey,
        LogLine, ObjectRow, Purge, AnsweredError
    );
    out.push_str(
        "\n/** The outcomes with their meanings. */\nexport const OUTCOMES: Record<Outcome, \
         string> = {\n",
    );
    for outcome in Outcome::ALL {
        let _ = writeln!(out, "    {}: {:?},", outcome.as_str(), outcome.about());
    }
    out.push_str("};\n");
    out
}

#[test]
fn the_types_of_the_dashboard_are_up_to_date() {
    let (file, generated) = (Path::new(FILE), generated());
    if std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::write(file, &generated).expect("written");
    }
    let written = std::fs::read_to_string(file).expect("types.ts");
    assert!(written == generated, "{FILE} is not that of the types: run with LARDER_BLESS=1");
}

#[test]
fn json_is_read_back_and_unknown_figures_are_ignored() {
    let json = r#"{"version":1,"name":"a","new":[1],"http":{"results":{"hit":3,"other":1},"stored":2,
        "connections":{"open":1},"latency":{"hit":{"count":3,"p50_us":7,"buckets":[[8,3]]}}},"memcached":null}"#;
    let snapshot: Snapshot = serde_json::from_str(json).expect("a snapshot");
    let http = snapshot.http.as_ref().expect("http");
    assert_eq!((http.results[Outcome::Hit], http.results.total()), (3, 3));
    assert_eq!((http.stored, http.connections.open, http.latency.hit.quantile(500)), (2, 1, 8));
    assert!(snapshot.memcached.is_none());
    let written = serde_json::to_value(&snapshot).expect("JSON");
    assert_eq!(written["http"]["results"]["hit"], 3);
    assert_eq!(written["http"]["timeouts"], serde_json::json!({"header": 0, "body": 0, "send": 0}));
    let again: Snapshot = serde_json::from_value(written.clone()).expect("a snapshot");
    assert_eq!(serde_json::to_value(&again).expect("JSON"), written);
    assert_eq!(Histogram::default().quantile(500), 0);
}
