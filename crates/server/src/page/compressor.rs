//! The thread that makes compressed forms of pages, off the way of every request.
//!
//! A page of a site that keeps one form alone is packed once it is stored, in its place
//! ([`packed`]). A hit on a page whose form is missing asks for it and is answered with what there
//! is. The queue is short and ordered by demand; a request that finds it busy or full asks again
//! with the next hit. The thread has the lowest priority.
//!
//! The same thread makes forms with dictionaries, and the dictionaries ([`dictionary`]).

mod dictionary;

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use larder_metrics::Compression;
use larder_proto::{
    http::Codings,
    page::{Encoding, PageFlags, PageView},
    rules::compress::LEAST_BODY,
};
use larder_store::{Entry, PutError, Store};
use parking_lot::{Condvar, Mutex};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use crate::{
    clock::{Clock, Ms},
    page::{
        coding::{self, Effort},
        dictionary::{Hash, Samples},
        forms::{Form, LARGEST_BODY, StoredForm, copied},
        lookup::PAGES,
        packed,
    },
    settings::DictionarySettings,
};

/// Most forms that wait to be made. More demand is dropped and counted: the next hit asks again.
const QUEUE: usize = 1024;
/// Longest key of a page whose form is made, in bytes: the queue is outside the store.
const LONGEST_KEY: usize = 2048;
/// Longest body that is compressed as hard as can be, in bytes: one of 8 MiB took tens of megabytes
/// of memory, and 2.9 s.
const LARGEST_BEST: u64 = 512 << 10;
/// Most forms of which it is not yet known whether they are in demand enough to be made smaller.
const CANDIDATES: usize = 256;
/// Largest part of the body's length that a form may have, in percent: above, the page is sent as
/// it is.
const WORTH: usize = 95;
/// Reports of one form's demand before it is compressed harder.
const REPORTS_FOR_BEST: u32 = 4;
/// Milliseconds without work after the store did not take a form.
const PAUSE: Ms = 1000;
/// The lowest priority of a thread.
const NICE: i32 = 19;

/// Makes forms.
#[derive(Default)]
pub(crate) struct Compressor {
    queue: Arc<Queue>,
    thread: OnceLock<()>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Something waits, or nothing will any more.
    changed: Condvar,
    /// Until then, nothing is asked for.
    paused: AtomicU64,
    /// The coding that pages are kept in, where one is kept alone.
    smallest: Mutex<packed::Smallest>,
    /// Documents of which dictionaries are made.
    samples: Mutex<Samples>,
    /// Differs from process to process, so that nobody can make two bodies of one hash.
    seed: OnceLock<RapidSecrets>,
    counters: Counters,
}

#[derive(Default)]
struct Waiting {
    forms: HashMap<Wanted, u32>,
    /// Forms that could be smaller, with reports of their demand.
    candidates: HashMap<Wanted, u32>,
    closed: bool,
}

/// The purpose of a compression.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// A form of it in this coding.
    Form(Encoding),
    /// The same with the dictionary of this hash.
    With(Encoding, Hash),
    /// The page itself is kept in the smallest of these codings alone.
    Pack(Codings),
    /// The page is a dictionary, to be found by its hash.
    Learn,
    /// The page is the dictionary of its origin's documents, and is made of them.
    Dictionary(DictionarySettings),
}

/// A page that is to be compressed.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Wanted {
    /// Key of the page.
    page: Box<[u8]>,
    goal: Goal,
}

impl Waiting {
    /// A form is missing. False: too many wait already.
    fn missing(&mut self, wanted: Wanted) -> bool {
        if let Some(demand) = self.forms.get_mut(&wanted) {
            *demand = demand.saturating_add(1);
            return true;
        }
        let room = self.forms.len() < QUEUE;
        if room {
            self.forms.insert(wanted, 1);
        }
        room
    }

