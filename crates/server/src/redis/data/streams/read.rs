//! XREAD, XREADGROUP.

use std::ops::Range;

use larder_proto::resp::{
    Args, Reply, Version,
    collection::Kind,
    number::parse_i64,
    stream::{StreamId, key},
};

use super::super::super::ctx::Ctx;
use super::super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX};
use super::super::list_moves::Wish;
use super::deliver::{NO_GROUP, NO_KEY, Names, Reading};
use super::range::Walk;
use super::{shown, strict_id};
use crate::clock::Ms;

/// Most streams of one command: all are looked at before any is answered.
const STREAMS: usize = 1024;
/// Entries of a stream that a client gets that had to wait, if it does not say.
const WAITED: u64 = 1000;

/// XREAD \[COUNT count] \[BLOCK milliseconds] STREAMS key \[key ...] id \[id ...]
pub(in super::super) fn xread(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = read(ctx, args, false);
    ctx.settle(outcome, args);
}

/// XREADGROUP GROUP group consumer \[COUNT count] \[BLOCK milliseconds] \[NOACK] STREAMS key
/// \[key ...] id \[id ...]
pub(in super::super) fn xreadgroup(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = read(ctx, args, true);
    ctx.settle(outcome, args);
}

/// The options of a command.
struct Options {
    /// Some(None): without a limit.
    block: Option<Option<Ms>>,
    /// 0: all.
    count: u64,
    group: Option<usize>,
    no_ack: bool,
    keys: Range<usize>,
}

/// Errors for BLOCK in a script.
const NO_BLOCK: [&str; 2] = [
    "ERR xread command is not allowed with BLOCK option from scripts",
    "ERR xreadgroup command is not allowed with BLOCK option from scripts",
];

