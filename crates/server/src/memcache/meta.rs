//! Executes commands of the meta protocol. `proto::memcache::meta` decodes and encodes.
//!
//! One client wins the right to store a stale, missing or aging item anew: it claims the item's
//! entry, and the store grants one claim per write.

use larder_proto::memcache::{
    BAD_CHUNK, MAX_KEY, NO_MEMORY, NOT_NUMBER, TOO_LARGE, line,
    meta::{self, Count, Debug, Delete, EN, EX, Echo, Get, HD, Key, Metadata, NF, NS, VA, signed},
};
use larder_store::{Entry, Hint, If, Put, PutError};

use super::{
    Face, OBJECTS,
    away::Lies,
    incoming::Answer,
    ops::{self, Counted, Deleted, Mark, Mode, NoMemory, Stored, Write},
    session::{Session, State},
    watch::GetResult,
};
use crate::{
    clock::Ms,
    net::out::Out,
    object::{Turn, WINDOW},
};

/// Answer of a counting command without memory for the new number.
pub(super) const NO_MEMORY_COUNTING: &[u8] = b"SERVER_ERROR out of memory in incr\r\n";
/// Answer of `mg` without memory to create a missing item.
const NO_MEMORY_MAKING: &[u8] = b"SERVER_ERROR out of memory allocating item\r\n";
/// Slab class reported for every item.
const CLASS: u64 = 1;

/// Seconds until an item expires, rounded up.
fn left(expires: Ms, now: Ms) -> i64 {
    expires.saturating_sub(now).div_ceil(1000) as i64
}

fn ttl(expires: Option<Ms>, now: Ms) -> i64 {
    expires.map_or(-1, |at| left(at, now))
}

/// Executes `mg`. `ahead`: the hint of the undecoded key, if it was looked up ahead. Returns a stub
/// whose value has to be read first.
#[inline]
pub(super) fn get(
    face: &Face,
    get: &Get<'_>,
    ahead: Option<Hint>,
    now: Ms,
    out: &mut Out,
) -> Option<Entry<'static>> {
    let mut buffer = [0; MAX_KEY];
    let key = get.key.bytes(&mut buffer);
    let hint =
        ahead.filter(|_| !get.key.is_base64()).unwrap_or_else(|| face.store.hint(OBJECTS, key));
    let Some(entry) = face.store.peek_hinted(hint, OBJECTS, key, now) else {
        missing(face, get, key, now, out);
        return None;
    };
    if get.value && entry.elsewhere().is_some() {
        return away(face, get, (key, entry), now, out);
    }
    // With a new TTL it counts as a touch only, as in memcached.
    if get.ttl.is_none() {
        face.counters.cmd_get.one();
        face.counters.get_hits.one();
    }
    face.stats.saw_get(key, GetResult::Hit(entry.len()), now);
    if !get.unbumped {
        face.store.bump(&entry, now);
    }
    Item { entry, made: false }.answer(face, get, now, out);
    None
}

/// An `mg` wants a value that is on the disk. Returns its stub if it can be read; else it is a
/// miss, and no other item is made in its place.
#[cold]
fn away(
    face: &Face,
    get: &Get<'_>,
    (key, stub): (&[u8], Entry<'static>),
    now: Ms,
    out: &mut Out,
) -> Option<Entry<'static>> {
    if face.lies(&stub) == Lies::Away {
        return Some(stub);
    }
    face.counters.cmd_get.one();
    face.store.count_miss(OBJECTS);
    ops::missed(face, key, now);
    miss(get, out);
    None
}

/// An item found or just created.
struct Item {
    entry: Entry<'static>,
    made: bool,
}

