//! Results as text and JSON.

use std::fmt::Write;

use larder_proto::units::show_size;
use serde_json::{Value, json};

use super::args::Input;
use super::grid::Row;
use super::topology::{Flow, Window};
use super::trace::Trace;

/// Tables: hit ratio by objects, then by bytes; sources of pages, and the effect of events on the
/// origin.
pub(crate) fn text(input: &Input, trace: &Trace, rows: &[Row], flow: Option<&Flow>) -> String {
    let mut out = head(input, trace);
    if !rows.is_empty() {
        compared(&mut out, input, rows);
    }
    if let Some(flow) = flow {
        flowed(&mut out, flow);
    }
    out
}

fn compared(out: &mut String, input: &Input, rows: &[Row]) {
    let error =
        rows.iter().flat_map(|row| &row.outcomes).flatten().map(|o| o.error).fold(0.0, f64::max);
    let within = if error > 0.0 {
        format!(" (sampled: within {:.2})", error * 100.0)
    } else {
        String::new()
    };
    table(out, &format!("objects found, of 100 reads{within}"), input, rows, |outcome| {
        outcome.objects
    });
    table(out, "bytes found, of 100 read", input, rows, |outcome| outcome.bytes);
    let faults = rows
        .iter()
        .flat_map(|row| row.outcomes.iter().zip(&input.sizes).map(move |(o, size)| (row, o, size)));
    for (row, outcome, size) in faults {
        if let Err(why) = outcome {
            let _ = writeln!(out, "{} at {}: {why}", row.policy.name(), show_size(*size));
        }
    }
}

fn flowed(out: &mut String, flow: &Flow) {
    let total = &flow.total;
    let share = |figure: f64| figure / total.requests.max(1.0) * 100.0;
    let _ = writeln!(out, "{:<34} {:>14} {:>8}", "where pages came from", "requests", "of 100");
    for (name, figure) in [
        ("a Larder's own memory", total.local),
        ("  though its time was over", total.prolonged),
        ("the fleet", total.remote),
        ("waited for another's request", total.waited),
        ("the origin", total.origin),
        ("the fleet did not answer", total.failed),
    ] {
        let _ = writeln!(out, "{name:<34} {figure:>14.0} {:>8.2}", share(figure));
    }
    let _ = writeln!(out, "\nbytes moved");
    for (name, figure) in [
        ("to clients", total.to_clients),
        ("fleet to Larders", total.from_fleet),
        ("Larders to fleet", total.to_fleet),
        ("origin to Larders", total.from_origin),
    ] {
        let _ = writeln!(out, "{name:<34} {:>14}", show_bytes(figure));
    }
    let gets: f64 = flow.servers.iter().map(|server| server.gets).sum();
    if !flow.servers.is_empty() {
        let _ = writeln!(out, "\n{:<34} {:>14} {:>8} {:>12}", "server", "gets", "of 100", "items");
    }
    for server in &flow.servers {
        let part = server.gets / gets.max(1.0) * 100.0;
        let _ = writeln!(
            out,
            "{:<34} {:>14.0} {part:>8.2} {:>12.0}",
            server.name, server.gets, server.items
        );
    }
    let most = flow.windows.iter().map(|window| flow.rate(window)).fold(0.0, f64::max);
    let _ = writeln!(
        out,
        "\norigin: {most:.1} requests a second at the most, in windows of {} s",
        flow.interval as f64 / 1000.0
    );
    for peak in &flow.peaks {
        let at = peak.at as f64 / 1000.0;
        let _ = writeln!(
            out,
            "  {at:>8.1} s  {:<32} {:>9.1} before, {:>9.1} at the most after",
            peak.what, peak.before, peak.after
        );
    }
}

