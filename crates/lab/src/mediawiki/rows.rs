//! Rows of the experiment: those of the reference, the same with Larder instead of memcached and
//! Squid, and rows possible only with Larder.

use super::{args::MediawikiArgs, error::Error};

/// MediaWiki's connection to its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Database {
    /// TCP, as if on another machine.
    Tcp,
    /// A unix socket.
    Socket,
    /// TCP through a proxy that delays each statement.
    Slow,
}

/// MediaWiki's object cache: parser output, messages and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objects {
    /// None.
    None,
    Memcached,
    Larder,
}

/// The page cache in front of the wiki.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// None.
    None,
    Squid,
    Larder,
}

/// Figures of a row as in the reference: milliseconds, requests and KB per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) n: u64,
    pub(super) mean: f64,
    pub(super) median: f64,
    pub(super) p90: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) per_second: f64,
    pub(super) kb_per_second: f64,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    /// Name for `--rows` and file names.
    pub(super) id: &'static str,
    /// Title in the report.
    pub(super) title: &'static str,
    pub(super) database: Database,
    pub(super) objects: Objects,
    pub(super) pages: Pages,
    /// Every article is requested once, with the fast database, before the row begins.
    pub(super) warm: bool,
    /// Requests with `--scale 1`, chosen so that all rows take a quarter of an hour on two
    /// processors.
    pub(super) usual: u64,
    /// The reference's figures for this row, or for the row it replaces.
    pub(super) reference: Option<Figures>,
}

impl Row {
    /// Concurrent users: the reference had 10 for the wiki itself, 5 for the page cache.
    pub(super) fn users(&self, args: &MediawikiArgs) -> u32 {
        args.threads.unwrap_or(if self.pages == Pages::None { 10 } else { 5 })
    }

    /// Number of requests: at least one per user.
    pub(super) fn requests(&self, args: &MediawikiArgs) -> u64 {
        let users = u64::from(self.users(args));
        match args.loops {
            Some(loops) => users * u64::from(loops),
            None => users.max((self.usual as f64 * args.scale).round() as u64),
        }
    }

    /// Whether this row has no cache.
    pub(super) fn is_plain(&self) -> bool {
        self.objects == Objects::None && self.pages == Pages::None
    }
}

/// Figures of the reference.
mod reference {
    use super::Figures;

    #[allow(clippy::too_many_arguments, reason = "a line of a table")]
    const fn line(
        n: u64,
        mean: f64,
        median: f64,
        p90: f64,
        min: f64,
        max: f64,
        rate: f64,
        kb: f64,
    ) -> Option<Figures> {
        Some(Figures { n, mean, median, p90, min, max, per_second: rate, kb_per_second: kb })
    }

    type Line = Option<Figures>;
    pub(super) const NONE: Line = line(3200, 1095., 911., 1290., 228., 117_264., 8.32, 531.26);
    pub(super) const NONE_SLOW: Line =
        line(510, 23424., 15789., 42209., 1955., 265_339., 0.43, 27.16);
    pub(super) const NONE_LOCAL: Line = line(1000, 662., 505., 703., 227., 37747., 6.97, 454.94);
    pub(super) const COLD: Line = line(3200, 1103., 901., 1276., 223., 134_099., 8.01, 524.72);
    pub(super) const WARM: Line = line(3200, 1034., 1020., 1309., 225., 12551., 9.05, 620.67);
    pub(super) const COLD_SLOW: Line =
        line(529, 18902., 11369., 33231., 809., 273_524., 0.53, 37.34);
    pub(super) const WARM_SLOW: Line =
        line(310, 23168., 12103., 55453., 2004., 280_388., 0.43, 26.60);
    pub(super) const PAGES: Line = line(1000, 31., 19., 74., 2., 327., 113.97, 11071.80);
    pub(super) const PAGES_SLOW: Line = line(1000, 29., 17., 65., 2., 650., 121.41, 10854.36);
}

/// Usual numbers of requests: renders, renders with a slow database, pages from a page cache.
const RENDERS: u64 = 600;
const SLOW: u64 = 100;
const CACHED: u64 = 100_000;

use Database::{Slow, Socket, Tcp};

#[allow(clippy::too_many_arguments, reason = "a line of a table")]
const fn row(
    id: &'static str,
    title: &'static str,
    database: Database,
    objects: Objects,
    pages: Pages,
    warm: bool,
    usual: u64,
    reference: Option<Figures>,
) -> Row {
    Row { id, title, database, objects, pages, warm, usual, reference }
}

