//! The disk tier: pages, and slices of large ones, that leave memory and were asked for more than
//! once, found again after any restart.
//!
//! Memory first, then the disk, then the fleet, then the origin. Lookups for requests are in
//! `fetch::disk`; the files are `larder-disk`'s. This room connects them:
//!
//! | file | what |
//! |---|---|
//! | `queue.rs` | pages on their way to the disk |
//! | `writer.rs` | the thread that writes them, opens the disk, and tries again after failures |
//! | `purges.rs` | purges: noted at once, durable by a thread of its own |
//! | `purged.rs`, `prefixes.rs` | purges by what they mean: no record from before one is used |
//! | `sites.rs` | the sites that purges of tags are of, known after a start |
//! | `fleet.rs` | purges of other Larders that are carried out, known after a start |
//! | `read.rs` | reading a record, with all checks before it is used |
//! | `slices.rs` | slices: their keys and records, reading one into memory |
//! | `objects.rs` | values of memcached's items, where wanted |
//! | `trouble.rs` | failures: told once, and when to try again |
//! | `hottest.rs` | at a stop, what memory has that the disk has not |
//! | `figures.rs` | counters and figures |
//!
//! Limits: [`queue::LONGEST`] pages on their way (further ones are dropped and counted),
//! [`read::READS`] reads at once, [`read::LARGE`] of large records. A failure turns the tier off
//! for [`writer::RETRY`]: requests go on without it. A full file system stops writes alone.

mod figures;
mod fleet;
mod hottest;
mod objects;
mod prefixes;
mod purged;
mod purges;
mod queue;
mod read;
mod sites;
mod slices;
mod trouble;
mod writer;

