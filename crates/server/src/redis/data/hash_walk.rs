//! Hashes: iteration and random fields.

use larder_proto::resp::{
    Args, Version,
    hash::{Hash, Pair},
    number::{Text, parse_cursor, parse_i64},
};
use rapidhash::v3::rapidhash_v3;

use super::super::ctx::Ctx;
use super::access::bytes;
use super::errors::{NOT_INTEGER, Outcome, SYNTAX};
use super::hashes::{read, show};
use super::object::is_packed;
use super::random::pick;
use super::walk::{BAD_CURSOR, Options};

/// Maximum of fields that HRANDFIELD draws with repetition: the answer is composed at once.
const MOST_DRAWS: u64 = 16 * 1024;
/// Maximum of bytes in one draw: the size of the largest hash.
const DRAWN_BYTES: usize = 4 << 20;
/// Maximum of steps in a walk. A step of HSCAN reads the whole hash, so it shows at least this
/// fraction of it.
const STEPS: usize = 128;
/// Maximum of fields that a step of HSCAN shows, whatever COUNT says.
const MOST: usize = 16 * 1024;

/// HSCAN key cursor [MATCH pattern] [COUNT count]
pub(super) fn hscan(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = hscan_step(ctx, args);
    ctx.settle(outcome, args);
}

fn hscan_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let cursor = parse_cursor(args.get(2)).ok_or(BAD_CURSOR)?;
    let Some(entry) = ctx.read_hash(args.get(1))? else {
        let mut reply = ctx.reply();
        reply.array(2);
        reply.bulk(b"0");
        reply.array(0);
        return Ok(());
    };
    let options = Options::parse(args, 3, false)?;
    let record = bytes(&entry);
    let hash = read(&record)?;
    let (mut pairs, next) = if is_packed(ctx, &hash) {
        (hash.pairs()?, 0)
    } else {
        window(&hash, cursor, options.count)?
    };
    pairs.retain(|(field, _)| options.matches(field));
    let mut reply = ctx.reply();
    reply.array(2);
    reply.bulk(Text::default().u64(next));
    reply.array(pairs.len() * 2);
    for (field, value) in pairs {
        reply.bulk(field);
        reply.bulk(value);
    }
    Ok(())
}

/// The fields that follow `cursor` in the order of their hash values, and the next cursor. The
/// order by hash value shows every field that exists throughout, whatever other fields come and go.
fn window<'a>(hash: &Hash<'a>, cursor: u64, count: usize) -> Outcome<(Vec<Pair<'a>>, u64)> {
    let count = count.min(MOST).max(hash.len() / STEPS);
    let mut marked: Vec<(u64, Pair<'a>)> = Vec::new();
    for pair in hash.iter() {
        let pair = pair?;
        // Half of the range, for clients with signed integers; 0 is the start.
        let mark = (rapidhash_v3(pair.0) >> 1).max(1);
        if mark >= cursor {
            marked.push((mark, pair));
        }
    }
    if marked.len() <= count {
        return Ok((marked.into_iter().map(|(_, pair)| pair).collect(), 0));
    }
    // Selection instead of sorting all, which takes ten times as long.
    let next = marked.select_nth_unstable_by_key(count, |(mark, _)| *mark).1.0;
    // Fields with equal marks are shown together.
    let shown = marked.into_iter().filter(|(mark, _)| *mark < next).map(|(_, pair)| pair);
    Ok((shown.collect(), next))
}

/// HRANDFIELD key [count [WITHVALUES]]
pub(super) fn hrandfield(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() == 2 {
        return show(ctx, args, |ctx, found| {
            match found {
                Some(hash) => {
                    let pairs = hash.pairs()?;
                    ctx.reply().bulk(pairs[pick(pairs.len())].0);
                }
                None => ctx.reply().null(),
            }
            Ok(())
        });
    }
    match draws(args) {
        Ok((count, values)) => show(ctx, args, |ctx, found| {
            let pairs = found.map(|hash| hash.pairs()).transpose()?.unwrap_or_default();
            let drawn = draw(pairs, count);
            let bytes: usize = drawn.iter().map(|(field, value)| field.len() + value.len()).sum();
            if bytes > DRAWN_BYTES {
                return Err("ERR value is out of range".into());
            }
            answer_draws(ctx, &drawn, values);
            Ok(())
        }),
        Err(refused) => ctx.settle(Err(refused), args),
    }
}

/// Parses the number of fields, and whether values are wanted.
fn draws(args: &Args<'_>) -> Outcome<(i64, bool)> {
    let count = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
    if count == i64::MIN {
        let text = "ERR value is out of range, value must between -9223372036854775807 and \
                    9223372036854775807";
        return Err(text.into());
    }
    if args.len() > 4 || (args.len() == 4 && !args.is(3, "WITHVALUES")) {
        return Err(SYNTAX.into());
    }
    let values = args.len() == 4;
    if (values && count.unsigned_abs() > i64::MAX as u64 / 2)
        || (count < 0 && count.unsigned_abs() > MOST_DRAWS)
    {
        return Err("ERR value is out of range".into());
    }
    Ok((count, values))
}

/// Negative: a number of independent draws; positive: a number of different fields in their order.
fn draw(pairs: Vec<Pair<'_>>, count: i64) -> Vec<Pair<'_>> {
    if pairs.is_empty() {
        return pairs;
    }
    if count < 0 {
        return (0..count.unsigned_abs()).map(|_| pairs[pick(pairs.len())]).collect();
    }
    let mut wanted = usize::try_from(count).unwrap_or(usize::MAX).min(pairs.len());
    let total = pairs.len();
    // Each remaining field is taken with the probability that yields the wanted number (Knuth's
    // algorithm S).
    let take = |(at, pair)| {
        let taken = pick(total - at) < wanted;
        wanted -= usize::from(taken);
        taken.then_some(pair)
    };
    pairs.into_iter().enumerate().filter_map(take).collect()
}

fn answer_draws(ctx: &mut Ctx<'_>, drawn: &[Pair<'_>], values: bool) {
    let nested = values && ctx.version == Version::V3;
    let mut reply = ctx.reply();
    reply.array(if values && !nested { drawn.len() * 2 } else { drawn.len() });
    for (field, value) in drawn {
        if nested {
            reply.array(2);
        }
        reply.bulk(field);
        if values {
            reply.bulk(value);
        }
    }
}
