//! The thread that writes. It alone waits for writes of pages, and opens the disk again after a
//! failure.

use std::{io, sync::Arc, sync::atomic::Ordering, time::Duration};

use larder_disk::{Directory, Disk, PutError, Writer};
use larder_proto::{
    http::key,
    page::{Kind, PageView, Verify, view},
};
use larder_store::{Entry, Namespace};

use super::{Tier, Trouble, figures::Count, hottest, key_in, queue::End, queue::Item, slices};
use crate::{
    clock::Ms,
    page::{
        lookup::{PAGES, SLICES},
        published::mark_of,
        spelling,
    },
};

/// Pause after a failure.
pub(super) const RETRY: Duration = Duration::from_secs(10);
/// Time between two looks at records in the buffer.
const TICK: Duration = Duration::from_millis(100);
/// Pages that are of no use soon are not written, in milliseconds.
const SHORTEST: Ms = 5_000;

type Opened = (Arc<Disk<Directory>>, Writer<Directory>);

impl Tier {
    /// The thread's body.
    pub(super) fn write(self: &Arc<Self>, opened: Option<Opened>) {
        let mut opened = opened;
        if let Some((disk, writer)) = &opened {
            self.load(disk.clone(), writer.first());
        }
        loop {
            let (items, end, hurried) = self.queue.wait(TICK);
            if self.may_try(self.clock.now()) {
                self.full.store(false, Ordering::SeqCst);
                if self.off.load(Ordering::Relaxed) && end.is_none() {
                    self.try_again(&mut opened);
                }
            }
            let working = !self.off.load(Ordering::Relaxed);
            if let (Some((_, writer)), Some(_)) = (&mut opened, end) {
                writer.unlimited();
            }
            match &mut opened {
                Some((disk, writer)) if working => {
                    let before = disk.written();
                    match self.turn(disk, writer, items, hurried) {
                        Ok(()) if disk.written() > before => self.well(Trouble::Write),
                        Ok(()) => {}
                        Err(error) => self.failed(Trouble::Write, &error),
                    }
                }
                Some((disk, _)) => self.withdraw(disk, items),
                None => {}
            }
            if let Some(end) = end {
                if let Some((disk, writer)) = opened.as_mut().filter(|_| working) {
                    self.close(disk, writer, end);
                }
                return;
            }
        }
    }

