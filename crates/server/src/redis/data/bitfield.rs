//! BITFIELD: integers of any width in a string (Redis: bitops.c, bitfieldGeneric).

use std::collections::BTreeMap;

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::Entry;

use super::super::ctx::{Class, Ctx};
use super::bits::BAD_OFFSET;
use super::errors::{NOT_INTEGER, Outcome, SYNTAX};
use super::long::{Bytes, Condition, End, Layout};
use super::range::{bulk_limit, check_len};

/// Maximum of fields per command.
const MOST_FIELDS: usize = 4096;

const BAD_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
                        not supported but i64 is.";

/// Handling of a sum outside the field's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

#[derive(Clone, Copy, Debug)]
struct Field {
    signed: bool,
    /// 1 to 64 bits, unsigned to 63.
    width: u32,
    /// First bit.
    at: u64,
    overflow: Overflow,
    action: Action,
}

/// BITFIELD key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value |
/// INCRBY ...] ...
pub(super) fn bitfield(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = step(ctx, args, false);
    ctx.settle(outcome, args);
}

/// BITFIELD_RO key [GET encoding offset ...]
pub(super) fn bitfield_ro(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = step(ctx, args, true);
    ctx.settle(outcome, args);
}

fn parse(ctx: &Ctx<'_>, args: &Args<'_>) -> Outcome<Vec<Field>> {
    let (mut fields, mut overflow, mut at) = (Vec::new(), Overflow::Wrap, 2);
    while at < args.len() {
        if fields.len() == MOST_FIELDS {
            return Err("ERR BITFIELD takes at most 4096 fields".into());
        }
        let left = args.len() - at - 1;
        if args.is(at, "OVERFLOW") && left >= 1 {
            let modes =
                [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
            let known = modes.into_iter().find(|(word, _)| args.is(at + 1, word));
            overflow = known.ok_or("ERR Invalid OVERFLOW type specified")?.1;
            at += 2;
            continue;
        }
        let takes_value = if args.is(at, "GET") && left >= 2 {
            false
        } else if (args.is(at, "SET") || args.is(at, "INCRBY")) && left >= 3 {
            true
        } else {
            return Err(SYNTAX.into());
        };
        let (signed, width) = kind(args.get(at + 1)).ok_or(BAD_TYPE)?;
        let place = place(ctx, args.get(at + 2), width)?;
        let mut action = Action::Get;
        if takes_value {
            let value = parse_i64(args.get(at + 3)).ok_or(NOT_INTEGER)?;
            action = if args.is(at, "SET") { Action::Set(value) } else { Action::Add(value) };
        }
        fields.push(Field { signed, width, at: place, overflow, action });
        at += if takes_value { 4 } else { 3 };
    }
    Ok(fields)
}

/// Parses `i1` to `i64`, `u1` to `u63`.
fn kind(text: &[u8]) -> Option<(bool, u32)> {
    let (signed, most) = match text.first()? {
        b'i' => (true, 64),
        b'u' => (false, 63),
        _ => return None,
    };
    let width = parse_i64(&text[1..]).filter(|width| (1..=most).contains(width))?;
    Some((signed, width as u32))
}

/// Parses an offset in bits, or with `#` in fields.
fn place(ctx: &Ctx<'_>, text: &[u8], width: u32) -> Outcome<u64> {
    let (text, unit) = match text {
        [b'#', rest @ ..] => (rest, u64::from(width)),
        _ => (text, 1),
    };
    let number = parse_i64(text).and_then(|number| u64::try_from(number).ok());
    let place = number
        .and_then(|number| number.checked_mul(unit))
        .filter(|place| *place <= i64::MAX as u64);
    let place = place.ok_or(BAD_OFFSET)?;
    if place >> 3 >= bulk_limit(ctx) { Err(BAD_OFFSET.into()) } else { Ok(place) }
}

/// A string whose bytes are changed one by one.
struct Value {
    old: Option<Entry<'static>>,
    changed: BTreeMap<u64, u8>,
}

impl Value {
    fn byte(&self, at: u64) -> u8 {
        let old = || self.old.as_ref().and_then(|entry| entry.chunk_at(at).first().copied());
        self.changed.get(&at).copied().or_else(old).unwrap_or(0)
    }

    fn layout(self, len: u64) -> Layout {
        let changed = self.changed.into_iter();
        changed.fold(Layout::new(self.old, len), |layout, (at, byte)| {
            layout.with(at, Bytes::Own([byte].into()))
        })
    }
}

impl Field {
    /// The field's bits as a number.
    fn read(&self, value: &Value) -> i64 {
        let bits = (self.at..self.at + u64::from(self.width))
            .fold(0u64, |bits, at| bits << 1 | u64::from(value.byte(at / 8) >> (7 - at % 8) & 1));
        self.wrap(i128::from(bits)) as i64
    }

    fn write(&self, value: &mut Value, number: i64) {
        for place in 0..u64::from(self.width) {
            let at = self.at + place;
            let on = number as u64 >> (u64::from(self.width) - 1 - place) & 1 == 1;
            let (byte, mask) = (value.byte(at / 8), 0x80u8 >> (at % 8));
            value.changed.insert(at / 8, if on { byte | mask } else { byte & !mask });
        }
    }

    /// The lowest bits of `number`, in the field's type.
    fn wrap(&self, number: i128) -> i128 {
        let bits = number & ((1i128 << self.width) - 1);
        let negative = self.signed && bits >> (self.width - 1) & 1 == 1;
        if negative { bits - (1i128 << self.width) } else { bits }
    }

    /// `value` + `delta` in this field; `None`: overflow with FAIL.
    fn sum(&self, value: i64, delta: i64) -> Option<i64> {
        let (least, most, sum) = if self.signed {
            let most = (1i128 << (self.width - 1)) - 1;
            (-most - 1, most, i128::from(value) + i128::from(delta))
        } else {
            // A number to set is interpreted as 64 bits.
            (0, (1i128 << self.width) - 1, i128::from(value as u64) + i128::from(delta))
        };
        if (least..=most).contains(&sum) {
            return Some(sum as i64);
        }
        match self.overflow {
            Overflow::Wrap => Some(self.wrap(sum) as i64),
            Overflow::Saturate if sum < least && !self.is_taken_for_large(value, most) => {
                Some(least as i64)
            }
            Overflow::Saturate => Some(most as i64),
            Overflow::Fail => None,
        }
    }

    /// Redis checks for overflow with a subtraction in 64 bits, which reports the least numbers as
    /// too large.
    fn is_taken_for_large(&self, value: i64, most: i128) -> bool {
        self.signed && self.width != 64 && most - i128::from(value) > i128::from(i64::MAX)
    }

    /// Applies the operation. Returns the answer, and whether it wrote.
    fn apply(&self, value: &mut Value) -> (Option<i64>, bool) {
        let before = self.read(value);
        let (next, answer) = match self.action {
            Action::Get => return (Some(before), false),
            Action::Set(number) => {
                let next = self.sum(number, 0);
                (next, next.map(|_| before))
            }
            Action::Add(delta) => {
                let next = self.sum(before, delta);
                (next, next)
            }
        };
        if let Some(next) = next {
            self.write(value, next);
        }
        (answer, next.is_some())
    }
}

fn step(ctx: &mut Ctx<'_>, args: &Args<'_>, only_get: bool) -> Outcome {
    let key = args.get(1);
    let fields = parse(ctx, args)?;
    if only_get && fields.iter().any(|field| field.action != Action::Get) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let writes = fields.iter().filter(|field| field.action != Action::Get);
    let needed = writes.map(|field| (field.at + u64::from(field.width) - 1) / 8 + 1).max();
    let wrote = ctx.retry(|ctx| {
        let old = if needed.is_some() { ctx.look_string(key)? } else { ctx.read_string(key)? };
        let len = old.as_ref().map_or(0, |entry| entry.len()).max(needed.unwrap_or(0));
        let expires = old.as_ref().and_then(|entry| entry.expires());
        let mut value = Value { old, changed: BTreeMap::new() };
        let applied: Vec<(Option<i64>, bool)> =
            fields.iter().map(|field| field.apply(&mut value)).collect();
        if needed.is_none() {
            answer(ctx, args, &applied);
            return Ok(Some(()));
        }
        check_len(ctx, len)?;
        // The string has grown even if every sum failed, as in Redis.
        let target = ctx.target(1, expires, Condition::Same);
        let end: End = Box::new(move |ctx, args, _| answer(ctx, args, &applied));
        ctx.write(args, value.layout(len), target, bitfield, end)
    });
    wrote.map(drop)
}

fn answer(ctx: &mut Ctx<'_>, args: &Args<'_>, applied: &[(Option<i64>, bool)]) {
    let mut reply = ctx.reply();
    reply.array(applied.len());
    for (answer, _) in applied {
        match answer {
            Some(number) => reply.integer(*number),
            None => reply.null(),
        }
    }
    if applied.iter().any(|(_, wrote)| *wrote) {
        ctx.modified(Class::String, "setbit", args.get(1));
    }
}
