//! Percentiles shown in all reports.

use hdrhistogram::Histogram;

/// Name, and share of the answers that were at least as fast.
pub(crate) const SHOWN: [(&str, f64); 7] = [
    ("p50", 0.50),
    ("p75", 0.75),
    ("p90", 0.90),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Steps per halving of the distance to 100 %: a smooth line with some hundred points per million
/// answers.
const STEPS: u32 = 5;

/// The whole distribution: share of answers, nanoseconds, and number of answers at least as fast.
pub(crate) fn curve(histogram: &Histogram<u64>) -> Vec<(f64, u64, u64)> {
    let mut counted = 0;
    let point = |step: hdrhistogram::iterators::IterationValue<u64>| {
        counted += step.count_since_last_iteration();
        (step.quantile_iterated_to().min(1.0), step.value_iterated_to(), counted)
    };
    histogram.iter_quantiles(STEPS).map(point).collect()
}
