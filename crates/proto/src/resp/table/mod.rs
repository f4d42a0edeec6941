//! The commands of Larder: used by dispatch, and shown by COMMAND. Entries equal Redis 7.0's own
//! answers to COMMAND; the texts of COMMAND DOCS are in `docs.txt` (see [`docs`]).
//!
//! One line per command: name, id, arity (negative: at least this many), flags, categories,
//! `[first last step]` of its keys, key specifications (notes, flags, index of the first, last,
//! step), tips.

pub mod absent;
mod connection;
pub mod docs;
mod geo;
mod hashes;
mod hyperloglogs;
mod id;
mod keys;
mod lists;
mod scripting;
mod server;
mod sets;
mod sorted_sets;
mod sorting;
mod streams;
mod strings;
mod words;

use crate::resp::{Args, number::parse_i64};

pub use id::Id;
pub use words::{category, flag, key, names};

/// The facts of a command.
#[derive(Debug)]
pub struct Command {
    /// Its number.
    pub id: Id,
    /// Its name in lower case; of a subcommand both names (`config|get`).
    pub name: &'static str,
    /// Number of arguments, including its name (or both names); negative: at least this many.
    pub arity: i8,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Bits of [`category`].
    pub categories: u32,
    /// First key's index; 0: it has no keys.
    pub first: i8,
    /// Last key's index; negative: counted from the end.
    pub last: i8,
    /// Step from one key to the next.
    pub step: i8,
    /// The positions of keys, in the newer notation.
    pub keys: &'static [KeySpec],
    /// Hints for clients.
    pub tips: &'static [&'static str],
    /// Its subcommands, by name.
    pub subcommands: &'static [Command],
}

/// The positions of a command's keys and its effect on them.
#[derive(Debug)]
pub struct KeySpec {
    /// For people; mostly empty.
    pub notes: &'static str,
    /// Bits of [`key`].
    pub flags: u32,
    /// Index of the first key.
    pub begin: i8,
    /// Last key: from the first, or when negative from the end; [`ELSEWHERE`]: no fixed place.
    pub last: i8,
    /// Step from one key to the next. Of keys [`ELSEWHERE`], 0: the argument at `begin` is their
    /// number, and they follow it; 1: the arguments tell; 2: half of what follows STREAMS;
    /// 3 and 4: what follows STORE and STOREDIST.
    pub step: i8,
}

/// Mark of keys that have no fixed place.
pub const ELSEWHERE: i8 = 127;

macro_rules! commands {
    ($table:ident $(
        $name:literal $id:ident $arity:literal [$($flag:ident)*] [$($category:ident)*]
        [$first:literal $last:literal $step:literal]
        [$($notes:literal [$($key:ident)*] $begin:literal $to:literal $by:literal),*]
        [$($tip:literal)*]
        $(=> $subcommands:ident)?;
    )*) => {
        pub(super) static $table: &[crate::resp::table::Command] = &[$(crate::resp::table::Command {
            id: crate::resp::table::Id::$id,
            name: $name,
            arity: $arity,
            flags: 0 $(| crate::resp::table::flag::$flag)*,
            categories: 0 $(| crate::resp::table::category::$category)*,
            first: $first,
            last: $last,
            step: $step,
            keys: &[$(crate::resp::table::KeySpec {
                notes: $notes,
                flags: 0 $(| crate::resp::table::key::$key)*,
                begin: $begin,
                last: $to,
                step: $by,
            }),*],
            tips: &[$($tip),*],
            subcommands: commands!(@ $($subcommands)?),
        }),*];
    };
    (@) => { &[] };
    (@ $subcommands:ident) => { $subcommands };
}
use commands;

/// The tables, in the order COMMAND lists them.
static GROUPS: [&[Command]; 13] = [
    strings::COMMANDS,
    hashes::COMMANDS,
    lists::COMMANDS,
    sets::COMMANDS,
    sorted_sets::COMMANDS,
    sorting::COMMANDS,
    streams::COMMANDS,
    scripting::COMMANDS,
    hyperloglogs::COMMANDS,
    geo::COMMANDS,
    keys::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
];

/// Slots of the table of names: a power of two, more than twice the commands.
const SLOTS: usize = 512;

/// Group and place of the command in each slot; 255: none.
static NAMES: [(u8, u8); SLOTS] = slots();

const fn slots() -> [(u8, u8); SLOTS] {
    let mut slots = [(u8::MAX, 0); SLOTS];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut at = 0;
        while at < GROUPS[group].len() {
            let mut slot = slot(GROUPS[group][at].name.as_bytes());
            while slots[slot].0 != u8::MAX {
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = (group as u8, at as u8);
            at += 1;
        }
        group += 1;
    }
    slots
}

/// Start of the search for a name: from its length and its first and last four bytes, in any case.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let n = name.len();
    let (head, tail) = match n {
        0 => (0, 0),
        1..4 => (name[0] as u32, (name[n / 2] as u32) << 8 | name[n - 1] as u32),
        _ => (
            u32::from_le_bytes([name[0], name[1], name[2], name[3]]),
            u32::from_le_bytes([name[n - 4], name[n - 3], name[n - 2], name[n - 1]]),
        ),
    };
    let word = ((head as u64) << 32 | tail as u64) | 0x2020_2020_2020_2020;
    ((word ^ n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.ilog2())) as usize
}

/// The command with this name, in any case.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut at = slot(name);
    loop {
        let (group, place) = NAMES[at];
        let command = GROUPS.get(group as usize)?.get(place as usize)?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        at = (at + 1) % SLOTS;
    }
}

/// All commands, without subcommands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    GROUPS.iter().flat_map(|group| group.iter())
}

