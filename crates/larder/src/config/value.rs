//! Values as they are written: sizes, durations, addresses, patterns. From text to type, with what was expected.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use larder_server::settings::{Glob, Listen, StatusTtl};

/// What a text should have been, for "expected ...".
pub(crate) type Expected = String;

/// Bytes: `512MiB`, `1GiB`, `64k`, `1000`. k, M, G, T count in steps of 1024, with or without `iB`; `kB`, `MB`, `GB` and `TB` in steps of 1000.
pub(crate) fn size(text: &str) -> Result<u64, Expected> {
    let expected = || "a size such as \"512MiB\" or \"1GiB\"".to_owned();
    let (number, unit) = split_unit(text);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(expected()),
    };
    number.checked_mul(factor).ok_or_else(expected)
}

/// A time: `300ms`, `5s`, `2m`, `1h`, `3d`, `1w`, and sums such as `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, Expected> {
    let expected = || "a duration such as \"300ms\", \"5s\" or \"1h30m\"".to_owned();
    let mut rest = text.trim();
    let mut total = 0u64;
    if rest.is_empty() {
        return Err(expected());
    }
    while !rest.is_empty() {
        let (number, after) = split_unit(rest);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let number: u64 = number.parse().map_err(|_| expected())?;
        let factor: u64 = match after[..unit_end].trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(expected()),
        };
        total = number.checked_mul(factor).and_then(|ms| total.checked_add(ms)).ok_or_else(expected)?;
        rest = after[unit_end..].trim_start();
    }
    Ok(Duration::from_millis(total))
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..at], text[at..].trim())
}

/// As a person would write it.
pub(crate) fn show_size(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// As a person would write it.
pub(crate) fn show_duration(time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms >= factor && ms.is_multiple_of(factor) {
            return format!("{}{unit}", ms / factor);
        }
    }
    if ms == 0 { "0s".to_owned() } else { format!("{ms}ms") }
}

/// An address to listen on: `127.0.0.1:8080`, `[::1]:8080`, `:8080` (every IPv4 address), `localhost:8080`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, Expected> {
    let expected = || "an address and port such as \"127.0.0.1:8080\" or \"[::1]:8080\"".to_owned();
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let port = port.parse().map_err(|_| expected())?;
    match host {
        "localhost" => Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port)),
        "" | "*" => Ok(SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port)),
        _ => Err(expected()),
    }
}

/// Permissions of a socket in the file system before its own option is looked at: its owner's alone.
pub(crate) const SOCKET_MODE: u32 = 0o700;

/// Where a face listens: an address as above, or `unix:` and a path.
pub(crate) fn listen(text: &str) -> Result<Listen, Expected> {
    let expected = || "an address and port such as \"127.0.0.1:11211\", or \"unix:\" and a path".to_owned();
    match text.strip_prefix("unix:") {
        // What the kernel takes: sun_path is 108 bytes long, the terminating zero included.
        Some(path) if path.len() > 107 => Err("a path of at most 107 bytes behind \"unix:\"".to_owned()),
        Some(path) if path.is_empty() || path.contains('\0') => Err(expected()),
        Some(path) => Ok(Listen::Unix { path: path.into(), mode: SOCKET_MODE }),
        None => address(text).map(Listen::Tcp).map_err(|_| expected()),
    }
}

/// Where an origin is: host without brackets, and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OriginUrl {
    /// Name or address.
    pub(crate) host: String,
    /// 80 when not given.
    pub(crate) port: u16,
}

/// `http://host[:port]`, without path.
pub(crate) fn origin_url(text: &str) -> Result<OriginUrl, Expected> {
    let expected = || "an origin such as \"http://127.0.0.1:9000\"".to_owned();
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some(("https", _)) => return Err(format!("{} (https origins are not supported)", expected())),
        _ => return Err(expected()),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#', '@']) {
        return Err(format!("{}, without path or user", expected()));
    }
    let (host, port) = split_authority(authority).ok_or_else(expected)?;
    Ok(OriginUrl { host: host.to_owned(), port: port.unwrap_or(80) })
}

/// Host (brackets removed) and port of `host`, `host:port`, `[v6]`, `[v6]:port`. None: something else.
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

/// How long errors are fresh: `10s` (every status from 400 on), `404 10s`, `5xx 1s`, `500-504 1s`.
pub(crate) fn status_ttl(text: &str) -> Result<StatusTtl, Expected> {
    let expected =
        || "a time such as \"10s\", or a status and a time such as \"404 10s\" or \"5xx 1s\"".to_owned();
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
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("1k", 1024),
            ("1KiB", 1024),
            ("1kB", 1000),
            ("64 MiB", 64 << 20),
            ("2g", 2 << 30),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "1XB", "99999999999TiB", "1 2"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in [
            ("300ms", 300),
            ("5s", 5_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("3d", 259_200_000),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "s", "5 parsecs", "-5s", "1.5s", "1h30", "999999999999999999w"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for ms in [0, 300, 5_000, 90_000, 3_600_000, 259_200_000] {
            let time = Duration::from_millis(ms);
            assert_eq!(duration(&show_duration(time)), Ok(time));
        }
        for bytes in [0, 1, 1000, 1024, 64 << 20, 1 << 30, 1 << 40] {
            assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn origins() {
        let url = |host: &str, port| Ok(OriginUrl { host: host.to_owned(), port });
        assert_eq!(origin_url("http://127.0.0.1:9000"), url("127.0.0.1", 9000));
        assert_eq!(origin_url("http://wiki.internal/"), url("wiki.internal", 80));
        assert_eq!(origin_url("http://[::1]:81"), url("::1", 81));
        for text in [
            "127.0.0.1:9000",
            "http://",
            "http://a:b",
            "http://a/path",
            "http://u@a",
            "https://a",
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
        assert_eq!(listen("[::1]:11211"), Ok(Listen::Tcp("[::1]:11211".parse().expect("an address"))));
        for text in ["", "unix:", "/run/m.sock", "unix:a\0b", &format!("unix:/{}", "a".repeat(107))] {
            assert!(listen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(address("localhost:80"), Ok(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(address(":8080"), Ok(SocketAddr::from(([0, 0, 0, 0], 8080))));
        for text in ["8080", "example.org:80", "127.0.0.1", "127.0.0.1:99999", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
