//! XADD, XTRIM, XLEN, XSETID.

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::{
    Args,
    collection::Kind,
    number::parse_i64,
    stream::{State, StreamId},
};

use super::super::super::ctx::{Class, Ctx};
use super::super::collection::{Coll, RUN_ENTRIES};
use super::super::errors::{NO_KEY, NOT_INTEGER, Outcome, SYNTAX};
use super::{INVALID_ID, strict_id, write_id};

/// Nodes that an approximate trim removes at most, if the client does not say.
const LIMIT: u64 = 100;

/// Most fields of an entry, and bytes of them: an entry is copied with its run in one go.
const FIELDS: usize = 1 << 16;
const ENTRY: usize = (4 << 20) + (64 << 10);

/// The goal of a trim.
#[derive(Clone, Copy, Debug)]
enum Goal {
    /// So many entries.
    Length(u64),
    /// Entries from this ID on.
    From(StreamId),
}

/// A trim.
#[derive(Clone, Copy, Debug)]
struct Trim {
    goal: Goal,
    /// Whole nodes alone are removed.
    approximate: bool,
    /// Most entries of a node.
    node: u64,
    /// Most entries that are removed.
    limit: Option<u64>,
}

/// The options of XADD and XTRIM.
struct Options {
    trim: Option<Trim>,
    makes: bool,
    /// The ID, and whether its sequence number is given; None: `*`.
    id: Option<(StreamId, bool)>,
    /// The place of the ID among the arguments.
    at: usize,
}

const BOTH: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";

