//! RESTORE: a payload is checked, read through once, and then its value is built.

use larder_proto::resp::{
    Args,
    number::parse_i64,
    rdb::{self, Bad, Form, Loader, Lzf, Part, Text, crc64},
};
use larder_store::PutError;

use super::super::super::ctx::{Class, Ctx};
use super::super::errors::{FULL, NOT_INTEGER, Outcome, Refused, SYNTAX, refused};
use super::super::long::{Bytes, Condition, End, Layout};
use super::PIECE;
use super::build::{BUSY, Building, size};
use crate::clock::Ms;
use crate::room::{Held, Place};

/// Parts that are read between two checks of the clock.
const PARTS: usize = 256;
/// Longest compressed string that is unpacked, in bytes.
const UNPACKED: usize = 64 << 20;
const CHECKSUM: &str = "ERR DUMP payload version or checksum are wrong";

impl From<Bad> for Refused {
    fn from(_: Bad) -> Self {
        "ERR Bad data format".into()
    }
}

/// A RESTORE in progress.
struct Restore {
    expires: Option<Ms>,
    replaces: bool,
    /// The checksum that the payload names.
    crc: u64,
    stage: Stage,
    held: Held,
}

enum Stage {
    /// The checksum of the bytes up to here.
    Sum(usize, u64),
    /// The payload is read through.
    Check(Loader, Checks),
    /// A compressed string.
    Unpack(Lzf, std::ops::Range<usize>),
    Build(Box<Building>),
    /// The value is complete: are its parts, of which this is the next, still there?
    Seen(Box<Building>, Vec<u64>, usize),
}

