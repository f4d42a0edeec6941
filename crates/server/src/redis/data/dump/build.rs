//! A value from the parts of a payload, some at a time. Nobody sees it before it is complete: it
//! is built as parts that have no owner until its head is stored, a small one in its head. So the
//! old value stays if the new one cannot be stored.

use larder_proto::resp::{
    collection::{Head, Kind},
    hash::{Change, Expiry},
    rdb::{Bad, Form, Loader, Part},
    stream::{Consumer, Group, Pending, State, StreamId},
};

use super::super::super::ctx::Ctx;
use super::super::collection::{Coll, Side};
use super::super::errors::{FULL, Outcome, Refused};
use super::super::streams::check_name;
use crate::clock::Ms;

/// Parts, and bytes of them, that are stored between two checks of the clock.
const PARTS: usize = 64;
const BYTES: usize = 256 * 1024;
/// The consumer of a pending entry until that is read.
const NOBODY: u32 = u32::MAX;

/// A value that is being built.
pub(super) struct Building {
    loader: Loader,
    group: Option<(Vec<u8>, Group)>,
    consumer: Option<Consumer>,
    kind: Kind,
    /// The head as far as it is built.
    head: Head,
}

impl Building {
    pub(super) fn new(loader: Loader) -> Building {
        let kind = match loader.form() {
            Form::Set => Kind::Set,
            Form::SortedSet => Kind::SortedSet,
            Form::Stream => Kind::Stream,
            Form::List | Form::String => Kind::List,
            Form::Hash => Kind::Hash,
        };
        Building { loader, group: None, consumer: None, kind, head: Head::default() }
    }

    /// Builds some parts. True: the value is complete.
    pub(super) fn step(&mut self, ctx: &mut Ctx<'_>, key: &[u8], payload: &[u8]) -> Outcome<bool> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        let mut is_over = false;
        while parts.len() < PARTS && bytes < BYTES {
            let Some(part) = self.loader.next(payload)? else {
                is_over = true;
                break;
            };
            bytes += size(&part);
            if !matches!(part, Part::Skipped(_)) {
                parts.push(part);
            }
        }
        if parts.is_empty() {
            return Ok(is_over);
        }
        let mut coll = ctx.resume(key, self.kind, std::mem::take(&mut self.head), None);
        self.put(&mut coll, &parts, ctx.now).map_err(whole)?;
        self.head = coll.suspend().map_err(whole)?;
        Ok(is_over)
    }

    /// Bytes that it holds in memory.
    pub(super) fn memory(&self) -> u64 {
        self.head.main.bytes.len() as u64
    }

    /// The numbers of its parts in the store.
    pub(super) fn parts(&self, ctx: &Ctx<'_>, key: &[u8]) -> Outcome<Vec<u64>> {
        ctx.resume(key, self.kind, self.head.clone(), None).parts().map_err(whole)
    }

    /// Reads a part, so that it counts as young again. False: it was evicted.
    pub(super) fn has_part(&self, ctx: &Ctx<'_>, key: &[u8], part: u64) -> bool {
        let owner = ctx.store.owner(ctx.ns, key, self.head.id);
        owner.is_some_and(|owner| ctx.store.use_part(&owner, part, ctx.shared.clock.now()))
    }

    /// Stores the value in place of the old one, if that may be replaced.
    pub(super) fn store(
        &self,
        ctx: &mut Ctx<'_>,
        key: &[u8],
        expires: Option<Ms>,
        replaces: bool,
    ) -> Outcome {
        ctx.retry(|ctx| {
            let old = ctx.look(key);
            if old.is_some() && !replaces {
                return Err(BUSY.into());
            }
            let mut coll = ctx.resume(key, self.kind, self.head.clone(), old);
            coll.expire(expires);
            coll.commit(ctx)
        })
    }

    fn put(&mut self, coll: &mut Coll<'_>, parts: &[Part], now: u64) -> Outcome {
        if coll.kind == Kind::List {
            let elements = parts.iter().filter_map(|part| match part {
                Part::Element(element) => Some(&element[..]),
                _ => None,
            });
            return coll.push(Side::Right, elements);
        }
        for part in parts {
            match part {
                Part::Element(member) => {
                    coll.add(member)?;
                }
                Part::Scored(member, score) => {
                    let old = coll.score(member)?;
                    coll.set_score(member, old, Some(*score))?;
                }
                Part::Pair(field, value) => {
                    coll.change_field(&Change::set(field, value))?;
                }
                Part::Expiring(field, value, time) => {
                    let expiry = Expiry::At(*time);
                    coll.change_field(&Change { expiry, ..Change::set(field, value) })?;
                }
                part => self.put_stream(coll, part, now)?,
            }
        }
        self.settle(coll);
        Ok(())
    }

