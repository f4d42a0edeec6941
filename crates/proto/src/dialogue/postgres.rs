//! PostgreSQL's protocol 3: a startup packet, then messages of a letter, a length and a content.
//!
//! A statement is a simple Query (one delay, with any number of SQL statements in it), an Execute
//! of the extended protocol (Parse, Bind and Describe before it are forwarded at once: the server
//! does no work worth delaying until then), or a function call. The login, COPY's data and
//! cancelling are not statements. A client's question for TLS is answered with no, as by a server
//! without it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{Down, STATEMENT_SEEN, Up, seen};

/// Longest startup packet that a server accepts (MAX_STARTUP_PACKET_LENGTH).
const STARTUP: usize = 10_000;
/// Longest message: PostgreSQL's strings end at 1 GiB.
const MESSAGE: usize = 1 << 30;
/// Prepared statements, and portals, of a connection with a kept text; a rule cannot choose
/// statements without it.
pub(super) const PREPARED: usize = 1024;
/// Statements of a connection that may wait for answers; a batch of a bulk load is longer than any
/// interactive one.
pub(super) const PENDING: usize = 65_536;

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// A connection.
#[derive(Debug, Default)]
pub struct Postgres {
    started: bool,
    /// This connection cancels another one's statement; nothing follows.
    cancels: bool,
    up_left: usize,
    down_left: usize,
    /// Messages without an answer, the oldest first.
    pending: VecDeque<Pending>,
    /// Requests whose answer ends with the current message.
    ending: usize,
    /// After an error and before its batch's Sync: the server reads messages and ignores them.
    skips: bool,
    statements: HashMap<Arc<str>, Arc<str>>,
    portals: HashMap<Arc<str>, Arc<str>>,
}

/// Kind of a client's message.
enum Told {
    /// A statement, with its text if it is known.
    Request(Option<Arc<str>>),
    /// More data of the statement before it (COPY).
    Data,
    /// A message that is not delayed or broken separately.
    Aside,
}

#[derive(Debug, PartialEq, Eq)]
enum Pending {
    /// Answered by ReadyForQuery.
    Query { begun: bool },
    /// Answered by CommandComplete and the like, or, after an error, not at all.
    Execute { begun: bool },
    /// The end of a batch: answered by ReadyForQuery.
    Sync,
}

impl Postgres {
    pub(super) fn kept(&self) -> usize {
        self.pending.len() + self.statements.len() + self.portals.len()
    }

    pub(super) fn up(&mut self, bytes: &[u8]) -> Up {
        if self.cancels {
            return Up::Pass(bytes.len());
        }
        if self.up_left > 0 {
            return Up::Pass(rest(&mut self.up_left, bytes));
        }
        if !self.started {
            return self.startup(bytes);
        }
        let Some((kind, length)) = head(bytes) else { return Up::More };
        if !(4..=MESSAGE).contains(&length) || !b"QPBEDCHSFpdcfX".contains(&kind) {
            return Up::Lost(format!(
                "the client's message {:?} is not PostgreSQL's",
                char::from(kind)
            ));
        }
        let whole = 1 + length;
        let Some(content) = bytes.get(5..whole.min(5 + STATEMENT_SEEN)) else { return Up::More };
        if self.pending.len() >= PENDING {
            return Up::Lost(format!("the client sent {PENDING} statements without waiting"));
        }
        let told = self.message(kind, content);
        self.up_left = whole;
        let pass = rest(&mut self.up_left, bytes);
        match told {
            Told::Request(text) => Up::Request(pass, text),
            Told::Data => Up::Pass(pass),
            Told::Aside => Up::Aside(pass),
        }
    }

    /// Reads the start of a message, with the examined part of its content.
    fn message(&mut self, kind: u8, content: &[u8]) -> Told {
        match kind {
            b'S' => {
                self.skips = false;
                self.pending.push_back(Pending::Sync);
                Told::Aside
            }
            _ if self.skips => Told::Aside,
            b'Q' | b'F' => {
                self.pending.push_back(Pending::Query { begun: false });
                Told::Request((kind == b'Q').then(|| text(content)))
            }
            b'E' => {
                self.pending.push_back(Pending::Execute { begun: false });
                Told::Request(self.portals.get(&text(content)).cloned())
            }
            b'd' | b'c' | b'f' => Told::Data,
            _ => {
                self.prepare(kind, content);
                Told::Aside
            }
        }
    }

