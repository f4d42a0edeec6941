//! `larder lab simulate`: traces against policies and sizes, and whole fleets, in the trace's time; no clock is read.
//!
//! | file | what |
//! |---|---|
//! | `args`, `scenario` | what is asked for: flags, or a file |
//! | `trace/` | where requests come from; sampling |
//! | `request`, `random` | one request; numbers from a seed |
//! | `policy/` | who is kept and who goes |
//! | `cell`, `grid` | one policy at one size; all of them |
//! | `exact` | made traces and an exact LRU, for comparisons with real servers |
//! | `topology/` | Larders, a fleet of servers, an origin |
//! | `show`, `html` | text and JSON; a page with plots |

mod args;
mod cell;
pub(crate) mod exact;
mod grid;
mod html;
mod policy;
mod random;
mod request;
mod scenario;
mod show;
mod topology;
mod trace;

use std::{io::Write, process::ExitCode};

use self::args::Asked;
pub(crate) use self::args::SimulateArgs;

/// Runs it: 0 when it was shown, 2 when what is asked for makes no sense.
pub(crate) fn run(args: &SimulateArgs) -> ExitCode {
    match args.asked().and_then(|asked| asked.done()) {
        Ok(text) => {
            // A reader that has seen enough is no error.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => crate::exit::usage("lab simulate", &message),
    }
}

impl Asked {
    /// Simulates and writes what was asked for; the text for the terminal.
    fn done(&self) -> Result<String, String> {
        let trace = trace::read(&self.spec, &self.gather)?;
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
    std::fs::write(path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
