//! Plots of each server as in the reference: hits and misses, items, traffic, connections, requests
//! per second.

use crate::{
    mediawiki::{measure::Outcome, sample::Sample},
    report::plot::{Axis, Bars, Lines, Scale, Series, Unit},
};

/// Gap between two rows of a plot, in seconds, wide enough to be visible.
const GAP: f64 = 2.0;

/// Plots of one server.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Start times of its rows in the plots.
    pub(super) legend: String,
    pub(super) plots: Vec<Lines>,
}

/// All sampled servers, in the order of their rows.
pub(super) fn servers(outcomes: &[Outcome]) -> Vec<Server> {
    let mut names: Vec<&'static str> = Vec::new();
    for series in outcomes.iter().flat_map(|outcome| &outcome.series) {
        if !names.contains(&series.server) {
            names.push(series.server);
        }
    }
    names.into_iter().map(|name| Rows::of(name, outcomes).show()).collect()
}

/// The rows of one server in sequence.
struct Rows<'a> {
    name: &'static str,
    /// Start of a row in the plots, its title, its samples.
    rows: Vec<(f64, &'static str, &'a [Sample])>,
}

/// The plotted value of two consecutive samples.
type Value = fn(&Sample, &Sample) -> f64;

fn rate(of: impl Fn(&Sample) -> u64, before: &Sample, now: &Sample) -> f64 {
    of(now).saturating_sub(of(before)) as f64 / (now.at - before.at).max(1e-3)
}

impl<'a> Rows<'a> {
    fn of(name: &'static str, outcomes: &'a [Outcome]) -> Rows<'a> {
        let mut rows = Vec::new();
        let mut begins = 0.0;
        for outcome in outcomes {
            let Some(series) = outcome.series.iter().find(|series| series.server == name) else {
                continue;
            };
            rows.push((begins, outcome.row.title, series.samples.as_slice()));
            begins += series.samples.last().map_or(0.0, |last| last.at) + GAP;
        }
        Rows { name, rows }
    }

    fn line(&self, name: &str, value: Value) -> Series {
        let mut points = Vec::new();
        for (begins, _, samples) in &self.rows {
            points.extend(
                samples.windows(2).map(|pair| (begins + pair[1].at, value(&pair[0], &pair[1]))),
            );
            points.push((points.last().map_or(*begins, |(x, _)| x + GAP / 2.0), f64::NAN));
        }
        Series::new(name, points)
    }

    fn show(&self) -> Server {
        let name = self.name;
        let plot = |what: &str, label: &str, unit: Unit, lines: &[(&str, Value)]| {
            let time = Axis::new("seconds, one row after the other", Unit::Number);
            let plot = Lines::new(&format!("{name}: {what}"), time, Axis::new(label, unit));
            lines.iter().fold(plot, |plot, (line, value)| plot.with(self.line(line, *value)))
        };
        let plots = vec![
            plot(
                "hits and misses",
                "a second",
                Unit::Number,
                &[
                    ("hits", |before, now| rate(|sample| sample.hits, before, now)),
                    ("misses", |before, now| rate(|sample| sample.misses, before, now)),
                ],
            ),
            plot("items", "kept", Unit::Number, &[("items", |_, now| now.items as f64)]),
            plot(
                "traffic",
                "bytes a second",
                Unit::Bytes,
                &[
                    ("sent", |before, now| rate(|sample| sample.sent, before, now)),
                    ("received", |before, now| rate(|sample| sample.received, before, now)),
                ],
            ),
            plot(
                "connections",
                "open",
                Unit::Number,
                &[("connections", |_, now| now.connections as f64)],
            ),
            plot(
                "requests",
                "a second",
                Unit::Number,
                &[("requests", |before, now| rate(|sample| sample.requests, before, now))],
            ),
        ];
        let begin = |(begins, title, _): &(f64, &str, &[Sample])| format!("{begins:.0} s: {title}");
        let legend = self.rows.iter().map(begin).collect::<Vec<_>>().join("; ");
        Server { name, legend, plots }
    }
}

/// Mean and 90th percentile of each row in seconds.
pub(super) fn overview(outcomes: &[Outcome]) -> Bars {
    let axis = Axis::new("time of an answer", Unit::Seconds).scale(Scale::Log);
    let bars = Bars::new(
        "Mean and 90th percentile of each row",
        axis,
        outcomes.iter().map(|outcome| outcome.row.title),
    );
    bars.with("mean", outcomes.iter().map(|outcome| outcome.figures.mean / 1e3))
        .with("90th percentile", outcomes.iter().map(|outcome| outcome.figures.p90 / 1e3))
}
