//! The disk tier.

use std::{path::PathBuf, time::Duration};

/// The disk tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSettings {
    /// Its directory.
    pub path: PathBuf,
    /// Bytes of all its files.
    pub size: u64,
    /// Time of a read after which the origin is asked instead.
    pub patience: Duration,
    /// Bytes written per second; 0: no limit.
    pub write_limit: u64,
}

/// Use of the disk for a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskUse {
    /// If it is asked for more than once and leaves memory.
    #[default]
    Auto,
    /// As soon as it is stored.
    Always,
    /// Not at all.
    Never,
}
