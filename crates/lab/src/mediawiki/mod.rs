//! `larder lab mediawiki`: does caching help a wiki? The experiment of the reference documents, made again on one machine.
//!
//! [`house`] is what stays the same through all rows: MariaDB with a slow proxy before it, MediaWiki with generated articles, and
//! what serves it. For each of [`rows`], [`measure`] starts the caches, warms them where it is said, loads, and proves that the row is what
//! its title says. [`sample`] looks at the caches each second meanwhile. [`show`] writes the report.

mod args;
mod caches;
mod check;
mod database;
mod error;
mod fetch;
mod house;
mod load;
mod measure;
mod programs;
mod rows;
mod sample;
mod show;
mod versions;
mod web;
mod wiki;

use std::{process::ExitCode, time::Duration};

pub(crate) use args::MediawikiArgs;

use self::{
    error::Error,
    house::House,
    measure::Outcome,
    programs::Programs,
    rows::{Objects, Pages, Row},
};
use crate::{
    exit::{MISSED, UNREACHABLE, USAGE},
    interrupt,
    peers::{self, Scratch},
};

/// A server that does not answer after this time will not. MariaDB on a slow disk takes the longest.
const STARTING: Duration = Duration::from_secs(60);
/// Of a shell: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// The command.
pub(crate) fn run(args: &MediawikiArgs) -> ExitCode {
    if args.rows == ["list"] {
        print!("{}", rows::list());
        return ExitCode::SUCCESS;
    }
    match experiment(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(MISSED),
        Err(error) => {
            // Whatever failed was ended by it.
            let error = if interrupt::asked() { peers::Error::Interrupted.into() } else { error };
            eprintln!("larder lab mediawiki: {error}");
            ExitCode::from(match error {
                Error::Usage(_) => USAGE,
                Error::Server(peers::Error::Interrupted) => INTERRUPTED,
                _ => UNREACHABLE,
            })
        }
    }
}

/// Whether every row is valid.
fn experiment(args: &MediawikiArgs) -> Result<bool, Error> {
    let rows = rows::chosen(&args.rows)?;
    let needs = |wanted: &dyn Fn(&Row) -> bool| rows.iter().any(wanted);
    let memcached = needs(&|row| row.objects == Objects::Memcached);
    let programs = Programs::find(args.php, memcached, needs(&|row| row.pages == Pages::Squid))?;
    std::fs::create_dir_all(&args.report).map_err(|e| Error::file(&args.report, e))?;
    interrupt::watch();
    let mut scratch = Scratch::new("mediawiki")?;
    if args.keep {
        scratch.keep();
        eprintln!("kept: {}", scratch.path().display());
    }
    let users = rows.iter().map(|row| row.users(args)).max().unwrap_or(1);
    make(args, &rows, programs, &scratch, users)
}

fn make(
    args: &MediawikiArgs,
    rows: &[Row],
    programs: Programs,
    scratch: &Scratch,
    users: u32,
) -> Result<bool, Error> {
    let versions = versions::of(&programs);
    let house = House::build(args, programs, scratch, users)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for row in rows {
        if interrupt::asked() {
            return Err(peers::Error::Interrupted.into());
        }
        outcomes.push(measure::measure(&house, args, row)?);
    }
    let mut how = show::how(args, &house.wiki.articles, &versions);
    how.push(("took".to_owned(), format!("{:.0} s", house.began.elapsed().as_secs_f64())));
    let valid = outcomes.iter().all(Outcome::is_valid);
    let report = show::Report { outcomes: &outcomes, how };
    show::write(&report, &args.report)?;
    println!("{}", show::summary(&report));
    println!("report: {}", args.report.join("mediawiki.html").display());
    Ok(valid)
}
