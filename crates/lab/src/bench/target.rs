//! Target of the load: addresses and URLs.

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::PathBuf,
    time::Duration,
};

use crate::engine::Address;

/// Time for one address of a name to accept a connection before the next is tried.
const PATIENCE: Duration = Duration::from_secs(2);

/// Parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// It begins with `https`.
    pub(super) is_https: bool,
    /// With the port if one is given, as in `Host`.
    pub(super) host: String,
    /// Path and query.
    pub(super) target: String,
}

impl Url {
    /// Parses `http://host[:port][/path][?query]`, or the same with `https`.
    pub(super) fn parse(text: &str) -> Result<Url, String> {
        let secure = text.strip_prefix("https://");
        let rest = secure.or(text.strip_prefix("http://")).unwrap_or(text);
        let wrong = || format!("{text:?}: expected an URL such as \"http://127.0.0.1:8080/page\"");
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        let is_plain = |text: &str| text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
        if host.is_empty()
            || host.contains('@')
            || rest.contains("://")
            || !is_plain(host)
            || !is_plain(target)
        {
            return Err(wrong());
        }
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { is_https: secure.is_some(), host: host.to_owned(), target })
    }

    /// The host without a port and brackets.
    pub(super) fn name(host: &str) -> &str {
        let name =
            if has_port(host) { host.rsplit_once(':').map_or(host, |at| at.0) } else { host };
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
    }
}

/// Resolves `HOST:PORT`, `HOST` (with this default port) or `unix:PATH`.
pub(super) fn address(text: &str, port: u16) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Unix(PathBuf::from(path)));
    }
    if text.starts_with('/') {
        return Ok(Address::Unix(PathBuf::from(text)));
    }
    if let Ok(address) = text.parse() {
        return Ok(Address::Tcp(address));
    }
    let named = if has_port(text) { text.to_owned() } else { format!("{text}:{port}") };
    let found: Vec<SocketAddr> = named
        .to_socket_addrs()
        .map_err(|error| {
            format!("{text:?} is no address: {error}. Expected HOST:PORT or unix:PATH")
        })?
        .collect();
    // `localhost` may resolve to ::1 first, while the server listens only on 127.0.0.1.
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, PATIENCE).is_ok();
    let chosen = if found.len() > 1 { found.iter().find(answers) } else { None };
    chosen
        .or(found.first())
        .map(|address| Address::Tcp(*address))
        .ok_or_else(|| format!("{text:?} has no address"))
}

fn has_port(text: &str) -> bool {
    let after = text.rsplit_once(']').map_or(text, |(_, after)| after);
    after.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_target() {
        for (text, host, target) in [
            ("http://127.0.0.1:8080/a?b=c", "127.0.0.1:8080", "/a?b=c"),
            ("http://example.org", "example.org", "/"),
            ("example.org/x#part", "example.org", "/x"),
            ("http://[::1]:80?q", "[::1]:80", "/?q"),
            ("https://example.org:444/", "example.org:444", "/"),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!((url.host.as_str(), url.target.as_str()), (host, target), "{text}");
        }
        assert!(Url::parse("https://a/").expect("a URL").is_https);
        for (host, name) in [("a:1", "a"), ("a", "a"), ("[::1]:80", "::1"), ("[::1]", "::1")] {
            assert_eq!(Url::name(host), name);
        }
        for text in
            ["https://", "http:///path", "ftp://example.org", "http://a b/", "http://u@h/", ""]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_found() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().expect(text)));
        assert_eq!(address("127.0.0.1:81", 80), tcp("127.0.0.1:81"));
        assert_eq!(address("127.0.0.1", 11211), tcp("127.0.0.1:11211"));
        assert_eq!(address("[::1]:5", 80), tcp("[::1]:5"));
        assert_eq!(address("[::1]", 6379), tcp("[::1]:6379"));
        assert_eq!(address("unix:/run/x", 80), Ok(Address::Unix("/run/x".into())));
        assert_eq!(address("/run/x", 80), Ok(Address::Unix("/run/x".into())));
        assert!(address("127.0.0.1:99999", 80).is_err());
    }
}
