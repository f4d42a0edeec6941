//! Strings as bit arrays; bit 0 is the highest bit of the first byte.

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::{Entry, Fill, FillOptions, PutError};

use crate::room::{Held, Place};

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::errors::{NOT_INTEGER, Outcome, SYNTAX, few_keys, refused};
use super::long::{Bytes, Condition, End, Layout, PIECE};
use super::range::{bulk_limit, check_len, clamped};

pub(super) const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";
const BAD_BIT: &str = "ERR bit is not an integer or out of range";

/// Parses a bit offset; it must lie within the longest allowed string.
pub(super) fn offset(ctx: &Ctx<'_>, text: &[u8]) -> Outcome<u64> {
    let offset = parse_i64(text).and_then(|offset| u64::try_from(offset).ok()).ok_or(BAD_OFFSET)?;
    if offset >> 3 >= bulk_limit(ctx) { Err(BAD_OFFSET.into()) } else { Ok(offset) }
}

/// SETBIT key offset value
pub(super) fn setbit(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = setbit_step(ctx, args);
    ctx.settle(outcome, args);
}

fn setbit_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let key = args.get(1);
    let offset = offset(ctx, args.get(2))?;
    let on = match parse_i64(args.get(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(BAD_BIT.into()),
    };
    let (place, mask) = (offset / 8, 0x80u8 >> (offset % 8));
    let wrote = ctx.retry(|ctx| {
        let old = ctx.look_string(key)?;
        let byte = old.as_ref().and_then(|entry| entry.chunk_at(place).first().copied());
        let before = byte.is_some_and(|byte| byte & mask != 0);
        if before == on && byte.is_some() {
            ctx.reply().integer(before.into());
            return Ok(Some(()));
        }
        let len = old.as_ref().map_or(0, |entry| entry.len()).max(place + 1);
        check_len(ctx, len)?;
        let byte = byte.unwrap_or(0);
        let byte = if on { byte | mask } else { byte & !mask };
        let expires = old.as_ref().and_then(|entry| entry.expires());
        let target = ctx.target(1, expires, Condition::Same);
        let end: End = Box::new(move |ctx, args, _| {
            ctx.reply().integer(before.into());
            ctx.modified(Class::String, "setbit", args.get(1));
        });
        ctx.write(
            args,
            Layout::new(old, len).with(place, Bytes::Own([byte].into())),
            target,
            setbit,
            end,
        )
    });
    wrote.map(drop)
}

/// GETBIT key offset
pub(super) fn getbit(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let offset = offset(ctx, args.get(2))?;
        let entry = ctx.read_string(args.get(1))?;
        let byte = entry.as_ref().and_then(|entry| entry.chunk_at(offset / 8).first().copied());
        ctx.reply().integer((byte.unwrap_or(0) >> (7 - offset % 8) & 1).into());
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// A range of a string, in bytes or in bits.
struct Part {
    start: i64,
    end: i64,
    bits: bool,
}

impl Part {
    /// Parses start and end from the arguments at `at`. Without them the range is the whole string.
    fn parse(args: &Args<'_>, at: usize) -> Outcome<Part> {
        let number = |at: usize, absent: i64| {
            if at < args.len() { parse_i64(args.get(at)).ok_or(NOT_INTEGER) } else { Ok(absent) }
        };
        Ok(Part { start: number(at, 0)?, end: number(at + 1, -1)?, bits: false })
    }

    /// Parses the unit at `at`, if present.
    fn unit(self, args: &Args<'_>, at: usize) -> Outcome<Part> {
        let bits = at < args.len() && args.is(at, "BIT");
        if at < args.len() && !bits && !args.is(at, "BYTE") {
            return Err(SYNTAX.into());
        }
        Ok(Part { bits, ..self })
    }

    /// Returns whether the end precedes the start, both counted from the string's end.
    fn is_reversed(&self) -> bool {
        self.start < 0 && self.end < 0 && self.start > self.end
    }

    /// The bits `from..to` of the range in a string of `len` bytes.
    fn range(&self, len: u64) -> (u64, u64) {
        if self.bits {
            return clamped(self.start, self.end, len * 8);
        }
        let (from, to) = clamped(self.start, self.end, len);
        (from * 8, to * 8)
    }
}

fn is_set(value: &[u8], bit: u64) -> bool {
    value.get(bit as usize / 8).is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1)
}

