//! Whether what comes from the fleet can have been written by a Larder.
//!
//! Checksums tell damage from what was written; they do not tell who wrote it. A writer to the
//! fleet is trusted with the content of pages, but must not be able to bring a connection out of
//! step: a head with fields of another hop, a length that is not the body's, or an empty line
//! inside would make the rest of the body somebody's next response. So the head of a page from
//! outside is read as a response from outside would be, once, before it is placed in the store.

use larder_proto::{
    http::{framing::content_length, key::parse_variant_key},
    page::{Encoding, Kind, Meta, PageFlags, PageView},
    rules::{split_head, strip::is_hop_by_hop, update::with_fields},
};

use crate::{clock::Ms, page::packed};

/// Names in a marker, all sets together; a marker of ours has what a few Vary fields name.
const MOST_NAMES: usize = 1024;
/// How far the clock of whoever received a page may be ahead: records of those further ahead are
/// not taken at all.
const AHEAD: Ms = 5 * 60_000;
/// The last second that a date can name (the end of the year 9999).
const LAST_SECOND: u64 = 253_402_300_799;

/// Whether this may be put into the store.
pub(crate) fn sound(page: &PageView<'_>, now: Ms) -> bool {
    match page.meta.kind {
        Kind::HitForMiss | Kind::Form => false,
        Kind::VaryMarker => page.vary.take(MOST_NAMES + 1).count() <= MOST_NAMES,
        // Behind a page with markup lies its plan.
        Kind::Page if page.meta.flags.any(PageFlags::ESI) && page.meta.nonce > page.body_len => {
            false
        }
        Kind::Page if page.meta.flags.any(PageFlags::PACKED) && !packed::is_possible(page) => false,
        Kind::Page => selected(page) && possible(&page.meta, page.body_len, now) && readable(page),
    }
}

/// A page in a content coding lies under the key of a variant: under a primary key it would be for
/// those who cannot read it too. One that a Larder packed is for all.
fn selected(page: &PageView<'_>) -> bool {
    page.meta.flags.any(PageFlags::PACKED)
        || matches!(page.meta.encoding, Encoding::Identity | Encoding::Other)
        || parse_variant_key(page.key).is_some()
}

/// Times that can be, and a status that has such a body.
fn possible(meta: &Meta, body: u64, now: Ms) -> bool {
    let bodied = match meta.status {
        204 => body == 0,
        206 | 304 => false,
        status => (200..600).contains(&status),
    };
    let received = meta.response_time <= now.saturating_add(AHEAD);
    bodied
        && received
        && meta.date <= LAST_SECOND
        && meta.last_modified.is_none_or(|at| at <= LAST_SECOND)
}

/// A status line and fields as they are stored, and nothing behind them.
fn readable(page: &PageView<'_>) -> bool {
    let Some((line, fields)) = split_head(page.head) else { return false };
    let begin = format!("HTTP/1.1 {:03} ", page.meta.status);
    let reason = line.strip_prefix(begin.as_bytes()).and_then(|rest| rest.strip_suffix(b"\r\n"));
    if reason.is_none_or(|reason| reason.iter().any(u8::is_ascii_control)) {
        return false;
    }
    let tag = page.etag.unwrap_or_default();
    let closed = |lines: &[u8]| lines == b"\r\n" || lines.ends_with(b"\r\n\r\n");
    if closed(fields) || closed(page.withheld) || tag.iter().any(u8::is_ascii_control) {
        return false;
    }
    let has_length = page.meta.flags.any(PageFlags::HAS_LENGTH);
    let fits = with_fields(fields, |fields| {
        let lengths: Vec<_> = fields.all("content-length").collect();
        let own = |name: &str| {
            is_hop_by_hop(name)
                || ["age", "content-range"].iter().any(|n| n.eq_ignore_ascii_case(name))
        };
        let length = match lengths[..] {
            [] => !has_length,
            [length] => has_length && content_length(length) == Some(page.body_len),
            _ => false,
        };
        length && fields.iter().all(|(name, _)| !own(name))
    });
    fits.unwrap_or(false) && with_fields(page.withheld, |_| ()).is_ok()
}