    /// Writes the current group and consumer.
    fn settle(&self, coll: &mut Coll<'_>) {
        if let Some((name, group)) = &self.group {
            coll.set_group(name, group);
            if let Some(consumer) = &self.consumer {
                coll.set_consumer(group.number, consumer);
            }
        }
    }

    fn put_stream(&mut self, coll: &mut Coll<'_>, part: &Part, now: u64) -> Outcome {
        match part {
            Part::Entry(id, pairs) => {
                let pairs = pairs.chunks_exact(2).map(|pair| (&pair[0][..], &pair[1][..]));
                coll.append(*id, pairs)
            }
            Part::Facts(_, last, max_deleted, added) => {
                let state = State {
                    last: *last,
                    max_deleted: *max_deleted,
                    added: *added,
                    ..State::default()
                };
                coll.set_state(&state);
                Ok(())
            }
            Part::Group(name, last, read) => {
                self.settle(coll);
                check_name(name)?;
                if coll.group(name)?.is_some() {
                    return Err(Bad.into());
                }
                let mut state = coll.state()?;
                let number = state.numbers as u32;
                (state.numbers, state.groups) = (state.numbers + 1, state.groups + 1);
                coll.set_state(&state);
                let group = Group { number, last: *last, read: *read, ..Group::default() };
                (self.group, self.consumer) = (Some((name.clone(), group)), None);
                Ok(())
            }
            Part::Pending(id, time, count) => {
                let Some((_, group)) = &mut self.group else { return Err(Bad.into()) };
                group.pending += 1;
                let pending = Pending { consumer: NOBODY, time: (*time).min(now), count: *count };
                coll.set_pending(group.number, *id, Some(NOBODY), &pending);
                Ok(())
            }
            Part::Consumer(name, seen) => self.put_consumer(coll, name, *seen),
            Part::Owned(id) => self.own(coll, *id),
            Part::Skipped(_) => Ok(()),
            Part::Element(_) | Part::Pair(..) | Part::Expiring(..) | Part::Scored(..) => {
                Err(Bad.into())
            }
        }
    }

    fn put_consumer(&mut self, coll: &mut Coll<'_>, name: &[u8], seen: u64) -> Outcome {
        self.settle(coll);
        let Some((_, group)) = &mut self.group else { return Err(Bad.into()) };
        if coll.consumer(group.number, name)?.is_some() {
            return Err(Bad.into());
        }
        self.consumer = Some(coll.new_consumer(group, name, seen)?);
        Ok(())
    }

    fn own(&mut self, coll: &mut Coll<'_>, id: StreamId) -> Outcome {
        let (Some((_, group)), Some(consumer)) = (&self.group, &mut self.consumer) else {
            return Err(Bad.into());
        };
        let pending = coll.pending(group.number, id)?.filter(|own| own.consumer == NOBODY);
        let pending = Pending { consumer: consumer.number, ..pending.ok_or(Bad)? };
        consumer.pending += 1;
        coll.set_pending(group.number, id, None, &pending);
        Ok(())
    }
}

/// A part of a value that was evicted while it was built.
fn whole(refused: Refused) -> Refused {
    if refused == Refused::Lost { FULL.into() } else { refused }
}

pub(super) const BUSY: &str = "BUSYKEY Target key name already exists.";

/// Bytes of a string beside its own.
const TEXT: usize = 32;

/// Bytes of a part, about.
pub(super) fn size(part: &Part) -> usize {
    match part {
        Part::Element(bytes) | Part::Scored(bytes, _) => bytes.len(),
        Part::Pair(field, value) | Part::Expiring(field, value, _) => field.len() + value.len(),
        Part::Entry(_, pairs) => pairs.iter().map(|text| text.len() + TEXT).sum(),
        Part::Group(name, ..) | Part::Consumer(name, _) => name.len(),
        // An element takes some bytes.
        Part::Skipped(weight) => 16 * weight.min(&BYTES),
        _ => 16,
    }
}
