//! `larder bench`, `slow` and `lab` are commands of a second program, `larder-lab`, which takes the
//! place of this process.
//!
//! The server does not link the load generator, the slow proxy and the experiments: their code
//! would lie between the code of a hit (docs/decisions/0006-lab.md).

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::exit;

/// File name of the second program.
const PROGRAM: &str = "larder-lab";
/// Its commands.
const COMMANDS: [&str; 3] = ["bench", "slow", "lab"];

/// Whether these arguments of the command line, without the program's name, are for the second
/// program: one of its commands, or a request for help with one.
pub(crate) fn takes(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let first = arguments.next();
    let command = if first.as_deref() == Some("help".as_ref()) { arguments.next() } else { first };
    command.is_some_and(|command| COMMANDS.iter().any(|known| command == *known))
}

/// Replaces this process by the second program, with the same arguments. Returns only if it cannot
/// be started.
pub(crate) fn run() -> ExitCode {
    let program = beside().unwrap_or_else(|| PathBuf::from(PROGRAM));
    // Its usage lines name the command that was typed.
    let error = Command::new(&program).arg0("larder").args(env::args_os().skip(1)).exec();
    if error.kind() == io::ErrorKind::NotFound {
        eprintln!(
            "larder: bench, slow and lab are commands of the program {PROGRAM}, which is neither \
             beside larder nor on the PATH; `cargo install --path crates/lab` installs it"
        );
    } else {
        eprintln!("larder: {}: {error}", program.display());
    }
    ExitCode::from(exit::UNREACHABLE)
}

/// The second program in the directory of this one.
fn beside() -> Option<PathBuf> {
    let path = env::current_exe().ok()?.with_file_name(PROGRAM);
    path.is_file().then_some(path)
}
