//! Parsers of values: sizes, durations, addresses, patterns. Their errors are the expected form.

use std::{net::Ipv6Addr, time::Duration};

use larder_proto::units;
use larder_server::settings::{Glob, Listen, StatusTtl};

pub(crate) use units::{Expected, address, show_duration, show_size, size};

/// A time in whole milliseconds; see [`units::duration`].
pub(crate) fn duration(text: &str) -> Result<Duration, Expected> {
    let time = units::duration(text)?;
    if time.subsec_nanos() % 1_000_000 != 0 {
        return Err("a duration in whole milliseconds, such as \"300ms\"".to_owned());
    }
    Ok(time)
}

/// Default permissions of a socket in the file system: for its owner only.
pub(crate) const SOCKET_MODE: u32 = 0o700;

/// An address of a face: as above, or `unix:` and a path.
pub(crate) fn listen(text: &str) -> Result<Listen, Expected> {
    let expected =
        || "an address and port such as \"127.0.0.1:11211\", or \"unix:\" and a path".to_owned();
    match text.strip_prefix("unix:") {
        // The kernel's limit: sun_path has 108 bytes, the terminating zero included.
        Some(path) if path.len() > 107 => {
            Err("a path of at most 107 bytes behind \"unix:\"".to_owned())
        }
        Some(path) if path.is_empty() || path.contains('\0') => Err(expected()),
        Some(path) => Ok(Listen::Unix { path: path.into(), mode: SOCKET_MODE }),
        None => address(text).map(Listen::Tcp).map_err(|_| expected()),
    }
}

/// The address of an origin: host without brackets, and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OriginUrl {
    /// `https`.
    pub(crate) secure: bool,
    /// Name or address.
    pub(crate) host: String,
    /// 80 by default, 443 for `https`.
    pub(crate) port: u16,
}

/// `http://host[:port]` or `https://host[:port]`, without path.
pub(crate) fn origin_url(text: &str) -> Result<OriginUrl, Expected> {
    let expected = || "an origin such as \"http://127.0.0.1:9000\"".to_owned();
    let (secure, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        _ => return Err(expected()),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#', '@']) {
        return Err(format!("{}, without path or user", expected()));
    }
    let (host, port) = split_authority(authority).ok_or_else(expected)?;
    let port = port.unwrap_or(if secure { 443 } else { 80 });
    Ok(OriginUrl { secure, host: host.to_owned(), port })
}

/// Host (brackets removed) and port of `host`, `host:port`, `[v6]`, `[v6]:port`. None: something
/// else.
pub(crate) fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (authority, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    (!host.is_empty() && host.bytes().all(plain) && port != Some(0)).then_some((host, port))
}

/// A token of RFC 9110 section 5.6.2: methods, field names.
pub(crate) fn is_token(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

/// The freshness of errors: `10s` (every status from 400 on), `404 10s`, `5xx 1s`, `500-504 1s`.
pub(crate) fn status_ttl(text: &str) -> Result<StatusTtl, Expected> {
    let expected = || {
        "a time such as \"10s\", or a status and a time such as \"404 10s\" or \"5xx 1s\""
            .to_owned()
    };
    let (statuses, time) = text.trim().split_once(' ').unwrap_or(("400-599", text));
    let (first, last) = match statuses.to_ascii_lowercase().strip_suffix("xx") {
        Some(class) => {
            let class: u16 = class.parse().ok().filter(|class| *class < 10).ok_or_else(expected)?;
            (class * 100, class * 100 + 99)
        }
        None => {
            let (first, last) = statuses.split_once('-').unwrap_or((statuses, statuses));
            (first.parse().map_err(|_| expected())?, last.parse().map_err(|_| expected())?)
        }
    };
    let seconds = duration(time)?.as_secs();
    let valid = 200 <= first && first <= last && last <= 599;
    let ttl = u32::try_from(seconds).ok().filter(|_| valid).ok_or_else(expected)?;
    Ok(StatusTtl { first, last, ttl })
}

/// `Name: glob` or `Name` (any value).
pub(crate) fn header_match(text: &str) -> Result<(String, Glob), Expected> {
    let (name, value) = text.split_once(':').unwrap_or((text, "*"));
    if !is_token(name.trim()) {
        return Err("a header to match such as \"X-Api-Key: *\"".to_owned());
    }
    Ok((name.trim().to_owned(), Glob::new(value.trim())))
}

/// A whole field line, `Name: value`.
pub(crate) fn header_line(text: &str) -> Result<String, Expected> {
    let expected = || "a header line such as \"X-Cached-By: larder\"".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(expected)?;
    let value = value.trim();
    let printable = value.bytes().all(|b| (0x20..0x7f).contains(&b));
    if !is_token(name) || value.is_empty() || !printable {
        return Err(expected());
    }
    Ok(format!("{name}: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_whole_milliseconds() {
        assert_eq!(
            duration("1s500us"),
            Err("a duration in whole milliseconds, such as \"300ms\"".to_owned())
        );
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
    }

    #[test]
    fn origins() {
        let of = |secure, host: &str, port| Ok(OriginUrl { secure, host: host.to_owned(), port });
        let url = |host: &str, port| of(false, host, port);
        assert_eq!(origin_url("https://wiki.internal"), of(true, "wiki.internal", 443));
        assert_eq!(origin_url("HTTPS://[::1]:81/"), of(true, "::1", 81));
        assert_eq!(origin_url("http://127.0.0.1:9000"), url("127.0.0.1", 9000));
        assert_eq!(origin_url("http://wiki.internal/"), url("wiki.internal", 80));
        assert_eq!(origin_url("http://[::1]:81"), url("::1", 81));
        for text in [
            "127.0.0.1:9000",
            "http://",
            "http://a:b",
            "http://a/path",
            "http://u@a",
            "https://a/b",
            "http://a:0",
            "http://[::1",
        ] {
            assert!(origin_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_by_status() {
        let ttl = |first, last, ttl| Ok(StatusTtl { first, last, ttl });
        assert_eq!(status_ttl("10s"), ttl(400, 599, 10));
        assert_eq!(status_ttl("404 1m"), ttl(404, 404, 60));
        assert_eq!(status_ttl("5xx 1s"), ttl(500, 599, 1));
        assert_eq!(status_ttl("500-504 0s"), ttl(500, 504, 0));
        for text in ["", "404", "99 1s", "6xx 1s", "504-500 1s", "xx 1s", "404 1", "5xx"] {
            assert!(status_ttl(text).is_err(), "{text}");
        }
    }

    #[test]
    fn listeners() {
        let unix = |path: &str| Ok(Listen::Unix { path: path.into(), mode: SOCKET_MODE });
        assert_eq!(listen("unix:/run/m.sock"), unix("/run/m.sock"));
        assert_eq!(listen("unix:m.sock"), unix("m.sock"));
        assert_eq!(
            listen("[::1]:11211"),
            Ok(Listen::Tcp("[::1]:11211".parse().expect("an address")))
        );
        for text in ["", "unix:", "/run/m.sock", "unix:a\0b", &format!("unix:/{}", "a".repeat(107))]
        {
            assert!(listen(text).is_err(), "{text}");
        }
    }
}
