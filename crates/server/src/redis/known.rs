//! The public state of a connection: for CLIENT LIST, for messages to it and for ending it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use larder_proto::resp::Version;
use parking_lot::Mutex;

use super::on_demand::{OnDemand, static_default};
use crate::object::Client;

/// States shown as letters in CLIENT LIST.
pub(crate) mod flag {
    /// `x`: between MULTI and EXEC.
    pub(crate) const MULTI: u32 = 1;
    /// `P`: has subscriptions.
    pub(crate) const SUBSCRIBER: u32 = 1 << 1;
    /// `O`: MONITOR.
    pub(crate) const MONITOR: u32 = 1 << 2;
    /// `t`: CLIENT TRACKING.
    pub(crate) const TRACKING: u32 = 1 << 3;
    /// `B`: CLIENT TRACKING BCAST.
    pub(crate) const BROADCAST: u32 = 1 << 4;
    /// `R`: the connection for redirected invalidations is gone.
    pub(crate) const BROKEN_REDIRECT: u32 = 1 << 5;
    /// `e`: CLIENT NO-EVICT.
    pub(crate) const NO_EVICT: u32 = 1 << 6;
    /// `b`: waits in a blocking command.
    pub(crate) const BLOCKED: u32 = 1 << 8;
    /// CLIENT TRACKING NOLOOP (not shown).
    pub(crate) const NO_LOOP: u32 = 1 << 7;
}

/// A connection as seen by others. Its worker writes, anyone reads.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) client: Arc<Client>,
    pub(crate) db: AtomicU8,
    resp3: AtomicU8,
    flags: AtomicU32,
    pub(crate) channels: AtomicU32,
    pub(crate) patterns: AtomicU32,
    pub(crate) shard_channels: AtomicU32,
    /// Commands queued by MULTI; -1: no transaction.
    pub(crate) queued: AtomicI32,
    /// The last command (its index in the table of counters).
    pub(crate) command: AtomicU16,
    /// Receiver of its invalidations; 0: itself.
    pub(crate) redirect: AtomicU64,
    pub(crate) text: Mutex<OnDemand<Text>>,
}

/// Names that a client has set.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// CLIENT SETNAME.
    pub(crate) name: Vec<u8>,
    /// The authenticated user.
    pub(crate) user: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub(crate) lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub(crate) lib_version: Vec<u8>,
}

impl Text {
    /// Bytes of the names.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.user.len() + self.lib_name.len() + self.lib_version.len()
    }
}

impl Default for Text {
    fn default() -> Self {
        Self {
            name: Vec::new(),
            user: b"default".to_vec(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
        }
    }
}

static_default!(Text);

impl Known {
    pub(crate) fn new(client: Arc<Client>, command: u16) -> Known {
        Known {
            client,
            db: AtomicU8::new(0),
            resp3: AtomicU8::new(0),
            flags: AtomicU32::new(0),
            channels: AtomicU32::new(0),
            patterns: AtomicU32::new(0),
            shard_channels: AtomicU32::new(0),
            queued: AtomicI32::new(-1),
            command: AtomicU16::new(command),
            redirect: AtomicU64::new(0),
            text: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.client.id
    }

    pub(crate) fn version(&self) -> Version {
        if self.resp3.load(Relaxed) == 1 { Version::V3 } else { Version::V2 }
    }

    pub(crate) fn set_version(&self, version: Version) {
        self.resp3.store(u8::from(version == Version::V3), Relaxed);
    }

    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    pub(crate) fn raise(&self, flags: u32) {
        self.flags.fetch_or(flags, Relaxed);
    }

    pub(crate) fn lower(&self, flags: u32) {
        self.flags.fetch_and(!flags, Relaxed);
    }

    /// Sends it a message between its answers. If more than `limit` bytes wait, it is disconnected.
    pub(crate) fn push(&self, bytes: &[u8], limit: usize) {
        if !self.client.push(bytes, limit) {
            self.client.kill();
        }
    }
}

/// All connections of the face.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    all: Mutex<BTreeMap<u64, Arc<Known>>>,
}

impl Registry {
    pub(crate) fn enter(&self, known: Arc<Known>) {
        self.all.lock().insert(known.id(), known);
    }

    pub(crate) fn leave(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Known>> {
        self.all.lock().get(&id).cloned()
    }

    /// The number of connections, and of those that satisfy `f`.
    pub(crate) fn count(&self, f: impl Fn(&Known) -> bool) -> (usize, usize) {
        let all = self.all.lock();
        (all.len(), all.values().filter(|known| f(known)).count())
    }

    /// All connections, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Known>> {
        self.all.lock().values().cloned().collect()
    }
}