/// BITCOUNT key [start end [BYTE | BIT]]
pub(super) fn bitcount(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = bitcount_step(ctx, args);
    ctx.settle(outcome, args);
}

fn bitcount_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let Some(entry) = ctx.read_string(args.get(1))? else {
        ctx.reply().integer(0);
        return Ok(());
    };
    if !matches!(args.len(), 2 | 4 | 5) {
        return Err(SYNTAX.into());
    }
    let part = Part::parse(args, 2)?;
    if part.is_reversed() {
        ctx.reply().integer(0);
        return Ok(());
    }
    let (from, to) = part.unit(args, 4)?.range(entry.len());
    ctx.go(Count { entry, at: from, to, found: 0 }, args);
    Ok(())
}

/// A BITCOUNT in progress over the bits `at..to`.
struct Count {
    entry: Entry<'static>,
    at: u64,
    to: u64,
    found: u64,
}

impl Job for Count {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        while self.at < self.to {
            let (piece, start) = piece(&self.entry, self.at);
            let end = self.to.min(start + piece.len() as u64 * 8);
            self.found += ones(piece, self.at - start, end - start);
            self.at = end;
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        ctx.reply().integer(self.found as i64);
        Progress::Done
    }
}

/// The bytes around a bit of a value, and the index of their first bit.
fn piece<'e>(entry: &'e Entry<'_>, bit: u64) -> (&'e [u8], u64) {
    let piece = entry.chunk_at(bit / 8);
    (&piece[..piece.len().min(4 * PIECE)], bit / 8 * 8)
}

/// Counts the set bits in `from..to`.
fn ones(value: &[u8], from: u64, to: u64) -> u64 {
    // The whole bytes, then the remaining bits at both ends.
    let (first, last) = (from.div_ceil(8).min(to / 8), (to / 8).max(from.div_ceil(8).min(to / 8)));
    let whole: u64 =
        value[first as usize..last as usize].iter().map(|byte| u64::from(byte.count_ones())).sum();
    let edges = (from..to.min(first * 8)).chain(from.max(last * 8)..to);
    whole + edges.filter(|bit| is_set(value, *bit)).count() as u64
}

/// BITPOS key bit [start [end [BYTE | BIT]]]
pub(super) fn bitpos(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = bitpos_step(ctx, args);
    ctx.settle(outcome, args);
}

fn bitpos_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let wanted = match parse_i64(args.get(2)).ok_or(NOT_INTEGER)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(entry) = ctx.read_string(args.get(1))? else {
        ctx.reply().integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    // Redis parses the start, then the unit, then the end, and reports the first error.
    let no_unit = args.len() == 6 && !args.is(5, "BIT") && !args.is(5, "BYTE");
    if args.len() > 6 || (no_unit && parse_i64(args.get(3)).is_some()) {
        return Err(SYNTAX.into());
    }
    let (from, to) = Part::parse(args, 3)?.unit(args, 5)?.range(entry.len());
    // Without an end the string continues with infinitely many zeros.
    let none = if !wanted && args.len() < 5 && to > from { to as i64 } else { -1 };
    ctx.go(Seek { entry, at: from, to, wanted, none }, args);
    Ok(())
}

/// A BITPOS in progress over the bits `at..to`.
struct Seek {
    entry: Entry<'static>,
    at: u64,
    to: u64,
    wanted: bool,
    /// The answer if no bit matches.
    none: i64,
}

impl Job for Seek {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        while self.at < self.to {
            let (piece, start) = piece(&self.entry, self.at);
            let end = self.to.min(start + piece.len() as u64 * 8);
            if let Some(bit) = find(piece, self.wanted, self.at - start, end - start) {
                ctx.reply().integer((start + bit) as i64);
                return Progress::Done;
            }
            self.at = end;
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        ctx.reply().integer(self.none);
        Progress::Done
    }
}

/// The first bit in `from..to` that equals `wanted`.
fn find(value: &[u8], wanted: bool, from: u64, to: u64) -> Option<u64> {
    let skip = if wanted { 0x00 } else { 0xff };
    let mut bit = from;
    while bit < to {
        if bit.is_multiple_of(8) && value.get(bit as usize / 8) == Some(&skip) {
            bit += 8;
        } else if is_set(value, bit) == wanted {
            return Some(bit);
        } else {
            bit += 1;
        }
    }
    None
}

