//! One fetch for all who wait: the table of fetches under way, and how their news reaches those who
//! joined.
//!
//! A flight lives from the first miss of a key until its response is stored, found to be nobody
//! else's, or failed. Those who come meanwhile, on any worker, join it. They get a [`Landing`],
//! which never is a response that may not be shared.
//!
//! | landing | those who joined |
//! |---|---|
//! | `Streaming` | follow the body as it grows, if their request selects this variant; else they look again |
//! | `LookAgain` | look again: the store has it now (a 304 made the stored page fresh), or ask the origin for themselves |
//! | `Failed` | get the same error, or their stale copy |

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use larder_proto::rules::ErrorCause;
use parking_lot::{Mutex, RwLock};

use crate::origin::{OriginError, Others};

mod streaming;

pub(crate) use streaming::{Follower, Piece, Streaming, Tail};

/// Locks of the table: only misses take one, and only for a look.
const SHARDS: usize = 64;
/// Result of a fetch, for those who wait.
#[derive(Clone)]
pub(crate) enum Landing {
    Streaming(Arc<Streaming>),
    LookAgain(Again),
    Failed(Arc<Failure>),
}

/// Why the store has to be asked again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The stored page has changed.
    Changed,
    /// The page is there now, and came from the disk.
    Disk,
    /// The page is there now, and came from the fleet.
    Remote,
    /// The origin confirmed the stored page just now, whatever its age says.
    Validated,
    /// The page was fetched and stored just now, whatever its age says.
    Stored,
    /// The same, and a slice of the page, by the request that is told so.
    Sliced,
    /// The page cannot be kept in slices.
    Unsliced,
    /// The origin sent a part of a page that is put together of parts: the whole is needed.
    Whole,
    /// The response is private to another requester: this one has to ask for itself.
    Alone,
}

/// A failure, as the client is told.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: ErrorCause,
    pub(crate) status: u16,
    /// For visitors.
    pub(crate) why: &'static str,
    /// For the operator.
    pub(crate) detail: Option<String>,
}

impl Failure {
    /// The answer of the origin, or its lack, is the failure.
    pub(crate) fn caused(cause: ErrorCause, why: &'static str) -> Self {
        let detail = match cause {
            ErrorCause::Status(status) => Some(format!("the origin answered with {status}")),
            ErrorCause::Disconnected => None,
        };
        Self { cause, status: 502, why, detail }
    }

    pub(crate) fn of(error: &OriginError) -> Self {
        let why = match error.status() {
            504 => "the site behind this cache did not answer in time",
            503 => "the site behind this cache is too busy",
            400 => "the request could not be passed on",
            408 => "the request took too long",
            _ => "the site behind this cache could not be reached or did not answer correctly",
        };
        Self {
            cause: ErrorCause::Disconnected,
            status: error.status(),
            why,
            detail: Some(error.to_string()),
        }
    }
}

/// Ends a place in the table that is no key.
const LONE: u8 = 0xff;

/// A fetch under way.
pub(crate) struct Flight {
    /// The page's key, its variant's where one is known.
    key: Box<[u8]>,
    /// The key without variant: what a purge names.
    primary: Box<[u8]>,
    /// The primary key of the response, where that is another: see [`Flights::goes_to`].
    goes_to: Mutex<Option<Box<[u8]>>>,
    /// Where it stands in the table.
    place: Box<[u8]>,
    /// Where it stands besides.
    alias: Mutex<Option<Box<[u8]>>>,
    /// Whether a purge came while it was under way: then nothing of it is kept.
    purged: Mutex<bool>,
    /// Those who joined and still wait.
    waiting: AtomicUsize,
    /// How many tags had been purged when it began.
    since: u64,
    /// How many pages.
    pages_since: u64,
    tags: Mutex<Vec<Box<[u8]>>>,
    /// Clients of other networks than that of the one who leads.
    pub(crate) others: Arc<Others>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    landing: Option<Landing>,
    waiters: Vec<Waker>,
}

