//! One client's session: its protocol, its state, one command at a time.
//!
//! The first byte selects the protocol (0x80 begins a binary request and nothing else), for the
//! whole session. Between commands the state is [`State::Ready`]. The other states are commands
//! whose bytes or answers do not fit one turn:
//!
//! | state | until | content |
//! |---|---|---|
//! | `Keys` | the line's end | keys of a retrieval, executed one by one |
//! | `Block` | more bytes | a command without its complete value: it is decoded again |
//! | `Value` | the block's end | a value in transfer to the store ([`Incoming`]) |
//! | `Skip` | a number of bytes | bytes of a refused command |
//! | `SkipLine` | a line's end | the rest of a line too long for a command |
//! | `Reading` | the disk has answered | a command that needs a value of the disk |
//! | `Walk` | the answer's end | a dump of items |
//! | `Watch` | the client leaves | a watcher: its input is ignored |

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use larder_proto::memcache::first_key;
use serde_json::{Value, json};

use super::{
    Face, OBJECTS, auth,
    away::Reading,
    binary::{Binary, Step},
    crawl::Walk,
    echo,
    incoming::{Answer, Incoming},
    text,
};
use crate::{
    clock::Ms,
    net::{face_name::FaceName, out::Out},
    object::{Client, Sent, Turn, TurnTime, ahead::First},
    settings::WireProtocol,
};

/// First byte of a binary request.
const MAGIC: u8 = 0x80;

/// Answer to text commands before the login; it is no failed login.
const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";

/// Protocol of a client.
enum Protocol {
    /// No byte was received yet.
    Unknown,
    /// Text and meta.
    Text,
    /// Text; only a login is accepted.
    Login,
    Binary(Binary),
}

/// Meaning of the next bytes.
pub(super) enum State {
    Ready,
    Keys(text::Keys),
    Block,
    Value(Box<Incoming>),
    Skip(u64),
    SkipLine,
    Walk(Box<Walk>),
    Reading(Box<Reading>),
    Watch,
}

/// Values of [`Client::phase`] for this face: the state shown by `stats conns`, and the reason for
/// closing.
pub(super) mod phase {
    pub(in crate::memcache) const READY: u8 = 0;
    /// The session waits for a value.
    pub(in crate::memcache) const VALUE: u8 = 1;
    /// The session discards the bytes of a refused command.
    pub(in crate::memcache) const SKIP: u8 = 2;
    pub(in crate::memcache) const WATCH: u8 = 3;
    /// Closed after an invalid request.
    pub(in crate::memcache) const FAILED: u8 = 4;
    /// Closed by the client's `shutdown`.
    pub(in crate::memcache) const SHUTDOWN: u8 = 5;
}

impl State {
    fn phase(&self) -> u8 {
        match self {
            State::Ready
            | State::Keys(_)
            | State::SkipLine
            | State::Walk(_)
            | State::Reading(_) => phase::READY,
            State::Block | State::Value(_) => phase::VALUE,
            State::Skip(_) => phase::SKIP,
            State::Watch => phase::WATCH,
        }
    }
}

/// One client's session.
pub(crate) struct Session {
    pub(super) face: Rc<Face>,
    pub(super) client: Arc<Client>,
    pub(super) state: State,
    /// The client may send `shutdown`, if the settings allow it.
    pub(super) may_stop: bool,
    /// It may wait for the disk.
    pub(super) waits: bool,
    /// It does not do so before this time.
    pub(super) rests: Ms,
    protocol: Protocol,
    /// Keys looked up ahead for the next command; only in `State::Ready`.
    first: First,
}

impl Session {
    pub(crate) fn new(face: Rc<Face>, client: Arc<Client>) -> Self {
        Self {
            face,
            client,
            state: State::Ready,
            may_stop: true,
            waits: true,
            rests: 0,
            protocol: Protocol::Unknown,
            first: First::default(),
        }
    }

    /// For datagrams. Their sender is unverified, so `shutdown` is refused; each is answered at
    /// once.
    pub(super) fn for_datagram(mut self) -> Self {
        (self.may_stop, self.waits) = (false, false);
        self
    }

