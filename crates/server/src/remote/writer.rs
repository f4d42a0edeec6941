//! Sends pages to the fleet, in the background.
//!
//! The queue has keys and versions, not pages: a slow fleet holds no memory. A page is looked up
//! and copied when its turn comes; if it was replaced, purged or evicted meanwhile, it is not sent.
//! [`SENDING`] are being sent at a time, each of at most `remote.page_size` bytes twice over (as
//! read, and as packed), or as many as [`SENDING_SMALL`] small ones. Pages that find the queue full
//! are dropped and counted.
//!
//! A page that was purged while it was sent is deleted again: a purge deletes it in the store
//! first, and the sender checks the store last.

use std::{rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use larder_proto::{
    page::{Kind, Meta, PageFlags, PageView, Verify, view},
    rules::current_age,
};
use larder_store::{Entry, Store};
use tokio::{
    sync::{Semaphore, mpsc},
    task::spawn_local,
};

use super::{
    Lease, Shared,
    backend::{Backend, Unanswered},
    counters::Counters,
    journal::KnownPurges,
    key,
    pack::{Packing, compressible, pack},
};
use crate::{
    clock::{Clock, Ms},
    page::lookup::PAGES,
    settings::RemoteSettings,
};

/// Large records being sent at the same time, per worker.
pub(super) const SENDING: usize = 4;
/// The same of small ones. Enough that writes to a server that does not answer leave room for
/// others, for which other Larders may wait. (With four, four writes to one slow server delayed all
/// others for a timeout.)
const SENDING_SMALL: usize = 64;
/// Bytes of a small one. A larger one counts as several.
const SMALL: u64 = 64 << 10;
/// Parts of one page being sent at the same time.
const PARTS_AT_ONCE: usize = 8;

/// A task of the writer.
enum WriteJob {
    /// Send the page of this key, if it still has this version.
    Page(Box<[u8]>, u64, Option<Lease>),
    /// Send the marker of this key.
    Marker(Box<[u8]>),
}

/// The arguments of a writer.
pub(super) struct Start {
    pub(super) settings: RemoteSettings,
    pub(super) backend: Backend,
    pub(super) counters: Arc<Counters>,
    pub(super) store: &'static Store,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Clock,
    pub(super) random: u64,
}

/// The queue of a worker's writer.
pub(crate) struct Writer {
    jobs: Option<mpsc::Sender<WriteJob>>,
    counters: Arc<Counters>,
}

impl Writer {
    /// Starts the sending task, unless the fleet is read-only. It ends with the worker's runtime.
    pub(super) fn start(start: Start) -> Self {
        let counters = start.counters.clone();
        let jobs = (!start.settings.read_only).then(|| {
            let (send, jobs) = mpsc::channel(start.settings.queue.max(1));
            spawn_local(serve(Rc::new(Sender { writes: start.random.into(), start }), jobs));
            send
        });
        Self { jobs, counters }
    }

    /// Queues a stored page. The lease is held until it is sent.
    pub(crate) fn page(&self, key: &[u8], version: u64, lease: Option<Lease>) {
        self.job(WriteJob::Page(key.into(), version, lease));
    }

    /// Queues a page's marker.
    pub(crate) fn marker(&self, primary: &[u8]) {
        self.job(WriteJob::Marker(primary.into()));
    }

    fn job(&self, job: WriteJob) {
        if let Some(jobs) = &self.jobs
            && jobs.try_send(job).is_err()
        {
            self.counters.dropped.one();
        }
    }
}

struct Sender {
    start: Start,
    /// The random number of the last write.
    writes: std::cell::Cell<u64>,
}

async fn serve(sender: Rc<Sender>, mut jobs: mpsc::Receiver<WriteJob>) {
    let permits = Arc::new(Semaphore::new(SENDING_SMALL));
    while let Some(job) = jobs.recv().await {
        let Ok(place) = permits.clone().acquire_many_owned(sender.permits(&job)).await else {
            return;
        };
        let sender = sender.clone();
        spawn_local(async move {
            sender.carry_out(job).await;
            drop(place);
        });
    }
}

/// A page that may be shared, as it is to be sent.
struct OutgoingRecord {
    bytes: Vec<u8>,
    compress: bool,
    lasting: Duration,
}

impl Sender {
    /// The number of [`SENDING_SMALL`] permits that a task needs.
    fn permits(&self, job: &WriteJob) -> u32 {
        let (WriteJob::Page(key, ..) | WriteJob::Marker(key)) = job;
        let Some(entry) = self.start.store.peek(PAGES, key, self.start.clock.now()) else {
            return 1;
        };
        permits(entry.len())
    }

    async fn carry_out(&self, job: WriteJob) {
        let counters = &self.start.counters;
        match job {
            WriteJob::Page(key, version, lease) => {
                let Some(record) = self.page(&key, version) else { return };
                match self.send(&key, record).await {
                    Ok(()) => {
                        counters.stores.one();
                        if let Some(lease) = lease {
                            lease.sent();
                        }
                    }
                    Err(Unanswered) => counters.store_failed.one(),
                }
                // In any case: the write may have arrived.
                if self.start.store.peek(PAGES, &key, self.start.clock.now()).is_none() {
                    self.delete(&key).await;
                }
            }
            WriteJob::Marker(key) => {
                let Some(record) = self.marker(&key) else { return };
                if self.send(&key, record).await.is_err() {
                    counters.store_failed.one();
                }
                if self.start.store.peek(PAGES, &key, self.start.clock.now()).is_none() {
                    self.delete(&key).await;
                }
            }
        }
    }

    async fn delete(&self, key: &[u8]) {
        let name = key::name(&self.start.settings.namespace, key);
        match self.start.backend.delete(&name).await {
            Ok(_) => self.start.counters.deletes.one(),
            Err(Unanswered) => self.start.counters.delete_failed.one(),
        }
    }

    /// The page, if it may (still) be shared.
    fn page(&self, key: &[u8], version: u64) -> Option<OutgoingRecord> {
        let (settings, now) = (&self.start.settings, self.start.clock.now());
        // Before the lookup of the page: purges that are known by now are executed on it.
        let knows = self.start.shared.journal.knows();
        let entry = self.start.store.peek(PAGES, key, now)?;
        if entry.version() != version || entry.stale() || entry.len() > settings.page_size {
            return None;
        }
        let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        let lasting = lasting(&page.meta, settings, now)?;
        let compress =
            settings.compress.is_some_and(|from| page.body_len >= from) && compressible(&page);
        Some(OutgoingRecord { bytes: bytes_of(&knows, &entry), compress, lasting })
    }

    /// Markers have the longest lifetime: a variant without its marker cannot be found.
    fn marker(&self, key: &[u8]) -> Option<OutgoingRecord> {
        let knows = self.start.shared.journal.knows();
        let entry = self.start.store.peek(PAGES, key, self.start.clock.now())?;
        let page: PageView<'_> = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        (page.meta.kind == Kind::VaryMarker).then(|| OutgoingRecord {
            bytes: bytes_of(&knows, &entry),
            compress: false,
            lasting: self.start.settings.max_expiry,
        })
    }

    /// Sends the parts first, so that a reader of the index finds them.
    async fn send(&self, key: &[u8], record: OutgoingRecord) -> Result<(), Unanswered> {
        let settings = &self.start.settings;
        let write = self
            .writes
            .get()
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        self.writes.set(write);
        let packing = Packing {
            item: settings.fleet.max_item,
            compress: record.compress,
            sent: self.start.clock.now(),
            write,
        };
        let packed = pack(record.bytes, packing).await.ok_or(Unanswered)?;
        let name = key::name(&settings.namespace, key);
        let parts: Vec<(Vec<u8>, Bytes)> = packed
            .parts
            .into_iter()
            .zip(0..)
            .map(|(part, n)| (key::part(&name, write, n), part))
            .collect();
        for some in parts.chunks(PARTS_AT_ONCE) {
            self.send_parts(some, record.lasting).await?;
        }
        self.start.backend.set(&name, packed.first, record.lasting).await
    }

    async fn send_parts(
        &self,
        parts: &[(Vec<u8>, Bytes)],
        lasting: Duration,
    ) -> Result<(), Unanswered> {
        let sending: Vec<_> = parts
            .iter()
            .cloned()
            .map(|(name, part)| {
                let backend = self.start.backend.clone();
                spawn_local(async move { backend.set(&name, part, lasting).await })
            })
            .collect();
        let mut sent = Ok(());
        for part in sending {
            sent = sent.and(part.await.unwrap_or(Err(Unanswered)));
        }
        sent
    }
}

