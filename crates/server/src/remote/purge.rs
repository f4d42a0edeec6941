//! What a purge does to the fleet.
//!
//! A page's record is deleted. Where a page has variants the fleet has a marker, and the names of
//! its variants are not known; the marker is replaced by one with another nonce and no variants, so
//! that none of the old ones can be found, not even by a Larder that still has the old marker: a
//! marker from the fleet takes the place of one's own.
//!
//! Nobody can list what lies in a fleet of memcacheds: what a prefix or a tag means is deleted when
//! this Larder comes upon it. Until then it is remembered, so that nothing purged here is taken
//! here again (`purged`).
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
use crate::clock::Ms;

/// Purges that may wait, per worker; one more is not carried out in the fleet, and counted.
const WAITING: usize = 4096;
/// The answer to a purge waits no longer than this for the journal; it says what was reached.
const JOURNAL: Duration = Duration::from_secs(1);
/// Purges sent at the same time.
const AT_ONCE: usize = 16;

/// One key to be forgotten.
pub(crate) struct Purge {
    key: Box<[u8]>,
    /// Told when it is done: whether there was something.
    done: Option<oneshot::Sender<bool>>,
}

/// The way to a worker's purges.
pub(super) type Purges = mpsc::Sender<Purge>;

/// A purge that has begun here: noted, and soon told to all who share the fleet. To be told when it
/// was carried out; dropped before that, whoever carries out the purges of others does this one
/// too.
pub(crate) struct Begun<'s> {
    shared: &'s Shared,
    name: Option<Name>,
}

impl Begun<'_> {
    /// It was carried out on what is here.
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
    /// From now on nothing is taken from the fleet that this means and that is from before.
    pub(crate) fn begin(&self, what: What, soft: bool, now: Ms) -> Begun<'_> {
        let lasting = self.settings.max_expiry.as_millis() as Ms;
        let (peers, told) = (!self.settings.peers.is_empty(), !self.settings.read_only);
        let entry = Entry { at: now, soft, what };
        let name =
            ((peers || told) && entry.len() <= LONGEST).then(|| self.journal.begin(entry.clone(), peers));
        self.purged.note(&entry.what, name, now, lasting);
        if name.is_some() {
            self.reading.want();
        }
        Begun { shared: self, name }
    }

    /// Another Larder's purge is to be carried out here: nothing is taken from the fleet that is
    /// from before.
    pub(crate) fn learn(&self, task: &Task) {
        let lasting = self.settings.max_expiry.as_millis() as Ms;
        match task {
            Task::Purge(name, entry) => self.purged.note(&entry.what, Some(*name), entry.at, lasting),
            Task::Missed(author, cut) => self.purged.missed((*author, cut.number), cut.at, lasting),
        }
    }

    /// Waits until what was purged so far stands in the journal, or [`JOURNAL`] is over. None:
    /// nothing is written there.
    pub(crate) async fn journalled(&self) -> Option<Journalled> {
        if self.settings.read_only {
            return None;
        }
        let written = self.reading.written(JOURNAL).await.unwrap_or(0);
        Some(Journalled { written, of: self.copies.load(std::sync::atomic::Ordering::Relaxed) })
    }

    /// Deletes pages in the fleet, which is not waited for.
    pub(crate) fn purge_behind(&self, keys: &[Vec<u8>]) {
        for key in keys {
            self.order(key, None);
        }
    }

    /// The same; when the future is ready, the servers that answered give out nothing from before.
    /// Whether they had anything.
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

    /// Gives a purge to the first worker that takes it.
    fn order(&self, key: &[u8], done: Option<oneshot::Sender<bool>>) -> bool {
        if self.settings.read_only {
            return false;
        }
        let mut purge = Purge { key: key.into(), done };
        for purges in self.purges.lock().iter() {
            match purges.try_send(purge) {
                Ok(()) => return true,
                Err(mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back)) => {
                    purge = back;
                }
            }
        }
        self.purges_lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    }
}

/// Starts carrying out purges on a worker; ends with its runtime.
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
    /// Whether there was something.
    async fn forget(&self, primary: &[u8]) -> bool {
        let name = key::name(&self.settings().namespace, primary);
        let marker = match self.get(primary).await {
            Answer::Record(taken) => taken.page().is_some_and(|page| page.meta.kind == Kind::VaryMarker),
            Answer::Nothing | Answer::Failed => false,
        };
        let done = match marker.then(|| self.empty_marker(primary)).flatten() {
            Some(item) => self.backend.set(&name, item, self.settings().max_expiry).await.map(|()| true),
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
        let mut bytes = encode_head(&meta, &Parts { vary: &vary, key: primary, ..Parts::default() }).ok()?;
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
