//! Metrics as text: Prometheus' text format 0.0.4, or OpenMetrics 1.0. Names, types, units and help are the table's.

use std::fmt::Write;

use super::{
    Merged, Snapshot,
    table::{Kind, Metric},
};

/// Upper ends of the buckets shown, in microseconds: powers of two, where the finer ones counted end exactly. 64 microseconds
/// to 17 seconds.
const ENDS: std::ops::RangeInclusive<u32> = 6..=24;

/// Where a metric's samples are written.
pub(super) struct Samples<'a> {
    out: &'a mut String,
    metric: &'a Metric,
    /// The family was announced.
    announced: bool,
    openmetrics: bool,
}

/// Appends everything the table has.
pub(super) fn write<'t>(
    table: impl Iterator<Item = &'t Metric>,
    snapshot: &Snapshot,
    out: &mut String,
    openmetrics: bool,
) {
    for metric in table {
        let mut samples = Samples { out, metric, announced: false, openmetrics };
        (metric.read)(snapshot, &mut samples);
    }
    if openmetrics {
        out.push_str("# EOF\n");
    }
}

// Writing to a String cannot fail: its results are dropped below.
impl Samples<'_> {
    /// The value for these labels, which are in the order of the table's.
    pub(super) fn count(&mut self, labels: &[&str], value: u64) {
        self.sample("", labels, None);
        let _ = writeln!(self.out, " {value}");
    }

    /// The same of a value that is not whole.
    pub(super) fn float(&mut self, labels: &[&str], value: f64) {
        self.sample("", labels, None);
        let _ = writeln!(self.out, " {value}");
    }

    /// A histogram of microseconds, in seconds.
    pub(super) fn histogram(&mut self, labels: &[&str], merged: &Merged) {
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

    /// A family's lines about itself come before its first sample. A family without samples is left out.
    fn announce(&mut self) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        let Metric { kind, unit, help, .. } = self.metric;
        // OpenMetrics names the family, the older format the samples.
        let name = if self.openmetrics { self.metric.name.to_owned() } else { self.metric.full_name() };
        let _ = writeln!(self.out, "# HELP {name} {help}");
        let _ = writeln!(self.out, "# TYPE {name} {}", kind.as_str());
        if self.openmetrics && !unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
    }
}

/// Microseconds as seconds.
pub(super) struct Seconds(pub(super) u64);

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

/// A label's value: backslash, quote and line feed are escaped.
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

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