impl Item {
    #[inline]
    fn answer(self, face: &Face, get: &Get<'_>, now: Ms, out: &mut Out) {
        let len = self.entry.len();
        let into = out.scratch();
        let start = into.len();
        if get.value {
            into.extend_from_slice(VA);
            line::decimal(len, into);
        } else {
            into.extend_from_slice(HD);
        }
        // Flags take effect in their order: `t` reports the expiry set by the flags before it.
        let mut expires = if self.made { None } else { self.entry.expires() };
        let mut aging = false;
        get.echo.write(&get.key, into, |flag, into| {
            match flag {
                b'T' => expires = expiry(get.ttl, now),
                b'N' if self.made => expires = expiry(get.vivify, now),
                b'R' => aging = is_aging(expires, get.recache, now),
                b't' => {
                    signed(ttl(expires, now), into);
                    return true;
                }
                _ => return self.append_flag(face, flag, now, into),
            }
            false
        });
        if get.ttl.is_some() && self.touch(face, expires, now).is_err() {
            into.truncate(start);
            return into.extend_from_slice(NO_MEMORY);
        }
        if self.made || aging || self.entry.stale() || self.entry.claimed() {
            self.append_recache_flags(face, aging, now, into);
        }
        into.extend_from_slice(b"\r\n");
        if get.value {
            out.whole(self.entry, b"\r\n");
        }
    }

    fn touch(&self, face: &Face, expires: Option<Ms>, now: Ms) -> Result<(), NoMemory> {
        face.counters.cmd_touch.one();
        if ops::change_expiry(face, self.entry.key(), expires, now)? {
            face.counters.touch_hits.one();
        }
        Ok(())
    }

    /// Appends the item's value for a flag.
    fn append_flag(&self, face: &Face, flag: u8, now: Ms, into: &mut Vec<u8>) -> bool {
        let entry = &self.entry;
        match flag {
            b'c' => line::decimal(face.version(entry.version()), into),
            b'f' => line::decimal(u64::from(entry.flags()), into),
            b'h' => into.push(if entry.fetched() { b'1' } else { b'0' }),
            b'l' => line::decimal(now.saturating_sub(entry.last_access()) / 1000, into),
            b's' => line::decimal(entry.len(), into),
            _ => return false,
        }
        true
    }

    /// Appends who may store the item anew: this client (W) or an earlier one (Z); and whether the
    /// item is stale (X).
    #[cold]
    fn append_recache_flags(&self, face: &Face, aging: bool, now: Ms, into: &mut Vec<u8>) {
        let stale = self.entry.stale();
        let wanted = self.made || stale || aging;
        let wins = wanted && !self.entry.claimed() && {
            // A touch may have moved or ended the item: then no other client can win.
            let here = face.store.peek(OBJECTS, self.entry.key(), now);
            here.is_none_or(|entry| entry.version() == self.entry.version() && entry.claim())
        };
        let lost = !wins && (wanted || self.entry.claimed());
        for (said, text) in [(lost, b" Z"), (stale, b" X"), (wins, b" W")] {
            if said {
                into.extend_from_slice(text);
            }
        }
    }
}

/// Converts a received expiry.
fn expiry(exptime: Option<i32>, now: Ms) -> Option<Ms> {
    exptime.and_then(|exptime| ops::expires(i64::from(exptime), now))
}

/// Returns whether the item expires within `below` seconds.
fn is_aging(expires: Option<Ms>, below: Option<i32>, now: Ms) -> bool {
    expires.zip(below).is_some_and(|(expires, below)| left(expires, now) < i64::from(below))
}

/// Executes `mg` of a missing key.
fn missing(face: &Face, get: &Get<'_>, key: &[u8], now: Ms, out: &mut Out) {
    face.counters.cmd_get.one();
    face.store.count_miss(OBJECTS);
    ops::missed(face, key, now);
    let Some(exptime) = get.vivify else {
        return miss(get, out);
    };
    let expires = ops::expires(i64::from(exptime), now);
    let put = Put { expires, version: get.version, ..Put::default() };
    match face.store.put(OBJECTS, key, put, If::Absent, now) {
        // Another client created the item first: use that one.
        Ok(_) | Err(PutError::Exists) => {}
        Err(_) => return out.scratch().extend_from_slice(NO_MEMORY_MAKING),
    }
    let there = face.store.peek(OBJECTS, key, now);
    let Some(entry) = there.filter(|entry| !get.value || entry.elsewhere().is_none()) else {
        return miss(get, out);
    };
    // A client that creates the item has also read it.
    face.store.bump(&entry, now);
    if !get.unbumped {
        face.store.bump(&entry, now);
    }
    Item { entry, made: true }.answer(face, get, now, out);
}

fn miss(get: &Get<'_>, out: &mut Out) {
    if !get.quiet {
        reply(EN, &get.echo, &get.key, out, |_, _| false);
    }
}

