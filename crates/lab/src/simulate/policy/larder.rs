//! Larder's own store with a budget of the simulated size, swept every 100 ms of trace time as in
//! the server. All its memory is within the budget, so of the policies here only this one (and the
//! models of memcached and Redis) pays for its bookkeeping.

use larder_store::{Namespace, OpenError, Options, Put, Store};

use super::Policy;
use crate::simulate::request::Request;

/// Namespace of memcached's items.
const OBJECTS: Namespace = Namespace(1);
/// The server's limit for values.
const MAX_VALUE: u64 = 1 << 30;
/// Milliseconds between two sweeps, and bytes examined in each, as in the server.
const SWEEP: (u64, usize) = (100, 16 << 20);
/// Length of a key; a smaller object has an empty value.
const KEY: usize = 16;
/// The store's clock must not start at 0.
const BEGIN: u64 = 1000;

/// Source of values' bytes.
static BLOCK: [u8; 1 << 16] = [b'x'; 1 << 16];

#[derive(Debug)]
pub(super) struct Larder {
    store: Store,
    swept: u64,
}

impl Larder {
    pub(super) fn new(budget: u64, seed: u64) -> Result<Larder, OpenError> {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        let options =
            Options { budget, max_value: MAX_VALUE, seed, threads: 1, ..Options::default() };
        Ok(Larder { store: Store::open(options)?, swept: 0 })
    }

    fn now(&mut self, request: &Request) -> u64 {
        if request.at >= self.swept + SWEEP.0 {
            self.swept = request.at;
            self.store.sweep(request.at + BEGIN, SWEEP.1);
        }
        request.at + BEGIN
    }
}

/// Keys differ in their last bytes, as is common.
fn key(id: u32) -> [u8; KEY] {
    let mut key = *b"k000000000000000";
    let hex = b"0123456789abcdef";
    (0..8).for_each(|at| key[8 + at] = hex[(id >> (28 - 4 * at)) as usize & 15]);
    key
}

impl Policy for Larder {
    fn get(&mut self, request: &Request) -> bool {
        let now = self.now(request);
        self.store.get(OBJECTS, &key(request.id), now).is_some()
    }

    fn set(&mut self, request: &Request) {
        let now = self.now(request);
        let mut left = (request.size as usize).saturating_sub(KEY);
        let expires = Some(request.expires()).filter(|at| *at != u64::MAX).map(|at| at + BEGIN);
        let put = |value: &[&[u8]]| {
            // A value that does not fit is not stored: the next read is a miss.
            let put = Put { value, expires, ..Put::default() };
            let _ = self.store.set(OBJECTS, &key(request.id), put, now);
        };
        if left <= BLOCK.len() {
            return put(&[&BLOCK[..left]]);
        }
        let mut parts = Vec::with_capacity(left / BLOCK.len() + 1);
        while left > 0 {
            let part = left.min(BLOCK.len());
            parts.push(&BLOCK[..part]);
            left -= part;
        }
        put(&parts);
    }

    fn remove(&mut self, id: u32) {
        self.store.delete(OBJECTS, &key(id), self.swept + BEGIN);
    }

    fn used(&self) -> u64 {
        self.store.stats(OBJECTS).bytes
    }

    fn items(&self) -> u64 {
        self.store.stats(OBJECTS).items
    }

    fn expires_by_itself(&self) -> bool {
        true
    }
}
