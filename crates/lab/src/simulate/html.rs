//! Results as an HTML page with plots.

use super::args::Input;
use super::cell::Outcome;
use super::grid::Row;
use super::show::{head, show_bytes};
use super::topology::{Flow, Window};
use super::trace::Trace;
use crate::report::{
    html::{Page, Table},
    plot::{Axis, Lines, Scale, Series, Unit},
};

/// The page.
pub(crate) fn page(input: &Input, trace: &Trace, rows: &[Row], flow: Option<&Flow>) -> String {
    let mut page = Page::new(&format!("Simulation: {}", input.name));
    page.paragraph(head(input, trace).trim_end());
    if !rows.is_empty() {
        page.heading("Policies and sizes");
        compared(&mut page, input, rows, "objects found, of 100 reads", |outcome| outcome.objects);
        compared(&mut page, input, rows, "bytes found, of 100 read", |outcome| outcome.bytes);
    }
    if let Some(flow) = flow {
        page.heading("Larders and fleet");
        flowed(&mut page, flow);
    }
    page.html()
}

fn compared(page: &mut Page, input: &Input, rows: &[Row], title: &str, of: fn(&Outcome) -> f64) {
    if input.sizes.len() > 1 {
        let x = Axis::new("cache size", Unit::Bytes).scale(Scale::Log);
        let line = |lines: Lines, row: &Row| {
            let points = row.outcomes.iter().zip(&input.sizes);
            let points = points
                .filter_map(|(outcome, size)| Some((*size as f64, of(outcome.as_ref().ok()?))));
            lines.with(Series::new(row.policy.name(), points))
        };
        page.plot(&rows.iter().fold(Lines::new(title, x, Axis::new("found", Unit::Share)), line));
    }
    let sizes = input.sizes.iter().map(|size| show_bytes(*size as f64));
    let mut table = Table::new(title, std::iter::once("policy".to_owned()).chain(sizes));
    for row in rows {
        let cell = |outcome: &Result<Outcome, String>| match outcome {
            Ok(outcome) => format!("{:.2}", of(outcome) * 100.0),
            Err(_) => "-".to_owned(),
        };
        table.row(
            std::iter::once(row.policy.name().to_owned()).chain(row.outcomes.iter().map(cell)),
        );
    }
    page.table(&table);
}

/// A figure of a window.
type Of = fn(&Window) -> f64;

fn flowed(page: &mut Page, flow: &Flow) {
    let plot = |title: &str, y: Axis, lines: &[(&str, Of)], share: bool| {
        let new = Lines::new(title, Axis::new("time", Unit::Seconds), y);
        lines.iter().fold(new, |all, (name, of)| {
            let points = flow.windows.iter().enumerate().map(|(number, window)| {
                let scale =
                    if share { window.requests.max(1.0) } else { flow.interval as f64 / 1000.0 };
                ((number as u64 * flow.interval) as f64 / 1000.0, of(window) / scale)
            });
            all.with(Series::new(name, points))
        })
    };
    page.plot(&plot(
        "where pages came from",
        Axis::new("requests", Unit::Share),
        &[
            ("own memory", |window| window.local),
            ("fleet", |window| window.remote),
            ("waited", |window| window.waited),
            ("origin", |window| window.origin),
        ],
        true,
    ));
    page.plot(&plot(
        "load of the origin",
        Axis::new("requests per second", Unit::Number),
        &[("origin", |window| window.origin)],
        false,
    ));
    page.plot(&plot(
        "bytes moved, per second",
        Axis::new("bytes", Unit::Bytes),
        &[
            ("to clients", |window| window.to_clients),
            ("fleet to Larders", |window| window.from_fleet),
            ("Larders to fleet", |window| window.to_fleet),
            ("origin to Larders", |window| window.from_origin),
        ],
        false,
    ));
    let mut events = Table::new(
        "events, and what the origin saw (requests a second)",
        ["event", "at, s", "before", "most after"],
    );
    for peak in &flow.peaks {
        let at = format!("{:.1}", peak.at as f64 / 1000.0);
        events.row([
            peak.what.clone(),
            at,
            format!("{:.1}", peak.before),
            format!("{:.1}", peak.after),
        ]);
    }
    if !events.is_empty() {
        page.table(&events);
    }
    let mut servers =
        Table::new("servers", ["server", "gets", "found", "stored", "bytes", "items"]);
    for server in &flow.servers {
        let number = |figure: f64| format!("{figure:.0}");
        servers.row([
            server.name.clone(),
            number(server.gets),
            number(server.hits),
            number(server.sets),
            show_bytes(server.bytes),
            number(server.items),
        ]);
    }
    if !servers.is_empty() {
        page.table(&servers);
    }
}
