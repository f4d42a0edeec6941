//! Presentation of a comparison as text, Markdown and HTML.

use std::fmt::Write;

use super::result::{Comparison, Figures, Grid, Measure, Row, Table};
use crate::report::{
    html,
    plot::{Axis, Bars, Unit},
};

/// Columns of a table of figures.
const COLUMNS: [&str; 7] =
    ["server", "CPU µs", "both µs", "of base (quartiles)", "a second", "p50 µs", "p99 µs"];

/// Text for a terminal.
pub(crate) fn text(comparison: &Comparison) -> String {
    let mut out =
        format!("{}, {}\n{}\n", comparison.title, comparison.date, comparison.machine.line());
    let _ = writeln!(out, "{}", versions(comparison));
    for (name, value) in &comparison.how {
        let _ = writeln!(out, "{name}: {value}");
    }
    for table in &comparison.tables {
        let _ = writeln!(out, "\n{}", caption(table));
        out.push_str(&columns(
            &COLUMNS,
            &table.rows.iter().map(|row| cells(table, row)).collect::<Vec<_>>(),
        ));
    }
    for grid in &comparison.grids {
        let _ = writeln!(out, "\n{}", grid.title);
        out.push_str(&columns(&grid_head(grid), &grid_rows(grid)));
    }
    out.push('\n');
    for line in notes(comparison) {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// Markdown for docs/performance.md.
pub(crate) fn markdown(comparison: &Comparison) -> String {
    let how: Vec<String> =
        comparison.how.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let mut out = format!("## {}\n\n", comparison.title);
    let _ = writeln!(
        out,
        "{}. {}. {}. {}.\n",
        comparison.date,
        comparison.machine.line(),
        versions(comparison),
        how.join("; ")
    );
    if !comparison.tables.is_empty() {
        let _ = writeln!(
            out,
            "Times the base's processor time for the same, median (quartiles); in brackets \
             microseconds.\n"
        );
        out.push_str(&summary(comparison));
    }
    for table in &comparison.tables {
        let _ = writeln!(out, "\n### {}\n", caption(table));
        out.push_str(&pipes(
            &COLUMNS,
            &table.rows.iter().map(|row| cells(table, row)).collect::<Vec<_>>(),
        ));
    }
    for grid in &comparison.grids {
        let _ = writeln!(out, "\n### {}\n", grid.title);
        out.push_str(&pipes(&grid_head(grid), &grid_rows(grid)));
    }
    out.push('\n');
    for line in notes(comparison) {
        let _ = writeln!(out, "- {line}");
    }
    out
}

/// An HTML page.
pub(crate) fn page(comparison: &Comparison) -> String {
    let mut page = html::Page::new(&comparison.title);
    page.remark(&format!(
        "{}. {}. {}.",
        comparison.date,
        comparison.machine.line(),
        versions(comparison)
    ));
    page.facts(comparison.how.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for line in notes(comparison) {
        page.paragraph(&line);
    }
    for table in &comparison.tables {
        page.heading(&table.title);
        let ranked: Vec<(&Row, &Figures)> =
            table.rows.iter().filter_map(|row| Some((row, row.figures.as_ref()?))).collect();
        if !ranked.is_empty() {
            let titles = ranked.iter().map(|(row, _)| row.title.clone());
            let axis = Axis::new(&format!("processor time for each {}", table.unit), Unit::Seconds);
            let values =
                ranked.iter().map(|(_, figures)| figures.measure(table.measure).median / 1e6);
            page.bars(
                &Bars::new(&table.title, axis, titles).with(measure_name(table.measure), values),
            );
        }
        let mut shown = html::Table::new(&caption(table), COLUMNS).words(&[0]);
        for row in &table.rows {
            let cells = cells(table, row);
            if row.ours {
                shown.marked_row(cells)
            } else {
                shown.row(cells)
            };
        }
        page.table(&shown);
    }
    for grid in &comparison.grids {
        page.heading(&grid.title);
        let mut shown = html::Table::new(&grid.title, grid_head(grid)).words(&[0]);
        for (row, cells) in grid.rows.iter().zip(grid_rows(grid)) {
            if row.ours {
                shown.marked_row(cells)
            } else {
                shown.row(cells)
            };
        }
        page.table(&shown);
    }
    page.html()
}

impl Figures {
    fn measure(&self, measure: Measure) -> super::spread::Spread {
        match measure {
            Measure::Cpu => self.cpu,
            Measure::Total => self.total,
        }
    }
}

fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Cpu => "the server's",
        Measure::Total => "server's and generator's",
    }
}

fn caption(table: &Table) -> String {
    let rounds = table
        .rows
        .iter()
        .filter_map(|row| row.figures.as_ref())
        .map(|figures| figures.cpu.n)
        .max()
        .unwrap_or(0);
    format!(
        "{}: per {}, in {} processor time (medians; a ratio is the median of each round's own), n \
         = {rounds}",
        table.title,
        table.unit,
        measure_name(table.measure)
    )
}

fn versions(comparison: &Comparison) -> String {
    let all: Vec<String> =
        comparison.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    all.join("; ")
}

fn cells(table: &Table, row: &Row) -> Vec<String> {
    let title =
        if row.behind.is_empty() { row.title.clone() } else { format!("{} (behind)", row.title) };
    let Some(figures) = &row.figures else {
        let reason = row.wrong.clone().unwrap_or_else(|| "not measured".to_owned());
        return vec![title, format!("not ranked: {reason}")];
    };
    let itself = row.base.as_ref() == Some(&row.name);
    let ratio = match figures.ratio {
        Some(_) if itself => "1".to_owned(),
        Some(ratio) => ratio.ratio(),
        None => "-".to_owned(),
    };
    let marked =
        |measure, text: String| if table.measure == measure { text } else { format!("({text})") };
    vec![
        title,
        marked(Measure::Cpu, format!("{:.2}", figures.cpu.median)),
        marked(Measure::Total, format!("{:.2}", figures.total.median)),
        ratio,
        format!("{:.0}", figures.per_second.median),
        format!("{:.0}", figures.p50.median),
        format!("{:.0}", figures.p99.median),
    ]
}

/// Notes for every reader: cases where Larder is behind, servers left out, wrong answers.
pub(crate) fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    if comparison.interrupted {
        notes.push("Interrupted: tables have the rounds that were whole.".to_owned());
    }
    let behind = comparison.behind();
    let ours = comparison
        .tables
        .iter()
        .any(|table| table.rows.iter().any(|row| row.ours && row.figures.is_some()));
    let ours = ours || comparison.grids.iter().any(|grid| grid.rows.iter().any(|row| row.ours));
    if behind.is_empty() && ours {
        notes.push("Larder is behind no other server in these tables.".to_owned());
    }
    notes.extend(behind.into_iter().map(|line| format!("Larder is behind. {line}.")));
    notes.extend(comparison.left_out.iter().map(|line| format!("Left out: {line}.")));
    for table in &comparison.tables {
        let wrong = table.rows.iter().filter_map(|row| Some((row, row.wrong.as_ref()?)));
        notes.extend(
            wrong.map(|(row, wrong)| {
                format!("Not ranked: {} at {}: {wrong}.", row.title, table.title)
            }),
        );
    }
    notes
}

