//! Bodies that are sent often, in files in memory: `sendfile` hands the file's own pages to the
//! socket, where a write copies them.
//!
//! Each worker has a shelf of its own, as the system counts references to a file and to its pages
//! with atomic operations, which workers would take from each other. A file is written once and
//! never again: over loopback the receiver reads what was sent by reference from the same pages,
//! long after it was acknowledged. The store writes over its segments, so it cannot be sent from
//! directly. Callers look up the store first; this cache holds bytes only and never decides
//! validity. (Measured: docs/notebook/http-hits.md, "Large bodies".)

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    os::fd::OwnedFd,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use larder_store::Entry;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Resource, getrlimit},
};

/// The limit of the floor and of the nginx of `bench/peers`, too: somewhere below, the second call
/// takes what the copy would. (At 20,000 B there is a gain.)
const LEAST: u64 = 16 << 10;
/// Beyond it the worker would be busy for too long with copying it here: a file of 2 MiB takes 0.9
/// ms, of 1 MiB 0.36 ms.
const MOST: u64 = 2 << 20;
/// Of the system's memory, bytes.
const PAGE: u64 = 4096;
/// Bodies that are counted at once; a power of two. Two that meet at a place displace each other as
/// they are asked for.
const PLACES: usize = 1024;
/// Requests after which a body is worth the copy, which takes about as long as an answer (12
/// microseconds for 26,510 B); it is tried anew after half as many.
const OFTEN: u16 = 16;
/// Requests after which what was asked for before counts half.
const PERIOD: u32 = 16 * PLACES as u32;
/// Places looked at for copies that are asked for less, when there is no room.
const LOOKED_AT: usize = 64;

/// The most files that are open for it.
pub(crate) const FILES: usize = 256;
/// Of all the process may open, the part that all workers' copies may take.
const PART_OF_FILES: usize = 8;

/// A stored value as a file.
pub(crate) struct Copy {
    file: OwnedFd,
    /// Where in the file the value begins, bytes: such that its body lies on the borders of pages.
    at: u64,
    len: u64,
    /// Bytes of memory.
    takes: u64,
    room: Rc<Room>,
}

/// Memory budget of the copies and its current use.
struct Room {
    /// Bytes, and files.
    limit: (u64, usize),
    /// Bytes, those included that were taken down but are being sent. Told to whoever counts.
    held: Arc<AtomicU64>,
    files: Cell<usize>,
}

/// One worker's copies.
pub(crate) struct Shelf {
    places: RefCell<Vec<Place>>,
    room: Rc<Room>,
    /// Where the next look for room begins.
    hand: Cell<usize>,
    /// Requests until the period is over.
    left: Cell<u32>,
}

#[derive(Default)]
struct Place {
    /// Which write of the store made the value.
    written: u64,
    /// How often it was asked for lately.
    asked: u16,
    copy: Option<Rc<Copy>>,
}

impl Copy {
    /// The file, and where in it a byte of the value is.
    pub(crate) fn file(&self, position: u64) -> (&OwnedFd, u64) {
        (&self.file, self.at + position)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.room.held.store(self.room.held.load(Relaxed) - self.takes, Relaxed);
        self.room.files.set(self.room.files.get() - 1);
    }
}

impl Shelf {
    /// One of `workers`, which have `limit` bytes together. `held`: where this one alone notes what
    /// it holds.
    pub(crate) fn new(limit: u64, workers: usize, held: Arc<AtomicU64>) -> Self {
        let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let files = usize::try_from(open).unwrap_or(usize::MAX) / PART_OF_FILES / workers;
        let room = Room { limit: (limit / workers as u64, files.min(FILES)), held, files: Cell::new(0) };
        Self { places: RefCell::default(), room: Rc::new(room), hand: Cell::new(0), left: Cell::new(PERIOD) }
    }

