//! The client's configuration, with defaults and bounds.

use std::{collections::HashSet, time::Duration};

use crate::{
    Address, ConfigError, Server, SharedConnector,
    placement::{MAX_REPLICAS, Placement},
};

/// Most servers of a fleet, spares included.
pub const MAX_SERVERS: usize = 1024;
/// Longest prefix in bytes; the rest of the 250 bytes of a key must suffice for the key itself.
pub const MAX_PREFIX: usize = 200;
/// Most connections to one server.
pub const MAX_CONNECTIONS: usize = 16;

/// The client's configuration. `Config::new(servers)` sets defaults for everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The servers of the fleet. Some distributions depend on their order.
    pub servers: Vec<Server>,
    /// Maps keys to servers.
    pub placement: Placement,
    /// Makes connections, for example with TLS; `None` means plain connections.
    pub connector: Option<SharedConnector>,
    /// The protocol to speak with the servers.
    pub protocol: Protocol,
    /// Credentials sent on each connection.
    pub auth: Option<Auth>,
    /// Prepended to every key sent to a server.
    pub prefix: Vec<u8>,
    /// Whether the prefix is hashed for placement. It is not by default, as in libmemcached.
    pub hash_prefix: bool,
    /// Connections to each server, 1 to [`MAX_CONNECTIONS`]. One carries hundreds of thousands of
    /// small operations a second; with a second one, small answers do not wait behind large ones.
    pub connections: usize,
    /// Time limits.
    pub timeouts: Timeouts,
    /// When a failing server is taken out of use, and for how long.
    pub failure: Failure,
    /// Number of servers each item is written to: 1 to the number of servers, at most
    /// [`MAX_REPLICAS`](crate::placement::MAX_REPLICAS). A read asks the first of them that is up,
    /// and the next if that fails. A miss is an answer: the other replicas are not asked, so a
    /// deleted item cannot reappear.
    pub replicas: usize,
    /// Servers that replace one that is down, for exactly its keys, until it is back.
    pub spares: Vec<Server>,
    /// Largest value that is sent, in bytes: the servers' `-I` (1 MiB by default) minus the item
    /// header. Larger values are rejected before sending
    /// ([`Error::TooLarge`](crate::Error::TooLarge)).
    pub max_item: usize,
    /// Limit for requests that wait for answers on one connection, in bytes; each request counts at
    /// least 1 KiB. Above it an operation waits up to the write timeout and then fails with
    /// [`Error::Busy`](crate::Error::Busy).
    pub queue: usize,
}

/// The protocol to speak with the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Meta commands if the server supports them, else text; binary with [`Auth::SaslPlain`].
    #[default]
    Auto,
    /// The text protocol every server and proxy speaks.
    Text,
    /// The meta commands of memcached 1.6.
    Meta,
    /// The binary protocol of memcached 1.4 and later.
    Binary,
}

/// Credentials of the client.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// For servers started with `-Y FILE`; text and meta.
    Ascii {
        /// Contains no blanks or colons.
        user: String,
        /// Contains no blanks.
        password: String,
    },
    /// For servers started with `-S`; binary.
    SaslPlain {
        /// Contains no NUL.
        user: String,
        /// Contains no NUL.
        password: String,
    },
}

/// Omits the password.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Auth::Ascii { user, .. } => {
                f.debug_struct("Ascii").field("user", user).finish_non_exhaustive()
            }
            Auth::SaslPlain { user, .. } => {
                f.debug_struct("SaslPlain").field("user", user).finish_non_exhaustive()
            }
        }
    }
}

/// Time limits, in microseconds at the finest; the runtime's timer rounds up to the next
/// millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect and complete the handshake.
    pub connect: Duration,
    /// Without receiving a byte while answers are awaited. A single answer may take ten times this
    /// in total.
    pub read: Duration,
    /// Without the server accepting a byte while there are bytes to send; also for room in the
    /// queue.
    pub write: Duration,
}

