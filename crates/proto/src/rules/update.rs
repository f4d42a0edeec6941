//! Updating a stored page from a 304 (RFC 9111 3.2, 4.3.4) or a HEAD (4.3.5).

use super::storable::judge;
use super::strip::{StoredHead, is_hop_by_hop, named_by_connection, stored_head, write_line};
use super::validate::validates;
use super::{NoStore, Policy, RequestFacts, ResponseFacts, vary};
use crate::http::{EMPTY_HEADER, EntityTag, Fields, Malformed, date, parse_fields};
use crate::page::{Meta, PageFlags, PageView};

/// Status line (with its CRLF) and field lines of a stored head. `None` when there is no line end.
pub fn split_head(head: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = head.windows(2).position(|w| w == b"\r\n")? + 2;
    Some(head.split_at(end))
}

/// Calls `f` with the fields of stored lines, with as many slots as there are lines.
pub fn with_fields<R>(lines: &[u8], f: impl FnOnce(Fields<'_>) -> R) -> Result<R, Malformed> {
    let mut slots = vec![EMPTY_HEADER; lines.iter().filter(|&&b| b == b'\n').count()];
    parse_fields(lines, &mut slots).map(f)
}

/// A page after validation: replace the old ones with these, before the same body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshened {
    /// New times, lifetime and flags; status, coding and partial as before.
    pub meta: Meta,
    /// New head and withheld lines.
    pub head: StoredHead,
    /// The new entity tag; empty for none.
    pub etag: Vec<u8>,
}

/// Why a page is not freshened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFreshened {
    /// The answer is for another page: fetch again without conditions.
    OtherPage,
    /// After the update it must not be stored: serve it for this request, then drop it. (For
    /// [`NoStore::Authorization`] and [`NoStore::RequestNoStore`] the request is the cause: leave
    /// the page unchanged.)
    NotStorable(NoStore),
    /// The stored head cannot be read: a miss.
    Malformed,
}

/// Freshens a stored page by a 304 to its validation request (RFC 9111 4.3.4). The caller ensures
/// that the request carried [`super::conditions`] of this page.
pub fn freshen(
    page: &PageView<'_>,
    req: &RequestFacts<'_>,
    not_modified: &ResponseFacts<'_>,
    policy: &Policy,
) -> Result<Freshened, NotFreshened> {
    // No such page is validated; were one, it would stay for as long as its head says.
    let unframed = page.meta.flags.any(PageFlags::UNFRAMED);
    if unframed || !validates(&page.meta, page.etag, not_modified.fields) {
        return Err(NotFreshened::OtherPage);
    }
    renew(page, req, not_modified, policy)
}

/// Effect of the response to a HEAD on a stored page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadUpdate {
    /// Same representation, as far as can be determined: the page is freshened.
    Update(Box<Freshened>),
    /// Another representation: the page must be treated as stale.
    Invalidate,
    /// No information about the page (not a 200, or no 200 stored).
    Ignore,
}

/// Freshens a stored page by the response to a HEAD (RFC 9111 4.3.5): validators and Content-Length
/// must equal the stored ones.
pub fn head_update(
    page: &PageView<'_>,
    req: &RequestFacts<'_>,
    resp: &ResponseFacts<'_>,
    policy: &Policy,
) -> HeadUpdate {
    if resp.status != 200 || page.meta.status != 200 || page.meta.flags.any(PageFlags::UNFRAMED) {
        return HeadUpdate::Ignore;
    }
    let received = resp.response_time / 1000;
    let tag = resp.fields.get("etag").and_then(EntityTag::parse);
    let same_tag = match (page.etag.and_then(EntityTag::parse), tag) {
        (Some(stored), Some(new)) => stored == new,
        (None, None) => true,
        _ => false,
    };
    let modified = resp.fields.get("last-modified").and_then(|v| date::parse(v, received));
    let length = resp.fields.get("content-length").map(crate::http::framing::content_length);
    let same_length = length.is_none_or(|length| length == Some(page.content_len()));
    if !same_tag || modified != page.meta.last_modified || !same_length {
        return HeadUpdate::Invalidate;
    }
    match renew(page, req, resp, policy) {
        Ok(fresh) => HeadUpdate::Update(Box::new(fresh)),
        Err(NotFreshened::NotStorable(NoStore::Authorization | NoStore::RequestNoStore)) => {
            HeadUpdate::Ignore
        }
        Err(_) => HeadUpdate::Invalidate,
    }
}

