//! A connection of HTTP/3: answers come on streams, and QUIC has timers.

use super::{Connection, Link, NextStep, State};
use crate::engine::{context::ThreadContext, http3::End};

impl Connection {
    /// Reads and handles answers.
    pub(super) fn read_streams(&mut self, context: &mut ThreadContext<'_>) -> NextStep {
        let mut answered = std::mem::take(&mut context.answered);
        context.tick();
        let turn = match &mut self.state {
            State::Open(Link::Quic(http3)) => {
                let turn =
                    http3.turn(&self.slots, &context.codec, &mut context.scratch, &mut answered);
                let (sent, received) = http3.bytes();
                context.sent(sent);
                context.received(received);
                turn
            }
            _ => Ok(false),
        };
        let mut is_over = false;
        for (at, outcome) in answered.drain(..) {
            self.answered(at, outcome, context);
            is_over = context.plan.reconnect;
        }
        context.answered = answered;
        self.set_timer(context);
        match turn {
            Err(End::Failed(fault)) => NextStep::Failed(fault),
            Err(End::Ended) => NextStep::Ended,
            Ok(_) if is_over => NextStep::Ended,
            Ok(true) => NextStep::Again,
            Ok(false) => NextStep::Stay,
        }
    }

    /// Has the worker look again when QUIC's next timer is due.
    pub(super) fn set_timer(&mut self, context: &mut ThreadContext<'_>) {
        let (State::Open(Link::Quic(http3)) | State::Connecting(Link::Quic(http3), _)) =
            &mut self.state
        else {
            return;
        };
        let Some(due) = http3.timeout() else { return };
        let due = due.saturating_duration_since(context.start).as_nanos() as u64;
        if self.timer.is_none_or(|timer| due < timer) {
            self.timer = Some(due);
            context.wake_at(self.number, due);
        }
    }

    /// A timer of QUIC may be due. True: the connection has to look.
    pub(in crate::engine) fn is_timer(&mut self, now: u64) -> bool {
        let is_due = self.timer.is_some_and(|timer| timer <= now);
        if is_due {
            self.timer = None;
        }
        is_due
    }
}
