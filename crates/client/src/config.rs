//! What a client is made of, with defaults and bounds.

use std::{collections::HashSet, time::Duration};

use crate::{
    Address, ConfigError, Server, SharedConnector,
    placement::{MAX_REPLICAS, Placement},
};

/// Most servers of a fleet, spares included.
pub const MAX_SERVERS: usize = 1024;
/// Longest prefix, bytes: some of the 250 bytes of a key must be left.
pub const MAX_PREFIX: usize = 200;
/// Most connections to one server.
pub const MAX_CONNECTIONS: usize = 16;

/// What a client is made of. `Config::new(servers)` has sane values everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The fleet. The order is part of some distributions.
    pub servers: Vec<Server>,
    /// Which key is on which server.
    pub placement: Placement,
    /// Makes the connections, for TLS for example; `None`: they are plain.
    pub connector: Option<SharedConnector>,
    /// How servers are spoken to.
    pub protocol: Protocol,
    /// Who the client says it is.
    pub auth: Option<Auth>,
    /// Stands before every key on its way to the server.
    pub prefix: Vec<u8>,
    /// Whether the prefix takes part in placement. libmemcached's default is that it does not.
    pub hash_prefix: bool,
    /// Connections to each server, 1 to [`MAX_CONNECTIONS`]. One carries hundreds of thousands of small operations a second;
    /// a second one keeps small answers from waiting behind large ones.
    pub connections: usize,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// What a failure costs a server.
    pub failure: Failure,
    /// On how many servers each item is written, 1 to the number of servers and at most
    /// [`MAX_REPLICAS`](crate::placement::MAX_REPLICAS). Reading asks the first of them that is up, and
    /// the next when that fails. A miss is an answer: it is not asked further, so that nothing deleted comes back.
    pub replicas: usize,
    /// Servers that take the place of one that is down, with its very keys, until it is back.
    pub spares: Vec<Server>,
    /// Largest value that is sent, bytes; the servers' `-I` (1 MiB by default) less the item's head. Larger ones are refused
    /// before anything is sent ([`Error::TooLarge`](crate::Error::TooLarge)).
    pub max_item: usize,
    /// Most bytes of requests that wait for their answers on one connection; every request counts at least 1 KiB. Above it
    /// an operation waits as long as a write may take, and then is [`Error::Busy`](crate::Error::Busy).
    pub queue: usize,
}

/// How servers are spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The meta commands where the server has them, else text; binary with [`Auth::SaslPlain`].
    #[default]
    Auto,
    /// The text protocol every server and proxy speaks.
    Text,
    /// The meta commands of memcached 1.6.
    Meta,
    /// The binary protocol of memcached 1.4 and later.
    Binary,
}

/// Who the client says it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// For servers started with `-Y FILE`; text and meta.
    Ascii {
        /// Without blanks and colons.
        user: String,
        /// Without blanks.
        password: String,
    },
    /// For servers started with `-S`; binary.
    SaslPlain {
        /// Without NUL.
        user: String,
        /// Without NUL.
        password: String,
    },
}

/// Without the password.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Auth::Ascii { user, .. } => f.debug_struct("Ascii").field("user", user).finish_non_exhaustive(),
            Auth::SaslPlain { user, .. } => {
                f.debug_struct("SaslPlain").field("user", user).finish_non_exhaustive()
            }
        }
    }
}

/// How long things may take. To the microsecond here; the runtime's timer rounds up to the next millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection stands and has been greeted.
    pub connect: Duration,
    /// Without a byte, while answers are awaited; a single answer may take ten times this in all.
    pub read: Duration,
    /// Without a byte taken by the server, while there are some to send; and for room in the queue.
    pub write: Duration,
}

/// 250 ms to connect, 500 ms each to read and to write: a network that is well needs a hundredth.
impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_millis(250),
            read: Duration::from_millis(500),
            write: Duration::from_millis(500),
        }
    }
}

/// What a failure costs a server. A failure is a connection that could not be made or broke with answers awaited, or an answer
/// that did not come in time; it is counted once per connection, however many operations waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// So many failures in a row, and the server is down.
    pub limit: u32,
    /// Where the keys of a server that is down go.
    pub eject: Eject,
    /// The first pause before a server that is down is probed; it doubles with every probe that fails. Each is shortened by
    /// up to a quarter at random, so that many clients do not ask at once.
    pub retry_min: Duration,
    /// The longest pause.
    pub retry_max: Duration,
    /// A server that has been up for so long begins again with the shortest pause; one that fails earlier (that flaps) goes
    /// on where its pauses were.
    pub calm: Duration,
}

/// Down at the first failure; probed after 250 ms, 500 ms, ... 30 s; calm after 30 s.
impl Default for Failure {
    fn default() -> Failure {
        Failure {
            limit: 1,
            eject: Eject::No,
            retry_min: Duration::from_millis(250),
            retry_max: Duration::from_secs(30),
            calm: Duration::from_secs(30),
        }
    }
}

/// Where the keys of a server that is down go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eject {
    /// Nowhere: operations on them are [`Error::Down`](crate::Error::Down) at once. Nothing stale can come back.
    #[default]
    No,
    /// To the servers that are left, as libmemcached's `AUTO_EJECT_HOSTS`: see [`Ring::living`](crate::Ring::living). What was
    /// stored elsewhere while the server was away is behind when it is back.
    Rehash,
}

