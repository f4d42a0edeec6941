//! Walks over all keys: SCAN and DBSIZE.

use larder_proto::resp::{
    Args,
    glob::{self, Pattern},
    number::{Text, parse_cursor, parse_i64},
};
use larder_store::{Cursor, Keep};

use super::super::{ctx::Ctx, names::Names};
use super::access::type_name;
use super::errors::{NOT_INTEGER, Outcome, SYNTAX};

/// Keys shown by a step of SCAN without COUNT.
const COUNT: usize = 10;
/// Maximum of keys that a step of SCAN shows, whatever COUNT says.
const MOST: usize = 100_000;
/// Slots of the store that a step of SCAN examines if it has not found COUNT keys before. In a
/// store that is nearly empty, or full of other databases' keys, a walk would otherwise need a step
/// for every few slots. (A step also ends when its time is over.)
const PLACES: usize = 64 * 1024;
/// Slots examined between two checks of the clock.
pub(super) const LOOK: usize = 512;
/// Slots examined with a pattern of one byte between two checks of the clock.
const COMPARED: usize = 2048;

/// Slots examined with a pattern of this length between two checks of the clock: 2 with the
/// longest, as each may hold a key of 16 KiB, for which a comparison takes up to half a
/// millisecond.
pub(super) fn slice(pattern: usize) -> usize {
    (COMPARED / pattern.max(1)).clamp(2, LOOK)
}

pub(super) const BAD_CURSOR: &str = "ERR invalid cursor";

/// Options of SCAN and HSCAN.
#[derive(Debug)]
pub(super) struct Options<'a> {
    pub(super) count: usize,
    pattern: Option<Pattern<'a>>,
    kind: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Parses the options from `at` on; `kinds`: TYPE is allowed.
    pub(super) fn parse(args: &Args<'a>, mut at: usize, kinds: bool) -> Outcome<Options<'a>> {
        let mut options = Options { count: COUNT, pattern: None, kind: None };
        while at < args.len() {
            let value = (at + 1 < args.len()).then(|| args.get(at + 1)).ok_or(SYNTAX)?;
            if args.is(at, "COUNT") {
                let count = parse_i64(value).ok_or(NOT_INTEGER)?;
                options.count =
                    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if args.is(at, "MATCH") {
                if value.len() > glob::LONGEST {
                    return Err(glob::TOO_LONG.into());
                }
                options.pattern = Some(value).filter(|pattern| *pattern != b"*").map(Pattern::new);
            } else if kinds && args.is(at, "TYPE") {
                options.kind = Some(value);
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        Ok(options)
    }

    fn matches(&self, name: &[u8]) -> bool {
        self.matches_counted(name, &mut 0)
    }

    /// The same; adds the number of steps to `steps`, each about a nanosecond.
    pub(super) fn matches_counted(&self, name: &[u8], steps: &mut usize) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches_counted(name, steps))
    }

    fn is_kind(&self, flags: u32) -> bool {
        let kind = type_name(flags);
        self.kind.is_none_or(|asked| asked.eq_ignore_ascii_case(kind.as_bytes()))
    }
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub(super) fn scan(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = scan_step(ctx, args);
    ctx.settle(outcome, args);
}

fn scan_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let cursor = parse_cursor(args.get(1)).ok_or(BAD_CURSOR)?;
    let options = Options::parse(args, 2, true)?;
    let mut found = Names::default();
    let now = ctx.now;
    let wanted = options.count.min(MOST);
    let (mut seen, mut looked, mut limit) = (0, 0, wanted);
    let mut next = Some(Cursor(cursor));
    let most = options.pattern.as_ref().map_or(LOOK, |pattern| slice(pattern.len()));
    while let Some(at) = next.filter(|_| seen < wanted && looked < PLACES) {
        limit = limit.min(most);
        next = ctx.store.scan(ctx.ns, at, limit, &mut |key, info| {
            seen += 1;
            let live = info.expires.is_none_or(|at| at > now);
            if live && options.is_kind(info.flags) && options.matches(key) {
                found.push(key);
            }
            Keep::Keep
        });
        looked += limit;
        // Longer steps while little is found; no longer ones near the wanted number.
        limit = if seen == 0 {
            limit * 2
        } else {
            (limit * 2).min(wanted.saturating_sub(seen).max(COUNT))
        };
        if ctx.is_over() {
            break;
        }
    }
    let mut reply = ctx.reply();
    reply.array(2);
    reply.bulk(Text::default().u64(next.map_or(0, |cursor| cursor.0)));
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// DBSIZE
pub(super) fn dbsize(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let keys = ctx.store.live(ctx.ns);
    ctx.reply().count(keys as usize);
}
