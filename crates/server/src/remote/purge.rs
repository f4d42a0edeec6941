//! Purges in the fleet.
//!
//! A page's record is deleted. A page with variants has a marker in the fleet, and the names of its
//! variants are unknown. The marker is replaced by one with another nonce and no variants, so that
//! no old variant can be found, not even by a Larder that still has the old marker: a marker from
//! the fleet replaces the local one.
//!
//! The keys in a fleet of memcacheds cannot be listed: pages of a prefix or tag are deleted when
//! this Larder finds them. Until then the purge is remembered, so that no purged page is used here
//! again (`purged`).
//!
//! Purges have a queue of their own, so that they do not wait behind pages. Any thread may ask for
//! one.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use larder_proto::page::{Kind, Meta, Parts, Trailer, encode_head};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_local,
};

use super::{
    Answer, Journalled, Remote, Shared,
    backend::Unanswered,
    journal::{Entry, LONGEST, Name, Task, What},
    key, record,
};
use crate::{
    clock::Ms,
    page::spelling::{self, Rules},
};

/// Purges that may wait, per worker; further ones are not executed in the fleet, and counted.
const WAITING: usize = 4096;
/// Longest wait of a purge's answer for the journal; the answer has the progress until then.
const JOURNAL: Duration = Duration::from_secs(1);
/// Purges sent at the same time.
const AT_ONCE: usize = 16;

/// The purge of one key.
pub(crate) struct Purge {
    key: Box<[u8]>,
    /// Notified at the end: whether there was a page.
    done: Option<oneshot::Sender<bool>>,
}

/// The queue of a worker's purges.
pub(super) type Purges = mpsc::Sender<Purge>;

/// A purge that has begun here: it is noted, and soon in the journal. [`Begun::done`] reports that
/// it is executed; if it is dropped before, it is executed with the purges of others.
pub(crate) struct Begun<'s> {
    shared: &'s Shared,
    name: Option<Name>,
}

impl Begun<'_> {
    /// The purge is executed on the local pages.
    pub(crate) fn done(mut self) {
        if let Some(name) = self.name.take() {
            self.shared.journal.done(name);
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.shared.journal.given_up(name);
            self.shared.reading.want();
        }
    }
}

impl Shared {
    /// From now on, older records that the purge covers are not used.
    pub(crate) fn begin(&self, what: What, soft: bool, now: Ms) -> Begun<'_> {
        let lasting = self.settings.max_expiry.as_millis() as Ms;
        let (peers, told) = (!self.settings.peers.is_empty(), !self.settings.read_only);
        let entry = Entry { at: now, soft, what };
        let name = ((peers || told) && entry.len() <= LONGEST)
            .then(|| self.journal.begin(entry.clone(), peers));
        self.purged.note(&entry.what, name, now, lasting);
        if name.is_some() {
            self.reading.want();
        }
        Begun { shared: self, name }
    }

    /// Notes a purge of another Larder: older records are not used from now on.
    pub(crate) fn learn(&self, task: &Task) {
        let lasting = self.settings.max_expiry.as_millis() as Ms;
        match task {
            Task::Purge(name, entry) => {
                self.purged.note(&entry.what, Some(*name), entry.at, lasting)
            }
            Task::Missed(author, cut) => self.purged.missed((*author, cut.number), cut.at, lasting),
        }
    }

    /// Waits until all purges so far are in the journal, at most for [`JOURNAL`]. None: this Larder
    /// writes no journal.
    pub(crate) async fn journalled(&self) -> Option<Journalled> {
        if self.settings.read_only {
            return None;
        }
        let written = self.reading.written(JOURNAL).await.unwrap_or(0);
        Some(Journalled { written, of: self.copies.load(std::sync::atomic::Ordering::Relaxed) })
    }

    /// Deletes pages in the fleet, without a wait.
    pub(crate) fn purge_behind(&self, keys: &[Vec<u8>]) {
        for key in keys {
            self.order(key, None);
        }
    }

    /// The same with a wait: when the future is ready, the servers that answered have no older
    /// records. Returns whether they had any.
    pub(crate) fn purge_keys(&self, keys: &[Vec<u8>]) -> impl Future<Output = bool> + use<> {
        let waiting: Vec<_> = keys
            .iter()
            .filter_map(|key| {
                let (done, waiting) = oneshot::channel();
                self.order(key, Some(done)).then_some(waiting)
            })
            .collect();
        async move {
            let mut found = false;
            for done in waiting {
                // An error: the worker has ended, and its fleet with it.
                found |= done.await.unwrap_or(false);
            }
            found
        }
    }

    /// Gives a purge to the first worker with room.
    fn order(&self, key: &[u8], done: Option<oneshot::Sender<bool>>) -> bool {
        if self.settings.read_only {
            return false;
        }
        let mut purge = Purge { key: key.into(), done };
        for purges in self.purges.lock().iter() {
            match purges.try_send(purge) {
                Ok(()) => return true,
                Err(
                    mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back),
                ) => {
                    purge = back;
                }
            }
        }
        self.purges_lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    }
}

