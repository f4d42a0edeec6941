//! One client's session: one command at a time.
//!
//! | state | until | content |
//! |---|---|---|
//! | `Ready` | a command | |
//! | `Value` | the block's end | the data of a `set` |
//! | `Skip` | a number of bytes | the data of a refused `set` |
//! | `Waiting` | the owner's answer | what to do with it |
//! | `Sending` | the item's end | a large item, sent in pieces |

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use larder_proto::{
    memcache::{BAD_CHUNK, BAD_FORMAT, text::STORED},
    queue::{self as wire, Command, Decoded, Named, Refused, Set},
};
use larder_queue::{NewItem, Read, is_valid};
use serde_json::{Value, json};

use super::{
    Face,
    items::{Sending, Taken},
    seat::{Answer, Ask, Get, Message, Name, Seat},
};
use crate::{
    clock::Ms,
    net::{face_name::FaceName, out::Out},
    object::{self, Client, Sent, Turn, TurnTime, stop::StopHandle},
    room::{Held, Place},
};

/// Items of a pipeline that are asked together; their bytes are those of a receive buffer at most.
const GATHERED: usize = 256;
/// Look for an answer at least so often, in milliseconds; the owner calls.
const LOOK: Ms = 60_000;
/// The most items that a client may have open of a queue by `monitor`.
const MONITORED: usize = 1000;
/// Answer to a value larger than the queue's items may be.
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for queue\r\n";
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// The data of a `set` on its way.
pub(super) struct Incoming {
    name: Name,
    flags: u32,
    expires: u64,
    noreply: bool,
    data: Vec<u8>,
    len: usize,
    held: Held,
}

/// The question to the owner.
pub(super) enum Wait {
    /// A command whose answer is a line.
    Line { noreply: bool },
    /// Items of a pipeline; with true one wants no answer.
    Puts(Vec<bool>),
    /// An item. True: the client may wait long for it.
    Item { long: bool },
    /// Items as they come.
    Monitor { name: Name, until: Ms, left: u64 },
}

pub(super) enum State {
    Ready,
    Value(Box<Incoming>),
    Skip(u64),
    /// With the memory of the value that the owner has.
    Waiting(Wait, Option<Held>),
    Sending(Box<Sending>),
}

/// One client's session.
pub(crate) struct Session {
    pub(super) face: Rc<Face>,
    pub(super) client: Arc<Client>,
    pub(super) seat: Arc<Seat>,
    pub(super) state: State,
    /// Numbers of items that it has open, by queue.
    pub(super) opened: BTreeMap<Name, u64>,
    /// Items whose last byte the system has not taken yet: they go back if that stays so.
    pub(super) taken: VecDeque<Taken>,
    /// Bytes composed for the client, and how many of them the system has taken.
    pub(super) composed: u64,
    pub(super) sent: u64,
}

impl Session {
    pub(super) fn new(face: Rc<Face>, client: Arc<Client>) -> Session {
        let seat = Seat::new(client.clone());
        let (opened, taken) = (BTreeMap::new(), VecDeque::new());
        Session { face, client, seat, state: State::Ready, opened, taken, composed: 0, sent: 0 }
    }

    /// So many items of a queue are no more open.
    fn closed(&mut self, name: &[u8], count: u64) {
        if let Some(open) = self.opened.get_mut(name) {
            *open = open.saturating_sub(count);
            if *open == 0 {
                self.opened.remove(name);
            }
        }
    }

    fn step(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        match &mut self.state {
            State::Waiting(..) => self.answered(now, out),
            State::Sending(_) => self.piece(now, out),
            _ if input.is_empty() => Turn::More(0),
            State::Ready => self.command(input, now, out),
            State::Value(_) => self.value(input, now, out),
            State::Skip(bytes) => {
                let there = (*bytes).min(input.len() as u64);
                *bytes -= there;
                if *bytes == 0 {
                    self.state = State::Ready;
                }
                Turn::Used(there as usize)
            }
        }
    }

