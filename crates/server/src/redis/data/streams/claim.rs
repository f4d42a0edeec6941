//! XCLAIM, XAUTOCLAIM.

use larder_proto::resp::{
    Args,
    collection::Kind,
    number::parse_i64,
    stream::{Consumer, Group, Pending, StreamId},
};

use super::super::super::ctx::{Class, Ctx};
use super::super::collection::{BYTES, Coll};
use super::super::errors::{Outcome, SYNTAX};
use super::{SOME, interval_start, strict_id, write_entry, write_id};

/// How entries are claimed.
#[derive(Clone, Copy)]
struct Claim {
    min_idle: u64,
    /// The new time of delivery.
    time: u64,
    retries: Option<u64>,
    force: bool,
    just_id: bool,
}

/// The outcome for an entry.
enum Claimed {
    Yes,
    /// It is not in the stream any more, and not pending.
    Deleted,
    No,
}

/// Entries of a group that are claimed for a consumer.
struct Claiming<'s, 'k> {
    stream: &'s mut Coll<'k>,
    group: Group,
    /// The consumer, once there is an entry for it; true: it was made.
    own: Option<(Consumer, bool)>,
    name: &'s [u8],
    now: u64,
}

impl Claiming<'_, '_> {
    fn one(&mut self, id: StreamId, claim: &Claim) -> Outcome<Claimed> {
        let number = self.group.number;
        let old = self.stream.pending(number, id)?;
        if !self.stream.entry(id, &mut |_| {})? {
            let Some(old) = old else { return Ok(Claimed::No) };
            self.stream.drop_pending(number, id, old.consumer);
            self.release(old.consumer)?;
            self.group.pending = self.group.pending.saturating_sub(1);
            return Ok(Claimed::Deleted);
        }
        if old.is_none() && !claim.force {
            return Ok(Claimed::No);
        }
        let is_fresh = |old: &Pending| (self.now as i64 - old.time as i64) < claim.min_idle as i64;
        if claim.min_idle > 0 && old.as_ref().is_some_and(is_fresh) {
            return Ok(Claimed::No);
        }
        if self.own.is_none() {
            let seen = self.stream.seen_consumer(&mut self.group, self.name, self.now)?;
            self.own = Some(seen);
        }
        match old {
            None => self.group.pending += 1,
            Some(old) => self.release(old.consumer)?,
        }
        let Some((own, _)) = &mut self.own else { return Ok(Claimed::No) };
        own.pending += 1;
        let count = match (claim.retries, old) {
            (Some(retries), _) => retries,
            (None, old) => old.map_or(1, |old| old.count).saturating_add(u64::from(!claim.just_id)),
        };
        let pending = Pending { consumer: own.number, time: claim.time, count };
        self.stream.set_pending(number, id, old.map(|old| old.consumer), &pending);
        Ok(Claimed::Yes)
    }

    /// A consumer has one pending entry less.
    fn release(&mut self, consumer: u32) -> Outcome {
        match &mut self.own {
            Some((own, _)) if own.number == consumer => own.pending = own.pending.saturating_sub(1),
            _ => self.stream.release(self.group.number, consumer)?,
        }
        Ok(())
    }

    /// Writes group and consumer. True: the consumer was made.
    fn end(self, name: &[u8]) -> bool {
        if let Some((own, _)) = &self.own {
            self.stream.set_consumer(self.group.number, own);
        }
        self.stream.set_group(name, &self.group);
        self.own.is_some_and(|(_, made)| made)
    }
}

/// Answers a claimed entry.
fn show(ctx: &mut Ctx<'_>, stream: &Coll<'_>, id: StreamId, claim: &Claim) -> Outcome {
    let mut reply = ctx.reply();
    if claim.just_id {
        write_id(&mut reply, id);
    } else {
        stream.entry(id, &mut |entry| write_entry(&mut reply, entry))?;
    }
    Ok(())
}

