//! The report as JSON, with all figures.

use serde_json::{Value, json};

use super::{Report, lessons, reference_speed_up, speed_up};
use crate::mediawiki::{measure::Outcome, rows::Figures};

/// The report as JSON.
pub(super) fn of(report: &Report<'_>) -> String {
    let how: serde_json::Map<String, Value> =
        report.how.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect();
    let rows: Vec<_> = report.outcomes.iter().map(|outcome| row(report, outcome)).collect();
    let value =
        json!({"version": 1, "how": how, "rows": rows, "lessons": lessons::of(report.outcomes)});
    format!("{value:#}\n")
}

fn row(report: &Report<'_>, outcome: &Outcome) -> Value {
    json!({
        "id": outcome.row.id,
        "title": outcome.row.title,
        "users": outcome.users,
        "began_s": outcome.began,
        "figures": figures(&outcome.figures),
        "reference": outcome.row.reference.as_ref().map(figures),
        "times_faster_than_no_cache": speed_up(report.outcomes, outcome),
        "reference_times_faster": reference_speed_up(&outcome.row),
        "page_hits": outcome.page_hits,
        "statements_per_answer": outcome.statements,
        "cpu_per_answer": outcome.cpu,
        "articles_compared": outcome.compared,
        "valid": outcome.is_valid(),
        "faults": outcome.faults,
        "servers": outcome.series,
    })
}

fn figures(of: &Figures) -> Value {
    json!({
        "n": of.n, "mean_ms": of.mean, "median_ms": of.median, "p90_ms": of.p90, "min_ms": of.min, "max_ms": of.max,
        "requests_per_second": of.per_second, "kb_per_second": of.kb_per_second,
    })
}