/// RESTORE key ttl payload \[REPLACE] \[ABSTTL] \[IDLETIME seconds] \[FREQ frequency]
pub(super) fn restore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let (replaces, absolute) = options(args)?;
        if !replaces && ctx.look(args.get(1)).is_some() {
            return Err(BUSY.into());
        }
        let ttl = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
        let ttl = u64::try_from(ttl).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
        let expires = match (ttl, absolute) {
            (0, _) => None,
            (ttl, true) => Some(ttl),
            (ttl, false) => Some(ctx.now.saturating_add(ttl)),
        };
        let crc = rdb::footer(args.get(3)).ok_or(CHECKSUM)?;
        let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
        let state = Restore { expires, replaces, crc, stage: Stage::Sum(0, 0), held };
        ctx.steps(args, restore, state, |ctx, args, state| state.step(ctx, args));
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// REPLACE and ABSTTL.
fn options(args: &Args<'_>) -> Outcome<(bool, bool)> {
    let (mut replaces, mut absolute, mut idle, mut frequency) = (false, false, None, None);
    let mut at = 4;
    while at < args.len() {
        let number = || parse_i64(args.get(at + 1)).ok_or(NOT_INTEGER);
        let has_more = at + 1 < args.len();
        if args.is(at, "REPLACE") {
            replaces = true;
        } else if args.is(at, "ABSTTL") {
            absolute = true;
        } else if has_more && args.is(at, "IDLETIME") && frequency.is_none() {
            idle = Some(number()?);
            if idle < Some(0) {
                return Err("ERR Invalid IDLETIME value, must be >= 0".into());
            }
            at += 1;
        } else if has_more && args.is(at, "FREQ") && idle.is_none() {
            frequency = Some(number()?);
            if !(0..=255).contains(&frequency.unwrap_or_default()) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
            }
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok((replaces, absolute))
}

/// Counts of a payload that is read through.
#[derive(Default)]
struct Checks {
    parts: u64,
    /// Pending entries of a group, and those of its consumers.
    pending: u64,
    owned: u64,
}

impl Checks {
    fn count(&mut self, part: &Part) -> Result<(), Bad> {
        self.parts += u64::from(!matches!(part, Part::Skipped(_)));
        match part {
            Part::Group(..) => self.settle(),
            Part::Pending(..) => {
                self.pending += 1;
                Ok(())
            }
            Part::Owned(_) => {
                self.owned += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Every pending entry of a group has a consumer.
    fn settle(&mut self) -> Result<(), Bad> {
        let is_right = self.pending == self.owned;
        (self.pending, self.owned) = (0, 0);
        if is_right { Ok(()) } else { Err(Bad) }
    }
}

impl Restore {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        let payload = args.get(3);
        match &mut self.stage {
            Stage::Sum(at, sum) => {
                let all = payload.len() - 8;
                let end = all.min(*at + PIECE);
                (*sum, *at) = (crc64(*sum, &payload[*at..end]), end);
                if end < all {
                    return Ok(false);
                }
                if *sum != self.crc {
                    return Err(CHECKSUM.into());
                }
                let loader = Loader::new(payload)?;
                if loader.form() == Form::String {
                    let text = loader.text(payload)?;
                    return self.text(ctx, args, text);
                }
                self.stage = Stage::Check(loader, Checks::default());
            }
            Stage::Check(loader, checks) => {
                let mut bytes = 0;
                for _ in 0..PARTS {
                    if let Some(part) = loader.next(payload)? {
                        checks.count(&part)?;
                        bytes += size(&part);
                        if bytes > PIECE {
                            break;
                        }
                        continue;
                    }
                    checks.settle()?;
                    if checks.parts == 0 {
                        return Err(Bad.into());
                    }
                    return self.begin(ctx, args);
                }
            }
            Stage::Unpack(text, place) => {
                if !text.step(&payload[place.clone()], PIECE)? {
                    let len = text.bytes().len() as u64;
                    let has_room = self.held.resize(len);
                    return if has_room { Ok(false) } else { Err(refused(PutError::Full, b"")) };
                }
                let bytes = Bytes::Own(text.bytes().into());
                let len = text.bytes().len() as u64;
                return self.put(ctx, args, Layout::new(None, len).with(0, bytes));
            }
            Stage::Build(building) => {
                let is_complete = building.step(ctx, args.get(1), payload)?;
                if !self.held.resize(building.memory()) {
                    return Err(refused(PutError::Full, b""));
                }
                if is_complete {
                    let parts = building.parts(ctx, args.get(1))?;
                    let Stage::Build(building) =
                        std::mem::replace(&mut self.stage, Stage::Sum(0, 0))
                    else {
                        return Ok(true);
                    };
                    self.stage = Stage::Seen(building, parts, 0);
                }
            }
            Stage::Seen(building, parts, at) => {
                let key = args.get(1);
                for part in parts.iter().skip(*at).take(PARTS) {
                    if !building.has_part(ctx, key, *part) {
                        return Err(FULL.into());
                    }
                    *at += 1;
                }
                if *at == parts.len() {
                    building.store(ctx, key, self.expires, self.replaces)?;
                    restored(ctx, key);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Stores a string, or begins to unpack it.
    fn text(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>, text: Text) -> Outcome<bool> {
        let layout = match text {
            Text::There(place) => {
                let len = place.len() as u64;
                Layout::new(None, len).with(0, Bytes::Part(3, place))
            }
            Text::Number(text) => {
                Layout::new(None, text.len() as u64).with(0, Bytes::Own(text.into()))
            }
            Text::Packed(place, len) => {
                if len > UNPACKED {
                    return Err("ERR the compressed string is longer than 67108864 bytes".into());
                }
                self.stage = Stage::Unpack(Lzf::new(place.len(), len)?, place);
                return Ok(false);
            }
        };
        self.put(ctx, args, layout)
    }

    fn put(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>, layout: Layout) -> Outcome<bool> {
        if self.has_expired(ctx, args.get(1)) {
            return Ok(true);
        }
        let target = ctx.target(1, self.expires, Condition::Any);
        let end: End = Box::new(|ctx, args, _| restored(ctx, args.get(1)));
        ctx.write(args, layout, target, |_, _| {}, end)?;
        Ok(true)
    }

    /// Begins to build the value.
    fn begin(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        let key = args.get(1);
        if self.has_expired(ctx, key) {
            return Ok(true);
        }
        self.stage = Stage::Build(Box::new(Building::new(Loader::new(args.get(3))?)));
        Ok(false)
    }

    /// A value that has expired is not made; the old one goes.
    fn has_expired(&self, ctx: &mut Ctx<'_>, key: &[u8]) -> bool {
        let has_expired = self.expires.is_some_and(|expires| expires <= ctx.now);
        if has_expired {
            if self.replaces && ctx.store.delete(ctx.ns, key, ctx.now) {
                ctx.modified(Class::Generic, "del", key);
            }
            ctx.reply().ok();
        }
        has_expired
    }
}

fn restored(ctx: &mut Ctx<'_>, key: &[u8]) {
    ctx.reply().ok();
    ctx.modified(Class::Generic, "restore", key);
    ctx.face.signal(ctx.ns, key);
}
