//! Directories that a running Larder writes to: whether they can be used, without making them.

use std::path::Path;

use rustix::fs::{Access, access};

use super::problem::{Problem, Report};
use super::reader::Values;

/// A directory without which Larder does not start, or starts without what is kept there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Needed,
    Useful,
}

/// Reports a directory that cannot be made or written to. A file in its place is an error if it is
/// needed, else a warning. A directory that this user may not write to is a warning: the one who
/// runs Larder may.
pub(super) fn look(values: &Values, option: &str, path: &Path, need: Need, report: &mut Report) {
    // The first one that is there: those behind it are made.
    let Some(there) = path.ancestors().find(|path| path.symlink_metadata().is_ok()) else { return };
    let problem = |fault: String| Problem::new(values.location(option), fault);
    let shown = there.display();
    if !there.is_dir() {
        let fix = "name a directory: it is made if it is missing";
        let problem = problem(format!("{shown} is not a directory")).fix(fix);
        return match need {
            Need::Needed => report.error(problem),
            Need::Useful => report.warn(problem),
        };
    }
    if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        let fault = format!("cannot write to {shown}: {}", std::io::Error::from(error));
        report.warn(problem(fault).fix("give it to the user who runs Larder"));
    }
}
