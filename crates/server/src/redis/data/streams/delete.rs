//! XDEL, XACK: commands on entries by their IDs.

use larder_proto::resp::{Args, collection::Kind, stream::StreamId};

use super::super::super::ctx::Ctx;
use super::super::errors::Outcome;
use super::{SOME, strict_id};

/// Arguments that are checked between two checks of the clock.
const CHECKED: usize = 4096;

/// A command on many IDs in progress: all are checked before any is used.
struct Ids {
    checked: usize,
    at: usize,
    done: u64,
}

impl Ids {
    /// Checks some of the IDs. True: all are.
    fn check(&mut self, args: &Args<'_>) -> Outcome<bool> {
        let end = args.len().min(self.checked + CHECKED);
        for at in self.checked..end {
            strict_id(args.get(at))?;
        }
        self.checked = end;
        Ok(end == args.len())
    }

    /// The next IDs.
    fn some<'a>(&mut self, args: &Args<'a>) -> impl Iterator<Item = StreamId> + Clone + use<'a> {
        let ids: Vec<&'a [u8]> = args.from(self.at).take(SOME).collect();
        self.at += SOME;
        ids.into_iter().filter_map(|text| StreamId::parse(text, 0))
    }
}

/// XDEL key id \[id ...]
pub(in super::super) fn xdel(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        if ctx.open(args.get(1), Kind::Stream)?.is_none() {
            ctx.reply().integer(0);
            return Ok(());
        }
        let ids = Ids { checked: 2, at: 2, done: 0 };
        ctx.steps(args, xdel, ids, |ctx, args, ids| {
            if ids.checked < args.len() {
                ids.check(args)?;
                return Ok(false);
            }
            let some = ids.some(args);
            ids.done += ctx.retry(|ctx| {
                let Some(mut stream) = ctx.open(args.get(1), Kind::Stream)? else {
                    return Ok(Some(0));
                };
                let (mut state, mut removed) = (stream.state()?, 0);
                for id in some.clone() {
                    if stream.remove_entry(id)? {
                        removed += 1;
                        state.max_deleted = state.max_deleted.max(id);
                    }
                }
                if removed == 0 {
                    return Ok(Some(0));
                }
                stream.set_state(&state);
                Ok(stream.commit(ctx)?.map(|()| removed))
            })?;
            if ids.at < args.len() {
                return Ok(false);
            }
            ctx.reply().integer(ids.done as i64);
            if ids.done > 0 {
                ctx.streamed("xdel", args.get(1));
            }
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// XACK key group id \[id ...]
pub(in super::super) fn xack(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let group = match ctx.open(args.get(1), Kind::Stream)? {
            Some(stream) => stream.group(args.get(2))?,
            None => None,
        };
        if group.is_none() {
            ctx.reply().integer(0);
            return Ok(());
        }
        let ids = Ids { checked: 3, at: 3, done: 0 };
        ctx.steps(args, xack, ids, |ctx, args, ids| {
            if ids.checked < args.len() {
                ids.check(args)?;
                return Ok(false);
            }
            let some = ids.some(args);
            ids.done += ctx.retry(|ctx| acknowledge(ctx, args, some.clone()))?;
            if ids.at < args.len() {
                return Ok(false);
            }
            ctx.reply().integer(ids.done as i64);
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

fn acknowledge(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    ids: impl Iterator<Item = StreamId>,
) -> Outcome<Option<u64>> {
    let Some(mut stream) = ctx.open(args.get(1), Kind::Stream)? else { return Ok(Some(0)) };
    let Some(mut group) = stream.group(args.get(2))? else { return Ok(Some(0)) };
    let mut done = 0;
    for id in ids {
        if let Some(pending) = stream.pending(group.number, id)? {
            stream.drop_pending(group.number, id, pending.consumer);
            stream.release(group.number, pending.consumer)?;
            done += 1;
        }
    }
    if done == 0 {
        return Ok(Some(0));
    }
    group.pending = group.pending.saturating_sub(done);
    stream.set_group(args.get(2), &group);
    Ok(stream.commit(ctx)?.map(|()| done))
}
