//! Executes commands of the text protocol. `proto::memcache::text` decodes and encodes.

use larder_proto::memcache::{
    BAD_CHUNK, BAD_FORMAT, Command, Decoded, MAX_KEY, NO_MEMORY, NOT_NUMBER, Refused, TOO_LARGE,
    ahead as codec_ahead, decode,
    line::{self, Words},
    meta as codec,
    text::{
        self, Admin, Count, DELETED, Delete, END, EXISTS, Flush, Get, Key, NOT_FOUND, NOT_STORED,
        OK, STORED, Shutdown, TOUCHED, Touch,
    },
};

use std::sync::atomic::Ordering::Relaxed;

use larder_store::{Entry, Hint};

use super::{
    Face, OBJECTS,
    incoming::Answer,
    meta,
    ops::{self, Counted, Deleted, Mode, NoMemory, Stop, Stored, Write},
    session::{Session, State, phase},
    stats::admin::{self, Continuation},
};
use crate::{
    clock::Ms,
    net::out::Out,
    object::{HIGH_WATER, Turn, WINDOW, ahead},
};

/// Answer to `version`: the memcached version that this face follows.
const VERSION: &[u8] = b"VERSION 1.6.18\r\n";
/// Answer to `flush_all` if the settings forbid it.
const NO_FLUSH: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// Answer to `gat` without memory for the expiry.
const NO_MEMORY_READING: &[u8] = b"SERVER_ERROR out of memory writing get response\r\n";
/// Answer to `shutdown` if the settings forbid it.
const NO_SHUTDOWN: &[u8] = b"ERROR: shutdown not enabled\r\n";

/// Executes the first command of `input`, which is not empty. `hint`: the hint of its key, if that
/// was looked up alone.
#[inline]
pub(super) fn turn(
    session: &mut Session,
    hint: Option<Hint>,
    input: &[u8],
    now: Ms,
    out: &mut Out,
) -> Turn {
    let turn = command(session, hint, input, now, out);
    match turn {
        Turn::Used(used) if used < input.len() => look_ahead(session, &input[used..]),
        Turn::Flush(used) if used < input.len() => {}
        // More bytes are received before the next command: a position counted from the end would
        // mean another command.
        _ => session.face.ahead.borrow_mut().clear(),
    }
    turn
}

/// The hint fetched ahead for the first command of `input`.
#[inline]
fn hint_of(session: &Session, input: &[u8]) -> Option<Hint> {
    session.face.ahead.borrow_mut().take(session.client.id, OBJECTS, input.len())
}

/// Prefetches memory for the next commands of the batch.
#[inline]
fn look_ahead(session: &Session, input: &[u8]) {
    let mut ahead = session.face.ahead.borrow_mut();
    if ahead.is_used(session.client.id) {
        ahead.fill(session.client.id, session.face.store, OBJECTS, input, codec_ahead);
    }
}

#[inline]
fn command(
    session: &mut Session,
    hint: Option<Hint>,
    input: &[u8],
    now: Ms,
    out: &mut Out,
) -> Turn {
    // Only gets use a hint. Other commands also consume theirs, so that the next look-ahead begins
    // when all are consumed.
    let hint = hint.or_else(|| hint_of(session, input));
    match decode(input) {
        Decoded::Command(command, used) => match command {
            Command::Get(get) => session.get(&get, hint, used, input, now, out),
            Command::Store(store) => session.store(&store, used, input, now, out),
            Command::MetaGet(get) => match meta::get(&session.face, &get, hint, now, out) {
                None => Turn::Used(used),
                Some(stub) => session.read_value(stub, State::Ready, (0, input), now, out),
            },
            Command::MetaSet(set) => meta::set(session, &set, used, input, now, out),
            command => session.other(command, used, input, now, out),
        },
        Decoded::Keys(get, used) => {
            session.state = State::Keys(Keys(GetOptions::new(&get, now)));
            Turn::Used(used)
        }
        Decoded::Partial => Turn::More(0),
        Decoded::TooLong => session.fail(),
    }
}

/// Answers, except to `noreply`.
fn reply(noreply: bool, answer: &[u8], out: &mut Out) {
    if !noreply {
        out.scratch().extend_from_slice(answer);
    }
}

