//! Metrics as text: Prometheus' text format 0.0.4, or OpenMetrics 1.0. Names, types, units and help
//! are from the table.

use std::fmt::Write;

use crate::{
    Counts, Histogram, Snapshot,
    table::{self, Kind, Metric},
};

/// The formats of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// Upper ends of the buckets shown, as powers of two of microseconds: the finer ones counted end
/// exactly there. 64 microseconds to 17 seconds.
const ENDS: std::ops::RangeInclusive<u32> = 6..=24;

/// The samples of one metric, written as text.
pub(crate) struct Samples<'a> {
    out: &'a mut String,
    metric: &'a Metric,
    /// The lines about the metric are written.
    announced: bool,
    format: Format,
}

/// All metrics as text.
pub fn prometheus(snapshot: &Snapshot, format: Format) -> String {
    let mut out = String::new();
    for metric in table::all() {
        let mut samples = Samples { out: &mut out, metric, announced: false, format };
        (metric.read)(snapshot, &mut samples);
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

// Writing to a String cannot fail: the results are dropped below.
impl Samples<'_> {
    /// The value for these labels, which are in the order of the table.
    pub(crate) fn count(&mut self, labels: &[&str], value: u64) {
        self.sample("", labels, None);
        let _ = writeln!(self.out, " {value}");
    }

    /// The counts of words; the word is the last label.
    pub(crate) fn words(&mut self, labels: &[&str], counts: &Counts) {
        counts.iter().for_each(|(word, count)| self.count(&[labels, &[word]].concat(), count));
    }

    /// The same of a value that is not whole.
    pub(crate) fn float(&mut self, labels: &[&str], value: f64) {
        self.sample("", labels, None);
        let _ = writeln!(self.out, " {value}");
    }

    /// A histogram of microseconds, in seconds.
    pub(crate) fn histogram(&mut self, labels: &[&str], merged: &Histogram) {
        for end in ENDS {
            let micros = 1u64 << end;
            self.sample("_bucket", labels, Some(micros));
            let _ = writeln!(self.out, " {}", merged.below(micros));
        }
        let count = merged.count();
        self.sample("_bucket", labels, Some(u64::MAX));
        let _ = writeln!(self.out, " {count}");
        self.sample("_sum", labels, None);
        let _ = writeln!(self.out, " {}", Seconds(merged.sum));
        self.sample("_count", labels, None);
        let _ = writeln!(self.out, " {count}");
    }

    fn sample(&mut self, suffix: &str, labels: &[&str], end: Option<u64>) {
        self.announce();
        let total = if self.metric.kind == Kind::Counter { "_total" } else { "" };
        let _ = write!(self.out, "{}{total}{suffix}", self.metric.name);
        if labels.is_empty() && end.is_none() {
            return;
        }
        self.out.push('{');
        for (nth, (name, value)) in self.metric.labels.iter().zip(labels).enumerate() {
            let _ = write!(self.out, "{}{name}=\"", if nth == 0 { "" } else { "," });
            escape(self.out, value);
            self.out.push('"');
        }
        let comma = if labels.is_empty() { "" } else { "," };
        match end {
            None => {}
            Some(u64::MAX) => {
                let _ = write!(self.out, "{comma}le=\"+Inf\"");
            }
            Some(micros) => {
                let _ = write!(self.out, "{comma}le=\"{}\"", Seconds(micros));
            }
        }
        self.out.push('}');
    }

    /// The lines about a metric come before its first sample. A metric without samples is left out.
    fn announce(&mut self) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        let (kind, help, unit) = (self.metric.kind, self.metric.help(), self.metric.unit());
        let openmetrics = self.format == Format::OpenMetrics;
        // OpenMetrics names the family, the older format the samples.
        let name = if openmetrics { self.metric.name.to_owned() } else { self.metric.full_name() };
        let _ = writeln!(self.out, "# HELP {name} {help}");
        let _ = writeln!(self.out, "# TYPE {name} {}", kind.as_str());
        if openmetrics && !unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
    }
}

/// Microseconds as seconds.
pub(crate) struct Seconds(pub(crate) u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if micros == 0 {
            return write!(f, "{whole}.0");
        }
        let micros = format!("{micros:06}");
        write!(f, "{whole}.{}", micros.trim_end_matches('0'))
    }
}

/// Appends the value of a label: backslash, quote and line feed are escaped.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}
