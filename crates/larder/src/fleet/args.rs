//! Arguments of the commands for a fleet of memcached servers, and the client's configuration.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use larder_client::{
    Auth, Config, Distribution, Expiry, Placement, Protocol, Server, Timeouts, hash::Hash,
};

use crate::config::{TOKEN_BYTES, bounded, value};

/// Variables with the default servers; libmemcached's tools read the second.
const SERVERS: [&str; 2] = ["LIBMEMCACHED_SERVERS", "MEMCACHED_SERVERS"];
/// The variable with the password, if no file has it.
const PASSWORD: &str = "LARDER_PASSWORD";

/// The servers and their options.
#[derive(Args, Debug)]
#[command(next_help_heading = "Servers")]
pub(crate) struct FleetArgs {
    /// Servers, between commas, in the order all clients have them: HOST[:PORT] [weight=N],
    /// unix:PATH [default: $LIBMEMCACHED_SERVERS, $MEMCACHED_SERVERS]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    servers: Vec<String>,
    /// Distribution of keys: modula, ketama, ketama_weighted, ketama_spy, ketama_twemproxy,
    /// rendezvous, jump, ...
    #[arg(long, value_name = "NAME", default_value = "modula", value_parser = distribution)]
    distribution: Distribution,
    /// Weighted ketama with MD5, as PHP's OPT_LIBKETAMA_COMPATIBLE
    #[arg(long, conflicts_with_all = ["distribution", "hash"])]
    ketama: bool,
    /// Hash of keys: default, md5, crc, fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, murmur, murmur3,
    /// jenkins, ...
    #[arg(short = 'H', long, value_name = "NAME", default_value = "default", value_parser = hash)]
    hash: Hash,
    /// Prefix of every key
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// User name: for a password of `-Y`, or with --binary for SASL; the password is in
    /// $LARDER_PASSWORD or a file
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,
    /// A file with the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// The binary protocol
    #[arg(short, long, conflicts_with = "text")]
    binary: bool,
    /// The text protocol, without the meta commands
    #[arg(long)]
    text: bool,
    /// Time limit for connecting and for each answer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::duration)]
    timeout: Duration,
    /// Largest value that is sent: the servers' -I
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = value::size)]
    max_item: u64,
}

fn distribution(name: &str) -> Result<Distribution, String> {
    Distribution::named(name).ok_or_else(|| {
        let all: Vec<&str> = Distribution::ALL.iter().map(|(_, name)| *name).collect();
        format!("expected one of {}", all.join(", "))
    })
}

fn hash(name: &str) -> Result<Hash, String> {
    Hash::named(name).ok_or_else(|| {
        let all: Vec<&str> = Hash::ALL.iter().map(|(_, name)| *name).collect();
        format!("expected one of default, {}", all.join(", "))
    })
}

/// `never`, `now`, a time such as `60s` or `30d`, seconds as libmemcached's tools take them, or `@`
/// and seconds since 1970.
pub(crate) fn expiry(text: &str) -> Result<Expiry, String> {
    match text {
        "never" | "0" => return Ok(Expiry::Never),
        "now" => return Ok(Expiry::Now),
        _ => {}
    }
    if let Some(at) = text.strip_prefix('@') {
        return at
            .parse()
            .map(Expiry::At)
            .map_err(|_| "expected @ and seconds since 1970".to_owned());
    }
    match text.parse::<u64>() {
        Ok(seconds) => Ok(Expiry::After(Duration::from_secs(seconds))),
        Err(_) => Ok(Expiry::After(value::duration(text)?)),
    }
}

impl FleetArgs {
    /// The client's configuration.
    pub(crate) fn config(&self) -> Result<Config, String> {
        let mut config = Config::new(self.servers()?);
        config.placement = match self.ketama {
            true => Placement::ketama_weighted(),
            false => Placement::new(self.distribution, self.hash),
        };
        config.protocol = match (self.binary, self.text) {
            (true, _) => Protocol::Binary,
            (_, true) => Protocol::Text,
            _ => Protocol::Auto,
        };
        config.prefix = self.prefix.clone().into_bytes();
        config.auth = self.auth()?;
        config.timeouts =
            Timeouts { connect: self.timeout, read: self.timeout, write: self.timeout };
        config.max_item = usize::try_from(self.max_item).unwrap_or(usize::MAX);
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    fn servers(&self) -> Result<Vec<Server>, String> {
        let mut named = self.servers.clone();
        if named.is_empty() {
            let set = |name: &&str| std::env::var(name).ok().filter(|list| !list.trim().is_empty());
            let list = SERVERS.iter().find_map(set);
            named =
                list.map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default();
        }
        if named.is_empty() {
            return Err("no servers: give --servers, or set MEMCACHED_SERVERS".to_owned());
        }
        named.iter().map(|text| server(text)).collect()
    }

    fn auth(&self) -> Result<Option<Auth>, String> {
        let Some(user) = self.user.clone() else { return Ok(None) };
        let password = match &self.password_file {
            Some(path) => {
                let (bytes, _) = bounded::read(path, TOKEN_BYTES).map_err(|reason| {
                    format!("cannot use the password file {}: {reason}", path.display())
                })?;
                String::from_utf8_lossy(bytes.trim_ascii()).into_owned()
            }
            None => std::env::var(PASSWORD)
                .map_err(|_| format!("no password: set {PASSWORD}, or give --password-file"))?,
        };
        Ok(Some(match self.binary {
            true => Auth::SaslPlain { user, password },
            false => Auth::Ascii { user, password },
        }))
    }
}

/// As [`Server::parse`], and as libmemcached's tools take servers: a path alone,
/// `HOST:PORT/?WEIGHT`.
fn server(text: &str) -> Result<Server, String> {
    let text = text.trim();
    let text = match text.split_once("/?") {
        Some((place, weight)) => format!("{place} weight={weight}"),
        None if text.starts_with('/') => format!("unix:{text}"),
        None => text.to_owned(),
    };
    Server::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_taken_as_libmemcacheds_tools_take_them() {
        assert_eq!(server("a:1/?3").unwrap(), Server { weight: 3, ..Server::tcp("a", 1) });
        assert_eq!(server("/run/m.sock").unwrap(), Server::unix("/run/m.sock"));
        assert_eq!(server(" localhost").unwrap(), Server::tcp("localhost", 11211));
        assert!(server("a:1/?x").is_err());
    }

    #[test]
    fn expiries_have_units() {
        assert_eq!(expiry("never"), Ok(Expiry::Never));
        assert_eq!(expiry("0"), Ok(Expiry::Never));
        assert_eq!(expiry("90"), Ok(Expiry::After(Duration::from_secs(90))));
        assert_eq!(expiry("2m"), Ok(Expiry::After(Duration::from_secs(120))));
        assert_eq!(expiry("@2000000000"), Ok(Expiry::At(2_000_000_000)));
        assert!(expiry("soon").is_err() && expiry("@x").is_err() && expiry("-1").is_err());
    }
}
