//! Exit codes, the same for all commands of `larder`.

use std::process::ExitCode;

/// A limit was missed, or answers were wrong.
pub(crate) const MISSED: u8 = 1;
/// The command line is wrong; nothing was started.
pub(crate) const USAGE: u8 = 2;
/// A server cannot be reached, or a needed program is missing.
pub(crate) const UNREACHABLE: u8 = 4;

/// Reports an error in the command line.
pub(crate) fn usage(command: &str, message: &str) -> ExitCode {
    eprintln!("larder {command}: {message}");
    ExitCode::from(USAGE)
}
