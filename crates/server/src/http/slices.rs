//! The answer from a page in slices: those in memory at once, the others as they are read from the
//! disk or fetched.

use std::ops::ControlFlow;

use larder_proto::{
    http::range::ByteRange,
    page::{PageView, Verify, view},
    rules::Forward,
};

use super::{
    deliver::{self, Body, Delivered},
    exchange::{Active, Exchange},
    log::finish,
    refuse,
    served::Served,
};
use crate::{
    fetch::{Map, NoSlice, Place, Slice, slice},
    net::{out::Out, socket::Ended},
    page::lookup::StoredPage,
    request::route::Route,
};

/// Slices that are sent with one write: more are sent one after the other, so that no client pins
/// them all.
const AT_ONCE: u64 = 16;
/// Slices that are looked for before an answer begins, to say where it comes from: about 0.3 ms.
const LOOKED: usize = 1024;

/// The numbers of the slices of a range, and the part of each.
fn numbers(map: &Map, range: ByteRange) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
    let size = map.slices.size;
    (range.first / size..=range.last / size).map(move |number| {
        let from = range.first.max(number * size) - number * size;
        let to = range.last.min(number * size + (size - 1)) + 1 - number * size;
        (number, from, to)
    })
}

/// The head of the answer, and what follows it.
fn head(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    held: &StoredPage,
    served: &Served,
    map: &Map,
    keep: bool,
) -> Option<(Delivered, Body)> {
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    let page = PageView { body_len: map.slices.total, ..page };
    deliver::headed(exchange, out, &page, &held.meta, served, keep)
}

/// Answers with slices that are all in memory, if they are few. Gives the page back if not.
#[allow(clippy::result_large_err)]
#[cold]
pub(super) fn hit(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    held: StoredPage,
    served: &Served,
) -> Result<Delivered, StoredPage> {
    let Some(map) = Map::of(&held) else { return Err(held) };
    let (mark, before) = (out.mark(), out.pending());
    let Some((mut delivered, body)) = head(exchange, out, &held, served, &map, exchange.keep())
    else {
        return Err(held);
    };
    let sends = match body {
        Body::None => true,
        Body::One(range) => one(exchange, out, &map, range),
        Body::Many(parts, end) => {
            let all = parts.into_iter().all(|(before, range)| {
                out.scratch().extend_from_slice(&before);
                one(exchange, out, &map, range)
            });
            out.scratch().extend_from_slice(&end);
            all
        }
    };
    if !sends {
        out.truncate(mark);
        return Err(held);
    }
    let bytes = out.pending() - before;
    delivered.body_bytes = bytes.saturating_sub(delivered.bytes);
    delivered.bytes = bytes;
    Ok(delivered)
}

/// Appends a range whose slices are in memory, if they are few.
fn one(exchange: &Exchange<'_, '_>, out: &mut Out, map: &Map, range: ByteRange) -> bool {
    range.last / map.slices.size - range.first / map.slices.size < AT_ONCE
        && numbers(map, range).all(|(number, from, to)| {
            let entry = map.get(&exchange.request, number);
            entry.is_some_and(|entry| {
                out.stored(entry, from, to);
                true
            })
        })
}

/// The farthest place from which a slice of the answer has to be brought, of the first [`LOOKED`].
fn farthest(exchange: &Exchange<'_, '_>, map: &Map, body: &Body) -> Place {
    let of = |range: ByteRange| {
        let mut farthest = Place::Memory;
        for (number, ..) in numbers(map, range).take(LOOKED) {
            farthest = farthest.max(map.place(&exchange.request, number));
            if farthest == Place::Origin {
                break;
            }
        }
        farthest
    };
    match body {
        Body::None => Place::Memory,
        Body::One(range) => of(*range),
        Body::Many(parts, _) => {
            parts.iter().map(|(_, range)| of(*range)).max().unwrap_or(Place::Memory)
        }
    }
}

/// Answers with a page some slices of which have to be fetched. `Continue`: the page has changed,
/// and nothing was sent.
pub(super) async fn serve(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    held: &StoredPage,
    served: &Served,
) -> Result<ControlFlow<bool>, Ended> {
    let (wire, out) = (conn.wire, &mut *conn.out);
    let Some(map) = Map::of(held) else { return Ok(ControlFlow::Continue(())) };
    let mark = out.mark();
    let keep = exchange.keep();
    let Some((mut delivered, mut body)) = head(exchange, out, held, served, &map, keep) else {
        return Ok(ControlFlow::Continue(()));
    };
    let served = match farthest(exchange, &map, &body) {
        Place::Memory => None,
        Place::Disk => Some(served.by_tier(false)),
        Place::Origin => {
            exchange.request.stats.forwarded(Forward::Partial);
            Some(served.partial())
        }
    };
    if let Some(served) = served {
        out.truncate(mark);
        let Some(again) = head(exchange, out, held, &served, &map, keep) else {
            return Ok(ControlFlow::Continue(()));
        };
        (delivered, body) = again;
    }
    let (parts, end) = match body {
        Body::None => return Ok(ControlFlow::Break(finish(exchange, &delivered))),
        Body::One(range) => (vec![(Vec::new(), range)], Vec::new()),
        Body::Many(parts, end) => (parts, end),
    };
    let mut sent = 0;
    for (before, range) in parts {
        out.scratch().extend_from_slice(&before);
        for (number, from, to) in numbers(&map, range) {
            let wanted = slice(&exchange.request, route, held, &map, number);
            let got = tokio::select! {
                biased;
                got = wanted => got,
                () = wire.gone() => return Err(Ended::Closed),
            };
            match got {
                Ok(Slice::Stored(entry)) => out.stored(entry, from, to),
                Ok(Slice::Ready(bytes)) => {
                    out.scratch().extend_from_slice(&bytes[from as usize..to as usize]);
                }
                Err(why) if sent == 0 => {
                    out.truncate(mark);
                    return Ok(match why {
                        NoSlice::Changed => ControlFlow::Continue(()),
                        NoSlice::Failed(failure) => {
                            ControlFlow::Break(refuse::failure(exchange, out, &failure))
                        }
                    });
                }
                // The client was told how long the page is: a part of another one is not sent.
                Err(_) => {
                    delivered.keep = false;
                    (delivered.bytes, delivered.body_bytes) = (delivered.bytes + sent, sent);
                    finish(exchange, &delivered);
                    return Err(Ended::Closed);
                }
            }
            exchange.started.set(true);
            sent += to - from;
            exchange.send(wire, out).await?;
        }
    }
    out.scratch().extend_from_slice(&end);
    (delivered.bytes, delivered.body_bytes) = (delivered.bytes + sent, sent);
    Ok(ControlFlow::Break(finish(exchange, &delivered)))
}
