//! Turns on a connection to an origin, and when the connection may carry another request
//! (RFC 9112 6.3, 9.3).
//!
//! HTTP/1.1 has no numbers that tie an answer to its request: an answer is the next thing that
//! comes. So a pool that keeps connections must see to it that nothing comes between answers: what
//! an origin sends late would be read as the answer to somebody else's request.

/// The side that may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Turn {
    /// Nothing is asked: the origin has nothing to say.
    #[default]
    Idle,
    /// A request is handed over, and no byte of it is written.
    Asked,
    /// A byte of the request went out: what comes answers it.
    Answering,
    /// The origin spoke out of turn, or may do so: the connection carries no further request.
    Spoilt,
}

impl Turn {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Asked, Self::Answering, Self::Spoilt];

    /// A request is handed over.
    #[must_use]
    pub fn ask(self) -> Self {
        if self == Self::Idle { Self::Asked } else { Self::Spoilt }
    }

    /// Bytes of a request are about to be written. `waiting`: bytes of the origin wait to be read,
    /// so they were sent before it had the request.
    #[must_use]
    pub fn write(self, waiting: bool) -> Self {
        match self {
            Self::Asked if waiting => Self::Spoilt,
            Self::Asked => Self::Answering,
            // The rest of a request that was answered before it was sent whole.
            other => other,
        }
    }

    /// Bytes of the origin were read.
    #[must_use]
    pub fn read(self, bytes: usize) -> Self {
        match self {
            Self::Idle | Self::Asked if bytes > 0 => Self::Spoilt,
            other => other,
        }
    }

    /// The answer is complete. `over`: nothing of it can follow ([`Answered::is_over`]).
    #[must_use]
    pub fn end(self, over: bool) -> Self {
        if self == Self::Answering && over { Self::Idle } else { Self::Spoilt }
    }
}

/// The facts that tell whether more may follow a complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// It answers a HEAD.
    pub to_head: bool,
    /// Its status, 200 and up.
    pub status: u16,
    /// Content-Length, where there is one; what is no number counts as one above 0.
    pub length: Option<u64>,
    /// It has a Transfer-Encoding.
    pub coded: bool,
    /// The request had a condition that a 304 answers.
    pub conditional: bool,
    /// An interim response before it announced content, which none has.
    pub odd_interim: bool,
}

impl Answered {
    /// Whether every reading of RFC 9112 6.3 ends the answer where it ended.
    ///
    /// The answer to a HEAD, a 204 and a 304 have no content, whatever their fields say. An origin
    /// that announces content with one of them may send it as well: some do so a moment later. A
    /// HEAD is over where the same head would be the whole answer to a GET.
    ///
    /// A 204 without Content-Length is over: RFC 9110 8.6 forbids the field in it, so nearly every
    /// 204 is of this form, and nothing in it contradicts. A 304 that no condition asked for is
    /// not: it answers another request than ours.
    pub fn is_over(&self) -> bool {
        let announces = self.coded || self.length.is_some_and(|length| length > 0);
        let bodiless = matches!(self.status, 204 | 304);
        match (bodiless, self.to_head) {
            _ if self.odd_interim => false,
            (true, _) if self.status == 304 && !self.conditional => false,
            (true, _) => !announces,
            (false, true) => !self.coded && self.length == Some(0),
            // Its content was read to the end that the fields gave it, both of them or none aside.
            (false, false) => self.coded != self.length.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_in_turns_goes_on() {
        let mut turn = Turn::default();
        for _ in 0..3 {
            turn = turn.ask();
            assert_eq!(turn, Turn::Asked);
            turn = turn.read(0).write(false).read(5).write(true).read(7);
            assert_eq!(turn, Turn::Answering);
            turn = turn.end(true);
            assert_eq!(turn, Turn::Idle);
            // The end of the stream, and the rest of a request that was answered early.
            turn = turn.read(0).write(false).write(true);
        }
    }

    #[test]
    fn bytes_out_of_turn_spoil_it_for_good() {
        for spoilt in [
            Turn::Idle.read(1),
            Turn::Idle.ask().read(1),
            Turn::Idle.ask().write(true),
            Turn::Idle.ask().ask(),
            Turn::Idle.ask().write(false).ask(),
            Turn::Idle.ask().write(false).end(false),
            Turn::Idle.ask().end(true),
            Turn::Idle.end(true),
        ] {
            let never = [spoilt.ask(), spoilt.write(false), spoilt.read(0), spoilt.end(true)];
            assert!(never.iter().all(|turn| *turn == Turn::Spoilt), "{never:?}");
        }
        for (number, turn) in Turn::ALL.into_iter().enumerate() {
            assert_eq!(turn as usize, number);
        }
    }

    #[test]
    fn an_answer_is_over_where_nobody_could_read_more() {
        for (to_head, status, length, coded, over) in [
            (false, 200, Some(5), false, true),
            (false, 200, Some(0), false, true),
            (false, 200, None, true, true),
            (false, 200, None, false, false),
            (false, 200, Some(5), true, false),
            (false, 204, None, false, true),
            (false, 204, Some(0), false, true),
            (false, 204, Some(1), false, false),
            (false, 204, Some(u64::MAX), false, false),
            (false, 204, None, true, false),
            (false, 304, None, false, true),
            (false, 304, Some(7), false, false),
            (false, 304, None, true, false),
            (true, 200, Some(0), false, true),
            (true, 200, Some(7), false, false),
            (true, 200, None, true, false),
            (true, 200, None, false, false),
            (true, 404, Some(7), false, false),
            (true, 204, None, false, true),
            (true, 304, Some(7), false, false),
        ] {
            let answered =
                Answered { to_head, status, length, coded, conditional: true, odd_interim: false };
            assert_eq!(answered.is_over(), over, "{answered:?}");
            let unasked = Answered { conditional: false, ..answered };
            assert_eq!(unasked.is_over(), over && status != 304, "{unasked:?}");
            assert!(!Answered { odd_interim: true, ..answered }.is_over());
        }
    }
}
