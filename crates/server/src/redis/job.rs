//! Commands in steps. A command whose time grows with its arguments or with the stored data
//! performs a part of its work, about a millisecond; the worker serves other clients before the
//! next part.
//!
//! Such a command is still atomic for all clients: it keeps the stripes of its keys until it ends
//! ([`KeptStripes`](super::locks::KeptStripes)), and commands that need one of them wait without
//! occupying their worker. A command on a pinned value keeps no stripes, because a pinned value
//! does not change.
//!
//! It runs to its end even if its client leaves, so that no transaction stops in the middle.

use larder_proto::resp::{Args, Owned};

use super::{ctx::Ctx, locks::KeptStripes, shared::Face, untold::UntoldQueue, waiting::Ready};
use crate::{object::Client, room::Held};

/// Approximate length of a step in microseconds: the longest wait for others, per client with such
/// a command.
pub(crate) const STEP: u64 = 1000;

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The command has ended; the answer is composed.
    Done,
    /// The command continues when other clients were served. Nothing is sent: its client may not
    /// read, and others wait for the stripes it holds.
    Again,
    /// The command continues when the composed answers are sent. Only for a command that holds
    /// nothing ([`Job::is_apart`]).
    Send,
}

/// A command in progress.
pub(crate) trait Job {
    /// Continues until [`Ctx::is_over`].
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress;

    /// Returns whether the command works on a pinned value or on no key: others may write its keys
    /// meanwhile.
    fn is_apart(&self) -> bool {
        false
    }
}

/// A command after its first step, with more to do.
pub(crate) struct Begun {
    pub(crate) job: Box<dyn Job>,
    pub(crate) progress: Progress,
}

/// A command between two steps.
pub(crate) struct Running {
    pub(crate) begun: Box<Begun>,
    /// Its arguments, unless they stay in the receive buffer.
    pub(crate) owned: Option<Owned>,
    /// Its stripes.
    #[allow(dead_code)] // held only for its drop
    pub(crate) kept: Option<KeptStripes>,
    /// Messages to be delivered before it goes on, and their memory.
    pub(crate) untold: UntoldQueue,
    pub(crate) held: Held,
    /// Keys with items for clients that wait, which are served when the command has ended.
    pub(crate) ready: Ready,
    /// Time of its steps except the first.
    pub(crate) micros: u64,
    /// No answer is composed yet.
    pub(crate) is_silent: bool,
}

impl Running {
    /// Takes the messages that a step has left, and charges them. A client without room for them
    /// is closed; they are delivered all the same.
    pub(super) fn take_untold(&mut self, face: &Face, client: &Client) {
        self.untold.append(face.untold.take());
        if !self.held.resize(self.untold.bytes()) {
            client.kill();
        }
    }
}

impl Ctx<'_> {
    /// Performs the first step of a command; if work remains, later steps continue it.
    #[inline]
    pub(crate) fn go(&mut self, mut job: impl Job + 'static, args: &Args<'_>) {
        let progress = job.step(self, args);
        if progress != Progress::Done {
            self.conn.begun = Some(Box::new(Begun { job: Box::new(job), progress }));
        }
    }

    /// Returns whether the time of this step is over, or messages wait to be delivered. Call it
    /// after each small part of the work. The first call of a command's first step starts the time.
    pub(crate) fn is_over(&mut self) -> bool {
        self.face.has_untold() || self.face.is_step_over()
    }
}

impl Face {
    /// Returns whether the time of this step is over.
    pub(super) fn is_step_over(&self) -> bool {
        let now = self.clock.micros();
        if self.until.get() == 0 {
            self.until.set(now + STEP);
        }
        now >= self.until.get()
    }
}