/// Starts the task that executes purges on a worker; it ends with its runtime.
pub(super) fn start(remote: &Rc<Remote>) {
    let (send, mut purges) = mpsc::channel::<Purge>(WAITING);
    remote.shared.purges.lock().push(send);
    let remote = remote.clone();
    spawn_local(async move {
        let places = std::sync::Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
        while let Some(purge) = purges.recv().await {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let remote = remote.clone();
            spawn_local(async move {
                let found = remote.forget(&purge.key).await;
                if let Some(done) = purge.done {
                    let _ = done.send(found);
                }
                drop(place);
            });
        }
    });
}

impl Remote {
    /// Deletes a page, under each spelling that the rules of its path name. Returns whether there
    /// was one.
    async fn forget(&self, primary: &[u8]) -> bool {
        let mut found = self.forget_one(primary).await;
        if spelling::has_query(primary)
            && let Answer::Record(taken) = self.get(&spelling::rules_key(primary)).await
            && let Some(rules) = taken.page().and_then(|page| Rules::of(&page))
        {
            for key in rules.keys(primary).filter(|key| key != primary) {
                found |= self.forget_one(&key).await;
            }
        }
        found
    }

    /// Deletes the page of one key. Returns whether there was one.
    async fn forget_one(&self, primary: &[u8]) -> bool {
        let name = key::name(&self.settings().namespace, primary);
        let marker = match self.get(primary).await {
            Answer::Record(taken) => {
                taken.page().is_some_and(|page| page.meta.kind == Kind::VaryMarker)
            }
            Answer::Nothing | Answer::Failed => false,
        };
        let done = match marker.then(|| self.empty_marker(primary)).flatten() {
            Some(item) => {
                self.backend.set(&name, item, self.settings().max_expiry).await.map(|()| true)
            }
            None => self.backend.delete(&name).await,
        };
        match done {
            Ok(_) => self.counters.deletes.one(),
            Err(Unanswered) => self.counters.delete_failed.one(),
        }
        done.unwrap_or(false)
    }

    /// A marker without variants.
    fn empty_marker(&self, primary: &[u8]) -> Option<Bytes> {
        let (now, nonce) = (self.clock.now(), self.random());
        let meta = Meta { kind: Kind::VaryMarker, nonce, response_time: now, ..Meta::default() };
        // The classes of codings that were stored: none.
        let vary: [(&str, Option<&[u8]>); 1] = [("*", Some(&[0]))];
        let mut bytes =
            encode_head(&meta, &Parts { vary: &vary, key: primary, ..Parts::default() }).ok()?;
        let trailer = Trailer::new(&bytes).finish();
        bytes.extend_from_slice(&trailer);
        let bytes = [self.shared.journal.knows().encode(), bytes].concat();
        let length = bytes.len() as u64;
        let head = record::Head {
            kind: record::Kind::Whole,
            compressed: false,
            sent: now,
            write: nonce,
            record: length,
            payload: length,
        };
        Some([&head.encode(&bytes)[..], &bytes].concat().into())
    }
}
