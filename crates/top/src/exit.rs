//! Exit codes, as of the whole program.

use std::process::ExitCode;

/// `top --once`: some servers are down.
pub(crate) const SOME_DOWN: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The server refused.
pub(crate) const REFUSED: u8 = 3;
/// The server cannot be reached, or is no Larder; of several: none.
pub(crate) const UNREACHABLE: u8 = 4;

/// Says what is wrong with the command line.
pub(crate) fn usage(command: &str, message: &str) -> ExitCode {
    eprintln!("larder {command}: {message}");
    ExitCode::from(USAGE)
}
