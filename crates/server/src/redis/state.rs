//! State of a connection between its commands.

use std::{collections::BTreeSet, sync::Arc};

use larder_proto::resp::Version;
use larder_store::Namespace;

use crate::{
    clock::Ms,
    room::{Held, Place},
};

use super::{
    acl::{self, Rights},
    dispatch::Last,
    job::{Begun, Running},
    known::{Known, flag},
    locks::{self, WantedStripes},
    multi::Multi,
    on_demand::{OnDemand, static_default},
    pause,
    shared::Shared,
    waiting::{self, Blocked},
};

/// Conditions that keep a command from running at once. Usually none is set, which one comparison
/// tells.
pub(crate) mod gate {
    /// The client must authenticate first.
    pub(crate) const STRANGER: u32 = 1;
    /// Between MULTI and EXEC: commands are queued.
    pub(crate) const MULTI: u32 = 1 << 1;
    /// RESP2 and subscribed: few commands are allowed.
    pub(crate) const SUBSCRIBER: u32 = 1 << 2;
    /// CLIENT REPLY OFF or SKIP: answers are dropped.
    pub(crate) const MUTED: u32 = 1 << 3;
    /// CLIENT TRACKING without BCAST: keys read are remembered.
    pub(crate) const TRACKING: u32 = 1 << 4;
    /// The client may receive messages, also from its own commands: they are sent before the next
    /// answer.
    pub(crate) const MESSAGES: u32 = 1 << 5;
    /// The client sent MONITOR: commands on keys are refused.
    pub(crate) const MONITOR: u32 = 1 << 6;
    /// The command waits for items of its keys.
    pub(crate) const BLOCKED: u32 = 1 << 7;
    /// The user may not do everything.
    pub(crate) const RESTRICTED: u32 = 1 << 8;
    /// The command waits for the end of a pause.
    pub(crate) const PAUSED: u32 = 1 << 9;
}

/// Bytes of a list entry beside its name.
pub(crate) const ENTRY: usize = 64;
/// Memory of a connection is charged in steps of this size, so that a small transaction needs no
/// accounting.
const STEP: u64 = 1024;

/// Mode set by CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Every command is answered.
    #[default]
    On,
    /// No command is answered.
    Off,
    /// The next command is not answered.
    SkipNext,
    /// This command is not answered.
    Skip,
    /// Commands are answered again, from this CLIENT REPLY ON.
    TurnedOn,
    /// Commands are answered again, from this RESET.
    Reset,
}

/// Options of CLIENT TRACKING.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks {
    pub(crate) on: bool,
    pub(crate) broadcast: bool,
    pub(crate) opt_in: bool,
    pub(crate) opt_out: bool,
    pub(crate) no_loop: bool,
    /// CLIENT CACHING YES or NO, for the next command.
    pub(crate) caching: Option<bool>,
    /// Prefixes of BCAST; one empty prefix: all keys.
    pub(crate) prefixes: Vec<Box<[u8]>>,
    /// Bytes of all prefixes, here and in the table.
    pub(crate) bytes: usize,
}

/// Channels and patterns that a connection has subscribed to.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    pub(crate) channels: BTreeSet<Box<[u8]>>,
    pub(crate) patterns: BTreeSet<Box<[u8]>>,
    pub(crate) shards: BTreeSet<Box<[u8]>>,
    /// Bytes of all subscriptions, here and in the hub.
    pub(crate) bytes: usize,
}

static_default!(Tracks);
static_default!(Subscriptions);

