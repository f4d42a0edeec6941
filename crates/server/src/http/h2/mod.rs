//! A connection of HTTP/2: requests in, frames out.
//!
//! The codec ([`larder_proto::http2`]) belongs to the connection, and only its rounds touch it.
//! Requests that memory answers are answered there, many in one write, bodies by reference. A
//! request that has to wait gets a [`Stream`] and a task of its own, which composes the answer; the
//! connection takes it from there when the client's windows allow. The connection rests in its slot
//! while tasks work: what they compose wakes it ([`Mail`]).

mod answers;
mod drive;
mod requests;

pub(super) use drive::is_preface;

use std::{rc::Rc, sync::Arc};

use larder_proto::http2::{Connection, Limits, Workspace};

use crate::{
    clock::Ms,
    http::{stall::Stall, streams::Turn},
    net::{conns::IoBuffers, out::Out, socket::Watch},
    wire::stream::{Mail, Stream},
};

/// Memory for one round, shared by all connections of a worker.
#[derive(Default)]
pub(crate) struct Scratch {
    work: Workspace,
    out: Out,
}

/// The state of one connection.
pub(super) struct Session {
    codec: Connection,
    limits: Arc<Limits>,
    mail: Rc<Mail>,
    /// Those whose answer is not sent whole.
    streams: Vec<Rc<Stream>>,
    /// Received bytes that the codec needs to go on.
    need: usize,
    /// When the codec was told the time last.
    ticked: Ms,
    phase: drive::Phase,
    /// A request head, or another frame, that is not whole.
    head: Option<Unfinished>,
    /// Bytes of memory of the codec's tables when they were looked at last.
    tables: usize,
    /// The client has to open its windows.
    stall: Stall,
    /// Bytes of answers' bodies that the client's windows have let through.
    sent: u64,
    /// Bytes that the socket has taken while it was full.
    taken: u64,
    draining: bool,
    /// The connection is at its end: what is composed is sent, and nothing more is received.
    over: bool,
}

/// A part of a frame, or of a header block in several frames.
struct Unfinished {
    /// The stream of the header block.
    block: Option<u32>,
    /// The rest of it has to come by then.
    until: Ms,
}

/// The tools of a round.
pub(super) struct Round<'c> {
    pub(super) turn: Turn<'c>,
    pub(super) buffers: &'c mut IoBuffers,
}

impl Session {
    /// A connection that has to receive the client's preface. Its settings are appended to `out`.
    pub(super) fn new(
        limits: &Arc<Limits>,
        watch: &Rc<Watch>,
        now: Ms,
        out: &mut Out,
    ) -> Box<Self> {
        Box::new(Self {
            codec: Connection::new(limits, out.scratch()),
            limits: limits.clone(),
            mail: Mail::new(watch.clone()),
            streams: Vec::new(),
            need: 1,
            ticked: now,
            phase: drive::Phase::default(),
            head: None,
            tables: 0,
            stall: Stall::default(),
            sent: 0,
            taken: 0,
            draining: false,
            over: false,
        })
    }

    /// Looks at the memory of the codec's tables. Hits do not.
    fn weigh(&mut self) {
        self.tables = self.codec.memory() - self.codec.unfinished();
    }

    /// The deadline of a frame or a block that is not whole. `moved`: frames were taken since the
    /// last call. `until`: the deadline of one that has just begun.
    fn unfinished(&mut self, moved: bool, until: Ms) -> Ms {
        let block = self.codec.unfinished_block();
        let goes_on = |known: &&Unfinished| known.block == block && (block.is_some() || !moved);
        let until = self.head.as_ref().filter(goes_on).map_or(until, |known| known.until);
        self.head = Some(Unfinished { block, until });
        until
    }

    fn find(&self, id: u32) -> Option<&Rc<Stream>> {
        self.streams.iter().find(|stream| stream.id == u64::from(id))
    }

    /// Forgets a stream that is closed.
    fn forget(&mut self, id: u32) {
        if let Some(place) = self.streams.iter().position(|stream| stream.id == u64::from(id)) {
            self.streams.swap_remove(place).close();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.streams.iter().for_each(|stream| stream.close());
        // News and their streams hold each other.
        drop(self.mail.take());
    }
}