impl Flight {
    fn new(
        key: &[u8],
        primary: &[u8],
        place: &[u8],
        [since, pages_since]: [u64; 2],
        client: Option<IpAddr>,
    ) -> Arc<Self> {
        Arc::new(Self {
            key: key.into(),
            primary: primary.into(),
            goes_to: Mutex::default(),
            place: place.into(),
            alias: Mutex::default(),
            purged: Mutex::default(),
            waiting: AtomicUsize::new(0),
            since,
            pages_since,
            tags: Mutex::default(),
            others: Others::new(client),
            state: Mutex::default(),
        })
    }

    /// Tells everybody. The first call counts.
    pub(crate) fn land(&self, landing: Landing) {
        let waiters = {
            let mut state = self.state.lock();
            if state.landing.is_none() {
                state.landing = Some(landing);
            }
            std::mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    async fn landed(&self) -> Landing {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if let Some(landing) = &state.landing {
                return Poll::Ready(landing.clone());
            }
            if !state.waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Whether a purge of these pages, by their primary keys, means it.
    fn is_meant(&self, meant: impl Fn(&[u8]) -> bool) -> bool {
        meant(&self.primary) || self.goes_to.lock().as_deref().is_some_and(meant)
    }

    fn mark_purged(&self) {
        *self.purged.lock() = true;
    }

    /// Whether a purge meant it: nothing of it is kept, and nobody is to join it.
    pub(crate) fn is_purged(&self) -> bool {
        *self.purged.lock()
    }

    /// Runs `write` with whether a purge came so far. A purge that means this flight waits until it
    /// has ended: what `write` stores is either marked already, or found by the purge in the store.
    pub(crate) fn hold_purges<T>(&self, write: impl FnOnce(bool) -> T) -> T {
        let purged = self.purged.lock();
        write(*purged)
    }
}

/// Tags purged lately: a response says only when it comes whether it carries one. Or pages: it says
/// only then which other spellings of its URL are the same page.
#[derive(Default)]
struct PurgedLately {
    latest: VecDeque<Box<[u8]>>,
}

impl PurgedLately {
    fn push(&mut self, purged: &[u8]) {
        self.latest.push_back(purged.into());
        if self.latest.len() > PURGED_LATELY {
            self.latest.pop_front();
        }
    }

    /// Whether one of the latest so many means it. More than are remembered count as one that does.
    fn has(&self, newer: u64, means: impl Fn(&[u8]) -> bool) -> bool {
        let newer = newer as usize;
        newer > self.latest.len() || self.latest.iter().rev().take(newer).any(|held| means(held))
    }
}

/// Purged tags remembered, and pages. A flight that began more purges ago counts as purged: rather
/// one page fetched again.
const PURGED_LATELY: usize = 4096;

/// Came first, or second.
pub(crate) enum Joined {
    /// Fetch, and land the flight.
    Leader(Lead),
    /// Wait for the landing.
    Follower(Passenger),
}

/// Somebody who joined a flight; counted for as long as this lives.
pub(crate) struct Passenger(Arc<Flight>);

impl Passenger {
    fn board(flight: &Arc<Flight>) -> Self {
        flight.waiting.fetch_add(1, Ordering::SeqCst);
        Self(flight.clone())
    }

    /// Waits for the news.
    pub(crate) async fn landed(&self) -> Landing {
        self.0.landed().await
    }
}

impl Drop for Passenger {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The leader's hold on a flight: dropping it takes the flight from the table and, if nothing was
/// landed (a task that was dropped), sends everybody off alone.
pub(crate) struct Lead {
    pub(crate) flight: Arc<Flight>,
    table: Flights,
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.table.remove(&self.flight);
        self.flight.land(Landing::LookAgain(Again::Alone));
    }
}

type Shard = Mutex<HashMap<Box<[u8]>, Arc<Flight>>>;

/// The table of flights, shared by all workers.
#[derive(Clone)]
pub(crate) struct Flights {
    shards: Arc<[Shard]>,
    /// Held for writing while a purge goes through the table, for reading while a flight moves in
    /// it: else a flight could move from a place not seen yet to one that was seen.
    moving: Arc<RwLock<()>>,
    solos: Arc<AtomicU64>,
    purged_tags: Arc<Mutex<PurgedLately>>,
    /// Tags purged since the start.
    purges: Arc<AtomicU64>,
    purged_pages: Arc<Mutex<PurgedLately>>,
    /// Pages purged since the start, by the spelling of the purge.
    page_purges: Arc<AtomicU64>,
    /// Purges of any kind since the start.
    all_purges: Arc<AtomicU64>,
}

impl Flights {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            moving: Arc::default(),
            solos: Arc::default(),
            purged_tags: Arc::default(),
            purges: Arc::default(),
            purged_pages: Arc::default(),
            page_purges: Arc::default(),
            all_purges: Arc::default(),
        }
    }

    fn shard(&self, place: &[u8]) -> &Shard {
        &self.shards[rapidhash::v3::rapidhash_v3(place) as usize % SHARDS]
    }

    /// The purges so far: of tags, and of pages.
    fn since(&self) -> [u64; 2] {
        [&self.purges, &self.page_purges].map(|purges| purges.load(Ordering::SeqCst))
    }

    /// Joins the flight of `key`, or begins it. `primary` is the key without variant, `client` the
    /// address of whom it is for, `hops` the number of caches that the request has passed: only
    /// requests with equal numbers wait for each other.
    pub(crate) fn join(&self, key: &[u8], primary: &[u8], hops: u8, client: IpAddr) -> Joined {
        let since = self.since();
        let mut place = key.to_vec();
        if hops > 0 {
            place.extend_from_slice(&[hops, LONE]);
        }
        let mut shard = self.shard(&place).lock();
        if let Some(flight) = shard.get(&place[..]) {
            flight.others.note(client);
            return Joined::Follower(Passenger::board(flight));
        }
        let flight = Flight::new(key, primary, &place, since, Some(client));
        shard.insert(place.into(), flight.clone());
        Joined::Leader(Lead { flight, table: self.clone() })
    }

    /// Begins a flight nobody can join. It is in the table, so that a purge finds it.
    pub(crate) fn solo(&self, key: &[u8], primary: &[u8]) -> Lead {
        let place = self.lone_place(key);
        let flight = Flight::new(key, primary, &place, self.since(), None);
        self.shard(&place).lock().insert(place, flight.clone());
        Lead { flight, table: self.clone() }
    }

    /// The variant is known now: who asks for it joins under its key, while others start a flight
    /// of their own under the primary key.
    pub(crate) fn alias(&self, flight: &Arc<Flight>, key: &[u8]) {
        if *flight.place == *key || *flight.key != *flight.place {
            return;
        }
        let _moving = self.moving.read();
        if flight.is_purged() {
            return;
        }
        let mut alias: Box<[u8]> = key.into();
        let mut shard = self.shard(&alias).lock();
        if shard.contains_key(&alias) {
            // Another flight brings this variant: nobody joins this one; a purge still finds it.
            drop(shard);
            alias = self.lone_place(key);
            shard = self.shard(&alias).lock();
        }
        shard.insert(alias.clone(), flight.clone());
        drop(shard);
        // It stands in the table at every moment. Nobody else sets its alias.
        self.remove(flight);
        *flight.alias.lock() = Some(alias);
    }

    /// A place in the table under which nobody looks for a flight.
    fn lone_place(&self, key: &[u8]) -> Box<[u8]> {
        let mut place = key.to_vec();
        place.extend_from_slice(&self.solos.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        place.push(LONE);
        place.into()
    }

    /// Removes a flight that nobody has joined from the table. Then nobody can, and it may end.
    pub(crate) fn abandon(&self, flight: &Arc<Flight>) -> bool {
        let mut shard = self.shard(&flight.place).lock();
        let nobody = flight.waiting.load(Ordering::SeqCst) == 0;
        if nobody && shard.get(&flight.place).is_some_and(|held| Arc::ptr_eq(held, flight)) {
            shard.remove(&flight.place);
        }
        nobody
    }

    /// Takes a flight from the table: who comes now starts afresh.
    pub(crate) fn remove(&self, flight: &Arc<Flight>) {
        let alias = flight.alias.lock().take();
        for place in std::iter::once(&flight.place).chain(alias.iter()) {
            let mut shard = self.shard(place).lock();
            if shard.get(place).is_some_and(|held| Arc::ptr_eq(held, flight)) {
                shard.remove(place);
            }
        }
    }

    /// Every flight whose primary key satisfies `meant` keeps nothing, and nobody joins it any
    /// more; so also for a soft purge, which means what is stored. Costs what is under way. How
    /// many there were.
    pub(crate) fn purge(&self, meant: impl Fn(&[u8]) -> bool) -> usize {
        self.purge_where(|flight| flight.is_meant(&meant))
    }

    /// The same for flights whose response carries the tag, or will turn out to.
    pub(crate) fn purge_tag(&self, tag: &[u8]) {
        let mut purged = self.purged_tags.lock();
        self.purges.fetch_add(1, Ordering::SeqCst);
        purged.push(tag);
        drop(purged);
        self.purge_where(|flight| flight.tags.lock().iter().any(|held| **held == *tag));
    }

    /// The flight's response is there, with these tags. A purge of one meanwhile counts.
    pub(crate) fn set_tags(&self, flight: &Arc<Flight>, tags: Vec<Box<[u8]>>) {
        if tags.is_empty() {
            return;
        }
        *flight.tags.lock() = tags;
        let purged = self.purged_tags.lock();
        let newer = self.purges.load(Ordering::SeqCst) - flight.since;
        let tags = flight.tags.lock();
        let is_purged = purged.has(newer, |tag| tags.iter().any(|held| **held == *tag));
        drop((tags, purged));
        if is_purged {
            flight.mark_purged();
            self.remove(flight);
        }
    }

    /// Pages of these URLs, by their keys, are about to be purged: also those that are being
    /// fetched by another spelling.
    pub(crate) fn note_purged(&self, urls: &[Vec<u8>]) {
        let mut purged = self.purged_pages.lock();
        for url in urls {
            self.page_purges.fetch_add(1, Ordering::SeqCst);
            purged.push(url);
        }
    }

    /// The flight's response is there, and goes to this primary key. `means` says of the key of a
    /// purged URL whether it is this page by the response's own rule. Such a purge meanwhile
    /// counts, and from now on one of that primary key does, too.
    pub(crate) fn goes_to(
        &self,
        flight: &Arc<Flight>,
        primary: &[u8],
        means: impl Fn(&[u8]) -> bool,
    ) {
        if *flight.primary != *primary {
            let _moving = self.moving.read();
            *flight.goes_to.lock() = Some(primary.into());
        }
        let purged = self.purged_pages.lock();
        let newer = self.page_purges.load(Ordering::SeqCst) - flight.pages_since;
        let is_purged = purged.has(newer, means);
        drop(purged);
        if is_purged {
            flight.mark_purged();
            self.remove(flight);
        }
    }

    /// Purges of any kind since the start.
    pub(crate) fn purges(&self) -> u64 {
        self.all_purges.load(Ordering::Acquire)
    }

    fn purge_where(&self, meant: impl Fn(&Flight) -> bool) -> usize {
        self.all_purges.fetch_add(1, Ordering::Release);
        let _still = self.moving.write();
        let mut marked = 0;
        for shard in self.shards.iter() {
            shard.lock().retain(|_, flight| {
                let hit = meant(flight);
                if hit {
                    flight.mark_purged();
                    marked += 1;
                }
                !hit
            });
        }
        marked
    }
}
