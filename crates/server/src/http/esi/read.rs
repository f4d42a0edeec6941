//! The bodies of parts that are read whole before they are put in: coded ones, short ones, and
//! those of answers that are collected. Their memory counts as that of clients.

use bytes::Bytes;
use larder_proto::page::{Encoding, Verify, view};

use super::{Arrived, Budget};
use crate::{
    origin::Body,
    page::{
        coding::{self, Undecoded},
        flight::{Follower, Piece},
        forms,
        lookup::StoredPage,
    },
    room::Counted,
};

/// Bytes of a part for one client that are read before it counts as there: a short one that breaks
/// off has failed, and those that follow it in the page come meanwhile.
const AHEAD: u64 = 16 << 10;

/// The status of a part for which there is no memory.
const CROWDED: u16 = 503;
/// The status of a part that breaks off, cannot be decoded, or is longer than it may be.
const BROKEN: u16 = 502;

/// The content of a coded part in memory. It is kept beside the part.
pub(super) async fn uncoded_page(budget: &Budget, held: &StoredPage) -> Result<Arrived, u16> {
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).map_err(|_| BROKEN)?;
    let (pages, most) = (&budget.pages, budget.limits.size);
    let (mut at, end) = (page.body_at as u64, page.body_at as u64 + page.body_len);
    if page.body_len > most {
        return Err(BROKEN);
    }
    let mut coded = Counted::new(&pages.shared.room);
    while at < end {
        let chunk = held.entry.chunk_at(at);
        let take = (end - at).min(chunk.len() as u64) as usize;
        if take == 0 || !coded.extend(&chunk[..take]).await {
            return Err(CROWDED);
        }
        at += take as u64;
    }
    let content = uncoded(budget, held.meta.encoding, coded.into_bytes()).await?;
    forms::keep_content(pages.store, held, &content, pages.clock.now());
    Ok(Arrived::ready(content))
}

/// The content of a coded part on its way into the store.
pub(super) async fn uncoded_follower(
    budget: &Budget,
    encoding: Encoding,
    follower: Follower,
) -> Result<Arrived, u16> {
    let coded = followed(budget, follower, budget.limits.size).await?;
    uncoded(budget, encoding, coded).await.map(Arrived::ready)
}

async fn uncoded(budget: &Budget, encoding: Encoding, coded: Bytes) -> Result<Bytes, u16> {
    let (room, most) = (&budget.pages.shared.room, budget.limits.size);
    let content = coding::decoded(room, encoding, coded, most).await;
    content.map_err(|fault| if fault == Undecoded::Crowded { CROWDED } else { BROKEN })
}

/// The whole of a body that goes into the store, `most` bytes at the most.
pub(super) async fn followed(
    budget: &Budget,
    mut follower: Follower,
    most: u64,
) -> Result<Bytes, u16> {
    let mut out = Counted::new(&budget.pages.shared.room);
    loop {
        let taken = match follower.next(out.len() as u64).await {
            Piece::Stored(data) => out.extend(data).await,
            Piece::Passed(data) => out.extend(&data).await,
            Piece::End(_) => return Ok(out.into_bytes()),
            Piece::Broken => return Err(BROKEN),
        };
        if !taken {
            return Err(CROWDED);
        }
        if out.len() as u64 > most {
            return Err(BROKEN);
        }
    }
}

/// The beginning of a body for one client, or all of one that is short or coded.
pub(super) async fn alone(
    budget: &Budget,
    encoding: Encoding,
    mut body: Body,
) -> Result<Arrived, u16> {
    let coded = encoding != Encoding::Identity;
    let most = if coded { budget.limits.size } else { AHEAD };
    let mut out = Counted::new(&budget.pages.shared.room);
    match all(&mut body, &mut out, most).await? {
        Ended::Whole if coded => {
            uncoded(budget, encoding, out.into_bytes()).await.map(Arrived::ready)
        }
        Ended::Whole => Ok(Arrived::ready(out.into_bytes())),
        Ended::Longer if coded => Err(BROKEN),
        Ended::Longer => Ok(Arrived::Alone(out.into_bytes(), Box::new(body), None)),
    }
}

/// The rest of a body for one client, behind the part that was read ahead; `most` bytes in all.
pub(super) async fn rest(
    budget: &Budget,
    ahead: &[u8],
    mut body: Body,
    most: u64,
) -> Result<Bytes, u16> {
    let mut out = Counted::new(&budget.pages.shared.room);
    if !out.extend(ahead).await {
        return Err(CROWDED);
    }
    match all(&mut body, &mut out, most).await? {
        Ended::Whole => Ok(out.into_bytes()),
        Ended::Longer => Err(BROKEN),
    }
}

enum Ended {
    Whole,
    /// It has more than so many bytes.
    Longer,
}

async fn all(body: &mut Body, out: &mut Counted, most: u64) -> Result<Ended, u16> {
    while let Some(data) = body.chunk().await.map_err(|_| BROKEN)? {
        if !out.extend(&data).await {
            return Err(CROWDED);
        }
        if out.len() as u64 > most {
            return Ok(Ended::Longer);
        }
    }
    Ok(Ended::Whole)
}
