//! One client's session: one command at a time.
//!
//! | state | until | content |
//! |---|---|---|
//! | `Ready` | a command | |
//! | `Value` | the block's end | the data of a `set` |
//! | `Skip` | a number of bytes | the data of a refused `set` |
//! | `Waiting` | the owner's answer | what to do with it |
//! | `Sending` | the item's end | a large item, sent in pieces |

use std::{borrow::Cow, rc::Rc, sync::Arc};

use bytes::Bytes;
use larder_proto::{
    memcache::{BAD_CHUNK, BAD_FORMAT, text::STORED},
    queue::{self as wire, Command, Decoded, Named, Refused, Set},
};
use larder_queue::{Item, NewItem, Read, is_valid};
use serde_json::{Value, json};

use super::{
    Face,
    seat::{Answer, Ask, Get, Message, Name, Seat},
};
use crate::{
    clock::Ms,
    net::{face_name::FaceName, out::Out},
    object::{self, Client, Sent, Turn, TurnTime, stop::StopHandle},
    room::{Held, Place},
};

/// Bytes of a large item that are composed at once.
const PIECE: usize = 256 << 10;
/// Look for an answer at least so often, in milliseconds; the owner calls.
const LOOK: Ms = 60_000;
/// The most items that a client may have open of a queue by `monitor`.
const MONITORED: usize = 1000;
/// Answer to a value larger than the queue's items may be.
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for queue\r\n";
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// The data of a `set` on its way.
struct Incoming {
    name: Name,
    flags: u32,
    expires: u64,
    noreply: bool,
    data: Vec<u8>,
    len: usize,
    held: Held,
}

/// The question to the owner.
enum Wait {
    /// A command whose answer is a line.
    Line { noreply: bool },
    /// An item. True: the client may wait long for it.
    Item { long: bool },
    /// Items as they come.
    Monitor { name: Name, until: Ms, left: u64 },
}

enum State {
    Ready,
    Value(Box<Incoming>),
    Skip(u64),
    /// With the memory of the value that the owner has.
    Waiting(Wait, Option<Held>),
    Sending(Box<Sending>),
}

/// A large item that is being sent.
struct Sending {
    item: Item,
    read: Read,
    name: Name,
    at: usize,
    /// The next step.
    then: Option<Wait>,
}

/// One client's session.
pub(crate) struct Session {
    face: Rc<Face>,
    client: Arc<Client>,
    seat: Arc<Seat>,
    state: State,
    /// It has opened an item, and may still have it.
    opened: bool,
    /// It has monitored a queue, and may have opened any number.
    monitored: bool,
}

impl Session {
    pub(super) fn new(face: Rc<Face>, client: Arc<Client>) -> Session {
        let seat = Seat::new(client.clone());
        Session { face, client, seat, state: State::Ready, opened: false, monitored: false }
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
    fn value(&mut self, input: &[u8], out: &mut Out) -> Turn {
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
        let item = NewItem { flags, expires, data: Bytes::from(data) };
        self.ask(Ask::Put(name, item), Wait::Line { noreply }, Some(held), left + 2)
    }

    fn get(&mut self, get: &wire::Get<'_>, used: usize, out: &mut Out) -> Turn {
        if !is_valid(get.name) {
            out.scratch().extend_from_slice(BAD_FORMAT);
            return Turn::Used(used);
        }
        let name = Name::from(get.name);
        if get.abort {
            self.opened = false;
            return self.ask(Ask::Abort(name), Wait::Line { noreply: false }, None, used);
        }
        if get.close && !get.open {
            self.opened = false;
            let wait = Wait::Item { long: false };
            let close = Get { name, read: Read::Peek, close: true, open: 0, wait: 0 };
            return self.ask(Ask::Get(close), wait, None, used);
        }
        let read = match (get.open, get.peek) {
            (true, _) => Read::Open,
            (_, true) => Read::Peek,
            _ => Read::Take,
        };
        self.opened |= get.open;
        let wait = Wait::Item { long: get.wait > 0 };
        let ask = Get { name, read, close: get.close, open: 1, wait: get.wait };
        self.ask(Ask::Get(ask), wait, None, used)
    }

    fn monitor(&mut self, name: Name, until: Ms, left: u64, now: Ms, used: usize) -> Turn {
        self.monitored = true;
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
            Answer::Stored => Cow::Borrowed(STORED),
            Answer::Empty => Cow::Borrowed(end),
            Answer::Text(text) => text,
        };
        if !matches!(wait, Wait::Line { noreply: true }) {
            out.scratch().extend_from_slice(&text);
        }
        Turn::Used(0)
    }

