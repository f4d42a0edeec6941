//! A stored part and the answer that completes it.

use larder_proto::{
    page::{Meta, Verify, view},
    rules::{
        Lifetime, ResponseFacts,
        partial::{self, Combined},
        split_head,
        update::{merge_304, with_fields},
    },
};

use crate::{
    fetch::job::{Keep, Purpose},
    page::writer::PageFill,
};

struct Joint {
    /// Bytes of the stored part that come first.
    before: u64,
    /// Bytes of the whole.
    total: u64,
}

/// How many bytes of the stored part come before those of a 206 that completes it (RFC 9111 section
/// 3.4).
fn joint(keep: &Keep, facts: &ResponseFacts<'_>, declared: Option<u64>) -> Option<Joint> {
    let held = keep.held.as_ref()?;
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    let stored = held.meta.partial?;
    let new = partial::content_range(facts.fields)?;
    let (_, lines) = split_head(page.head)?;
    let combined = with_fields(lines, |fields| {
        partial::combine(&held.meta, page.etag, fields, facts.fields, declared)
    });
    match combined.ok()? {
        Combined::Whole(join) if stored.first == 0 && new.first <= stored.last + 1 => {
            Some(Joint { before: new.first, total: join.whole.total })
        }
        _ => None,
    }
}

/// Whether a 206 whose framing announces `declared` bytes completes the stored part.
pub(crate) fn completes(keep: &Keep, facts: &ResponseFacts<'_>, declared: Option<u64>) -> bool {
    joint(keep, facts, declared).is_some()
}

/// The field lines of the whole that a 206 makes of the stored part: those stored, updated by the
/// answer's, which may say no more than what changed (RFC 9111 section 3.4, RFC 9110 section
/// 15.3.7). None for any other response.
pub(crate) fn merged(keep: &Keep, facts: &ResponseFacts<'_>) -> Option<Vec<u8>> {
    if keep.purpose != Purpose::Complete || facts.status != 206 {
        return None;
    }
    let held = keep.held.as_ref()?;
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    merge_304(&page, facts.fields, &keep.policy.cache).ok()
}

/// The part of a response that is stored.
pub(crate) struct Extent {
    pub(crate) meta: Meta,
    /// Bytes of the stored part that come before the answer's.
    pub(crate) before: u64,
    /// Length of the body, where the response says it. A part whose body is shorter or longer is
    /// broken.
    pub(crate) length: Option<u64>,
}

/// The extent of a response: whole, a part, or a part that with the stored one makes the whole.
pub(crate) fn extent(
    keep: &Keep,
    facts: &ResponseFacts<'_>,
    lifetime: &Lifetime,
    declared: Option<u64>,
) -> Option<Extent> {
    let mut meta = lifetime.meta(facts);
    if keep.purpose == Purpose::Complete && facts.status == 206 {
        let Joint { before, total } = joint(keep, facts, declared)?;
        (meta.status, meta.partial) = (200, None);
        // Of the same coding, whether the answer says so once more or not.
        meta.encoding = keep.held.as_ref()?.meta.encoding;
        return Some(Extent { meta, before, length: Some(total) });
    }
    let length = meta.partial.map(|part| part.bytes()).or(declared);
    Some(Extent { meta, before: 0, length })
}

/// Copies the first bytes of the stored part's body.
pub(crate) async fn copy_before(keep: &Keep, fill: &mut PageFill, before: u64) -> Option<()> {
    let held = keep.held.as_ref()?;
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    fill.copy(before, |at| held.entry.chunk_at(page.body_at as u64 + at)).await.ok()
}
