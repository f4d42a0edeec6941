//! The journal of purges on its way: to and from every server of the fleet, and to peers.
//!
//! On each server lie the log, and its sum, by which readers see at a glance that there is nothing
//! new. The log is changed by compare-and-swap; who is beaten reads again. One task of the process
//! does all of it, so that there is one exchange at a time.
//!
//! A server that does not answer is left out of a round: each has all. A round in which none
//! answers has failed; then the fleet is not believed until one succeeds ([`Exchange::current`]).

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use larder_client::ConfigError;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    Shared,
    backend::{Copy, Unanswered},
    journal::{Journal, Log},
};
use crate::{
    clock::{Clock, Ms},
    settings::RemoteSettings,
};

/// Bytes of the log at most, where the servers take items of that size.
pub(super) const LOG: usize = 512 << 10;
/// Attempts to write the log against others who write it as well; then the next round has it.
const ATTEMPTS: usize = 8;
/// In every round of so many the log is read in any case, so that it is not evicted as something
/// nobody wants.
const READ: u64 = 16;
/// What was read longer ago than so many intervals is not relied on.
const INTERVALS: u32 = 3;

/// When the journal was read last, and who waits for it.
#[derive(Default)]
pub(crate) struct Reading {
    /// When the last round that succeeded began, by [`Clock::uptime`]: a clock that somebody sets
    /// back, or that stood still while the machine slept, would make an old round a new one. 0:
    /// none has.
    at: AtomicU64,
    /// The last round failed.
    cut_off: AtomicBool,
    /// Somebody wants a round at once.
    wanted: Notify,
    /// A round has ended, and what it brought was carried out.
    ended: Notify,
    /// Rounds that began.
    rounds: AtomicU64,
    /// Rounds that ended: one is over before the next begins.
    over: AtomicU64,
    /// How many copies the last one found or left as ours is.
    written: AtomicUsize,
    /// Rounds in which no server answered.
    failed: AtomicU64,
}

/// How far a copy was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// It has all that is known here.
    Written,
    /// All that it has is known here.
    Read,
}

/// What came of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Whether a copy was read.
    pub(crate) answered: bool,
    /// Copies that have all that was known here when it began.
    pub(crate) written: usize,
}

/// Where a purge stands when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journalled {
    /// Copies of the journal that have it.
    pub(crate) written: usize,
    pub(crate) of: usize,
}

/// What a task that speaks to the servers holds.
pub(crate) struct Exchange {
    copies: Vec<Copy>,
    settings: RemoteSettings,
}

impl Exchange {
    pub(crate) fn open(settings: &RemoteSettings) -> Result<Exchange, ConfigError> {
        Ok(Exchange { copies: Copy::all(settings)?, settings: settings.clone() })
    }

    /// One round over all servers at once.
    pub(crate) async fn round(self: &Rc<Self>, shared: &Arc<Shared>, clock: Clock) -> Round {
        let number = shared.reading.rounds.fetch_add(1, Ordering::SeqCst);
        shared.copies.store(self.copies.len(), Ordering::Relaxed);
        let whole = number.is_multiple_of(READ);
        let mut each = JoinSet::new();
        for copy in &self.copies {
            let (exchange, copy, shared) = (self.clone(), copy.clone(), shared.clone());
            each.spawn_local(async move { exchange.exchange(&copy, &shared.journal, clock, whole).await });
        }
        let all = each.join_all().await;
        let written = all.iter().filter(|copy| **copy == Ok(Reached::Written)).count();
        Round { answered: all.iter().any(Result::is_ok), written }
    }

    async fn exchange(
        &self,
        copy: &Copy,
        journal: &Journal,
        clock: Clock,
        whole: bool,
    ) -> Result<Reached, Unanswered> {
        let sum = copy.sum().await?;
        let own = journal.digest();
        if !whole && sum.as_deref() == own.as_ref().map(|own| &own[..]) {
            return Ok(Reached::Written);
        }
        let lasting = 2 * self.settings.max_expiry;
        for _ in 0..ATTEMPTS {
            let before = copy.log().await?;
            let theirs = before.value().and_then(|log| Log::decode(log));
            if theirs.is_none() && sum.is_some() && !self.settings.read_only {
                // The log is gone and its sum is not: those who would not look at the log must.
                copy.forget_sum().await;
            }
            // What lies there, if anything does, was read whole.
            let theirs_read = theirs.is_some() || sum.is_none();
            let read = |reached| if theirs_read { Ok(reached) } else { Err(Unanswered) };
            let Some(log) = journal.merge(theirs, clock.now()) else { return read(Reached::Written) };
            if self.settings.read_only {
                return read(Reached::Read);
            }
            if copy.write(before, log, journal.digest(), lasting).await? {
                return read(Reached::Written);
            }
        }
        Ok(Reached::Read)
    }
}