    /// Selects the protocol by the first byte.
    #[cold]
    fn begin(&mut self, first: u8) {
        let settings = self.face.settings();
        let binary = match settings.protocol {
            // SASL requires the binary protocol: text clients have no way to use it.
            WireProtocol::Auto if settings.sasl.is_some() => true,
            // A login by `set` requires the text protocol.
            WireProtocol::Auto => first == MAGIC && settings.auth.is_none(),
            WireProtocol::Ascii => false,
            WireProtocol::Binary => true,
        };
        self.protocol = match (binary, &settings.auth) {
            (true, _) => Protocol::Binary(Binary::new(&self.face)),
            (false, Some(_)) => Protocol::Login,
            (false, None) => Protocol::Text,
        };
    }

    fn login(&mut self, input: &[u8], out: &mut Out) -> Turn {
        let settings = self.face.settings();
        let Some(users) = &settings.auth else {
            // A reload has removed the users.
            self.protocol = Protocol::Text;
            return Turn::Used(0);
        };
        let counters = &self.face.counters;
        match auth::text_login(users, input) {
            auth::Login::More(whole) => Turn::More(whole),
            auth::Login::Close => self.fail(),
            auth::Login::In(used, answer) => {
                counters.auth_cmds.one();
                out.scratch().extend_from_slice(answer);
                self.protocol = Protocol::Text;
                Turn::Used(used)
            }
            auth::Login::Refused(used, answer) => {
                if answer != UNAUTHENTICATED {
                    counters.auth_cmds.one();
                    counters.auth_errors.one();
                }
                out.scratch().extend_from_slice(answer);
                Turn::Used(used)
            }
        }
    }

    fn binary(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let Protocol::Binary(binary) = &mut self.protocol else { return Turn::Close };
        match binary.turn(&self.face, &self.client, input, now, out) {
            Step::Used(used) => Turn::Used(used),
            Step::Away(stub) => self.read_value(*stub, State::Ready, (0, input), now, out),
            Step::More(whole) => Turn::More(whole),
            Step::Block(whole) => self.await_block(whole),
            Step::Skip(bytes) => self.skip(0, bytes, input.len()),
            Step::Value(used, value) => self.take_value(used, Answer::Binary(value), now, out),
            Step::Walk(used, walk) => {
                self.state = State::Walk(Box::new(walk));
                Turn::Flush(used)
            }
            Step::Quit => Turn::Close,
            Step::Fail => self.fail(),
        }
    }

    /// Changes the state, and the phase that `stats conns` shows. Changes between `Ready` and
    /// states of the same phase write nothing.
    pub(super) fn enter(&mut self, state: State) {
        self.client.phase.store(state.phase(), Relaxed);
        self.state = state;
    }

    /// The value of the first command is incomplete; command and value end at `whole` bytes.
    #[cold]
    pub(super) fn await_block(&mut self, whole: usize) -> Turn {
        self.enter(State::Block);
        Turn::More(whole)
    }

    /// Closes the connection after an invalid request.
    #[cold]
    pub(super) fn fail(&self) -> Turn {
        self.client.phase.store(phase::FAILED, Relaxed);
        Turn::Close
    }

    /// Uses `used` bytes and discards the `bytes` behind them, received or not. `len`: length of
    /// the input.
    pub(super) fn skip(&mut self, used: usize, bytes: u64, len: usize) -> Turn {
        let there = bytes.min((len - used) as u64);
        if bytes > there {
            self.enter(State::Skip(bytes - there));
        }
        Turn::Used(used + there as usize)
    }

    /// Uses `used` bytes. A value too long to buffer begins behind them. If it cannot be stored, it
    /// is answered now.
    pub(super) fn take_value(
        &mut self,
        used: usize,
        answer: Answer,
        now: Ms,
        out: &mut Out,
    ) -> Turn {
        self.enter(match Incoming::begin(&self.face, &self.client, answer, now, out) {
            Ok(incoming) => State::Value(Box::new(incoming)),
            Err(bytes) => State::Skip(bytes),
        });
        Turn::Used(used)
    }