/// All tables in one; the longer of workloads and servers becomes the rows.
fn summary(comparison: &Comparison) -> String {
    let tables = &comparison.tables;
    let Some(first) = tables.first() else { return String::new() };
    let cell = |table: &Table, at: usize| {
        let Some(row) = table.rows.get(at) else { return "-".to_owned() };
        let Some(figures) = &row.figures else { return "not ranked".to_owned() };
        let value = figures.measure(table.measure).median;
        let ratio = match figures.ratio {
            Some(_) if row.base.as_ref() == Some(&row.name) => "1".to_owned(),
            Some(ratio) => ratio.ratio(),
            None => "-".to_owned(),
        };
        let behind = if row.behind.is_empty() { "" } else { ", behind" };
        let text = format!("{ratio} [{value:.2}{behind}]");
        if row.ours { format!("**{text}**") } else { text }
    };
    let servers = 0..first.rows.len();
    if tables.len() > servers.len() {
        let head: Vec<String> = [String::new()]
            .into_iter()
            .chain(first.rows.iter().map(|row| row.title.clone()))
            .collect();
        let rows: Vec<Vec<String>> = tables
            .iter()
            .map(|table| {
                [table.title.clone()]
                    .into_iter()
                    .chain(servers.clone().map(|at| cell(table, at)))
                    .collect()
            })
            .collect();
        pipes(&head, &rows)
    } else {
        let head: Vec<String> = [String::new()]
            .into_iter()
            .chain(tables.iter().map(|table| table.title.clone()))
            .collect();
        let rows: Vec<Vec<String>> = servers
            .map(|at| {
                [first.rows[at].title.clone()]
                    .into_iter()
                    .chain(tables.iter().map(|table| cell(table, at)))
                    .collect()
            })
            .collect();
        pipes(&head, &rows)
    }
}

fn grid_head(grid: &Grid) -> Vec<String> {
    [String::new()].into_iter().chain(grid.columns.iter().cloned()).collect()
}

fn grid_rows(grid: &Grid) -> Vec<Vec<String>> {
    let digits = grid.digits;
    let value = |value: &Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    grid.rows
        .iter()
        .map(|row| [row.title.clone()].into_iter().chain(row.values.iter().map(value)).collect())
        .collect()
}

fn pipes<H: AsRef<str>>(head: &[H], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|cell| cell.as_ref().to_owned()).collect();
    let mut out = line(&head) + &"|---".repeat(head.len()) + "|\n";
    for row in rows {
        let mut row: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        row.resize(head.len().max(row.len()), String::new());
        out.push_str(&line(&row));
    }
    out
}

/// Aligned text: words left, figures right. A short row (not ranked) is a sentence.
fn columns<H: AsRef<str>>(head: &[H], rows: &[Vec<String>]) -> String {
    let whole = || rows.iter().filter(|row| row.len() == head.len());
    let width = |at: usize| {
        let cells = whole().map(|row| row[at].chars().count());
        cells.chain([head[at].as_ref().chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let mut out = format!("  {:<1$}", cells[0], widths[0]);
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out + "\n"
    };
    let mut out = line(head.iter().map(AsRef::as_ref).collect());
    for row in rows {
        if row.len() == head.len() {
            out.push_str(&line(row.iter().map(String::as_str).collect()));
        } else {
            let _ = writeln!(out, "  {}", row.join("  "));
        }
    }
    out
}
