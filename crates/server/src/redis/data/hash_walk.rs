//! Hashes: iteration and random fields.

use std::collections::BinaryHeap;

use larder_proto::resp::{
    Args, Version,
    hash::{Hash, Iter, Pair},
    number::{Text, parse_cursor, parse_i64},
};
use larder_store::Entry;
use rapidhash::v3::rapidhash_v3;

use super::super::{
    ctx::Ctx,
    job::{Job, Progress},
};
use super::errors::{NOT_INTEGER, Outcome, SYNTAX};
use super::hash_record::read;
use super::hashes::{FIELDS, show};
use super::joined::Whole;
use super::object::is_packed;
use super::random::pick;
use super::walk::{BAD_CURSOR, Options};

/// Maximum of fields that HRANDFIELD draws with repetition.
const MOST_DRAWS: u64 = 16 * 1024;
/// Maximum of bytes drawn with repetition, by the mean size of a field.
const DRAWN_BYTES: u64 = 16 << 20;
/// Bytes answered between two checks of the clock.
const AT_ONCE: usize = 64 * 1024;
/// Maximum of steps in a walk. A step of HSCAN reads the whole hash, so it shows at least this
/// fraction of it.
const STEPS: usize = 128;
/// Maximum of fields that a step of HSCAN shows, whatever COUNT says.
const MOST: usize = 4 * 1024;

/// Steps of comparisons with a pattern after which a step of HSCAN shows no more fields
/// ([`Pattern::matches_counted`](larder_proto::resp::glob::Pattern::matches_counted)).
const COMPARED: usize = 1_000_000;

/// A field with its mark: half of its hash value, by which a walk is ordered.
type Marked<'a> = (u64, Pair<'a>);

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
    let record = Whole::of(&entry);
    let hash = read(&record)?;
    let (fields, mut next) = if hash.len() <= MOST && is_packed(ctx, &hash) {
        (hash.pairs()?.into_iter().map(|pair| (0, pair)).collect(), 0)
    } else {
        window(&hash, cursor, options.count)?
    };
    let (mut pairs, mut steps, mut last) = (Vec::new(), 0, 0);
    for (mark, pair) in fields {
        // Fields with equal marks are shown together.
        if steps > COMPARED && mark != last {
            next = mark;
            break;
        }
        last = mark;
        if options.matches_counted(pair.0, &mut steps) {
            pairs.push(pair);
        }
    }
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
fn window<'a>(hash: &Hash<'a>, cursor: u64, count: usize) -> Outcome<(Vec<Marked<'a>>, u64)> {
    let count = count.min(MOST).max(hash.len() / STEPS);
    // The smallest marks and one more: a list of all takes longer to allocate than to fill.
    let mut smallest: BinaryHeap<(u64, usize)> = BinaryHeap::with_capacity(count + 2);
    let mut fields = hash.iter();
    loop {
        let (at, _) = fields.place();
        let Some(pair) = fields.next() else { break };
        // Half of the range, for clients with signed integers; 0 is the start.
        let mark = (rapidhash_v3(pair?.0) >> 1).max(1);
        let is_small = smallest.len() <= count || smallest.peek().is_some_and(|(m, _)| mark < *m);
        if mark >= cursor && is_small {
            smallest.push((mark, at));
            if smallest.len() > count + 1 {
                smallest.pop();
            }
        }
    }
    let mut marked = smallest.into_sorted_vec();
    let mut next = 0;
    if marked.len() > count {
        next = marked.last().map(|(mark, _)| *mark).unwrap_or_default();
        // Fields with equal marks are shown together.
        marked.retain(|(mark, _)| *mark < next);
    }
    let mut fields = Vec::with_capacity(marked.len());
    for (mark, at) in marked {
        if let Some(pair) = hash.iter_from((at, usize::MAX)).next() {
            fields.push((mark, pair?));
        }
    }
    Ok((fields, next))
}

