//! The thread that owns all queues. It takes the messages that have come, carries them out, writes
//! all changed journals, and answers: commands that come together share a write, and, where
//! answers wait for the device, a sync.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use larder_queue::{Damage, Options, Queues, Read, Rules};

use super::{
    Published, Shared,
    fans::Fans,
    seat::{Answer, Ask, Get, Message, Name, Seat},
    stats,
    syncer::Syncer,
    waiters::Waiters,
};
use crate::{
    clock::{Clock, Ms},
    settings::{QueueSettings, QueueSync},
};

/// Messages that are carried out before their answers are sent: a fraction of a millisecond.
const BATCH: usize = 512;
/// Interval of the search for expired items and sparse journals, milliseconds; and between two
/// steps of it where there is much to do.
const TICK: (Ms, Ms) = (1000, 5);

const END: Answer = Answer::text(b"END\r\n");
/// The answer where a client's open reads do not allow a command; as in Kestrel it ends the
/// connection, which gives the items back.
const OPEN_READS: Answer = Answer::Close(b"ERROR\r\n");

/// Counters of commands since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Commands {
    pub(super) gets: u64,
    pub(super) sets: u64,
    pub(super) peeks: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// See the module.
pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
    /// None: another process may have them.
    pub(super) queues: Option<Queues>,
    /// Their state before that, should it end.
    pub(super) lent: Option<Queues>,
    /// Messages to be carried out then.
    pub(super) late: Vec<Message>,
    pub(super) inbox: Receiver<Message>,
    pub(super) syncer: Syncer,
    pub(super) clock: Clock,
    pub(super) sync: QueueSync,
    pub(super) waiters: Waiters,
    /// Answers of this batch; with true it waits for the device, where that is so.
    pub(super) answers: Vec<(Arc<Seat>, Answer, bool)>,
    /// Answers whose changes are written, and may not be on the device.
    pub(super) written: Vec<(Arc<Seat>, Answer)>,
    /// Answers that wait for the device. None: it has no order.
    pub(super) syncing: Option<Vec<(Arc<Seat>, Answer)>>,
    /// Reads that have found expired items only, and go on when others had their turn; with true
    /// the answer waits for the device.
    pub(super) again: Vec<(Arc<Seat>, Get, bool)>,
    /// Items for queues with children.
    pub(super) fans: Fans,
    /// The queues are to be opened again, and could not be.
    pub(super) reopens: bool,
    /// An item has come back since the journals were written.
    pub(super) restored: bool,
    pub(super) tick: Ms,
    pub(super) next_sync: Ms,
    /// When a failure was told.
    pub(super) told: Option<Ms>,
    pub(super) failures: u64,
    pub(super) commands: Commands,
}

/// Opens the queues of the settings.
pub(super) fn open(settings: &QueueSettings, now: Ms) -> io::Result<Queues> {
    let options = Options {
        path: settings.path.clone(),
        memory: settings.memory,
        segment: settings.segment,
        always: settings.sync == QueueSync::Always,
    };
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("queue.path {}: {error}", settings.path.display()))
    };
    let opened = Queues::open(options, settings.rules.clone(), now).map_err(named)?;
    let Some((queues, damage)) = opened else {
        return Err(named(io::Error::other("another process has these queues open")));
    };
    tell_damage(&damage);
    Ok(queues)
}

/// Tells what was found in the files.
pub(super) fn tell_damage(damage: &[Damage]) {
    for found in damage {
        let (queue, at) = (String::from_utf8_lossy(&found.queue).into_owned(), found.offset);
        if found.missing > 0 {
            let (count, from) = (found.missing, found.path.display());
            eprintln!(
                "larder: warning: queue {queue}: files of its journal are missing, and their items \
                 lost: {count} from {from} on"
            );
            continue;
        }
        let lost = if found.is_tail { "its end was not written" } else { "what follows is lost" };
        eprintln!(
            "larder: warning: queue {queue}: segment {} is damaged at byte {at}: {lost}",
            found.segment
        );
    }
}

impl Owner {
    pub(super) fn new(
        shared: Arc<Shared>,
        queues: Queues,
        own: Sender<Message>,
        inbox: Receiver<Message>,
        clock: Clock,
    ) -> io::Result<Owner> {
        let (sync, now) = (shared.settings().sync, clock.now());
        Ok(Owner {
            shared,
            queues: Some(queues),
            lent: None,
            late: Vec::new(),
            inbox,
            syncer: Syncer::start(own)?,
            clock,
            sync,
            waiters: Waiters::default(),
            answers: Vec::new(),
            written: Vec::new(),
            syncing: None,
            again: Vec::new(),
            fans: Fans::default(),
            reopens: false,
            restored: false,
            tick: now,
            next_sync: now,
            told: None,
            failures: 0,
            commands: Commands::default(),
        })
    }

