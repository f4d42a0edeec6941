//! `larder bench compare`: visits several servers in short interleaved rounds; reports medians of
//! ratios with their spread.
//!
//! A comparison is described by a [`plan`], a TOML file; `peers` starts its servers. Each kind of
//! plan is a module: `pages`, `objects`, `memory`, `hits`.

mod cache_aside;
mod external;
mod fetch;
mod hits;
mod machine;
mod memory;
mod objects;
mod pages;
mod plan;
mod processors;
mod result;
mod rounds;
mod servers;
mod show;
mod spread;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use larder_proto::units;

use crate::{
    exit, interrupt,
    output::Output,
    peers::{self, Error, PEERS, Role},
};
use plan::Plan;
use processors::Cpus;
use result::Comparison;
use servers::Environment;

/// Exit code of a program ended by SIGINT, as reported by shells.
const INTERRUPTED: u8 = 130;

/// Arguments of `larder bench compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Plan: http, objects, memory, hitratio, or a file like those in bench/
    #[arg(long, value_name = "PLAN", default_value = "http")]
    plan: PathBuf,
    /// Only these servers of the plan
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Number of rounds; each server is visited once a round
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Length of a visit
    #[arg(long, value_name = "TIME", value_parser = duration)]
    slice: Option<Duration>,
    /// Sizes of pages in bytes; of values where memory is compared
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    sizes: Vec<usize>,
    /// Number of keys, items or trace requests, instead of the plan's
    #[arg(long, value_name = "N")]
    items: Option<u64>,
    /// A running server: NAME=ADDR[,pid=N][,speaks=text|meta|redis]; pages must come from `larder
    /// bench origin`
    #[arg(long = "server", value_name = "SERVER", value_parser = external::parse)]
    servers: Vec<servers::ExternalServer>,
    /// The program to start as Larder [default: the one beside this program, else on the PATH]
    #[arg(long, value_name = "PATH")]
    larder: Option<PathBuf>,
    /// Write the results with every round as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text).map_err(|expected| format!("expected {expected}"))
}

pub(crate) fn run(args: &CompareArgs) -> ExitCode {
    interrupt::watch();
    let plan = match planned(args) {
        Ok(plan) => plan,
        Err(message) => return exit::usage("bench compare", &message),
    };
    let larder = match peers::larder_program(args.larder.as_deref()) {
        Ok(larder) => larder,
        Err(error @ Error::NoLarder) => {
            eprintln!("larder bench compare: {error}");
            return ExitCode::from(exit::UNREACHABLE);
        }
        Err(error) => return exit::usage("bench compare", &error.to_string()),
    };
    let files = match Files::open(args) {
        Ok(files) => files,
        Err(message) => return exit::usage("bench compare", &message),
    };
    let environment = Environment { larder, external: args.servers.clone(), cpus: Cpus::here() };
    let mut comparison = Comparison::new(plan.title());
    let done = match &plan {
        Plan::Pages(plan) => pages::compare(plan, &environment, &mut comparison),
        Plan::Objects(plan) => objects::compare(plan, &environment, &mut comparison),
        Plan::Memory(plan) => memory::compare(plan, &environment, &mut comparison),
        Plan::Hits(plan) => hits::compare(plan, &environment, &mut comparison),
    };
    match done {
        Ok(()) => {}
        Err(Error::Interrupted) => comparison.interrupted = true,
        Err(error) => {
            eprintln!("larder bench compare: {error}");
            return ExitCode::from(exit::UNREACHABLE);
        }
    }
    comparison.interrupted |= interrupt::requested();
    print!("{}", show::text(&comparison));
    let written = files.write(&comparison);
    if let Err(message) = &written {
        eprintln!("larder bench compare: {message}");
    }
    code(&comparison, written.is_ok())
}

/// The plan with the changes of the command line.
fn planned(args: &CompareArgs) -> Result<Plan, String> {
    let mut plan = Plan::read(&args.plan)?;
    if !args.only.is_empty() {
        let role = if matches!(plan, Plan::Pages(_)) { Role::Pages } else { Role::Objects };
        if let Some(unknown) = args.only.iter().find(|name| peers::find(name, role).is_none()) {
            let names: Vec<&str> =
                PEERS.iter().filter(|peer| peer.role == role).map(|peer| peer.name).collect();
            return Err(format!(
                "--only {unknown}: there is no such server; there are {}",
                names.join(", ")
            ));
        }
        // Servers of the plan in its order, then the others.
        let planned = plan.servers_mut();
        let more: Vec<String> =
            args.only.iter().filter(|name| !planned.contains(name)).cloned().collect();
        planned.retain(|name| args.only.contains(name));
        planned.extend(more);
    }
    if let Some((rounds, slice)) = plan.pace_mut() {
        *rounds = args.rounds.unwrap_or(*rounds).max(1);
        *slice = args.slice.unwrap_or(*slice);
    }
    if !args.sizes.is_empty() {
        plan.set_sizes(&args.sizes)?;
    }
    if let Some(items) = args.items {
        plan.set_items(items.max(1));
    }
    Ok(plan)
}

/// Files for reports, besides standard output.
struct Files {
    json: Option<Output>,
    html: Option<Output>,
    markdown: Option<Output>,
}

impl Files {
    fn open(args: &CompareArgs) -> Result<Self, String> {
        Ok(Self {
            json: Output::maybe("--json", args.json.as_deref())?,
            html: Output::maybe("--html", args.html.as_deref())?,
            markdown: Output::maybe("--markdown", args.markdown.as_deref())?,
        })
    }

    /// Writes every file it can; returns the first error.
    fn write(self, comparison: &Comparison) -> Result<(), String> {
        let json = serde_json::to_string_pretty(comparison).map_err(|error| error.to_string());
        let json = self.json.map_or(Ok(()), |file| file.write(&json?));
        let html = self.html.map_or(Ok(()), |file| file.write(&show::page(comparison)));
        let markdown = self.markdown.map_or(Ok(()), |file| file.write(&show::markdown(comparison)));
        json.and(html).and(markdown)
    }
}

/// The result of the comparison takes precedence over an error in writing it.
fn code(comparison: &Comparison, written: bool) -> ExitCode {
    let rows = || comparison.tables.iter().flat_map(|table| &table.rows);
    if comparison.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if rows().any(|row| row.wrong.is_some()) {
        ExitCode::from(exit::MISSED)
    } else if comparison.broken || (rows().next().is_none() && comparison.grids.is_empty()) {
        ExitCode::from(exit::UNREACHABLE)
    } else if !written {
        ExitCode::from(exit::USAGE)
    } else {
        ExitCode::SUCCESS
    }
}
