//! `larder lab simulate`: traces against policies and sizes, and whole fleets, in simulated time;
//! no clock is read.
//!
//! | file | contents |
//! |---|---|
//! | `args`, `scenario` | input: flags, or a file |
//! | `trace/` | sources of requests; sampling |
//! | `request`, `random` | a request; random numbers from a seed |
//! | `policy/` | eviction policies |
//! | `cell`, `grid` | one policy with one size; all of them |
//! | `exact` | synthetic traces and an exact LRU, for comparisons with real servers |
//! | `topology/` | Larders, a fleet of servers, an origin |
//! | `show`, `html` | text and JSON; an HTML page with plots |

mod args;
mod cell;
pub(crate) mod exact;
mod grid;
mod html;
mod policy;
mod request;
mod scenario;
mod show;
mod topology;
mod trace;

use std::{io::Write, process::ExitCode};

use self::args::Input;
pub(crate) use self::args::SimulateArgs;

/// Runs the command: exit code 0, or 2 for invalid input.
pub(crate) fn run(args: &SimulateArgs) -> ExitCode {
    match args.input().and_then(|input| input.done()) {
        Ok(text) => {
            // A closed pipe is not an error.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => crate::exit::usage("lab simulate", &message),
    }
}

impl Input {
    /// Simulates and writes the result files; returns the text for the terminal.
    fn done(&self) -> Result<String, String> {
        grid::check(&self.policies, &self.sizes, self.options.sample)?;
        let trace = trace::read(&self.spec, &self.options)?;
        let rows = grid::run(&trace, &self.policies, &self.sizes, self.threads, self.seed);
        let flow = self.topology.as_ref().map(|plan| topology::run(plan, &trace)).transpose()?;
        if let Some(path) = &self.json {
            write(path, &show::json(self, &trace, &rows, flow.as_ref()))?;
        }
        if let Some(path) = &self.html {
            write(path, &html::page(self, &trace, &rows, flow.as_ref()))?;
        }
        Ok(show::text(self, &trace, &rows, flow.as_ref()))
    }
}

fn write(path: &std::path::Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text)
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
