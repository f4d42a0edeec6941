//! The thread that makes compressed forms of pages, off the way of every request.
//!
//! A hit on a page whose form is missing asks for it and is answered with what there is. The queue
//! is short and ordered by demand; a request that finds it busy or full asks again with the next
//! hit. The thread has the lowest priority.

use std::{
    collections::HashMap,
    io::{self, Write as _},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use larder_metrics::Compression;
use larder_proto::page::{Encoding, PageFlags, Verify, view};
use larder_store::Store;
use parking_lot::{Condvar, Mutex};

use crate::{
    clock::Clock,
    page::{
        forms::{Effort, Form, StoredForm, copied},
        lookup::PAGES,
    },
};

/// Most forms that wait to be made. More demand is dropped and counted: the next hit asks again.
const QUEUE: usize = 1024;
/// Largest body that is compressed, in bytes. The thread holds one body and its form, outside the
/// store.
const LARGEST_BODY: u64 = 8 << 20;
/// Largest part of the body's length that a form may have, in percent: above, the page is sent as
/// it is.
const WORTH: usize = 95;
/// Reports of one form's demand before it is compressed harder.
const REPORTS_FOR_BEST: u32 = 4;
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
    counters: Counters,
}

#[derive(Default)]
struct Waiting {
    forms: HashMap<Wanted, u32>,
    closed: bool,
}

/// A form that was asked for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Wanted {
    /// Key of the page.
    page: Box<[u8]>,
    encoding: Encoding,
    effort: Effort,
}

#[derive(Default)]
struct Counters {
    made: AtomicU64,
    kept: AtomicU64,
    useless: AtomicU64,
    dropped: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Compressor {
    /// A page was requested and its form is missing, or (`Best`) is in demand and could be smaller.
    /// Never waits.
    pub(crate) fn want(
        &self,
        store: &'static Store,
        clock: Clock,
        page: &[u8],
        encoding: Encoding,
        effort: Effort,
    ) {
        let wanted = Wanted { page: page.into(), encoding, effort };
        let Some(mut waiting) = self.queue.waiting.try_lock() else { return };
        if let Some(demand) = waiting.forms.get_mut(&wanted) {
            *demand = demand.saturating_add(1);
        } else if waiting.forms.len() < QUEUE {
            waiting.forms.insert(wanted, 1);
        } else {
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
        while let Some(wanted) = self.next() {
            self.make(store, clock, &wanted);
        }
    }

    /// The form in the most demand, once there is one; None at the end of the program.
    fn next(&self) -> Option<Wanted> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.closed {
                return None;
            }
            let ready = waiting.forms.iter().filter(|(wanted, demand)| {
                wanted.effort == Effort::Good || **demand >= REPORTS_FOR_BEST
            });
            let first = ready.max_by_key(|(_, demand)| **demand).map(|(wanted, _)| wanted.clone());
            match first {
                Some(wanted) => {
                    waiting.forms.remove(&wanted);
                    return Some(wanted);
                }
                None => self.changed.wait(&mut waiting),
            }
        }
    }

    fn make(&self, store: &'static Store, clock: Clock, wanted: &Wanted) {
        let Wanted { encoding, effort, .. } = *wanted;
        let Some(entry) = store.peek(PAGES, &wanted.page, clock.now()) else { return };
        let Ok(page) = view(entry.head(), entry.len(), Verify::Layout) else { return };
        if !page.meta.flags.any(PageFlags::COMPRESSIBLE) || page.body_len > LARGEST_BODY {
            return;
        }
        let stored = StoredForm::find(store, &wanted.page, encoding, clock.now())
            .filter(|stored| stored.effort >= effort);
        if stored.as_ref().is_some_and(|stored| stored.of == entry.written()) {
            // It was asked for once more while it was made.
            return;
        }
        let body = copied(&entry, page.body_at as u64, page.body_len);
        let body_hash = rapidhash::v3::rapidhash_v3(&body);
        let (effort, coded) = match stored.filter(|stored| stored.body_hash == body_hash) {
            Some(stored) => {
                self.counters.kept.fetch_add(1, Relaxed);
                (stored.effort, stored.body())
            }
            None => match self.compressed(encoding, effort, &body) {
                Ok(coded) => (effort, coded),
                Err(_) => return,
            },
        };
        let form = Form {
            encoding,
            effort,
            of: entry.written(),
            body_hash,
            body: &coded,
            expires: entry.expires(),
        };
        // A store that accepts nothing now may do so at the next demand.
        let _full = form.store(store, &page, clock.now());
    }

    /// The body in a coding; empty if that gains nothing.
    fn compressed(&self, encoding: Encoding, effort: Effort, body: &[u8]) -> io::Result<Vec<u8>> {
        let coded = compress(encoding, effort, body)?;
        let counters = &self.counters;
        if coded.len() > body.len() / 100 * WORTH {
            counters.useless.fetch_add(1, Relaxed);
            return Ok(Vec::new());
        }
        counters.made.fetch_add(1, Relaxed);
        counters.bytes_in.fetch_add(body.len() as u64, Relaxed);
        counters.bytes_out.fetch_add(coded.len() as u64, Relaxed);
        Ok(coded)
    }
}

/// Levels: an article of 88 KB takes 1.0 ms by gzip's 6, 1.7 by brotli's 5, 1.1 by zstd's 9, and
/// 104 ms by brotli's 11, which is a seventh smaller than its 5.
fn compress(encoding: Encoding, effort: Effort, body: &[u8]) -> io::Result<Vec<u8>> {
    let level = |good: i32, best: i32| if effort == Effort::Best { best } else { good };
    match encoding {
        Encoding::Zstd => zstd::bulk::compress(body, level(9, 19)),
        Encoding::Br => {
            let mut out = Vec::new();
            let params = brotli::enc::BrotliEncoderParams {
                quality: level(5, 11),
                size_hint: body.len(),
                ..Default::default()
            };
            brotli::BrotliCompress(&mut &body[..], &mut out, &params)?;
            Ok(out)
        }
        _ => {
            let level = flate2::Compression::new(level(6, 9).unsigned_abs());
            let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
            out.write_all(body)?;
            out.finish()
        }
    }
}
