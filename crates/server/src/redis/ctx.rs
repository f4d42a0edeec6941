//! What a command is given.

use larder_proto::resp::{Reply, Version};
use larder_store::{Entry, Namespace, Store};

use crate::{clock::Ms, net::out::Out};

use super::shared::Shared;

/// What a command is given beside its arguments.
pub(crate) struct Ctx<'a> {
    pub(crate) store: &'static Store,
    /// The chosen database.
    pub(crate) ns: Namespace,
    /// Its number.
    pub(crate) db: u8,
    /// Read once per batch.
    pub(crate) now: Ms,
    /// Where the answer goes.
    pub(crate) out: &'a mut Out,
    /// The connection's RESP.
    pub(crate) version: Version,
    pub(crate) shared: &'a Shared,
}

/// What kind of change a write was (Redis: the classes of `notify-keyspace-events`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `g`: del, expire, rename.
    Generic,
    /// `$`
    String,
    /// `h`
    Hash,
    /// `x`
    Expired,
    /// `e`
    Evicted,
    /// `m`
    Missed,
}

impl Ctx<'_> {
    /// The answer, to be appended to.
    #[inline]
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out.scratch(), self.version)
    }

    /// Answers bytes `from..to` of a stored value as a string; large ones stay where they are.
    pub(crate) fn stored(&mut self, entry: Entry<'static>, from: u64, to: u64) {
        let to = to.min(entry.len());
        self.reply().bulk_head(to.saturating_sub(from) as usize);
        self.out.stored(entry, from, to);
        self.reply().bulk_end();
    }

    /// A key was written: those who follow it are told. `event` in Redis's words (`set`, `del`, `hset`, ...).
    pub(crate) fn modified(&mut self, _class: Class, _event: &'static str, _key: &[u8]) {}

    /// A read did not find its key.
    pub(crate) fn missed(&mut self, _key: &[u8]) {}
}