/// Answers one key of a retrieval. An error is also an answer: it ends the retrieval, as in
/// memcached.
#[inline]
fn value(
    face: &Face,
    key: &[u8],
    hint: Hint,
    options: GetOptions,
    now: Ms,
    out: &mut Out,
) -> Result<(), Stop> {
    let found = match options.touch {
        None => ops::get(face, key, hint, now)?,
        Some(expires) => ops::get_and_touch(face, key, expires, now).inspect_err(|stop| {
            if matches!(stop, Stop::NoMemory) {
                out.scratch().extend_from_slice(NO_MEMORY_READING);
            }
        })?,
    };
    let Some(entry) = found else { return Ok(()) };
    let len = entry.len();
    let version = options.cas.then(|| face.version(entry.version()));
    text::value(key, entry.flags(), len, version, out.scratch());
    out.whole(entry, b"\r\n");
    Ok(())
}

/// Where a key of `input` begins in it.
fn place(key: &[u8], input: &[u8]) -> usize {
    key.as_ptr() as usize - input.as_ptr() as usize
}

/// Answers several keys of `input`. Returns where the last answered key ends, if the answers must
/// be sent now; or why it stops, and at which key.
fn values(
    face: &Face,
    mut keys: Words<'_>,
    options: GetOptions,
    input: &[u8],
    now: Ms,
    out: &mut Out,
) -> Result<Option<usize>, (Stop, usize)> {
    let mut stopped = Ok(None);
    ahead::each(face.store, OBJECTS, &mut keys, |key, hint| {
        let answered = value(face, key, hint, options, now, out);
        let end = || place(key, input) + key.len();
        stopped = answered
            .map(|()| (out.pending() > HIGH_WATER).then(end))
            .map_err(|stop| (stop, place(key, input)));
        matches!(stopped, Ok(None))
    });
    stopped
}

/// Options of a retrieval, the same for all its keys.
#[derive(Clone, Copy)]
struct GetOptions {
    cas: bool,
    touch: Option<Option<Ms>>,
}

impl GetOptions {
    #[inline]
    fn new(get: &Get<'_>, now: Ms) -> Self {
        Self { cas: get.cas, touch: get.touch.map(|exptime| ops::expires(i64::from(exptime), now)) }
    }
}

/// A retrieval whose keys are executed one by one: not all keys have arrived, or the answers exceed
/// one send.
#[derive(Clone, Copy)]
pub(super) struct Keys(GetOptions);

/// The turn, and the state after the retrieval (None: the retrieval continues); or a stub whose
/// value has to be read first, and where its key begins.
type Continued = Result<(Turn, Option<State>), (Entry<'static>, usize)>;

impl Keys {
    /// Continues.
    pub(super) fn turn(self, face: &Face, input: &[u8], now: Ms, out: &mut Out) -> Continued {
        let mut keys = text::Keys::new(input);
        loop {
            match keys.take() {
                Key::Key(key) => {
                    let hint = face.store.hint(OBJECTS, key);
                    match value(face, key, hint, self.0, now, out) {
                        Ok(()) => {}
                        Err(Stop::Away(stub)) => return Err((stub, place(key, input))),
                        Err(Stop::NoMemory) => {
                            return Ok((Turn::Used(keys.used()), Some(State::SkipLine)));
                        }
                    }
                    if out.pending() > HIGH_WATER {
                        return Ok((Turn::Flush(keys.used()), None));
                    }
                }
                Key::End => {
                    out.scratch().extend_from_slice(END);
                    return Ok((Turn::Used(keys.used()), Some(State::Ready)));
                }
                Key::TooLong => {
                    out.scratch().extend_from_slice(BAD_FORMAT);
                    return Ok((Turn::Used(keys.used()), Some(State::SkipLine)));
                }
                Key::Partial if keys.used() == 0 => return Ok((Turn::More(0), None)),
                Key::Partial => return Ok((Turn::Used(keys.used()), None)),
            }
        }
    }
}

/// A store command whose value is in transfer.
#[derive(Debug)]
pub(super) struct Store {
    mode: Mode,
    key: Box<[u8]>,
    flags: u32,
    expires: Option<Ms>,
    compare: Option<u64>,
    pub(super) len: u64,
    pub(super) noreply: bool,
}

impl Store {
    pub(super) fn write(&self) -> Write<'_> {
        let Self { mode, flags, expires, compare, .. } = *self;
        Write { mode, key: &self.key, flags, expires, compare, ..Write::default() }
    }

    /// Composes the answer.
    pub(super) fn stored(&self, stored: Stored, out: &mut Out) {
        reply(self.noreply, answer(stored), out);
    }
}