/// 250 ms to connect, 500 ms each to read and to write: a healthy network needs a hundredth of
/// that.
impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_millis(250),
            read: Duration::from_millis(500),
            write: Duration::from_millis(500),
        }
    }
}

/// Handling of failures. A failure is a connection that could not be made or broke while answers
/// were awaited, or an answer that timed out. It counts once per connection, however many
/// operations waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Consecutive failures after which the server is down.
    pub limit: u32,
    /// Where the keys of a down server go.
    pub eject: Eject,
    /// First pause before a down server is probed; it doubles with every failed probe. Each pause
    /// is shortened by up to a quarter at random, so that many clients do not probe at once.
    pub retry_min: Duration,
    /// Longest pause between probes.
    pub retry_max: Duration,
    /// After this long up, the pauses of a server restart at `retry_min`; a server that fails
    /// earlier (flapping) continues with its last pause.
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

/// Where the keys of a down server go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eject {
    /// Nowhere: operations on them fail at once with [`Error::Down`](crate::Error::Down). No stale
    /// item can reappear.
    #[default]
    No,
    /// To the servers that are up, like libmemcached's `AUTO_EJECT_HOSTS`: see
    /// [`Ring::living`](crate::Ring::living). Items stored elsewhere during the outage are stale on
    /// the server that comes back.
    Rehash,
}

impl Config {
    /// These servers, with defaults for everything else.
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

    /// Checks that a client can be made with this configuration.
    ///
    /// # Errors
    ///
    /// The first invalid value.
    pub fn check(&self) -> Result<(), ConfigError> {
        let count = self.servers.len() + self.spares.len();
        if self.servers.is_empty() {
            return Err(ConfigError::NoServer);
        }
        if count > MAX_SERVERS {
            return Err(ConfigError::TooManyServers(count));
        }
        let mut seen: HashSet<&Address> = HashSet::new();
        if let Some(twice) =
            self.servers.iter().chain(&self.spares).find(|s| !seen.insert(&s.address))
        {
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
        range(
            "replicas",
            "1 to the number of servers, at most 8",
            (1..=most).contains(&self.replicas),
        )?;
        range("max_item", "1 byte to 1 GiB", (1..=1 << 30).contains(&self.max_item))?;
        range("queue", "64 KiB to 4 GiB", (64 << 10..=4 << 30).contains(&self.queue))?;
        range("failure.limit", "at least 1", failure.limit > 0)?;
        range(
            "timeouts",
            "1 us to an hour",
            times.iter().all(|t| !t.is_zero() && *t <= second * 3600),
        )?;
        let pauses = !failure.retry_min.is_zero()
            && failure.retry_min <= failure.retry_max
            && failure.retry_max <= second * 86400;
        range(
            "failure.retry_min",
            "above 0, at most failure.retry_max, and that at most a day",
            pauses,
        )?;
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
                let plain =
                    |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
                if !plain(user)
                    || !plain(password)
                    || user.contains(':')
                    || user.len() + password.len() > 250
                {
                    return refuse(
                        "expected user and password of visible ASCII, 250 bytes together",
                    );
                }
                Ok(())
            }
            Some(Auth::SaslPlain { .. })
                if matches!(self.protocol, Protocol::Text | Protocol::Meta) =>
            {
                refuse("SASL needs the binary protocol")
            }
            Some(Auth::SaslPlain { user, password }) => {
                let plain =
                    |text: &str| !text.is_empty() && text.len() <= 250 && !text.contains('\0');
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
        let check = |auth: &Auth, protocol| {
            Config { auth: Some(auth.clone()), protocol, ..config() }.check()
        };
        assert!(check(&ascii, Protocol::Auto).is_ok() && check(&sasl, Protocol::Auto).is_ok());
        assert!(check(&ascii, Protocol::Binary).is_err() && check(&sasl, Protocol::Meta).is_err());
        let blank = Auth::Ascii { user: "a b".into(), password: "x".into() };
        assert!(check(&blank, Protocol::Auto).is_err());
    }
}
