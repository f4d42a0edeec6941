//! The settings of an upgrade: another process takes over from this one.

use std::time::Duration;

/// How another process takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpgradeSettings {
    /// A new process that is not ready by then is ended.
    pub timeout: Duration,
    /// The memory can be handed over. Else the new process begins with what the disk has.
    pub memory: bool,
}

impl Default for UpgradeSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), memory: true }
    }
}
