//! A command of which a part has come: it must get on, also where idle clients may stay for ever.
//!
//! Within [`Limits::receive`](crate::object::Limits::receive) it must be whole, or [`PROGRESS`]
//! bytes more of it must come, which buy as much time again. So a value of any size may take its
//! time, and a byte a second is not enough.

use super::Conn;
use crate::{clock::Ms, net::socket::PROGRESS, object::Session};

/// Progress of the command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// Bytes of it when the deadline was set, as [`Conn::come`] counts them.
    come: u64,
    pub(super) deadline: Ms,
    /// The session has used up what has come of it.
    used: bool,
}

impl<S: Session> Conn<S> {
    /// Notes when the command under way must have got on, if there is one. `used`: something was
    /// used up since the last wait.
    pub(super) fn note_begun(&mut self, used: bool) {
        let awaits = self.session.awaits();
        let lies = self.buffers.as_ref().is_some_and(|buffers| buffers.at < buffers.buf.len());
        if !awaits && !lies {
            self.begun = None;
            return;
        }
        // Bytes behind a command that was used up begin another command.
        let same = |begun: &Begun| begun.used == awaits && (awaits || !used);
        if self
            .begun
            .as_deref()
            .copied()
            .filter(same)
            .is_none_or(|begun| self.come - begun.come >= PROGRESS)
        {
            let now = self.tracked.conns.clock.now();
            self.client.moves(now);
            let deadline = now + self.admission.limits().receive;
            self.begun = Some(Box::new(Begun { come: self.come, deadline, used: awaits }));
        }
    }
}