    /// Takes up a command line.
    fn command(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let (command, used) = match wire::decode(input) {
            Decoded::Command(command, used) => (command, used),
            Decoded::Partial => return Turn::More(0),
            Decoded::TooLong => return Turn::Close,
        };
        let line = |noreply| Wait::Line { noreply };
        let (ask, wait) = match command {
            Command::Set(set) => return self.set(&set, used, now, out),
            Command::Get(get) => return self.get(&get, used, out),
            Command::Monitor { name, wait, most } => {
                let name = Name::from(name);
                let left = if most == 0 { u64::MAX } else { most };
                return self.monitor(name, now + wait, left, now, used);
            }
            Command::Refused(refused) => return self.refuse(refused, used, input.len(), out),
            Command::Quit => return Turn::Close,
            Command::Version | Command::Status | Command::Reload | Command::Shutdown => {
                return self.of_server(&command, used, out);
            }
            Command::Confirm { name, count } => {
                self.closed(name, count);
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                (Ask::Confirm(name.into(), count), line(false))
            }
            Command::Delete(Named { name, noreply }) => (Ask::Delete(name.into()), line(noreply)),
            Command::Flush(Named { name, noreply }) => (Ask::Flush(name.into()), line(noreply)),
            Command::FlushExpired(Named { name, noreply }) => {
                (Ask::FlushExpired(name.into()), line(noreply))
            }
            Command::FlushAll { noreply } => (Ask::FlushAll, line(noreply)),
            Command::FlushAllExpired => (Ask::FlushAllExpired, line(false)),
            Command::Stats => (Ask::Stats, line(false)),
            Command::DumpStats => (Ask::DumpStats, line(false)),
            Command::DumpConfig => (Ask::DumpConfig, line(false)),
        };
        self.ask(ask, wait, None, used)
    }

    /// Asks the owner; the session waits for its answer.
    fn ask(&mut self, ask: Ask, wait: Wait, held: Option<Held>, used: usize) -> Turn {
        if self.face.inbox.send(Message::Ask(self.seat.clone(), ask)).is_err() {
            return Turn::Close;
        }
        self.state = State::Waiting(wait, held);
        Turn::Later(used, LOOK)
    }

