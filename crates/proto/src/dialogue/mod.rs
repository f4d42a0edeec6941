//! Finds where requests begin and answers end, for a proxy between a client and a server.
//!
//! Nothing is copied and nothing but a login is changed. A reader that does not understand the
//! bytes does not end the connection: it reports it ([`Up::Lost`], [`Down::Lost`]), and from then
//! on requests are recognised by the change of direction ([`Turns`]).

mod http;
mod http_body;
mod mysql;
mod mysql_answer;
mod postgres;
#[cfg(test)]
mod tests;

pub use http::Http;
pub use mysql::Mysql;
pub use postgres::Postgres;

use std::sync::Arc;

/// Bytes of a statement that are examined: enough for any expression to choose by, and little
/// compared to the bytes that wait to be sent.
pub const STATEMENT_SEEN: usize = 4096;
/// Most bytes that a reader may ask for before it decides: the longest login, HTTP head, or
/// examined part of a statement.
pub const NEEDED: usize = 64 * 1024;

/// Most items that a reader keeps for a connection; see [`Dialect::kept`]. PostgreSQL's number is
/// the largest.
pub const KEPT: usize = postgres::PENDING + 2 * postgres::PREPARED;

/// Action for bytes from the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Up {
    /// More are needed.
    More,
    /// Forward this many bytes; they belong to the request before them.
    Pass(usize),
    /// Forward this many bytes; they belong to no request, nor do the passed bytes after them.
    Aside(usize),
    /// Forward this many bytes; a request begins with the first of them.
    Request(usize, Option<Arc<str>>),
    /// Do not forward this many bytes; answer them with this.
    Answer(usize, &'static [u8]),
    /// This is not the protocol, or it can no longer be read; the text gives the reason.
    Lost(String),
}

/// Action for bytes from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Down {
    /// More are needed.
    More,
    /// Forward bytes.
    Pass {
        /// Number of bytes.
        length: usize,
        /// The first of them begins the answer to the oldest request that had none.
        begins: bool,
        /// After the last of them this many of the oldest requests are answered.
        ends: usize,
    },
    /// This is not the protocol, or it can no longer be read; the text gives the reason.
    Lost(String),
}

impl Down {
    pub(super) fn pass(length: usize) -> Down {
        Down::Pass { length, begins: false, ends: 0 }
    }
}

/// A connection, read as one protocol.
pub enum Dialect {
    /// Any protocol, by the change of direction.
    Turns(Turns),
    /// HTTP/1.
    Http(Box<Http>),
    /// MySQL and MariaDB.
    Mysql(Box<Mysql>),
    /// PostgreSQL.
    Postgres(Box<Postgres>),
}

impl Dialect {
    /// HTTP/1. Like all of these, from the beginning of a connection.
    pub fn http() -> Dialect {
        Dialect::Http(Box::default())
    }

    /// MySQL and MariaDB.
    pub fn mysql() -> Dialect {
        Dialect::Mysql(Box::default())
    }

    /// PostgreSQL.
    pub fn postgres() -> Dialect {
        Dialect::Postgres(Box::default())
    }

    /// Any protocol, from any point of a connection. `asked`: the server has not answered the last
    /// request.
    pub fn turns(asked: bool) -> Dialect {
        Dialect::Turns(Turns::behind(asked))
    }

    /// Reads bytes from the client that were not forwarded yet; at least one.
    pub fn up(&mut self, bytes: &[u8]) -> Up {
        match self {
            Dialect::Turns(turns) => turns.up(bytes.len()),
            Dialect::Http(http) => http.up(bytes),
            Dialect::Mysql(mysql) => mysql.up(bytes),
            Dialect::Postgres(postgres) => postgres.up(bytes),
        }
    }

    /// Reads bytes from the server that were not forwarded yet; at least one. A login may be
    /// changed in place.
    pub fn down(&mut self, bytes: &mut [u8]) -> Down {
        match self {
            Dialect::Turns(turns) => turns.down(bytes.len()),
            Dialect::Http(http) => http.down(bytes),
            Dialect::Mysql(mysql) => mysql.down(bytes),
            Dialect::Postgres(postgres) => postgres.down(bytes),
        }
    }

    /// The server closed its side. Returns how many of the oldest requests are answered by that.
    pub fn server_ended(&mut self) -> usize {
        match self {
            Dialect::Http(http) => http.server_ended(),
            Dialect::Turns(_) | Dialect::Mysql(_) | Dialect::Postgres(_) => 0,
        }
    }

    /// Whether it recognises the end of an answer; otherwise an answer has ended when the next
    /// request begins.
    pub fn knows_ends(&self) -> bool {
        !matches!(self, Dialect::Turns(_))
    }

    /// Number of kept items (commands without answers, prepared statements and portals): at most
    /// [`KEPT`], except for HTTP's requests, which [`Dialect::most`] bounds.
    pub fn kept(&self) -> usize {
        match self {
            Dialect::Turns(_) => 0,
            Dialect::Http(http) => http.kept(),
            Dialect::Mysql(mysql) => mysql.kept(),
            Dialect::Postgres(postgres) => postgres.kept(),
        }
    }

    /// Most open requests of a connection; further bytes of the client must wait.
    pub fn most(&self) -> usize {
        match self {
            // The next request begins only when the server has answered: there is one.
            Dialect::Turns(_) => usize::MAX,
            Dialect::Http(_) => http::PIPELINED,
            // A statement may have a companion: the message that prepares it, or a Sync.
            Dialect::Mysql(_) => mysql::PENDING / 2,
            Dialect::Postgres(_) => postgres::PENDING / 2,
        }
    }
}

/// Any protocol whose two sides take turns: bytes from the client after bytes from the server are a
/// request.
#[derive(Debug, Default)]
pub struct Turns {
    asked: bool,
    answering: bool,
}

impl Turns {
    /// For the rest of a connection. `asked`: the server has not begun to answer.
    pub(super) fn behind(asked: bool) -> Turns {
        Turns { asked, answering: false }
    }

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

/// The text of a statement, as far as it is examined.
fn seen(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(STATEMENT_SEEN)]).into()
}
