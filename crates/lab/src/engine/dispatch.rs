//! Open loop: assigns requests that are due to connections.

use super::{
    connection::State,
    pacer::Pacer,
    tally::Fault,
    worker::{QUEUE, Worker, nanos},
};
use crate::load::Operation;

impl Worker<'_> {
    /// Assigns due requests to free connections.
    pub(super) fn dispatch(&mut self) {
        match self.pacer {
            Pacer::Recorded { speed } => self.replay(speed),
            _ => {
                self.enqueue();
                self.serve_queue();
            }
        }
    }

    /// Time of the next due request; `None` if the loop does not have to wake for it.
    pub(super) fn next_due(&self) -> Option<u64> {
        let due = match (&self.pacer, &self.context.staged) {
            (Pacer::Recorded { speed }, Some(staged)) => due(staged, *speed),
            (pacer, _) => pacer.due()?,
        };
        // Requests already due wait for a connection, which is an event of its own.
        (due > self.context.now && self.budget != Some(0)).then_some(due.min(self.end))
    }

    /// Whether a due request (in a trace: one taken out of it) is not yet assigned.
    pub(super) fn is_any_due(&self) -> bool {
        !self.queue.is_empty() || self.context.staged.is_some()
    }

    /// At the end of a run whose connections were given up, counts the requests that they would
    /// have sent as lost.
    pub(super) fn count_unsent(&mut self) {
        if self.given_up == 0 {
            return;
        }
        if let Pacer::Recorded { speed } = self.pacer {
            self.enqueue_recorded(speed);
        }
        let lost = usize::try_from(self.given_up).unwrap_or(usize::MAX);
        for due in self.queue.drain(..).take(lost) {
            if due >= self.context.counted_from {
                self.context.tally.fault(Fault::NotSent);
            }
        }
    }

    /// Queues every request that has become due, up to the queue's limit.
    fn enqueue(&mut self) {
        while let Some(due) =
            self.pacer.due().filter(|due| *due <= self.context.now && *due < self.end)
        {
            let counted = due >= self.context.counted_from;
            if self.budget == Some(0) || self.context.dry {
                break;
            }
            self.pacer.advance();
            if counted {
                self.budget = self.budget.map(|budget| budget - 1);
            }
            if self.queue.len() < QUEUE {
                self.queue.push_back(due);
            } else if counted {
                self.context.tally.fault(Fault::QueueFull);
            }
        }
    }

    fn serve_queue(&mut self) {
        let timeout = nanos(self.context.plan.timeout);
        while let Some(&due) = self.queue.front() {
            if due + timeout < self.context.now {
                self.queue.pop_front();
                if due >= self.context.counted_from {
                    self.context.tally.fault(Fault::NotSent);
                }
                continue;
            }
            let Some(number) = self.take_free() else { break };
            self.queue.pop_front();
            if !self.assign(number, due) {
                // The source is exhausted: due requests have no content.
                self.queue.clear();
            }
        }
        self.flush_dirty();
    }

    /// Replays a trace at its own times. Only the next request is taken out early, so that nothing
    /// accumulates here: late requests are still in the trace.
    fn replay(&mut self, speed: f64) {
        let timeout = nanos(self.context.plan.timeout);
        while self.stage() {
            let Some(due) = self.due_staged(speed).filter(|due| *due <= self.context.now) else {
                break;
            };
            let late = due + timeout < self.context.now;
            let number = if late { None } else { self.take_free() };
            if !late && number.is_none() {
                break;
            }
            let counted = due >= self.context.counted_from;
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
                        self.context.tally.fault(Fault::NotSent);
                    }
                }
            }
        }
        self.flush_dirty();
    }

    /// Counts the overdue requests of a trace that nobody will send any more.
    fn enqueue_recorded(&mut self, speed: f64) {
        while self.queue.len() < QUEUE && self.stage() {
            let Some(due) = self.due_staged(speed).filter(|due| *due <= self.context.now) else {
                break;
            };
            self.unstage();
            if due >= self.context.counted_from {
                self.budget = self.budget.map(|budget| budget - 1);
            }
            self.queue.push_back(due);
        }
    }

    /// Takes the next request out of the trace unless one is staged. False: the run may make no
    /// more.
    fn stage(&mut self) -> bool {
        if self.budget == Some(0) {
            self.unstage();
            return false;
        }
        if self.context.staged.is_none() {
            let mut operation = std::mem::take(&mut self.context.spare);
            if !self.context.next(&mut operation) {
                self.context.spare = operation;
                return false;
            }
            self.context.staged = Some(operation);
        }
        true
    }

    /// Drops the staged request.
    fn unstage(&mut self) {
        if let Some(staged) = self.context.staged.take() {
            self.context.spare = staged;
        }
    }

    /// Due time of the staged request. `None`: it is due after the end of the run.
    fn due_staged(&mut self, speed: f64) -> Option<u64> {
        let due = due(self.context.staged.as_ref()?, speed);
        if due >= self.end {
            self.context.dry = true;
            self.unstage();
            return None;
        }
        Some(due)
    }

    fn assign(&mut self, number: usize, due: u64) -> bool {
        let asked = self.load(number, due);
        if matches!(self.connections[number].state, State::Open(_)) {
            self.dirty.push(number);
            self.offer(number);
        } else if asked {
            self.dial(number);
        }
        asked
    }

    /// One write for all requests assigned to a connection.
    fn flush_dirty(&mut self) {
        while let Some(number) = self.dirty.pop() {
            self.flush(number);
        }
    }

    /// Lists a connection as free: in front if it has no pending requests.
    pub(super) fn offer(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        let line = usize::from(connection.under_way() > 0);
        if connection.has_room() && !connection.offered[line] {
            connection.offered[line] = true;
            self.free[line].push_back(number);
        }
    }

    fn take_free(&mut self) -> Option<usize> {
        for line in 0..2 {
            while let Some(number) = self.free[line].pop_front() {
                let connection = &mut self.connections[number];
                connection.offered[line] = false;
                let usable = match connection.state {
                    State::Open(_) => true,
                    State::Rest => self.context.plan.reconnect,
                    _ => false,
                };
                if usable && connection.has_room() {
                    return Some(number);
                }
            }
        }
        None
    }
}

/// Due time of a recorded request.
fn due(operation: &Operation, speed: f64) -> u64 {
    (nanos(operation.at.unwrap_or_default()) as f64 / speed) as u64
}
