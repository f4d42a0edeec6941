//! The slow log: the last commands that took longer than `slowlog-log-slower-than`, in a bounded
//! ring per process.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_proto::resp::Args;
use parking_lot::Mutex;

use crate::clock::Ms;

use super::{config::Config, conn::client::address, state::Conn};

/// Arguments kept per command, and bytes kept per argument (Redis: SLOWLOG_ENTRY_MAX_ARGC,
/// _MAX_STRING).
const ARGS: usize = 32;
const ARG: usize = 128;

/// A slow command.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    pub(crate) id: u64,
    pub(crate) at: Ms,
    pub(crate) micros: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) name: Vec<u8>,
}

/// The ring of entries. One per process.
#[derive(Default)]
pub(crate) struct Slowlog {
    ring: Mutex<VecDeque<Slow>>,
    next: AtomicU64,
}

impl Slowlog {
    /// The entry of a command, not added yet. None: the log keeps nothing.
    pub(crate) fn entry(
        &self,
        config: &Config,
        conn: &Conn,
        args: &Args<'_>,
        (at, micros): (Ms, u64),
    ) -> Option<Slow> {
        let keeps = config.slowlog_len.load(Relaxed) > 0;
        keeps.then(|| Slow {
            id: 0,
            at,
            micros,
            args: shortened(args),
            address: address(&conn.known.client),
            name: conn.known.text.lock().name.clone(),
        })
    }

    /// Adds an entry; drops the oldest if there are too many.
    pub(crate) fn note(&self, config: &Config, entry: Slow) {
        let most = config.slowlog_len.load(Relaxed) as usize;
        let mut ring = self.ring.lock();
        ring.push_front(Slow { id: self.next.fetch_add(1, Relaxed), ..entry });
        ring.truncate(most);
    }

    /// The latest entries, newest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<Slow> {
        self.ring.lock().iter().take(count).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.lock().len()
    }

    pub(crate) fn reset(&self) {
        self.ring.lock().clear();
    }
}

pub(super) fn shortened(args: &Args<'_>) -> Vec<Vec<u8>> {
    let shown = if args.len() > ARGS { ARGS - 1 } else { args.len() };
    let mut kept: Vec<Vec<u8>> = (0..shown)
        .map(|at| {
            let arg = args.get(at);
            if super::monitor::is_secret(args, at) {
                b"(redacted)".to_vec()
            } else if arg.len() > ARG {
                let more = format!("... ({} more bytes)", arg.len() - ARG);
                [&arg[..ARG], more.as_bytes()].concat()
            } else {
                arg.to_vec()
            }
        })
        .collect();
    if args.len() > ARGS {
        kept.push(format!("... ({} more arguments)", args.len() - ARGS + 1).into_bytes());
    }
    kept
}
