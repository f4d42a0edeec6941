//! Hashes: iteration and random fields.

use std::collections::BinaryHeap;

use larder_proto::resp::{
    Args, Version,
    collection::{Items, Kind, Shape},
    hash::{Hash, Iter, Pair},
    number::{Text, parse_cursor, parse_i64},
};
use larder_store::Entry;

use super::super::{
    ctx::Ctx,
    job::{Job, Progress},
};
use super::collection::{At, BYTES, Coll, ITEMS, Tree, mark};
use super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX};
use super::hash_record::{Found, View, read};
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
/// Maximum of steps in a walk over a record. A step of HSCAN reads all of it, so it shows at least
/// this fraction.
const STEPS: usize = 128;
/// Maximum of fields that a step of HSCAN shows, whatever COUNT says.
const MOST: usize = 4 * 1024;
/// Maximum of bytes that it shows of a tree, but for one field.
const MOST_BYTES: usize = 1024 * 1024;

/// Steps of comparisons with a pattern after which a step of HSCAN shows no more fields
/// ([`Pattern::matches_counted`](larder_proto::resp::glob::Pattern::matches_counted)).
const COMPARED: usize = 1_000_000;

/// A field with its mark: half of its hash value, by which a walk is ordered.
type Marked<'a> = (u64, Pair<'a>);

/// HSCAN key cursor [MATCH pattern] [COUNT count]
pub(super) fn hscan(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = ctx.retry(|ctx| hscan_step(ctx, args).map(Some));
    ctx.settle(outcome, args);
}

fn hscan_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let cursor = parse_cursor(args.get(2)).ok_or(BAD_CURSOR)?;
    let Some(found) = ctx.read_hash(args.get(1))? else {
        let mut reply = ctx.reply();
        reply.array(2);
        reply.bulk(b"0");
        reply.array(0);
        return Ok(());
    };
    let options = Options::parse(args, 3, false)?;
    let record = found.whole();
    let hash = match found.view(record.as_deref())? {
        View::Record(hash) => hash,
        View::Tree(tree) => return scan_tree(ctx, tree, cursor, &options),
    };
    let (fields, mut next) = if hash.len() <= MOST && is_packed(ctx, &hash) {
        (hash.pairs()?.into_iter().map(|pair| (0, pair)).collect(), 0)
    } else {
        window(&hash, cursor, options.count, |field| mark(ctx.shared, field))?
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
    shown(ctx, next, pairs.into_iter());
    Ok(())
}

fn shown<'p>(ctx: &mut Ctx<'_>, next: u64, pairs: impl ExactSizeIterator<Item = Pair<'p>>) {
    let mut reply = ctx.reply();
    reply.array(2);
    reply.bulk(Text::default().u64(next));
    reply.array(pairs.len() * 2);
    for (field, value) in pairs {
        reply.bulk(field);
        reply.bulk(value);
    }
}

/// A step of a walk over a tree. It goes on in the order of records: the hash may become one.
fn scan_tree(ctx: &mut Ctx<'_>, tree: &Coll<'_>, cursor: u64, options: &Options<'_>) -> Outcome {
    let (mut pairs, mut steps, mut bytes) = (Vec::new(), 0, 0);
    let next = tree.walk(cursor, options.count.min(MOST), &mut |item| {
        // A pattern that takes long ends the walk early; its fields are shown unseen.
        if steps > COMPARED || options.matches_counted(item.bytes, &mut steps) {
            pairs.push((item.bytes.to_vec(), item.value.to_vec()));
        }
        // Of those that are not shown, too: their run was read.
        bytes += item.bytes.len() + item.value.len();
        bytes < MOST_BYTES && steps <= COMPARED
    })?;
    shown(ctx, next, pairs.iter().map(|(field, value)| (&field[..], &value[..])));
    Ok(())
}

