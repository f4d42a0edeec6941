//! Exit codes, as of the whole program.

use std::process::ExitCode;

/// A stated limit was missed, or answers were wrong.
pub(crate) const MISSED: u8 = 1;
/// The command line is wrong; nothing was started.
pub(crate) const USAGE: u8 = 2;
/// A server cannot be reached, or a program that is needed is not there.
pub(crate) const UNREACHABLE: u8 = 4;

/// Says what is wrong with the command line.
pub(crate) fn usage(command: &str, message: &str) -> ExitCode {
    eprintln!("larder {command}: {message}");
    ExitCode::from(USAGE)
}
