//! Commands that go on in steps. A command whose time grows with what it is asked for or with what
//! is stored does a part of it, about a millisecond, and its worker serves others before the next
//! part.
//!
//! A command of this kind is still one step to all clients: the stripes of its keys stay its own
//! until it has ended ([`Kept`](super::locks::Kept)), and commands that need one of them wait
//! meanwhile, without their worker. A command that works on a value it has pinned keeps none:
//! nobody changes that value.
//!
//! It also runs to its end whatever becomes of its client, so that no transaction is left in the
//! middle.

use larder_proto::resp::{Args, Owned};

use super::{ctx::Ctx, locks::Kept};

/// Microseconds of one step, about: others wait so long at the most for each client that has such a
/// command under way.
pub(crate) const STEP: u64 = 1000;

/// How far a step came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// To the end: the answer is composed.
    Done,
    /// It goes on when others have had their turn. Nothing is sent: the client may be one that does
    /// not read, and others wait for what the command holds.
    Again,
    /// It goes on when what is composed is sent. For a command that holds nothing
    /// ([`Job::is_apart`]).
    Send,
}

/// A command under way.
pub(crate) trait Job {
    /// Goes on until [`Ctx::is_over`].
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress;

    /// Works on what it has pinned or on no key at all: others may write its keys meanwhile.
    fn is_apart(&self) -> bool {
        false
    }
}

/// A command that has just done its first step, and has more to do.
pub(crate) struct Begun {
    pub(crate) job: Box<dyn Job>,
    pub(crate) progress: Progress,
}

/// A command between two steps.
pub(crate) struct Running {
    pub(crate) begun: Box<Begun>,
    /// Its words, unless they stay where they were received.
    pub(crate) owned: Option<Owned>,
    /// Its stripes.
    #[allow(dead_code)] // held, not looked at
    pub(crate) kept: Option<Kept>,
    /// What its steps have taken, the first excepted.
    pub(crate) micros: u64,
    /// Nothing of its answer is composed.
    pub(crate) is_silent: bool,
}

impl Ctx<'_> {
    /// Does the first step of a command; if there is more to do, it goes on later.
    #[inline]
    pub(crate) fn go(&mut self, mut job: impl Job + 'static, args: &Args<'_>) {
        let progress = job.step(self, args);
        if progress != Progress::Done {
            self.conn.begun = Some(Box::new(Begun { job: Box::new(job), progress }));
        }
    }

    /// Has the present step taken its time? Asked after each small part of the work. A command's
    /// first step, whose start is not noted, begins when this is asked first.
    pub(crate) fn is_over(&mut self) -> bool {
        let now = self.face.clock.micros();
        if self.conn.until == 0 {
            self.conn.until = now + STEP;
        }
        now >= self.conn.until
    }
}