impl Config {
    /// These servers, and defaults for everything else.
    pub fn new(servers: impl Into<Vec<Server>>) -> Config {
        Config {
            servers: servers.into(),
            placement: Placement::default(),
            connector: None,
            protocol: Protocol::default(),
            auth: None,
            prefix: Vec::new(),
            hash_prefix: false,
            connections: 1,
            timeouts: Timeouts::default(),
            failure: Failure::default(),
            replicas: 1,
            spares: Vec::new(),
            max_item: (1 << 20) - 512,
            queue: 16 << 20,
        }
    }

    /// Whether a client can be made of it.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let count = self.servers.len() + self.spares.len();
        if self.servers.is_empty() {
            return Err(ConfigError::NoServer);
        }
        if count > MAX_SERVERS {
            return Err(ConfigError::TooManyServers(count));
        }
        let mut seen: HashSet<&Address> = HashSet::new();
        if let Some(twice) = self.servers.iter().chain(&self.spares).find(|s| !seen.insert(&s.address)) {
            return Err(ConfigError::Twice(twice.address.clone()));
        }
        if self.prefix.len() > MAX_PREFIX || self.prefix.iter().any(|b| *b <= b' ' || *b == 0x7f) {
            return Err(ConfigError::Prefix);
        }
        let second = Duration::from_secs(1);
        let times = [self.timeouts.connect, self.timeouts.read, self.timeouts.write];
        let failure = &self.failure;
        range("weight", "at least 1", self.servers.iter().all(|s| s.weight > 0))?;
        range("connections", "1 to 16", (1..=MAX_CONNECTIONS).contains(&self.connections))?;
        let most = self.servers.len().min(MAX_REPLICAS);
        range("replicas", "1 to the number of servers, at most 8", (1..=most).contains(&self.replicas))?;
        range("max_item", "1 byte to 1 GiB", (1..=1 << 30).contains(&self.max_item))?;
        range("queue", "64 KiB to 4 GiB", (64 << 10..=4 << 30).contains(&self.queue))?;
        range("failure.limit", "at least 1", failure.limit > 0)?;
        range("timeouts", "1 us to an hour", times.iter().all(|t| !t.is_zero() && *t <= second * 3600))?;
        let pauses = !failure.retry_min.is_zero()
            && failure.retry_min <= failure.retry_max
            && failure.retry_max <= second * 86400;
        range("failure.retry_min", "above 0, at most failure.retry_max, and that at most a day", pauses)?;
        self.check_auth()
    }

    fn check_auth(&self) -> Result<(), ConfigError> {
        let refuse = |why| Err(ConfigError::Auth(why));
        match &self.auth {
            None => Ok(()),
            Some(Auth::Ascii { .. }) if self.protocol == Protocol::Binary => {
                refuse("servers that take a password file speak no binary")
            }
            Some(Auth::Ascii { user, password }) => {
                let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
                if !plain(user) || !plain(password) || user.contains(':') || user.len() + password.len() > 250
                {
                    return refuse("expected user and password of visible ASCII, 250 bytes together");
                }
                Ok(())
            }
            Some(Auth::SaslPlain { .. }) if matches!(self.protocol, Protocol::Text | Protocol::Meta) => {
                refuse("SASL needs the binary protocol")
            }
            Some(Auth::SaslPlain { user, password }) => {
                let plain = |text: &str| !text.is_empty() && text.len() <= 250 && !text.contains('\0');
                if !plain(user) || !plain(password) {
                    return refuse("expected user and password of 1 to 250 bytes without NUL");
                }
                Ok(())
            }
        }
    }
}

fn range(name: &'static str, expected: &'static str, holds: bool) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Range { name, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new([Server::tcp("a", 1), Server::tcp("b", 2)])
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(config().check(), Ok(()));
    }

    #[test]
    fn each_bound_holds() {
        type Change = fn(&mut Config);
        let faults: &[(&str, Change)] = &[
            ("no server", |c| c.servers.clear()),
            ("twice", |c| c.servers.push(Server::tcp("a", 1))),
            ("spare twice", |c| c.spares.push(Server::tcp("a", 1))),
            ("weight", |c| c.servers[0].weight = 0),
            ("prefix blank", |c| c.prefix = b"a b".to_vec()),
            ("prefix long", |c| c.prefix = vec![b'a'; MAX_PREFIX + 1]),
            ("connections", |c| c.connections = 0),
            ("replicas", |c| c.replicas = 3),
            ("item", |c| c.max_item = 0),
            ("queue", |c| c.queue = 1),
            ("limit", |c| c.failure.limit = 0),
            ("read", |c| c.timeouts.read = Duration::ZERO),
            ("retry", |c| c.failure.retry_min = c.failure.retry_max * 2),
        ];
        for (name, change) in faults {
            let mut config = config();
            change(&mut config);
            assert!(config.check().is_err(), "{name}");
        }
    }

    #[test]
    fn passwords_go_with_their_protocol_and_are_not_shown() {
        let ascii = Auth::Ascii { user: "larder".into(), password: "secret".into() };
        let sasl = Auth::SaslPlain { user: "larder".into(), password: "secret".into() };
        assert!(!format!("{ascii:?}{sasl:?}").contains("secret"));
        let check = |auth: &Auth, protocol| Config { auth: Some(auth.clone()), protocol, ..config() }.check();
        assert!(check(&ascii, Protocol::Auto).is_ok() && check(&sasl, Protocol::Auto).is_ok());
        assert!(check(&ascii, Protocol::Binary).is_err() && check(&sasl, Protocol::Meta).is_err());
        let blank = Auth::Ascii { user: "a b".into(), password: "x".into() };
        assert!(check(&blank, Protocol::Auto).is_err());
    }
}