/// State of one connection.
pub(crate) struct Conn {
    pub(crate) known: Arc<Known>,
    pub(crate) version: Version,
    pub(crate) db: u8,
    pub(crate) ns: Namespace,
    /// Bits of [`gate`].
    pub(crate) gates: u32,
    /// The connection ends after its answers are sent.
    pub(crate) closing: bool,
    pub(crate) answers: Answers,
    pub(crate) multi: OnDemand<Multi>,
    /// The current command has begun and has more to do.
    pub(crate) begun: Option<Box<Begun>>,
    /// A command in steps: the next command waits for its end.
    pub(crate) running: Option<Box<Running>>,
    /// The current command has many keys: tracking remembers them in parts.
    pub(crate) remembers: bool,
    /// The current command's bytes stay in the receive buffer until it ends.
    pub(crate) stays: bool,
    /// EXEC is executing its commands.
    pub(crate) in_exec: bool,
    /// A script calls the command.
    pub(crate) in_script: bool,
    /// The answer is the error of a command that the script has called, which was counted then.
    pub(crate) is_passed_on: bool,
    /// The current command holds the stripe of its key.
    pub(crate) has_stripe: bool,
    /// It holds stripes as a command of several keys does: all readers of its keys take them, too.
    pub(crate) keeps_readers_out: bool,
    /// It read without a stripe, or turned out to need several steps for a write, and must begin
    /// again with more; nothing is answered, and nothing was written.
    pub(crate) wants_stripe: bool,
    /// The stripes of a transaction with scripts.
    pub(crate) exec_stripes: Option<Box<WantedStripes>>,
    /// The current command's ticket for stripes (see [`locks`](super::locks)); 0: it does not wait.
    pub(crate) ticket: u64,
    /// The current command waits for items of its keys.
    pub(crate) blocked: Option<Box<Blocked>>,
    /// Counts it among those who wait for the end of a pause.
    pub(crate) paused: Option<pause::Paused>,
    pub(crate) tracks: OnDemand<Tracks>,
    pub(crate) subscriptions: OnDemand<Subscriptions>,
    pub(crate) last: Last,
    /// Its user.
    pub(crate) rights: Rights,
    /// Executed commands, for sampling their time.
    pub(crate) turns: u32,
    /// Memory of its transaction, watched keys, subscriptions and names, if they are many.
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
            multi: OnDemand::default(),
            begun: None,
            running: None,
            remembers: false,
            stays: false,
            in_exec: false,
            in_script: false,
            is_passed_on: false,
            has_stripe: false,
            keeps_readers_out: false,
            wants_stripe: false,
            exec_stripes: None,
            ticket: 0,
            blocked: None,
            paused: None,
            tracks: OnDemand::default(),
            subscriptions: OnDemand::default(),
            last: Last::default(),
            rights: Rights::default(),
            turns: 0,
        };
        acl::enter(shared, &mut conn);
        conn
    }

    /// Charges its memory. False: there is no room.
    pub(crate) fn hold(&mut self) -> bool {
        let names = self.known.text.lock().bytes();
        let lists = self.multi.bytes() + self.subscriptions.bytes + self.tracks.bytes;
        let bytes = (lists + names) as u64 / STEP * STEP;
        if bytes == 0 {
            self.held = None;
            return true;
        }
        let new = || Box::new(Held::new(&self.known.client.holder, Place::Heap));
        self.held.get_or_insert_with(new).resize(bytes)
    }

    /// Ends the effect of CLIENT CACHING.
    pub(crate) fn end_caching(&mut self) {
        if self.tracks.caching.is_some() {
            self.tracks.caching = None;
        }
    }

    /// Milliseconds until a waiting command is tried again. A waiter for stripes or items is called
    /// before.
    pub(crate) fn looks_again(&self, now: Ms) -> Ms {
        if let Some(blocked) = self.blocked.as_ref().filter(|blocked| !blocked.is_called()) {
            return waiting::time_left(blocked, now);
        }
        if self.ticket > 0 { locks::LOOK } else { pause::LOOK }
    }

    /// Sets or clears a gate.
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

    /// Derives gates and letters from subscriptions, tracking and the RESP version.
    pub(crate) fn settle(&mut self) {
        let subscribed = self.subscribed();
        self.set_gate(gate::SUBSCRIBER, subscribed && self.version == Version::V2);
        self.set_gate(gate::TRACKING, self.tracks.on && !self.tracks.broadcast);
        let monitor = self.known.has(flag::MONITOR);
        self.set_gate(gate::MONITOR, monitor);
        self.set_gate(gate::MESSAGES, subscribed || self.tracks.on || monitor);
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

    /// Appends the waiting messages to the client's answers.
    pub(crate) fn take_messages(&self, into: &mut Vec<u8>) {
        self.known.client.take_mail(into);
    }
}

impl Subscriptions {
    /// Number of channels and patterns, as answers to SUBSCRIBE report it.
    pub(crate) fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }
}
