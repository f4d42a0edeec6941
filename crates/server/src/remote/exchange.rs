//! The exchange of the journal of purges with all servers of the fleet, and with peers.
//!
//! Each server has the log and its sum; an equal sum means that there is nothing new. The log is
//! changed by compare-and-swap; after a conflict it is read again. One task of the process does all
//! of it, so that there is one exchange at a time.
//!
//! A server that does not answer is left out of a round, as each has the whole journal. A round
//! without any answer has failed; then records of the fleet are not used until a round succeeds
//! ([`Exchange::current`]).

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
/// Attempts to write the log against concurrent writers; after that, the next round does it.
const ATTEMPTS: usize = 8;
/// The log is read in one of this many rounds in any case, so that it is not evicted as unused.
const READ: u64 = 16;
/// Intervals after which a read journal is too old to rely on.
const INTERVALS: u32 = 3;

/// The state of reading the journal, and its waiters.
#[derive(Default)]
pub(crate) struct Reading {
    /// The begin of the last successful round, by [`Clock::uptime`]: with a clock that can be set
    /// back, or that stops while the machine sleeps, an old round could seem new. 0: none.
    at: AtomicU64,
    /// The last round failed.
    cut_off: AtomicBool,
    /// A round is wanted at once.
    wanted: Notify,
    /// A round has ended, and its purges are executed.
    ended: Notify,
    /// Rounds that began.
    rounds: AtomicU64,
    /// Rounds that ended: one is over before the next begins.
    over: AtomicU64,
    /// Copies that were equal to ours after the last round.
    written: AtomicUsize,
    /// Rounds in which no server answered.
    failed: AtomicU64,
}

/// The result of an exchange with one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// It has all entries that are known here.
    Written,
    /// All its entries are known here.
    Read,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Whether a copy was read.
    pub(crate) answered: bool,
    /// Copies that have all entries that were known here at its begin.
    pub(crate) written: usize,
}

/// The progress of a purge in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journalled {
    /// Copies of the journal that have it.
    pub(crate) written: usize,
    pub(crate) of: usize,
}

/// The state of the task that exchanges the journal.
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
            each.spawn_local(async move {
                exchange.exchange(&copy, &shared.journal, clock, whole).await
            });
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
                // The log was evicted and its sum was not: without the sum, readers read the log.
                copy.forget_sum().await;
            }
            // The log on the server, if any, was read completely.
            let theirs_read = theirs.is_some() || sum.is_none();
            let read = |reached| if theirs_read { Ok(reached) } else { Err(Unanswered) };
            let Some(log) = journal.merge(theirs, clock.now()) else {
                return read(Reached::Written);
            };
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
    /// Requests a round at once.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits for such a request.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Reports the end of a round that began at `began`; its purges are executed.
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
        // A time in the future is not usable.
        let age = now.checked_sub(at);
        at != 0 && !self.cut_off.load(Ordering::SeqCst) && age.is_some_and(|age| age <= lasting)
    }

    /// Whether records of the fleet may be used: the journal was read recently. If not, requests a
    /// round and waits for its end.
    pub(super) async fn current(&self, clock: Clock, interval: Duration) -> bool {
        let asked = clock.uptime();
        if self.is_current(asked, interval) {
            return true;
        }
        // The current round may have begun before; the next one has not.
        for _ in 0..2 {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no notification is missed.
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

    /// Waits for a round that begins now or later, at most for `patience`. Returns the number of
    /// written copies; None: no round ended in time.
    pub(super) async fn written(&self, patience: Duration) -> Option<usize> {
        // The current round may have begun before.
        let begun = self.rounds.load(Ordering::SeqCst);
        let waiting = async {
            loop {
                let ended = self.ended.notified();
                tokio::pin!(ended);
                // From here on no notification is missed.
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
        // A round has begun.
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

    /// Whether a future is still pending after a poll.
    async fn futures_pending<T>(waiting: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending()))
            .await
    }
}
