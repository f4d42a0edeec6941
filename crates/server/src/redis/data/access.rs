//! Access of the commands to the store.

use larder_proto::resp::{collection::Kind, hash};
use larder_store::{Entry, Hint, If, Put, PutError};

use super::super::ctx::Ctx;
use super::errors::{Outcome, Refused, WRONG_TYPE, refused};
use crate::clock::Ms;

/// Attempts of a command whose writes lose to others. Practically never exhausted; then it answers
/// the out-of-memory error.
const ATTEMPTS: usize = 1000;

/// Returns whether the entry holds a hash, small or large.
#[inline]
pub(super) fn is_hash(entry: &Entry<'_>) -> bool {
    is_record(entry) || Kind::of(entry.flags()) == Some(Kind::Hash)
}

/// Returns whether the entry holds a small hash in one record.
#[inline]
pub(super) fn is_record(entry: &Entry<'_>) -> bool {
    hash::is_hash(entry.flags())
}

/// Redis's name of the type of an entry with these flags.
pub(super) fn type_name(flags: u32) -> &'static str {
    match Kind::of(flags) {
        Some(kind) => kind.name(),
        None if hash::is_hash(flags) => "hash",
        None => "string",
    }
}

/// Returns whether the entry holds a string.
#[inline]
pub(super) fn is_string(entry: &Entry<'_>) -> bool {
    !is_record(entry) && Kind::of(entry.flags()).is_none()
}

impl Ctx<'_> {
    /// Looks an entry up for reading: counts it and marks it as read.
    #[inline]
    pub(super) fn read(&mut self, key: &[u8]) -> Option<Entry<'static>> {
        let hint = self.store.hint(self.ns, key);
        self.read_hinted(key, hint)
    }

    /// As `read`, with the key's hint.
    #[inline]
    pub(super) fn read_hinted(&mut self, key: &[u8], hint: Hint) -> Option<Entry<'static>> {
        let hot = &self.face.counters.hot;
        if let Some(weight) = hot.due(self.now) {
            hot.sample(key, weight);
        }
        let entry = self.store.get_hinted(hint, self.ns, key, self.now);
        if entry.is_none() {
            self.missed(key);
        }
        entry
    }

    /// Looks a string up for reading.
    #[inline]
    pub(super) fn read_string(&mut self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        string(self.read(key))
    }

    /// Looks an entry up for writing.
    pub(in super::super) fn look(&self, key: &[u8]) -> Option<Entry<'static>> {
        self.store.peek(self.ns, key, self.now)
    }

    /// Looks a string up for writing.
    pub(super) fn look_string(&self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        string(self.look(key))
    }

    /// Stores a string unconditionally.
    pub(super) fn store_string(&self, key: &[u8], value: &[&[u8]], expires: Option<Ms>) -> Outcome {
        let put = Put { value, expires, ..Put::default() };
        match self.store.put(self.ns, key, put, If::Always, self.now) {
            Ok(_) => Ok(()),
            Err(error) => Err(refused(error, key)),
        }
    }

    /// Replaces the value that was found and returns the new version. None: the entry has changed;
    /// look it up again.
    pub(super) fn replace(
        &self,
        key: &[u8],
        old: Option<&Entry<'static>>,
        put: Put<'_>,
    ) -> Outcome<Option<u64>> {
        let condition = old.map_or(If::Absent, If::Same);
        match self.store.put(self.ns, key, put, condition, self.now) {
            Ok(version) => Ok(Some(version)),
            Err(PutError::Exists | PutError::NotFound) => Ok(None),
            Err(error) => Err(refused(error, key)),
        }
    }

    /// Calls `step` until it succeeds (`Ok(None)`: another write came first).
    pub(super) fn retry<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Outcome<Option<T>>,
    ) -> Outcome<T> {
        for _ in 0..ATTEMPTS {
            match step(self) {
                Ok(Some(done)) => return Ok(done),
                Ok(None) | Err(Refused::Lost) => {}
                Err(error) => return Err(error),
            }
        }
        Err(refused(PutError::Full, b""))
    }
}

/// The entry, if it is a string.
#[inline]
pub(super) fn string(entry: Option<Entry<'static>>) -> Outcome<Option<Entry<'static>>> {
    match entry {
        Some(entry) if !is_string(&entry) => Err(WRONG_TYPE.into()),
        other => Ok(other),
    }
}