use std::{
    borrow::Cow,
    collections::HashSet,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use larder_disk::{Directory, Disk, Options, key_hash};
use larder_proto::page::slice_on_disk;
use larder_store::{Entry, Namespace, Store};
use parking_lot::{Mutex, RwLock};

pub(crate) use self::objects::Brought;
pub(crate) use self::purges::Begun;
pub(crate) use self::read::{Answer, DiskRecord};
pub(crate) use self::sites::fingerprint;
pub(crate) use self::slices::SliceRead;
use self::{
    figures::Counters, purged::Purged, purges::Notices, queue::End, queue::Item, queue::Queue,
    read::Reads, sites::Sites, trouble::Trouble,
};
use crate::{
    clock::Clock,
    page::lookup::{PAGES, SLICES},
    settings::DiskSettings,
};

/// The namespaces of memory that are kept on the disk.
const KEPT: [Namespace; 2] = [PAGES, SLICES];

/// Milliseconds for reads under way.
const CLOSE: usize = 1000;
/// Most keys that are replaced while the disk is not open; with more, it is emptied.
const REPLACED: usize = 1 << 16;

/// Time to seal what is open, after the end of the time for pages.
const SEALING: Duration = Duration::from_secs(2);
/// Time between two looks at threads that end.
const LOOK: Duration = Duration::from_millis(5);

/// The pages that a purge means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Means<'p> {
    /// Pages by their primary keys.
    Keys(&'p [Vec<u8>]),
    /// Pages of a host and port by the start of path and query.
    Prefix(&'p str, u16, &'p [u8]),
    /// Pages with a tag of a site.
    Tag(&'p [u8]),
    /// Pages that an expression means.
    Ban(&'p str),
    /// All pages.
    All,
}

/// Changes that the disk has to know of, from a time in which it was not open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Something was purged: what the disk has may not be used.
    pub(crate) purges: bool,
    /// Hashes of keys of which memory got newer records.
    pub(crate) replaced: Vec<u64>,
}

/// The tier, shared by all threads.
pub(crate) struct Tier {
    settings: DiskSettings,
    store: &'static Store,
    clock: Clock,
    /// A number that no other process has.
    random: u64,
    /// None: it could not be opened yet.
    disk: RwLock<Option<Arc<Disk<Directory>>>>,
    /// It failed, and is not used for a while.
    off: AtomicBool,
    /// It is full, and not written to for a while.
    full: AtomicBool,
    /// When to try again what failed.
    retry_at: AtomicU64,
    /// Failures that were told: bits of [`Trouble`].
    troubles: AtomicU8,
    /// Something was purged while the disk was not open: what it has may not be used.
    missed: AtomicBool,
    /// Hashes of keys of which memory got newer records while the disk was not open.
    replaced: Mutex<HashSet<u64>>,
    /// Published pages may be on the disk.
    published: AtomicBool,
    /// The server ends: no more pages are taken.
    ending: AtomicBool,
    queue: Queue,
    purged: Purged,
    executed: fleet::Executed,
    sites: Sites,
    notices: Notices,
    reads: Reads,
    counters: Counters,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The key on the disk of an entry of memory.
fn key_in(ns: Namespace, key: &[u8]) -> Cow<'_, [u8]> {
    if ns == SLICES { Cow::Owned(slice_on_disk(key)) } else { Cow::Borrowed(key) }
}

impl Tier {
    /// Opens the disk and starts its threads. A disk that cannot be opened is tried again later.
    /// `sites`: see [`fingerprint`]. `missed`: what happened since another process closed the disk
    /// whose memory this one has.
    pub(crate) fn start(
        settings: DiskSettings,
        store: &'static Store,
        (clock, random): (Clock, u64),
        sites: u64,
        missed: Missed,
    ) -> io::Result<Arc<Tier>> {
        let tier = Arc::new(Tier {
            settings,
            store,
            clock,
            random,
            disk: RwLock::default(),
            off: AtomicBool::new(false),
            full: AtomicBool::new(false),
            retry_at: AtomicU64::new(0),
            troubles: AtomicU8::new(0),
            missed: AtomicBool::new(missed.purges),
            replaced: Mutex::new(missed.replaced.into_iter().collect()),
            published: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            queue: Queue::default(),
            purged: Purged::default(),
            executed: fleet::Executed::default(),
            sites: Sites::new(sites),
            notices: Notices::default(),
            reads: Reads::default(),
            counters: Counters::default(),
            threads: Mutex::default(),
        });
        let opened = match tier.open() {
            Ok(opened) => Some(opened),
            Err(error) => {
                tier.failed(Trouble::Open, &error);
                None
            }
        };
        let (before, after) = (tier.clone(), tier.clone());
        store.hand_over(
            &KEPT,
            Box::new(move || before.ticket()),
            Box::new(move |ns, entry, ticket| after.offer(ns, entry, ticket)),
        );
        let (writing, purging) = (tier.clone(), tier.clone());
        let writer = std::thread::Builder::new().name("larder-disk".to_owned());
        let writer = writer.spawn(move || writing.write(opened))?;
        let purges = std::thread::Builder::new().name("larder-purges".to_owned());
        let purges = purges.spawn(move || purging.write_purges())?;
        tier.threads.lock().extend([writer, purges]);
        Ok(tier)
    }

    /// Opens the disk; the purges in its journal count from now on.
    fn open(&self) -> io::Result<(Arc<Disk<Directory>>, larder_disk::Writer<Directory>)> {
        let files = Directory::take(&self.settings.path)?;
        let missed = self.missed.swap(false, Ordering::SeqCst);
        if missed && let Err(error) = larder_disk::empty(&files) {
            self.missed.store(true, Ordering::SeqCst);
            return Err(error);
        }
        let options = Options {
            size: self.settings.size,
            write_limit: self.settings.write_limit,
            random: self.random ^ self.clock.now().rotate_left(32),
        };
        let (disk, purges) = Disk::open(files, options)?;
        let disk = Arc::new(disk);
        let writer = disk.writer()?;
        // Of an earlier run.
        self.published.fetch_or(writer.first() > 1, Ordering::Relaxed);
        let mut same_sites = false;
        for purge in &purges {
            match purge.kind {
                fleet::FLEET => self.executed.found(purge),
                sites::SITES => same_sites = self.sites.are_those(purge),
                _ => self.purged.found(purge, same_sites),
            }
        }
        *self.disk.write() = Some(disk.clone());
        if !same_sites {
            self.sites.forgotten();
        }
        self.note_sites();
        for hash in std::mem::take(&mut *self.replaced.lock()) {
            disk.forget_hashed(hash);
        }
        // Something came between the look and now. The purge is noted before the mark goes.
        if self.missed.load(Ordering::SeqCst) {
            drop(self.begin(Means::All, self.clock.now()));
            self.missed.store(false, Ordering::SeqCst);
        }
        Ok((disk, writer))
    }

    fn disk(&self) -> Option<Arc<Disk<Directory>>> {
        self.disk.read().clone()
    }

    /// The disk, for a change that it has to know of. `None`: it is not open, and is emptied before
    /// it is used. Under the lock: whoever opens the disk sees the mark, or the caller the disk.
    fn disk_or_missed(&self) -> Option<Arc<Disk<Directory>>> {
        let disk = self.disk.read();
        if disk.is_none() {
            self.missed.store(true, Ordering::SeqCst);
        }
        disk.clone()
    }

    /// The disk, if it is in use.
    fn working(&self) -> Option<Arc<Disk<Directory>>> {
        if self.off.load(Ordering::Relaxed) { None } else { self.disk() }
    }

    /// The disk, if it is written to.
    fn writable(&self) -> Option<Arc<Disk<Directory>>> {
        if self.full.load(Ordering::Relaxed) { None } else { self.working() }
    }

    /// The ticket of records that are in memory now.
    fn ticket(&self) -> u64 {
        self.writable().map_or(0, |disk| disk.ticket())
    }

    /// Takes a page or slice that was evicted.
    fn offer(&self, ns: Namespace, entry: Entry<'static>, ticket: u64) {
        let Some(disk) = self.writable().filter(|_| ticket > 0) else { return };
        if slices::is_for_memory(ns, &entry) || !disk.register(&key_in(ns, entry.key()), ticket) {
            return;
        }
        let mut item = Some(Item::Evicted(ns, entry, ticket));
        if !self.queue.push(&mut item) {
            if let Some(Item::Evicted(ns, entry, ticket)) = item {
                disk.withdraw(&key_in(ns, entry.key()), ticket);
            }
            self.counters.dropped.one();
        }
    }

    /// Writes the page under a key that memory has now, whether it is asked for again or not.
    pub(crate) fn keep(&self, key: &[u8]) {
        self.keep_in(PAGES, key);
    }

    fn keep_in(&self, ns: Namespace, key: &[u8]) {
        if self.writable().is_some() && !self.queue.push(&mut Some(Item::Key(ns, key.into()))) {
            self.counters.dropped.one();
        }
    }

    /// Memory has a newer record of this key, or knows that the one on the disk is of no use.
    /// Whether the disk had one.
    pub(crate) fn replaced(&self, key: &[u8]) -> bool {
        let slot = self.disk.read();
        let Some(disk) = &*slot else {
            let mut replaced = self.replaced.lock();
            if replaced.len() < REPLACED {
                replaced.insert(key_hash(key));
            } else {
                self.missed.store(true, Ordering::SeqCst);
            }
            return false;
        };
        let disk = disk.clone();
        drop(slot);
        disk.forget(key)
    }

    /// A page is put over what is there, which no restart may bring back. The result is to be
    /// dropped once it is in memory: until then, the page before it may leave memory for the disk.
    pub(crate) fn publishing<'t>(&'t self, key: &'t [Vec<u8>]) -> Begun<'t> {
        self.begin(Means::Keys(key), self.clock.now())
    }

    /// Writes a published page that memory has, whatever it is asked for: no origin has it.
    pub(crate) fn keep_published(&self, key: &[u8]) {
        self.published.store(true, Ordering::Relaxed);
        self.keep(key);
    }

    /// Whether a published page may be on the disk under this key, also one that a start has not
    /// found yet.
    pub(crate) fn may_be_published(&self, key: &[u8]) -> bool {
        let may_have = |disk: Arc<Disk<Directory>>| disk.is_loading() || disk.has(key);
        self.published.load(Ordering::Relaxed) && self.working().is_some_and(may_have)
    }

    /// Gives the directory up, for another process. Reads under way come to their end first, or
    /// have a second for it. Changes from now on are kept ([`Tier::missed`]).
    pub(crate) fn release(&self) {
        self.off.store(true, Ordering::SeqCst);
        let Some(disk) = self.disk.write().take() else { return };
        for _ in 0..CLOSE {
            if Arc::strong_count(&disk) == 1 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // The thread that writes them has ended before the last ones came. A device that does not
        // answer others is not waited for.
        let answers = Arc::strong_count(&disk) == 1;
        if disk.has_purges() && !(answers && disk.write_purges().is_ok()) {
            self.missed.store(true, Ordering::SeqCst);
        }
    }

    /// Changes since the disk was given up, or while it could not be opened.
    pub(crate) fn missed(&self) -> Missed {
        let replaced = self.replaced.lock().iter().copied().collect();
        Missed { purges: self.missed.load(Ordering::SeqCst), replaced }
    }

    /// A disk that was given up for another process, which has ended: it is not used until a
    /// restart, and hears of no purge until then, so it is emptied.
    pub(crate) fn forsake(&self) {
        if !self.ending.load(Ordering::SeqCst) {
            return;
        }
        let path = &self.settings.path;
        let mut emptied = Ok(());
        for _ in 0..CLOSE {
            emptied = Directory::take(path).and_then(|files| larder_disk::empty(&files));
            if emptied.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let path = path.display();
        match emptied {
            Ok(()) => eprintln!("larder: the disk {path} is empty, and not used until a restart"),
            Err(error) => eprintln!(
                "larder: error: the disk {path} cannot be emptied, and must be before a restart: \
                 what is purged from now on is still there: {error}"
            ),
        }
    }

    /// Ends the tier: what waits is written within `patience`, and where `hottest` says so, what is
    /// hot in memory; all segments are sealed. A device that does not answer is not waited for.
    pub(crate) fn end(&self, patience: Duration, hottest: bool) {
        let until = self.clock.now() + patience.as_millis() as u64;
        self.queue.end(End { until, hottest });
        self.ending.store(true, Ordering::SeqCst);
        if let Some(disk) = self.disk() {
            disk.stop_loading();
        }
        self.notices.end();
        let threads = std::mem::take(&mut *self.threads.lock());
        let mut left = patience + SEALING;
        while threads.iter().any(|thread| !thread.is_finished()) {
            if left.is_zero() {
                let path = self.settings.path.display();
                eprintln!("larder: the disk {path} does not answer; what was not written is lost");
                return;
            }
            let step = left.min(LOOK);
            std::thread::sleep(step);
            left -= step;
        }
    }
}
