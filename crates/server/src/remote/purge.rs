//! What a purge does to the fleet.
//!
//! A page's record is deleted. Where a page has variants the fleet has a marker, and the names of its variants are not known;
//! the marker is replaced by one with another nonce and no variants, so that none of the old ones can be found, not even by a
//! Larder that still has the old marker: a marker from the fleet takes the place of one's own.
//!
//! Purges of prefixes and tags reach what this Larder has itself: nobody can list what lies in a fleet of memcacheds.
//!
//! Purges have a queue of their own, so that they do not wait behind pages. Any thread may ask for one.

use std::rc::Rc;

use bytes::Bytes;
use larder_proto::page::{Kind, Meta, Parts, Trailer, encode_head};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_local,
};

use super::{Answer, Remote, Shared, backend::Unanswered, key, record};

/// Purges that may wait, per worker; one more is not carried out in the fleet, and counted.
const WAITING: usize = 4096;
/// Purges sent at the same time.
const AT_ONCE: usize = 16;

/// One key to be forgotten.
pub(crate) struct Purge {
    key: Box<[u8]>,
    /// Told when it is done.
    done: Option<oneshot::Sender<()>>,
}

/// The way to a worker's purges.
pub(super) type Purges = mpsc::Sender<Purge>;

impl Shared {
    /// Forgets the records of these keys, and with them every variant. When it returns, the servers that answered give out
    /// nothing from before.
    pub(crate) async fn purge(&self, keys: &[Vec<u8>]) {
        let waiting: Vec<_> = keys
            .iter()
            .filter_map(|key| {
                let (done, waiting) = oneshot::channel();
                self.order(key, Some(done)).then_some(waiting)
            })
            .collect();
        for done in waiting {
            // An error: the worker has ended, and its fleet with it.
            let _ = done.await;
        }
    }

    /// The same, without waiting for it.
    pub(crate) fn purge_behind(&self, keys: &[Vec<u8>]) {
        for key in keys {
            self.order(key, None);
        }
    }

    /// Gives a purge to the first worker that takes it.
    fn order(&self, key: &[u8], done: Option<oneshot::Sender<()>>) -> bool {
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
                remote.forget(&purge.key).await;
                if let Some(done) = purge.done {
                    let _ = done.send(());
                }
                drop(place);
            });
        }
    });
}

impl Remote {
    async fn forget(&self, primary: &[u8]) {
        let name = key::name(&self.settings().namespace, primary);
        let marker = match self.get(primary).await {
            Answer::Record(taken) => taken.page().is_some_and(|page| page.meta.kind == Kind::VaryMarker),
            Answer::Nothing | Answer::Failed => false,
        };
        let done = match marker.then(|| self.empty_marker(primary)).flatten() {
            Some(item) => self.backend.set(&name, item, self.settings().max_expiry).await,
            None => self.backend.delete(&name).await.map(drop),
        };
        match done {
            Ok(()) => self.counters.deletes.one(),
            Err(Unanswered) => self.counters.delete_failed.one(),
        }
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