    fn of_server(&mut self, command: &Command<'_>, used: usize, out: &mut Out) -> Turn {
        let out = out.scratch();
        match command {
            Command::Version => {
                out.extend_from_slice(b"VERSION ");
                out.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Command::Status => out.extend_from_slice(b"UP\r\n"),
            Command::Reload => {
                StopHandle.reload();
                out.extend_from_slice(b"Reloaded config.\r\n");
            }
            _ if self.face.shared.settings().shutdown => {
                StopHandle.ask();
                return Turn::Close;
            }
            _ => out.extend_from_slice(b"ERROR: shutdown not enabled\r\n"),
        }
        Turn::Used(used)
    }

    fn refuse(&mut self, refused: Refused, used: usize, len: usize, out: &mut Out) -> Turn {
        out.scratch().extend_from_slice(refused.answer);
        if refused.close { Turn::Close } else { self.skip(used, refused.swallow, len) }
    }

    /// Uses `used` bytes and discards the `bytes` behind them, received or not.
    fn skip(&mut self, used: usize, bytes: u64, len: usize) -> Turn {
        let there = bytes.min((len - used) as u64);
        if bytes > there {
            self.state = State::Skip(bytes - there);
        }
        Turn::Used(used + there as usize)
    }

    fn set(&mut self, set: &Set<'_>, used: usize, now: Ms, out: &mut Out) -> Turn {
        let settings = self.face.shared.settings();
        let mut held = Held::new(&self.client.holder, Place::Heap);
        let refusal = if !is_valid(set.name) {
            Some(BAD_FORMAT)
        } else if set.len > settings.rules.of(set.name).item_size {
            Some(TOO_LARGE)
        } else if !held.resize(set.len) {
            Some(NO_MEMORY)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            if !set.noreply {
                out.scratch().extend_from_slice(refusal);
            }
            self.state = State::Skip(set.len + 2);
            return Turn::Used(used);
        }
        let len = set.len as usize;
        self.state = State::Value(Box::new(Incoming {
            name: set.name.into(),
            flags: set.flags,
            expires: set.expiry.at(now),
            noreply: set.noreply,
            data: Vec::new(),
            len,
            held,
        }));
        Turn::Used(used)
    }

    /// Takes bytes of a value.
    fn value(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let State::Value(incoming) = &mut self.state else { return Turn::Used(0) };
        let left = incoming.len - incoming.data.len();
        let piece = left.min(input.len());
        // A value that comes in pieces has its memory at once: it is in the account already.
        incoming.data.reserve_exact(left);
        incoming.data.extend_from_slice(&input[..piece]);
        self.face.turn_time.copied(piece as u64);
        let Some(end) = input.get(left..left + 2).filter(|_| piece == left) else {
            return if piece > 0 { Turn::Used(piece) } else { Turn::More(2) };
        };
        let is_whole = end == b"\r\n";
        let State::Value(incoming) = std::mem::replace(&mut self.state, State::Ready) else {
            return Turn::Used(0);
        };
        let Incoming { name, flags, expires, noreply, data, held, .. } = *incoming;
        if !is_whole {
            if !noreply {
                out.scratch().extend_from_slice(BAD_CHUNK);
            }
            return Turn::Used(left + 2);
        }
        let mut bytes = data.len() as u64;
        let item = NewItem { flags, expires, data: Bytes::from(data) };
        let (mut puts, mut noreplies, mut held) = (vec![(name, item)], vec![noreply], held);
        let mut used = left + 2;
        while puts.len() < GATHERED {
            let next = self.next_put(&input[used..], now, (&mut held, bytes));
            let Some((name, item, noreply, len)) = next else { break };
            bytes += item.data.len() as u64;
            puts.push((name, item));
            noreplies.push(noreply);
            used += len;
        }
        self.ask(Ask::Put(puts), Wait::Puts(noreplies), Some(held), used)
    }

    /// A `set` at the start of the input that is whole, and that can be asked together with others:
    /// they share a write, and a sync. With it, whether it wants no answer, and its bytes.
    fn next_put(
        &self,
        input: &[u8],
        now: Ms,
        (held, asked): (&mut Held, u64),
    ) -> Option<(Name, NewItem, bool, usize)> {
        let Decoded::Command(Command::Set(set), used) = wire::decode(input) else { return None };
        let settings = self.face.shared.settings();
        if !is_valid(set.name) || set.len > settings.rules.of(set.name).item_size {
            return None;
        }
        let end = used.checked_add(usize::try_from(set.len).ok()?)?;
        let data = input.get(used..end)?;
        if input.get(end..end + 2)? != b"\r\n" || !held.resize(asked + set.len) {
            return None;
        }
        self.face.turn_time.copied(set.len);
        let (flags, expires) = (set.flags, set.expiry.at(now));
        let item = NewItem { flags, expires, data: Bytes::copy_from_slice(data) };
        Some((set.name.into(), item, set.noreply, end + 2))
    }

    fn get(&mut self, get: &wire::Get<'_>, used: usize, out: &mut Out) -> Turn {
        if !is_valid(get.name) {
            out.scratch().extend_from_slice(BAD_FORMAT);
            return Turn::Used(used);
        }
        let name = Name::from(get.name);
        if get.abort {
            self.opened.remove(get.name);
            return self.ask(Ask::Abort(name), Wait::Line { noreply: false }, None, used);
        }
        if get.close {
            self.closed(get.name, 1);
        }
        if get.close && !get.open {
            let wait = Wait::Item { long: false };
            let close = Get { name, read: Read::Peek, close: true, open: 0, wait: 0 };
            return self.ask(Ask::Get(close), wait, None, used);
        }
        let read = match (get.open, get.peek) {
            (true, _) => Read::Open,
            (_, true) => Read::Peek,
            _ => Read::Take,
        };
        let wait = Wait::Item { long: get.wait > 0 };
        let ask = Get { name, read, close: get.close, open: 1, wait: get.wait };
        self.ask(Ask::Get(ask), wait, None, used)
    }

    pub(super) fn monitor(
        &mut self,
        name: Name,
        until: Ms,
        left: u64,
        now: Ms,
        used: usize,
    ) -> Turn {
        let (read, wait) = (Read::Open, until.saturating_sub(now));
        let get = Get { name: name.clone(), read, close: false, open: MONITORED, wait };
        self.ask(Ask::Get(get), Wait::Monitor { name, until, left }, None, used)
    }

    /// The owner has answered, or it has not yet.
    fn answered(&mut self, now: Ms, out: &mut Out) -> Turn {
        let Some(answer) = self.seat.take() else { return Turn::Later(0, LOOK) };
        let State::Waiting(wait, held) = std::mem::replace(&mut self.state, State::Ready) else {
            return Turn::Used(0);
        };
        drop(held);
        let end: &[u8] = &wire::END[2..];
        let text: Cow<'_, [u8]> = match answer {
            Answer::Item(name, item, read) => {
                return self.item(Sending { item, read, name, at: 0, then: None }, wait, now, out);
            }
            Answer::Close(text) => {
                out.scratch().extend_from_slice(text);
                return Turn::Close;
            }
            Answer::Stored(_) => Cow::Borrowed(STORED),
            Answer::Puts(answers) => {
                let Wait::Puts(noreplies) = wait else { return Turn::Close };
                return stored(answers, &noreplies, out);
            }
            Answer::Empty => Cow::Borrowed(end),
            Answer::Text(text) => text,
        };
        if !matches!(wait, Wait::Line { noreply: true }) {
            out.scratch().extend_from_slice(&text);
        }
        Turn::Used(0)
    }
}