impl Command {
    /// The subcommand with this name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        let known = |command: &&Command| {
            command
                .name
                .split_once('|')
                .is_some_and(|(_, own)| own.as_bytes().eq_ignore_ascii_case(name))
        };
        self.subcommands.iter().find(known)
    }

    /// Does it accept this many arguments, including its name?
    #[inline]
    pub fn takes(&self, count: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= arity } else { count == arity }
    }

    /// Does it have any of these flags?
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// The places of its keys in a call, whatever its arguments.
    pub fn places(&self, args: &Args<'_>) -> Vec<usize> {
        if !self.has(flag::MOVABLEKEYS) {
            return self.key_places(args.len()).collect();
        }
        self.keys.iter().flat_map(|spec| spec.places(args)).collect()
    }

    /// The places of its keys in a call with the bits of [`key`] for each, as the check of a user's
    /// rights needs them (Redis: `getKeysFromCommandWithSpecs`).
    pub fn uses(&self, args: &Args<'_>) -> Vec<(usize, u32)> {
        let mut uses = Vec::new();
        for spec in self.keys.iter().filter(|spec| spec.flags & key::NOT_KEY == 0) {
            let flags = self.flags_with(spec.flags, args);
            uses.extend(spec.places(args).into_iter().map(|place| (place, flags)));
        }
        uses
    }

    /// Key flags of SET and BITFIELD, which depend on the arguments (Redis: `setGetKeys` and
    /// `bitfieldGetKeys`); those of other commands as they are.
    pub fn flags_with(&self, flags: u32, args: &Args<'_>) -> u32 {
        if flags & key::VARIABLE_FLAGS == 0 {
            return flags;
        }
        let changes = key::RW | key::ACCESS | key::UPDATE;
        match self.id {
            Id::Set if (3..args.len()).any(|at| args.is(at, "get")) => changes,
            Id::Set => key::OW | key::UPDATE,
            Id::Bitfield if only_reads(args) => key::RO | key::ACCESS,
            _ => changes,
        }
    }

    /// The places of its keys in a call with `count` arguments, if it does not have
    /// [`flag::MOVABLEKEYS`].
    #[inline]
    pub fn key_places(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.first.max(0) as usize;
        let last = if self.last < 0 {
            (count + 1).saturating_sub(self.last.unsigned_abs() as usize)
        } else {
            (self.last as usize + 1).min(count)
        };
        let end = if first == 0 { 0 } else { last };
        (first..end).step_by(self.step.max(1) as usize)
    }
}

impl KeySpec {
    /// Whether a call names as many keys as it says (Redis: `genericGetKeys`).
    pub fn is_valid(&self, args: &Args<'_>) -> bool {
        (self.last, self.step) != (ELSEWHERE, 0) || !self.places(args).is_empty()
    }

    /// The places of these keys in a call.
    pub fn places(&self, args: &Args<'_>) -> Vec<usize> {
        let begin = self.begin.max(0) as usize;
        match (self.last, self.step) {
            (ELSEWHERE, 0) => {
                let number = parse_i64(args.get(begin)).and_then(|n| usize::try_from(n).ok());
                let end = number.map_or(0, |number| (begin + 1).saturating_add(number));
                // More than there are: the command is refused, and has none.
                if end <= args.len() { (begin + 1..end).collect() } else { Vec::new() }
            }
            // SORT: of several destinations the last counts.
            (ELSEWHERE, 1) if self.flags & key::OW != 0 => {
                let mut stores =
                    (2..args.len().saturating_sub(1)).filter(|at| args.is(*at, "STORE"));
                stores.next_back().map(|at| at + 1).into_iter().collect()
            }
            (ELSEWHERE, 3) => stored(args, begin, false),
            (ELSEWHERE, 4) => stored(args, begin, true),
            (ELSEWHERE, 2) => streams(args).unwrap_or_default().collect(),
            (ELSEWHERE, _) => Vec::new(),
            (last, step) => {
                let end = match last {
                    ..0 => (args.len() + 1).saturating_sub(last.unsigned_abs() as usize),
                    _ => (begin + last as usize + 1).min(args.len()),
                };
                (begin..end).step_by(step.max(1) as usize).collect()
            }
        }
    }
}

/// Does this BITFIELD only read?
fn only_reads(args: &Args<'_>) -> bool {
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        at += match () {
            () if args.is(at, "get") && left >= 2 => 3,
            () if args.is(at, "overflow") && left >= 1 => 2,
            () => return false,
        };
    }
    true
}

/// The keys behind STORE, or STOREDIST, of GEORADIUS; the last of all is the destination.
fn stored(args: &Args<'_>, from: usize, distances: bool) -> Vec<usize> {
    let (mut at, mut found) = (from, Vec::new());
    while at + 1 < args.len() {
        let by = args.is(at, "STOREDIST");
        if by || args.is(at, "STORE") {
            at += 1;
            if by == distances {
                found.push(at);
            }
        }
        at += 1;
    }
    found
}

/// The keys of XREAD and XREADGROUP (Redis: `xreadGetKeys`).
fn streams(args: &Args<'_>) -> Option<std::ops::Range<usize>> {
    let mut at = 1;
    while at < args.len() && !args.is(at, "STREAMS") {
        at += match () {
            () if args.is(at, "BLOCK") || args.is(at, "COUNT") => 2,
            () if args.is(at, "GROUP") => 3,
            () if args.is(at, "NOACK") => 1,
            () => return None,
        };
    }
    let count = args.len().saturating_sub(at + 1);
    (count > 1).then_some(at + 1..at + 1 + count / 2)
}

#[cfg(test)]
mod tests;
