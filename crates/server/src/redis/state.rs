//! What a connection remembers from one command to the next.

use std::{collections::BTreeSet, sync::Arc};

use larder_proto::resp::Version;
use larder_store::{Hint, Namespace};

use crate::{
    clock::Ms,
    object::room::{Held, Place},
};

use super::{
    dispatch::Last,
    job::{Begun, Running},
    known::{Known, flag},
    locks,
    multi::Multi,
    on_demand::{OnDemand, static_default},
    pause,
    shared::Shared,
};

/// What keeps a command from being run at once. All clear: the usual case, told by one comparison.
pub(crate) mod gate {
    /// It must authenticate first.
    pub(crate) const STRANGER: u32 = 1;
    /// Between MULTI and EXEC: commands are queued.
    pub(crate) const MULTI: u32 = 1 << 1;
    /// RESP2 and subscribed: few commands are allowed.
    pub(crate) const SUBSCRIBER: u32 = 1 << 2;
    /// CLIENT REPLY OFF or SKIP: answers are dropped.
    pub(crate) const MUTED: u32 = 1 << 3;
    /// CLIENT TRACKING without BCAST: keys read are remembered.
    pub(crate) const TRACKING: u32 = 1 << 4;
    /// It may be sent messages, its own doing included: they go out before the next answer.
    pub(crate) const HEARS: u32 = 1 << 5;
    /// It sent MONITOR: keys are not for it.
    pub(crate) const MONITOR: u32 = 1 << 6;
}

/// Bytes of a list's entry beside its name.
pub(crate) const ENTRY: usize = 64;
/// What a connection remembers is counted in steps of so many bytes: a small transaction costs no
/// counting.
const STEP: u64 = 1024;

/// What CLIENT REPLY asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Every command is answered.
    #[default]
    On,
    /// None is.
    Off,
    /// The next one is not.
    SkipNext,
    /// This one is not.
    Skip,
    /// They are again, from this command on, which CLIENT REPLY ON is.
    TurnedOn,
    /// The same, by RESET.
    Reset,
}

/// CLIENT TRACKING, as this connection asked for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks {
    pub(crate) on: bool,
    pub(crate) broadcast: bool,
    pub(crate) opt_in: bool,
    pub(crate) opt_out: bool,
    pub(crate) no_loop: bool,
    /// CLIENT CACHING YES or NO, for the next command.
    pub(crate) caching: Option<bool>,
    /// BCAST's prefixes; one empty prefix: all keys.
    pub(crate) prefixes: Vec<Box<[u8]>>,
    /// Bytes of all of them, here and in the table.
    pub(crate) bytes: usize,
}

/// Channels and patterns a connection is subscribed to.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    pub(crate) channels: BTreeSet<Box<[u8]>>,
    pub(crate) patterns: BTreeSet<Box<[u8]>>,
    pub(crate) shards: BTreeSet<Box<[u8]>>,
    /// Bytes of all of them, here and in the hub.
    pub(crate) bytes: usize,
}

static_default!(Tracks);
static_default!(Subscriptions);

/// One connection's state.
pub(crate) struct Conn {
    pub(crate) known: Arc<Known>,
    pub(crate) version: Version,
    pub(crate) db: u8,
    pub(crate) ns: Namespace,
    /// Bits of [`gate`].
    pub(crate) gates: u32,
    /// The connection ends when the answers are sent.
    pub(crate) closing: bool,
    pub(crate) answers: Answers,
    pub(crate) multi: OnDemand<Multi>,
    /// The present command has more to do.
    pub(crate) begun: Option<Box<Begun>>,
    /// A command that goes on in steps: the next one waits for its end.
    pub(crate) running: Option<Box<Running>>,
    /// When the present step has taken its time, microseconds; 0: it has just begun.
    pub(crate) until: u64,
    /// The present command's bytes stay where they are until it has ended.
    pub(crate) stays: bool,
    /// EXEC runs its commands now.
    pub(crate) in_exec: bool,
    /// The present command's place in the order of those that wait for stripes (see
    /// [`locks`](super::locks)); 0: it does not wait.
    pub(crate) ticket: u64,
    pub(crate) tracks: OnDemand<Tracks>,
    pub(crate) subscriptions: OnDemand<Subscriptions>,
    pub(crate) last: Last,
    /// Where the key of the present command lies, if that was looked at ahead.
    pub(crate) hint: Option<Hint>,
    /// Commands run, for sampling their time.
    pub(crate) turns: u32,
    /// Bytes of its transaction, watched keys and subscriptions, where they are many.
    held: Option<Box<Held>>,
}

