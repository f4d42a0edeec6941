//! The report as HTML and as Markdown.

use super::{Report, lessons, plots, table};
// The braces import the module without the function of that name.
use crate::report::html::{self};

/// Explanation of the tables.
const NOTE: &str = "Times are milliseconds; KB/s counts whole answers. Statements: how many \
                    reached the database for each answer. CPU ms: processor time of wiki, \
                    database and caches together for each answer. A row is valid when every \
                    answer was 200 and whole, articles equal what the wiki rendered first, hits \
                    and misses are where they should be by the answers' heads and by the caches' \
                    own counts, and the database was asked, or slow, as the title says.";

const TITLE: &str = "MediaWiki with and without caches";
const BY: &str = "Made by `larder lab mediawiki`.";

/// One HTML file without external resources.
pub(super) fn html(report: &Report<'_>) -> String {
    let mut page = html::Page::new(TITLE);
    page.remark(BY).heading("What it teaches").list(lessons::of(report.outcomes));
    page.bars(&plots::overview(report.outcomes));
    for (title, note, table) in sections(report) {
        page.heading(title).remark(note).table(&table.html());
    }
    for server in plots::servers(report.outcomes) {
        page.heading(&format!("{}, second by second", server.name)).remark(&server.legend);
        for plot in &server.plots {
            page.plot(plot);
        }
    }
    page.heading("How").pairs("", report.how.iter().map(|(name, value)| (name, value)));
    page.html()
}

/// Markdown, without the plots.
pub(super) fn markdown(report: &Report<'_>) -> String {
    let mut text = format!("# {TITLE}\n\n{BY}\n\n");
    for (name, value) in &report.how {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    text.push_str("\n## What it teaches\n\n");
    for lesson in lessons::of(report.outcomes) {
        text.push_str(&format!("- {lesson}\n"));
    }
    for (title, note, table) in sections(report) {
        text.push_str(&format!("\n## {title}\n\n{note}\n\n{}", table.markdown()));
    }
    text
}

/// Tables with titles and explanations.
fn sections(report: &Report<'_>) -> [(&'static str, &'static str, table::Table); 4] {
    let outcomes = report.outcomes;
    [
        ("Here", NOTE, table::ours(outcomes)),
        ("The reference", REFERENCE, table::reference(outcomes)),
        ("Ratios", RATIOS, table::ratios(outcomes)),
        ("Processor time", "Milliseconds for each answer, by who took it.", table::costs(outcomes)),
    ]
}

const REFERENCE: &str = "The experiment of the reference documents, on machines of its time, with \
                         databases and caches on machines of their own.";
const RATIOS: &str = "How many times faster in the mean than without any cache and with the same \
                      database: what can be compared between machines.";
