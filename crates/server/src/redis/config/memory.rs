//! `maxmemory` and `maxmemory-policy`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_proto::resp::number::parse_bytes;
use parking_lot::Mutex;

use super::kept::Check;
use crate::redis::{refusals, shared::Shared};

/// The names of Redis's policies.
const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    NONE,
];
const NONE: &str = "noeviction";
const POLICY: &str = "maxmemory-policy";

/// `maxmemory`, and the thread that brings the memory down to it.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimit {
    /// 0: the memory of the start.
    bytes: AtomicU64,
    resizing: Mutex<Resizing>,
}

/// The state of that thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Resizing {
    #[default]
    No,
    Yes,
    /// The limit has changed meanwhile.
    Again,
}

impl MemoryLimit {
    /// In bytes, if it was set to less than the memory of the start; else 0.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The limit has changed. False: a thread is at work, and goes on with the new one.
    fn begins(&self) -> bool {
        let mut resizing = self.resizing.lock();
        let is_first = *resizing == Resizing::No;
        *resizing = if is_first { Resizing::Yes } else { Resizing::Again };
        is_first
    }

    /// The thread has done its work. False: the limit has changed meanwhile.
    fn ends(&self) -> bool {
        let mut resizing = self.resizing.lock();
        let is_over = *resizing == Resizing::Yes;
        *resizing = if is_over { Resizing::No } else { Resizing::Yes };
        is_over
    }
}

/// The limit that was set, or the budget of the start.
pub(crate) fn shown(shared: &Shared) -> String {
    limit(shared).to_string()
}

/// As `shown`, in bytes.
pub(crate) fn limit(shared: &Shared) -> u64 {
    match shared.config.memory_limit.bytes() {
        0 => shared.store.totals().budget,
        limit => limit,
    }
}

/// Sets the limit, up to the budget of the start; 0 is the whole of it.
pub(super) fn set(shared: &Shared, value: &[u8]) -> Result<(), String> {
    let bytes = parse_bytes(value).ok_or("argument must be a memory value")?;
    if bytes > shared.budget {
        return Err(format!(
            "memory is reserved at the start: the limit can be {} bytes at most",
            shared.budget
        ));
    }
    let limit = if bytes == shared.budget { 0 } else { bytes };
    if shared.config.memory_limit.bytes.swap(limit, Relaxed) != limit {
        resize(shared);
    }
    refusals::settle(shared);
    Ok(())
}

/// Evicts what is above the limit, if entries are evicted: in a thread of its own, since that may
/// be all of the memory. There is one such thread at the most, however often the limit changes.
fn resize(shared: &Shared) {
    let limit = Arc::clone(&shared.config.memory_limit);
    if shared.settings.no_evictions || !limit.begins() {
        return;
    }
    let (store, most, clock) = (shared.store, shared.budget, shared.clock);
    let work = move || loop {
        let bytes = match limit.bytes() {
            0 => most,
            limit => limit,
        };
        // The rest goes with the next writes.
        let _ = store.set_budget(bytes, clock.now());
        if limit.ends() {
            break;
        }
    };
    let thread = std::thread::Builder::new().name("larder-limit".to_owned());
    if thread.spawn(work).is_err() {
        *shared.config.memory_limit.resizing.lock() = Resizing::No;
    }
}

/// `maxmemory-clients`: the memory of clients is fixed at the start; Redis would call it 0.
pub(super) fn set_clients(_: &Shared, value: &[u8]) -> Result<(), String> {
    let share = value.strip_suffix(b"%").and_then(|digits| std::str::from_utf8(digits).ok());
    if let Some(share) = share.and_then(|digits| digits.parse::<u64>().ok()) {
        if share > 100 {
            return Err("percentage argument must be less or equal to 100".to_owned());
        }
    } else if parse_bytes(value).is_none() {
        return Err("argument must be a memory or percent value".to_owned());
    }
    let is_same = matches!(value, b"0" | b"0%");
    is_same.then_some(()).ok_or_else(|| "can't set immutable config".to_owned())
}

/// The name that was set, or the nearest one for the policy: it evicts by frequency and recency of
/// reads.
pub(crate) fn policy(shared: &Shared) -> String {
    let usual = || if shared.settings.no_evictions { NONE } else { "allkeys-lfu" }.to_owned();
    shared.config.kept.get(POLICY).unwrap_or_else(usual)
}

/// Whether entries are evicted is fixed at the start; all names of policies that evict mean the
/// same.
pub(super) fn set_policy(shared: &Shared, value: &[u8]) -> Result<(), String> {
    let evicts = !value.eq_ignore_ascii_case(NONE.as_bytes());
    let is_known = POLICIES.iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes()));
    if is_known && evicts == shared.settings.no_evictions {
        return Err("whether entries are evicted is fixed at the start".to_owned());
    }
    shared.config.kept.set(POLICY, Check::OneOf(POLICIES), value)
}
