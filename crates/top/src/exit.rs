//! Exit codes, the same for all commands of `larder`.

use std::process::ExitCode;

/// `top --once`: some servers are down.
pub(crate) const SOME_DOWN: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The server refused the request.
pub(crate) const REFUSED: u8 = 3;
/// The server cannot be reached or is not a Larder; with several servers: all of them.
pub(crate) const UNREACHABLE: u8 = 4;

/// Reports an error in the command line.
pub(crate) fn usage(command: &str, message: &str) -> ExitCode {
    eprintln!("larder {command}: {message}");
    ExitCode::from(USAGE)
}