fn answer(stored: Stored) -> &'static [u8] {
    match stored {
        Stored::Stored(_) => STORED,
        Stored::NotStored => NOT_STORED,
        Stored::Exists => EXISTS,
        Stored::NotFound => NOT_FOUND,
        Stored::TooLarge => TOO_LARGE,
        Stored::NoMemory => NO_MEMORY,
    }
}

impl Session {
    #[inline]
    fn get(
        &mut self,
        get: &Get<'_>,
        hint: Option<Hint>,
        used: usize,
        input: &[u8],
        now: Ms,
        out: &mut Out,
    ) -> Turn {
        let (face, options) = (&self.face, GetOptions::new(get, now));
        let mut keys = get.keys;
        let answered = if let Some(key) = keys.next()
            && keys.rest().is_empty()
        {
            let hint = hint.unwrap_or_else(|| face.store.hint(OBJECTS, key));
            let answered = value(face, key, hint, options, now, out);
            answered.map(|()| None).map_err(|stop| (stop, place(key, input)))
        } else {
            values(face, get.keys, options, input, now, out)
        };
        match answered {
            Ok(Some(after)) => {
                // The remaining keys and the line's end stay in the input.
                self.state = State::Keys(Keys(options));
                return Turn::Flush(after);
            }
            Ok(None) => out.scratch().extend_from_slice(END),
            Err((Stop::Away(stub), at)) => {
                let then = State::Keys(Keys(options));
                return self.read_value(stub, then, (at, input), now, out);
            }
            Err((Stop::NoMemory, _)) => {}
        }
        Turn::Used(used)
    }

    #[inline]
    fn store(
        &mut self,
        store: &text::Store<'_>,
        used: usize,
        input: &[u8],
        now: Ms,
        out: &mut Out,
    ) -> Turn {
        let &text::Store { mode, key, flags, exptime, len, cas, noreply } = store;
        if matches!(mode, Mode::Append | Mode::Prepend)
            && let Some(stub) = self.face.stub(key, now)
        {
            return self.read_value(stub, State::Ready, (0, input), now, out);
        }
        let expires = ops::expires(i64::from(exptime), now);
        let write = Write { mode, key, flags, expires, compare: cas, ..Write::default() };
        if !ops::fits(&self.face, key, flags, u64::from(len)) {
            ops::refuse(&self.face, &write, Stored::TooLarge, u64::from(len), now);
            reply(noreply, TOO_LARGE, out);
            return self.skip(used, u64::from(len) + 2, input.len());
        }
        let whole = used + len as usize + 2;
        if let Some(block) = input.get(used..whole) {
            match block.strip_suffix(b"\r\n") {
                Some(value) => {
                    reply(noreply, answer(ops::store(&self.face, &write, &[value], now)), out)
                }
                None => reply(noreply, BAD_CHUNK, out),
            }
            return Turn::Used(whole);
        }
        if whole <= WINDOW {
            return self.await_block(whole);
        }
        let len = u64::from(len);
        let store = Store { mode, key: key.into(), flags, expires, compare: cas, len, noreply };
        self.take_value(used, Answer::Text(store), now, out)
    }

    fn other(
        &mut self,
        command: Command<'_>,
        used: usize,
        input: &[u8],
        now: Ms,
        out: &mut Out,
    ) -> Turn {
        if let Some(stub) = self.needed(&command, now) {
            return self.read_value(stub, State::Ready, (0, input), now, out);
        }
        let face = &self.face;
        match command {
            Command::Delete(delete) => delete_key(face, delete, now, out),
            Command::Count(count) => count_key(face, count, now, out),
            Command::Touch(touch) => touch_key(face, touch, now, out),
            Command::Flush(flush) => flush_all(face, flush, now, out),
            Command::Version => out.scratch().extend_from_slice(VERSION),
            Command::Quit => return Turn::Close,
            Command::Shutdown(mode) => return self.shutdown(mode, used, now, out),
            Command::Admin(admin) => return self.admin(&admin, used, now, out),
            Command::MetaNoop => {
                out.scratch().extend_from_slice(codec::MN);
                // `mn` demands that all earlier answers are sent now.
                return Turn::Flush(used);
            }
            Command::MetaDelete(delete) => meta::delete(face, &delete, now, out),
            Command::MetaCount(count) => meta::count(face, &count, now, out),
            Command::MetaDebug(debug) => meta::debug(face, &debug, now, out),
            Command::Refused(refused) => return self.refuse(&refused, used, input, out),
            Command::Get(get) => return self.get(&get, None, used, input, now, out),
            Command::Store(store) => return self.store(&store, used, input, now, out),
            Command::MetaGet(get) => {
                if let Some(stub) = meta::get(face, &get, None, now, out) {
                    return self.read_value(stub, State::Ready, (0, input), now, out);
                }
            }
            Command::MetaSet(set) => return meta::set(self, &set, used, input, now, out),
        }
        Turn::Used(used)
    }