    /// The copy of a value of which `wanted` bytes are asked for, where it is worth having one.
    /// `body_at`: where in it that is found which is sent.
    pub(crate) fn find(&self, entry: &Entry<'_>, body_at: u64, wanted: u64) -> Option<Rc<Copy>> {
        if wanted < LEAST || entry.len() > MOST.min(self.room.limit.0) {
            return None;
        }
        let mut places = self.places.borrow_mut();
        if places.is_empty() {
            places.resize_with(PLACES, Place::default);
        }
        self.pass(&mut places);
        let at = place_of(entry.written());
        let place = &mut places[at];
        if place.written != entry.written() {
            place.give_way(entry.written());
            return None;
        }
        place.asked = place.asked.saturating_add(1);
        if place.copy.is_none() && place.asked >= OFTEN && place.asked.is_multiple_of(OFTEN / 2) {
            let asked = place.asked;
            places[at].copy = self.take_up(entry, body_at, asked, &mut places);
        }
        places[at].copy.clone()
    }

    fn pass(&self, places: &mut [Place]) {
        let left = self.left.get() - 1;
        if left == 0 {
            places.iter_mut().for_each(|place| place.asked /= 2);
        }
        self.left.set(if left == 0 { PERIOD } else { left });
    }

    /// None: what is there is asked for as much, or the system gives no file.
    fn take_up(&self, entry: &Entry<'_>, body_at: u64, asked: u16, places: &mut [Place]) -> Option<Rc<Copy>> {
        let at = body_at.next_multiple_of(PAGE) - body_at;
        let takes = (at + entry.len()).next_multiple_of(PAGE);
        if !self.has_room(takes) {
            self.make_room(takes, asked, places);
        }
        if !self.has_room(takes) {
            return None;
        }
        let file = copied(entry, at).ok()?;
        self.room.held.store(self.room.held.load(Relaxed) + takes, Relaxed);
        self.room.files.set(self.room.files.get() + 1);
        Some(Rc::new(Copy { file, at, len: entry.len(), takes, room: self.room.clone() }))
    }

    fn has_room(&self, bytes: u64) -> bool {
        let (most, files) = self.room.limit;
        self.room.held.load(Relaxed) + bytes <= most && self.room.files.get() < files
    }

    /// Takes down, of the next few, what is asked for less than half as often.
    fn make_room(&self, bytes: u64, asked: u16, places: &mut [Place]) {
        for _ in 0..LOOKED_AT {
            let at = self.hand.get();
            self.hand.set((at + 1) % PLACES);
            let place = &mut places[at];
            if place.copy.is_some() && place.asked < asked / 2 {
                place.copy = None;
                if self.has_room(bytes) {
                    return;
                }
            }
        }
    }
}

impl Place {
    /// Another value was asked for that has its place here.
    fn give_way(&mut self, to: u64) {
        if self.asked > 0 {
            self.asked -= 1;
        } else {
            *self = Place { written: to, asked: 1, copy: None };
        }
    }
}

fn place_of(written: u64) -> usize {
    (rapidhash::v3::rapidhash_v3(&written.to_le_bytes()) as usize) % PLACES
}

