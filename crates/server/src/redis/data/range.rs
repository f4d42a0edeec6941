//! Ranges of strings.

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::{Args, number::parse_i64};

use super::super::ctx::{Class, Ctx};
use super::errors::{NOT_INTEGER, Outcome, TOO_LONG};
use super::long::{Bytes, Condition, End, Layout};

/// Longest string that a client may send or create, in bytes.
pub(super) fn bulk_limit(ctx: &Ctx<'_>) -> u64 {
    ctx.shared.config.bulk.load(Relaxed)
}

/// Refuses strings longer than a client may send or the store accepts, before any work.
pub(super) fn check_len(ctx: &Ctx<'_>, len: u64) -> Outcome {
    if len > bulk_limit(ctx).min(ctx.store.max_value()) { Err(TOO_LONG.into()) } else { Ok(()) }
}

/// Resolves Redis's ranges: negative indices count from the end, the end is included. Returns
/// `from..to`; empty if nothing is selected.
pub(super) fn slice(start: i64, end: i64, len: u64) -> (u64, u64) {
    if start < 0 && end < 0 && start > end { (0, 0) } else { clamped(start, end, len) }
}

/// As `slice`; but if both ends lie before the string, the end clamps to its first byte.
pub(super) fn clamped(start: i64, end: i64, len: u64) -> (u64, u64) {
    let len = len as i64;
    let from_end = |place: i64| if place < 0 { len.saturating_add(place).max(0) } else { place };
    let (from, to) = (from_end(start), from_end(end).min(len - 1));
    if from > to || len == 0 { (0, 0) } else { (from as u64, to as u64 + 1) }
}

/// GETRANGE key start end; SUBSTR key start end
pub(super) fn getrange(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = getrange_step(ctx, args);
    ctx.settle(outcome, args);
}

fn getrange_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let start = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
    let end = parse_i64(args.get(3)).ok_or(NOT_INTEGER)?;
    match ctx.read_string(args.get(1))? {
        Some(entry) => {
            let (from, to) = slice(start, end, entry.len());
            ctx.stored(entry, from, to);
        }
        None => ctx.reply().bulk(b""),
    }
    Ok(())
}

/// SETRANGE key offset value
pub(super) fn setrange(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = setrange_step(ctx, args);
    ctx.settle(outcome, args);
}

fn setrange_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let (key, more) = (args.get(1), args.get(3));
    let offset = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
    let Ok(offset) = u64::try_from(offset) else { return Err("ERR offset is out of range".into()) };
    let wrote = ctx.retry(|ctx| {
        let old = ctx.look_string(key)?;
        let len = old.as_ref().map_or(0, |entry| entry.len());
        let end = offset.saturating_add(more.len() as u64);
        if more.is_empty() {
            ctx.reply().count(len as usize);
            return Ok(Some(()));
        }
        check_len(ctx, end)?;
        let (len, expires) = (len.max(end), old.as_ref().and_then(|entry| entry.expires()));
        let target = ctx.target(1, expires, Condition::Same);
        let done: End = Box::new(move |ctx, args, _| {
            ctx.reply().count(len as usize);
            ctx.modified(Class::String, "setrange", args.get(1));
        });
        ctx.write(args, Layout::new(old, len).with(offset, Bytes::Arg(3)), target, setrange, done)
    });
    wrote.map(drop)
}

#[cfg(test)]
mod tests {
    use super::slice;

    #[test]
    fn ranges_are_redis_ranges() {
        for (start, end, len, range) in [
            (0, -1, 5, (0, 5)),
            (0, 0, 5, (0, 1)),
            (-3, -1, 5, (2, 5)),
            (-1, -3, 5, (0, 0)),
            (-100, 100, 5, (0, 5)),
            (3, 2, 5, (0, 0)),
            (5, 10, 5, (0, 0)),
            (0, -1, 0, (0, 0)),
            (i64::MIN, i64::MAX, 5, (0, 5)),
        ] {
            assert_eq!(slice(start, end, len), range, "{start} {end} {len}");
        }
    }
}
