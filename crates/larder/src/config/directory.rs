//! Directories that a running Larder writes to: whether they can be used, without making them.

use std::path::Path;

use rustix::fs::{Access, access};

use super::problem::{Problem, Report};
use super::reader::Values;

/// Reports a directory that cannot be made or written to. An error: a file is in its place. A
/// warning: this user may not write there, but the one who runs Larder may.
pub(super) fn look(values: &Values, option: &str, path: &Path, report: &mut Report) {
    // The first one that is there: those behind it are made.
    let Some(there) = path.ancestors().find(|path| path.symlink_metadata().is_ok()) else { return };
    let problem = |fault: String| Problem::new(values.location(option), fault);
    let shown = there.display();
    if !there.is_dir() {
        let fix = "name a directory: it is made if it is missing";
        return report.error(problem(format!("{shown} is not a directory")).fix(fix));
    }
    if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        let fault = format!("cannot write to {shown}: {}", std::io::Error::from(error));
        report.warn(problem(fault).fix("give it to the user who runs Larder"));
    }
}