fn options(args: &Args<'_>, adds: bool, node: u64) -> Outcome<Options> {
    let mut options = Options { trim: None, makes: true, id: None, at: args.len() };
    let (mut limit, mut at) = (None, 2);
    while at < args.len() {
        let has_more = at + 1 < args.len();
        if adds && args.get(at) == b"*" {
            options.at = at;
            break;
        } else if has_more && (args.is(at, "MAXLEN") || args.is(at, "MINID")) {
            if options.trim.is_some() {
                return Err(BOTH.into());
            }
            let by_length = args.is(at, "MAXLEN");
            let is_marked = at + 2 < args.len() && matches!(args.get(at + 1), b"~" | b"=");
            let approximate = is_marked && args.get(at + 1) == b"~";
            at += 1 + usize::from(is_marked);
            let goal = goal(args.get(at), by_length)?;
            options.trim = Some(Trim { goal, approximate, node, limit: None });
        } else if has_more && args.is(at, "LIMIT") {
            at += 1;
            let number = parse_i64(args.get(at)).ok_or(NOT_INTEGER)?;
            limit =
                Some(u64::try_from(number).map_err(|_| "ERR The LIMIT argument must be >= 0.")?);
        } else if adds && args.is(at, "NOMKSTREAM") {
            options.makes = false;
        } else if adds {
            options.id = Some(StreamId::parse_given(args.get(at), 0).ok_or(INVALID_ID)?);
            options.at = at;
            break;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    options.trim = limited(options.trim, limit, adds)?;
    Ok(options)
}

/// Most entries of a node, of which there are whole ones in a run.
fn node(ctx: &Ctx<'_>) -> u64 {
    match ctx.shared.config.run_entries.load(Relaxed) {
        0 => RUN_ENTRIES,
        entries => entries.min(RUN_ENTRIES),
    }
}

fn goal(text: &[u8], by_length: bool) -> Outcome<Goal> {
    if !by_length {
        return Ok(Goal::From(strict_id(text)?));
    }
    let number = parse_i64(text).ok_or(NOT_INTEGER)?;
    let number = u64::try_from(number).map_err(|_| "ERR The MAXLEN argument must be >= 0.")?;
    Ok(Goal::Length(number))
}

/// Checks LIMIT against the other options.
fn limited(trim: Option<Trim>, limit: Option<u64>, adds: bool) -> Outcome<Option<Trim>> {
    let Some(trim) = trim else {
        if limit.is_some_and(|limit| limit > 0) {
            return Err("ERR syntax error, LIMIT cannot be used without specifying a trimming \
                        strategy"
                .into());
        }
        if !adds {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        if limit.is_some() {
            return Err(NOT_APPROXIMATE.into());
        }
        return Ok(None);
    };
    if limit.is_some() && !trim.approximate {
        return Err(NOT_APPROXIMATE.into());
    }
    let limit = limit.or(trim.approximate.then_some(LIMIT * trim.node)).filter(|limit| *limit > 0);
    Ok(Some(Trim { limit, ..trim }))
}

const NOT_APPROXIMATE: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";

impl Coll<'_> {
    /// Removes entries of the first run. Returns their number, and whether more are to be removed.
    fn trim(&mut self, trim: &Trim, removed: u64) -> Outcome<(u64, bool)> {
        let len = self.len();
        let over = match trim.goal {
            Goal::Length(most) => len.saturating_sub(most),
            Goal::From(id) => self.entries_below(id)?,
        };
        if over == 0 {
            return Ok((0, false));
        }
        let mut first = self.first_run()?;
        if trim.approximate {
            first = first.min(trim.node);
        }
        if trim.limit.is_some_and(|limit| removed + first > limit) {
            return Ok((0, false));
        }
        if trim.approximate && first > over {
            return Ok((0, false));
        }
        let done = self.remove_first(over.min(first))?;
        Ok((done, done < over))
    }

    /// The ID of a new entry.
    fn next_id(
        &self,
        state: &State,
        given: Option<(StreamId, bool)>,
        now: u64,
    ) -> Outcome<StreamId> {
        const SMALL: &str =
            "ERR The ID specified in XADD is equal or smaller than the target stream top item";
        if state.last == StreamId::MAX {
            return Err("ERR The stream has exhausted the last possible ID, unable to add more \
                        items"
                .into());
        }
        let id = match given {
            None if now > state.last.ms => StreamId { ms: now, seq: 0 },
            None => state.last.next().ok_or(SMALL)?,
            Some((id, true)) => id,
            Some((id, false)) if id.ms == state.last.ms => {
                let seq = state.last.seq.checked_add(1).ok_or(SMALL)?;
                StreamId { ms: id.ms, seq }
            }
            Some((id, false)) => id,
        };
        if id <= state.last {
            return Err(SMALL.into());
        }
        Ok(id)
    }
}

/// An XADD or XTRIM in progress.
struct Trimming {
    trim: Option<Trim>,
    removed: u64,
    /// XADD: the entry is to be added.
    adds: Option<Options>,
}

/// XADD key \[NOMKSTREAM] \[MAXLEN | MINID \[= | ~] threshold \[LIMIT count]] * | id field value
/// \[field value ...]
pub(in super::super) fn xadd(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let options = options(args, true, node(ctx))?;
        let fields = args.len().saturating_sub(options.at + 1);
        if fields < 2 || fields % 2 == 1 {
            return Err("ERR wrong number of arguments for 'xadd' command".into());
        }
        let bytes: usize = args.from(options.at + 1).take(2 * FIELDS + 1).map(<[u8]>::len).sum();
        if fields > 2 * FIELDS || bytes > ENTRY {
            return Err("ERR Elements are too large to be stored".into());
        }
        if options.id == Some((StreamId::MIN, true)) {
            return Err("ERR The ID specified in XADD must be greater than 0-0".into());
        }
        let trim = options.trim;
        let state = Trimming { trim, removed: 0, adds: Some(options) };
        ctx.steps(args, xadd, state, |ctx, args, trimming| {
            if let Some(options) = &trimming.adds {
                let Some((removed, more)) = add(ctx, args, options)? else { return Ok(true) };
                trimming.adds = None;
                trimming.removed = removed;
                if !more {
                    return Ok(trimmed(ctx, args, trimming));
                }
                return Ok(false);
            }
            let is_over = go_on(ctx, args, trimming)?;
            Ok(is_over && trimmed(ctx, args, trimming))
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Reports what an XADD removed.
fn trimmed(ctx: &mut Ctx<'_>, args: &Args<'_>, trimming: &Trimming) -> bool {
    if trimming.removed > 0 {
        ctx.event(Class::Stream, "xtrim", args.get(1));
    }
    ctx.face.signal(ctx.ns, args.get(1));
    true
}

/// Adds the entry, and removes entries of the first run. Returns the number of these, and whether
/// more are to be removed. None: there is no stream, and none is made.
fn add(ctx: &mut Ctx<'_>, args: &Args<'_>, options: &Options) -> Outcome<Option<(u64, bool)>> {
    let key = args.get(1);
    let added = ctx.retry(|ctx| {
        let mut stream = match ctx.open(key, Kind::Stream)? {
            Some(stream) => stream,
            None if options.makes => ctx.new_coll(key, Kind::Stream, None),
            None => return Ok(Some(None)),
        };
        let mut state = stream.state()?;
        let id = stream.next_id(&state, options.id, ctx.now)?;
        let at = options.at;
        let pairs = (at + 1..args.len()).step_by(2).map(|at| (args.get(at), args.get(at + 1)));
        stream.append(id, pairs)?;
        (state.last, state.added) = (id, state.added.wrapping_add(1));
        stream.set_state(&state);
        let trimmed = match &options.trim {
            Some(trim) => stream.trim(trim, 0)?,
            None => (0, false),
        };
        Ok(stream.commit(ctx)?.map(|()| Some((id, trimmed))))
    })?;
    let Some((id, trimmed)) = added else {
        ctx.reply().null();
        return Ok(None);
    };
    write_id(&mut ctx.reply(), id);
    ctx.streamed("xadd", key);
    Ok(Some(trimmed))
}

/// Removes entries of one more run. True: none is left to be removed.
fn go_on(ctx: &mut Ctx<'_>, args: &Args<'_>, trimming: &mut Trimming) -> Outcome<bool> {
    let Some(trim) = trimming.trim else { return Ok(true) };
    let Some(mut stream) = ctx.open(args.get(1), Kind::Stream)? else { return Ok(true) };
    let (mut removed, mut more) = (0, true);
    // Several runs before the head is written.
    for _ in 0..16 {
        let (some, left) = stream.trim(&trim, trimming.removed + removed)?;
        (removed, more) = (removed + some, left);
        if !more {
            break;
        }
    }
    if removed > 0 && stream.commit(ctx)?.is_none() {
        return Ok(false);
    }
    trimming.removed += removed;
    Ok(!more)
}

/// XTRIM key MAXLEN | MINID \[= | ~] threshold \[LIMIT count]
pub(in super::super) fn xtrim(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = options(args, false, node(ctx)).map(|options| {
        let state = Trimming { trim: options.trim, removed: 0, adds: None };
        ctx.steps(args, xtrim, state, |ctx, args, trimming| {
            if !go_on(ctx, args, trimming)? {
                return Ok(false);
            }
            ctx.reply().integer(trimming.removed as i64);
            if trimming.removed > 0 {
                ctx.streamed("xtrim", args.get(1));
            }
            Ok(true)
        });
    });
    ctx.settle(outcome, args);
}

/// XLEN key
pub(in super::super) fn xlen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let len = ctx.open_to_read(args.get(1), Kind::Stream)?.map_or(0, |stream| stream.len());
        ctx.reply().integer(len as i64);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// XSETID key last-id \[ENTRIESADDED number] \[MAXDELETEDID id]
pub(in super::super) fn xsetid(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let id = strict_id(args.get(2))?;
        let (mut added, mut max_deleted, mut at) = (None, StreamId::MIN, 3);
        while at < args.len() {
            let has_more = at + 1 < args.len();
            if has_more && args.is(at, "ENTRIESADDED") {
                let number = parse_i64(args.get(at + 1)).ok_or(NOT_INTEGER)?;
                let number =
                    u64::try_from(number).map_err(|_| "ERR entries_added must be positive")?;
                added = Some(number);
            } else if has_more && args.is(at, "MAXDELETEDID") {
                max_deleted = strict_id(args.get(at + 1))?;
                if id < max_deleted {
                    return Err("ERR The ID specified in XSETID is smaller than the provided \
                                max_deleted_entry_id"
                        .into());
                }
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        set_id(ctx, args.get(1), id, added, max_deleted)
    })();
    ctx.settle(outcome, args);
}

fn set_id(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    id: StreamId,
    added: Option<u64>,
    max_deleted: StreamId,
) -> Outcome {
    ctx.retry(|ctx| {
        let mut stream = ctx.open(key, Kind::Stream)?.ok_or(NO_KEY)?;
        if stream.last_id()?.is_some_and(|last| id < last) {
            return Err(
                "ERR The ID specified in XSETID is smaller than the target stream top item".into(),
            );
        }
        if stream.len() > 0 && added.is_some_and(|added| stream.len() > added) {
            return Err("ERR The entries_added specified in XSETID is smaller than the target \
                        stream length"
                .into());
        }
        let mut state = stream.state()?;
        state.last = id;
        state.added = added.unwrap_or(state.added);
        if max_deleted != StreamId::MIN {
            state.max_deleted = max_deleted;
        }
        stream.set_state(&state);
        stream.commit(ctx)
    })?;
    ctx.reply().ok();
    ctx.event(Class::Stream, "xsetid", key);
    Ok(())
}
