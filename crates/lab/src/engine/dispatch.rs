//! Open loop: requests that are due find a connection, or wait for one.

use super::{
    conn::State,
    pacer::Pacer,
    tally::Fault,
    worker::{QUEUE, Worker, nanos},
};
use crate::load::Ask;

impl Worker<'_> {
    /// Gives what is due to connections with room.
    pub(super) fn dispatch(&mut self) {
        match self.pacer {
            Pacer::Recorded { speed } => self.replay(speed),
            _ => {
                self.enqueue();
                self.serve_queue();
            }
        }
    }

    /// When something will be due; None: that is not ours to wait for.
    pub(super) fn next_due(&self) -> Option<u64> {
        let due = match (&self.pacer, &self.desk.staged) {
            (Pacer::Recorded { speed }, Some(staged)) => due(staged, *speed),
            (pacer, _) => pacer.due()?,
        };
        // What is due already waits for a connection, which is an event of its own.
        (due > self.desk.now && self.budget != Some(0)).then_some(due.min(self.end))
    }

    /// Whether something has become due (of a trace: is taken out of it) that no connection has.
    pub(super) fn is_any_due(&self) -> bool {
        !self.queue.is_empty() || self.desk.staged.is_some()
    }

    /// The run is over because connections were given up: what has become due and would have been theirs is lost.
    pub(super) fn count_unsent(&mut self) {
        if self.given_up == 0 {
            return;
        }
        if let Pacer::Recorded { speed } = self.pacer {
            self.enqueue_recorded(speed);
        }
        let lost = usize::try_from(self.given_up).unwrap_or(usize::MAX);
        for due in self.queue.drain(..).take(lost) {
            if due >= self.desk.counted_from {
                self.desk.tally.fault(Fault::NotSent);
            }
        }
    }

    /// Everything that has become due stands in line, where the line has an end.
    fn enqueue(&mut self) {
        while let Some(due) = self.pacer.due().filter(|due| *due <= self.desk.now && *due < self.end) {
            let counted = due >= self.desk.counted_from;
            if self.budget == Some(0) || self.desk.dry {
                break;
            }
            self.pacer.advance();
            if counted {
                self.budget = self.budget.map(|budget| budget - 1);
            }
            if self.queue.len() < QUEUE {
                self.queue.push_back(due);
            } else if counted {
                self.desk.tally.fault(Fault::QueueFull);
            }
        }
    }

    fn serve_queue(&mut self) {
        let timeout = nanos(self.desk.plan.timeout);
        while let Some(&due) = self.queue.front() {
            if due + timeout < self.desk.now {
                self.queue.pop_front();
                if due >= self.desk.counted_from {
                    self.desk.tally.fault(Fault::NotSent);
                }
                continue;
            }
            let Some(number) = self.take_free() else { break };
            self.queue.pop_front();
            if !self.assign(number, due) {
                // The source has no more: what is due has nothing to ask.
                self.queue.clear();
            }
        }
        self.flush_dirty();
    }

    /// A trace asks at its own times. None of it is taken before its time but the next request, so that nothing piles up here:
    /// what is late is still in the trace.
    fn replay(&mut self, speed: f64) {
        let timeout = nanos(self.desk.plan.timeout);
        while self.stage() {
            let Some(due) = self.due_staged(speed).filter(|due| *due <= self.desk.now) else { break };
            let late = due + timeout < self.desk.now;
            let number = if late { None } else { self.take_free() };
            if !late && number.is_none() {
                break;
            }
            let counted = due >= self.desk.counted_from;
            if counted {
                self.budget = self.budget.map(|budget| budget - 1);
            }
            match number {
                Some(number) => {
                    self.assign(number, due);
                }
                None => {
                    self.unstage();
                    if counted {
                        self.desk.tally.fault(Fault::NotSent);
                    }
                }
            }
        }
        self.flush_dirty();
    }

    /// What is late in a trace, where nobody will ask it any more.
    fn enqueue_recorded(&mut self, speed: f64) {
        while self.queue.len() < QUEUE && self.stage() {
            let Some(due) = self.due_staged(speed).filter(|due| *due <= self.desk.now) else { break };
            self.unstage();
            if due >= self.desk.counted_from {
                self.budget = self.budget.map(|budget| budget - 1);
            }
            self.queue.push_back(due);
        }
    }

    /// Takes the next request out of the trace, where none is taken yet. False: there are no more that may be asked.
    fn stage(&mut self) -> bool {
        if self.budget == Some(0) {
            self.unstage();
            return false;
        }
        if self.desk.staged.is_none() {
            let mut ask = std::mem::take(&mut self.desk.spare);
            if !self.desk.next(&mut ask) {
                self.desk.spare = ask;
                return false;
            }
            self.desk.staged = Some(ask);
        }
        true
    }

    /// What was taken is not asked.
    fn unstage(&mut self) {
        if let Some(staged) = self.desk.staged.take() {
            self.desk.spare = staged;
        }
    }

    /// When the request that was taken is due. None: never, for that is behind the end of the run.
    fn due_staged(&mut self, speed: f64) -> Option<u64> {
        let due = due(self.desk.staged.as_ref()?, speed);
        if due >= self.end {
            self.desk.dry = true;
            self.unstage();
            return None;
        }
        Some(due)
    }

    fn assign(&mut self, number: usize, due: u64) -> bool {
        let asked = self.load(number, due);
        if matches!(self.conns[number].state, State::Open(_)) {
            self.dirty.push(number);
            self.offer(number);
        } else if asked {
            self.dial(number);
        }
        asked
    }

    /// One write for all that a connection was given.
    fn flush_dirty(&mut self) {
        while let Some(number) = self.dirty.pop() {
            self.flush(number);
        }
    }

    /// A connection stands in line for requests: in front, where nothing is under way on it.
    pub(super) fn offer(&mut self, number: usize) {
        let conn = &mut self.conns[number];
        let line = usize::from(conn.under_way() > 0);
        if conn.has_room() && !conn.offered[line] {
            conn.offered[line] = true;
            self.free[line].push_back(number);
        }
    }

    fn take_free(&mut self) -> Option<usize> {
        for line in 0..2 {
            while let Some(number) = self.free[line].pop_front() {
                let conn = &mut self.conns[number];
                conn.offered[line] = false;
                let usable = match conn.state {
                    State::Open(_) => true,
                    State::Rest => self.desk.plan.reconnect,
                    _ => false,
                };
                if usable && conn.has_room() {
                    return Some(number);
                }
            }
        }
        None
    }
}

/// When a recorded request is due.
fn due(ask: &Ask, speed: f64) -> u64 {
    (nanos(ask.at.unwrap_or_default()) as f64 / speed) as u64
}
