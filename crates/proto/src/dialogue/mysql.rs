//! MySQL's protocol, as MySQL and MariaDB speak it: numbered packets of at most 16 MB, a login,
//! then commands.
//!
//! A statement is COM_QUERY, COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE, with any number of SQL
//! statements in it: one delay. The login, COM_PING, COM_INIT_DB, COM_STMT_PREPARE and
//! COM_STMT_FETCH are not statements. Compression is removed from the server's offer. TLS cannot be
//! removed, because some logins need it; when it starts, the connection can no longer be read.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{
    Down, STATEMENT_SEEN, Up,
    mysql_answer::{Answer, Step},
    seen,
};

/// A packet of this length continues in the next.
const FULL: usize = 0xff_ffff;
/// Longest first packet of a server; MySQL's are below 200 bytes.
const GREETING: usize = 4096;
/// Prepared statements of a connection with a kept text; a rule cannot choose statements without
/// it.
const PREPARED: usize = 1024;
/// Commands of a connection that may wait for answers: clients send only a few ahead.
pub(super) const PENDING: usize = 1024;

const CLIENT_COMPRESS: u32 = 1 << 5;
const CLIENT_SSL: u32 = 1 << 11;
pub(super) const CLIENT_DEPRECATE_EOF: u32 = 1 << 24;
const CLIENT_ZSTD: u32 = 1 << 26;
/// MariaDB's own capabilities are in four other bytes; a client that has them does not set this
/// capability of MySQL.
const CLIENT_MYSQL: u32 = 1;
/// Result sets may come without the columns that the client knows already (MariaDB).
const CACHE_METADATA: u32 = 1 << 4;

/// A connection.
#[derive(Debug, Default)]
pub struct Mysql {
    phase: Phase,
    up: Packet,
    down: Packet,
    /// The form of answers; see [`Answer`].
    deprecate_eof: bool,
    cached_columns: bool,
    /// Commands without a complete answer, the oldest first.
    pending: VecDeque<Pending>,
    /// The server asked for a file; the client sends its bytes, not commands.
    infile: bool,
    prepared: HashMap<u32, Arc<str>>,
}

#[derive(Debug)]
struct Pending {
    answer: Answer,
    /// Whether it was reported as a request.
    statement: bool,
    begun: bool,
    /// Text of a COM_STMT_PREPARE.
    text: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Greeting,
    Login,
    /// Authentication is in progress.
    Proof,
    Command,
}

/// The rest of a packet that is being received.
#[derive(Debug, Default)]
struct Packet {
    left: usize,
    /// It had the greatest length: the next packet belongs to it.
    full: bool,
}

/// A packet's header.
struct Head {
    length: usize,
    number: u8,
}

impl Head {
    fn read(bytes: &[u8]) -> Option<Head> {
        let [a, b, c, number] = *bytes.first_chunk()?;
        Some(Head { length: u32::from_le_bytes([a, b, c, 0]) as usize, number })
    }

    /// The first `needed` bytes of the packet's content (or all of a shorter one), if they have
    /// arrived.
    fn content<'a>(&self, bytes: &'a [u8], needed: usize) -> Option<&'a [u8]> {
        let content = &bytes[4..];
        let needed = self.length.min(needed);
        content.get(..needed)
    }
}

impl Packet {
    /// Bytes of the current packet, if there is one.
    fn rest(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let pass = self.left.min(bytes.len());
        self.left -= pass;
        Some(pass)
    }

    /// Starts a packet; returns how many of its bytes have arrived.
    fn begin(&mut self, head: &Head, bytes: &[u8]) -> usize {
        self.full = head.length == FULL;
        let whole = 4 + head.length;
        let pass = whole.min(bytes.len());
        self.left = whole - pass;
        pass
    }
}

impl Mysql {
    pub(super) fn kept(&self) -> usize {
        self.pending.len() + self.prepared.len()
    }

