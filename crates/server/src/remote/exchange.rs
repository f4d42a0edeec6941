//! The journal of purges on its way: to and from every server of the fleet, and to peers.
//!
//! On each server lie the log, and its sum, by which readers see at a glance that there is nothing new. The log is changed by
//! compare-and-swap; who is beaten reads again. One task of the process does all of it, so that there is one exchange at a time.
//!
//! A server that does not answer is left out of a round: each has all. A round in which none answers has failed; then the fleet is
//! not believed until one succeeds ([`Exchange::current`]).

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use larder_client::{Client, ConfigError, Eject, Health, Item, Store};
use tokio::{sync::Notify, task::JoinSet};

use super::{
    Shared,
    backend::Unanswered,
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
/// In every round of so many the log is read in any case, so that it is not evicted as something nobody wants.
const READ: u64 = 16;
/// What was read longer ago than so many intervals is not relied on.
const INTERVALS: u32 = 3;

/// When the journal was read last, and who waits for it.
#[derive(Default)]
pub(crate) struct Reading {
    /// When the last round that succeeded began. 0: none has.
    at: AtomicU64,
    /// The last round failed.
    cut_off: AtomicBool,
    /// Somebody wants a round at once.
    wanted: Notify,
    /// A round has ended, and what it brought was carried out.
    ended: Notify,
    rounds: AtomicU64,
    /// Rounds in which no server answered.
    failed: AtomicU64,
}

/// What a task that speaks to the servers holds: for each a client of its own.
pub(crate) struct Exchange {
    servers: Vec<Client>,
    settings: RemoteSettings,
    log: Vec<u8>,
    sum: Vec<u8>,
}

impl Exchange {
    pub(crate) fn open(settings: &RemoteSettings) -> Result<Exchange, ConfigError> {
        let all = settings.fleet.servers.iter().chain(&settings.fleet.spares);
        let client = |server: &larder_client::Server| {
            let mut fleet = settings.fleet.clone();
            (fleet.servers, fleet.spares, fleet.replicas) = (vec![server.clone()], Vec::new(), 1);
            (fleet.failure.eject, fleet.connections) = (Eject::No, 1);
            Client::sharing_health(fleet, &Health::new())
        };
        Ok(Exchange {
            servers: all.map(client).collect::<Result<_, _>>()?,
            settings: settings.clone(),
            log: format!("{}:j:log", settings.namespace).into_bytes(),
            sum: format!("{}:j:sum", settings.namespace).into_bytes(),
        })
    }

    /// One round over all servers at once; whether one of them answered.
    pub(crate) async fn round(self: &Rc<Self>, shared: &Arc<Shared>, clock: Clock) -> bool {
        let number = shared.reading.rounds.fetch_add(1, Ordering::Relaxed);
        let whole = number.is_multiple_of(READ);
        let mut each = JoinSet::new();
        for server in &self.servers {
            let (exchange, server, shared) = (self.clone(), server.clone(), shared.clone());
            each.spawn_local(async move { exchange.exchange(&server, &shared.journal, clock, whole).await });
        }
        each.join_all().await.iter().any(Result::is_ok)
    }

    async fn exchange(
        &self,
        server: &Client,
        journal: &Journal,
        clock: Clock,
        whole: bool,
    ) -> Result<(), Unanswered> {
        let sum = server.get(&self.sum).await.map_err(|_| Unanswered)?.map(|item| item.value);
        let own = journal.digest();
        if !whole && sum.as_deref() == own.as_ref().map(|own| &own[..]) {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            let item = server.gets(&self.log).await.map_err(|_| Unanswered)?;
            let theirs = item.as_ref().and_then(|item| Log::decode(&item.value));
            if theirs.is_none() && sum.is_some() && !self.settings.read_only {
                // The log is gone and its sum is not: those who would not look at the log must.
                let _ = server.delete(&self.sum).await;
            }
            // What lies there, if anything does, was read whole.
            let read = if theirs.is_some() || sum.is_none() { Ok(()) } else { Err(Unanswered) };
            let Some(log) = journal.merge(theirs, clock.now()) else { return read };
            if self.settings.read_only || self.write(server, journal, item, log).await? {
                return read;
            }
        }
        Ok(())
    }

    /// False: another was faster.
    async fn write(
        &self,
        server: &Client,
        journal: &Journal,
        before: Option<Item>,
        log: Vec<u8>,
    ) -> Result<bool, Unanswered> {
        let lasting = Store::lasting(2 * self.settings.max_expiry);
        // The sum first: who sees a sum that is not his looks at the log; the other way round he could miss it.
        if let Some(sum) = journal.digest() {
            server.set(&self.sum, Bytes::copy_from_slice(&sum), lasting).await.map_err(|_| Unanswered)?;
        }
        let stored = match before {
            Some(Item { cas: Some(cas), .. }) => server.cas(&self.log, log.into(), cas, lasting).await,
            Some(_) => server.set(&self.log, log.into(), lasting).await,
            None => server.add(&self.log, log.into(), lasting).await,
        };
        stored.map(|stored| stored.is_stored()).map_err(|_| Unanswered)
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
    pub(crate) fn ended(&self, began: Ms, answered: bool) {
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
        at != 0 && !self.cut_off.load(Ordering::SeqCst) && now.saturating_sub(at) <= lasting
    }

    /// Whether what the fleet has may be believed: all that was purged was heard of lately. Where it was not, asks for a round and
    /// waits for its end.
    pub(super) async fn current(&self, clock: Clock, interval: Duration) -> bool {
        let asked = clock.now();
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
}