    /// Runs until it is told to end.
    pub(super) fn run(mut self) {
        let _guard = super::Guard(self.shared.clone());
        let mut ends = false;
        while !ends {
            let message = match self.inbox.recv_timeout(self.patience()) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let now = self.clock.now();
            if let Some(message) = message {
                ends |= self.take(message, now);
                for _ in 1..BATCH {
                    let Ok(message) = self.inbox.try_recv() else { break };
                    ends |= self.take(message, now);
                }
            }
            for (seat, get, durable) in std::mem::take(&mut self.again) {
                self.read(seat, get, durable, now);
            }
            self.fan_out(now);
            self.give_up_waits(now);
            self.tick(now);
            self.commit(now);
        }
        if let Err(error) = self.close() {
            eprintln!("larder: error: the queues were not written: {error}");
        }
    }

    /// Time until there is something to do without a message.
    fn patience(&self) -> Duration {
        if !self.answers.is_empty() || !self.again.is_empty() || !self.fans.is_empty() {
            return Duration::ZERO;
        }
        let mut next = self.tick;
        next = self.waiters.deadline().map_or(next, |deadline| next.min(deadline));
        if matches!(self.sync, QueueSync::Every(_)) && self.syncing.is_none() {
            let dirty = self.queues.as_ref().is_some_and(Queues::is_dirty);
            next = if dirty { next.min(self.next_sync) } else { next };
        }
        Duration::from_millis(next.saturating_sub(self.clock.now()))
    }

    /// Carries out a message. True: it was the last.
    pub(super) fn take(&mut self, message: Message, now: Ms) -> bool {
        match message {
            Message::Restore(..) | Message::Left(..) | Message::Rules(_) if self.lent.is_some() => {
                self.late.push(message);
            }
            Message::Ask(seat, ask) => self.ask(seat, ask, now),
            Message::Restore(name, item) => {
                if let Some(queues) = &mut self.queues {
                    queues.restore(&name, item);
                    self.serve(&name, now);
                }
            }
            Message::Left(seat, counts) => self.left(&seat, counts, now),
            Message::Rules(rules) => self.reload(rules),
            Message::Synced(result) => self.synced(result),
            Message::Write(done) => drop(done.send(self.write())),
            Message::Release(done) => drop(done.send(self.lend())),
            Message::TakeBack => self.take_back(now),
            Message::End => return true,
        }
        false
    }

    fn reload(&mut self, rules: Rules) {
        if let Some(queues) = &mut self.queues {
            queues.reload(rules);
        }
    }

    fn left(&mut self, seat: &Arc<Seat>, counts: bool, now: Ms) {
        self.waiters.leave(seat.id());
        self.fans.leave(seat.id());
        let Some(queues) = &mut self.queues else { return };
        for name in queues.leave(seat.id(), counts, now) {
            self.serve(&name, now);
        }
    }

    /// Answers a command at the end of this batch; `durable`: when its changes are on the device.
    pub(super) fn answer(&mut self, seat: Arc<Seat>, answer: Answer, durable: bool) {
        self.answers.push((seat, answer, durable));
    }

    fn ask(&mut self, seat: Arc<Seat>, ask: Ask, now: Ms) {
        let Some(queues) = &mut self.queues else {
            return self.answer(seat, Answer::Close(b""), false);
        };
        match ask {
            Ask::Put(items) => self.put(seat, items, now),
            Ask::Get(get) => self.get(seat, get, now),
            Ask::Abort(name) => {
                let touched = queues.abort(&name, seat.id(), now);
                self.answer(seat, END, true);
                touched.iter().for_each(|name| self.serve(name, now));
            }
            Ask::Confirm(name, count) => {
                let all = queues.opened_by(&name, seat.id()) >= count;
                queues.confirm(&name, seat.id(), count);
                self.answer(seat, if all { END } else { Answer::text(b"ERROR\r\n") }, true);
            }
            Ask::Delete(name) => {
                let answer = queues.delete(&name).map_or_else(|e| Answer::failed(&e), |_| END);
                self.answer(seat, answer, true);
            }
            Ask::Flush(name) => {
                queues.flush(&name);
                self.answer(seat, END, true);
            }
            Ask::FlushExpired(name) => {
                let flushed = queues.flush_expired(&name, now);
                self.answer(seat, Answer::number(flushed), true);
            }
            Ask::FlushAll => {
                queues.names().iter().for_each(|name| queues.flush(name));
                self.answer(seat, Answer::text(b"Flushed all queues.\r\n"), true);
            }
            Ask::FlushAllExpired => {
                let names = queues.names();
                let flushed = names.iter().map(|name| queues.flush_expired(name, now)).sum();
                self.answer(seat, Answer::number(flushed), true);
            }
            Ask::Stats => {
                let text = stats::stats(self, now);
                self.answer(seat, text, false);
            }
            Ask::DumpStats => {
                let text = stats::dump_stats(self);
                self.answer(seat, text, false);
            }
            Ask::DumpConfig => {
                let text = stats::dump_config(queues);
                self.answer(seat, text, false);
            }
        }
    }

