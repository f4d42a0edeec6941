//! PFADD, PFCOUNT, PFMERGE: HyperLogLogs, which are strings in Redis's bytes.

use larder_proto::resp::{
    Args,
    hyperloglog::{Corrupted, HyperLogLog, REGISTERS, Registers, estimate},
    table::Id,
};
use larder_store::{Entry, Put};

use super::super::ctx::{Class, Ctx};
use super::Run;
use super::access::string;
use super::errors::{Outcome, Refused};
use super::joined::Whole;
use super::pfdebug::{pfdebug, pfselftest};

const NOT_ONE: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
/// Elements, or bytes of them, that are added between two checks of the clock.
const ELEMENTS: usize = 512;
const BYTES: usize = 1 << 20;
/// Keys that are merged between two checks of the clock: some 20 microseconds each.
const KEYS: usize = 16;

/// The handler of a command on HyperLogLogs; None: another command.
pub(super) fn command(id: Id) -> Option<Run> {
    Some(match id {
        Id::Pfadd => pfadd,
        Id::Pfcount => pfcount,
        Id::Pfmerge => pfmerge,
        Id::Pfdebug => pfdebug,
        Id::Pfselftest => pfselftest,
        _ => return None,
    })
}

impl From<Corrupted> for Refused {
    fn from(_: Corrupted) -> Self {
        "INVALIDOBJ Corrupted HLL object detected".into()
    }
}

/// The HyperLogLog of an entry.
pub(super) fn of(entry: &Entry<'static>) -> Outcome<HyperLogLog> {
    if entry.len() > HyperLogLog::LONGEST as u64 {
        return Err(NOT_ONE.into());
    }
    Ok(HyperLogLog::read(&Whole::of(entry)).ok_or(NOT_ONE)?)
}

/// Writes a HyperLogLog in place of what was read. None: another write came first.
pub(super) fn put(
    ctx: &Ctx<'_>,
    key: &[u8],
    old: Option<&Entry<'static>>,
    own: &HyperLogLog,
) -> Outcome<Option<()>> {
    let expires = old.and_then(Entry::expires);
    let put = Put { value: &[own.bytes()], expires, ..Put::default() };
    Ok(ctx.replace(key, old, put)?.map(drop))
}

/// PFADD key \[element ...]
fn pfadd(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.steps(args, pfadd, (2, false), |ctx, args, (at, changed)| {
        let key = args.get(1);
        let (mut bytes, mut end) = (0, *at);
        while end < args.len() && end < *at + ELEMENTS && bytes <= BYTES {
            bytes += args.get(end).len();
            end += 1;
        }
        let more = ctx.retry(|ctx| {
            let old = string(ctx.look(key))?;
            let mut more = old.is_none();
            let mut own = old.as_ref().map(of).transpose()?.unwrap_or_default();
            for at in *at..end {
                more |= own.add(args.get(at))?;
            }
            if !more {
                return Ok(Some(false));
            }
            own.forget_count();
            Ok(put(ctx, key, old.as_ref(), &own)?.map(|()| true))
        })?;
        (*at, *changed) = (end, *changed || more);
        if end < args.len() {
            return Ok(false);
        }
        ctx.reply().integer((*changed).into());
        if *changed {
            ctx.modified(Class::String, "pfadd", key);
        }
        Ok(true)
    });
}

/// PFCOUNT key \[key ...]
fn pfcount(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() == 2 {
        let outcome = count_one(ctx, args.get(1));
        return ctx.settle(outcome, args);
    }
    let state = (1, Box::new([0; REGISTERS]));
    ctx.steps(args, pfcount, state, |ctx, args, (at, registers)| {
        if !merge_some(ctx, args, at, registers, &mut false)? {
            return Ok(false);
        }
        ctx.reply().integer(estimate(registers) as i64);
        Ok(true)
    });
}

fn count_one(ctx: &mut Ctx<'_>, key: &[u8]) -> Outcome {
    let Some(entry) = ctx.read_string(key)? else {
        ctx.reply().integer(0);
        return Ok(());
    };
    let mut own = of(&entry)?;
    let count = match own.known_count() {
        Some(count) => count,
        None => {
            let count = own.count()?;
            // The count is kept in the value, unless that has changed meanwhile.
            if let Ok(Some(())) = put(ctx, key, Some(&entry), &own) {
                ctx.invalidated(key);
            }
            count
        }
    };
    ctx.reply().integer(count as i64);
    Ok(())
}

/// Merges some of the keys from `at` on. True: all are merged.
fn merge_some(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    at: &mut usize,
    registers: &mut Registers,
    dense: &mut bool,
) -> Outcome<bool> {
    for _ in 0..KEYS {
        if *at >= args.len() {
            return Ok(true);
        }
        if let Some(entry) = ctx.read_string(args.get(*at))? {
            let own = of(&entry)?;
            *dense |= own.is_dense();
            own.merge_into(registers)?;
        }
        *at += 1;
    }
    Ok(*at >= args.len())
}

/// PFMERGE destination \[source ...]
fn pfmerge(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let state = (1, Box::new([0; REGISTERS]), false);
    ctx.steps(args, pfmerge, state, |ctx, args, (at, registers, dense)| {
        if !merge_some(ctx, args, at, registers, dense)? {
            return Ok(false);
        }
        let key = args.get(1);
        ctx.retry(|ctx| {
            let old = string(ctx.look(key))?;
            let mut own = old.as_ref().map(of).transpose()?.unwrap_or_default();
            if *dense {
                own.to_dense()?;
            }
            for (at, value) in registers.iter().enumerate() {
                if *value > 0 {
                    own.set(at, *value)?;
                }
            }
            own.forget_count();
            put(ctx, key, old.as_ref(), &own)
        })?;
        ctx.reply().ok();
        ctx.modified(Class::String, "pfadd", key);
        Ok(true)
    });
}
