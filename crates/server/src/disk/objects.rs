//! Values of memcached's items on the disk (`memcached.disk`).
//!
//! An item whose value is long leaves a stub in memory when it is evicted ([`larder_store::Away`]);
//! its value is written here under a name that no other write has, so a record is the stub's value
//! or is not found. A purge of pages means none of them, and an item that is written anew, deleted
//! or flushed leaves a record that nobody asks for: it goes with its segment. A value that is not
//! written after all takes its stub with it ([`Tier::refuse_object`]); stubs of records that were
//! evicted here, or lost with a buffer, are found by the store's sweep ([`Away::has`]).
//!
//! A value that is asked for is put back into memory ([`Tier::bring_back`]), and the command looks
//! there again. One whose record is gone or damaged takes its stub with it: it is a miss from then
//! on. One that the disk does not give in time is a miss for this command alone.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use larder_disk::{Directory, Writer};
use larder_proto::page::object_on_disk;
use larder_store::{Away, Elsewhere, Entry, Namespace, PutError, Stub};
use tokio::time::{sleep, timeout};

use super::{
    DiskRecord, Tier,
    queue::{Item, Object},
};

/// The shortest value that goes to the disk, in bytes: shorter ones would gain little over their
/// stub.
const SHORTEST: u64 = 1024;
/// Part of the memory (1/n) that copies of values may take while they wait for the writer, beside
/// it; and as much while they are written.
const WAITING: u64 = 32;
/// The ticket of a value that the disk has.
const THERE: u64 = 0;
/// Pause between two looks for a record that is being written.
const LOOK: Duration = Duration::from_millis(2);

/// Result of a request for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// It is in memory, or its item was written or removed meanwhile.
    Back,
    /// It is lost, and its stub is gone.
    Lost,
    /// The disk is slow or not in use, or memory has no room: a later command may find it.
    Late,
}

impl Tier {
    /// Takes values of this namespace from now on.
    pub(crate) fn take_objects(self: &Arc<Self>, ns: Namespace) {
        let tiers = [self.clone(), self.clone(), self.clone(), self.clone()];
        let [before, after, instead, later] = tiers;
        self.store.put_away(Away {
            ns,
            least: SHORTEST,
            run: self.random,
            announce: Box::new(move |key, number, len| before.announce_object(key, number, len)),
            take: Box::new(move |entry, ticket| after.offer_object(ns, &entry, ticket)),
            withdraw: Box::new(move |key, number, ticket| {
                if let Some(disk) = instead.disk().filter(|_| ticket != THERE) {
                    disk.withdraw(&object_on_disk(instead.random, number, key), ticket);
                }
            }),
            has: Box::new(move |key, place| later.has_object(key, place)),
        });
    }

    /// Announces a value that is evicted. `None`: it would not be taken, and the item goes.
    fn announce_object(&self, key: &[u8], number: u64, len: u64) -> Option<u64> {
        let waiting = (self.store.totals().budget / WAITING).clamp(1 << 20, 64 << 20) as usize;
        let room = self.queue.has_room(waiting);
        let announced = self.writable().filter(|_| room).and_then(|disk| {
            let (key, ticket) = (object_on_disk(self.random, number, key), disk.ticket());
            if !disk.takes(key.len() as u64, len) {
                return None;
            }
            if disk.register(&key, ticket) {
                return Some(ticket);
            }
            // It was brought back before, and not changed since.
            disk.has(&key).then_some(THERE)
        });
        if announced.is_none() {
            self.counters.objects.dropped.one();
        }
        announced
    }

    fn offer_object(&self, ns: Namespace, entry: &Entry<'_>, ticket: u64) {
        if ticket == THERE {
            return;
        }
        let place = Elsewhere { run: self.random, number: entry.written() };
        let stub = Stub { ns, key: entry.key().into(), place };
        let value = entry.chunks().collect::<Vec<_>>().concat().into();
        let mut item = Some(Item::Object(Object { stub, value, ticket }));
        if !self.queue.push(&mut item)
            && let Some(Item::Object(object)) = item
        {
            if let Some(disk) = self.disk() {
                disk.withdraw(&object.key(), ticket);
            }
            self.refuse_object(&object.stub);
        }
    }

    /// A value is not written: its item goes, as if there were no disk.
    pub(super) fn refuse_object(&self, stub: &Stub) {
        self.counters.objects.dropped.one();
        self.store.drop_stub(stub, self.clock.now());
    }

    /// Writes an announced value. One that is refused takes its stub with it.
    pub(super) fn put_object(
        &self,
        writer: &mut Writer<Directory>,
        object: &Object,
    ) -> std::io::Result<()> {
        // Its expiry is the stub's: a touch changes that alone.
        let (key, now) = (object.key(), self.clock.now());
        match writer.put(&key, &[&object.value], object.ticket, None, now) {
            Ok(()) => self.counters.objects.stores.one(),
            Err(error) => {
                self.refuse_object(&object.stub);
                if let larder_disk::PutError::Io(error) = error {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether the disk has the value of a stub or will have it, as far as is known.
    fn has_object(&self, key: &[u8], place: Elsewhere) -> bool {
        let slot = self.disk.read();
        let Some(disk) = &*slot else { return true };
        // In this order: a record that is entered in between is found.
        if disk.is_loading() {
            return true;
        }
        let key = object_on_disk(place.run, place.number, key);
        disk.awaits(&key) || disk.has(&key)
    }

    /// Brings the value of a stub back into memory; waits as long as the settings say.
    pub(crate) async fn bring_back(self: &Arc<Self>, stub: Stub) -> Brought {
        let read = timeout(self.patience(), self.read_object(&stub)).await;
        let brought = read.unwrap_or(Brought::Late);
        let counters = &self.counters.objects;
        match brought {
            Brought::Back => counters.hits.one(),
            Brought::Late => counters.late.one(),
            // One that the writer refused meanwhile was counted there.
            Brought::Lost if self.store.drop_stub(&stub, self.clock.now()) => counters.lost.one(),
            Brought::Lost => {}
        }
        brought
    }

    async fn read_object(self: &Arc<Self>, stub: &Stub) -> Brought {
        let key = object_on_disk(stub.place.run, stub.place.number, &stub.key);
        loop {
            let Some(disk) = self.working() else { return Brought::Late };
            // In this order: a record that is entered in between is found.
            let coming = disk.awaits(&key);
            if disk.has(&key) {
                break;
            }
            if disk.is_loading() && !coming {
                return Brought::Late;
            }
            if !coming && !disk.has(&key) {
                return Brought::Lost;
            }
            self.queue.hurry();
            sleep(LOOK).await;
        }
        let wanted = stub.clone();
        let take = move |tier: &Tier, found: DiskRecord| tier.take_object(&wanted, &found);
        match self.read(&key, take).await {
            Some(brought) => brought,
            // Turned off by its failures: other values may be good.
            None if self.off.load(Ordering::Relaxed) => Brought::Late,
            None => Brought::Lost,
        }
    }

    fn take_object(&self, stub: &Stub, found: &DiskRecord) -> Brought {
        match self.store.bring_back(stub, found.bytes(), self.clock.now()) {
            Ok(()) => Brought::Back,
            // Written or removed meanwhile, or another command brought it back.
            Err(PutError::NotFound | PutError::Exists | PutError::NotNumber) => Brought::Back,
            Err(PutError::Full) => Brought::Late,
            Err(PutError::TooLarge) => {
                self.lose(found);
                Brought::Lost
            }
        }
    }
}
