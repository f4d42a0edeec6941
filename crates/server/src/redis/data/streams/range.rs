//! XRANGE, XREVRANGE.

use larder_proto::resp::{Args, collection::Kind, number::parse_i64, stream::StreamId};

use super::super::super::ctx::Ctx;
use super::super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX};
use super::{SOME, interval, weight, write_entry};

/// Entries being answered.
pub(super) struct Walk {
    /// The stream, among the arguments.
    pub(super) key: usize,
    /// The next ID.
    pub(super) from: StreamId,
    pub(super) backwards: bool,
    pub(super) left: u64,
}

impl Walk {
    /// Answers some of the entries. True: all are answered.
    pub(super) fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        if self.left == 0 {
            return Ok(true);
        }
        let Some(stream) = ctx.open(args.get(self.key), Kind::Stream)? else {
            return Err(Refused::Lost);
        };
        let (mut last, mut left, mut some) = (None, self.left, SOME);
        let mut reply = ctx.reply();
        let mut write = |entry: &larder_proto::resp::stream::Entry<'_>| {
            write_entry(&mut reply, entry);
            (last, left) = (Some(entry.id), left - 1);
            some = some.saturating_sub(weight(entry));
            left > 0 && some > 0
        };
        match self.backwards {
            false => stream.entries(self.from, &mut write)?,
            true => stream.entries_back(self.from, &mut write)?,
        }
        // As many were counted before: none is missing unless the stream was evicted.
        let last = last.ok_or(Refused::Lost)?;
        self.left = left;
        let next = if self.backwards { last.before() } else { last.next() };
        self.from = next.unwrap_or(last);
        Ok(left == 0)
    }
}

/// XRANGE key start end \[COUNT count]
pub(in super::super) fn xrange(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = range(ctx, args, xrange, false);
    ctx.settle(outcome, args);
}

/// XREVRANGE key end start \[COUNT count]
pub(in super::super) fn xrevrange(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = range(ctx, args, xrevrange, true);
    ctx.settle(outcome, args);
}

fn range(ctx: &mut Ctx<'_>, args: &Args<'_>, again: super::super::Run, backwards: bool) -> Outcome {
    let (start, end) = if backwards { (3, 2) } else { (2, 3) };
    let (start, end) = interval(args.get(start), args.get(end))?;
    let (mut count, mut at) = (None, 4);
    while at < args.len() {
        if !args.is(at, "COUNT") || at + 1 >= args.len() {
            return Err(SYNTAX.into());
        }
        count = Some(parse_i64(args.get(at + 1)).ok_or(NOT_INTEGER)?.max(0) as u64);
        at += 2;
    }
    let Some(stream) = ctx.open_to_read(args.get(1), Kind::Stream)? else {
        ctx.reply().array(0);
        return Ok(());
    };
    if count == Some(0) {
        ctx.reply().null_array();
        return Ok(());
    }
    let below = stream.entries_below(start)?;
    let up_to = match end.next() {
        Some(next) => stream.entries_below(next)?,
        None => stream.len(),
    };
    drop(stream);
    let left = up_to.saturating_sub(below).min(count.unwrap_or(u64::MAX));
    let from = ctx.out.scratch().len();
    ctx.reply().array(left as usize);
    let walk = Walk { key: 1, from: if backwards { end } else { start }, backwards, left };
    ctx.steps_from(args, again, from, walk, |ctx, args, walk| walk.step(ctx, args));
    Ok(())
}
