//! DUMP and RESTORE: values as Redis writes them, in steps.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | DUMP |
//! | `stream.rs` | the value of a stream, for DUMP |
//! | `restore.rs` | RESTORE |
//! | `build.rs` | a value from the parts of a payload |

mod build;
mod restore;
mod stream;

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    hash::Hash,
    rdb::{self, crc64, kind, push_len, push_string},
    table::Id,
};
use larder_store::{Entry, PutError};

use super::super::{ctx::Ctx, freed::free};
use super::Run;
use super::access::{is_hash, is_record};
use super::collection::{At, Coll, Tree, kind_of};
use super::errors::{Outcome, Refused, refused};
use super::hash_record::Found;
use super::joined::Whole;
use crate::room::{Held, Place};

/// Bytes that are copied between two checks of the clock.
const PIECE: usize = 128 * 1024;
/// Fields of a hash between two checks of the clock.
const FIELDS: usize = 256;

/// The handler of DUMP and RESTORE; None: another command.
pub(super) fn command(id: Id) -> Option<Run> {
    Some(match id {
        Id::Dump => dump,
        Id::Restore => restore::restore,
        _ => return None,
    })
}

/// A DUMP in progress.
struct Dump {
    payload: Vec<u8>,
    held: Held,
    stage: Stage,
}

impl Drop for Dump {
    fn drop(&mut self) {
        let payload = std::mem::take(&mut self.payload);
        let bytes = payload.capacity();
        free(payload, bytes);
    }
}