impl Reading {
    /// A round at once, please.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until somebody wants one.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// A round that began at `began` is over, and what it brought was carried out.
    pub(crate) fn ended(&self, began: Ms, round: Round) {
        let answered = round.answered;
        self.written.store(round.written, Ordering::SeqCst);
        self.over.fetch_add(1, Ordering::SeqCst);
        if answered {
            self.at.store(began, Ordering::SeqCst);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        self.cut_off.store(!answered, Ordering::SeqCst);
        self.ended.notify_waiters();
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn is_current(&self, now: Ms, interval: Duration) -> bool {
        let lasting = (interval * INTERVALS).as_millis() as Ms;
        let at = self.at.load(Ordering::SeqCst);
        // What seems to be from the time to come says nothing.
        let age = now.checked_sub(at);
        at != 0 && !self.cut_off.load(Ordering::SeqCst) && age.is_some_and(|age| age <= lasting)
    }

    /// Whether what the fleet has may be believed: all that was purged was heard of lately. Where
    /// it was not, asks for a round and waits for its end.
    pub(super) async fn current(&self, clock: Clock, interval: Duration) -> bool {
        let asked = clock.uptime();
        if self.is_current(asked, interval) {
            return true;
        }
        // The round that is under way may have begun before; the next one has not.
        for _ in 0..2 {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no end is missed.
            ended.as_mut().enable();
            self.want();
            ended.await;
            if self.cut_off.load(Ordering::SeqCst) {
                return false;
            }
            if self.at.load(Ordering::SeqCst) >= asked {
                return true;
            }
        }
        false
    }

    /// Waits for a round that begins now or later, at most for `patience`; how many copies it
    /// wrote. None: there was none in time.
    pub(super) async fn written(&self, patience: Duration) -> Option<usize> {
        // What is under way may have begun before.
        let begun = self.rounds.load(Ordering::SeqCst);
        let waiting = async {
            loop {
                let ended = self.ended.notified();
                tokio::pin!(ended);
                // From here on no end is missed.
                ended.as_mut().enable();
                if self.over.load(Ordering::SeqCst) > begun {
                    return self.written.load(Ordering::SeqCst);
                }
                self.want();
                ended.await;
            }
        };
        tokio::time::timeout(patience, waiting).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    #[test]
    fn a_round_is_current_for_three_intervals_and_not_before_it_was() {
        let reading = Reading::default();
        assert!(!reading.is_current(1000, INTERVAL), "there was none");
        reading.ended(1000, Round { answered: true, written: 1 });
        assert!(reading.is_current(1000, INTERVAL) && reading.is_current(1300, INTERVAL));
        assert!(!reading.is_current(1301, INTERVAL));
        assert!(!reading.is_current(999, INTERVAL), "a clock was set back");
        reading.ended(1400, Round::default());
        assert!(!reading.is_current(1400, INTERVAL), "cut off");
    }

    #[tokio::test(start_paused = true)]
    async fn a_purge_waits_for_a_round_that_began_after_it() {
        let reading = Reading::default();
        let patience = Duration::from_secs(1);
        assert_eq!(reading.written(patience).await, None, "nobody makes rounds");
        // One is under way.
        reading.rounds.fetch_add(1, Ordering::SeqCst);
        let waiting = reading.written(patience);
        tokio::pin!(waiting);
        assert!(futures_pending(&mut waiting).await);
        reading.ended(1, Round { answered: true, written: 2 });
        assert!(futures_pending(&mut waiting).await, "it may have begun before");
        reading.rounds.fetch_add(1, Ordering::SeqCst);
        reading.ended(2, Round { answered: true, written: 3 });
        assert_eq!(waiting.await, Some(3));
    }

    /// Whether it still waits when it has been looked at.
    async fn futures_pending<T>(waiting: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await
    }
}
