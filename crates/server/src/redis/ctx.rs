//! The context of a command.

use larder_proto::resp::{Reply, Version};
use larder_store::{Entry, Namespace, Store};

use crate::{clock::Ms, net::out::Out};

use super::{
    attention, notify,
    shared::{Face, Shared},
    state::{Conn, gate},
    tracking::Forget,
    untold::Untold,
};

/// The context of a command beside its arguments.
pub(crate) struct Ctx<'a> {
    pub(crate) store: &'static Store,
    /// The selected database's namespace.
    pub(crate) ns: Namespace,
    /// The selected database's number.
    pub(crate) db: u8,
    /// The time, read once per batch.
    pub(crate) now: Ms,
    /// Destination of the answer.
    pub(crate) out: &'a mut Out,
    /// The connection's RESP version.
    pub(crate) version: Version,
    pub(crate) shared: &'a Shared,
    pub(crate) face: &'a Face,
    pub(crate) conn: &'a mut Conn,
}

/// Class of a change by a write (Redis: the classes of `notify-keyspace-events`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `g`: del, expire, rename.
    Generic,
    /// `$`
    String,
    /// `h`
    Hash,
    /// `l`
    List,
    /// `s`
    Set,
    /// `z`
    SortedSet,
    /// `t`
    Stream,
    /// `x`
    Expired,
    /// `e`
    Evicted,
    /// `m`
    Missed,
}

/// Maximum of one client's composed answers, as a fraction (1/n) of the clients' memory.
const ANSWER: u64 = 4;

/// Observers of all writes.
const OF_WRITES: u32 =
    attention::TRACKING | attention::EVENTS | attention::WATCHES | attention::READERS;

impl<'a> Ctx<'a> {
    pub(crate) fn new(face: &'a Face, conn: &'a mut Conn, now: Ms, out: &'a mut Out) -> Ctx<'a> {
        let shared = &*face.shared;
        let (store, ns, db, version) = (shared.store, conn.ns, conn.db, conn.version);
        Ctx { store, ns, db, now, version, out, shared, face, conn }
    }
}

impl Ctx<'_> {
    /// The writer that appends to the answer.
    #[inline]
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out.scratch(), self.version)
    }

    /// Returns whether the answer exceeds the memory that one client may use (Redis: a client over
    /// its output buffer limit), or the client was closed meanwhile. The connection ends then.
    pub(crate) fn overflows(&mut self) -> bool {
        let is_long = self.is_too_long(self.out);
        if self.conn.in_script {
            // The script gets an error, and goes on whatever becomes of its client.
            return is_long;
        }
        let over = is_long || self.conn.known.client.is_killed();
        self.conn.closing |= over;
        over
    }

    /// Returns whether an answer exceeds the memory that one client may use.
    pub(crate) fn is_too_long(&self, out: &Out) -> bool {
        out.capacity() > self.face.room / ANSWER
    }

    /// Has tracking remember the keys that a command with many keys reads next.
    pub(crate) fn remember<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        if self.conn.gates & gate::TRACKING != 0 && self.conn.remembers {
            let (shared, id) = (self.shared, self.conn.known.id());
            for key in keys {
                shared.tracking.remember(shared, key, id).for_each(|gone| self.face.tell(gone));
            }
        }
    }

    /// Composes the client's waiting messages, unless they must follow the whole current command:
    /// in a transaction, and while answers are dropped.
    pub(crate) fn take_messages(&mut self) {
        if self.conn.gates & gate::MUTED == 0 && !self.conn.in_exec {
            self.conn.take_messages(self.out.scratch());
        }
    }

    /// Answers a stored value as a string; a large one is sent from the store.
    #[inline]
    pub(crate) fn whole(&mut self, entry: Entry<'static>) {
        self.reply().bulk_head(entry.len() as usize);
        self.out.whole(entry, b"\r\n");
    }

    /// Answers bytes `from..to` of a stored value as a string; large ones are sent from the store.
    pub(crate) fn stored(&mut self, entry: Entry<'static>, from: u64, to: u64) {
        let to = to.min(entry.len());
        self.reply().bulk_head(to.saturating_sub(from) as usize);
        self.out.stored(entry, from, to);
        self.reply().bulk_end();
    }

    /// Reports a written key to its observers. `event` in Redis's words (`set`, `del`, `hset`,
    /// ...).
    #[inline]
    pub(crate) fn modified(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if attention::any(self.shared, OF_WRITES) {
            self.tell(class, event, self.db, key);
        }
    }

    /// As `modified`, for a key of another database (COPY, MOVE).
    pub(crate) fn modified_in(&mut self, db: u8, class: Class, event: &'static str, key: &[u8]) {
        if attention::any(self.shared, OF_WRITES) {
            self.tell(class, event, db, key);
        }
    }

    /// Reports a further event on a key after [`Ctx::modified`] (`expire` after `set`).
    #[inline]
    pub(crate) fn event(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if attention::any(self.shared, attention::EVENTS) {
            notify::event(self.shared, class, event, self.db, key)
                .for_each(|untold| self.face.tell(untold));
        }
    }

    /// Reports a read that did not find its key.
    #[inline]
    pub(crate) fn missed(&mut self, key: &[u8]) {
        self.event(Class::Missed, "keymiss", key);
    }

    /// Reports a value whose bytes changed, and not its meaning, to those who keep it.
    pub(crate) fn invalidated(&mut self, key: &[u8]) {
        if attention::any(self.shared, attention::TRACKING) {
            let (writer, gathered) = (self.conn.known.id(), &self.face.gathered);
            if let Some(untold) = self.shared.tracking.changed(key, writer, gathered) {
                self.face.tell(untold);
            }
            if gathered.is_much() {
                self.face.tell_gathered(writer);
            }
        }
    }

    /// Reports the removal of all keys of databases (FLUSHDB, FLUSHALL, SWAPDB).
    pub(crate) fn flushed(&mut self) {
        if attention::any(self.shared, attention::TRACKING) {
            self.face.tell(Untold::Forget(Forget::default()));
        }
    }

    #[cold]
    fn tell(&mut self, class: Class, event: &'static str, db: u8, key: &[u8]) {
        let start = self.face.clock.micros();
        if attention::any(self.shared, attention::WATCHES) {
            self.shared.watched.wrote(self.shared.namespace(db), key);
        }
        if attention::any(self.shared, attention::READERS) {
            // It may have been deleted or replaced.
            self.face.signal(self.shared.namespace(db), key);
        }
        self.invalidated(key);
        if attention::any(self.shared, attention::EVENTS) {
            notify::event(self.shared, class, event, db, key)
                .for_each(|untold| self.face.tell(untold));
        }
        // Thousands of clients may be told.
        self.face.turn_time.took(self.face.clock.micros().saturating_sub(start));
    }
}