    /// A form is in demand. Those in little demand make room for others.
    fn in_demand(&mut self, wanted: Wanted) {
        if self.candidates.len() >= CANDIDATES && !self.candidates.contains_key(&wanted) {
            self.candidates.retain(|_, reports| {
                *reports -= 1;
                *reports > 0
            });
            return;
        }
        let reports = self.candidates.entry(wanted).or_default();
        *reports = reports.saturating_add(1);
    }

    /// The form in the most demand; those that are missing first.
    fn next(&mut self) -> Option<(Wanted, Effort)> {
        fn most(forms: &mut HashMap<Wanted, u32>, least: u32) -> Option<Wanted> {
            let ready = forms.iter().filter(|(_, demand)| **demand >= least);
            let wanted = ready.max_by_key(|(_, demand)| **demand)?.0.clone();
            forms.remove(&wanted);
            Some(wanted)
        }
        match most(&mut self.forms, 1) {
            Some(wanted) => Some((wanted, Effort::Good)),
            None => Some((most(&mut self.candidates, REPORTS_FOR_BEST)?, Effort::Best)),
        }
    }
}

#[derive(Default)]
struct Counters {
    made: AtomicU64,
    kept: AtomicU64,
    useless: AtomicU64,
    dropped: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    dictionaries: AtomicU64,
}

impl Compressor {
    /// A page was requested and its form is missing, or (`Best`) is in demand and could be smaller.
    /// Never waits.
    pub(crate) fn want(
        &self,
        store: &'static Store,
        clock: Clock,
        page: &[u8],
        goal: Goal,
        effort: Effort,
    ) {
        if page.len() > LONGEST_KEY || clock.now() < self.queue.paused.load(Relaxed) {
            return;
        }
        let Some(mut waiting) = self.queue.waiting.try_lock() else { return };
        let wanted = Wanted { page: page.into(), goal };
        if effort == Effort::Best {
            waiting.in_demand(wanted);
        } else if !waiting.missing(wanted) {
            self.queue.counters.dropped.fetch_add(1, Relaxed);
            return;
        }
        drop(waiting);
        self.queue.changed.notify_one();
        self.thread.get_or_init(|| {
            let queue = self.queue.clone();
            let thread = thread::Builder::new().name("larder-compress".to_owned());
            // Without a thread there are no forms, and pages are sent as they are.
            let _started = thread.spawn(move || queue.work(store, clock));
        });
    }

    /// The figures.
    pub(crate) fn figures(&self) -> Compression {
        let counters = &self.queue.counters;
        Compression {
            made: counters.made.load(Relaxed),
            kept: counters.kept.load(Relaxed),
            useless: counters.useless.load(Relaxed),
            dropped: counters.dropped.load(Relaxed),
            bytes_in: counters.bytes_in.load(Relaxed),
            bytes_out: counters.bytes_out.load(Relaxed),
            dictionaries: counters.dictionaries.load(Relaxed),
            waiting: self.queue.waiting.lock().forms.len() as u64,
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.queue.waiting.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn work(&self, store: &'static Store, clock: Clock) {
        // An unprivileged thread may always be nicer.
        let _as_it_is = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
        while let Some((wanted, effort)) = self.next() {
            self.make(store, clock, &wanted, effort);
        }
    }

    /// The form in the most demand, once there is one; None at the end of the program.
    fn next(&self) -> Option<(Wanted, Effort)> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.closed {
                return None;
            }
            match waiting.next() {
                None => self.changed.wait(&mut waiting),
                next => return next,
            }
        }
    }

    fn hash(&self, body: &[u8]) -> u64 {
        let seed = || RapidSecrets::seed(RandomState::new().hash_one(0_u8));
        rapidhash_v3_seeded(body, self.seed.get_or_init(seed))
    }

    fn make(&self, store: &'static Store, clock: Clock, wanted: &Wanted, effort: Effort) {
        let done = match wanted.goal {
            Goal::Dictionary(settings) => {
                self.make_dictionary(store, clock, &wanted.page, settings)
            }
            _ => self.make_of_page(store, clock, wanted, effort),
        };
        // A store that accepts nothing now may do so later.
        if matches!(done, Err(PutError::Full)) {
            self.paused.store(clock.now() + PAUSE, Relaxed);
            self.waiting.lock().forms.clear();
        }
    }

