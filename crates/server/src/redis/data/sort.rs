//! SORT and SORT_RO, in steps. The elements are kept in a map ordered by what they are sorted by.

use larder_proto::resp::{
    Args,
    collection::{Kind, parse_bound, rank_key},
    hash::Hash,
    number::parse_i64,
};
use larder_store::PutError;

use super::super::{
    acl,
    ctx::{Class, Ctx},
};
use super::Run;
use super::access::{is_record, is_string, type_name};
use super::collection::{BYTES, Side, SlowMap, Tree};
use super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX, WRONG_TYPE, refused};
use super::joined::Whole;
use crate::room::{Held, Place};

/// Elements between two checks of the clock.
const ELEMENTS: usize = 32;
/// Bytes of an element beside its own.
const ENTRY: u64 = 128;
/// Largest value that a pattern may name: it is copied in one step.
const LONGEST: u64 = 1 << 20;
const TOO_LONG: &str = "ERR SORT reads no value of more than 1048576 bytes by a pattern";
const NOT_NUMBERS: &str = "ERR One or more scores can't be converted into double";

/// Whether SORT with these arguments reads other keys.
pub(in super::super) fn reads_others(args: &Args<'_>) -> bool {
    (2..args.len()).any(|at| args.is(at, "BY") || args.is(at, "GET"))
}

/// Sort key of an element. A missing text comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Score and element, as bytes of the same order.
    Number(Vec<u8>),
    Text(Option<Vec<u8>>),
    Place,
}

impl Order {
    fn bytes(&self) -> usize {
        match self {
            Order::Number(key) | Order::Text(Some(key)) => key.len(),
            Order::Text(None) | Order::Place => 0,
        }
    }
}

/// A SORT in progress.
struct Sorting {
    descending: bool,
    alpha: bool,
    limit: (i64, i64),
    /// The places of patterns and keys among the arguments.
    by: Option<usize>,
    get: Vec<usize>,
    store: Option<usize>,
    /// The elements stay in their order.
    as_they_are: bool,
    /// The next element to read.
    at: u64,
    sorted: SlowMap<(Order, u64), Vec<u8>>,
    bytes: u64,
    held: Held,
    /// Elements still to be left out, and to be answered, once all are read.
    left: Option<(u64, u64)>,
    /// The element being answered, and the next pattern for it.
    current: Option<(Vec<u8>, usize)>,
    stored: u64,
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE key]
pub(super) fn sort(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    begin(ctx, args, sort, true);
}

/// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]
pub(super) fn sort_ro(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    begin(ctx, args, sort_ro, false);
}