fn copied(entry: &Entry<'_>, at: u64) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("larder-page", MemfdFlags::CLOEXEC)?);
    file.seek(SeekFrom::Start(at))?;
    for chunk in entry.chunks() {
        file.write_all(chunk)?;
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_store::{If, Namespace, Options, Put, Store};
    use std::os::unix::fs::FileExt;

    /// Where its body begins.
    const BODY: u64 = 300;

    const SIZE: usize = 100_000;

    fn store(entries: u8) -> &'static Store {
        let options = Options { budget: 64 << 20, max_value: 16 << 20, ..Options::default() };
        let store: &'static Store = Box::leak(Box::new(Store::open(options).expect("a store")));
        (0..entries).for_each(|n| put(store, n, SIZE));
        store
    }

    fn put(store: &Store, n: u8, size: usize) {
        let value = vec![n; size];
        store
            .put(Namespace(0), &[n], Put { value: &[&value], ..Put::default() }, If::Always, 1)
            .expect("stored");
    }

    fn get(store: &'static Store, n: u8) -> Entry<'static> {
        store.get(Namespace(0), &[n], 1).expect("found")
    }

    /// Asks so often; the copy that the last one got.
    fn ask(shelf: &Shelf, entry: &Entry<'_>, times: u32) -> Option<Rc<Copy>> {
        (0..times).map(|_| shelf.find(entry, BODY, entry.len())).last().flatten()
    }

    fn content(copy: &Copy) -> Vec<u8> {
        assert_eq!(copy.file(BODY).1 % PAGE, 0);
        let (file, at) = copy.file(0);
        let mut bytes = vec![1; copy.len() as usize];
        let file = File::from(file.try_clone().expect("another descriptor"));
        file.read_exact_at(&mut bytes, at).expect("read");
        bytes
    }

    /// Memory of a copy of [`SIZE`] bytes.
    const TAKES: u64 = (SIZE as u64 + PAGE - BODY).next_multiple_of(PAGE);

    #[test]
    fn what_is_asked_for_often_is_copied() {
        let (store, held) = (store(1), Arc::new(AtomicU64::new(0)));
        let shelf = Shelf::new(8 << 20, 1, held.clone());
        let entry = get(store, 0);
        assert!(ask(&shelf, &entry, u32::from(OFTEN) - 1).is_none());
        let copy = ask(&shelf, &entry, 1).expect("often enough");
        assert_eq!((content(&copy), held.load(Relaxed)), (vec![0; SIZE], TAKES));
        assert!(shelf.find(&entry, BODY, LEAST - 1).is_none(), "a small part of it");
        put(store, 0, SIZE);
        assert!(shelf.find(&get(store, 0), BODY, SIZE as u64).is_none(), "another value under the same key");
    }

    #[test]
    fn what_is_too_large_or_too_small_is_not() {
        let store = store(0);
        put(store, 1, LEAST as usize - 1);
        put(store, 2, MOST as usize + 1);
        put(store, 3, SIZE);
        let shelf = Shelf::new(64 << 20, 1, Arc::default());
        assert!(ask(&shelf, &get(store, 1), 100).is_none());
        assert!(ask(&shelf, &get(store, 2), 100).is_none());
        assert!(ask(&Shelf::new(SIZE as u64 * 2 - 1, 2, Arc::default()), &get(store, 3), 100).is_none());
        assert!(ask(&shelf, &get(store, 3), 100).is_some());
    }

    #[test]
    fn those_asked_for_alike_do_not_push_each_other_out() {
        let (store, held) = (store(40), Arc::new(AtomicU64::new(0)));
        let shelf = Shelf::new(1 << 20, 1, held.clone());
        let all: Vec<_> = (0..40).map(|n| get(store, n)).collect();
        let round = || all.iter().filter_map(|entry| ask(&shelf, entry, 1)).collect::<Vec<_>>();
        (0..20).for_each(|_| drop(round()));
        let first = round();
        assert!((8..=10).contains(&first.len()), "{} of {SIZE} bytes", first.len());
        for _ in 0..2000 {
            let now = round();
            assert!(
                now.iter().zip(&first).all(|(now, first)| Rc::ptr_eq(now, first)) && now.len() == first.len()
            );
            assert!(held.load(Relaxed) <= 1 << 20);
        }
    }

    #[test]
    fn who_is_asked_for_no_more_gives_his_room_to_those_who_are() {
        let store = store(30);
        let shelf = Shelf::new(1 << 20, 1, Arc::default());
        let all: Vec<_> = (0..30).map(|n| get(store, n)).collect();
        let copies = |of: std::ops::Range<usize>| of.filter(|n| ask(&shelf, &all[*n], 1).is_some()).count();
        for _ in 0..2000 {
            copies(0..15);
        }
        assert!(copies(0..15) >= 8);
        for _ in 0..8000 {
            copies(15..30);
        }
        assert_eq!(copies(0..15), 0);
        assert!(copies(15..30) >= 8);
    }

    #[test]
    fn what_is_being_sent_counts_as_held() {
        let (store, held) = (store(1), Arc::new(AtomicU64::new(0)));
        let shelf = Shelf::new(1 << 20, 1, held.clone());
        let copy = ask(&shelf, &get(store, 0), 20).expect("a copy");
        drop(shelf);
        assert_eq!(held.load(Relaxed), TAKES);
        drop(copy);
        assert_eq!(held.load(Relaxed), 0);
    }
}
