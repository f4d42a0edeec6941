//! XINFO STREAM, GROUPS, CONSUMERS.

use larder_proto::resp::{
    Args, Reply,
    collection::{Damaged, Kind},
    stream::{Consumer, Group, State, StreamId, key},
};

use super::super::super::ctx::Ctx;
use super::super::collection::Coll;
use super::super::errors::{NO_KEY, Outcome, Refused};
use super::{SOME, full, write_entry, write_id};

const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Prints this help.",
];

/// XINFO HELP
pub(in super::super) fn info_help(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let mut reply = ctx.reply();
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
}

/// Facts of a stream from which the lag of a group is estimated.
pub(super) struct Facts {
    pub(super) state: State,
    len: u64,
    first: StreamId,
}

impl Facts {
    pub(super) fn of(stream: &Coll<'_>) -> Outcome<Facts> {
        let first = stream.first_id()?.unwrap_or_default();
        Ok(Facts { state: stream.state()?, len: stream.len(), first })
    }

    /// Was an entry removed from this ID on, behind the first? (Redis:
    /// `streamRangeHasTombstones`.)
    pub(super) fn has_gaps_from(&self, id: StreamId) -> bool {
        let deleted = self.state.max_deleted;
        self.len > 0 && deleted != StreamId::MIN && self.first <= deleted && id <= deleted
    }

