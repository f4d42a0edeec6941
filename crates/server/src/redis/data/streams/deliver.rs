//! Entries to the consumers of groups, and to clients that wait for a stream.

use larder_proto::resp::{
    Reply, Version,
    collection::Kind,
    stream::{Consumer, Entry, Group, Pending, StreamId, key},
    table::Id,
};

use super::super::super::{ctx::Class, ctx::Ctx, waiter::Waiter};
use super::super::collection::{Coll, kind_of};
use super::super::errors::Outcome;
use super::super::list_moves::Wish;
use super::info::Facts;
use super::{SOME, weight, write_entry, write_id};

/// Entries, and bytes of them, that a waiting client gets at once; with more its command runs
/// again, in steps.
const SERVED: u64 = 256;
const SERVED_BYTES: usize = 1 << 20;

/// A group, and a consumer of it, by their names.
pub(super) type Names = (Box<[u8]>, Box<[u8]>);

/// The streams that XREAD or XREADGROUP reads, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::redis) struct Reading {
    /// XREADGROUP: the group and its consumer.
    pub(super) group: Option<Names>,
    /// Delivered entries need no acknowledgement.
    pub(super) no_ack: bool,
    /// The keys, and the ID after which entries are read (XREAD).
    pub(super) keys: Vec<(Box<[u8]>, StreamId)>,
    /// Most entries of a stream.
    pub(super) count: u64,
}

impl Reading {
    /// Whether it is for a consumer of a group.
    pub(in crate::redis) fn is_grouped(&self) -> bool {
        self.group.is_some()
    }
}

/// Errors for a consumer that waited.
pub(super) const NO_KEY: &str = "UNBLOCKED the stream key no longer exists";
pub(super) const NO_GROUP: &str =
    "NOGROUP the consumer group this client was blocked on no longer exists";

/// Entries in RESP, and their number.
pub(super) type Delivered = (Vec<u8>, u64);

impl Ctx<'_> {
    /// Delivers at most so many new entries to a consumer, which is made if it is missing. None:
    /// there is no such group.
    pub(super) fn deliver(
        &mut self,
        key: &[u8],
        reading: &Reading,
        most: u64,
        version: Version,
    ) -> Outcome<Option<Delivered>> {
        let Some((name, consumer)) = &reading.group else { return Ok(None) };
        self.retry(|ctx| {
            let Some(mut stream) = ctx.open(key, Kind::Stream)? else { return Ok(Some(None)) };
            let Some(mut group) = stream.group(name)? else { return Ok(Some(None)) };
            let (mut own, made) = stream.seen_consumer(&mut group, consumer, ctx.now)?;
            let (mut bytes, mut ids) = (Vec::new(), Vec::new());
            let mut reply = Reply::new(&mut bytes, version);
            let after = group.last.next().filter(|_| most > 0);
            let mut some = SOME;
            if let Some(after) = after {
                stream.entries(after, &mut |entry| {
                    write_entry(&mut reply, entry);
                    ids.push(entry.id);
                    some = some.saturating_sub(weight(entry));
                    (ids.len() as u64) < most && some > 0
                })?;
            }
            stream.count_read(&mut group, &ids)?;
            if !reading.no_ack {
                // Mostly all that is pending was delivered before.
                let last = stream.last_pending(group.number)?;
                for id in &ids {
                    let old = match last.is_some_and(|last| *id <= last) {
                        true => stream.pending(group.number, *id)?,
                        false => None,
                    };
                    stream.assign(&mut group, &mut own, (*id, old), ctx.now)?;
                }
            }
            stream.set_consumer(group.number, &own);
            stream.set_group(name, &group);
            Ok(stream.commit(ctx)?.map(|()| {
                if made {
                    ctx.event(Class::Stream, "xgroup-createconsumer", key);
                }
                Some((bytes, ids.len() as u64))
            }))
        })
    }

    /// Answers some of a consumer's pending entries from an ID on again. Returns their number and
    /// the last ID.
    pub(super) fn deliver_again(
        &mut self,
        key: &[u8],
        reading: &Reading,
        (from, most): (StreamId, u64),
    ) -> Outcome<(u64, StreamId)> {
        let Some((name, consumer)) = &reading.group else { return Ok((0, from)) };
        let start = self.out.scratch().len();
        self.retry(|ctx| {
            ctx.out.scratch().truncate(start);
            let Some(mut stream) = ctx.open(key, Kind::Stream)? else {
                return Ok(Some((0, from)));
            };
            let Some(group) = stream.group(name)? else { return Ok(Some((0, from))) };
            let Some(own) = stream.consumer(group.number, consumer)? else {
                return Ok(Some((0, from)));
            };
            let mut ids = Vec::new();
            stream.owned(group.number, own.number, from, &mut |id| {
                ids.push(id);
                (ids.len() as u64) < most && ids.len() < SOME
            })?;
            let (mut some, mut shown) = (SOME, 0);
            for id in &ids {
                if some == 0 {
                    break;
                }
                shown += 1;
                let mut reply = ctx.reply();
                let mut show = |entry: &Entry<'_>| {
                    some = some.saturating_sub(weight(entry) - 1);
                    write_entry(&mut reply, entry);
                };
                if !stream.entry(*id, &mut show)? {
                    reply.array(2);
                    write_id(&mut reply, *id);
                    reply.null_array();
                } else if let Some(mut pending) = stream.pending(group.number, *id)? {
                    (pending.time, pending.count) = (ctx.now, pending.count.saturating_add(1));
                    stream.set_pending(group.number, *id, Some(own.number), &pending);
                }
            }
            ids.truncate(shown);
            let last = ids.last().copied().unwrap_or(from);
            Ok(stream.commit(ctx)?.map(|()| (shown as u64, last)))
        })
    }
}