/// The number of [`SENDING_SMALL`] permits that a record needs.
fn permits(bytes: u64) -> u32 {
    bytes.div_ceil(SMALL).clamp(1, (SENDING_SMALL / SENDING) as u64) as u32
}

/// The lifetime of a page in the fleet: fresh, and stale within its window. None: it must not be
/// shared.
fn lasting(meta: &Meta, settings: &RemoteSettings, now: Ms) -> Option<Duration> {
    let unfit = PageFlags::NO_CACHE.with(PageFlags::COPY);
    if meta.kind != Kind::Page || meta.partial.is_some() || meta.flags.any(unfit) {
        return None;
    }
    let fresh =
        Duration::from_secs(u64::from(meta.freshness.saturating_sub(current_age(meta, now))));
    if fresh.is_zero() || fresh < settings.min_freshness {
        return None;
    }
    let window = Duration::from_secs(u64::from(meta.swr.max(meta.sie)));
    Some((fresh + window).min(settings.max_expiry))
}

/// The known purges and a copy of the whole entry.
fn bytes_of(knows: &KnownPurges, entry: &Entry<'_>) -> Vec<u8> {
    let mut out = knows.encode();
    out.reserve_exact(entry.len() as usize);
    entry.chunks().for_each(|chunk| out.extend_from_slice(chunk));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ms = 1_700_000_000_000;

    fn settings() -> RemoteSettings {
        RemoteSettings {
            min_freshness: Duration::from_secs(2),
            max_expiry: Duration::from_secs(100),
            ..RemoteSettings::of(Vec::new())
        }
    }

    fn meta(freshness: u32) -> Meta {
        Meta { status: 200, response_time: NOW, freshness, swr: 5, sie: 30, ..Meta::default() }
    }

    #[test]
    fn pages_last_while_they_are_of_use() {
        let after = |meta: &Meta, seconds: Ms| lasting(meta, &settings(), NOW + 1000 * seconds);
        assert_eq!(after(&meta(60), 10), Some(Duration::from_secs(80)));
        assert_eq!(after(&meta(3600), 10), Some(Duration::from_secs(100)), "capped");
        assert_eq!(after(&meta(60), 59), None, "fresh for less than min_freshness");
        assert_eq!(after(&meta(60), 60), None);
    }

    #[test]
    fn four_large_ones_or_many_small_ones_are_sent_at_a_time() {
        assert_eq!((permits(0), permits(2048), permits(SMALL), permits(SMALL + 1)), (1, 1, 1, 2));
        assert_eq!((permits(1 << 20), permits(8 << 20), permits(u64::MAX)), (16, 16, 16));
    }

    #[test]
    fn what_is_not_to_be_shared_is_not() {
        let unfit = |change: fn(&mut Meta)| {
            let mut meta = meta(60);
            change(&mut meta);
            lasting(&meta, &settings(), NOW)
        };
        assert_eq!(unfit(|meta| meta.flags = PageFlags::COPY), None);
        assert_eq!(unfit(|meta| meta.flags = PageFlags::NO_CACHE), None);
        assert_eq!(unfit(|meta| meta.kind = Kind::HitForMiss), None);
        let part = larder_proto::page::Partial { first: 0, last: 1, total: 9 };
        let partial = Meta { partial: Some(part), ..meta(60) };
        assert_eq!(lasting(&partial, &settings(), NOW), None);
    }
}