    fn get(&mut self, seat: Arc<Seat>, get: Get, now: Ms) {
        let Some(queues) = &mut self.queues else { return };
        let mut closed = 0;
        if get.close {
            closed = queues.confirm(&get.name, seat.id(), 1);
            if get.open == 0 {
                return self.answer(seat, END, closed > 0);
            }
        }
        let opened = queues.opened_by(&get.name, seat.id());
        let allowed = match get.read {
            Read::Peek => true,
            Read::Take => opened == 0,
            Read::Open => opened < get.open,
        };
        if !allowed {
            // A monitor ends at its limit; a second open read is a client's mistake.
            let answer = if get.open > 1 { Answer::Empty } else { OPEN_READS };
            return self.answer(seat, answer, false);
        }
        match get.read {
            Read::Peek => self.commands.peeks += 1,
            _ => self.commands.gets += 1,
        }
        self.read(seat, get, closed > 0, now);
    }

    /// Gives a client the first item, or has it wait. `closed`: it has closed an open read by the
    /// same command.
    fn read(&mut self, seat: Arc<Seat>, get: Get, closed: bool, now: Ms) {
        let Some(queues) = self.queues.as_mut().filter(|_| !seat.is_gone()) else { return };
        match queues.read(&get.name, get.read, seat.id(), now) {
            Err(error) => self.answer(seat, Answer::failed(&error), false),
            Ok(Some(item)) => {
                self.commands.hits += u64::from(get.read != Read::Peek);
                let durable = get.read == Read::Take || closed;
                self.answer(seat, Answer::Item(get.name, item, get.read), durable);
            }
            Ok(None) if queues.is_sweeping(&get.name) => self.again.push((seat, get, closed)),
            Ok(None) if get.wait == 0 => {
                self.commands.misses += u64::from(get.read != Read::Peek);
                self.answer(seat, Answer::Empty, closed);
            }
            Ok(None) => self.waiters.add(seat, get, now),
        }
    }

    /// Gives items of a queue to those who wait for them.
    pub(super) fn serve(&mut self, name: &Name, now: Ms) {
        while let Some(waiter) = self.waiters.first(name) {
            let Some(queues) = &mut self.queues else { return };
            let (read, id) = (waiter.get.read, waiter.seat.id());
            let answer = if waiter.seat.is_gone() {
                None
            } else {
                match queues.read(name, read, id, now) {
                    Ok(None) => {
                        // Items may be behind expired ones.
                        let sweeps = queues.is_sweeping(name);
                        self.tick = if sweeps { now } else { self.tick };
                        return;
                    }
                    Ok(Some(item)) => Some(Answer::Item(name.clone(), item, read)),
                    Err(error) => Some(Answer::failed(&error)),
                }
            };
            let Some(waiter) = self.waiters.pop(name) else { return };
            if let Some(answer) = answer {
                self.commands.hits += u64::from(read != Read::Peek);
                self.answer(waiter.seat, answer, read == Read::Take);
            }
        }
    }

    /// Answers those who have waited long enough.
    fn give_up_waits(&mut self, now: Ms) {
        while let Some(waiter) = self.waiters.pop_late(now) {
            self.commands.misses += u64::from(waiter.get.read != Read::Peek);
            self.answer(waiter.seat, Answer::Empty, false);
        }
    }

    /// The work of each second: expired items go, journals are packed, figures are published.
    fn tick(&mut self, now: Ms) {
        if now < self.tick {
            return;
        }
        self.tick = now + TICK.0;
        if self.reopens {
            self.take_back(now);
        }
        let Some(queues) = &mut self.queues else { return };
        if queues.maintain(now) {
            self.tick = now + TICK.1;
        }
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        *self.shared.published.write() = Published {
            queues: queues.figures().map(|(queue, figures)| (name(queue), figures)).collect(),
            waiting: self.waiters.len() as u64,
            memory: queues.memory(),
            failures: self.failures,
        };
        // Items behind expired ones may be there for those who wait.
        self.waiters.queues().iter().for_each(|name| self.serve(name, now));
    }

    /// The queues, while they are open.
    pub(super) fn queues(&self) -> Option<&Queues> {
        self.queues.as_ref()
    }
}
