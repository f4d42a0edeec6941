//! Strings as rows of bits, the first bit the highest of the first byte.

use std::borrow::Cow;

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::{Entry, Put};

use super::super::ctx::{Class, Ctx};
use super::access::bytes;
use super::errors::{NOT_INTEGER, Outcome, SYNTAX};
use super::range::{bulk_limit, check_len, clamped};

pub(super) const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";
const BAD_BIT: &str = "ERR bit is not an integer or out of range";

/// The place of a bit; it must lie in a string a client may send.
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
    let (place, mask) = (offset as usize / 8, 0x80u8 >> (offset % 8));
    let before = ctx.retry(|ctx| {
        let old = ctx.look_string(key)?;
        let mut value = old.as_ref().map_or(Vec::new(), |entry| bytes(entry).into_owned());
        let before = value.get(place).is_some_and(|byte| byte & mask != 0);
        let long_enough = value.len() > place;
        if before == on && long_enough {
            return Ok(Some((before, false)));
        }
        if !long_enough {
            value.resize(place + 1, 0);
        }
        value[place] = if on { value[place] | mask } else { value[place] & !mask };
        let expires = old.as_ref().and_then(|entry| entry.expires());
        let put = Put { value: &[&value], expires, ..Put::default() };
        Ok(ctx.replace(key, old.as_ref(), put)?.then_some((before, true)))
    })?;
    ctx.reply().integer(before.0.into());
    if before.1 {
        ctx.modified(Class::String, "setbit", key);
    }
    Ok(())
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

/// A part of a string, counted in bytes or in bits.
struct Part {
    start: i64,
    end: i64,
    bits: bool,
}

impl Part {
    /// From the arguments at `at`: start and end. Absent ones are the whole string.
    fn parse(args: &Args<'_>, at: usize) -> Outcome<Part> {
        let number = |at: usize, absent: i64| {
            if at < args.len() { parse_i64(args.get(at)).ok_or(NOT_INTEGER) } else { Ok(absent) }
        };
        Ok(Part { start: number(at, 0)?, end: number(at + 1, -1)?, bits: false })
    }

    /// The unit at `at`, if there is one.
    fn unit(self, args: &Args<'_>, at: usize) -> Outcome<Part> {
        let bits = at < args.len() && args.is(at, "BIT");
        if at < args.len() && !bits && !args.is(at, "BYTE") {
            return Err(SYNTAX.into());
        }
        Ok(Part { bits, ..self })
    }

    /// Does it end before it starts, both counted from the string's end?
    fn is_reversed(&self) -> bool {
        self.start < 0 && self.end < 0 && self.start > self.end
    }

    /// The bits `from..to` it means in a string of `len` bytes.
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
    let value = bytes(&entry);
    // The whole bytes, and the bits that stand out at both ends.
    let (first, last) = (from.div_ceil(8).min(to / 8), (to / 8).max(from.div_ceil(8).min(to / 8)));
    let whole: u64 =
        value[first as usize..last as usize].iter().map(|byte| u64::from(byte.count_ones())).sum();
    let edges = (from..to.min(first * 8)).chain(from.max(last * 8)..to);
    let edges = edges.filter(|bit| is_set(&value, *bit)).count() as u64;
    ctx.reply().integer((whole + edges) as i64);
    Ok(())
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
    // Redis reads the start, then the unit, then the end; the first mistake is the one that is told.
    let no_unit = args.len() == 6 && !args.is(5, "BIT") && !args.is(5, "BYTE");
    if args.len() > 6 || (no_unit && parse_i64(args.get(3)).is_some()) {
        return Err(SYNTAX.into());
    }
    let (from, to) = Part::parse(args, 3)?.unit(args, 5)?.range(entry.len());
    let found = find(&bytes(&entry), wanted, from, to);
    let answer = match found {
        Some(bit) => bit as i64,
        // Without an end the string goes on in zeros for ever.
        None if !wanted && args.len() < 5 && to > from => to as i64,
        None => -1,
    };
    ctx.reply().integer(answer);
    Ok(())
}

/// The first bit in `from..to` that is `wanted`.
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

/// What BITOP does with two bytes.
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
    let entries: Vec<Option<Entry<'static>>> =
        args.from(3).map(|key| ctx.read_string(key)).collect::<Outcome<_>>()?;
    let sources: Vec<Cow<'_, [u8]>> =
        entries.iter().map(|entry| entry.as_ref().map(bytes).unwrap_or_default()).collect();
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = vec![0; len];
    for (place, source) in sources.iter().enumerate() {
        let padded = source.iter().copied().chain(std::iter::repeat(0));
        for (byte, other) in result.iter_mut().zip(padded) {
            *byte = if place == 0 { other } else { apply(*byte, other) };
        }
    }
    if name == "NOT" {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let target = args.get(2);
    check_len(ctx, len as u64)?;
    if len > 0 {
        ctx.store_string(target, &[&result], None)?;
        ctx.modified(Class::String, "set", target);
    } else if ctx.store.delete(ctx.ns, target, ctx.now) {
        ctx.modified(Class::Generic, "del", target);
    }
    ctx.reply().count(len);
    Ok(())
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