impl Conn {
    pub(crate) fn new(known: Arc<Known>, shared: &Shared) -> Conn {
        let mut conn = Conn {
            held: None,
            known,
            version: Version::V2,
            db: 0,
            ns: shared.namespace(0),
            gates: 0,
            closing: false,
            answers: Answers::On,
            hint: None,
            multi: OnDemand::default(),
            begun: None,
            running: None,
            until: 0,
            stays: false,
            in_exec: false,
            ticket: 0,
            tracks: OnDemand::default(),
            subscriptions: OnDemand::default(),
            last: Last::default(),
            turns: 0,
        };
        conn.set_gate(gate::STRANGER, shared.config.has_password());
        conn
    }

    /// Counts what it remembers. False: there is no room for it.
    pub(crate) fn hold(&mut self) -> bool {
        let bytes = (self.multi.bytes() + self.subscriptions.bytes + self.tracks.bytes) as u64
            / STEP
            * STEP;
        if bytes == 0 {
            self.held = None;
            return true;
        }
        let new = || Box::new(Held::new(&self.known.client, Place::Heap));
        self.held.get_or_insert_with(new).resize(bytes)
    }

    /// CLIENT CACHING counts no longer.
    pub(crate) fn end_caching(&mut self) {
        if self.tracks.caching.is_some() {
            self.tracks.caching = None;
        }
    }

    /// Milliseconds until a command that has to wait is tried again. One that waits for stripes is
    /// called before.
    pub(crate) fn looks_again(&self) -> Ms {
        if self.ticket > 0 { locks::LOOK } else { pause::LOOK }
    }

    /// Raises or lowers a gate.
    pub(crate) fn set_gate(&mut self, gate: u32, closed: bool) {
        self.gates = if closed { self.gates | gate } else { self.gates & !gate };
    }

    pub(crate) fn set_version(&mut self, version: Version) {
        self.version = version;
        self.known.set_version(version);
        self.settle();
    }

    pub(crate) fn select(&mut self, db: u8, shared: &Shared) {
        (self.db, self.ns) = (db, shared.namespace(db));
        self.known.db.store(db, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn subscribed(&self) -> bool {
        self.subscriptions.count() + self.subscriptions.shards.len() > 0
    }

    /// Sets the gates and letters that follow from subscriptions, tracking and the version of RESP.
    pub(crate) fn settle(&mut self) {
        let subscribed = self.subscribed();
        self.set_gate(gate::SUBSCRIBER, subscribed && self.version == Version::V2);
        self.set_gate(gate::TRACKING, self.tracks.on && !self.tracks.broadcast);
        let monitor = self.known.has(flag::MONITOR);
        self.set_gate(gate::MONITOR, monitor);
        self.set_gate(gate::HEARS, subscribed || self.tracks.on || monitor);
        if subscribed {
            self.known.raise(flag::SUBSCRIBER);
        } else {
            self.known.lower(flag::SUBSCRIBER);
        }
        self.known.client.set_stays(subscribed || monitor);
        let counts = &self.subscriptions;
        for (count, set) in [
            (&self.known.channels, &counts.channels),
            (&self.known.patterns, &counts.patterns),
            (&self.known.shard_channels, &counts.shards),
        ] {
            count.store(set.len() as u32, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Appends what others sent to this client to its answers.
    pub(crate) fn hear(&self, into: &mut Vec<u8>) {
        self.known.client.take_mail(into);
    }
}

impl Subscriptions {
    /// Channels and patterns, as the answers to SUBSCRIBE count them.
    pub(crate) fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }
}