fn begin(ctx: &mut Ctx<'_>, args: &Args<'_>, again: Run, stores: bool) {
    let outcome = (|| {
        let mut job = options(ctx, args, stores)?;
        let kind = match ctx.read(args.get(1)).map(|entry| type_name(entry.flags())) {
            None | Some("list" | "zset") => None,
            Some("set") => Some(Kind::Set),
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        if job.as_they_are && kind == Some(Kind::Set) && job.store.is_some() {
            // The order of a set is none: what is stored is to be the same every time.
            (job.as_they_are, job.alpha, job.by) = (false, true, None);
        }
        ctx.steps(args, again, job, |ctx, args, job| match job.left {
            None => job.read(ctx, args),
            Some(_) => job.finish(ctx, args),
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

const BY_DENIED: &str = "ERR BY option of SORT denied due to insufficient ACL permissions";
const GET_DENIED: &str = "ERR GET option of SORT denied due to insufficient ACL permissions";

fn options(ctx: &Ctx<'_>, args: &Args<'_>, stores: bool) -> Outcome<Sorting> {
    let mut job = Sorting {
        descending: false,
        alpha: false,
        limit: (0, -1),
        by: None,
        get: Vec::new(),
        store: None,
        as_they_are: false,
        at: 0,
        sorted: SlowMap::default(),
        bytes: 0,
        held: Held::new(&ctx.conn.known.client.holder, Place::Heap),
        left: None,
        current: None,
        stored: 0,
    };
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.is(at, "ASC") {
            job.descending = false;
        } else if args.is(at, "DESC") {
            job.descending = true;
        } else if args.is(at, "ALPHA") {
            job.alpha = true;
        } else if args.is(at, "LIMIT") && left >= 2 {
            let number = |at| parse_i64(args.get(at)).ok_or(NOT_INTEGER);
            job.limit = (number(at + 1)?, number(at + 2)?);
            at += 2;
        } else if stores && args.is(at, "STORE") && left >= 1 {
            job.store = Some(at + 1);
            at += 1;
        } else if args.is(at, "BY") && left >= 1 {
            job.by = Some(at + 1);
            job.as_they_are = !args.get(at + 1).contains(&b'*');
            if !job.as_they_are && !acl::check_reading_all(ctx.conn, args) {
                return Err(BY_DENIED.into());
            }
            at += 1;
        } else if args.is(at, "GET") && left >= 1 {
            if !acl::check_reading_all(ctx.conn, args) {
                return Err(GET_DENIED.into());
            }
            job.get.push(at + 1);
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok(job)
}

/// The value that a pattern names for an element.
fn named(ctx: &Ctx<'_>, pattern: &[u8], element: &[u8]) -> Outcome<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = after.windows(2).position(|two| two == b"->").filter(|at| at + 2 < after.len());
    let (after, field) = match arrow {
        Some(at) => (&after[..at], Some(&after[at + 2..])),
        None => (after, None),
    };
    let key = [before, element, after].concat();
    let Some(entry) = ctx.look(&key) else { return Ok(None) };
    match field {
        Some(field) if Kind::of(entry.flags()) == Some(Kind::Hash) => {
            let Some(tree) = ctx.coll(&key, Some(entry), Kind::Hash)? else { return Ok(None) };
            tree.field(field, |item| {
                let item = item.filter(|item| item.expires.is_none_or(|at| at > ctx.now));
                if item.is_some_and(|item| item.value.len() as u64 > LONGEST) {
                    return Err(TOO_LONG.into());
                }
                Ok(item.map(|item| item.value.to_vec()))
            })?
        }
        Some(field) if is_record(&entry) => {
            let record = Whole::of(&entry);
            let value = Hash::read(&record)?.get_live(field, ctx.now)?;
            if value.is_some_and(|value| value.len() as u64 > LONGEST) {
                return Err(TOO_LONG.into());
            }
            Ok(value.map(<[u8]>::to_vec))
        }
        None if is_string(&entry) && entry.len() > LONGEST => Err(TOO_LONG.into()),
        None if is_string(&entry) => Ok(Some(Whole::of(&entry).to_vec())),
        _ => Ok(None),
    }
}

impl Sorting {
    /// Reads some elements.
    fn read(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        let (mut elements, mut bytes) = (Vec::with_capacity(ELEMENTS), 0);
        let entry = ctx.look(args.get(1));
        let kind = entry.as_ref().and_then(|entry| Kind::of(entry.flags()));
        if entry.is_none() && self.at > 0 {
            return Err(Refused::Lost);
        }
        let mut len = 0;
        if let Some(kind) = kind
            && let Some(coll) = ctx.coll(args.get(1), entry, kind)?
        {
            len = coll.len();
            let mut take = |item: &larder_proto::resp::collection::Item<'_>| {
                elements.push(item.bytes.to_vec());
                bytes += item.bytes.len();
                elements.len() < ELEMENTS && bytes < BYTES
            };
            if self.at < len {
                coll.each(Tree::Main, self.at, &mut take)?;
            }
        }
        let turns = matches!(kind, Some(Kind::List | Kind::SortedSet));
        let keeps_order = self.as_they_are && !(self.descending && turns);
        for element in elements {
            let order = self.order(ctx, args, &element)?;
            self.bytes += ENTRY + (element.len() + order.bytes()) as u64;
            // From the end backwards, where a list or sorted set is to be turned.
            let place = if keeps_order || !self.as_they_are { self.at } else { u64::MAX - self.at };
            self.sorted.insert((order, place), element);
            self.at += 1;
            // One by one: each may read a large hash.
            if self.by.is_some() && ctx.is_over() {
                break;
            }
        }
        if !self.held.resize(self.bytes) {
            return Err(refused(PutError::Full, b""));
        }
        if self.at >= len {
            self.begin_answer(ctx);
        }
        Ok(false)
    }

    fn order(&self, ctx: &Ctx<'_>, args: &Args<'_>, element: &[u8]) -> Outcome<Order> {
        if self.as_they_are {
            return Ok(Order::Place);
        }
        let value = match self.by {
            Some(by) => named(ctx, args.get(by), element)?,
            None => Some(element.to_vec()),
        };
        if self.alpha {
            return Ok(Order::Text(value));
        }
        let score = match value {
            // As `strtod`, to which nothing is 0.
            Some(text) if text.is_empty() => 0.0,
            Some(text) => parse_bound(&text)
                .filter(|s| s.is_finite() || is_named(&text))
                .filter(|s| !is_too_small(*s, &text))
                .ok_or(NOT_NUMBERS)?,
            None => 0.0,
        };
        Ok(Order::Number(rank_key(score, element)))
    }

    fn begin_answer(&mut self, ctx: &mut Ctx<'_>) {
        let len = self.sorted.len() as i64;
        let start = self.limit.0.clamp(0, len);
        let count = self.limit.1.clamp(-1, len);
        let end = if count < 0 { len } else { (start + count).min(len) };
        let count = (end - start).max(0) as u64;
        self.left = Some((start as u64, count));
        if self.store.is_none() {
            ctx.reply().array(count as usize * self.get.len().max(1));
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let next = match self.descending && !self.as_they_are {
            true => self.sorted.pop_last(),
            false => self.sorted.pop_first(),
        };
        next.map(|(_, element)| element)
    }

    /// Answers or stores some elements.
    fn finish(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        let values = self.values(ctx, args);
        let is_last = self.current.is_none() && self.left.is_none_or(|(_, left)| left == 0);
        let Some(key) = self.store else {
            for value in values? {
                match value {
                    Some(value) => ctx.reply().bulk(&value),
                    None => ctx.reply().null(),
                }
            }
            return Ok(is_last);
        };
        let key = args.get(key);
        if let Err(error) = values.and_then(|values| self.store(ctx, key, &values)) {
            // A part of the result must not pass for all.
            if self.stored > 0 {
                ctx.store.delete(ctx.ns, key, ctx.now);
                ctx.modified(Class::Generic, "del", key);
            }
            return Err(error);
        }
        if is_last {
            self.end_store(ctx, key);
        }
        Ok(is_last)
    }

    /// The next values of the answer: elements, or what the patterns name for them.
    fn values(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Vec<Option<Vec<u8>>>> {
        let (mut values, mut bytes) = (Vec::new(), 0);
        let (mut skip, mut left) = self.left.unwrap_or_default();
        for _ in 0..ELEMENTS {
            let (element, nth) = match self.current.take() {
                Some(current) => current,
                None if left == 0 => break,
                None => match self.next() {
                    None => {
                        left = 0;
                        break;
                    }
                    Some(_) if skip > 0 => {
                        skip -= 1;
                        continue;
                    }
                    Some(element) => {
                        left -= 1;
                        (element, 0)
                    }
                },
            };
            let value = match self.get.get(nth) {
                None => Some(element),
                Some(pattern) => {
                    let value = named(ctx, args.get(*pattern), &element)?;
                    self.current = (nth + 1 < self.get.len()).then_some((element, nth + 1));
                    value
                }
            };
            bytes += value.as_ref().map_or(0, Vec::len);
            values.push(value);
            if bytes >= BYTES || (!self.get.is_empty() && ctx.is_over()) {
                break;
            }
        }
        self.left = Some((skip, left));
        Ok(values)
    }

    fn store(&mut self, ctx: &mut Ctx<'_>, key: &[u8], values: &[Option<Vec<u8>>]) -> Outcome {
        if values.is_empty() {
            return Ok(());
        }
        ctx.retry(|ctx| {
            let mut list = match self.stored {
                0 => ctx.new_coll(key, Kind::List, ctx.look(key)),
                // The stored part was evicted: the rest must not pass for all.
                _ => ctx.open(key, Kind::List)?.ok_or_else(|| refused(PutError::Full, key))?,
            };
            if self.stored == 0 {
                list.forget_expiry();
            }
            let elements = values.iter().map(|value| value.as_deref().unwrap_or_default());
            list.push(Side::Right, elements)?;
            list.commit(ctx)
        })?;
        self.stored += values.len() as u64;
        Ok(())
    }

    fn end_store(&self, ctx: &mut Ctx<'_>, key: &[u8]) {
        ctx.reply().integer(self.stored as i64);
        if self.stored > 0 {
            ctx.modified(Class::List, "sortstore", key);
        } else if ctx.store.delete(ctx.ns, key, ctx.now) {
            ctx.modified(Class::Generic, "del", key);
        }
    }
}

/// Is the number smaller than doubles are with all their digits? `strtod` reports that.
fn is_too_small(number: f64, text: &[u8]) -> bool {
    let mantissa = text.split(|byte| b"eE".contains(byte)).next().unwrap_or_default();
    number.is_subnormal()
        || number == 0.0 && mantissa.iter().any(|byte| (b'1'..=b'9').contains(byte))
}

/// Does the text name infinity?
fn is_named(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'))
}
