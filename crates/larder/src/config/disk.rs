//! From typed values to settings: `[disk]`.

use std::path::Path;

use larder_server::settings::{DiskSettings, DiskUse};

use super::{
    build::file,
    directory,
    problem::{Location, Problem, Report},
    reader::Values,
};

/// The disk tier; None: the file has no such table, or has a mistake in it, which is in the report.
pub(super) fn disk(root: &Values, relative_to: &Path, report: &mut Report) -> Option<DiskSettings> {
    if !root.is_set("disk") {
        return None;
    }
    let values = root.table("disk");
    half(&values, report);
    let path = file(&values, "path", relative_to)?;
    directory::look(&values, "path", &path, directory::Need::Useful, report);
    Some(DiskSettings {
        path,
        size: values.get("size")?,
        patience: values.get("patience")?,
        write_limit: values.get("write_limit")?,
    })
}

/// Reports one of the two flags without the other. The reader reports the keys that a file lacks.
fn half(values: &Values, report: &mut Report) {
    if values.location != Location::Whole {
        return;
    }
    for (missing, other, flag) in
        [("path", "size", "--disk DIR"), ("size", "path", "--disk-size SIZE")]
    {
        if !values.is_set(missing) {
            let message = format!("a disk has a directory and a size: `{flag}` is missing");
            let fix = "for example --disk /var/cache/larder --disk-size 20GiB";
            report.error(Problem::new(values.location(other), message).fix(fix));
        }
    }
}

/// The use of the disk by its name in a file.
pub(super) fn disk_use(word: &str) -> DiskUse {
    match word {
        "always" => DiskUse::Always,
        "never" => DiskUse::Never,
        _ => DiskUse::Auto,
    }
}
