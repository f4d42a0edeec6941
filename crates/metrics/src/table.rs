//! All metrics: names, types, meanings, advice for the case that one rises, and their values.
//!
//! `/metrics`, docs/metrics.md and the checks of dashboards and alerts are made from this table.
//! Names follow Prometheus' practices: base units, one meaning a name, labels of few values.

use std::fmt::Write as _;

use crate::{
    App, Certificate, Compression, Conditions, Disk, FamilyAsked, FamilyPeer, Http, LogFigures,
    Memory, Namespace, Objects, Origin, Outcome, Queue, Queues, RemoteServer, Site, Snapshot,
};
use crate::{
    certificates, disk, family, http, objects, origins, process, queues, remote, text::Samples,
};

/// The types of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rises only, until a restart.
    Counter,
    /// Rises and falls.
    Gauge,
    /// How often something took how long.
    Histogram,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
pub(crate) struct Metric {
    /// Without the `_total` of a counter. Ends with the unit, if there is one.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) labels: &'static [&'static str],
    /// The meaning, as a sentence.
    pub(crate) help: &'static str,
    /// "If this rises, ..."
    pub(crate) rises: &'static str,
    pub(crate) read: fn(&Snapshot, &mut Samples<'_>),
}

impl Metric {
    /// The name of its samples: a counter's end with `_total`.
    pub(crate) fn full_name(&self) -> String {
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{total}", self.name)
    }

    /// The meaning, as it is written.
    pub(crate) fn help(&self) -> &'static str {
        self.help.trim_start()
    }

    /// The unit at the end of the name; empty: things are counted.
    pub(crate) fn unit(&self) -> &'static str {
        let last = self.name.rsplit('_').next().unwrap_or_default();
        ["seconds", "bytes", "ratio"].into_iter().find(|unit| *unit == last).unwrap_or("")
    }
}

/// A part of the table with its heading in the documentation.
struct Group {
    heading: &'static str,
    about: &'static str,
    /// Metrics with labels of their own.
    own: &'static [Metric],
    /// Metrics of figures of rows.
    rows: &'static [&'static [Option<Metric>]],
}

impl Group {
    fn metrics(&self) -> impl Iterator<Item = &'static Metric> + use<> {
        self.own.iter().chain(self.rows.iter().copied().flatten().flatten())
    }
}

const GROUPS: &[Group] = &[
    Group {
        heading: "HTTP",
        about: "Requests of clients. Each request is counted once, by site and result.",
        own: http::HTTP,
        rows: &[Http::METRICS, Site::METRICS],
    },
    Group {
        heading: "Certificates",
        about: "Of HTTPS, by first name; `source`: `file`, `acme`, or `self-signed` (there is none \
                yet).",
        own: certificates::CERTIFICATES,
        rows: &[Certificate::METRICS],
    },
    Group {
        heading: "Origins",
        about: "Requests to origins; `origin` is its address.",
        own: origins::ORIGINS,
        rows: &[Origin::METRICS],
    },
    Group {
        heading: "Applications",
        about: "Applications that Larder runs; `app` is the name.",
        own: &[],
        rows: &[App::METRICS],
    },
    Group {
        heading: "Memory",
        about: "The one store of all faces; `namespace` is `pages`, `compressed`, `slices`, \
                `memcached` or `redis`.",
        own: process::MEMORY,
        rows: &[Memory::METRICS, Namespace::METRICS],
    },
    Group {
        heading: "Compression",
        about: "Compressed forms of stored pages; present only if a site has `compress`.",
        own: &[],
        rows: &[Compression::METRICS],
    },
    Group {
        heading: "Objects",
        about: "The object faces; `face` is `memcached` or `redis`.",
        own: objects::OBJECTS,
        rows: &[Objects::METRICS],
    },
    Group {
        heading: "Queues",
        about: "Present only if configured; `queue` is one of the hundred queues with the most items \
                that wait.",
        own: queues::QUEUES,
        rows: &[Queues::METRICS, Queue::METRICS],
    },
    Group {
        heading: "Disk tier",
        about: "Pages on disk; present only if configured.",
        own: disk::DISK,
        rows: &[Disk::METRICS],
    },
    Group {
        heading: "Remote tier",
        about: "The servers through which pages are shared; present only if configured.",
        own: remote::REMOTE,
        rows: &[RemoteServer::METRICS],
    },
    Group {
        heading: "Families of caches",
        about: "Other caches: `peer` is the name of one that is asked, `protocol` is `icp` or \
                `htcp`.",
        own: family::FAMILY,
        rows: &[FamilyPeer::METRICS, FamilyAsked::METRICS],
    },
    Group {
        heading: "Process",
        about: "",
        own: process::PROCESS,
        rows: &[Conditions::METRICS, LogFigures::METRICS],
    },
];

/// All metrics.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    GROUPS.iter().flat_map(Group::metrics)
}

/// The names of all samples' families as the older format has them (counters with `_total`).
pub fn names() -> Vec<String> {
    all().map(Metric::full_name).collect()
}

/// docs/metrics.md.
pub fn docs() -> String {
    let outcomes: String = Outcome::ALL
        .iter()
        .map(|outcome| format!("  - `{}`: {}\n", outcome.as_str(), outcome.about()))
        .collect();
    let mut out = include_str!("introduction.txt").replace("{outcomes}\n", &outcomes);
    for group in GROUPS {
        let Group { heading, about, .. } = group;
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {heading}\n\n");
        if !about.is_empty() {
            let _ = write!(out, "{about}\n\n");
        }
        out.push_str(
            "| metric | type | labels | meaning | if this rises |\n|---|---|---|---|---|\n",
        );
        for metric in group.metrics() {
            let labels: Vec<String> =
                metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {} |",
                metric.full_name(),
                metric.kind.as_str(),
                labels.join(", "),
                metric.help().replace('|', "\\|"),
                metric.rises.replace('|', "\\|")
            );
        }
    }
    out
}
