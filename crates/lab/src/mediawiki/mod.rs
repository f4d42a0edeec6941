//! `larder lab mediawiki`: measures what caching does for a wiki; repeats the experiment of the
//! reference documents on one machine.
//!
//! [`setup`] is common to all rows: MariaDB behind a slow proxy, MediaWiki with generated articles,
//! and its web server. For each of [`rows`], [`measure`] starts the caches, warms them if the row
//! says so, runs the load, and verifies the result. [`sample`] polls the caches' counters every
//! second. [`show`] writes the report.

mod args;
mod caches;
mod check;
mod database;
mod error;
mod fetch;
mod load;
mod measure;
mod programs;
mod rows;
mod sample;
mod setup;
mod show;
mod versions;
mod web;
mod wiki;

use std::{process::ExitCode, time::Duration};

pub(crate) use args::MediawikiArgs;

use self::{
    error::Error,
    measure::Outcome,
    programs::Programs,
    rows::{Objects, Pages, Row},
    setup::Setup,
};
use crate::{
    exit::{MISSED, UNREACHABLE, USAGE},
    interrupt,
    peers::{self, Scratch},
    progress::Progress,
};

/// Time limit for the start of a server. MariaDB on a slow disk takes longest.
const STARTING: Duration = Duration::from_secs(60);
/// Exit code of shells for SIGINT: 128 plus the signal's number.
const INTERRUPTED: u8 = 130;

/// Runs the command.
pub(crate) fn run(args: &MediawikiArgs) -> ExitCode {
    if args.rows == ["list"] {
        print!("{}", rows::list());
        return ExitCode::SUCCESS;
    }
    match experiment(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(MISSED),
        Err(error) => {
            // An interruption also makes other steps fail.
            let error =
                if interrupt::requested() { peers::Error::Interrupted.into() } else { error };
            eprintln!("larder lab mediawiki: {error}");
            ExitCode::from(match error {
                Error::Usage(_) => USAGE,
                Error::Server(peers::Error::Interrupted) => INTERRUPTED,
                _ => UNREACHABLE,
            })
        }
    }
}

/// Runs all rows; whether every row is valid.
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
    let mut setup = Setup::build(args, programs, scratch, users)?;
    setup.progress = Progress::new("rows", rows.len() as u64);
    let mut outcomes: Vec<Outcome> = Vec::new();
    for row in rows {
        if interrupt::requested() {
            return Err(peers::Error::Interrupted.into());
        }
        outcomes.push(measure::measure(&setup, args, row)?);
        setup.progress.advance(1);
    }
    setup.progress = Progress::hidden();
    let mut how = show::how(args, &setup.wiki.articles, &versions);
    how.push(("took".to_owned(), format!("{:.0} s", setup.began.elapsed().as_secs_f64())));
    let valid = outcomes.iter().all(Outcome::is_valid);
    let report = show::Report { outcomes: &outcomes, how };
    show::write(&report, &args.report)?;
    println!("{}", show::summary(&report));
    println!("report: {}", args.report.join("mediawiki.html").display());
    Ok(valid)
}