    fn item(&mut self, mut sending: Sending, wait: Wait, now: Ms, out: &mut Out) -> Turn {
        if let Wait::Monitor { name, until, left } = wait {
            sending.then = Some(Wait::Monitor { name, until, left: left - 1 });
        }
        let data = &sending.item.data;
        let len = data.len();
        wire::value(&sending.name, sending.item.flags, len as u64, out.scratch());
        if len > PIECE {
            self.state = State::Sending(Box::new(sending));
            return Turn::Flush(0);
        }
        out.scratch().extend_from_slice(data);
        out.scratch().extend_from_slice(wire::END);
        self.face.turn_time.copied(len as u64);
        self.after_item(sending.then, now, out)
    }

    /// Sends the next piece of a large item.
    fn piece(&mut self, now: Ms, out: &mut Out) -> Turn {
        let State::Sending(sending) = &mut self.state else { return Turn::Used(0) };
        let data = &sending.item.data[sending.at..];
        let piece = &data[..data.len().min(PIECE)];
        out.scratch().extend_from_slice(piece);
        sending.at += piece.len();
        if piece.len() < data.len() {
            return Turn::Flush(0);
        }
        out.scratch().extend_from_slice(wire::END);
        let then = sending.then.take();
        self.state = State::Ready;
        self.after_item(then, now, out)
    }

    fn after_item(&mut self, then: Option<Wait>, now: Ms, out: &mut Out) -> Turn {
        match then {
            Some(Wait::Monitor { name, until, left }) if left > 0 && until > now => {
                self.monitor(name, until, left, now, 0)
            }
            Some(Wait::Monitor { .. }) => {
                out.scratch().extend_from_slice(&wire::END[2..]);
                Turn::Used(0)
            }
            _ => Turn::Used(0),
        }
    }
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
        let counts = !self.face.shared.stopping.load(std::sync::atomic::Ordering::Relaxed);
        let _ = self.face.inbox.send(Message::Left(self.seat.clone(), counts));
    }
}

impl object::Session for Session {
    const FACE: FaceName = FaceName::Queue;

    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        match &mut self.state {
            State::Waiting(..) => self.answered(now, out),
            State::Sending(_) => self.piece(now, out),
            _ if input.is_empty() => Turn::More(0),
            State::Ready => self.command(input, now, out),
            State::Value(_) => self.value(input, out),
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

    fn turn_time(&self) -> &TurnTime {
        &self.face.turn_time
    }

    fn fetch(&mut self, _input: &[u8]) {}

    fn fetch_record(&mut self) {}

    fn received(&mut self) {}

    fn sent(&mut self, batch: Sent) {
        self.face.counters.bytes_read.add(batch.received);
        self.face.counters.bytes_written.add(batch.written);
    }

    fn awaits(&self) -> bool {
        matches!(self.state, State::Value(_) | State::Skip(_))
    }

    fn kept(&self) -> u64 {
        if let State::Sending(sending) = &self.state { sending.item.data.len() as u64 } else { 0 }
    }

    fn owes(&self) -> bool {
        let State::Waiting(wait, _) = &self.state else { return false };
        matches!(wait, Wait::Line { .. } | Wait::Item { long: false, .. })
    }

    fn passed(&self) -> Option<Value> {
        let has_items = self.opened || self.monitored;
        (matches!(self.state, State::Ready) && !has_items).then(|| json!(""))
    }
}