/// Composes the answers of items that were added.
fn stored(answers: Vec<Answer>, noreplies: &[bool], out: &mut Out) -> Turn {
    for (answer, noreply) in answers.into_iter().zip(noreplies) {
        let text: Cow<'_, [u8]> = match answer {
            Answer::Stored(_) => Cow::Borrowed(STORED),
            Answer::Text(text) => text,
            _ => return Turn::Close,
        };
        if !noreply {
            out.scratch().extend_from_slice(&text);
        }
    }
    Turn::Used(0)
}

impl Drop for Session {
    /// Items that were taken for the client and did not reach it go back, then those it has open.
    fn drop(&mut self) {
        let unsent = match (self.seat.leave(), std::mem::replace(&mut self.state, State::Ready)) {
            (Some(Answer::Item(name, item, read)), _) => Some((name, item, read)),
            (_, State::Sending(sending)) => Some((sending.name, sending.item, sending.read)),
            _ => None,
        };
        if let Some((name, item, Read::Take)) = unsent {
            let _ = self.face.inbox.send(Message::Restore(name, item));
        }
        self.give_back();
        let counts = !self.face.shared.stopping.load(std::sync::atomic::Ordering::Relaxed);
        let _ = self.face.inbox.send(Message::Left(self.seat.clone(), counts));
    }
}

impl object::Session for Session {
    const FACE: FaceName = FaceName::Queue;

    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        self.arrived(out.pending());
        let turn = self.step(input, now, out);
        self.composed = self.sent + out.pending();
        turn
    }

    fn turn_time(&self) -> &TurnTime {
        &self.face.turn_time
    }

    fn fetch(&mut self, _input: &[u8]) {}

    fn fetch_record(&mut self) {}

    fn received(&mut self) {}

    fn sent(&mut self, batch: Sent) {
        self.arrived(0);
        self.face.counters.bytes_read.add(batch.received);
        self.face.counters.bytes_written.add(batch.written);
    }

    fn awaits(&self) -> bool {
        matches!(self.state, State::Value(_) | State::Skip(_))
    }

    fn unsent(&mut self, bytes: u64) {
        self.arrived(bytes);
        self.give_back();
    }

    fn kept(&self) -> u64 {
        let taken: u64 = self.taken.iter().map(|taken| taken.item.data.len() as u64).sum();
        let State::Sending(sending) = &self.state else { return taken };
        taken + sending.item.data.len() as u64
    }

    fn owes(&self) -> bool {
        let State::Waiting(wait, _) = &self.state else { return false };
        matches!(wait, Wait::Line { .. } | Wait::Puts(_) | Wait::Item { long: false, .. })
    }

    fn passed(&self) -> Option<Value> {
        let has_items = !self.opened.is_empty() || !self.taken.is_empty();
        (matches!(self.state, State::Ready) && !has_items).then(|| json!(""))
    }
}