/// Composes a line without a value.
fn reply(
    code: &[u8],
    echo: &Echo<'_>,
    key: &Key<'_>,
    out: &mut Out,
    fact: impl FnMut(u8, &mut Vec<u8>) -> bool,
) {
    let into = out.scratch();
    into.extend_from_slice(code);
    echo.write(key, into, fact);
    into.extend_from_slice(b"\r\n");
}

/// The store operation of an `ms`. `key`: decoded.
fn write<'a>(set: &meta::Set<'_>, key: &'a [u8], now: Ms) -> Write<'a> {
    Write {
        mode: set.mode,
        key,
        flags: set.flags,
        expires: ops::expires(i64::from(set.ttl), now),
        compare: set.compare,
        version: set.version,
        invalidate: set.invalidate,
        vivify: set.vivify.map(|exptime| ops::expires(i64::from(exptime), now)),
    }
}

/// `ms`.
#[inline]
pub(super) fn set(
    session: &mut Session,
    set: &meta::Set<'_>,
    used: usize,
    input: &[u8],
    now: Ms,
    out: &mut Out,
) -> Turn {
    let face = &session.face;
    let mut buffer = [0; MAX_KEY];
    let key = set.key.bytes(&mut buffer);
    let write = write(set, key, now);
    if matches!(set.mode, Mode::Append | Mode::Prepend)
        && let Some(stub) = face.stub(key, now)
    {
        return session.read_value(stub, State::Ready, (0, input), now, out);
    }
    let len = u64::from(set.len);
    if !ops::fits(face, key, set.flags, len) {
        let stored = ops::refuse(face, &write, Stored::TooLarge, len, now);
        answer_set(face, set, &write, stored, now, out);
        return session.skip(used, len + 2, input.len());
    }
    let whole = used + set.len as usize + 2;
    if let Some(block) = input.get(used..whole) {
        match block.strip_suffix(b"\r\n") {
            Some(value) => {
                let stored = ops::store(face, &write, &[value], now);
                answer_set(face, set, &write, stored, now, out);
            }
            None => out.scratch().extend_from_slice(BAD_CHUNK),
        }
        return Turn::Used(whole);
    }
    if whole <= WINDOW {
        return session.await_block(whole);
    }
    let kept = Set::new(&write, &input[..used], len);
    session.take_value(used, Answer::Meta(kept), now, out)
}

fn answer_set(
    face: &Face,
    set: &meta::Set<'_>,
    write: &Write<'_>,
    stored: Stored,
    now: Ms,
    out: &mut Out,
) {
    let code = match stored {
        Stored::Stored(_) if set.quiet => return,
        Stored::Stored(_) => HD,
        Stored::NotStored => NS,
        Stored::Exists => EX,
        Stored::NotFound => NF,
        Stored::TooLarge | Stored::NoMemory => {
            // In every mode: a client must not mistake the old item for the one sent.
            if write.mode != Mode::Set {
                face.saw_lookup(write.key, now);
                face.store.delete(OBJECTS, write.key, now);
            }
            let error = if stored == Stored::TooLarge { TOO_LARGE } else { NO_MEMORY };
            return out.scratch().extend_from_slice(error);
        }
    };
    let given = if let Stored::Stored(given) = stored { face.version(given) } else { 0 };
    reply(code, &set.echo, &set.key, out, |flag, into| {
        if flag == b'c' {
            line::decimal(given, into);
        }
        flag == b'c'
    });
}

/// An `ms` whose value is in transfer.
#[derive(Debug)]
pub(super) struct Set {
    write: Write<'static>,
    key: Box<[u8]>,
    /// The command line; the answer repeats parts of it.
    line: Box<[u8]>,
    pub(super) len: u64,
}

impl Set {
    fn new(write: &Write<'_>, line: &[u8], len: u64) -> Self {
        let key = write.key.into();
        Self { write: Write { key: b"", ..*write }, key, line: line.into(), len }
    }

    pub(super) fn write(&self) -> Write<'_> {
        Write { key: &self.key, ..self.write }
    }

    /// Composes the answer.
    pub(super) fn stored(&self, face: &Face, stored: Stored, now: Ms, out: &mut Out) {
        use larder_proto::memcache::{Command, Decoded, decode};
        if let Decoded::Command(Command::MetaSet(set), _) = decode(&self.line) {
            answer_set(face, &set, &self.write(), stored, now, out);
        }
    }
}

