//! Addresses of servers, and the kind of server expected there.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Default port of Larder's admin API.
pub(crate) const ADMIN_PORT: u16 = 8081;
const MEMCACHED_PORT: u16 = 11211;
const REDIS_PORT: u16 = 6379;

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Larder,
    Memcached,
    Redis,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Larder => "larder",
            Kind::Memcached => "memcached",
            Kind::Redis => "redis",
        }
    }
}

/// A single place to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Host name or address without brackets, and port.
    Tcp(String, u16),
    /// The same over TLS.
    Tls(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(host, port) | Endpoint::Tls(host, port) if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            Endpoint::Tcp(host, port) | Endpoint::Tls(host, port) => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A server as named by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Candidates: more than one if no port was given; the first that answers is used.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The required kind; `None`: it is detected.
    pub(crate) kind: Option<Kind>,
    /// Token from `http://host:8081/#token=...`, the link Larder prints at start.
    pub(crate) token: Option<String>,
    /// Login from `redis://user:password@host`.
    pub(crate) redis: Option<RedisLogin>,
}

/// Login for a Redis server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisLogin {
    /// `None`: the user `default`.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl fmt::Debug for RedisLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the password.
        f.debug_struct("RedisLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

impl RedisLogin {
    /// Parses `user:password` or `:password`, percent-encoded as in URLs (RFC 3986, 3.2.1).
    fn parse(text: &str) -> Option<RedisLogin> {
        let (user, password) = text.split_once(':')?;
        let (user, password) = (decoded(user)?, decoded(password)?);
        Some(RedisLogin { user: Some(user).filter(|user| !user.is_empty()), password })
    }
}

/// Decodes percent-encoding; `None` if it is invalid.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        if !code.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

impl Address {
    /// Parses `host:port`, `host`, `:port`, `unix:/path`, `/path`, and `http://`, `https://`,
    /// `memcached://`, `redis://`, `rediss://` before the first two; `redis://:password@host`,
    /// `redis://user:password@host`.
    ///
    /// # Errors
    ///
    /// The expected form.
    pub(crate) fn parse(text: &str) -> Result<Address, String> {
        let expected = || {
            format!(
                "expected an address such as \"127.0.0.1:8081\", \"https://host:8081\", \
                 \"memcached://host:11211\", \"redis://host\" or \"unix:/run/memcached.sock\", \
                 found {text:?}"
            )
        };
        let (kind, rest) = match text.split_once("://") {
            Some(("http" | "https", rest)) => (Some(Kind::Larder), rest),
            Some(("memcached", rest)) => (Some(Kind::Memcached), rest),
            Some(("redis" | "rediss", rest)) => (Some(Kind::Redis), rest),
            Some(_) => return Err(expected()),
            None => (None, text),
        };
        let socket = match kind {
            Some(Kind::Larder) => None,
            Some(_) if rest.starts_with('/') => Some(rest),
            Some(_) => None,
            None => rest.strip_prefix("unix:").or(rest.starts_with('/').then_some(rest)),
        };
        if let Some(path) = socket {
            let endpoints = vec![Endpoint::Unix(PathBuf::from(path))];
            return if path.is_empty() {
                Err(expected())
            } else {
                Ok(Address { endpoints, kind, token: None, redis: None })
            };
        }
        let (rest, token) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, fragment.strip_prefix("token=").map(str::to_owned)),
            None => (rest, None),
        };
        let rest = if kind.is_some() { rest.trim_end_matches('/') } else { rest };
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) if kind == Some(Kind::Redis) => (Some(login), rest),
            _ => (None, rest),
        };
        let redis = login.map(|login| RedisLogin::parse(login).ok_or_else(expected)).transpose()?;
        let (host, port) = split(rest).ok_or_else(expected)?;
        let ports = match (port, kind) {
            (Some(port), _) => vec![port],
            (None, Some(Kind::Larder)) => vec![ADMIN_PORT],
            (None, Some(Kind::Memcached)) => vec![MEMCACHED_PORT],
            (None, Some(Kind::Redis)) => vec![REDIS_PORT],
            (None, None) => vec![ADMIN_PORT, MEMCACHED_PORT],
        };
        let tls = ["https://", "rediss://"].iter().any(|scheme| text.starts_with(scheme));
        let place = if tls { Endpoint::Tls } else { Endpoint::Tcp };
        let endpoints = ports.into_iter().map(|port| place(host.to_owned(), port)).collect();
        Ok(Address { endpoints, kind, token, redis })
    }

    /// A Larder by its control socket.
    pub(crate) fn control(path: &Path) -> Address {
        Address {
            endpoints: vec![Endpoint::Unix(path.to_owned())],
            kind: Some(Kind::Larder),
            token: None,
            redis: None,
        }
    }

    /// The named Larder, else the one of this control socket, else the usual address.
    pub(crate) fn larder(named: Option<&Address>, local: Option<&Path>) -> Address {
        let usual = || Address {
            endpoints: vec![Endpoint::Tcp("127.0.0.1".to_owned(), ADMIN_PORT)],
            kind: Some(Kind::Larder),
            token: None,
            redis: None,
        };
        named.cloned().or_else(|| local.map(Address::control)).unwrap_or_else(usual)
    }

    /// Parses the address of a Larder's admin API, or its control socket.
    ///
    /// # Errors
    ///
    /// As [`Address::parse`]; also for other kinds of server.
    pub(crate) fn parse_admin(text: &str) -> Result<Address, String> {
        let mut address = Address::parse(text)?;
        if address.kind.is_some_and(|kind| kind != Kind::Larder) {
            return Err(format!(
                "expected the admin address of a Larder, such as \"127.0.0.1:8081\", found \
                 {text:?}"
            ));
        }
        address.endpoints.truncate(1);
        address.kind = Some(Kind::Larder);
        Ok(address)
    }
}