    /// Fills the index, by a thread of its own.
    fn load(self: &Arc<Self>, disk: Arc<Disk<Directory>>, first: u64) {
        let (tier, clock) = (self.clone(), self.clock);
        let load = move || {
            let began = clock.now();
            // Before a page is found that they could mean.
            tier.purged.compile();
            let loaded = disk.load(first, began);
            if loaded.stopped {
                return;
            }
            tier.counters.loaded.store(loaded.entries, Ordering::Relaxed);
            let took = (clock.now() - began).max(1);
            tier.counters.load_ms.store(took, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("larder-load".to_owned());
        if let Err(error) = thread.spawn(load) {
            self.failed(Trouble::Read, &error);
        }
    }

    fn try_again(self: &Arc<Self>, opened: &mut Option<Opened>) {
        if opened.is_none() {
            match self.open() {
                Ok(new) => {
                    self.load(new.0.clone(), new.1.first());
                    *opened = Some(new);
                    self.well(Trouble::Open);
                }
                Err(error) => return self.failed(Trouble::Open, &error),
            }
        }
        self.off.store(false, Ordering::SeqCst);
    }

    /// Writes what came, until the time at a stop is over.
    fn turn(
        &self,
        disk: &Disk<Directory>,
        writer: &mut Writer<Directory>,
        items: impl IntoIterator<Item = Item>,
        hurried: bool,
    ) -> io::Result<()> {
        let (mut items, mut written) = (items.into_iter(), Ok(()));
        let full = self.full.load(Ordering::Relaxed);
        while written.is_ok()
            && !full
            && self.queue.until().is_none_or(|until| self.clock.now() < until)
        {
            written = match items.next() {
                Some(Item::Evicted(ns, entry, ticket)) => {
                    self.put(disk, writer, (ns, &entry), ticket)
                }
                Some(Item::Object(object)) => self.put_object(writer, &object),
                Some(Item::Key(ns, key)) => self.put_key(disk, writer, (ns, &key)).map(drop),
                None => break,
            };
        }
        self.withdraw(disk, items);
        written?;
        let now = self.clock.now();
        if hurried {
            writer.flush(now)?;
        }
        disk.settle(now);
        self.purged.forget(disk.needless());
        writer.tick(now)
    }

    /// Writes what memory has under a key, unless the disk has it. Whether it was written.
    pub(super) fn put_key(
        &self,
        disk: &Disk<Directory>,
        writer: &mut Writer<Directory>,
        (ns, key): (Namespace, &[u8]),
    ) -> io::Result<bool> {
        // In this order: a purge between the two has a greater number.
        let ticket = disk.ticket();
        let Some(entry) = self.store.peek(ns, key, self.clock.now()) else { return Ok(false) };
        let not = entry.stale() || slices::is_for_memory(ns, &entry);
        if not || !disk.register(&key_in(ns, key), ticket) {
            return Ok(false);
        }
        self.put(disk, writer, (ns, &entry), ticket)?;
        Ok(true)
    }

    /// Writes an announced page, if it may be on the disk, or slice.
    fn put(
        &self,
        disk: &Disk<Directory>,
        writer: &mut Writer<Directory>,
        (ns, entry): (Namespace, &Entry<'_>),
        ticket: u64,
    ) -> io::Result<()> {
        let now = self.clock.now();
        if ns == SLICES {
            return self.put_record(writer, (ns, entry), ticket, Some(&self.counters.slice_stores));
        }
        let page = view(entry.head(), entry.len(), Verify::Layout).ok();
        let Some(page) = page.filter(|page| is_for_disk(entry, page, now)) else {
            disk.withdraw(entry.key(), ticket);
            return Ok(());
        };
        let count = (page.meta.kind == Kind::Page).then_some(&self.counters.stores);
        self.put_record(writer, (ns, entry), ticket, count)?;
        // A variant cannot be found without its marker, nor another spelling without its rule.
        let primary = key::parse_variant_key(entry.key()).map(|(primary, ..)| primary);
        if let Some(primary) = primary.filter(|primary| !disk.has(primary)) {
            self.put_key(disk, writer, (PAGES, primary))?;
        }
        if spelling::rule_of(page.head).is_some() {
            let rules = spelling::rules_key(primary.unwrap_or(page.key));
            if !disk.has(&rules) {
                self.put_key(disk, writer, (PAGES, &rules))?;
            }
        }
        Ok(())
    }

    /// Writes what memory has as it is, and counts it there if it was taken.
    fn put_record(
        &self,
        writer: &mut Writer<Directory>,
        (ns, entry): (Namespace, &Entry<'_>),
        ticket: u64,
        stored: Option<&Count>,
    ) -> io::Result<()> {
        let pieces: Vec<&[u8]> = entry.chunks().collect();
        let (key, now) = (key_in(ns, entry.key()), self.clock.now());
        match writer.put(&key, &pieces, ticket, entry.expires(), now) {
            Ok(()) => stored.into_iter().for_each(Count::one),
            Err(PutError::Gone) => {}
            Err(PutError::TooLarge) => self.counters.too_large.one(),
            Err(PutError::Limited | PutError::Busy) => self.counters.dropped.one(),
            Err(PutError::Io(error)) => return Err(error),
        }
        Ok(())
    }

    /// Ends the announcements of what is not written.
    fn withdraw(&self, disk: &Disk<Directory>, items: impl IntoIterator<Item = Item>) {
        for item in items {
            match item {
                Item::Evicted(ns, entry, ticket) => {
                    disk.withdraw(&key_in(ns, entry.key()), ticket);
                }
                Item::Object(object) => {
                    disk.withdraw(&object.key(), object.ticket);
                    self.refuse_object(&object.stub);
                }
                Item::Key(..) => {}
            }
        }
    }

    /// Writes what is hot, if that is wanted, and seals what is open.
    fn close(&self, disk: &Disk<Directory>, writer: &mut Writer<Directory>, end: End) {
        let hottest =
            if end.hottest { hottest::write(self, disk, writer, end.until) } else { Ok(()) };
        let closed = hottest.and_then(|()| writer.close(self.clock.now()));
        if let Err(error) = closed {
            self.failed(Trouble::Write, &error);
        }
    }
}

/// Whether a record may be on the disk: a whole page that a site's origin gave or that was
/// published, for everybody, with some life in it, found by its URL alone; or the marker of such
/// pages.
fn is_for_disk(entry: &Entry<'_>, page: &PageView<'_>, now: Ms) -> bool {
    matches!(page.meta.kind, Kind::Page | Kind::VaryMarker)
        && page.meta.partial.is_none()
        && slices::may_have(page.key, page.meta.flags)
        && entry.flags() == mark_of(page.meta.flags)
        && page.key == entry.key()
        && entry.expires().is_none_or(|at| at > now + SHORTEST)
}
