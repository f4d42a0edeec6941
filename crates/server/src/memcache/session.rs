//! One client's conversation: which protocol it speaks, what state it is in, one command at a time.
//!
//! The first byte tells the protocol (0x80 begins a binary request, nothing else does), and it
//! stays. Between commands the state is [`State::Ready`]; the others are commands whose bytes, or
//! whose answers, do not fit one turn:
//!
//! | state | until | what |
//! |---|---|---|
//! | `Keys` | the line's end | the keys of a retrieval, taken one by one |
//! | `Block` | more bytes | a command whose value has not come: it is taken up again |
//! | `Value` | the block's end | a value on its way into the store ([`Incoming`]) |
//! | `Skip` | so many bytes | bytes that belong to a refused command |
//! | `SkipLine` | a line's end | the rest of a line that cannot be a command |
//! | `Walk` | the answer's end | a dump of items |
//! | `Deaf` | the client leaves | a watcher: what it sends is of no matter |

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use larder_proto::memcache::first_key;

use super::{
    Face, OBJECTS, auth,
    binary::{Binary, Step},
    crawl::Walk,
    echo,
    incoming::{Answer, Incoming},
    text,
};
use crate::{
    clock::Ms,
    net::out::Out,
    object::{Client, Sent, Turn, ahead::First},
    settings::WireProtocol,
};

/// First byte of a binary request.
const MAGIC: u8 = 0x80;

/// What text clients are told before they have logged in; it is no failed login.
const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";

/// Which protocol a client speaks.
enum Voice {
    /// Nothing was received yet.
    Unknown,
    /// Text and meta.
    Text,
    /// Text, but for a login nothing is taken yet.
    Login,
    Binary(Binary),
}

/// What the next bytes are.
pub(super) enum State {
    Ready,
    Keys(text::Keys),
    Block,
    Value(Box<Incoming>),
    Skip(u64),
    SkipLine,
    Walk(Box<Walk>),
    Deaf,
}

/// [`Client::phase`] of this face's clients: what `stats conns` calls their state, and why they
/// were closed.
pub(super) mod phase {
    pub(in crate::memcache) const READY: u8 = 0;
    /// A value is awaited.
    pub(in crate::memcache) const VALUE: u8 = 1;
    /// What belongs to a refused command is thrown away.
    pub(in crate::memcache) const SKIP: u8 = 2;
    pub(in crate::memcache) const WATCH: u8 = 3;
    /// Closed because of what the client sent.
    pub(in crate::memcache) const FAILED: u8 = 4;
    /// Closed because the client asked for the end of the server.
    pub(in crate::memcache) const SHUTDOWN: u8 = 5;
}

impl State {
    fn phase(&self) -> u8 {
        match self {
            State::Ready | State::Keys(_) | State::SkipLine | State::Walk(_) => phase::READY,
            State::Block | State::Value(_) => phase::VALUE,
            State::Skip(_) => phase::SKIP,
            State::Deaf => phase::WATCH,
        }
    }
}

/// One client's conversation.
pub(crate) struct Session {
    pub(super) face: Rc<Face>,
    pub(super) client: Arc<Client>,
    pub(super) state: State,
    /// It may ask for the end of the server, where that is allowed at all.
    pub(super) may_stop: bool,
    voice: Voice,
    /// Of the next command, in `State::Ready` alone.
    first: First,
}

impl Session {
    pub(crate) fn new(face: Rc<Face>, client: Arc<Client>) -> Self {
        Self {
            face,
            client,
            state: State::Ready,
            may_stop: true,
            voice: Voice::Unknown,
            first: First::default(),
        }
    }

    /// For datagrams, whose sender can be anybody: what ends the server is not taken from it.
    pub(super) fn of_datagram(mut self) -> Self {
        self.may_stop = false;
        self
    }

    /// Listens for the first byte.
    #[cold]
    fn begin(&mut self, first: u8) {
        let settings = self.face.settings();
        let binary = match settings.protocol {
            // SASL is for binary clients alone: text ones have no way to log in.
            WireProtocol::Auto if settings.sasl.is_some() => true,
            // A login by `set` is for text clients alone.
            WireProtocol::Auto => first == MAGIC && settings.auth.is_none(),
            WireProtocol::Ascii => false,
            WireProtocol::Binary => true,
        };
        self.voice = match (binary, &settings.auth) {
            (true, _) => Voice::Binary(Binary::new(&self.face)),
            (false, Some(_)) => Voice::Login,
            (false, None) => Voice::Text,
        };
    }