/// The fields that follow `cursor` in the order of their hash values, and the next cursor. The
/// order by hash value shows every field that exists throughout, whatever other fields come and go.
fn window<'a>(
    hash: &Hash<'a>,
    cursor: u64,
    count: usize,
    mark: impl Fn(&[u8]) -> u64,
) -> Outcome<(Vec<Marked<'a>>, u64)> {
    let count = count.min(MOST).max(hash.len() / STEPS);
    // The smallest marks and one more: a list of all takes longer to allocate than to fill.
    let mut smallest: BinaryHeap<(u64, usize)> = BinaryHeap::with_capacity(count + 2);
    let mut fields = hash.iter();
    loop {
        let (at, _) = fields.place();
        let Some(pair) = fields.next() else { break };
        // Half of the range, for clients with signed integers; 0 is the start.
        let mark = mark(pair?.0);
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
                Some(View::Record(hash)) => {
                    ctx.reply().bulk(hash.nth(pick(hash.len()))?.0);
                }
                Some(View::Tree(tree)) => match tree.any()? {
                    Some((field, _)) => ctx.reply().bulk(&field),
                    None => ctx.reply().null(),
                },
                None => ctx.reply().null(),
            }
            Ok(())
        });
    }
    let outcome = (|| {
        let (count, values) = draws(args)?;
        let left = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let too_much = |size: u64| count < 0 && count.unsigned_abs() * size > DRAWN_BYTES;
        let draws = Draws { values, repeats: count < 0, left, checked: false, place: None };
        let entry = match ctx.read_hash(args.get(1))? {
            None => {
                ctx.reply().array(0);
                return Ok(());
            }
            Some(Found::Tree(tree)) => {
                ctx.need_stripe()?;
                if too_much(tree.head.bytes / tree.len()) {
                    return Err("ERR value is out of range".into());
                }
                let left = if count < 0 { left } else { left.min(tree.len() as usize) };
                let draws = Draws { left, ..draws };
                let from = ctx.out.scratch().len();
                draws.head(ctx);
                ctx.steps_from(args, hrandfield, from, (draws, 0), draw_of_tree);
                return Ok(());
            }
            Some(Found::Record(entry)) => entry,
        };
        let fields = read(&Whole::of(&entry))?.len() as u64;
        if too_much(entry.len() / fields) {
            return Err("ERR value is out of range".into());
        }
        ctx.go(Hrandfield { entry, draws }, args);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Draws some fields of a tree; `at`: the next position, if each is drawn once at most.
fn draw_of_tree(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    (draws, at): &mut (Draws, u64),
) -> Outcome<bool> {
    // It was there when the number of fields was answered.
    let tree = ctx.open(args.get(1), Kind::Hash)?.ok_or(Refused::Lost)?;
    let mut bytes = 0;
    if draws.repeats {
        let some = draws.left.min(ITEMS);
        for _ in 0..some {
            let position = pick(tree.len() as usize) as u64;
            tree.nth(position, |item| {
                bytes += item.bytes.len() + item.value.len();
                draws.answer(ctx, (item.bytes, item.value));
            })?
            .ok_or(Refused::Lost)?;
            draws.left -= 1;
            if bytes > BYTES {
                break;
            }
        }
        return Ok(draws.left == 0);
    }
    if draws.left == 0 {
        return Ok(true);
    }
    let found = tree.locate(Tree::Main, At::Position(*at))?;
    // Each is taken with the probability that yields the wanted number (Knuth's algorithm S).
    for item in Items::new(Shape::Field, &found.run.whole()) {
        let item = item?;
        if pick((tree.len() - *at) as usize) < draws.left {
            draws.left -= 1;
            draws.answer(ctx, (item.bytes, item.value));
        }
        *at += 1;
    }
    Ok(draws.left == 0 || *at >= tree.len())
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

/// An HRANDFIELD in progress over a pinned record, which does not change.
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
            self.head(ctx);
        }
        Ok(())
    }

    fn head(&self, ctx: &mut Ctx<'_>) {
        let flat = self.values && ctx.version == Version::V2;
        ctx.reply().array(if flat { self.left * 2 } else { self.left });
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