    /// Makes a form of a page that is stored, or what else is made of it.
    fn make_of_page(
        &self,
        store: &'static Store,
        clock: Clock,
        wanted: &Wanted,
        effort: Effort,
    ) -> Result<(), PutError> {
        let Some(entry) = store.peek(PAGES, &wanted.page, clock.now()) else { return Ok(()) };
        let Some(page) = packed::viewed(&entry) else { return Ok(()) };
        let of = (&entry, &page);
        match wanted.goal {
            Goal::Form(encoding) => {
                self.note(store, clock, of);
                self.form(store, clock, of, encoding, effort)
            }
            Goal::Pack(codings) => {
                self.note(store, clock, of);
                self.pack(store, clock, of, codings, effort)
            }
            Goal::With(encoding, hash) => {
                self.form_with(store, clock, of, (encoding, &hash), effort)
            }
            Goal::Learn | Goal::Dictionary(_) => self.learn(store, clock, of),
        }
    }

    /// Keeps the page in the smallest coding alone.
    fn pack(
        &self,
        store: &'static Store,
        clock: Clock,
        (entry, page): (&Entry<'static>, &PageView<'_>),
        codings: Codings,
        effort: Effort,
    ) -> Result<(), PutError> {
        let packed = page.meta.flags.any(PageFlags::PACKED);
        let most = if effort == Effort::Best { LARGEST_BEST } else { LARGEST_BODY };
        let may = page.meta.flags.any(PageFlags::COMPRESSIBLE)
            && page.meta.partial.is_none()
            && (LEAST_BODY..=most).contains(&page.content_len())
            && packed == (effort == Effort::Best);
        if !may {
            return Ok(());
        }
        let Some(content) = packed::content(entry, page) else { return Ok(()) };
        let tried = self.smallest.lock().candidates(codings, effort);
        let Some((encoding, coded)) = packed::smallest(&tried, effort, &content) else {
            return Ok(());
        };
        if tried.len() > 1 {
            self.smallest.lock().found(codings, effort, encoding);
        }
        if packed {
            let smaller = (coded.len() as u64) < page.body_len;
            let body = copied(entry, page.body_at as u64, page.body_len);
            let kept =
                if smaller { (encoding, &coded[..]) } else { (page.meta.encoding, &body[..]) };
            return packed::pack(store, entry, page, kept, false, clock.now());
        }
        if self.counted(content.len(), coded.len()) {
            return packed::pack(store, entry, page, (encoding, &coded), true, clock.now());
        }
        // It stays as it is, and this is remembered.
        let hash = self.hash(&content);
        packed::encodings(codings).try_for_each(|encoding| {
            let form = Form::of(entry, (encoding, Effort::Best), hash, &[]);
            form.store(store, page, clock.now())
        })
    }

    fn form(
        &self,
        store: &'static Store,
        clock: Clock,
        (entry, page): (&Entry<'static>, &PageView<'_>),
        encoding: Encoding,
        effort: Effort,
    ) -> Result<(), PutError> {
        let most = if effort == Effort::Best { LARGEST_BEST } else { LARGEST_BODY };
        let flags = page.meta.flags;
        if !flags.any(PageFlags::COMPRESSIBLE)
            || flags.any(PageFlags::PACKED)
            || page.body_len > most
        {
            return Ok(());
        }
        let body = || Some(copied(entry, page.body_at as u64, page.body_len));
        let code = |body: &[u8]| coding::coded(encoding, effort, body);
        self.one_form(store, clock, (entry, page), (encoding, None, effort), body, code)
    }

