//! Causes of misses, and the settings that mend them.

use serde::{Deserialize, Serialize};

/// One cause of misses of one site, of the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Advice {
    /// The site.
    pub site: String,
    /// `no-freshness`, `cookie`, `bypass-cookie`, `set-cookie`, `private`, `no-store`, `vary` or
    /// `query`.
    pub reason: String,
    /// Requests with this cause.
    pub requests: u64,
    /// Requests of the site that memory did not answer.
    pub of: u64,
    /// The observation, and the remedy.
    pub text: String,
    /// The setting to copy into the `[[site]]`; empty: it is the site that has to change.
    pub setting: String,
    /// Some of the URLs.
    pub urls: Vec<String>,
}
