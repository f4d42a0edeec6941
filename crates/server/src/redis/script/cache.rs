//! The texts of scripts by their SHA-1, for EVALSHA.
//!
//! Redis keeps all of them until SCRIPT FLUSH. Here the oldest are forgotten when there are too
//! many; clients that get NOSCRIPT send the text again.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use parking_lot::{Mutex, RwLock};

use crate::room::{Holding, Room};

use super::running::Running;

/// Maximum of scripts.
const SCRIPTS: usize = 10_000;
/// Maximum of their texts in bytes.
const BYTES: usize = 16 << 20;
/// Bytes of a script beside its text.
const ENTRY: usize = 200;

/// A script that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// SHA-1 of its text in hexadecimal digits.
    pub(crate) name: Arc<str>,
    pub(crate) text: Arc<[u8]>,
    /// Its flags, if its first line has any: bits in the order of
    /// [`FLAGS`](larder_script::FLAGS).
    pub(crate) flags: Option<u8>,
}

#[derive(Default)]
struct Texts {
    scripts: HashMap<Arc<str>, Script>,
    /// Oldest first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
    held: Option<Holding>,
}

/// Scripts of all connections. One per process.
#[derive(Default)]
pub(crate) struct Scripts {
    texts: RwLock<Texts>,
    pub(super) running: Mutex<Vec<Arc<Running>>>,
    /// A script waits for a key that it has not declared: see `calls.rs`.
    pub(super) waits: Mutex<Option<u64>>,
    /// The process ends: so do scripts that run for long.
    pub(super) stopping: AtomicBool,
}

impl Scripts {
    /// Scripts that run for long end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// The script with this SHA-1, whose digits may be in any case.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Script> {
        let name = std::str::from_utf8(name).ok().filter(|name| name.len() == 40)?;
        let texts = self.texts.read();
        if let Some(script) = texts.scripts.get(name) {
            return Some(script.clone());
        }
        texts.scripts.get(name.to_ascii_lowercase().as_str()).cloned()
    }

    /// Keeps a script.
    pub(crate) fn add(&self, room: &Arc<Room>, script: &Script) {
        let texts = &mut *self.texts.write();
        if texts.scripts.contains_key(&script.name) {
            return;
        }
        texts.bytes += script.text.len() + ENTRY;
        texts.order.push_back(script.name.clone());
        texts.scripts.insert(script.name.clone(), script.clone());
        while texts.order.len() > 1
            && (texts.order.len() > SCRIPTS || texts.bytes > BYTES || !texts.is_charged(room))
        {
            texts.forget_one();
        }
    }

    /// SCRIPT FLUSH.
    pub(crate) fn flush(&self) {
        *self.texts.write() = Texts::default();
    }

    /// Number of scripts, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let texts = self.texts.read();
        (texts.scripts.len(), texts.bytes)
    }
}

impl Texts {
    fn is_charged(&mut self, room: &Arc<Room>) -> bool {
        self.held.get_or_insert_with(|| Holding::new(room)).resize(self.bytes as u64)
    }

    fn forget_one(&mut self) {
        if let Some(script) = self.order.pop_front().and_then(|name| self.scripts.remove(&name)) {
            self.bytes -= script.text.len() + ENTRY;
        }
    }
}