    fn login(&mut self, input: &[u8], out: &mut Out) -> Turn {
        let settings = self.face.settings();
        let Some(users) = &settings.auth else {
            // A reload has taken the need for it away.
            self.voice = Voice::Text;
            return Turn::Used(0);
        };
        let counters = &self.face.counters;
        match auth::text_login(users, input) {
            auth::Login::More(whole) => Turn::More(whole),
            auth::Login::Close => self.fail(),
            auth::Login::In(used, answer) => {
                counters.auth_cmds.one();
                out.scratch().extend_from_slice(answer);
                self.voice = Voice::Text;
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
        let Voice::Binary(binary) = &mut self.voice else { return Turn::Close };
        match binary.turn(&self.face, &self.client, input, now, out) {
            Step::Used(used) => Turn::Used(used),
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

    /// Changes the state where `stats conns` tells it; between `Ready` and states that it does not
    /// tell of, nothing is to be told.
    pub(super) fn enter(&mut self, state: State) {
        self.client.phase.store(state.phase(), Relaxed);
        self.state = state;
    }

    /// The value of the first command of the input is not all there: both would be at `whole`
    /// bytes.
    #[cold]
    pub(super) fn await_block(&mut self, whole: usize) -> Turn {
        self.enter(State::Block);
        Turn::More(whole)
    }

    /// Closes the connection for what the client sent.
    #[cold]
    pub(super) fn fail(&self) -> Turn {
        self.client.phase.store(phase::FAILED, Relaxed);
        Turn::Close
    }

    /// `used` bytes are used up; `bytes` behind them are to be thrown away, of those received and
    /// those to come. There are `len` bytes of input.
    pub(super) fn skip(&mut self, used: usize, bytes: u64, len: usize) -> Turn {
        let there = bytes.min((len - used) as u64);
        if bytes > there {
            self.enter(State::Skip(bytes - there));
        }
        Turn::Used(used + there as usize)
    }

    /// `used` bytes are used up; the value of a command, longer than is waited for, begins behind
    /// them. A value that cannot be taken is answered now.
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

    /// Goes on with what did not fit one turn.
    fn go_on(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        match &mut self.state {
            State::Ready | State::Block => Turn::Used(0),
            State::Walk(walk) => {
                if walk.step(&self.face, now, out) {
                    self.state = State::Ready;
                }
                Turn::Flush(0)
            }
            _ if input.is_empty() => Turn::More(0),
            State::Keys(keys) => {
                let (turn, state) = keys.turn(&self.face, input, now, out);
                self.state = state.unwrap_or(std::mem::replace(&mut self.state, State::Ready));
                turn
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
            State::Deaf => Turn::Used(input.len()),
        }
    }
}

impl Session {
    /// Is its protocol known?
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.voice, Voice::Unknown)
    }

    pub(super) fn is_binary(&self) -> bool {
        matches!(self.voice, Voice::Binary(_))
    }

    /// Takes up the next command, or goes on with one.
    #[inline]
    pub(super) fn step(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        self.face.refresh(now);
        self.face.stats.serving(self.client.id);
        let hint = self.first.take();
        if !matches!(self.state, State::Ready) {
            // What was looked at ahead may have been a part of a value.
            self.face.ahead.borrow_mut().clear();
            if !matches!(self.state, State::Block) {
                return self.go_on(input, now, out);
            }
            self.enter(State::Ready);
        }
        let Some(first) = input.first() else { return Turn::More(0) };
        match self.voice {
            Voice::Text => text::turn(self, hint, input, now, out),
            Voice::Binary(_) => self.binary(input, now, out),
            Voice::Login => self.login(input, out),
            Voice::Unknown => {
                self.begin(*first);
                Turn::Used(0)
            }
        }
    }
}

impl crate::object::Session for Session {
    #[inline]
    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        if self.face.shared.echoes.load(Relaxed) {
            return echo::turn(self, input, now, out);
        }
        self.step(input, now, out)
    }

    fn fetch(&mut self, input: &[u8]) {
        if let (Voice::Text, State::Ready, Some(key)) = (&self.voice, &self.state, first_key(input))
        {
            self.first.fetch(self.face.store, OBJECTS, key);
        }
    }

    fn fetch_record(&mut self) {
        self.first.fetch_record(self.face.store);
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

    fn awaits(&self) -> bool {
        matches!(self.state, State::Value(_) | State::Skip(_) | State::SkipLine | State::Keys(_))
    }
}

#[cfg(test)]
mod tests;
