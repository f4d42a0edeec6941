//! A run as text for a terminal.

use std::fmt::{self, Write};

use hdrhistogram::Histogram;

use super::{Run, percentiles::SHOWN, show};

/// Share of time on a processor from which a thread of this program counts as saturated.
const FULL: f64 = 0.90;

/// A run as text for a terminal.
pub fn text(run: &Run) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(run, &mut out);
    out
}

fn write(run: &Run, out: &mut String) -> fmt::Result {
    writeln!(out, "{}", run.name)?;
    let wide = run.how.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in &run.how {
        writeln!(out, "  {name:wide$}  {value}")?;
    }
    let per_second = |bytes: u64| show::bytes(show::per_second(bytes, run.took));
    writeln!(
        out,
        "\n{} answers in {}: {} per second; {}/s received, {}/s sent",
        show::count(run.answers),
        show::time(run.took),
        show::rate(run.answers, run.took),
        per_second(run.received),
        per_second(run.sent),
    )?;
    write_latency(run, out)?;
    write_outcomes(run, out)?;
    write_processors(run, out)?;
    for warning in warnings(run) {
        writeln!(out, "\n{warning}")?;
    }
    Ok(())
}

fn write_latency(run: &Run, out: &mut String) -> fmt::Result {
    write!(out, "\n{:10}", "")?;
    for name in SHOWN.iter().map(|(name, _)| *name).chain(["max", "mean", "deviation"]) {
        write!(out, " {name:>9}")?;
    }
    writeln!(out)?;
    for (name, histogram) in histograms(run) {
        write!(out, "{name:10}")?;
        for figure in figures(histogram) {
            write!(out, " {figure:>9}")?;
        }
        writeln!(out)?;
    }
    if run.service.is_some() {
        writeln!(
            out,
            "Latency counts from when a request was due, service time from when it was sent."
        )?;
    }
    Ok(())
}

fn write_outcomes(run: &Run, out: &mut String) -> fmt::Result {
    writeln!(out)?;
    if run.hits + run.misses > 0 {
        let hits = show::share(run.hits, run.hits + run.misses);
        writeln!(
            out,
            "hits       {hits} ({} of {})",
            show::count(run.hits),
            show::count(run.hits + run.misses)
        )?;
    }
    let kinds: Vec<String> = run
        .errors
        .iter()
        .map(|(kind, number)| format!("{} {kind}", show::count(*number)))
        .collect();
    let errors = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
    writeln!(out, "errors     {errors}")?;
    writeln!(out, "wrong      {}", show::count(run.wrong))
}

fn write_processors(run: &Run, out: &mut String) -> fmt::Result {
    for (name, per_request, share) in processors(run) {
        writeln!(out, "processor  {name}: {per_request} per request, {share} of one core")?;
    }
    Ok(())
}

/// Process, time per request, share of one core.
pub(crate) fn processors(run: &Run) -> Vec<(String, String, String)> {
    let row = |name: String, time: std::time::Duration| {
        let per_request = match run.requests {
            0 => "-".to_owned(),
            requests => show::time_ns(time.as_nanos() as f64 / requests as f64),
        };
        let share =
            if run.took.is_zero() { 0.0 } else { time.as_secs_f64() / run.took.as_secs_f64() };
        (name, per_request, format!("{:.0} %", share * 100.0))
    };
    let servers =
        run.servers.iter().map(|cpu| row(format!("server, process {}", cpu.pid), cpu.time));
    servers.chain([row("load generator".to_owned(), run.own_cpu)]).collect()
}

/// Latency, and in an open loop service time.
pub(crate) fn histograms(run: &Run) -> impl Iterator<Item = (&'static str, &Histogram<u64>)> {
    [("latency", &run.latency)]
        .into_iter()
        .chain(run.service.iter().map(|service| ("service", service)))
}

/// The percentiles, maximum, mean and standard deviation.
pub(crate) fn figures(histogram: &Histogram<u64>) -> Vec<String> {
    if histogram.is_empty() {
        return vec!["-".to_owned(); SHOWN.len() + 3];
    }
    let percentiles = SHOWN.iter().map(|(_, share)| histogram.value_at_quantile(*share) as f64);
    let rest = [histogram.max() as f64, histogram.mean(), histogram.stdev()];
    percentiles.chain(rest).map(show::time_ns).collect()
}

/// Warnings about the validity of the results.
pub(crate) fn warnings(run: &Run) -> Vec<String> {
    let mut all = Vec::new();
    if run.wrong > 0 {
        all.push(format!(
            "{} answers had other bytes than they should have.",
            show::count(run.wrong)
        ));
    }
    if run.answers == 0 {
        all.push("There was no right answer.".to_owned());
    }
    if run.busiest >= FULL {
        all.push(format!(
            "The load generator was at its limit (its busiest thread {:.0} % on a processor): the \
             rate is its own, not the server's. Give it more threads, or a machine of its own.",
            run.busiest * 100.0
        ));
    }
    all
}
