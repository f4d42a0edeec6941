//! Work that begins when a page is stored: the thread that compresses does it.

use larder_proto::page::PageFlags;

use crate::{
    fetch::job::Job,
    page::{coding::Effort, compressor::Goal, head, packed, writer::PageDraft},
};

/// Has a page packed that is kept in one coding alone, and one noted that its origin names as a
/// dictionary.
pub(super) fn begin(job: &Job, draft: &PageDraft) {
    let (pages, policy) = (&job.pages, &job.policy);
    let want = |goal| {
        let compressor = &pages.shared.compressor;
        compressor.want(pages.store, pages.clock, &draft.key, goal, Effort::Good);
    };
    let flags = draft.meta.flags;
    let waits = flags.any(PageFlags::COMPRESSIBLE) && !flags.any(PageFlags::PACKED);
    if policy.one_form && waits && !policy.cache.compress.is_empty() {
        want(packed::goal(&policy.cache.compress));
    }
    if policy.cache.dictionary && head::field(&draft.head, "use-as-dictionary").is_some() {
        want(Goal::Learn);
    }
}
