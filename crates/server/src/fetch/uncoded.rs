//! Answers in a content coding that their client cannot read, from origins that code whatever they
//! are asked for.

use larder_proto::{
    http::{CacheControl, Codings, Fields},
    page::Encoding,
};

use crate::{
    fetch::{job::Job, template},
    origin::{Body, Response},
    page::head::Spelled,
};

/// Longest body that is uncoded, coded or not, in bytes. A longer one, and one that cannot be read,
/// is sent as it came.
const MOST: u64 = 8 << 20;

/// Whether there may be a coding to undo: see [`undo`].
pub(super) fn applies(job: &Job, response: &Response) -> bool {
    let wanted = job.part || !job.policy.cache.compress.is_empty();
    wanted && response.headers.contains_key("content-encoding")
}

/// Undoes the coding of an answer that its client cannot read, where the site has its pages
/// compressed here, and of all parts of pages: so they are stored uncoded, and no hit decodes. An
/// error: the answer cannot be sent.
pub(super) async fn undo(
    job: &Job,
    response: &mut Response,
    spelled: &mut Spelled,
) -> Result<(), &'static str> {
    if !applies(job, response) {
        return Ok(());
    }
    let most = if job.part { job.policy.parts.size } else { MOST };
    let (encoding, stays, tells) = {
        let headers = spelled.headers();
        let fields = Fields::new(&headers);
        let encoding = Encoding::of(fields.get("content-encoding"));
        let never = matches!(encoding, Encoding::Identity | Encoding::Other)
            || !has_whole_content(response.status)
            || response.upgraded.is_some()
            || CacheControl::parse(fields.all("cache-control")).no_transform
            || response.body.declared_length().is_some_and(|length| length > most);
        if never {
            return Ok(());
        }
        let accepted = job.accepted.allows(fields.elements("content-encoding"));
        let tells = fields.elements("vary").any(|name| name == b"*" || is_accept_encoding(name));
        (encoding, accepted || !job.accepted.identity() || job.head, tells)
    };
    if stays {
        if !tells && !job.part {
            // Others get it uncoded.
            spelled.push("vary", "Accept-Encoding");
        }
        return Ok(());
    }
    let room = &job.pages.shared.room;
    let Some(raw) = Box::pin(template::read(room, response, most)).await? else { return Ok(()) };
    match Box::pin(template::decoded(room, raw.clone(), encoding, most)).await {
        Ok(content) => {
            response.body = Body::ready(content);
            describe(spelled);
        }
        Err(_) => response.body.refill(raw),
    }
    Ok(())
}

fn has_whole_content(status: u16) -> bool {
    (200..600).contains(&status) && !matches!(status, 204 | 206 | 304)
}

fn is_accept_encoding(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"accept-encoding")
}

/// The fields of the uncoded answer: those that are about the bytes go, and a strong entity tag
/// becomes weak, since it names other bytes (RFC 9110 section 8.8.3.3).
fn describe(spelled: &mut Spelled) {
    for name in [
        "content-encoding",
        "content-length",
        "content-digest",
        "repr-digest",
        "digest",
        "content-md5",
    ] {
        spelled.remove(name);
    }
    spelled.change("etag", |tag| (!tag.starts_with(b"W/")).then(|| [b"W/", tag].concat()));
}

/// The codings that the client of a request reads.
pub(super) fn accepted(fields: Fields<'_>) -> Codings {
    Codings::parse(fields.all("accept-encoding"))
}
