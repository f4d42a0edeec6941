//! XPENDING.

use larder_proto::resp::{
    Args,
    collection::Kind,
    number::parse_i64,
    stream::{Group, Pending, StreamId, key},
};

use super::super::super::ctx::Ctx;
use super::super::collection::Coll;
use super::super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX};
use super::{SOME, interval, write_id};

/// XPENDING key group \[\[IDLE milliseconds] start end count \[consumer]]
pub(in super::super) fn xpending(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        if args.len() != 3 && !(6..=9).contains(&args.len()) {
            return Err(SYNTAX.into());
        }
        let rows = if args.len() == 3 { None } else { Some(rows(args)?) };
        let (key, name) = (args.get(1), args.get(2));
        let stream = ctx.open_to_read(key, Kind::Stream)?;
        let group = match &stream {
            Some(stream) => stream.group(name)?,
            None => None,
        };
        let (Some(stream), Some(group)) = (stream, group) else {
            ctx.no_group(key, name);
            return Ok(());
        };
        match rows {
            None => summary(ctx, args, stream, group),
            Some(rows) => list(ctx, args, &stream, &group, rows),
        }
    })();
    ctx.settle(outcome, args);
}

fn summary(ctx: &mut Ctx<'_>, args: &Args<'_>, stream: Coll<'_>, group: Group) -> Outcome {
    let start = ctx.out.scratch().len();
    let mut reply = ctx.reply();
    reply.array(4);
    reply.integer(group.pending as i64);
    let mut first = None;
    stream.scan_records(&key::start(2, group.number), &mut |found, _| {
        first = key::id(found);
        false
    })?;
    let last = stream.last_pending(group.number)?;
    let (true, Some(first), Some(last)) = (group.pending > 0, first, last) else {
        reply.null();
        reply.null();
        reply.null_array();
        return Ok(());
    };
    write_id(&mut reply, first);
    write_id(&mut reply, last);
    drop(stream);
    let from = ctx.out.scratch().len();
    let state = (group.number, Vec::new(), 0);
    ctx.steps_from(args, xpending, start, (from, state), |ctx, args, (from, state)| {
        let (group, after, shown) = state;
        let stream = ctx.open(args.get(1), Kind::Stream)?.ok_or(Refused::Lost)?;
        for _ in 0..SOME {
            let Some(consumer) = stream.next_consumer(*group, after)? else {
                ctx.prepend_array(*from, *shown);
                return Ok(true);
            };
            if consumer.pending > 0 {
                let mut reply = ctx.reply();
                reply.array(2);
                reply.bulk(&consumer.name);
                reply.bulk_integer(consumer.pending as i64);
                *shown += 1;
            }
            *after = [&consumer.name[..], &[0]].concat();
        }
        Ok(false)
    });
    Ok(())
}

/// Pending entries that are listed.
struct Rows {
    from: StreamId,
    to: StreamId,
    left: u64,
    idle: u64,
    group: u32,
    /// Only those of this consumer.
    consumer: Option<u32>,
    shown: usize,
}

fn rows(args: &Args<'_>) -> Outcome<Rows> {
    let (mut at, mut idle) = (3, 0);
    if args.is(3, "IDLE") {
        idle = parse_i64(args.get(4)).ok_or(NOT_INTEGER)?;
        if args.len() < 8 {
            return Err(SYNTAX.into());
        }
        at = 5;
    }
    let left = parse_i64(args.get(at + 2)).ok_or(NOT_INTEGER)?.max(0) as u64;
    let (from, to) = interval(args.get(at), args.get(at + 1))?;
    let idle = idle.max(0) as u64;
    Ok(Rows { from, to, left, idle, group: 0, consumer: None, shown: 0 })
}

fn list(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    stream: &Coll<'_>,
    group: &Group,
    rows: Rows,
) -> Outcome {
    let name = if args.is(3, "IDLE") { 8 } else { 6 };
    let mut consumer = None;
    if name < args.len() {
        consumer = stream.consumer(group.number, args.get(name))?.map(|own| own.number);
        if consumer.is_none() {
            ctx.reply().array(0);
            return Ok(());
        }
    }
    let rows = Rows { group: group.number, consumer, ..rows };
    let start = ctx.out.scratch().len();
    ctx.steps(args, xpending, (start, rows), |ctx, args, (start, rows)| {
        let is_over = rows.step(ctx, args)?;
        if is_over {
            ctx.prepend_array(*start, rows.shown);
        }
        Ok(is_over)
    });
    Ok(())
}

impl Rows {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        if self.left == 0 || self.from > self.to {
            return Ok(true);
        }
        let stream = ctx.open(args.get(1), Kind::Stream)?.ok_or(Refused::Lost)?;
        let found = stream.some_pending(self.group, self.consumer, self.from, SOME)?;
        let is_last = found.len() < SOME;
        for (id, pending) in found {
            if self.left == 0 || id > self.to {
                return Ok(true);
            }
            let elapsed = ctx.now.saturating_sub(pending.time);
            if elapsed >= self.idle {
                let consumer = stream.consumer_by(self.group, pending.consumer)?;
                let mut reply = ctx.reply();
                reply.array(4);
                write_id(&mut reply, id);
                reply.bulk(&consumer.unwrap_or_default().name);
                reply.integer(elapsed as i64);
                reply.integer(pending.count as i64);
                (self.shown, self.left) = (self.shown + 1, self.left - 1);
            }
            match id.next() {
                Some(next) => self.from = next,
                None => return Ok(true),
            }
        }
        Ok(is_last)
    }
}

impl Coll<'_> {
    /// Some pending entries of a group, or of one consumer, from an ID on.
    pub(in super::super) fn some_pending(
        &self,
        group: u32,
        consumer: Option<u32>,
        from: StreamId,
        most: usize,
    ) -> Outcome<Vec<(StreamId, Pending)>> {
        let mut found = Vec::new();
        if let Some(consumer) = consumer {
            let mut ids = Vec::new();
            self.owned(group, consumer, from, &mut |id| {
                ids.push(id);
                ids.len() < most
            })?;
            for id in ids {
                found.push((id, self.pending(group, id)?.unwrap_or_default()));
            }
            return Ok(found);
        }
        let last = key::pending(group, StreamId::MAX);
        let mut damaged = Ok(());
        self.scan_records(&key::pending(group, from), &mut |key, record| {
            let Some(id) = key::id(key).filter(|_| key <= &last[..]) else { return false };
            match Pending::read(record) {
                Ok(pending) => found.push((id, pending)),
                Err(error) => damaged = Err(error),
            }
            found.len() < most
        })?;
        damaged?;
        Ok(found)
    }
}
