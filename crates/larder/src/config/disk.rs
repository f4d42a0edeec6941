//! From typed values to settings: `[disk]`.

use std::path::Path;

use larder_server::settings::{DiskSettings, DiskUse};

use super::{build::file, directory, problem::Report, reader::Values};

/// The disk tier; None: the file has no such table, or has a mistake in it, which is in the report.
pub(super) fn disk(root: &Values, relative_to: &Path, report: &mut Report) -> Option<DiskSettings> {
    if !root.is_set("disk") {
        return None;
    }
    let values = root.table("disk");
    let path = file(&values, "path", relative_to)?;
    directory::look(&values, "path", &path, directory::Need::Useful, report);
    Some(DiskSettings {
        path,
        size: values.get("size")?,
        patience: values.get("patience")?,
        write_limit: values.get("write_limit")?,
    })
}

/// The use of the disk by its name in a file.
pub(super) fn disk_use(word: &str) -> DiskUse {
    match word {
        "always" => DiskUse::Always,
        "never" => DiskUse::Never,
        _ => DiskUse::Auto,
    }
}
