//! Tables of measured figures, and those of the reference.

use super::{number, reference_speed_up, speed_up};
use crate::{
    mediawiki::{measure::Outcome, rows::Figures},
    report::html,
};

/// Last column of an invalid row.
const INVALID: &str = "NO";

/// A table, for HTML and for Markdown.
pub(super) struct Table {
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Table of the reference's columns, and further ones.
pub(super) fn ours(outcomes: &[Outcome]) -> Table {
    let head = vec![
        "test",
        "n",
        "users",
        "mean",
        "median",
        "p90",
        "min",
        "max",
        "req/s",
        "KB/s",
        "page hits",
        "statements",
        "CPU ms",
        "valid",
    ];
    let rows = outcomes.iter().map(|outcome| {
        let mut cells = vec![
            outcome.row.title.to_owned(),
            outcome.figures.n.to_string(),
            outcome.users.to_string(),
        ];
        cells.extend(times(&outcome.figures));
        let n = outcome.figures.n.max(1) as f64;
        cells.push(format!("{:.1} %", outcome.page_hits as f64 * 100.0 / n));
        cells.push(number(outcome.statements));
        cells.push(number(outcome.cpu.iter().map(|cost| cost.milliseconds).sum()));
        cells.push(if outcome.is_valid() { "yes".to_owned() } else { INVALID.to_owned() });
        cells
    });
    Table { head, rows: rows.collect() }
}

/// Figures of the reference for the measured rows.
pub(super) fn reference(outcomes: &[Outcome]) -> Table {
    let head = vec!["test", "n", "mean", "median", "p90", "min", "max", "req/s", "KB/s"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    let of_reference = |outcome: &&Outcome| !outcome.row.id.starts_with("larder");
    for outcome in outcomes.iter().filter(of_reference) {
        let Some(figures) = outcome.row.reference else { continue };
        let mut cells = vec![outcome.row.title.to_owned(), figures.n.to_string()];
        cells.extend(times(&figures));
        rows.push(cells);
    }
    Table { head, rows }
}

fn times(figures: &Figures) -> Vec<String> {
    let Figures { mean, median, p90, min, max, per_second, kb_per_second, .. } = *figures;
    [mean, median, p90, min, max, per_second, kb_per_second].map(number).into()
}

/// Figures comparable between machines: speed-up over no cache with the same database.
pub(super) fn ratios(outcomes: &[Outcome]) -> Table {
    let head = vec![
        "test",
        "times faster, here",
        "times faster, reference",
        "requests/s times, here",
        "statements saved",
    ];
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rows = outcomes.iter().filter(|outcome| !outcome.row.is_plain()).map(|outcome| {
        let plain = super::plain(outcomes, &outcome.row);
        vec![
            outcome.row.title.to_owned(),
            or_none(speed_up(outcomes, outcome).map(number)),
            or_none(reference_speed_up(&outcome.row).map(number)),
            or_none(
                plain.map(|plain| number(outcome.figures.per_second / plain.figures.per_second)),
            ),
            or_none(plain.map(|plain| {
                format!("{:.1} %", (1.0 - outcome.statements / plain.statements) * 100.0)
            })),
        ]
    });
    Table { head, rows: rows.collect() }
}

/// Processor time per answer by process.
pub(super) fn costs(outcomes: &[Outcome]) -> Table {
    let parts = ["wiki", "database", "memcached", "Squid", "Larder"];
    let mut head = vec!["test"];
    head.extend(parts);
    let rows = outcomes.iter().map(|outcome| {
        let mut cells = vec![outcome.row.title.to_owned()];
        cells.extend(parts.iter().map(|part| {
            let cost = outcome.cpu.iter().find(|cost| cost.of == *part);
            cost.map_or_else(|| "-".to_owned(), |cost| format!("{:.3}", cost.milliseconds))
        }));
        cells
    });
    Table { head, rows: rows.collect() }
}

impl Table {
    /// HTML; invalid rows are highlighted.
    pub(super) fn html(&self) -> html::Table {
        let mut table = html::Table::new("", self.head.iter().copied());
        for row in &self.rows {
            if row.last().is_some_and(|cell| cell == INVALID) {
                table.marked_row(row.iter().map(String::as_str));
            } else {
                table.row(row.iter().map(String::as_str));
            }
        }
        table
    }

    /// Markdown, numbers right-aligned.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.head.iter().map(|cell| (*cell).to_owned()).collect());
        text.push_str("|---|");
        text.push_str(&"---:|".repeat(self.head.len().saturating_sub(1)));
        text.push('\n');
        for row in &self.rows {
            text.push_str(&line(row.clone()));
        }
        text
    }
}