fn options(ctx: &Ctx<'_>, args: &Args<'_>, grouped: bool) -> Outcome<Options> {
    let mut options = Options { block: None, count: 0, group: None, no_ack: false, keys: 0..0 };
    let mut at = 1;
    while at < args.len() {
        let more = args.len() - at - 1;
        if more > 0 && args.is(at, "BLOCK") {
            if ctx.conn.in_script {
                return Err(NO_BLOCK[usize::from(grouped)].into());
            }
            at += 1;
            options.block = Some(deadline(args.get(at), ctx.now)?);
        } else if more > 0 && args.is(at, "COUNT") {
            at += 1;
            options.count = parse_i64(args.get(at)).ok_or(NOT_INTEGER)?.max(0) as u64;
        } else if more > 0 && args.is(at, "STREAMS") {
            if !more.is_multiple_of(2) {
                return Err("ERR Unbalanced XREAD list of streams: for each stream key an ID or \
                            '$' must be specified."
                    .into());
            }
            options.keys = at + 1..at + 1 + more / 2;
            break;
        } else if more > 1 && args.is(at, "GROUP") {
            if !grouped {
                return Err("ERR The GROUP option is only supported by XREADGROUP. You called \
                            XREAD instead."
                    .into());
            }
            options.group = Some(at + 1);
            at += 2;
        } else if args.is(at, "NOACK") {
            if !grouped {
                return Err("ERR The NOACK option is only supported by XREADGROUP. You called \
                            XREAD instead."
                    .into());
            }
            options.no_ack = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    if options.keys.is_empty() {
        return Err(SYNTAX.into());
    }
    if grouped && options.group.is_none() {
        return Err("ERR Missing GROUP option for XREADGROUP".into());
    }
    if options.keys.len() > STREAMS {
        return Err("ERR too many streams".into());
    }
    Ok(options)
}

/// The end of BLOCK. (Redis: `getTimeoutFromObjectOrReply`.)
fn deadline(text: &[u8], now: Ms) -> Outcome<Option<Ms>> {
    let millis = parse_i64(text).ok_or("ERR timeout is not an integer or out of range")?;
    let millis = u64::try_from(millis).map_err(|_| "ERR timeout is negative")?;
    if millis == 0 {
        return Ok(None);
    }
    let deadline = now.checked_add(millis).filter(|at| *at <= i64::MAX as u64);
    Ok(Some(deadline.ok_or("ERR timeout is out of range")?))
}

/// Where a stream is read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// XREAD: after this ID. XREADGROUP: the consumer's pending entries after it.
    After(StreamId),
    /// XREADGROUP: what the group has not read.
    New,
}

/// A command in progress.
struct Read {
    reading: Reading,
    block: Option<Option<Ms>>,
    keys: Range<usize>,
    froms: Vec<From>,
    /// The stream that is read.
    nth: usize,
    now: Option<Part>,
    /// Start of the answer.
    start: usize,
    served: usize,
}

/// Entries of one stream that are being answered.
enum Part {
    Walk(Walk),
    New(u64),
    Again(StreamId, u64),
}

fn read(ctx: &mut Ctx<'_>, args: &Args<'_>, grouped: bool) -> Outcome {
    let outcome = begin(ctx, args, grouped);
    let Ok(Some(mut read)) = outcome else {
        return outcome.map(drop);
    };
    if !read.is_any(ctx, args)? {
        read.end(ctx, args);
        return Ok(());
    }
    // It may have waited until now; its steps must not.
    ctx.waits_no_more();
    let again = if grouped { xreadgroup } else { xread };
    ctx.steps_from(args, again, read.start, read, |ctx, args, read| read.step(ctx, args));
    Ok(())
}

/// Parses and checks everything. None: it is answered.
fn begin(ctx: &mut Ctx<'_>, args: &Args<'_>, grouped: bool) -> Outcome<Option<Read>> {
    let options = options(ctx, args, grouped)?;
    let group = options.group.map(|at| (args.get(at).into(), args.get(at + 1).into()));
    let mut froms = Vec::new();
    for at in options.keys.clone() {
        match from(ctx, args, at, at + options.keys.len(), group.as_ref())? {
            Some(from) => froms.push(from),
            None => return Ok(None),
        }
    }
    let mut count = if options.count == 0 { u64::MAX } else { options.count };
    let keys = options.keys.clone().map(|at| args.get(at).into());
    let ids = froms.iter().map(|from| match from {
        From::After(id) => *id,
        From::New => StreamId::MAX,
    });
    let mut keys: Vec<(Box<[u8]>, StreamId)> = keys.zip(ids).collect();
    if let Some(Wish::Entries(waited)) = ctx.conn.blocked.as_ref().map(|blocked| blocked.wish()) {
        // It was called: the last ID is that of the time when it began to wait.
        (keys, count) = (waited.keys.clone(), waited.count);
        if !grouped {
            froms = keys.iter().map(|(_, id)| From::After(*id)).collect();
        }
    }
    let reading = Reading { group, no_ack: options.no_ack, keys, count };
    let (block, keys, start) = (options.block, options.keys, ctx.out.scratch().len());
    Ok(Some(Read { reading, block, keys, froms, nth: 0, now: None, start, served: 0 }))
}

/// Where a stream is read from. None: an error is answered.
fn from(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    key: usize,
    id: usize,
    group: Option<&Names>,
) -> Outcome<Option<From>> {
    let (key, id) = (args.get(key), args.get(id));
    let has_waited = group.is_some() && ctx.conn.blocked.is_some();
    let stream = match ctx.open_to_read(key, Kind::Stream) {
        Ok(None) | Err(_) if has_waited => return Err(NO_KEY.into()),
        stream => stream?,
    };
    if let Some((name, _)) = group {
        let there = match &stream {
            Some(stream) => stream.group(name)?.is_some(),
            None => false,
        };
        if !there && has_waited {
            return Err(NO_GROUP.into());
        }
        if !there {
            let (key, name) = (shown(key), shown(name));
            let text = [b"NOGROUP No such key '", key, b"' or consumer group '", name];
            let text = [&text.concat()[..], b"' in XREADGROUP with GROUP option"].concat();
            ctx.reply().error(text);
            return Ok(None);
        }
    }
    match (id, group.is_some()) {
        (b"$", true) => Err("ERR The $ ID is meaningless in the context of XREADGROUP: you want \
                             to read the history of this consumer by specifying a proper ID, or \
                             use the > ID to get new messages. The $ ID would just return an \
                             empty result set."
            .into()),
        (b"$", false) => {
            let last = stream.map(|stream| stream.state()).transpose()?;
            Ok(Some(From::After(last.unwrap_or_default().last)))
        }
        (b">", false) => Err("ERR The > ID can be specified only when calling XREADGROUP using \
                              the GROUP <group> <consumer> option."
            .into()),
        (b">", true) => Ok(Some(From::New)),
        _ => Ok(Some(match strict_id(id)? {
            // As Redis has it.
            StreamId::MAX if group.is_some() => From::New,
            id => From::After(id),
        })),
    }
}

impl Read {
    /// Is there something to answer?
    fn is_any(&self, ctx: &Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        for (at, from) in self.keys.clone().zip(&self.froms) {
            let Some(stream) = ctx.open(args.get(at), Kind::Stream)? else { continue };
            let after = match (&self.reading.group, from) {
                (Some(_), From::After(_)) => return Ok(true),
                (Some((name, _)), From::New) => match stream.group(name)? {
                    Some(group) => group.last,
                    None => continue,
                },
                (None, From::After(id)) => *id,
                (None, From::New) => continue,
            };
            if stream.last_id()?.is_some_and(|last| last > after) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        if let Some(part) = self.now.take() {
            self.now = self.go_on(ctx, args, part)?;
            return Ok(false);
        }
        if self.nth < self.froms.len() {
            self.now = self.next(ctx, args)?;
            self.nth += 1;
            return Ok(false);
        }
        self.end(ctx, args);
        Ok(true)
    }

    /// Begins with the next stream, if there is something to answer.
    fn next(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Option<Part>> {
        let at = self.keys.start + self.nth;
        let Some(stream) = ctx.open(args.get(at), Kind::Stream)? else { return Ok(None) };
        let last = stream.last_id()?;
        let most = self.reading.count;
        let (part, count) = match (&self.reading.group, self.froms[self.nth]) {
            (None, From::After(id)) => {
                let Some(from) = id.next().filter(|from| last >= Some(*from)) else {
                    return Ok(None);
                };
                let left = stream.len().saturating_sub(stream.entries_below(from)?).min(most);
                (Part::Walk(Walk { key: at, from, backwards: false, left }), left)
            }
            (Some((name, _)), From::New) => {
                let Some(group) = stream.group(name)? else { return Ok(None) };
                let Some(from) = group.last.next().filter(|from| last >= Some(*from)) else {
                    return Ok(None);
                };
                let left = stream.len().saturating_sub(stream.entries_below(from)?).min(most);
                (Part::New(left), left)
            }
            (Some((name, consumer)), From::After(id)) => {
                let Some(group) = stream.group(name)? else { return Ok(None) };
                let from = id.next().unwrap_or(StreamId::MIN);
                let left = match stream.consumer(group.number, consumer)? {
                    None => 0,
                    Some(own) => {
                        let end = key::owned(group.number, own.number, StreamId::MAX);
                        let up_to = stream.records_below(&[&end[..], &[0]].concat())?;
                        let start = key::owned(group.number, own.number, from);
                        up_to.saturating_sub(stream.records_below(&start)?).min(most)
                    }
                };
                drop(stream);
                // The consumer is made, or seen.
                ctx.deliver(args.get(at), &self.reading, 0, ctx.version)?;
                (Part::Again(from, left), left)
            }
            (None, From::New) => return Ok(None),
        };
        let mut reply = ctx.reply();
        if reply.version() == Version::V2 {
            reply.array(2);
        }
        reply.bulk(args.get(at));
        reply.array(count as usize);
        self.served += 1;
        Ok(Some(part))
    }

    /// Answers some more entries of a stream. None: all are answered.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>, part: Part) -> Outcome<Option<Part>> {
        let key = args.get(self.keys.start + self.nth - 1);
        match part {
            Part::Walk(mut walk) => {
                let is_over = walk.step(ctx, args)?;
                Ok((!is_over).then_some(Part::Walk(walk)))
            }
            Part::New(left) => {
                let delivered = ctx.deliver(key, &self.reading, left, ctx.version)?;
                let (bytes, count) = delivered.unwrap_or_default();
                if count == 0 && left > 0 {
                    // As many were promised: the stream was evicted.
                    return Err(Refused::Lost);
                }
                ctx.out.scratch().extend_from_slice(&bytes);
                Ok((count > 0 && count < left).then(|| Part::New(left - count)))
            }
            Part::Again(from, left) => {
                let (count, last) = ctx.deliver_again(key, &self.reading, (from, left))?;
                if count == 0 && left > 0 {
                    return Err(Refused::Lost);
                }
                let next = last.next().filter(|_| count > 0 && count < left);
                Ok(next.map(|next| Part::Again(next, left - count)))
            }
        }
    }

    /// Composes the head of the answer, or waits.
    fn end(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) {
        if self.served > 0 {
            let mut head = Vec::new();
            match ctx.version {
                Version::V2 => Reply::new(&mut head, ctx.version).array(self.served),
                Version::V3 => Reply::new(&mut head, ctx.version).map(self.served),
            }
            ctx.out.scratch().splice(self.start..self.start, head);
            return;
        }
        let Some(deadline) = self.block else { return ctx.reply().null_array() };
        let mut reading = self.reading.clone();
        if reading.count == u64::MAX {
            reading.count = WAITED;
        }
        let mut keys: Vec<Box<[u8]>> = self.keys.clone().map(|at| args.get(at).into()).collect();
        keys.sort_unstable();
        keys.dedup();
        ctx.wait(keys, Wish::Entries(Box::new(reading)), deadline);
    }
}