    /// Continues a command that does not fit one turn.
    fn resume(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        match &mut self.state {
            State::Ready | State::Block => Turn::Used(0),
            State::Reading(_) => self.read(input, now, out),
            State::Walk(walk) => {
                if walk.step(&self.face, now, out) {
                    self.state = State::Ready;
                }
                Turn::Flush(0)
            }
            _ if input.is_empty() => Turn::More(0),
            State::Keys(keys) => {
                let keys = *keys;
                match keys.turn(&self.face, input, now, out) {
                    Ok((turn, state)) => {
                        self.state = state.unwrap_or(State::Keys(keys));
                        turn
                    }
                    Err((stub, used)) => {
                        self.read_value(stub, State::Keys(keys), (used, input), now, out)
                    }
                }
            }
            State::Value(incoming) => {
                let (used, done) = incoming.take(input);
                if done
                    && let State::Value(incoming) = std::mem::replace(&mut self.state, State::Ready)
                {
                    self.enter(State::Ready);
                    incoming.end(&self.face, now, out);
                }
                Turn::Used(used)
            }
            State::Skip(bytes) => {
                let there = (*bytes).min(input.len() as u64);
                *bytes -= there;
                if *bytes == 0 {
                    self.enter(State::Ready);
                }
                Turn::Used(there as usize)
            }
            State::SkipLine => match input.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.state = State::Ready;
                    Turn::Used(end + 1)
                }
                None => Turn::Used(input.len()),
            },
            State::Watch => Turn::Used(input.len()),
        }
    }
}

impl Session {
    /// Returns whether the protocol is known.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.protocol, Protocol::Unknown)
    }

    pub(super) fn is_binary(&self) -> bool {
        matches!(self.protocol, Protocol::Binary(_))
    }

    /// Executes the next command or continues one.
    #[inline]
    pub(super) fn step(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        self.face.refresh(now);
        self.face.stats.serving(self.client.id);
        let hint = self.first.take(&self.face.firsts);
        if !matches!(self.state, State::Ready) {
            // The bytes looked at ahead may be part of a value.
            self.face.ahead.borrow_mut().clear();
            if !matches!(self.state, State::Block) {
                return self.resume(input, now, out);
            }
            self.enter(State::Ready);
        }
        let Some(first) = input.first() else { return Turn::More(0) };
        match self.protocol {
            Protocol::Text => text::turn(self, hint, input, now, out),
            Protocol::Binary(_) => self.binary(input, now, out),
            Protocol::Login => self.login(input, out),
            Protocol::Unknown => {
                self.begin(*first);
                Turn::Used(0)
            }
        }
    }
}

impl crate::object::Session for Session {
    const FACE: FaceName = FaceName::Memcached;

    #[inline]
    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        if self.face.shared.echoes.load(Relaxed) {
            return echo::turn(self, input, now, out);
        }
        self.step(input, now, out)
    }

    #[inline]
    fn turn_time(&self) -> &TurnTime {
        &self.face.turn_time
    }

    fn fetch(&mut self, input: &[u8]) {
        if let (Protocol::Text, State::Ready, Some(key)) =
            (&self.protocol, &self.state, first_key(input))
        {
            self.first.fetch(&self.face.firsts, self.face.store, OBJECTS, key);
        }
    }

    fn fetch_record(&mut self) {
        self.first.fetch_record(&self.face.firsts, self.face.store);
    }

    fn passed(&self) -> Option<Value> {
        if !matches!(self.state, State::Ready) || self.face.shared.echoes.load(Relaxed) {
            return None;
        }
        match self.protocol {
            Protocol::Unknown => Some(json!("")),
            Protocol::Text => Some(json!("text")),
            Protocol::Binary(_) if self.face.settings().sasl.is_none() => Some(json!("binary")),
            Protocol::Binary(_) | Protocol::Login => None,
        }
    }

    fn adopt(&mut self, passed: &Value) {
        match passed.as_str() {
            Some("text") => self.protocol = Protocol::Text,
            Some("binary") => self.protocol = Protocol::Binary(Binary::new(&self.face)),
            _ => {}
        }
    }

    fn yielded(&mut self) {
        self.face.counters.conn_yields.one();
    }

    fn received(&mut self) {
        self.face.ahead.borrow_mut().clear();
    }

    fn sent(&mut self, batch: Sent) {
        let counters = &self.face.counters;
        counters.bytes_read.add(batch.received);
        counters.bytes_written.add(batch.written);
        self.face.stats.latency.record(batch.micros);
    }

    fn kept(&self) -> u64 {
        if let State::Walk(walk) = &self.state { walk.memory() as u64 } else { 0 }
    }

    fn owes(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    fn awaits(&self) -> bool {
        matches!(self.state, State::Value(_) | State::Skip(_) | State::SkipLine | State::Keys(_))
    }
}

#[cfg(test)]
mod tests;
