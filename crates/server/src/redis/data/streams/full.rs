//! XINFO STREAM key FULL: entries, groups, consumers and what is pending, in steps.

use larder_proto::resp::{
    Args,
    collection::Kind,
    number::parse_i64,
    stream::{Group, StreamId},
};

use super::super::super::ctx::Ctx;
use super::super::collection::Coll;
use super::super::errors::{NOT_INTEGER, Outcome, Refused};
use super::info::{Facts, stream, write_named_id};
use super::range::Walk;
use super::{SOME, write_id};

/// Entries of each kind, if the client does not say.
const COUNT: u64 = 10;

/// An answer in progress.
struct Full {
    walk: Walk,
    has_groups: bool,
    count: u64,
    /// Names from which the next group and the next consumer are looked for.
    next_group: Vec<u8>,
    group: Option<(Group, Vec<u8>)>,
    pending: Option<Rows>,
}

/// Pending entries that are listed, of a group or of one of its consumers.
struct Rows {
    consumer: Option<u32>,
    from: StreamId,
    left: u64,
}

pub(super) fn begin(ctx: &mut Ctx<'_>, args: &Args<'_>, own: Coll<'_>) -> Outcome {
    let is_counted = args.len() == 6 && args.is(4, "COUNT");
    if !args.is(3, "FULL") || !(args.len() == 4 || is_counted) {
        ctx.wrong_subcommand(args);
        return Ok(());
    }
    let mut count = COUNT;
    if is_counted {
        let number = parse_i64(args.get(5)).ok_or(NOT_INTEGER)?;
        count = u64::try_from(number).unwrap_or(COUNT);
    }
    let count = if count == 0 { u64::MAX } else { count };
    let (facts, blocks) = (Facts::of(&own)?, own.blocks()?);
    let left = own.len().min(count);
    let start = ctx.out.scratch().len();
    let mut reply = ctx.reply();
    reply.map(9);
    facts.write(&mut reply, blocks);
    reply.bulk(b"entries");
    reply.array(left as usize);
    let walk = Walk { key: 2, from: StreamId::MIN, backwards: false, left };
    let (next_group, has_groups) = (Vec::new(), false);
    let full = Full { walk, has_groups, count, next_group, group: None, pending: None };
    ctx.steps_from(args, stream, start, full, |ctx, args, full| full.step(ctx, args));
    Ok(())
}

impl Full {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        if self.walk.left > 0 {
            self.walk.step(ctx, args)?;
            return Ok(false);
        }
        let own = ctx.open(args.get(2), Kind::Stream)?.ok_or(Refused::Lost)?;
        if !self.has_groups {
            self.has_groups = true;
            ctx.reply().bulk(b"groups");
            ctx.reply().array(own.state()?.groups as usize);
        }
        if self.pending.is_some() {
            return self.rows(ctx, &own).map(|()| false);
        }
        if self.group.is_some() && self.consumer(ctx, &own)? {
            return Ok(false);
        }
        let Some((name, group)) = own.next_group(&self.next_group)? else { return Ok(true) };
        let mut reply = ctx.reply();
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(&name);
        write_named_id(&mut reply, "last-delivered-id", group.last);
        Facts::of(&own)?.write_lag(&mut reply, &group);
        reply.bulk(b"pel-count");
        reply.integer(group.pending as i64);
        self.begin_rows(ctx, None, group.pending);
        self.next_group = [&name[..], &[0]].concat();
        self.group = Some((group, Vec::new()));
        Ok(false)
    }

    fn begin_rows(&mut self, ctx: &mut Ctx<'_>, consumer: Option<u32>, pending: u64) {
        let left = pending.min(self.count);
        ctx.reply().bulk(b"pending");
        ctx.reply().array(left as usize);
        self.pending = Some(Rows { consumer, from: StreamId::MIN, left });
    }

    /// Answers some pending entries; behind those of the group its consumers begin.
    fn rows(&mut self, ctx: &mut Ctx<'_>, own: &Coll<'_>) -> Outcome {
        let (Some(rows), Some((group, _))) = (&mut self.pending, &self.group) else {
            return Ok(());
        };
        let most = rows.left.min(SOME as u64) as usize;
        let found = if most == 0 {
            Vec::new()
        } else {
            own.some_pending(group.number, rows.consumer, rows.from, most)?
        };
        for (id, pending) in &found {
            let name = match rows.consumer {
                Some(_) => None,
                None => own.consumer_by(group.number, pending.consumer)?,
            };
            let mut reply = ctx.reply();
            reply.array(if name.is_some() { 4 } else { 3 });
            write_id(&mut reply, *id);
            name.iter().for_each(|consumer| reply.bulk(&consumer.name));
            reply.integer(pending.time as i64);
            reply.integer(pending.count as i64);
            rows.from = id.next().unwrap_or(*id);
        }
        rows.left = rows.left.saturating_sub(found.len() as u64);
        if found.is_empty() || rows.left == 0 {
            if rows.consumer.is_none() {
                ctx.reply().bulk(b"consumers");
                ctx.reply().array(group.consumers as usize);
            }
            self.pending = None;
        }
        Ok(())
    }

    /// Begins with the next consumer of the group. False: there is none.
    fn consumer(&mut self, ctx: &mut Ctx<'_>, own: &Coll<'_>) -> Outcome<bool> {
        let Some((group, from)) = &mut self.group else { return Ok(false) };
        let Some(consumer) = own.next_consumer(group.number, from)? else {
            self.group = None;
            return Ok(false);
        };
        *from = [&consumer.name[..], &[0]].concat();
        let mut reply = ctx.reply();
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        reply.bulk(b"seen-time");
        reply.integer(consumer.seen as i64);
        reply.bulk(b"pel-count");
        reply.integer(consumer.pending as i64);
        self.begin_rows(ctx, Some(consumer.number), consumer.pending);
        Ok(true)
    }
}