/// XCLAIM key group consumer min-idle-time id \[id ...] \[IDLE milliseconds] \[TIME milliseconds]
/// \[RETRYCOUNT count] \[FORCE] \[JUSTID] \[LASTID id]
pub(in super::super) fn xclaim(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let there = match ctx.open(args.get(1), Kind::Stream)? {
            Some(stream) => stream.group(args.get(2))?.is_some(),
            None => false,
        };
        if !there {
            ctx.no_group(args.get(1), args.get(2));
            return Ok(());
        }
        let ids = Ids { at: 5, end: None, claim: None, last: StreamId::MIN, shown: 0 };
        let start = ctx.out.scratch().len();
        ctx.steps(args, xclaim, (start, ids), |ctx, args, (start, ids)| {
            let is_over = ids.step(ctx, args)?;
            if is_over && let Some(shown) = ids.ended() {
                ctx.prepend_array(*start, shown);
            }
            Ok(is_over)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// An XCLAIM in progress.
struct Ids {
    at: usize,
    /// Where the IDs end; None: they are being parsed.
    end: Option<usize>,
    claim: Option<Claim>,
    last: StreamId,
    shown: usize,
}

impl Ids {
    fn ended(&self) -> Option<usize> {
        self.claim.map(|_| self.shown)
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        const MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XCLAIM";
        let Some(end) = self.end else {
            let min_idle = parse_i64(args.get(4)).ok_or(MIN_IDLE)?.max(0) as u64;
            for _ in 0..16 * SOME {
                if self.at >= args.len() || strict_id(args.get(self.at)).is_err() {
                    self.end = Some(self.at);
                    match self.options(ctx, args, min_idle)? {
                        Some(claim) => self.claim = Some(claim),
                        None => return Ok(true),
                    }
                    self.at = 5;
                    break;
                }
                self.at += 1;
            }
            return Ok(false);
        };
        let to = end.min(self.at + SOME);
        let Some(claim) = self.claim else { return Ok(true) };
        let (shown, to) = self.claim_some(ctx, args, to, &claim)?;
        (self.at, self.shown) = (to, self.shown + shown);
        Ok(to >= end)
    }

    /// Parses the options. None: an error is answered.
    fn options(
        &mut self,
        ctx: &mut Ctx<'_>,
        args: &Args<'_>,
        min_idle: u64,
    ) -> Outcome<Option<Claim>> {
        let now = ctx.now;
        let mut claim = Claim { min_idle, time: now, retries: None, force: false, just_id: false };
        let (mut time, mut at) = (None, self.at);
        while at < args.len() {
            let has_more = at + 1 < args.len();
            let number = |error: &'static str| -> Outcome<i64> {
                Ok(parse_i64(args.get(at + 1)).ok_or(error)?)
            };
            if args.is(at, "FORCE") {
                claim.force = true;
                at += 1;
                continue;
            } else if args.is(at, "JUSTID") {
                claim.just_id = true;
                at += 1;
                continue;
            } else if has_more && args.is(at, "IDLE") {
                let idle = number("ERR Invalid IDLE option argument for XCLAIM")?;
                time = Some((now as i64).wrapping_sub(idle));
            } else if has_more && args.is(at, "TIME") {
                time = Some(number("ERR Invalid TIME option argument for XCLAIM")?);
            } else if has_more && args.is(at, "RETRYCOUNT") {
                let count = number("ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                claim.retries = u64::try_from(count).ok();
            } else if has_more && args.is(at, "LASTID") {
                self.last = strict_id(args.get(at + 1))?;
            } else {
                let text = [b"ERR Unrecognized XCLAIM option '", args.get(at), b"'"].concat();
                ctx.reply().error(text);
                return Ok(None);
            }
            at += 2;
        }
        let time = time.and_then(|time| u64::try_from(time).ok());
        claim.time = time.filter(|time| *time <= now).unwrap_or(now);
        Ok(Some(claim))
    }

    /// Claims entries up to `to`, or fewer if they are long. Returns how many are shown, and where
    /// it has come to.
    fn claim_some(
        &mut self,
        ctx: &mut Ctx<'_>,
        args: &Args<'_>,
        to: usize,
        claim: &Claim,
    ) -> Outcome<(usize, usize)> {
        let (key, name, consumer) = (args.get(1), args.get(2), args.get(3));
        let (start, last, from) = (ctx.out.scratch().len(), self.last, self.at);
        let (shown, end, made) = ctx.retry(|ctx| {
            ctx.out.scratch().truncate(start);
            let Some(mut stream) = ctx.open(key, Kind::Stream)? else {
                return Ok(Some((0, to, false)));
            };
            let Some(mut group) = stream.group(name)? else { return Ok(Some((0, to, false))) };
            let (now, mut shown, mut end) = (ctx.now, 0, from);
            let mut changes = group.last < last;
            group.last = group.last.max(last);
            let mut claiming =
                Claiming { stream: &mut stream, group, own: None, name: consumer, now };
            for at in from..to {
                if ctx.out.scratch().len() - start >= BYTES {
                    break;
                }
                end = at + 1;
                let Some(id) = StreamId::parse(args.get(at), 0) else { continue };
                let claimed = claiming.one(id, claim)?;
                changes |= !matches!(claimed, Claimed::No);
                if matches!(claimed, Claimed::Yes) {
                    show(ctx, claiming.stream, id, claim)?;
                    shown += 1;
                }
            }
            if !changes {
                return Ok(Some((shown, end, false)));
            }
            let made = claiming.end(name);
            Ok(stream.commit(ctx)?.map(|()| (shown, end, made)))
        })?;
        if made {
            ctx.event(Class::Stream, "xgroup-createconsumer", key);
        }
        Ok((shown, end))
    }
}

/// XAUTOCLAIM key group consumer min-idle-time start \[COUNT count] \[JUSTID]
pub(in super::super) fn xautoclaim(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let mut auto = auto(args, ctx.now)?;
        let there = match ctx.open(args.get(1), Kind::Stream)? {
            Some(stream) => stream.group(args.get(2))?.is_some(),
            None => false,
        };
        if !there {
            ctx.no_group(args.get(1), args.get(2));
            return Ok(());
        }
        auto.start = ctx.out.scratch().len();
        ctx.steps(args, xautoclaim, auto, |ctx, args, auto| auto.step(ctx, args));
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// An XAUTOCLAIM in progress.
struct Auto {
    claim: Claim,
    from: StreamId,
    /// Entries that are answered, and looked at, at most.
    left: u64,
    looks: u64,
    deleted: Vec<StreamId>,
    start: usize,
    shown: usize,
}

fn auto(args: &Args<'_>, now: u64) -> Outcome<Auto> {
    const MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XAUTOCLAIM";
    const LOOKS: u64 = 10;
    let min_idle = parse_i64(args.get(4)).ok_or(MIN_IDLE)?.max(0) as u64;
    let from = interval_start(args.get(5))?;
    let mut claim = Claim { min_idle, time: now, retries: None, force: false, just_id: false };
    let (mut left, mut at) = (100, 6);
    while at < args.len() {
        if at + 1 < args.len() && args.is(at, "COUNT") {
            let count = parse_i64(args.get(at + 1)).filter(|n| (1..=i64::MAX / 16).contains(n));
            left = count.ok_or("ERR COUNT must be > 0")? as u64;
            at += 1;
        } else if args.is(at, "JUSTID") {
            claim.just_id = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    let looks = left.saturating_mul(LOOKS);
    Ok(Auto { claim, from, left, looks, deleted: Vec::new(), start: 0, shown: 0 })
}

impl Auto {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        let (key, name, consumer) = (args.get(1), args.get(2), args.get(3));
        let start = ctx.out.scratch().len();
        let (next, claimed, deleted, looks, made) = ctx.retry(|ctx| {
            ctx.out.scratch().truncate(start);
            let nothing = (None, 0, Vec::new(), 0, false);
            let Some(mut stream) = ctx.open(key, Kind::Stream)? else {
                return Ok(Some(nothing));
            };
            let Some(group) = stream.group(name)? else { return Ok(Some(nothing)) };
            let found = stream.some_pending(group.number, None, self.from, SOME + 1)?;
            let (now, mut claimed, mut deleted, mut looks) = (ctx.now, 0, Vec::new(), 0);
            let mut claiming =
                Claiming { stream: &mut stream, group, own: None, name: consumer, now };
            let mut next = None;
            for (nth, (id, _)) in found.iter().enumerate() {
                let used = claimed as u64 + deleted.len() as u64;
                let is_long = ctx.out.scratch().len() - start >= BYTES;
                if used >= self.left || looks >= self.looks || nth == SOME || is_long {
                    next = Some(*id);
                    break;
                }
                looks += 1;
                match claiming.one(*id, &self.claim)? {
                    Claimed::Yes => {
                        show(ctx, claiming.stream, *id, &self.claim)?;
                        claimed += 1;
                    }
                    Claimed::Deleted => deleted.push(*id),
                    Claimed::No => {}
                }
            }
            if claimed == 0 && deleted.is_empty() {
                return Ok(Some((next, claimed, deleted, looks, false)));
            }
            let made = claiming.end(name);
            Ok(stream.commit(ctx)?.map(|()| (next, claimed, deleted, looks, made)))
        })?;
        if made {
            ctx.event(Class::Stream, "xgroup-createconsumer", key);
        }
        self.left -= claimed as u64 + deleted.len() as u64;
        (self.looks, self.shown) = (self.looks - looks, self.shown + claimed);
        self.deleted.extend(deleted);
        if let Some(next) = next.filter(|_| self.left > 0 && self.looks > 0) {
            self.from = next;
            return Ok(false);
        }
        self.end(ctx, next.unwrap_or(StreamId::MIN));
        Ok(true)
    }

    fn end(&self, ctx: &mut Ctx<'_>, next: StreamId) {
        let mut head = Vec::new();
        let mut reply = larder_proto::resp::Reply::new(&mut head, ctx.version);
        reply.array(3);
        write_id(&mut reply, next);
        reply.array(self.shown);
        ctx.out.scratch().splice(self.start..self.start, head);
        let mut reply = ctx.reply();
        reply.array(self.deleted.len());
        self.deleted.iter().for_each(|id| write_id(&mut reply, *id));
    }
}