/// BITOP's function on two bytes.
type Operation = fn(u8, u8) -> u8;

/// BITOP AND | OR | XOR | NOT destkey key [key ...]
pub(super) fn bitop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = bitop_step(ctx, args);
    ctx.settle(outcome, args);
}

fn bitop_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let operations: [(&str, Operation); 4] =
        [("AND", |a, b| a & b), ("OR", |a, b| a | b), ("XOR", |a, b| a ^ b), ("NOT", |a, _| !a)];
    let (name, apply) = *operations.iter().find(|(name, _)| args.is(1, name)).ok_or(SYNTAX)?;
    if name == "NOT" && args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    few_keys(args.len() - 3)?;
    let sources: Vec<Option<Entry<'static>>> =
        args.from(3).map(|key| ctx.read_string(key)).collect::<Outcome<_>>()?;
    let len = sources.iter().flatten().map(|source| source.len()).max().unwrap_or(0);
    let target = args.get(2);
    check_len(ctx, len)?;
    if len == 0 {
        if ctx.store.delete(ctx.ns, target, ctx.now) {
            ctx.modified(Class::Generic, "del", target);
        }
        ctx.reply().count(0);
        return Ok(());
    }
    let options = FillOptions { size_hint: Some(len), ..FillOptions::default() };
    let fill =
        ctx.store.fill(ctx.ns, target, options, ctx.now).map_err(|error| refused(error, target))?;
    let negates = name == "NOT";
    let held = Held::new(&ctx.conn.known.client.holder, Place::Store);
    ctx.go(Combine { sources, apply, negates, fill: Some(fill), held, at: 0, len }, args);
    Ok(())
}

/// A BITOP in progress.
struct Combine {
    sources: Vec<Option<Entry<'static>>>,
    apply: Operation,
    negates: bool,
    fill: Option<Fill<'static>>,
    /// Memory of the result in the store.
    held: Held,
    at: u64,
    len: u64,
}

impl Combine {
    /// The next bytes of the result; fewer with more sources.
    fn piece(&self) -> Vec<u8> {
        let most = (16 * PIECE / self.sources.len().max(1)).clamp(256, PIECE);
        let mut result = vec![0; (self.len - self.at).min(most as u64) as usize];
        for (nth, source) in self.sources.iter().enumerate() {
            let (mut done, mut other) = (0, &[][..]);
            while done < result.len() {
                if let Some(entry) = source {
                    other = entry.chunk_at(self.at + done as u64);
                }
                let rest = &mut result[done..];
                // Behind its end a string continues with zeros.
                let len = if other.is_empty() { rest.len() } else { other.len().min(rest.len()) };
                for (place, byte) in rest[..len].iter_mut().enumerate() {
                    let other = other.get(place).copied().unwrap_or(0);
                    *byte = if nth == 0 { other } else { (self.apply)(*byte, other) };
                }
                done += len;
            }
        }
        if self.negates {
            result.iter_mut().for_each(|byte| *byte = !*byte);
        }
        result
    }

    fn store(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let refuse = |error| refused(error, args.get(2));
        while self.at < self.len {
            let piece = self.piece();
            if let Some(fill) = &mut self.fill {
                if !self.held.resize(fill.memory(piece.len() as u64)) {
                    return Err(refuse(PutError::Full));
                }
                fill.write(&piece).map_err(refuse)?;
            }
            self.at += piece.len() as u64;
            if self.at < self.len && ctx.is_over() {
                return Ok(Progress::Again);
            }
        }
        if let Some(fill) = self.fill.take() {
            fill.commit(None, ctx.now).map_err(refuse)?;
            ctx.modified(Class::String, "set", args.get(2));
            ctx.reply().count(self.len as usize);
        }
        Ok(Progress::Done)
    }
}

impl Job for Combine {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        self.store(ctx, args).unwrap_or_else(|refused| {
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{find, is_set};

    #[test]
    fn bits_are_counted_from_the_highest() {
        let value = [0b1000_0001, 0xff, 0x00];
        assert!(is_set(&value, 0) && is_set(&value, 7) && !is_set(&value, 1));
        assert!(!is_set(&value, 24), "behind the end there are zeros");
        assert_eq!(find(&value, false, 7, 24), Some(16));
        assert_eq!(find(&value, true, 1, 24), Some(7));
        assert_eq!(find(&value, true, 16, 24), None);
    }
}