impl Coll<'_> {
    /// The consumer with this name, seen now; true: it was made.
    pub(super) fn seen_consumer(
        &mut self,
        group: &mut Group,
        name: &[u8],
        now: u64,
    ) -> Outcome<(Consumer, bool)> {
        match self.consumer(group.number, name)? {
            Some(consumer) => Ok((Consumer { seen: now, ..consumer }, false)),
            None => Ok((self.new_consumer(group, name, now)?, true)),
        }
    }

    /// Calls `f` with the IDs of a consumer's pending entries from one on until it returns false.
    pub(super) fn owned(
        &self,
        group: u32,
        consumer: u32,
        from: StreamId,
        f: &mut dyn FnMut(StreamId) -> bool,
    ) -> Outcome {
        let last = key::owned(group, consumer, StreamId::MAX);
        self.scan_records(&key::owned(group, consumer, from), &mut |found, _| {
            found <= &last[..] && key::id(found).is_some_and(&mut *f)
        })
    }

    /// The last pending ID of a group.
    pub(super) fn last_pending(&self, group: u32) -> Outcome<Option<StreamId>> {
        let above = [&key::pending(group, StreamId::MAX)[..], &[0]].concat();
        let last = self.key_below(&above)?.filter(|found| found.starts_with(&key::start(2, group)));
        Ok(last.and_then(|found| key::id(&found)))
    }

    /// The group has read these entries.
    fn count_read(&self, group: &mut Group, ids: &[StreamId]) -> Outcome {
        if ids.is_empty() {
            return Ok(());
        }
        let facts = Facts::of(self)?;
        for id in ids {
            group.read = match group.read {
                Some(read) if !facts.has_gaps_from(*id) => Some(read.wrapping_add(1)),
                read if facts.state.added == 0 => read,
                _ => facts.distance(*id),
            };
            group.last = *id;
        }
        Ok(())
    }

    /// Makes an entry pending for a consumer, whoever had it before (`old`).
    fn assign(
        &mut self,
        group: &mut Group,
        own: &mut Consumer,
        (id, old): (StreamId, Option<Pending>),
        time: u64,
    ) -> Outcome {
        match &old {
            None => group.pending += 1,
            Some(old) if old.consumer == own.number => own.pending = own.pending.saturating_sub(1),
            Some(old) => self.release(group.number, old.consumer)?,
        }
        own.pending += 1;
        let pending = Pending { consumer: own.number, time, count: 1 };
        self.set_pending(group.number, id, old.map(|old| old.consumer), &pending);
        Ok(())
    }
}

/// Answers the head before the entries of a single stream.
fn write_head(reply: &mut Reply<'_>, key: &[u8], count: u64) {
    if reply.version() == Version::V2 {
        reply.array(1);
        reply.array(2);
    } else {
        reply.map(1);
    }
    reply.bulk(key);
    reply.array(count as usize);
}

/// Serves a client that waits for entries of a stream.
pub(in super::super) fn serve(ctx: &mut Ctx<'_>, key: &[u8], waiter: &Waiter) {
    let Wish::Entries(reading) = &waiter.wish else { return };
    let Ok(Some(stream)) = ctx.open(key, Kind::Stream) else {
        let is_gone = ctx.look(key).is_none_or(|entry| kind_of(&entry) != Some(Kind::Stream));
        if reading.is_grouped() && is_gone {
            refuse(ctx, waiter, NO_KEY);
        }
        return;
    };
    let after = match &reading.group {
        None => reading.keys.iter().find(|(own, _)| **own == *key).map(|(_, id)| *id),
        Some((name, _)) => match stream.group(name) {
            Ok(Some(group)) => Some(group.last),
            Ok(None) => {
                return refuse(ctx, waiter, NO_GROUP);
            }
            Err(_) => None,
        },
    };
    let Some(after) = after else { return };
    let Ok(state) = stream.state() else { return };
    let Some(from) = after.next().filter(|from| *from <= state.last) else { return };
    let (mut count, mut bytes) = (0, 0);
    let weighed = stream.entries(from, &mut |entry| {
        (count, bytes) = (count + 1, bytes + entry.pairs.size());
        count < reading.count && count <= SERVED && bytes <= SERVED_BYTES
    });
    if weighed.is_err() {
        return;
    }
    if count > SERVED || (bytes > SERVED_BYTES && count > 1) {
        waiter.call();
        return;
    }
    waiter.answer(|reply| {
        if reading.group.is_some() {
            let Ok(Some((bytes, count))) = ctx.deliver(key, reading, count, reply.version()) else {
                return false;
            };
            write_head(reply, key, count);
            reply.raw(&bytes);
            return true;
        }
        write_head(reply, key, count);
        let mut left = count;
        let read = stream.entries(from, &mut |entry| {
            write_entry(reply, entry);
            left = left.saturating_sub(1);
            left > 0
        });
        count == 0 || (read.is_ok() && left == 0)
    });
}

#[cold]
fn refuse(ctx: &Ctx<'_>, waiter: &Waiter, text: &str) {
    let is_told = waiter.answer(|reply| {
        reply.error(text);
        true
    });
    if is_told {
        let counters = &ctx.face.counters;
        counters.commands[Id::Xreadgroup as usize].failed.one();
        counters.error(text.as_bytes());
    }
}
