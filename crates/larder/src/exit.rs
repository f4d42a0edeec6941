//! Exit codes.

use std::process::ExitCode;

/// Done.
pub(crate) const DONE: ExitCode = ExitCode::SUCCESS;
/// `purge`: there was nothing to purge. `serve`, `demo`: could not start, for a reason outside the
/// configuration.
pub(crate) const NOTHING: u8 = 1;
/// The command line or the configuration is wrong; nothing was started.
pub(crate) const USAGE: u8 = 2;
/// `purge`: the server refused.
pub(crate) const REFUSED: u8 = 3;
/// `purge`: the server cannot be reached, or another program answers. `bench`, `slow`, `lab`: the
/// program `larder-lab` is missing.
pub(crate) const UNREACHABLE: u8 = 4;

/// Ends the program if something could not be printed, unless nobody reads it any more, as behind
/// `| head`: that says nothing of what the program does.
pub(crate) fn printed(result: std::io::Result<()>) {
    if let Err(error) = result
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        eprintln!("larder: standard output: {error}");
        std::process::exit(1);
    }
}