    /// Number of entries ever added up to this one; None: not known. (Redis:
    /// `streamEstimateDistanceFromFirstEverEntry`.)
    pub(super) fn distance(&self, id: StreamId) -> Option<u64> {
        let State { last, max_deleted, added, .. } = self.state;
        if added == 0 {
            return Some(0);
        }
        if id == last || (self.len == 0 && id < last) {
            return Some(added);
        }
        if id > last || !(max_deleted == StreamId::MIN || max_deleted < self.first) {
            return None;
        }
        match id.cmp(&self.first) {
            std::cmp::Ordering::Less => Some(added.saturating_sub(self.len)),
            std::cmp::Ordering::Equal => Some(added.saturating_sub(self.len) + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Number of entries that a group has not read; None: not known.
    fn lag(&self, group: &Group) -> Option<i64> {
        let added = self.state.added;
        if added == 0 {
            return Some(0);
        }
        let read = group.read.filter(|_| !self.has_gaps_from(group.last));
        let read = read.or_else(|| self.distance(group.last))?;
        Some(added.wrapping_sub(read) as i64)
    }

    /// Answers the fields that XINFO STREAM begins with.
    pub(super) fn write(&self, reply: &mut Reply<'_>, blocks: (u64, u64)) {
        let State { last, max_deleted, added, .. } = self.state;
        let number = |reply: &mut Reply<'_>, name: &str, number: u64| {
            reply.bulk(name.as_bytes());
            reply.integer(number as i64);
        };
        number(reply, "length", self.len);
        number(reply, "radix-tree-keys", blocks.0);
        number(reply, "radix-tree-nodes", blocks.1);
        write_named_id(reply, "last-generated-id", last);
        write_named_id(reply, "max-deleted-entry-id", max_deleted);
        number(reply, "entries-added", added);
        write_named_id(reply, "recorded-first-entry-id", self.first);
    }

    /// Answers `entries-read` and `lag` of a group.
    pub(super) fn write_lag(&self, reply: &mut Reply<'_>, group: &Group) {
        for (name, value) in
            [("entries-read", group.read.map(|read| read as i64)), ("lag", self.lag(group))]
        {
            reply.bulk(name.as_bytes());
            match value {
                Some(value) => reply.integer(value),
                None => reply.null(),
            }
        }
    }
}

pub(super) fn write_named_id(reply: &mut Reply<'_>, name: &str, id: StreamId) {
    reply.bulk(name.as_bytes());
    write_id(reply, id);
}

impl Coll<'_> {
    /// The first group whose name is not below this.
    pub(in super::super) fn next_group(&self, from: &[u8]) -> Outcome<Option<(Vec<u8>, Group)>> {
        let mut found = None;
        self.scan_records(&key::group(from), &mut |key, record| {
            if key.starts_with(key::GROUPS) {
                found = Some((key[1..].to_vec(), Group::read(record)));
            }
            false
        })?;
        let Some((name, group)) = found else { return Ok(None) };
        Ok(Some((name, group?)))
    }

    /// The first consumer of a group whose name is not below this.
    pub(in super::super) fn next_consumer(
        &self,
        group: u32,
        from: &[u8],
    ) -> Outcome<Option<Consumer>> {
        let start = key::start(4, group);
        let mut found = None;
        self.scan_records(&key::name(group, from), &mut |key, number| {
            if key.starts_with(&start) {
                found = number.try_into().ok().map(u32::from_be_bytes);
            }
            false
        })?;
        match found {
            Some(number) => Ok(Some(self.consumer_by(group, number)?.ok_or(Damaged)?)),
            None => Ok(None),
        }
    }
}

/// XINFO STREAM key \[FULL \[COUNT count]]
pub(in super::super) fn stream(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let stream = ctx.open_to_read(args.get(2), Kind::Stream)?.ok_or(NO_KEY)?;
        if args.len() > 3 {
            return full::begin(ctx, args, stream);
        }
        let facts = Facts::of(&stream)?;
        let blocks = stream.blocks()?;
        let mut reply = ctx.reply();
        reply.map(10);
        facts.write(&mut reply, blocks);
        reply.bulk(b"groups");
        reply.integer(facts.state.groups as i64);
        for (name, from) in [("first-entry", StreamId::MIN), ("last-entry", StreamId::MAX)] {
            reply.bulk(name.as_bytes());
            if stream.len() == 0 {
                reply.null();
            }
            let mut write = |entry: &larder_proto::resp::stream::Entry<'_>| {
                write_entry(&mut reply, entry);
                false
            };
            match from == StreamId::MIN {
                true => stream.entries(from, &mut write)?,
                false => stream.entries_back(from, &mut write)?,
            }
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// XINFO GROUPS key
pub(in super::super) fn groups(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let stream = ctx.open_to_read(args.get(2), Kind::Stream)?.ok_or(NO_KEY)?;
        let start = ctx.out.scratch().len();
        ctx.reply().array(stream.state()?.groups as usize);
        drop(stream);
        ctx.steps_from(args, groups, start, Vec::new(), |ctx, args, from: &mut Vec<u8>| {
            let stream = ctx.open(args.get(2), Kind::Stream)?.ok_or(Refused::Lost)?;
            let facts = Facts::of(&stream)?;
            for _ in 0..SOME {
                let Some((name, group)) = stream.next_group(from)? else { return Ok(true) };
                let mut reply = ctx.reply();
                reply.map(6);
                reply.bulk(b"name");
                reply.bulk(&name);
                reply.bulk(b"consumers");
                reply.integer(group.consumers as i64);
                reply.bulk(b"pending");
                reply.integer(group.pending as i64);
                write_named_id(&mut reply, "last-delivered-id", group.last);
                facts.write_lag(&mut reply, &group);
                *from = [&name[..], &[0]].concat();
            }
            Ok(false)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// XINFO CONSUMERS key group
pub(in super::super) fn consumers(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let stream = ctx.open_to_read(args.get(2), Kind::Stream)?.ok_or(NO_KEY)?;
        let Some(group) = stream.group(args.get(3))? else {
            ctx.no_such_group(args.get(2), args.get(3));
            return Ok(());
        };
        let start = ctx.out.scratch().len();
        ctx.reply().array(group.consumers as usize);
        let state = (group.number, Vec::new());
        ctx.steps_from(args, consumers, start, state, |ctx, args, (group, from)| {
            let stream = ctx.open(args.get(2), Kind::Stream)?.ok_or(Refused::Lost)?;
            for _ in 0..SOME {
                let Some(own) = stream.next_consumer(*group, from)? else { return Ok(true) };
                let idle = ctx.now.saturating_sub(own.seen);
                let mut reply = ctx.reply();
                reply.map(3);
                reply.bulk(b"name");
                reply.bulk(&own.name);
                reply.bulk(b"pending");
                reply.integer(own.pending as i64);
                reply.bulk(b"idle");
                reply.integer(idle as i64);
                *from = [&own.name[..], &[0]].concat();
            }
            Ok(false)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}
