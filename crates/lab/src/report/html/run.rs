//! The page of a run.

use hdrhistogram::Histogram;

use super::{Page, Table};
use crate::report::{
    Run,
    machine::machine,
    percentiles::{self, SHOWN},
    plot::{Axis, Lines, Scale, Series, Unit},
    show, text,
};

/// Most rows in the table of seconds; the JSON contains all.
const ROWS: usize = 600;
/// Ratio of maximum to minimum from which latency has a logarithmic axis.
const WIDE: f64 = 30.0;
/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

/// The page of a run.
pub fn page(run: &Run) -> Page {
    let mut page = Page::new(&run.name);
    for warning in text::warnings(run) {
        page.warning(&warning);
    }
    page.facts(facts(run));
    latency(run, &mut page);
    over_time(run, &mut page);
    outcomes(run, &mut page);
    processors(run, &mut page);
    page.heading("How it was run");
    page.pairs("Options", run.how.iter().map(|(name, value)| (name, value)));
    page.pairs("Machine", machine());
    page
}

fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let at = |share| match run.latency.len() {
        0 => "-".to_owned(),
        _ => show::time_ns(run.latency.value_at_quantile(share) as f64),
    };
    let mut facts = vec![
        ("answers per second", show::rate(run.answers, run.took)),
        ("received", format!("{}/s", show::bytes(show::per_second(run.received, run.took)))),
        ("p50", at(0.5)),
        ("p99", at(0.99)),
        ("p99.9", at(0.999)),
    ];
    if run.hits + run.misses > 0 {
        facts.push(("hits", show::share(run.hits, run.hits + run.misses)));
    }
    facts.push(("errors", show::count(run.errors.values().sum())));
    if let Some((_, per_request, _)) =
        text::processors(run).first().filter(|_| !run.servers.is_empty())
    {
        facts.push(("server's processor time per request", per_request.clone()));
    }
    facts
}

fn latency(run: &Run, page: &mut Page) {
    page.heading("Latency");
    if run.latency.is_empty() {
        page.paragraph("Nothing was answered, so nothing was timed.");
        return;
    }
    if run.service.is_some() {
        page.paragraph(
            "Latency counts from when a request was due, whatever the server did meanwhile; \
             service time from when it was sent.",
        );
    }
    let least = text::histograms(run).map(|(_, all)| all.min()).min().unwrap_or(0).max(1) as f64;
    let most = text::histograms(run).map(|(_, all)| all.max()).max().unwrap_or(0) as f64;
    let scale = if most / least > WIDE { Scale::Log } else { Scale::Linear };
    let x = Axis::new("this share of answers was as fast or faster", Unit::Share)
        .scale(Scale::Percentile);
    let mut plot =
        Lines::new("Latency by percentile", x, Axis::new("latency", Unit::Seconds).scale(scale));
    for (name, histogram) in text::histograms(run) {
        plot = plot.with(Series::new(named(name), points(histogram)));
    }
    page.plot(&plot);
    let names =
        ["", "p50", "p75", "p90", "p95", "p99", "p99.9", "p99.99", "max", "mean", "deviation"];
    debug_assert_eq!(names.len(), SHOWN.len() + 4);
    let mut table = Table::new("Percentiles of latency", names);
    for (name, histogram) in text::histograms(run) {
        table.row([named(name).to_owned()].into_iter().chain(text::figures(histogram)));
    }
    page.table(&table);
}

fn named(name: &str) -> &str {
    if name == "service" { "service time" } else { name }
}

/// The curve up to the slowest answer, drawn half an answer before 100 %, where the axis is
/// infinite.
fn points(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let last = 1.0 - 0.5 / histogram.len().max(1) as f64;
    let point = |(share, value, _): (f64, u64, u64)| (share.min(last), value as f64 / SECOND);
    percentiles::curve(histogram).into_iter().map(point).collect()
}

fn over_time(run: &Run, page: &mut Page) {
    if run.seconds.len() < 2 {
        return;
    }
    page.heading("Over time");
    let line = |name: &str, value: &dyn Fn(&crate::report::Second) -> f64| {
        Series::new(
            name,
            run.seconds.iter().enumerate().map(|(n, second)| (n as f64, value(second))),
        )
    };
    let time = || Axis::new("seconds since the end of the warm-up", Unit::Number);
    // A second without an answer has no latency: a gap, not 0.
    let timed = |second: &crate::report::Second, value: u64| match second.answers {
        0 => f64::NAN,
        _ => value as f64 / SECOND,
    };
    let greatest = run.seconds.iter().map(|second| second.max).max().unwrap_or(0);
    let least = run
        .seconds
        .iter()
        .filter(|second| second.answers > 0)
        .map(|second| second.p50)
        .min()
        .unwrap_or(1);
    let scale =
        if greatest as f64 / least.max(1) as f64 > WIDE { Scale::Log } else { Scale::Linear };
    let answers = Axis::new("right answers per second", Unit::Number);
    page.plot(
        &Lines::new("Throughput", time(), answers)
            .with(line("answers", &|second| second.answers as f64)),
    );
    page.plot(
        &Lines::new(
            "Latency, second by second",
            time(),
            Axis::new("latency", Unit::Seconds).scale(scale),
        )
        .with(line("p50", &|second| timed(second, second.p50)))
        .with(line("p99", &|second| timed(second, second.p99)))
        .with(line("max", &|second| timed(second, second.max))),
    );
    let received = Axis::new("bytes received per second", Unit::Bytes);
    page.plot(
        &Lines::new("Traffic", time(), received)
            .with(line("received", &|second| second.received as f64)),
    );
    if run.seconds.iter().any(|second| second.errors > 0) {
        let errors = Axis::new("errors and wrong answers per second", Unit::Number);
        page.plot(
            &Lines::new("Errors", time(), errors)
                .with(line("errors", &|second| second.errors as f64)),
        );
    }
    if run.seconds.len() <= ROWS {
        page.folded("Second by second, as a table", |page| {
            page.table(&seconds(run));
        });
    }
}

fn seconds(run: &Run) -> Table {
    let columns = ["second", "answers", "errors", "received", "p50", "p99", "max"];
    let mut table = Table::new("Seconds since the end of the warm-up", columns);
    for (n, second) in run.seconds.iter().enumerate() {
        let time = |value: u64| {
            if second.answers == 0 { "-".to_owned() } else { show::time_ns(value as f64) }
        };
        table.row([
            n.to_string(),
            show::count(second.answers),
            show::count(second.errors),
            show::bytes(second.received as f64),
            time(second.p50),
            time(second.p99),
            time(second.max),
        ]);
    }
    table
}

fn outcomes(run: &Run, page: &mut Page) {
    page.heading("Outcomes");
    let mut table = Table::new("What became of the requests", ["outcome", "requests", "share"]);
    let mut row = |name: &str, number: u64| {
        table.row([name.to_owned(), show::count(number), show::share(number, run.requests)]);
    };
    row("answered as they should be", run.answers);
    if run.hits + run.misses > 0 {
        row("of these, hits", run.hits);
        row("of these, misses", run.misses);
    }
    row("answered with wrong bytes", run.wrong);
    for (kind, number) in &run.errors {
        row(&format!("error: {kind}"), *number);
    }
    page.table(&table);
}

fn processors(run: &Run, page: &mut Page) {
    let columns = ["of", "per request", "share of one core"];
    let mut table = Table::new("Processor time while the run was counted", columns);
    for (name, per_request, share) in text::processors(run) {
        table.row([name, per_request, share]);
    }
    page.heading("Processor time").table(&table);
}
