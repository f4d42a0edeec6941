//! The shared part of the object faces (memcached, Redis): the connection loop, clients, and
//! messages of other clients to them.
//!
//! A face turns received bytes into answers ([`Session`]); it never touches a socket. The loop that
//! reads, sends and waits is one for both.

pub(crate) mod ahead;
mod client;
pub(crate) mod conn;
pub(crate) mod face;
pub(crate) mod hot;
pub(crate) mod stop;
mod tls_counters;
pub(crate) mod turn_time;

pub(crate) use client::{Client, Clients, Peer};
pub(crate) use conn::End;
pub(crate) use face::{Face, Shared};
pub(crate) use tls_counters::TlsCounters;
pub(crate) use turn_time::TurnTime;

use serde_json::Value;

use crate::{
    clock::Ms,
    net::{face_name::FaceName, out::Out},
};

/// Composed and pinned bytes at which a session has them sent before it goes on, so that a client
/// that does not read costs no more than this and one value. (Sixteen values of 10 KB sent in one
/// write instead of three: 1.6 microseconds each instead of 2.5.)
pub(crate) const HIGH_WATER: u64 = 256 * 1024;

/// The most received bytes kept for one command that is not whole yet. Values may be longer, and
/// are taken in pieces as they arrive: the session uses up each piece and keeps the state.
pub(crate) const WINDOW: usize = 64 * 1024;

/// Result of a session's look at received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// So many bytes are used up; look again if some are left.
    Used(usize),
    /// The next command is not whole. It would be at so many bytes from the start of the input (0:
    /// not known).
    More(usize),
    /// So many bytes are used up (may be 0). Send what is composed, then call again, even without
    /// new bytes: a long answer is on its way (a walk, thousands of keys).
    Flush(usize),
    /// So many bytes are used up (may be 0). Call again when others have had their turn, whatever
    /// becomes of the client meanwhile, and send nothing before: a command goes on that is to come
    /// to its end.
    Again(usize),
    /// So many bytes are used up (may be 0). Send what is composed, and call again after so many
    /// milliseconds, even without new bytes: the next command may not be taken up yet.
    Later(usize, Ms),
    /// Send what is composed, then close.
    Close,
}

/// One client's conversation in one protocol.
pub(crate) trait Session {
    /// Takes up the next command, or goes on with a long one. `now`: read once for all commands of
    /// a batch.
    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn;

    /// The face it speaks to.
    const FACE: FaceName;

    /// The time of its worker's current turn, to which its commands add theirs.
    fn turn_time(&self) -> &TurnTime;

    /// Bytes came, and are taken up together with others': time to have memory fetched.
    fn fetch(&mut self, input: &[u8]);

    /// The same for others was begun meanwhile: has the memory fetched that the first leads to.
    fn fetch_record(&mut self);

    /// [`Limits::commands`] were taken up without a wait: others get their turn now.
    fn yielded(&mut self) {}

    /// More was received behind the input of the last turn, before that was used up.
    fn received(&mut self);

    /// A batch was answered: the system has taken the answers.
    fn sent(&mut self, batch: Sent);

    /// The connection ends: so many composed bytes will never be sent.
    fn unsent(&mut self, _bytes: u64) {}

    /// Is it in the middle of a command, or of what it throws away of one, of which it has used up
    /// what was received? (The beginning of a command that it has not used up lies in the receive
    /// buffer.)
    fn awaits(&self) -> bool;

    /// The answer to a command that has its effect already is on its way, or one that needs a value
    /// of the disk, and the session waits for it ([`Turn::Later`]), not for long: it is sent also
    /// to a client that has closed its side, and when the server stops.
    fn owes(&self) -> bool {
        false
    }

    /// Bytes that it keeps beside buffers that are not empty, in no account of its own.
    fn kept(&self) -> u64 {
        0
    }

    /// Its state for another process, to go on with it between two commands. `None`: it has more
    /// than can be passed (subscriptions, a transaction, a login).
    fn passed(&self) -> Option<Value> {
        None
    }

    /// Goes on as one that another process has passed.
    fn adopt(&mut self, _passed: &Value) {}

    /// The connection has ended: gives up some of what it shares with others. True: there is more,
    /// call again when others have had their turn.
    fn leave(&mut self) -> bool {
        false
    }
}

/// Figures of one batch of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Microseconds from when its bytes were there until the system had taken the answers.
    pub(crate) micros: u64,
    /// Bytes received for it.
    pub(crate) received: u64,
    /// Bytes of answers, mail from others included.
    pub(crate) written: u64,
}

/// Limits of a face's clients. Each worker has a copy, renewed by its sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Client connections at once, over all workers.
    pub(crate) connections: usize,
    /// Above that: true, a connection is told so and closed; false, it waits in the listener's
    /// queue.
    pub(crate) connections_fast: bool,
    /// A connection without a command for so long is closed; 0: never.
    pub(crate) idle: Ms,
    /// A client that has begun a command and for so long sends nothing more of it is closed.
    pub(crate) receive: Ms,
    /// A client that takes nothing of its answers for so long is closed.
    pub(crate) send: Ms,
    /// Bytes of answers, and as many of commands, gathered for a client that goes on sending before
    /// it takes its answers (one that sends a long pipeline whole, and then reads). Above that it
    /// has to read first. 0: no more is received than [`HIGH_WATER`] of answers let through. All
    /// clients together are limited by their [`crate::room`].
    pub(crate) gather: u64,
    /// Commands of one connection taken up before what they are answered is sent, and others get
    /// their turn.
    pub(crate) commands: usize,
    /// Connections the kernel keeps waiting per listener. Fixed while running.
    pub(crate) backlog: i32,
}

/// Default of [`Limits::commands`]: a pipeline of 64 is to be one write, and a turn of 256 commands
/// takes a fraction of a millisecond.
pub(crate) const COMMANDS: usize = 256;