/// The next stage of a DUMP.
enum Stage {
    /// Bytes of a string, from here on.
    String(Entry<'static>, u64),
    /// Fields of a hash, from this place on.
    Hash(Entry<'static>, (usize, usize)),
    /// Items, from this position on.
    Items(Kind, u64),
    Stream(Box<stream::Writing>),
    /// The checksum of the bytes up to here.
    Sum(usize, u64),
    /// The answer, from here on.
    Answer(usize),
}

/// DUMP key
fn dump(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let mut entry = ctx.read(args.get(1));
        if entry.as_ref().is_some_and(is_hash) {
            entry = match ctx.only_hash(args.get(1), entry.clone())? {
                Some(Found::Record(record)) => Some(record),
                Some(Found::Tree(_)) => entry,
                None => None,
            };
        }
        let Some(entry) = entry else {
            ctx.reply().null();
            return Ok(());
        };
        let (payload, stage) = begin(ctx, args, entry)?;
        let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
        ctx.steps(args, dump, Dump { payload, held, stage }, |ctx, args, dump| {
            let is_over = dump.step(ctx, args)?;
            if !dump.held.resize(dump.payload.len() as u64) {
                return Err(refused(PutError::Full, b""));
            }
            Ok(is_over)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

fn begin(ctx: &Ctx<'_>, args: &Args<'_>, entry: Entry<'static>) -> Outcome<(Vec<u8>, Stage)> {
    let mut payload = Vec::new();
    let Some(kind) = kind_of(&entry) else {
        let stage = if is_record(&entry) {
            let whole = Whole::of(&entry);
            let hash = Hash::read(&whole).map_err(|_| super::errors::WRONG_TYPE)?;
            match hash.soonest() {
                None => payload.push(kind::HASH),
                Some(soonest) => {
                    payload.push(kind::HASH_METADATA);
                    payload.extend_from_slice(&soonest.to_le_bytes());
                }
            }
            push_len(&mut payload, hash.len() as u64);
            let place = hash.iter().place();
            drop(whole);
            Stage::Hash(entry, place)
        } else {
            payload.push(kind::STRING);
            push_len(&mut payload, entry.len());
            Stage::String(entry, 0)
        };
        return Ok((payload, stage));
    };
    let coll = ctx.coll(args.get(1), Some(entry), kind)?.ok_or(Refused::Lost)?;
    payload.push(match kind {
        Kind::List => kind::LIST,
        Kind::Set => kind::SET,
        Kind::SortedSet => kind::ZSET_2,
        Kind::Stream => kind::STREAM_2,
        Kind::Hash if soonest(&coll).is_some() => kind::HASH_METADATA,
        Kind::Hash => kind::HASH,
    });
    if let Some(soonest) = soonest(&coll) {
        payload.extend_from_slice(&soonest.to_le_bytes());
    }
    if kind == Kind::Stream {
        let writing = stream::Writing::begin(&coll, &mut payload)?;
        return Ok((payload, Stage::Stream(Box::new(writing))));
    }
    push_len(&mut payload, coll.len());
    Ok((payload, Stage::Items(kind, 0)))
}

impl Dump {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        let payload = &mut self.payload;
        match &mut self.stage {
            Stage::String(entry, at) => {
                let chunk = entry.chunk_at(*at);
                let piece = &chunk[..chunk.len().min(PIECE)];
                payload.extend_from_slice(piece);
                *at += piece.len() as u64;
                if *at >= entry.len() {
                    self.stage = Stage::Sum(0, 0);
                }
            }
            Stage::Hash(entry, place) => {
                let whole = Whole::of(entry);
                let hash = Hash::read(&whole).map_err(|_| super::errors::WRONG_TYPE)?;
                let mut pairs = hash.iter_from(*place);
                for _ in 0..FIELDS {
                    let at = pairs.place().0;
                    let Some(pair) = pairs.next() else { break };
                    let (field, value) = pair.map_err(|_| super::errors::WRONG_TYPE)?;
                    if let Some(soonest) = hash.soonest() {
                        let time =
                            hash.expiry_at(at).map_or(0, |time| time.saturating_sub(soonest) + 1);
                        push_len(payload, time);
                    }
                    push_string(payload, field);
                    push_string(payload, value);
                }
                *place = pairs.place();
                let is_over = place.1 == 0;
                drop(whole);
                if is_over {
                    self.stage = Stage::Sum(0, 0);
                }
            }
            Stage::Items(kind, at) => {
                let coll = ctx.open(args.get(1), *kind)?.ok_or(Refused::Lost)?;
                *at = push_run(&coll, *at, payload)?;
                if *at >= coll.len() {
                    self.stage = Stage::Sum(0, 0);
                }
            }
            Stage::Stream(writing) => {
                let coll = ctx.open(args.get(1), Kind::Stream)?.ok_or(Refused::Lost)?;
                if writing.step(&coll, payload)? {
                    self.stage = Stage::Sum(0, 0);
                }
            }
            Stage::Sum(at, crc) => {
                let end = payload.len().min(*at + PIECE);
                *crc = crc64(*crc, &payload[*at..end]);
                *at = end;
                if end == payload.len() {
                    rdb::seal(payload, *crc);
                    ctx.reply().bulk_head(payload.len());
                    self.stage = Stage::Answer(0);
                }
            }
            Stage::Answer(at) => {
                let end = payload.len().min(*at + PIECE);
                ctx.reply().raw(&payload[*at..end]);
                *at = end;
                if end == payload.len() {
                    ctx.reply().bulk_end();
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The first expiry of a field of a hash that is a tree.
fn soonest(coll: &Coll<'_>) -> Option<u64> {
    coll.head.times.map(|times| times.soonest).filter(|time| *time != 0)
}

/// Appends the items of the run with the item at a position. Returns the position behind them.
fn push_run(coll: &Coll<'_>, at: u64, payload: &mut Vec<u8>) -> Outcome<u64> {
    let found = coll.locate(Tree::Main, At::Position(at))?;
    let run = found.run.whole();
    let (shape, soonest) = (coll.shape(), soonest(coll));
    for item in Items::new(shape, &run) {
        let item = item?;
        if let Some(soonest) = soonest {
            push_len(payload, item.expires.map_or(0, |time| time.saturating_sub(soonest) + 1));
        }
        push_string(payload, item.bytes);
        if shape == Shape::Field {
            push_string(payload, item.value);
        }
        if shape == Shape::Scored {
            payload.extend_from_slice(&item.score.to_bits().to_le_bytes());
        }
    }
    Ok(if found.count == 0 { coll.len() } else { found.before + found.count })
}