    /// The stub of a key whose value a command needs.
    fn needed(&self, command: &Command<'_>, now: Ms) -> Option<Entry<'static>> {
        self.face.shared.disk.as_ref()?;
        let mut buffer = [0; MAX_KEY];
        let key = match command {
            Command::Count(count) => count.key,
            Command::MetaCount(count) => count.key.bytes(&mut buffer),
            Command::MetaDelete(delete) if delete.invalidate && !delete.empty => {
                delete.key.bytes(&mut buffer)
            }
            _ => return None,
        };
        self.face.stub(key, now)
    }

    fn refuse(&mut self, refused: &Refused, used: usize, input: &[u8], out: &mut Out) -> Turn {
        out.scratch().extend_from_slice(refused.answer);
        if refused.close { self.fail() } else { self.skip(used, refused.swallow, input.len()) }
    }

    fn shutdown(&mut self, mode: Shutdown, used: usize, now: Ms, out: &mut Out) -> Turn {
        let answer = match mode {
            _ if !self.may_stop || !self.face.settings().shutdown => NO_SHUTDOWN,
            Shutdown::Unknown(answer) => answer,
            // Both act as a signal does: received commands are answered first.
            Shutdown::Now | Shutdown::Graceful => {
                self.client.phase.store(phase::SHUTDOWN, Relaxed);
                // Report before the watchers are closed as well.
                self.face.stats.saw_end(&self.client, "shutdown", now);
                self.face.shared.stop.ask();
                return Turn::Close;
            }
        };
        out.scratch().extend_from_slice(answer);
        Turn::Used(used)
    }

    fn admin(&mut self, admin: &Admin<'_>, used: usize, now: Ms, out: &mut Out) -> Turn {
        match admin::admin(&self.face, &self.client, admin, now, out) {
            Continuation::Next => Turn::Used(used),
            Continuation::Walk(walk) => {
                self.state = State::Walk(Box::new(walk));
                Turn::Flush(used)
            }
            Continuation::Watch => {
                self.enter(State::Watch);
                Turn::Used(used)
            }
        }
    }
}

fn delete_key(face: &Face, delete: Delete<'_>, now: Ms, out: &mut Out) {
    let answer = match ops::delete(face, delete.key, None, now) {
        Deleted::Deleted => DELETED,
        Deleted::NotFound | Deleted::Exists => NOT_FOUND,
    };
    reply(delete.noreply, answer, out);
}

fn count_key(face: &Face, count: Count<'_>, now: Ms, out: &mut Out) {
    let Count { key, delta, down, noreply } = count;
    let answer =
        match ops::count(face, &ops::Count { key, delta, down, ..ops::Count::default() }, now) {
            Counted::Number { .. } if noreply => return,
            Counted::Number { value, .. } => {
                line::decimal(value, out.scratch());
                b"\r\n"
            }
            Counted::NotFound => NOT_FOUND,
            Counted::NotNumber => NOT_NUMBER,
            Counted::Exists => EXISTS,
            Counted::NoMemory => meta::NO_MEMORY_COUNTING,
        };
    reply(noreply, answer, out);
}

fn touch_key(face: &Face, touch: Touch<'_>, now: Ms, out: &mut Out) {
    let answer = match ops::touch(face, touch.key, ops::expires(i64::from(touch.exptime), now), now)
    {
        Ok(true) => TOUCHED,
        Ok(false) => NOT_FOUND,
        Err(NoMemory) => NO_MEMORY,
    };
    reply(touch.noreply, answer, out);
}

fn flush_all(face: &Face, flush: Flush, now: Ms, out: &mut Out) {
    if !face.settings().flush_all {
        return reply(flush.noreply, NO_FLUSH, out);
    }
    ops::flush(face, i64::from(flush.delay), now);
    reply(flush.noreply, OK, out);
}