/// `md`.
pub(super) fn delete(face: &Face, delete: &Delete<'_>, now: Ms, out: &mut Out) {
    let mut buffer = [0; MAX_KEY];
    let key = delete.key.bytes(&mut buffer);
    let deleted = if delete.invalidate || delete.empty {
        let mark = Mark {
            compare: delete.compare,
            version: delete.version,
            expires: delete.ttl.map(|exptime| ops::expires(i64::from(exptime), now)),
            stale: delete.invalidate,
            empty: delete.empty,
        };
        match ops::mark(face, key, &mark, now) {
            Ok(deleted) => deleted,
            Err(NoMemory) => return out.scratch().extend_from_slice(NO_MEMORY),
        }
    } else {
        ops::delete(face, key, delete.compare, now)
    };
    let code = match deleted {
        Deleted::Deleted if delete.quiet => return,
        Deleted::Deleted => HD,
        Deleted::NotFound => NF,
        Deleted::Exists => {
            // The binary protocol does not count this.
            face.counters.delete_misses.one();
            EX
        }
    };
    reply(code, &delete.echo, &delete.key, out, |_, _| false);
}

/// `ma`.
pub(super) fn count(face: &Face, count: &Count<'_>, now: Ms, out: &mut Out) {
    let mut buffer = [0; MAX_KEY];
    let asked = ops::Count {
        key: count.key.bytes(&mut buffer),
        delta: count.delta,
        down: count.down,
        compare: count.compare,
        version: count.version,
        // The new expiry takes precedence over the one for creation.
        initial: count.vivify.map(|(exptime, value)| {
            (value, ops::expires(i64::from(count.ttl.unwrap_or(exptime)), now))
        }),
        touch: count.ttl.map(|exptime| ops::expires(i64::from(exptime), now)),
    };
    let code = match ops::count(face, &asked, now) {
        // A created counter is reported even to a quiet command.
        Counted::Number { made: false, .. } if count.quiet => return,
        Counted::Number { value, version: given, expires, made } => {
            let before = if made { None } else { expires };
            return counted(face, count, (value, given, before, made), now, out);
        }
        Counted::NotFound => NF,
        Counted::Exists => EX,
        Counted::NotNumber => return out.scratch().extend_from_slice(NOT_NUMBER),
        Counted::NoMemory => return out.scratch().extend_from_slice(NO_MEMORY_COUNTING),
    };
    reply(code, &count.echo, &count.key, out, |_, _| false);
}

fn counted(
    face: &Face,
    count: &Count<'_>,
    (value, given, mut expires, made): (u64, u64, Option<Ms>, bool),
    now: Ms,
    out: &mut Out,
) {
    let into = out.scratch();
    if count.value {
        into.extend_from_slice(VA);
        line::decimal(line::digits(value) as u64, into);
    } else {
        into.extend_from_slice(HD);
    }
    count.echo.write(&count.key, into, |flag, into| {
        match flag {
            b'c' => line::decimal(face.version(given), into),
            b't' => signed(ttl(expires, now), into),
            _ => {
                // As in `mg`, flags take effect in their order.
                match flag {
                    b'T' => expires = expiry(count.ttl, now),
                    b'N' if made => expires = expiry(count.vivify.map(|(exptime, _)| exptime), now),
                    _ => {}
                }
                return false;
            }
        }
        true
    });
    into.extend_from_slice(b"\r\n");
    if count.value {
        line::decimal(value, into);
        into.extend_from_slice(b"\r\n");
    }
}

/// `me`.
pub(super) fn debug(face: &Face, debug: &Debug<'_>, now: Ms, out: &mut Out) {
    face.counters.cmd_meta.one();
    let mut buffer = [0; MAX_KEY];
    let key = debug.key.bytes(&mut buffer);
    face.saw_lookup(key, now);
    let Some(entry) = face.store.peek(OBJECTS, key, now) else {
        return out.scratch().extend_from_slice(b"EN\r\n");
    };
    let data = Metadata {
        left: entry.expires().map(|expires| left(expires, now)),
        idle: now.saturating_sub(entry.last_access()) / 1000,
        cas: face.version(entry.version()),
        fetched: entry.fetched(),
        class: CLASS,
        size: ops::item_size(face, key, entry.flags(), entry.len()),
    };
    data.write(&debug.key, out.scratch());
}
