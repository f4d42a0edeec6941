//! The access log.

use std::path::PathBuf;

/// The access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// A file, appended to and reopened on SIGHUP; `-` is standard output.
    pub path: PathBuf,
    /// The format of a line.
    pub format: LogFormat,
}

/// The format of a line of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Squid's native format.
    #[default]
    Squid,
    /// Apache's combined format.
    Combined,
    /// One JSON object per line.
    Json,
}