    pub(super) fn up(&mut self, bytes: &[u8]) -> Up {
        if let Some(pass) = self.up.rest(bytes) {
            return Up::Pass(pass);
        }
        let Some(head) = Head::read(bytes) else { return Up::More };
        if self.up.full {
            return Up::Pass(self.up.begin(&head, bytes));
        }
        match self.phase {
            Phase::Greeting => Up::Lost("the client spoke before the server's greeting".to_owned()),
            Phase::Login => self.login(&head, bytes),
            Phase::Proof => Up::Pass(self.up.begin(&head, bytes)),
            Phase::Command if self.infile => {
                self.infile = head.length > 0;
                Up::Pass(self.up.begin(&head, bytes))
            }
            Phase::Command => self.command(&head, bytes),
        }
    }

    fn login(&mut self, head: &Head, bytes: &[u8]) -> Up {
        if head.number != 1 {
            let number = head.number;
            return Up::Lost(format!(
                "the client's login is no MySQL packet (number {number}, expected 1)"
            ));
        }
        let Some(content) = head.content(bytes, 32) else { return Up::More };
        let Some(capabilities) = content.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
        else {
            return Up::Lost("the client's login packet is too short for MySQL".to_owned());
        };
        if capabilities & CLIENT_SSL != 0 && head.length <= 32 {
            return Up::Lost(
                "the client goes over to TLS (`--ssl-mode=DISABLED`, `--skip-ssl` keep it from \
                 that)"
                    .to_owned(),
            );
        }
        self.deprecate_eof = capabilities & CLIENT_DEPRECATE_EOF != 0;
        let of_mariadb = content
            .get(28..32)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |b| u32::from_le_bytes(*b));
        self.cached_columns = capabilities & CLIENT_MYSQL == 0 && of_mariadb & CACHE_METADATA != 0;
        self.phase = Phase::Proof;
        Up::Pass(self.up.begin(head, bytes))
    }

    fn command(&mut self, head: &Head, bytes: &[u8]) -> Up {
        if head.number != 0 {
            let number = head.number;
            return Up::Lost(format!(
                "the client's packet is no MySQL command (number {number}, expected 0)"
            ));
        }
        let Some(content) = head.content(bytes, STATEMENT_SEEN) else { return Up::More };
        let Some((code, rest)) = content.split_first() else {
            return Up::Lost("the client sent an empty MySQL command".to_owned());
        };
        if self.pending.len() >= PENDING {
            return Up::Lost(format!("the client sent {PENDING} commands without waiting"));
        }
        let mut statement = false;
        let mut text = None;
        let answer = match code {
            // QUIT and STMT_SEND_LONG_DATA have no answer.
            0x01 | 0x18 => return Up::Aside(self.up.begin(head, bytes)),
            0x19 => {
                self.prepared.remove(&statement_number(rest));
                return Up::Aside(self.up.begin(head, bytes));
            }
            0x03 => {
                (statement, text) = (true, Some(seen(rest)));
                Answer::Result
            }
            0x17 | 0xfa => {
                (statement, text) = (true, self.prepared.get(&statement_number(rest)).cloned());
                Answer::Result
            }
            0x0a => Answer::Result,
            0x16 => {
                text = Some(seen(rest));
                Answer::Prepare
            }
            0x04 => Answer::Rows,
            0x1c => Answer::Rows,
            0x11 => Answer::Proof,
            0x12 | 0x13 | 0x1e => return Up::Lost("the client replicates".to_owned()),
            // PING, INIT_DB, STATISTICS, STMT_RESET, SET_OPTION, RESET_CONNECTION and commands the
            // server does not know.
            _ => Answer::Single,
        };
        let kept = text.clone().filter(|_| !statement);
        self.pending.push_back(Pending { answer, statement, begun: false, text: kept });
        let pass = self.up.begin(head, bytes);
        if statement { Up::Request(pass, text) } else { Up::Aside(pass) }
    }

    pub(super) fn down(&mut self, bytes: &mut [u8]) -> Down {
        if let Some(length) = self.down.rest(bytes) {
            // The answer ends with the last byte of its last packet.
            return Down::Pass { length, begins: false, ends: self.ended_whole() };
        }
        let Some(head) = Head::read(bytes) else { return Down::More };
        if self.down.full {
            let length = self.down.begin(&head, bytes);
            return Down::Pass { length, begins: false, ends: self.ended_whole() };
        }
        match self.phase {
            Phase::Greeting => self.greeting(&head, bytes),
            Phase::Login | Phase::Proof => self.proof(&head, bytes),
            Phase::Command => self.answer(&head, bytes),
        }
    }

    fn greeting(&mut self, head: &Head, bytes: &mut [u8]) -> Down {
        if head.length > GREETING || head.number != 0 {
            return Down::Lost("the server greets as no MySQL does".to_owned());
        }
        if bytes.len() < 4 + head.length {
            return Down::More;
        }
        let content = &mut bytes[4..4 + head.length];
        match content.first() {
            Some(10) => {}
            // The server refuses this client.
            Some(0xff) => return Down::pass(self.down.begin(head, bytes)),
            _ => {
                return Down::Lost(
                    "the server speaks another version of MySQL's protocol than 10".to_owned(),
                );
            }
        }
        // After the version's text: a thread's number (4 bytes), the first part of a challenge (8)
        // and a zero.
        let lower = memchr::memchr(0, &content[1..]).map(|end| 1 + end + 1 + 4 + 8 + 1);
        let Some(lower) = lower.filter(|lower| lower + 2 <= content.len()) else {
            return Down::Lost("the server's greeting is too short".to_owned());
        };
        content[lower] &= !(CLIENT_COMPRESS as u8);
        // They are followed by a character set and a status.
        if let Some(byte) = content.get_mut(lower + 2 + 1 + 2 + 1) {
            *byte &= !((CLIENT_ZSTD >> 24) as u8);
        }
        self.phase = Phase::Login;
        Down::pass(self.down.begin(head, bytes))
    }

    fn proof(&mut self, head: &Head, bytes: &[u8]) -> Down {
        let Some(content) = head.content(bytes, 1) else { return Down::More };
        if content.first() == Some(&0) {
            self.phase = Phase::Command;
            // COM_CHANGE_USER makes a new session. At a first login nothing is pending.
            self.pending.pop_front();
            self.prepared.clear();
        } else if content.first() == Some(&0xff) && self.pending.pop_front().is_some() {
            self.phase = Phase::Command;
        }
        Down::pass(self.down.begin(head, bytes))
    }

    fn answer(&mut self, head: &Head, bytes: &[u8]) -> Down {
        let Some(content) = head.content(bytes, Answer::SEEN) else { return Down::More };
        let Some(first) = self.pending.front_mut() else {
            // A server that shuts down sends this without a request.
            return Down::pass(self.down.begin(head, bytes));
        };
        if matches!(first.answer, Answer::Proof) {
            self.phase = Phase::Proof;
            return self.proof(head, bytes);
        }
        if let (Answer::Prepare, [0, number @ ..], Some(text)) =
            (&first.answer, content, first.text.take())
            && self.prepared.len() < PREPARED
        {
            self.prepared.insert(statement_number(number), text);
        }
        let begins = first.statement && !std::mem::replace(&mut first.begun, true);
        match first.answer.packet(content, head.length, self.deprecate_eof, self.cached_columns) {
            Step::On => {}
            Step::File => self.infile = true,
            Step::End => first.answer = Answer::Ended,
            Step::Wrong(why) => return Down::Lost(why.to_owned()),
        }
        let length = self.down.begin(head, bytes);
        Down::Pass { length, begins, ends: self.ended_whole() }
    }

    /// Removes the oldest command if all of its answer was forwarded; returns 1 if it was a
    /// statement.
    fn ended_whole(&mut self) -> usize {
        let over = matches!(self.pending.front(), Some(Pending { answer: Answer::Ended, .. }));
        if !over || self.down.left > 0 || self.down.full {
            return 0;
        }
        self.pending.pop_front().map_or(0, |command| usize::from(command.statement))
    }
}

fn statement_number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
}