fn renew(
    page: &PageView<'_>,
    req: &RequestFacts<'_>,
    new: &ResponseFacts<'_>,
    policy: &Policy,
) -> Result<Freshened, NotFreshened> {
    let (status_line, _) = split_head(page.head).ok_or(NotFreshened::Malformed)?;
    let reason =
        status_line.get(13..).and_then(|r| std::str::from_utf8(r).ok()).unwrap_or_default();
    let merged = merge_304(page, new.fields, policy).map_err(|_| NotFreshened::Malformed)?;
    with_fields(&merged, |fields| {
        let facts = ResponseFacts { status: page.meta.status, fields, ..*new };
        if !same_selection(page, fields, policy) {
            return Err(NotFreshened::OtherPage);
        }
        let lifetime =
            judge(req, &facts, policy, page.meta.partial).map_err(NotFreshened::NotStorable)?;
        let authorised = page.meta.flags.any(PageFlags::AUTHORIZED);
        // The bytes are the same: they have a plan, lie in slices, are packed, or none of these.
        let special = page.meta.flags.any(PageFlags::OTHER_BYTES);
        let kind = page.meta.flags.only(PageFlags::COMPOSED);
        let nonce = if special { page.meta.nonce } else { 0 };
        let meta = Meta { encoding: page.meta.encoding, nonce, ..lifetime.meta(&facts) };
        let flags = meta.flags.with_if(PageFlags::AUTHORIZED, authorised);
        let flags = if special { flags.without(PageFlags::COMPOSED).with(kind) } else { flags };
        Ok(Freshened {
            meta: Meta { flags, ..meta },
            head: stored_head(&facts, reason.trim_end(), policy),
            etag: fields.get("etag").unwrap_or_default().to_vec(),
        })
    })
    .map_err(|_| NotFreshened::Malformed)?
}

/// Whether the page was selected by all the fields that the merged Vary names; if not, it can no
/// longer be stored.
fn same_selection(page: &PageView<'_>, merged: Fields<'_>, policy: &Policy) -> bool {
    match vary::selecting(merged, policy) {
        vary::Vary::Star => false,
        vary::Vary::None => true,
        vary::Vary::Names(names) => {
            names.iter().all(|name| page.vary.into_iter().any(|(stored, _)| stored == name))
        }
    }
}

/// The page's field lines with the fields of a 304: each field of the 304 replaces all stored lines
/// of that name, except fields that describe the stored bytes or may not be stored (RFC 9111 3.2).
/// Lines withheld from clients are included again, and so is the 304's Age: these lines are
/// evaluated, and [`stored_head`] makes the head from them.
pub fn merge_304(
    page: &PageView<'_>,
    new: Fields<'_>,
    policy: &Policy,
) -> Result<Vec<u8>, Malformed> {
    let (_, head) = split_head(page.head).ok_or(Malformed::LineEnd)?;
    let mut out = Vec::with_capacity(page.head.len() + 256);
    let taken = |name: &str| updates(name, new, page.etag.is_some(), policy);
    // If the 304 has no Date, the time of receipt is its date (RFC 9110 6.6.1), not the stored one.
    let replaced = |name: &str| name.eq_ignore_ascii_case("date") || (new.has(name) && taken(name));
    with_fields(page.withheld, |withheld| {
        with_fields(head, |head| {
            let lines = head.iter().filter(|(name, _)| !withheld.has(name)).chain(withheld.iter());
            for (name, value) in lines.filter(|(name, _)| !replaced(name)) {
                write_line(name, value, &mut out);
            }
        })
    })??;
    for (name, value) in new.iter().filter(|(name, _)| taken(name)) {
        write_line(name, value, &mut out);
    }
    Ok(out)
}

/// Whether a 304's field replaces the stored one. Exceptions: fields that are never stored, fields
/// that describe the stored bytes (length, coding, range, digests), the entity tag of those bytes,
/// and cookies unless allowed.
fn updates(name: &str, new: Fields<'_>, has_etag: bool, policy: &Policy) -> bool {
    const DESCRIBES: [&str; 7] = [
        "content-length",
        "content-encoding",
        "content-range",
        "content-md5",
        "content-digest",
        "repr-digest",
        "digest",
    ];
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let kept_out = DESCRIBES.iter().any(|d| is(d))
        || (has_etag && is("etag"))
        || (!policy.allow_set_cookie && is("set-cookie"));
    !kept_out && !is_hop_by_hop(name) && !named_by_connection(new, name)
}

#[cfg(test)]
mod tests;
