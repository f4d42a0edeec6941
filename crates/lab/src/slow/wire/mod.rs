//! Where requests begin and answers end, in each protocol. Pure: bytes come in, and what to do with them goes out.
//!
//! Nothing is copied and nothing but a login is changed. What a reader does not understand ends its knowledge, not the
//! connection: it says so ([`Up::Lost`], [`Down::Lost`]), and from then on requests are told by who speaks ([`Turns`]).

mod http;
mod mysql;
mod mysql_answer;
mod postgres;
#[cfg(test)]
mod tests;

pub(super) use http::Http;
pub(super) use mysql::Mysql;
pub(super) use postgres::Postgres;

use super::Protocol;

/// Bytes of a statement that are looked at: enough for any expression to choose by, and little beside what waits to be sent.
pub const STATEMENT_SEEN: usize = 4096;
/// Most bytes that a reader may ask for before it decides: the longest of a login, an HTTP head, or a statement as far as it is seen.
pub const NEEDED: usize = 64 * 1024;

/// What to do with bytes from the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Up {
    /// More are needed.
    More,
    /// So many go on.
    Pass(usize),
    /// So many go on, and with the first of them a request begins.
    Request(usize, Option<String>),
    /// So many go no further; they are answered with this.
    Answer(usize, &'static [u8]),
    /// This is not the protocol, or can no longer be read: why.
    Lost(String),
}

/// What to do with bytes from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Down {
    /// More are needed.
    More,
    /// So many go on.
    Pass {
        /// How many.
        length: usize,
        /// With the first of them the answer begins, to the oldest request that had none.
        begins: bool,
        /// After the last of them so many of the oldest requests are answered.
        ends: usize,
    },
    /// This is not the protocol, or can no longer be read: why.
    Lost(String),
}

impl Down {
    pub(super) fn pass(length: usize) -> Down {
        Down::Pass { length, begins: false, ends: 0 }
    }
}

/// A connection as one protocol reads it.
pub enum Dialect {
    /// By who speaks.
    Turns(Turns),
    /// HTTP/1.
    Http(Box<Http>),
    /// MySQL and MariaDB.
    Mysql(Box<Mysql>),
    /// PostgreSQL.
    Postgres(Box<Postgres>),
}

impl Dialect {
    /// A new connection.
    pub fn new(protocol: Protocol) -> Dialect {
        match protocol {
            // Their clients speak in turns; a pipelined batch is one request.
            Protocol::Tcp | Protocol::Memcached | Protocol::Redis => Dialect::Turns(Turns::default()),
            Protocol::Http => Dialect::Http(Box::default()),
            Protocol::Mysql => Dialect::Mysql(Box::default()),
            Protocol::Postgres => Dialect::Postgres(Box::default()),
        }
    }

    /// Bytes from the client that have not gone on yet; at least one.
    pub fn up(&mut self, bytes: &[u8]) -> Up {
        match self {
            Dialect::Turns(turns) => turns.up(bytes.len()),
            Dialect::Http(http) => http.up(bytes),
            Dialect::Mysql(mysql) => mysql.up(bytes),
            Dialect::Postgres(postgres) => postgres.up(bytes),
        }
    }

    /// Bytes from the server that have not gone on yet; at least one. A login may be changed in place.
    pub fn down(&mut self, bytes: &mut [u8]) -> Down {
        match self {
            Dialect::Turns(turns) => turns.down(bytes.len()),
            Dialect::Http(http) => http.down(bytes.len()),
            Dialect::Mysql(mysql) => mysql.down(bytes),
            Dialect::Postgres(postgres) => postgres.down(bytes),
        }
    }

    /// Whether it says where answers end; else an answer has ended when the next request begins.
    pub fn knows_ends(&self) -> bool {
        matches!(self, Dialect::Mysql(_) | Dialect::Postgres(_))
    }
}

/// Any protocol whose two sides speak in turns: what a client says after the server spoke is a request.
#[derive(Debug, Default)]
pub struct Turns {
    asked: bool,
    answering: bool,
}

impl Turns {
    fn up(&mut self, length: usize) -> Up {
        if self.asked && !self.answering {
            return Up::Pass(length);
        }
        (self.asked, self.answering) = (true, false);
        Up::Request(length, None)
    }

    fn down(&mut self, length: usize) -> Down {
        let begins = self.asked && !self.answering;
        self.answering = true;
        Down::Pass { length, begins, ends: 0 }
    }
}

/// A text of a statement, as far as it is looked at.
fn seen(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(STATEMENT_SEEN)]).into_owned()
}