/// Host without brackets, and the port if there is one.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
    } else {
        match text.split_once(':') {
            Some(("", port)) => ("127.0.0.1", Some(port)),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) {
        return None;
    }
    match port {
        Some(port) => Some((host, Some(port.parse().ok().filter(|port| *port > 0)?))),
        None => Some((host, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<String>, Option<Kind>) {
        let address = Address::parse(text).unwrap_or_else(|error| panic!("{error}"));
        (address.endpoints.iter().map(ToString::to_string).collect(), address.kind)
    }

    #[test]
    fn addresses_are_read() {
        let one = |text: &str, kind| (vec![text.to_owned()], kind);
        assert_eq!(parsed("10.0.0.1:8081"), one("10.0.0.1:8081", None));
        assert_eq!(parsed(":9000"), one("127.0.0.1:9000", None));
        assert_eq!(parsed("[::1]:11211"), one("[::1]:11211", None));
        assert_eq!(parsed("http://a.example:99/"), one("a.example:99", Some(Kind::Larder)));
        assert_eq!(parsed("http://a.example"), one("a.example:8081", Some(Kind::Larder)));
        let secured = Address::parse("https://a.example:99/#token=x").expect("an address");
        assert_eq!(secured.endpoints, [Endpoint::Tls("a.example".to_owned(), 99)]);
        assert_eq!((secured.kind, secured.token.as_deref()), (Some(Kind::Larder), Some("x")));
        assert_eq!(parsed("memcached://m"), one("m:11211", Some(Kind::Memcached)));
        assert_eq!(
            parsed("memcached:///run/m.sock"),
            one("unix:/run/m.sock", Some(Kind::Memcached))
        );
        assert_eq!(parsed("redis://[::1]"), one("[::1]:6379", Some(Kind::Redis)));
        assert_eq!(parsed("unix:/run/m.sock"), one("unix:/run/m.sock", None));
        assert_eq!(parsed("/run/m.sock"), one("unix:/run/m.sock", None));
    }

    #[test]
    fn without_a_port_both_usual_ones_are_tried() {
        assert_eq!(parsed("host"), (vec!["host:8081".to_owned(), "host:11211".to_owned()], None));
    }

    #[test]
    fn the_address_larder_prints_brings_its_token() {
        let address = Address::parse("http://127.0.0.1:8081/#token=abc").expect("address");
        assert_eq!(address.token.as_deref(), Some("abc"));
        assert_eq!(address.endpoints, [Endpoint::Tcp("127.0.0.1".to_owned(), 8081)]);
    }

    #[test]
    fn a_redis_may_want_a_password() {
        let login = |text: &str| {
            let redis = Address::parse(text).unwrap_or_else(|error| panic!("{error}")).redis;
            redis.map(|login| (login.user.unwrap_or_default(), login.password))
        };
        let of = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(login("redis://:secret@host"), of("", "secret"));
        assert_eq!(login("redis://ann:p%40ss:%C3%BC@[::1]:6380/"), of("ann", "p@ss:ü"));
        assert_eq!(login("redis://:a@b@host"), of("", "a@b"));
        assert_eq!(login("redis://host"), None);
        assert_eq!(parsed("redis://:secret@host").0, ["host:6379"]);
        let shown = format!("{:?}", Address::parse("redis://ann:secret@host"));
        assert!(shown.contains("ann") && !shown.contains("secret"), "{shown}");
        for text in
            ["redis://secret@host", "redis://:%4@host", "redis://:%+1@host", "redis://:%ff@host"]
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "ftp://x",
            "a b:1",
            "a:0",
            "a:70000",
            "a:x",
            "[::1",
            "[x]:1",
            "::1",
            "unix:",
            "http://u@h",
            "http://:u@h",
            "memcached://:u@h",
            "h/p",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        for text in ["memcached:///m.sock", "memcached://m", "redis://m"] {
            assert!(Address::parse_admin(text).is_err(), "{text}");
        }
    }
}
