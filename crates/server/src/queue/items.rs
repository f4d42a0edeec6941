//! Items on their way to a client: sent in pieces where they are large, and given back where the
//! client does not get them.

use larder_proto::queue as wire;
use larder_queue::{Item, Read};

use super::{
    seat::{Message, Name},
    session::{Session, State, Wait},
};
use crate::{clock::Ms, net::out::Out, object::Turn};

/// Bytes of a large item that are composed at once.
const PIECE: usize = 256 << 10;
/// An item that was taken for the client.
pub(super) struct Taken {
    pub(super) name: Name,
    pub(super) item: Item,
    /// Its last byte, from the first that was composed for the client.
    pub(super) end: u64,
}

/// A large item that is being sent.
pub(super) struct Sending {
    pub(super) item: Item,
    pub(super) read: Read,
    pub(super) name: Name,
    pub(super) at: usize,
    /// The next step.
    pub(super) then: Option<Wait>,
}

impl Session {
    /// All composed bytes but so many were sent.
    pub(super) fn arrived(&mut self, pending: u64) {
        self.sent = self.composed.saturating_sub(pending);
        while self.taken.front().is_some_and(|taken| taken.end <= self.sent) {
            self.taken.pop_front();
        }
    }

    /// Gives items back that did not reach the client.
    pub(super) fn give_back(&mut self) {
        for Taken { name, item, .. } in self.taken.drain(..) {
            let _ = self.face.inbox.send(Message::Restore(name, item));
        }
    }

    pub(super) fn item(
        &mut self,
        mut sending: Sending,
        wait: Wait,
        now: Ms,
        out: &mut Out,
    ) -> Turn {
        if sending.read == Read::Open {
            *self.opened.entry(sending.name.clone()).or_default() += 1;
        }
        if let Wait::Monitor { name, until, left } = wait {
            sending.then = Some(Wait::Monitor { name, until, left: left - 1 });
        }
        let data = &sending.item.data;
        let len = data.len();
        wire::value(&sending.name, sending.item.flags, len as u64, out.scratch());
        if len > PIECE {
            self.state = State::Sending(Box::new(sending));
            return Turn::Flush(0);
        }
        out.scratch().extend_from_slice(data);
        self.face.turn_time.copied(len as u64);
        self.after_item(sending, now, out)
    }

    /// Sends the next piece of a large item.
    pub(super) fn piece(&mut self, now: Ms, out: &mut Out) -> Turn {
        let State::Sending(sending) = &mut self.state else { return Turn::Used(0) };
        let data = &sending.item.data[sending.at..];
        let piece = &data[..data.len().min(PIECE)];
        out.scratch().extend_from_slice(piece);
        sending.at += piece.len();
        if piece.len() < data.len() {
            return Turn::Flush(0);
        }
        match std::mem::replace(&mut self.state, State::Ready) {
            State::Sending(sending) => self.after_item(*sending, now, out),
            _ => Turn::Used(0),
        }
    }

    /// The data of an item is composed.
    pub(super) fn after_item(&mut self, sending: Sending, now: Ms, out: &mut Out) -> Turn {
        out.scratch().extend_from_slice(wire::END);
        let Sending { item, read, name, then, .. } = sending;
        if read == Read::Take {
            self.taken.push_back(Taken { name, item, end: self.sent + out.pending() });
        }
        match then {
            Some(Wait::Monitor { name, until, left }) if left > 0 && until > now => {
                self.monitor(name, until, left, now, 0)
            }
            Some(Wait::Monitor { .. }) => {
                out.scratch().extend_from_slice(&wire::END[2..]);
                Turn::Used(0)
            }
            _ => Turn::Used(0),
        }
    }
}
