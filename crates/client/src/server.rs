//! A server of a fleet: its address and its share of the keys.

use std::path::PathBuf;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Host name, IPv4 or IPv6 literal (without brackets), and port.
    Tcp(String, u16),
    /// The path of a unix socket.
    Unix(PathBuf),
}

/// `10.0.0.1:11211`, `[::1]:11211`, `unix:/run/m.sock`.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A server of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: Address,
    /// Share of the keys relative to the other servers, at least 1. Ignored by distributions
    /// without weights.
    pub weight: u32,
    /// Name used to place its keys, if other clients use one (twemproxy's aliases, spymemcached's
    /// `host/ip:port`); `None`: the name each distribution derives from the address.
    pub name: Option<String>,
}

/// Default port of a server.
pub const DEFAULT_PORT: u16 = 11211;

/// Why the text of a server is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} in server {server:?}; expected HOST[:PORT], [IPV6][:PORT] or unix:PATH, then weight=N \
     and name=NAME if wanted"
)]
pub struct ServerError {
    server: String,
    what: &'static str,
}

impl Server {
    /// A TCP server with weight 1.
    pub fn tcp(host: impl Into<String>, port: u16) -> Server {
        Server { address: Address::Tcp(host.into(), port), weight: 1, name: None }
    }

    /// A server on a unix socket with weight 1.
    pub fn unix(path: impl Into<PathBuf>) -> Server {
        Server { address: Address::Unix(path.into()), weight: 1, name: None }
    }

    /// Parses `HOST[:PORT]`, `[IPV6][:PORT]`, `IPV6` (more than one colon) or `unix:PATH`, followed
    /// by `weight=N` and `name=NAME` in any order, separated by blanks.
    pub fn parse(text: &str) -> Result<Server, ServerError> {
        let fault = |what| ServerError { server: text.to_owned(), what };
        let mut words = text.split_ascii_whitespace();
        let address = address(words.next().unwrap_or_default()).map_err(fault)?;
        let mut server = Server { address, weight: 1, name: None };
        for word in words {
            match word.split_once('=') {
                Some(("weight", weight)) => {
                    let weight = weight.parse().ok().filter(|weight| *weight > 0);
                    server.weight = weight.ok_or_else(|| fault("bad weight"))?;
                }
                Some(("name", name)) if !name.is_empty() => server.name = Some(name.to_owned()),
                _ => return Err(fault("unknown word")),
            }
        }
        Ok(server)
    }
}

fn address(text: &str) -> Result<Address, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        return if path.is_empty() { Err("no path") } else { Ok(Address::Unix(path.into())) };
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("no closing bracket")?;
            (
                host,
                if after.is_empty() {
                    None
                } else {
                    Some(after.strip_prefix(':').ok_or("bad port")?)
                },
            )
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("no host");
    }
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("bad port")?,
        None => DEFAULT_PORT,
    };
    Ok(Address::Tcp(host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_as_people_write_them() {
        for (text, address, weight, name) in [
            ("10.0.0.1", Address::Tcp("10.0.0.1".into(), 11211), 1, None),
            (
                "cache1.example:11213 weight=2",
                Address::Tcp("cache1.example".into(), 11213),
                2,
                None,
            ),
            ("[::1]:11212", Address::Tcp("::1".into(), 11212), 1, None),
            ("[::1]", Address::Tcp("::1".into(), 11211), 1, None),
            ("fe80::1", Address::Tcp("fe80::1".into(), 11211), 1, None),
            (
                "unix:/run/m.sock  name=a  weight=3",
                Address::Unix("/run/m.sock".into()),
                3,
                Some("a"),
            ),
        ] {
            let name = name.map(str::to_owned);
            assert_eq!(Server::parse(text), Ok(Server { address, weight, name }), "{text}");
        }
        for text in [
            "",
            "unix:",
            ":1",
            "a:0",
            "a:x",
            "a:65536",
            "[::1",
            "[::1]x",
            "a weight=0",
            "a weight=",
            "a b=c",
            "a name=",
        ] {
            assert!(Server::parse(text).is_err(), "{text}");
        }
    }
}