/// HRANDFIELD key [count [WITHVALUES]]
pub(super) fn hrandfield(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() == 2 {
        return show(ctx, args, |ctx, found| {
            match found {
                Some(hash) => ctx.reply().bulk(hash.nth(pick(hash.len()))?.0),
                None => ctx.reply().null(),
            }
            Ok(())
        });
    }
    let outcome = (|| {
        let (count, values) = draws(args)?;
        let Some(entry) = ctx.read_hash(args.get(1))? else {
            ctx.reply().array(0);
            return Ok(());
        };
        let left = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let fields = read(&Whole::of(&entry))?.len() as u64;
        if count < 0 && count.unsigned_abs() * (entry.len() / fields) > DRAWN_BYTES {
            return Err("ERR value is out of range".into());
        }
        let draws = Draws { values, repeats: count < 0, left, checked: false, place: None };
        ctx.go(Hrandfield { entry, draws }, args);
        Ok(())
    })();
    ctx.settle(outcome, args);
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

/// An HRANDFIELD in progress over a pinned hash, which does not change.
struct Hrandfield {
    entry: Entry<'static>,
    draws: Draws,
}

struct Draws {
    /// Values are answered, too.
    values: bool,
    /// Draws are independent; else each field is drawn once at most, in the order of the fields.
    repeats: bool,
    /// Number of fields to draw.
    left: usize,
    /// The whole hash is validated first, because the number of fields precedes them.
    checked: bool,
    place: Option<(usize, usize)>,
}

impl Draws {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, hash: &Hash<'_>) -> Outcome<Progress> {
        loop {
            if !self.checked {
                self.check(ctx, hash)?;
            } else if self.repeats {
                let from = ctx.out.scratch().len();
                while self.left > 0 && ctx.out.scratch().len() - from < AT_ONCE {
                    self.answer(ctx, hash.nth(pick(hash.len()))?);
                    self.left -= 1;
                }
            } else {
                self.draw_once(ctx, hash)?;
            }
            if (self.checked && self.left == 0) || ctx.overflows() {
                return Ok(Progress::Done);
            }
            if ctx.is_over() {
                return Ok(if ctx.conn.in_exec { Progress::Again } else { Progress::Send });
            }
        }
    }

    /// Validates the next fields; behind the last one begins the answer.
    fn check(&mut self, ctx: &mut Ctx<'_>, hash: &Hash<'_>) -> Outcome {
        let mut fields = self.fields(hash);
        for pair in fields.by_ref().take(FIELDS) {
            pair?;
        }
        self.place = Some(fields.place()).filter(|(_, left)| *left > 0);
        if self.place.is_none() {
            self.checked = true;
            if !self.repeats {
                self.left = self.left.min(hash.len());
            }
            let flat = self.values && ctx.version == Version::V2;
            ctx.reply().array(if flat { self.left * 2 } else { self.left });
        }
        Ok(())
    }

    /// Each remaining field is taken with the probability that yields the wanted number (Knuth's
    /// algorithm S).
    fn draw_once(&mut self, ctx: &mut Ctx<'_>, hash: &Hash<'_>) -> Outcome {
        let mut fields = self.fields(hash);
        for _ in 0..FIELDS {
            let (_, rest) = fields.place();
            let Some(pair) = fields.next().filter(|_| self.left > 0) else { break };
            if pick(rest) < self.left {
                self.left -= 1;
                self.answer(ctx, pair?);
            }
        }
        self.place = Some(fields.place());
        Ok(())
    }

    fn fields<'a>(&self, hash: &Hash<'a>) -> Iter<'a> {
        self.place.map_or_else(|| hash.iter(), |place| hash.iter_from(place))
    }

    fn answer(&self, ctx: &mut Ctx<'_>, (field, value): Pair<'_>) {
        let nested = self.values && ctx.version == Version::V3;
        let mut reply = ctx.reply();
        if nested {
            reply.array(2);
        }
        reply.bulk(field);
        if self.values {
            reply.bulk(value);
        }
    }
}

impl Job for Hrandfield {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        let record = Whole::of(&self.entry);
        let step = read(&record).and_then(|hash| self.draws.continue_step(ctx, &hash));
        step.unwrap_or_else(|refused| {
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}
