//! Every metric, once: its name, type, unit and meaning, what to look at when it rises, and where it is read.
//!
//! `/metrics`, docs/metrics.md and the checks of dashboards and alerts are made from this table. Names follow Prometheus'
//! practices: base units, one meaning a name, labels of few values.

mod http;
mod rest;

use std::fmt::Write as _;

use super::{Snapshot, text::Samples};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rises only, until a restart.
    Counter,
    /// Rises and falls.
    Gauge,
    /// How often something took how long.
    Histogram,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
pub(super) struct Metric {
    /// Without the `_total` of a counter.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// `seconds`, `bytes`, `ratio`, or none: then things are counted. The name ends with it.
    pub(super) unit: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
    /// "If this rises, ..."
    pub(super) rises: &'static str,
    pub(super) read: fn(&Snapshot, &mut Samples<'_>),
}

impl Metric {
    /// As samples are called: a counter's end with `_total`.
    pub(super) fn full_name(&self) -> String {
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{total}", self.name)
    }
}

/// The parts of the table, with what the documentation says of each.
const GROUPS: [(&str, &str, &[Metric]); 6] = [
    ("HTTP", "Requests of clients. Each request is counted once, by site and result.", http::HTTP),
    ("Origins", "Requests to origins; `origin` is its address.", http::ORIGINS),
    ("Memory", "The one store of all faces; `namespace` is `pages`, `memcached` or `redis`.", rest::MEMORY),
    ("Objects", "The object faces; `face` is `memcached` or `redis`.", rest::OBJECTS),
    ("Remote tier", "The servers through which pages are shared; present only if configured.", rest::REMOTE),
    ("Process", "", rest::PROCESS),
];

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Metric> {
    GROUPS.iter().flat_map(|(_, _, metrics)| metrics.iter())
}

const INTRODUCTION: &str = include_str!("introduction.txt");

/// The names of all samples' families as the older format has them (counters with `_total`).
pub fn names() -> Vec<String> {
    all().map(Metric::full_name).collect()
}

/// docs/metrics.md.
pub fn docs() -> String {
    let mut out = INTRODUCTION.to_owned();
    for (heading, about, metrics) in GROUPS {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {heading}\n\n");
        if !about.is_empty() {
            let _ = write!(out, "{about}\n\n");
        }
        out.push_str("| metric | type | labels | meaning | if this rises |\n|---|---|---|---|---|\n");
        for metric in metrics {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {} |",
                metric.full_name(),
                metric.kind.as_str(),
                labels.join(", "),
                metric.help.replace('|', "\\|"),
                metric.rises.replace('|', "\\|")
            );
        }
    }
    out
}
