//! The report: one HTML file with tables and plots, the tables as Markdown, all figures as JSON.

mod json;
mod lessons;
mod page;
mod plots;
mod table;

use std::{collections::BTreeMap, path::Path};

use super::{
    args::MediawikiArgs,
    error::Error,
    measure::Outcome,
    rows::{Database, Row},
    wiki::{Article, MEDIAN, SIGMA},
};

/// Contents of a report.
pub(super) struct Report<'a> {
    pub(super) outcomes: &'a [Outcome],
    /// Description of the setup, as name and value.
    pub(super) how: Vec<(String, String)>,
}

/// Writes mediawiki.html, mediawiki.md and mediawiki.json.
pub(super) fn write(report: &Report<'_>, dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|e| Error::file(dir, e))?;
    let files = [
        ("mediawiki.html", page::html(report)),
        ("mediawiki.md", page::markdown(report)),
        ("mediawiki.json", json::of(report)),
    ];
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|e| Error::file(&path, e))?;
    }
    Ok(())
}

/// Table and conclusions as text for a terminal.
pub(super) fn summary(report: &Report<'_>) -> String {
    let lessons: Vec<_> =
        lessons::of(report.outcomes).iter().map(|lesson| format!("- {lesson}")).collect();
    format!("{}\n{}", table::ours(report.outcomes).markdown(), lessons.join("\n"))
}

/// Description of the setup.
pub(super) fn how(
    args: &MediawikiArgs,
    articles: &[Article],
    versions: &BTreeMap<&str, String>,
) -> Vec<(String, String)> {
    let mut lengths: Vec<_> = articles.iter().map(|article| article.length).collect();
    lengths.sort_unstable();
    let mean = lengths.iter().sum::<usize>() / lengths.len().max(1);
    let at = |part: f64| {
        lengths.get((lengths.len() as f64 * part) as usize).or(lengths.last()).copied().unwrap_or(0)
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut how = vec![
        (
            "articles".to_owned(),
            format!(
                "{}, generated (seed {}); wikitext lognormal with median {MEDIAN} and sigma \
                 {SIGMA}; drawn: shortest {} B, median {} B, mean {mean} B, p90 {} B, longest {} B",
                lengths.len(),
                args.seed,
                at(0.0),
                at(0.5),
                at(0.9),
                at(1.0)
            ),
        ),
        ("wiki".to_owned(), format!("{}; a worker for each user and two more", args.php.name())),
        (
            "slow DB".to_owned(),
            format!(
                "{} more for each statement, through `larder slow`, where connections do not wait \
                 for each other",
                larder_proto::units::show_duration(args.delay)
            ),
        ),
        (
            "DB".to_owned(),
            "over TCP on the same machine; \"local DB\" is the same one by its unix socket"
                .to_owned(),
        ),
        (
            "users".to_owned(),
            format!(
                "10, 5 with a page cache (or --threads); each begins within the first {} s",
                args.ramp_up.as_secs_f64()
            ),
        ),
        ("cold".to_owned(), "every cache is started anew for each row".to_owned()),
        (
            "warm".to_owned(),
            "every article has been asked for once, with the fast database".to_owned(),
        ),
        (
            "machine".to_owned(),
            format!("one machine for everything, the load too; {cpus} processors"),
        ),
    ];
    how.extend(versions.iter().map(|(name, version)| ((*name).to_owned(), version.clone())));
    how
}

/// The row without a cache and with the same kind of database.
fn plain<'a>(outcomes: &'a [Outcome], row: &Row) -> Option<&'a Outcome> {
    outcomes.iter().find(|other| other.row.is_plain() && other.row.database == row.database)
}

/// Factor by which the mean is faster than without a cache.
fn speed_up(outcomes: &[Outcome], outcome: &Outcome) -> Option<f64> {
    let plain = plain(outcomes, &outcome.row).filter(|plain| plain.row.id != outcome.row.id)?;
    Some(plain.figures.mean / outcome.figures.mean)
}

/// The same factor in the reference.
fn reference_speed_up(row: &Row) -> Option<f64> {
    let plain = super::rows::ROWS.iter().find(|other| {
        other.is_plain()
            && other.database == row.database
            && other.database != Database::Socket
            && other.id != row.id
    })?;
    Some(plain.reference?.mean / row.reference?.mean)
}

/// A number with a sensible number of digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_compared_with_its_own_row_without_a_cache() {
        let of = |id: &str| {
            reference_speed_up(super::super::rows::ROWS.iter().find(|row| row.id == id).unwrap())
        };
        assert_eq!(of("none"), None);
        assert_eq!(number(of("squid-warm").unwrap()), "35.3");
        assert_eq!(number(of("larder-pages-warm-slow").unwrap()), "808");
        assert_eq!(of("larder-both-warm"), None);
    }
}