/// All rows, in the order of the report.
#[rustfmt::skip]
pub(super) const ROWS: [Row; 19] = [
    row("none", "no cache", Tcp, Objects::None, Pages::None, false, RENDERS, reference::NONE),
    row("none-slow", "no cache, slow DB", Slow, Objects::None, Pages::None, false, SLOW, reference::NONE_SLOW),
    row("none-local", "no cache, local DB", Socket, Objects::None, Pages::None, false, RENDERS, reference::NONE_LOCAL),
    row("memcached-cold", "memcached cold", Tcp, Objects::Memcached, Pages::None, false, RENDERS, reference::COLD),
    row("memcached-warm", "memcached warm", Tcp, Objects::Memcached, Pages::None, true, RENDERS, reference::WARM),
    row("memcached-cold-slow", "memcached cold, slow DB", Slow, Objects::Memcached, Pages::None, false, SLOW, reference::COLD_SLOW),
    row("memcached-warm-slow", "memcached warm, slow DB", Slow, Objects::Memcached, Pages::None, true, SLOW, reference::WARM_SLOW),
    row("larder-objects-cold", "Larder for objects, cold", Tcp, Objects::Larder, Pages::None, false, RENDERS, reference::COLD),
    row("larder-objects-warm", "Larder for objects, warm", Tcp, Objects::Larder, Pages::None, true, RENDERS, reference::WARM),
    row("larder-objects-cold-slow", "Larder for objects, cold, slow DB", Slow, Objects::Larder, Pages::None, false, SLOW, reference::COLD_SLOW),
    row("larder-objects-warm-slow", "Larder for objects, warm, slow DB", Slow, Objects::Larder, Pages::None, true, SLOW, reference::WARM_SLOW),
    row("squid-warm", "Squid warm", Tcp, Objects::None, Pages::Squid, true, CACHED, reference::PAGES),
    row("squid-warm-slow", "Squid warm, slow DB", Slow, Objects::None, Pages::Squid, true, CACHED, reference::PAGES_SLOW),
    row("larder-pages-warm", "Larder for pages, warm", Tcp, Objects::None, Pages::Larder, true, CACHED, reference::PAGES),
    row("larder-pages-warm-slow", "Larder for pages, warm, slow DB", Slow, Objects::None, Pages::Larder, true, CACHED, reference::PAGES_SLOW),
    row("larder-both-cold", "Larder for both, cold", Tcp, Objects::Larder, Pages::Larder, false, CACHED, None),
    row("larder-both-warm", "Larder for both, warm", Tcp, Objects::Larder, Pages::Larder, true, CACHED, None),
    row("larder-both-cold-slow", "Larder for both, cold, slow DB", Slow, Objects::Larder, Pages::Larder, false, CACHED, None),
    row("larder-both-warm-slow", "Larder for both, warm, slow DB", Slow, Objects::Larder, Pages::Larder, true, CACHED, None),
];

/// Output of `--rows list`: name and description of each row.
pub(super) fn list() -> String {
    let wide = ROWS.iter().map(|row| row.id.len()).max().unwrap_or(0);
    ROWS.iter().map(|row| format!("{:wide$}  {}\n", row.id, row.title)).collect()
}

/// The selected rows in the order of the report.
pub(super) fn chosen(names: &[String]) -> Result<Vec<Row>, Error> {
    if let Some(unknown) = names.iter().find(|name| ROWS.iter().all(|row| row.id != **name)) {
        let all: Vec<_> = ROWS.iter().map(|row| row.id).collect();
        return Err(Error::Usage(format!(
            "--rows: no row is called {unknown:?}; there are {}",
            all.join(", ")
        )));
    }
    Ok(ROWS
        .into_iter()
        .filter(|row| names.is_empty() || names.iter().any(|name| name == row.id))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let ids: BTreeSet<_> = ROWS.iter().map(|row| row.id).collect();
        let titles: BTreeSet<_> = ROWS.iter().map(|row| row.title).collect();
        assert_eq!((ids.len(), titles.len()), (ROWS.len(), ROWS.len()));
    }

    #[test]
    fn every_row_of_the_reference_is_made_again_by_debians_servers_and_by_larder() {
        let with = |row: &Row| row.objects == Objects::Larder || row.pages == Pages::Larder;
        let of_reference: Vec<_> = ROWS.iter().filter(|row| row.reference.is_some()).collect();
        let plain = of_reference.iter().filter(|row| row.is_plain()).count();
        let larder = of_reference.iter().filter(|row| with(row)).count();
        assert_eq!((of_reference.len(), plain, larder), (9 + 6, 3, 6));
    }

    #[test]
    fn rows_are_chosen_by_name_and_an_unknown_name_is_told() {
        let names = ["squid-warm".to_owned(), "none".to_owned()];
        let ids: Vec<_> = chosen(&names).unwrap().iter().map(|row| row.id).collect();
        assert_eq!(ids, ["none", "squid-warm"]);
        assert!(chosen(&["nonesuch".to_owned()]).unwrap_err().to_string().contains("none-slow"));
    }
}
