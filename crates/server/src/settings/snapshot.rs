//! The settings of a snapshot: what memory has, in a file between a stop and the next start.

use std::{path::PathBuf, time::Duration};

/// Where a snapshot is written at a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// The file.
    pub path: PathBuf,
    /// One that is older is not used.
    pub max_age: Duration,
}
