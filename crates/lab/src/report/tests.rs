//! A run as text, JSON and HTML: figures match the run, no external resources.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde_json::Value;

use super::*;

/// A run of a minute that contains every kind of result.
fn run() -> Run {
    let mut latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    let mut service = latency.clone();
    for n in 0u64..60_000 {
        // Roughly lognormal: a bulk, a tail and a stall.
        let value = 80_000 + (n * 7919 % 1000) * 60 + if n % 500 == 0 { n * 40 } else { 0 };
        latency.record(value + if n > 59_900 { 30_000_000 } else { 0 }).unwrap();
        service.record(value).unwrap();
    }
    let second = |n: u64| Second {
        answers: if n == 30 { 0 } else { 1000 + n * n % 97 },
        errors: if n == 30 { 12 } else { 0 },
        received: 1_048_576 + n * 1000,
        p50: 80_000 + n * 500,
        p99: 140_000 + (n * 7919 % 13) * 10_000,
        max: if n == 31 { 32_000_000 } else { 900_000 + n * 1000 },
    };
    Run {
        name: "larder bench <http> & \"more\"".to_owned(),
        how: vec![
            ("url".into(), "http://127.0.0.1:8080/?a=1&b=<2>".into()),
            ("connections".into(), "64".into()),
        ],
        took: Duration::from_secs(60),
        requests: 60_015,
        answers: 60_000,
        hits: 54_000,
        misses: 6_000,
        received: 62_914_560,
        sent: 4_000_000,
        errors: BTreeMap::from([("timeout".to_owned(), 9), ("status 503".to_owned(), 3)]),
        wrong: 3,
        latency,
        service: Some(service),
        seconds: (0..60).map(second).collect(),
        servers: vec![Cpu { pid: 4711, time: Duration::from_millis(600) }],
        own_cpu: Duration::from_millis(300),
        busiest: 0.97,
    }
}

fn empty() -> Run {
    Run {
        name: "nothing".to_owned(),
        how: Vec::new(),
        took: Duration::ZERO,
        requests: 0,
        answers: 0,
        hits: 0,
        misses: 0,
        received: 0,
        sent: 0,
        errors: BTreeMap::new(),
        wrong: 0,
        latency: Histogram::new_with_bounds(1, 1_000_000, 3).unwrap(),
        service: None,
        seconds: Vec::new(),
        servers: Vec::new(),
        own_cpu: Duration::ZERO,
        busiest: 0.0,
    }
}

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&json(run)).unwrap()
}

#[test]
fn the_text_says_what_came_of_it() {
    let shown = text(&run());
    for part in [
        "60,000 answers in 60.0 s: 1,000 per second; 1.00 MiB/s received",
        "p99.99",
        "service",
        "hits       90.00 % (54,000 of 60,000)",
        "errors     3 status 503, 9 timeout",
        "wrong      3",
        "server, process 4711: 10.0 µs per request, 1 % of one core",
        "3 answers had other bytes",
        "The load generator was at its limit (its busiest thread 97 %",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    for (busiest, told) in [(0.90, true), (0.89, false)] {
        assert_eq!(text(&Run { busiest, ..run() }).contains("was at its limit"), told, "{busiest}");
    }
    let table: Vec<&str> =
        shown.lines().filter(|line| line.contains("p50") || line.starts_with("latency")).collect();
    assert_eq!(table.len(), 2);
    assert_eq!(table[0].chars().count(), table[1].chars().count(), "{shown}");
    let nothing = text(&empty());
    assert!(nothing.contains("There was no right answer."), "{nothing}");
    assert!(!nothing.contains("hits"), "{nothing}");
}

#[test]
fn the_sums_of_the_json_are_the_runs() {
    let run = run();
    let value = parsed(&run);
    let sum = |list: &Value, name: &str| -> u64 {
        list.as_array().unwrap().iter().map(|item| item[name].as_u64().unwrap()).sum()
    };
    assert_eq!(value["requests"], run.requests);
    assert_eq!(
        sum(&value["seconds"], "answers"),
        run.seconds.iter().map(|second| second.answers).sum::<u64>()
    );
    let errors: u64 = value["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!((value["errors_total"].as_u64(), errors), (Some(12), 12));
    let total = value["answers"].as_u64().unwrap() + value["wrong"].as_u64().unwrap() + errors;
    assert_eq!(value["requests"], total);
    for (name, histogram) in [("latency", &run.latency), ("service", run.service.as_ref().unwrap())]
    {
        let buckets = value[name]["buckets"].as_array().unwrap();
        let counted: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
        assert_eq!(counted, run.answers);
        assert_eq!(
            value[name]["percentiles"].as_array().unwrap().last().unwrap()["count"],
            run.answers
        );
        // The buckets are the whole histogram: every percentile can be computed from them.
        let mut again = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for bucket in buckets {
            again.record_n(bucket[0].as_u64().unwrap(), bucket[1].as_u64().unwrap()).unwrap();
        }
        assert_eq!(&again, histogram);
        assert_eq!(value[name]["p99_9_ns"], histogram.value_at_quantile(0.999));
    }
    assert_eq!(value["hit_ratio"], 0.9);
    assert_eq!(value["servers"][0]["cpu_ns_per_request"].as_f64().unwrap().round(), 9998.0);
    assert_eq!(value["how"]["connections"], "64");
    let nothing = parsed(&empty());
    assert!(nothing["hit_ratio"].is_null() && nothing["service"].is_null());
    assert!(nothing["own"]["cpu_ns_per_request"].is_null());
}

/// docs/bench.md is the contract: every name must be documented there.
#[test]
fn every_name_of_the_json_is_documented() {
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench.md"))
            .unwrap();
    fn names(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                found.push(name.clone());
                if !matches!(name.as_str(), "how" | "machine" | "errors") {
                    names(value, found);
                }
            }),
            Value::Array(items) => items.iter().for_each(|item| names(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    names(&parsed(&run()), &mut found);
    found.sort();
    found.dedup();
    assert!(found.len() > 40, "{found:?}");
    let missing: Vec<&String> =
        found.iter().filter(|name| !documented.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in docs/bench.md: {missing:?}");
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_from_elsewhere() {
    for run in [run(), empty()] {
        let page = html(&run);
        html::well_formed(&page).unwrap_or_else(|why| panic!("{why}"));
        let own = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for (at, _) in own.match_indices("://") {
            // An address may be shown as the target of the run, but not loaded.
            assert!(own[..at].ends_with("<td>http"), "{}", &own[at.saturating_sub(60)..at + 20]);
        }
        for fetched in ["src=", "href=", "url(", "@import", "<script", "<link", "onload"] {
            assert!(!own.contains(fetched), "{fetched}");
        }
        assert!(page.contains("prefers-color-scheme:dark"));
        assert!(!page.contains("<http>") && !page.contains("b=<2>"), "text is not escaped");
        let tables = page.matches("<table>").count();
        assert!(
            tables >= 4 && page.matches("<caption>").count() == tables,
            "a table without a caption"
        );
    }
}

#[test]
fn the_page_shows_what_was_measured() {
    let page = html(&run());
    for part in [
        "<dd>1,000</dd>",
        "Latency by percentile",
        "Throughput",
        "Errors</figcaption>",
        "<th scope=\"row\">error: timeout</th><td class=\"n\">9</td>",
        "server, process 4711</th><td class=\"n\">10.0 µs</td>",
        "64</td>",
        "kernel",
    ] {
        assert!(page.contains(part), "{part:?}");
    }
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(!html(&empty()).contains("<svg"));
}