    /// Makes one form of a page whose content is `body`, unless it is there.
    fn one_form(
        &self,
        store: &'static Store,
        clock: Clock,
        (entry, page): (&Entry<'static>, &PageView<'_>),
        (encoding, dictionary, effort): (Encoding, Option<&Hash>, Effort),
        body: impl FnOnce() -> Option<Vec<u8>>,
        code: impl FnOnce(&[u8]) -> io::Result<Vec<u8>>,
    ) -> Result<(), PutError> {
        let stored = StoredForm::find(store, page.key, (encoding, dictionary), clock.now())
            .filter(|stored| stored.effort >= effort);
        if stored.as_ref().is_some_and(|stored| stored.of == entry.written()) {
            // It was asked for once more while it was made.
            return Ok(());
        }
        let Some(body) = body() else { return Ok(()) };
        let body_hash = self.hash(&body);
        let (effort, coded) = match stored.filter(|stored| stored.body_hash == body_hash) {
            Some(stored) => {
                self.counters.kept.fetch_add(1, Relaxed);
                (stored.effort, stored.body())
            }
            None => match code(&body) {
                Ok(coded) if self.counted(body.len(), coded.len()) => (effort, coded),
                // Remembered by an empty form: the coding gains nothing.
                Ok(_) => (effort, Vec::new()),
                Err(_) => return Ok(()),
            },
        };
        let form = Form::of(entry, (encoding, effort), body_hash, &coded).with(dictionary.copied());
        form.store(store, page, clock.now())
    }

    /// Counts a body that was compressed. False: that gains nothing.
    fn counted(&self, body: usize, coded: usize) -> bool {
        let counters = &self.counters;
        if coded > body / 100 * WORTH {
            counters.useless.fetch_add(1, Relaxed);
            return false;
        }
        counters.made.fetch_add(1, Relaxed);
        counters.bytes_in.fetch_add(body as u64, Relaxed);
        counters.bytes_out.fetch_add(coded as u64, Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(number: usize) -> Wanted {
        let page = number.to_le_bytes().as_slice().into();
        Wanted { page, goal: Goal::Form(Encoding::Br) }
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut waiting = Waiting::default();
        assert!((0..QUEUE).all(|number| waiting.missing(form(number))));
        assert!(!waiting.missing(form(QUEUE)), "one more is dropped");
        assert!(waiting.missing(form(0)), "more demand for one that waits is noted");
        assert!(waiting.next().is_some_and(|(first, _)| first == form(0)));
        assert!(waiting.missing(form(QUEUE)), "there is room again");
        assert_eq!(waiting.forms.len(), QUEUE);
    }

    #[test]
    fn the_hottest_is_made_first() {
        let mut waiting = Waiting::default();
        for (number, demand) in [(1, 2), (2, 5), (3, 1), (4, 3)] {
            (0..demand).for_each(|_| assert!(waiting.missing(form(number))));
        }
        for number in [2, 4, 1, 3] {
            assert!(waiting.next().is_some_and(|next| next == (form(number), Effort::Good)));
        }
        assert!(waiting.next().is_none());
    }

    #[test]
    fn forms_in_demand_are_made_smaller_when_nothing_is_missing() {
        let mut waiting = Waiting::default();
        for _ in 1..REPORTS_FOR_BEST {
            waiting.in_demand(form(1));
        }
        assert!(waiting.next().is_none(), "too few reports");
        waiting.in_demand(form(1));
        assert!(waiting.missing(form(2)));
        assert!(waiting.next().is_some_and(|next| next == (form(2), Effort::Good)));
        assert!(waiting.next().is_some_and(|next| next == (form(1), Effort::Best)));
        assert!(waiting.next().is_none());
    }

    #[test]
    fn candidates_in_little_demand_make_room() {
        let mut waiting = Waiting::default();
        (0..CANDIDATES).for_each(|number| waiting.in_demand(form(number)));
        waiting.in_demand(form(0));
        waiting.in_demand(form(CANDIDATES));
        assert_eq!(waiting.candidates.len(), 1, "those with one report are gone");
        waiting.in_demand(form(CANDIDATES));
        assert_eq!(waiting.candidates.len(), 2);
    }
}
