//! Where a page goes: its key, its marker, its tags; and the mark of a page that is not to be stored.

use larder_proto::{
    http::Fields,
    page::{Kind, Meta, Parts, Trailer, encode_head},
    rules::{Vary, vary},
};
use larder_store::{MAX_TAGS, Put};

use super::{
    bring::{self, Job, Keep},
    flight::{Flight, Purged},
    lookup::PAGES,
    variant::{self, Marker, Values},
    worker::Worker,
};
use crate::clock::Ms;

/// How long a key whose response was not to be stored is remembered as such.
const HIT_FOR_MISS: Ms = 60_000;
/// Longest tag taken from a response.
const TAG_LEN: usize = 1024;

/// Where a page goes and what selects it.
pub(super) struct Place {
    pub(super) key: Vec<u8>,
    pub(super) vary: Values,
    /// A marker to be written first.
    pub(super) marker: Option<Marker>,
}

/// Where the response goes: under the primary key, or as a variant under a marker.
pub(super) fn place(job: &Job, keep: &Keep, fields: Fields<'_>) -> Option<Place> {
    let names = match vary::names(fields) {
        Vary::Star => return None,
        Vary::None => Vec::new(),
        Vary::Names(names) => names,
    };
    let before = Marker::load(job.worker.store, &keep.primary, job.worker.clock.now());
    if before.is_none() && names.is_empty() {
        return Some(Place { key: keep.primary.clone(), vary: Vec::new(), marker: None });
    }
    let encoding = fields.get("content-encoding");
    let vary = keep
        .with_request(|head| variant::values(&names, &bring::request_view(head), &keep.policy, encoding))?;
    let (marker, new) = Marker::with(before, &vary, || job.worker.nonce());
    Some(Place { key: marker.key(&keep.primary, &vary), vary, marker: new.then_some(marker) })
}

/// Writes a marker for what this flight brings. It has no expiry: it is a hundred bytes, and goes when nobody asks for it.
///
/// The variants that were softly purged by the marker before stay so. A purge that comes between reading a marker and writing
/// it has marked the flight: it counts for what is written here too, or the old variants could be found again.
pub(super) fn put_marker(worker: &Worker, flight: &Flight, primary: &[u8], marker: &Marker) {
    if flight.purged() == Purged::Gone {
        return;
    }
    let before = Marker::soft_purged(worker.store, primary, marker.nonce, worker.clock.now());
    write_marker(worker, primary, marker, before);
    match flight.purged() {
        Purged::No => {}
        Purged::Softly => write_marker(worker, primary, marker, worker.clock.now()),
        Purged::Gone => {
            worker.store.delete(PAGES, primary, worker.clock.now());
        }
    }
}

fn write_marker(worker: &Worker, primary: &[u8], marker: &Marker, soft_purged_at: Ms) {
    let meta = Meta { kind: Kind::VaryMarker, nonce: marker.nonce, soft_purged_at, ..Meta::default() };
    put_record(worker, primary, &meta, &marker.pairs(), None);
}

/// Remembers that nobody should wait for this key.
pub(super) fn hit_for_miss(job: &Job, keep: &Keep) {
    let meta = Meta { kind: Kind::HitForMiss, ..Meta::default() };
    let expires = job.worker.clock.now() + HIT_FOR_MISS;
    put_record(&job.worker, keep.key(), &meta, &[], Some(expires));
}

/// A record without head and body.
fn put_record(worker: &Worker, key: &[u8], meta: &Meta, vary: &[(&str, Option<&[u8]>)], expires: Option<Ms>) {
    let parts = Parts { vary, key, ..Parts::default() };
    let Ok(record) = encode_head(meta, &parts) else { return };
    let trailer = Trailer::new(&record).finish();
    let put = Put { value: &[&record, &trailer], expires, ..Put::default() };
    if worker.store.set(PAGES, key, put, worker.clock.now()).is_err() {
        worker.counters.store_refused.one();
    }
}

/// Surrogate keys: `Surrogate-Key` and `xkey` (separated by blanks), `Cache-Tag` (by commas).
pub(super) fn tags(fields: Fields<'_>) -> Vec<Box<[u8]>> {
    let blanks = ["surrogate-key", "xkey"];
    let mut out: Vec<Box<[u8]>> = blanks
        .iter()
        .flat_map(|name| fields.all(name))
        .flat_map(|value| value.split(|b| matches!(b, b' ' | b'\t' | b',')))
        .chain(fields.elements("cache-tag"))
        .filter(|tag| !tag.is_empty() && tag.len() <= TAG_LEN)
        .map(Box::from)
        .collect();
    out.sort_unstable();
    out.dedup();
    out.truncate(MAX_TAGS);
    out
}