fn flow_json(flow: &Flow) -> Value {
    let window = |window: &Window| {
        json!({
            "requests": window.requests, "local": window.local, "prolonged": window.prolonged, "remote": window.remote,
            "waited": window.waited, "origin": window.origin, "fleet_failed": window.failed,
            "bytes_to_clients": window.to_clients, "bytes_from_fleet": window.from_fleet,
            "bytes_to_fleet": window.to_fleet, "bytes_from_origin": window.from_origin,
        })
    };
    let server = |server: &super::topology::Load| json!({"name": server.name, "gets": server.gets, "hits": server.hits, "sets": server.sets, "bytes": server.bytes, "items": server.items});
    let peak = |peak: &super::topology::Peak| json!({"at_ms": peak.at, "what": peak.what, "origin_per_second_before": peak.before, "origin_per_second_after": peak.after});
    json!({
        "interval_ms": flow.interval,
        "total": window(&flow.total),
        "windows": flow.windows.iter().map(window).collect::<Vec<_>>(),
        "servers": flow.servers.iter().map(server).collect::<Vec<_>>(),
        "events": flow.peaks.iter().map(peak).collect::<Vec<_>>(),
    })
}

pub(super) fn head(input: &Input, trace: &Trace) -> String {
    let seconds = trace.requests.last().map_or(0, |request| request.at) / 1000;
    let mut out = format!(
        "{}: {} reads of {}, {} objects, {seconds} s of its time",
        input.name,
        trace.total.reads,
        show_bytes(trace.total.bytes as f64),
        (trace.hashes.len() as f64 / trace.sample).round(),
    );
    if trace.sample < 1.0 {
        let _ = write!(out, "; sample of {:.4} of its keys", trace.sample);
    }
    if trace.warm.reads > 0 {
        let _ = write!(out, "; the first {} reads warm up", trace.warm.reads);
    }
    out.push_str("\n\n");
    out
}

fn table(
    out: &mut String,
    title: &str,
    input: &Input,
    rows: &[Row],
    of: impl Fn(&super::cell::Outcome) -> f64,
) {
    let _ = write!(out, "{title}\n{:<11}", "");
    input.sizes.iter().for_each(|size| {
        let _ = write!(out, " {:>10}", show_bytes(*size as f64));
    });
    out.push('\n');
    for row in rows {
        let _ = write!(out, "{:<11}", row.policy.name());
        for outcome in &row.outcomes {
            let _ = match outcome {
                Ok(outcome) => write!(out, " {:>10.2}", of(outcome) * 100.0),
                Err(_) => write!(out, " {:>10}", "-"),
            };
        }
        out.push('\n');
    }
    out.push('\n');
}

/// With at most one decimal.
pub(crate) fn show_bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let digits = usize::from(value.fract() >= 0.05 && value < 1000.0 && unit > 0);
    format!("{value:.digits$} {}", units[unit])
}

/// All results as JSON.
pub(crate) fn json(input: &Input, trace: &Trace, rows: &[Row], flow: Option<&Flow>) -> String {
    let cell = |(outcome, size): (&Result<super::cell::Outcome, String>, &u64)| match outcome {
        Ok(outcome) => json!({
            "size": size,
            "hit_ratio_objects": outcome.objects,
            "hit_ratio_bytes": outcome.bytes,
            "error": outcome.error,
            "origin_requests": outcome.origin_requests,
            "origin_bytes": outcome.origin_bytes,
            "items": outcome.items,
            "stored_bytes": outcome.stored,
        }),
        Err(why) => json!({"size": size, "failed": why}),
    };
    let row = |row: &Row| {
        let cells: Vec<Value> = row.outcomes.iter().zip(&input.sizes).map(cell).collect();
        json!({"policy": row.policy.name(), "cells": cells})
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let value = json!({
        "trace": input.name,
        "reads": trace.total.reads,
        "bytes": trace.total.bytes,
        "warm_reads": trace.warm.reads,
        "objects": (trace.hashes.len() as f64 / trace.sample).round(),
        "sample": trace.sample,
        "seed": input.seed,
        "policies": rows,
        "topology": flow.map(flow_json),
    });
    format!("{value:#}\n")
}
