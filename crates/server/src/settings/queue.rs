//! The queue face: Kestrel's queues.

use std::{path::PathBuf, time::Duration};

use larder_queue::Rules;

use super::Listen;

/// When changes of queues are on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSync {
    /// Before they are answered.
    Always,
    /// At most so long after.
    Every(Duration),
    /// When the system writes them.
    Never,
}

/// The queue face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Its addresses.
    pub listen: Vec<Listen>,
    /// The directory of the journals.
    pub path: PathBuf,
    /// When changes are on the device.
    pub sync: QueueSync,
    /// Memory for items, in bytes, beside the store's.
    pub memory: u64,
    /// Length from which on a file of a journal is followed by the next, in bytes.
    pub segment: u64,
    /// Rules of the queues.
    pub rules: Rules,
    /// Client connections at once over all threads.
    pub connections: usize,
    /// Time without a command after which a connection is closed; 0: never.
    pub idle_timeout: Duration,
    /// Time without progress of a begun command after which a client is disconnected.
    pub receive_timeout: Duration,
    /// Time without progress of its answers after which a client is disconnected.
    pub send_timeout: Duration,
    /// Allow `shutdown`.
    pub shutdown: bool,
    /// Connections the kernel keeps waiting per listener.
    pub backlog: i32,
}
