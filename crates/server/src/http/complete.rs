//! A stored part and the answer that completes it.

use larder_proto::{
    page::{Meta, Trailer, Verify, view},
    rules::{
        Lifetime, ResponseFacts,
        partial::{self, Combined},
    },
};
use larder_store::Fill;

use super::bring::{Job, Keep, Purpose};

struct Joint {
    /// Bytes of the stored part that come first.
    before: u64,
    /// Bytes of the whole.
    total: u64,
}

/// How many bytes of the stored part come before those of a 206 that completes it (RFC 9111 section 3.4).
fn joint(keep: &Keep, facts: &ResponseFacts<'_>) -> Option<Joint> {
    let held = keep.held.as_ref()?;
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    let stored = held.meta.partial?;
    let new = partial::content_range(facts.fields)?;
    match partial::combine(&held.meta, page.etag, facts.fields) {
        Combined::Whole(join) if stored.first == 0 && new.first <= stored.last + 1 => {
            Some(Joint { before: new.first, total: join.whole.total })
        }
        _ => None,
    }
}

/// Whether a 206 completes the stored part.
pub(super) fn completes(keep: &Keep, facts: &ResponseFacts<'_>) -> bool {
    joint(keep, facts).is_some()
}

/// What is stored of a response.
pub(super) struct Extent {
    pub(super) meta: Meta,
    /// Bytes of the stored part that come before the answer's.
    pub(super) before: u64,
    /// Length of the body, where the response says it. A part whose body is shorter or longer is broken.
    pub(super) length: Option<u64>,
}

/// The extent of a response: whole, a part, or a part that with the stored one makes the whole.
pub(super) fn extent(
    keep: &Keep,
    facts: &ResponseFacts<'_>,
    lifetime: &Lifetime,
    declared: Option<u64>,
) -> Option<Extent> {
    let mut meta = lifetime.meta(facts);
    if keep.purpose == Purpose::Complete && facts.status == 206 {
        let Joint { before, total } = joint(keep, facts)?;
        (meta.status, meta.partial) = (200, None);
        return Some(Extent { meta, before, length: Some(total) });
    }
    let length = meta.partial.map(|part| part.bytes()).or(declared);
    Some(Extent { meta, before: 0, length })
}

/// Copies the first bytes of the stored part's body.
pub(super) fn copy_before(job: &Job, fill: &mut Fill<'static>, trailer: &mut Trailer, before: u64) -> bool {
    let Some(held) = job.keep.as_ref().and_then(|keep| keep.held.as_ref()) else { return false };
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else { return false };
    let (mut at, end) = (page.body_at as u64, page.body_at as u64 + before);
    while at < end {
        let chunk = held.entry.chunk_at(at);
        let take = (chunk.len() as u64).min(end - at) as usize;
        if take == 0 || fill.write(&chunk[..take]).is_err() {
            return false;
        }
        trailer.update(&chunk[..take]);
        at += take as u64;
    }
    true
}