    fn startup(&mut self, bytes: &[u8]) -> Up {
        // TLS without a question begins with 22, and bytes that are not a startup packet have no
        // zeros here.
        match bytes {
            [0, 0, ..] | [0] => {}
            [0x16, ..] => {
                let hint = "`sslnegotiation=postgres` keeps it from that";
                return Up::Lost(format!("the client speaks TLS at once ({hint})"));
            }
            _ => return Up::Lost("the client's first packet is not PostgreSQL's".to_owned()),
        }
        let Some(head) = bytes.first_chunk::<8>() else { return Up::More };
        let [l0, l1, l2, l3, c0, c1, c2, c3] = *head;
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let code = u32::from_be_bytes([c0, c1, c2, c3]);
        match code {
            TLS | GSS if length == 8 => return Up::Answer(8, b"N"),
            CANCEL if (16..=STARTUP).contains(&length) => self.cancels = true,
            _ if code >> 16 == 3 && (8..=STARTUP).contains(&length) => self.started = true,
            _ => return Up::Lost("the client's first packet is not PostgreSQL's".to_owned()),
        }
        self.up_left = length;
        Up::Pass(rest(&mut self.up_left, bytes))
    }

    /// Records the text that a name refers to.
    fn prepare(&mut self, kind: u8, content: &[u8]) {
        let name = text(content);
        let behind = content.get(content_length(content) + 1..).unwrap_or_default();
        match kind {
            b'P' if self.statements.len() < PREPARED || self.statements.contains_key(&name) => {
                self.statements.insert(name, text(behind));
            }
            b'B' if self.portals.len() < PREPARED || self.portals.contains_key(&name) => {
                match self.statements.get(&text(behind)) {
                    Some(statement) => self.portals.insert(name, statement.clone()),
                    None => self.portals.remove(&name),
                };
            }
            b'C' => {
                let name = text(content.get(1..).unwrap_or_default());
                match content.first() {
                    Some(b'S') => self.statements.remove(&name),
                    _ => self.portals.remove(&name),
                };
            }
            _ => {}
        }
    }

    pub(super) fn down(&mut self, bytes: &[u8]) -> Down {
        if self.down_left > 0 {
            let length = rest(&mut self.down_left, bytes);
            return Down::Pass { length, begins: false, ends: self.ended() };
        }
        if !self.started {
            return Down::pass(bytes.len());
        }
        let Some((kind, length)) = head(bytes) else { return Down::More };
        if !(4..=MESSAGE).contains(&length) {
            return Down::Lost(format!(
                "the server's message {:?} has a length of {length}",
                char::from(kind)
            ));
        }
        let begins = !matches!(kind, b'N' | b'S' | b'A') && self.begins();
        self.ending += match kind {
            b'Z' => self.ready(),
            b'C' | b'I' | b's' => self.executed(),
            b'E' => self.failed(),
            _ => 0,
        };
        self.down_left = 1 + length;
        let length = rest(&mut self.down_left, bytes);
        Down::Pass { length, begins, ends: self.ended() }
    }

    fn begins(&mut self) -> bool {
        match self.pending.front_mut() {
            Some(Pending::Query { begun } | Pending::Execute { begun }) => {
                !std::mem::replace(begun, true)
            }
            _ => false,
        }
    }

    /// Marks the oldest Execute as answered, if the answer was to one.
    fn executed(&mut self) -> usize {
        let is_execute = matches!(self.pending.front(), Some(Pending::Execute { .. }));
        if is_execute {
            self.pending.pop_front();
        }
        usize::from(is_execute)
    }

    /// An error ends a batch: the messages that came, and, unless its Sync came, those still to
    /// come.
    fn failed(&mut self) -> usize {
        // Its ReadyForQuery ends a simple query.
        if matches!(self.pending.front(), Some(Pending::Query { .. })) {
            return 0;
        }
        let before = self.pending.len();
        while self.pending.front().is_some_and(|front| *front != Pending::Sync) {
            self.pending.pop_front();
        }
        self.skips = self.pending.is_empty();
        before - self.pending.len()
    }

    /// A query or a batch is over, including its unanswered messages.
    fn ready(&mut self) -> usize {
        let mut answered = 0;
        while let Some(over) = self.pending.pop_front() {
            match over {
                Pending::Execute { .. } => answered += 1,
                Pending::Query { .. } => return answered + 1,
                Pending::Sync => return answered,
            }
        }
        answered
    }

    fn ended(&mut self) -> usize {
        if self.down_left > 0 { 0 } else { std::mem::take(&mut self.ending) }
    }
}

fn head(bytes: &[u8]) -> Option<(u8, usize)> {
    let [kind, a, b, c, d] = *bytes.first_chunk()?;
    Some((kind, u32::from_be_bytes([a, b, c, d]) as usize))
}

fn rest(left: &mut usize, bytes: &[u8]) -> usize {
    let pass = (*left).min(bytes.len());
    *left -= pass;
    pass
}

/// Number of bytes up to the zero that ends a text.
fn content_length(content: &[u8]) -> usize {
    memchr::memchr(0, content).unwrap_or(content.len())
}

/// A text that ends with a zero, as far as it is examined.
fn text(content: &[u8]) -> Arc<str> {
    seen(&content[..content_length(content)])
}
