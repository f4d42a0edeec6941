//! Purges on the disk. A purge is noted before anything is taken out of memory, and gets its number
//! after: records that leave memory in between are older. It is durable before it is answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::{sync::watch, time::timeout};

use super::{Means, Tier, Trouble, purged};
use crate::clock::Ms;

/// Longest wait of a purge's answer for the disk.
const WAIT: Duration = Duration::from_secs(2);
/// Pause after a failure; and how long keys that were only replaced wait, for each other's sake.
const PAUSE: Duration = Duration::from_secs(1);

/// The news about purges.
pub(super) struct Notices {
    /// Purges up to this number are safe: durable, or the disk counts as empty after a crash.
    safe: watch::Sender<u64>,
    /// The number of the latest purge that has to be.
    latest: AtomicU64,
    waits: Mutex<Waits>,
    news: Condvar,
}

#[derive(Default)]
struct Waits {
    news: bool,
    end: bool,
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            safe: watch::Sender::new(0),
            latest: AtomicU64::new(0),
            waits: Mutex::default(),
            news: Condvar::new(),
        }
    }
}

impl Notices {
    fn tell(&self, number: u64) {
        self.latest.fetch_max(number, Ordering::SeqCst);
        self.waits.lock().news = true;
        self.news.notify_one();
    }

    pub(super) fn end(&self) {
        self.waits.lock().end = true;
        self.news.notify_one();
    }
}

/// A purge that was begun. Dropped, it counts as done.
pub(crate) struct Begun<'t> {
    tier: &'t Tier,
    means: Means<'t>,
    at: Ms,
    /// Of each key, whether the disk had it.
    taken: Vec<bool>,
}

impl Begun<'_> {
    /// Whether a page of it was on the disk.
    pub(crate) fn found(&self) -> bool {
        self.taken.contains(&true)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let number = self.tier.take_rest(&self.means, &self.taken, self.at);
        self.tier.purged.done(&self.means, self.at, number);
        if let Some(number) = number {
            self.tier.notices.tell(number);
        }
    }
}

impl Tier {
    /// Notes a purge, before anything is taken out of memory. The result is to be dropped after.
    pub(crate) fn begin<'t>(&'t self, means: Means<'t>, at: Ms) -> Begun<'t> {
        self.purged.begin(&means, at);
        let taken = match &means {
            Means::Keys(keys) => self.take_out(keys),
            _ => Vec::new(),
        };
        Begun { tier: self, means, at, taken }
    }

    /// Takes pages out of the index. Of each, whether it was there.
    fn take_out(&self, keys: &[Vec<u8>]) -> Vec<bool> {
        let disk = self.disk_or_missed();
        disk.map_or_else(Vec::new, |disk| keys.iter().map(|key| disk.take_out(key)).collect())
    }

    /// Takes out pages that came to the disk meanwhile, and notes what is purged. The number of the
    /// purge; `None`: nothing has to be durable.
    fn take_rest(&self, means: &Means<'_>, taken: &[bool], at: Ms) -> Option<u64> {
        let disk = self.disk_or_missed()?;
        if let Means::Keys(keys) = means {
            let taken = taken.iter().copied().chain(std::iter::repeat(false));
            return keys.iter().zip(taken).map(|(key, found)| disk.purge_key(key, found).1).max();
        }
        let (kind, what) = purged::encode(means, at)?;
        Some(disk.purge(kind, &what))
    }

    /// Waits until all purges so far are safe. False: they are not yet, so a restart may bring
    /// pages back. A disk that is not open keeps no purge: another process may find it as it was.
    pub(crate) async fn settled(&self) -> bool {
        if self.disk().is_none() || self.missed.load(Ordering::SeqCst) {
            return false;
        }
        let wanted = self.notices.latest.load(Ordering::SeqCst);
        let mut safe = self.notices.safe.subscribe();
        let waiting = safe.wait_for(|safe| *safe >= wanted);
        matches!(timeout(WAIT, waiting).await, Ok(Ok(_)))
    }

    /// The body of the thread that makes purges durable.
    pub(super) fn write_purges(self: Arc<Self>) {
        let mut failing = false;
        loop {
            let mut waits = self.notices.waits.lock();
            if !waits.news && !waits.end {
                self.notices.news.wait_for(&mut waits, PAUSE);
            }
            let end = waits.end;
            waits.news = false;
            drop(waits);
            self.note_sites();
            if let Some(disk) = self.disk() {
                failing = match disk.write_purges() {
                    Ok(journalled) => {
                        self.notices.safe.send_replace(journalled.durable);
                        self.well(Trouble::Purges);
                        false
                    }
                    Err((error, emptied)) => {
                        self.failed(Trouble::Purges, &error);
                        let safe = if emptied { u64::MAX } else { disk.durable() };
                        self.notices.safe.send_replace(safe);
                        true
                    }
                };
            }
            if end {
                return;
            }
            if failing {
                std::thread::sleep(PAUSE / 10);
            }
        }
    }
}
