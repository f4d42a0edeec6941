//! The end of the owner's batches: journals are written, the device has them, answers are sent.

use std::{io, sync::Arc};

use larder_queue::{Queues, Read, Undone};

use super::{
    owner::{Owner, tell_damage},
    seat::{Answer, Message, Seat},
};
use crate::{clock::Ms, settings::QueueSync};

/// Interval of messages about files that cannot be written or removed, milliseconds.
const TELL: Ms = 10_000;
/// Interval of the orders to remove files where nothing waits for the device, milliseconds.
const REMOVE: Ms = 1000;
/// Interval of attempts to open the queues again, milliseconds.
const REOPEN: Ms = 100;

impl Owner {
    /// Writes everything, and closes the queues.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.finish();
        self.queues.take().map_or(Ok(()), Queues::close)
    }

    /// The same for another process. This one keeps their state: where they cannot be written they
    /// stay open, and that process may fail.
    pub(super) fn lend(&mut self) -> io::Result<()> {
        self.finish();
        self.reopens = false;
        let Some(queues) = &mut self.queues else { return Ok(()) };
        queues.lend()?;
        self.lent = self.queues.take();
        Ok(())
    }

    /// Writes what there is. Its failure is no news to those who wait for answers: the next commit
    /// writes the same.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let failed = self.queues.iter_mut().flat_map(Queues::write).next();
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The process that was to have the queues has ended, or has never come.
    pub(super) fn take_back(&mut self, now: Ms) {
        let Some(mut queues) = self.lent.take() else { return };
        let error = match queues.take_back(now) {
            Ok(Some(damage)) => {
                tell_damage(&damage);
                (self.queues, self.reopens) = (Some(queues), false);
                for message in std::mem::take(&mut self.late) {
                    self.take(message, now);
                }
                return;
            }
            Ok(None) => "another process has them open".to_owned(),
            Err(error) => error.to_string(),
        };
        self.lent = Some(queues);
        if !std::mem::replace(&mut self.reopens, true) {
            eprintln!("larder: error: the queues are not served until they open: {error}");
        }
        self.tick = now + REOPEN;
    }

    /// Sees to it that every answer has gone: a taken item that does not reach its client comes
    /// back before the queues are closed.
    fn finish(&mut self) {
        for (seat, ..) in std::mem::take(&mut self.again) {
            self.answer(seat, Answer::Close(b""), false);
        }
        loop {
            let now = self.clock.now();
            self.fan_out(now);
            self.commit(now);
            if !self.fans.is_empty() {
                continue;
            }
            if self.syncing.is_none() {
                if self.answers.is_empty() && self.written.is_empty() {
                    break;
                }
                continue;
            }
            // The syncer always answers. Commands are too late.
            match self.inbox.recv() {
                Ok(Message::Ask(..) | Message::Write(_) | Message::Release(_) | Message::End) => {}
                Ok(message) => {
                    self.take(message, now);
                }
                Err(_) => break,
            }
        }
    }

    /// Writes what this batch has changed, and sends its answers, or has the device told first.
    pub(super) fn commit(&mut self, now: Ms) {
        let answers = std::mem::take(&mut self.answers);
        let Some(queues) = &mut self.queues else {
            answers.into_iter().for_each(|(seat, answer, _)| self.send(&seat, answer));
            return;
        };
        let failed = queues.write();
        if !failed.is_empty() {
            self.fans.failed(&failed);
        }
        self.restored = false;
        let waits = self.sync == QueueSync::Always;
        if let Some((name, error)) = failed.first() {
            let queue = String::from_utf8_lossy(name);
            self.tell(now, &format!("the journal of queue {queue} was not written: {error}"));
        }
        for (seat, answer, durable) in answers {
            let answer = answer.unless_failed(&failed);
            if durable && waits {
                self.written.push((seat, answer));
            } else {
                self.send(&seat, answer);
            }
        }
        self.have_synced(now);
        if self.restored {
            // Its removal is in the file: this is not to wait for the next command.
            self.restored = false;
            self.queues.iter_mut().for_each(|queues| drop(queues.write()));
        }
    }

    /// Counts a failure, and tells it unless one was told just before.
    fn tell(&mut self, now: Ms, failure: &str) {
        self.failures += 1;
        if self.told.is_none_or(|told| now >= told + TELL) {
            self.told = Some(now);
            eprintln!("larder: warning: {failure}");
        }
    }

    /// Orders the device's work where it is time. One order at a time.
    fn have_synced(&mut self, now: Ms) {
        let Some(queues) = self.queues.as_mut().filter(|_| self.syncing.is_none()) else { return };
        let work = match self.sync {
            QueueSync::Always => queues.take_work(true),
            QueueSync::Every(_) | QueueSync::Never if now < self.next_sync => return,
            QueueSync::Every(interval) => {
                self.next_sync = now + interval.as_millis() as Ms;
                queues.take_work(true)
            }
            QueueSync::Never => {
                self.next_sync = now + REMOVE;
                queues.take_work(false)
            }
        };
        let waiting = std::mem::take(&mut self.written);
        if work.is_empty() {
            // Copies of an item for children may have been of orders that failed.
            let broken = queues.broken().map(str::to_owned);
            for (seat, answer) in waiting {
                self.send(&seat, answer.unless_broken(broken.as_deref()));
            }
            return;
        }
        self.syncing = Some(waiting);
        self.syncer.order(work);
    }

    /// The device has done its work, or has failed.
    pub(super) fn synced(&mut self, result: Result<(), Undone>) {
        let waiting = self.syncing.take().unwrap_or_default();
        let Some(queues) = &mut self.queues else { return };
        let told = match &result {
            Err(Undone { error, is_synced: true, .. }) => {
                Some(format!("files of queues were not removed: {error}"))
            }
            Err(Undone { error, .. }) => {
                eprintln!(
                    "larder: error: queues are not on the device, and take no items: {error}"
                );
                self.failures += 1;
                None
            }
            Ok(()) => None,
        };
        result.err().into_iter().for_each(|undone| queues.undone(undone));
        let broken = queues.broken().map(str::to_owned);
        if let Some(told) = told {
            self.tell(self.clock.now(), &told);
        }
        for (seat, answer) in waiting {
            self.send(&seat, answer.unless_broken(broken.as_deref()));
        }
    }

    /// Hands an answer over. Where nobody takes it, an item that was taken goes back.
    fn send(&mut self, seat: &Arc<Seat>, answer: Answer) {
        if let Err(Answer::Item(name, item, Read::Take)) = seat.answer(answer)
            && let Some(queues) = &mut self.queues
        {
            queues.restore(&name, item);
            self.restored = true;
            self.serve(&name, self.clock.now());
        }
    }
}
