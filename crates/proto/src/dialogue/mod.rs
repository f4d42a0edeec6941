//! Where requests begin and answers end, for whoever stands between a client and a server.
//!
//! Nothing is copied and nothing but a login is changed. What a reader does not understand ends its knowledge, not the
//! connection: it says so ([`Up::Lost`], [`Down::Lost`]), and from then on requests are told by who speaks ([`Turns`]).

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

/// Bytes of a statement that are looked at: enough for any expression to choose by, and little beside what waits to be sent.
pub const STATEMENT_SEEN: usize = 4096;
/// Most bytes that a reader may ask for before it decides: the longest of a login, an HTTP head, or a statement as far as it is seen.
pub const NEEDED: usize = 64 * 1024;

/// Most that a reader keeps of a connection; see [`Dialect::kept`]. PostgreSQL's is the largest.
pub const KEPT: usize = postgres::PENDING + 2 * postgres::PREPARED;

/// What to do with bytes from the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Up {
    /// More are needed.
    More,
    /// So many go on, and belong to what came before them.
    Pass(usize),
    /// So many go on, and belong to no request; nor do those that pass behind them.
    Aside(usize),
    /// So many go on, and with the first of them a request begins.
    Request(usize, Option<Arc<str>>),
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
    /// HTTP/1, from the beginning of a connection, as all of these.
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

    /// Any protocol, from anywhere on in a connection. `asked`: the server has said nothing to the last request.
    pub fn turns(asked: bool) -> Dialect {
        Dialect::Turns(Turns::behind(asked))
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
            Dialect::Http(http) => http.down(bytes),
            Dialect::Mysql(mysql) => mysql.down(bytes),
            Dialect::Postgres(postgres) => postgres.down(bytes),
        }
    }

    /// The server has said all. Gives how many of the oldest requests are answered with that.
    pub fn server_ended(&mut self) -> usize {
        match self {
            Dialect::Http(http) => http.server_ended(),
            Dialect::Turns(_) | Dialect::Mysql(_) | Dialect::Postgres(_) => 0,
        }
    }

    /// Whether it says where answers end; else an answer has ended when the next request begins.
    pub fn knows_ends(&self) -> bool {
        !matches!(self, Dialect::Turns(_))
    }

    /// Commands without answers, and prepared statements and portals, that are kept: at most [`KEPT`], but for HTTP's requests, which
    /// [`Dialect::most`] bounds.
    pub fn kept(&self) -> usize {
        match self {
            Dialect::Turns(_) => 0,
            Dialect::Http(http) => http.kept(),
            Dialect::Mysql(mysql) => mysql.kept(),
            Dialect::Postgres(postgres) => postgres.kept(),
        }
    }

    /// Requests that may be under way on a connection; before more the client's bytes must wait.
    pub fn most(&self) -> usize {
        match self {
            // The next begins only when the server has spoken: there is one.
            Dialect::Turns(_) => usize::MAX,
            Dialect::Http(_) => http::PIPELINED,
            // A statement may have a companion: what prepares it, or a Sync.
            Dialect::Mysql(_) => mysql::PENDING / 2,
            Dialect::Postgres(_) => postgres::PENDING / 2,
        }
    }
}

/// Any protocol whose two sides speak in turns: what a client says after the server spoke is a request.
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

/// A text of a statement, as far as it is looked at.
fn seen(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(STATEMENT_SEEN)]).into()
}
