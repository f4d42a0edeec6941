//! Parsers of values: sizes, durations, addresses, patterns. Their errors are the expected form.

use std::{net::Ipv6Addr, path::PathBuf, time::Duration};

use http::{HeaderName, HeaderValue};
use larder_proto::{rules::strip::is_hop_by_hop, units};
use larder_server::settings::{Balance, FieldEdit, Glob, Listen, Rate, Redirect, StatusTtl};

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

/// The address of an origin: host without brackets and port, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OriginUrl {
    /// How it is asked.
    pub(crate) scheme: UrlScheme,
    /// Name or address; empty where a path says it.
    pub(crate) host: String,
    /// 80 by default, 443 for `https`; 0 where a path says it.
    pub(crate) port: u16,
    /// A socket or directory; empty where host and port say it.
    pub(crate) path: PathBuf,
}

impl OriginUrl {
    /// Whether both are the same server.
    pub(crate) fn is(&self, other: &OriginUrl) -> bool {
        let rest = (self.scheme, self.port, &self.path) == (other.scheme, other.port, &other.path);
        rest && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// The scheme of an origin's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlScheme {
    /// `http://host:port`
    Http,
    /// `https://host:port`
    Https,
    /// `fcgi://host:port` or `fcgi+unix:/path`
    FastCgi,
    /// `files:/path`
    Files,
    /// `app:NAME`; the name is in place of the host.
    App,
}

/// `http://host[:port]`, `https://host[:port]`, `fcgi://host:port`, without path, or
/// `fcgi+unix:/path`, `http+unix:/path`, `files:/path` or `app:NAME`.
pub(crate) fn origin_url(text: &str) -> Result<OriginUrl, Expected> {
    let expected = || "an origin such as \"http://127.0.0.1:9000\"".to_owned();
    let (scheme, rest) = text.split_once(':').ok_or_else(expected)?;
    if scheme.eq_ignore_ascii_case("files") {
        if rest.is_empty() || rest.contains('\0') {
            return Err("a directory such as \"files:/srv/www\"".to_owned());
        }
        let (scheme, path) = (UrlScheme::Files, PathBuf::from(rest));
        return Ok(OriginUrl { scheme, host: String::new(), port: 0, path });
    }
    if scheme.eq_ignore_ascii_case("app") {
        if !is_token(rest) {
            return Err("an application such as \"app:php\"".to_owned());
        }
        let (scheme, path) = (UrlScheme::App, PathBuf::new());
        return Ok(OriginUrl { scheme, host: rest.to_owned(), port: 0, path });
    }
    let unix = match scheme.to_ascii_lowercase().as_str() {
        "fcgi+unix" => Some(UrlScheme::FastCgi),
        "http+unix" => Some(UrlScheme::Http),
        _ => None,
    };
    if let Some(scheme) = unix {
        // The kernel's limit, as for listeners.
        if !rest.starts_with('/') || rest.len() > 107 || rest.contains('\0') {
            return Err("a socket such as \"fcgi+unix:/run/php/php-fpm.sock\" or \
                        \"http+unix:/run/app.sock\", of at most 107 bytes"
                .to_owned());
        }
        return Ok(OriginUrl { scheme, host: String::new(), port: 0, path: PathBuf::from(rest) });
    }
    let (scheme, default) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (UrlScheme::Http, Some(80)),
        "https" => (UrlScheme::Https, Some(443)),
        "fcgi" => (UrlScheme::FastCgi, None),
        _ => return Err(expected()),
    };
    let rest = rest.strip_prefix("//").ok_or_else(expected)?;
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#', '@']) {
        return Err(format!("{}, without path or user", expected()));
    }
    let (host, port) = split_authority(authority).ok_or_else(expected)?;
    let port = port.or(default).ok_or("an application with its port: \"fcgi://127.0.0.1:9000\"")?;
    Ok(OriginUrl { scheme, host: host.to_owned(), port, path: PathBuf::new() })
}

/// A server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberUrl {
    pub(crate) url: OriginUrl,
    /// At least 1.
    pub(crate) weight: u32,
    /// It is asked while no other can answer.
    pub(crate) backup: bool,
}

/// The largest weight of a server.
const MAX_WEIGHT: u32 = 1000;

/// An origin's URL, and behind it ` weight=N` or ` backup`. They are read from the end: the path of
/// a URL may have blanks.
pub(crate) fn member_url(text: &str) -> Result<MemberUrl, Expected> {
    let (mut rest, mut weight, mut backup) = (text.trim_end(), 1, false);
    while let Some((before, word)) = rest.rsplit_once(' ') {
        if word == "backup" {
            backup = true;
        } else if let Some(number) = word.strip_prefix("weight=") {
            let number = number.parse().ok().filter(|number| (1..=MAX_WEIGHT).contains(number));
            weight = number.ok_or_else(|| format!("a weight from 1 to {MAX_WEIGHT}"))?;
        } else {
            break;
        }
        rest = before.trim_end();
    }
    Ok(MemberUrl { url: origin_url(rest)?, weight, backup })
}

/// How requests are divided among the servers of an origin.
pub(crate) fn balance(text: &str) -> Result<Balance, Expected> {
    match (text, text.strip_prefix("hash:cookie ").map(str::trim)) {
        ("least", _) => Ok(Balance::Least),
        ("round-robin", _) => Ok(Balance::RoundRobin),
        ("hash:url", _) => Ok(Balance::Url),
        (_, Some(name)) if is_token(name) => Ok(Balance::Cookie(name.to_owned())),
        _ => {
            Err("one of \"least\", \"round-robin\", \"hash:url\", \"hash:cookie NAME\"".to_owned())
        }
    }
}

/// A parameter of an application: `NAME=value`, or `-NAME` for one that it is not sent.
pub(crate) fn param(text: &str) -> Result<(String, Option<String>), Expected> {
    let (name, value) = match (text.strip_prefix('-'), text.split_once('=')) {
        (Some(name), _) => (name, None),
        (None, Some((name, value))) => (name, Some(value.to_owned())),
        (None, None) => (text, None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let valid = (text.starts_with('-') || value.is_some()) && !name.is_empty();
    if valid && name.bytes().all(plain) {
        return Ok((name.to_owned(), value));
    }
    Err("a parameter such as \"APP_ENV=production\", or \"-HTTP_ACCEPT\" for none".to_owned())
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
    let (range, time) = text.trim().split_once(' ').unwrap_or(("400-599", text));
    let (first, last) = statuses(range).map_err(|_| expected())?;
    let ttl = u32::try_from(duration(time)?.as_secs()).map_err(|_| expected())?;
    Ok(StatusTtl { first, last, ttl })
}

/// The lifetime of files by media type: `1h` (of all), `image/* 30d`.
pub(crate) fn expires(text: &str) -> Result<(Glob, u32), Expected> {
    let expected =
        || "a time such as \"1h\", or a type and a time such as \"image/* 30d\"".to_owned();
    let (types, time) = text.trim().rsplit_once(' ').unwrap_or(("*", text));
    let time = u32::try_from(duration(time)?.as_secs()).map_err(|_| expected())?;
    let types = types.trim();
    if types != "*" && !types.contains('/') {
        return Err(expected());
    }
    // Parameters of the type (`charset`) do not count.
    Ok((Glob::new(&types.to_ascii_lowercase()), time))
}

/// `200`, `2xx`, `200-399`: the first and the last.
pub(crate) fn statuses(text: &str) -> Result<(u16, u16), Expected> {
    let range = match text.to_ascii_lowercase().strip_suffix("xx") {
        Some(class) => {
            let class: Option<u16> = class.parse().ok().filter(|class| *class < 10);
            class.map(|class| (class * 100, class * 100 + 99))
        }
        None => {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            first.parse().ok().zip(last.parse().ok())
        }
    };
    range
        .filter(|(first, last)| 200 <= *first && first <= last && *last <= 599)
        .ok_or_else(|| "a status such as \"200\", \"2xx\" or \"200-399\"".to_owned())
}

/// `Name: glob` or `Name` (any value).
pub(crate) fn header_match(text: &str) -> Result<(String, Glob), Expected> {
    let (name, value) = text.split_once(':').unwrap_or((text, "*"));
    if !is_token(name.trim()) {
        return Err("a header to match such as \"X-Api-Key: *\"".to_owned());
    }
    Ok((name.trim().to_owned(), Glob::new(value.trim())))
}

/// Whether the text is a name for `Via`: a token, with a port or without (RFC 9110 section 7.6.3);
/// or empty.
pub(crate) fn via_name(text: &str) -> bool {
    let (name, port) = text.split_once(':').unwrap_or((text, "0"));
    text.is_empty() || (is_token(name) && port.parse::<u16>().is_ok())
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
    // A second one would contradict the first, and end the answer somewhere else.
    if is_hop_by_hop(name) || is_of_content(name) {
        return Err(format!("a header line that is not of the message itself, as {name} is"));
    }
    Ok(format!("{name}: {value}"))
}

/// Whether a field says where the content of an answer ends, or how to read it.
fn is_of_content(name: &str) -> bool {
    let names = ["content-length", "content-range", "content-encoding"];
    names.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Fields that Larder writes itself, or that answers are judged by.
fn is_written_here(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "host",
        "content-length",
        "content-range",
        "content-encoding",
        "range",
        "expect",
        "via",
        "cdn-loop",
        "larder-debug",
    ];
    is_hop_by_hop(name) || name.starts_with("if-") || NAMES.contains(&name)
}

/// A change of a field: `Name: value` (instead of all lines of it), `+Name: value` (one more),
/// `-Name` (none).
pub(crate) fn field_edit(text: &str) -> Result<FieldEdit, Expected> {
    let expected = || "a field such as \"X-Env: prod\", \"+Link: </a>\" or \"-Server\"".to_owned();
    let named = |name: &str| {
        let name = HeaderName::try_from(name.trim()).map_err(|_| expected())?;
        if is_written_here(name.as_str()) {
            return Err(format!("{}; Larder writes {name} itself", expected()));
        }
        Ok(name)
    };
    if let Some(name) = text.strip_prefix('-') {
        return named(name).map(FieldEdit::Remove);
    }
    let added = text.strip_prefix('+');
    let (name, value) = added.unwrap_or(text).split_once(':').ok_or_else(expected)?;
    let (name, value) = (named(name)?, HeaderValue::try_from(value.trim()));
    let value = value.ok().filter(|value| !value.is_empty()).ok_or_else(expected)?;
    Ok(match added {
        Some(_) => FieldEdit::Add(name, value),
        None => FieldEdit::Set(name, value),
    })
}

/// Requests of one client: `20/s`, `600/m burst 50`. The reserve is that of a second unless it is
/// given.
pub(crate) fn rate(text: &str) -> Result<Rate, Expected> {
    let most = Rate::MOST;
    let expected = || format!("a rate such as \"20/s\" or \"600/m burst 50\", up to {most}/s");
    let (rate, burst) = match text.trim().split_once(" burst ") {
        Some((rate, burst)) => (rate, Some(burst)),
        None => (text.trim(), None),
    };
    let (requests, unit) = rate.split_once('/').ok_or_else(expected)?;
    let seconds = match unit.trim() {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(expected()),
    };
    let number = |text: &str, most: u32| {
        text.trim().parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(expected)
    };
    let requests: u32 = number(requests, most.saturating_mul(seconds))?;
    let burst = match burst {
        Some(burst) => number(burst, most)?,
        None => requests.div_ceil(seconds),
    };
    Ok(Rate { requests, seconds, burst })
}

/// Another place of a page: `https://example.org$uri`, `/there`; with a status before it or not.
pub(crate) fn redirect(text: &str) -> Result<Redirect, Expected> {
    let expected = || "a place such as \"301 https://example.org$uri\" or \"/there\"".to_owned();
    let (status, to) = text.trim().split_once(' ').unwrap_or(("302", text.trim()));
    let status = status.parse().ok().filter(|status| [301, 302, 303, 307, 308].contains(status));
    // A path of the client must not become a host: `//evil.example.org`.
    let host = ["https://", "http://"].iter().find_map(|scheme| to.strip_prefix(scheme));
    let begin = host.or_else(|| to.strip_prefix('/')).unwrap_or("$uri");
    let plain = to.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    let valid = plain && !begin.starts_with("$uri") && (host.is_none() || !begin.is_empty());
    let status = status.filter(|_| valid && !begin.starts_with('/')).ok_or_else(expected)?;
    Ok(Redirect { status, to: to.to_owned() })
}

/// Whether this is a path that can begin one: `/api`.
pub(crate) fn is_place(text: &str) -> bool {
    let plain = |byte: u8| (0x21..0x7f).contains(&byte) && !matches!(byte, b'?' | b'#');
    text.starts_with('/') && !text.starts_with("//") && text.bytes().all(plain)
}

/// The beginning of paths, and the directory of the files that they name: `/files/=/srv/files`. The
/// beginning ends with a slash.
pub(crate) fn send_files(text: &str) -> Result<(String, PathBuf), Expected> {
    let expected = || "a path and a directory such as \"/files/=/srv/files\"".to_owned();
    let (prefix, directory) = text.split_once('=').ok_or_else(expected)?;
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"%?#".contains(&byte);
    let valid = prefix.starts_with('/') && prefix.bytes().all(plain);
    if !valid || directory.is_empty() || directory.contains('\0') {
        return Err(expected());
    }
    let end = if prefix.ends_with('/') { "" } else { "/" };
    Ok((format!("{prefix}{end}"), PathBuf::from(directory)))
}

/// A status or several of 400 to 599, and a file: `5xx=error.html`.
pub(crate) fn error_page(text: &str) -> Result<((u16, u16), PathBuf), Expected> {
    let (range, path) = text.split_once('=').unwrap_or((text, ""));
    let (first, last) = statuses(range)
        .ok()
        .filter(|(first, _)| *first >= 400)
        .ok_or_else(|| "a status from 400 on, such as 404, 5xx or \"500-504\"".to_owned())?;
    if path.is_empty() || path.contains('\0') {
        return Err("a path".to_owned());
    }
    Ok(((first, last), PathBuf::from(path)))
}

/// The media type of files by extension: `wasm=application/wasm`.
pub(crate) fn media_type(text: &str) -> Result<(String, String), Expected> {
    let expected = || "a type such as \"wasm=application/wasm\"".to_owned();
    let (extension, media_type) = text.split_once('=').ok_or_else(expected)?;
    let extension = extension.trim_start_matches('.').to_ascii_lowercase();
    let printable = media_type.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    if extension.is_empty() || !media_type.contains('/') || !printable {
        return Err(expected());
    }
    Ok((extension, media_type.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_of_files_by_type() {
        assert_eq!(expires("1h"), Ok((Glob::new("*"), 3600)));
        assert_eq!(expires("Image/* 30d"), Ok((Glob::new("image/*"), 30 * 86_400)));
        for text in ["", "image/*", "png 1h", "image/png 1h 2h x"] {
            assert!(expires(text).is_err(), "{text}");
        }
    }

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
        let of = |scheme, host: &str, port| {
            Ok(OriginUrl { scheme, host: host.to_owned(), port, path: PathBuf::new() })
        };
        let url = |host: &str, port| of(UrlScheme::Http, host, port);
        assert_eq!(origin_url("https://wiki.internal"), of(UrlScheme::Https, "wiki.internal", 443));
        assert_eq!(origin_url("HTTPS://[::1]:81/"), of(UrlScheme::Https, "::1", 81));
        assert_eq!(origin_url("http://127.0.0.1:9000"), url("127.0.0.1", 9000));
        assert_eq!(origin_url("http://wiki.internal/"), url("wiki.internal", 80));
        assert_eq!(origin_url("http://[::1]:81"), url("::1", 81));
        assert_eq!(origin_url("fcgi://php:9000"), of(UrlScheme::FastCgi, "php", 9000));
        let socket = origin_url("fcgi+unix:/run/php.sock").expect("a socket");
        assert_eq!((socket.scheme, socket.path), (UrlScheme::FastCgi, "/run/php.sock".into()));
        assert_eq!(origin_url("app:php"), of(UrlScheme::App, "php", 0));
        let files = origin_url("files:/srv/www").expect("a directory");
        assert_eq!((files.scheme, files.path), (UrlScheme::Files, "/srv/www".into()));
        for text in [
            "127.0.0.1:9000",
            "http://",
            "http://a:b",
            "http://a/path",
            "http://u@a",
            "https://a/b",
            "http://a:0",
            "http://[::1",
            "http:/a",
            "fcgi://a",
            "fcgi://a:9000/b",
            "fcgi+unix:php.sock",
            "files:",
            "app:",
            "app:a b",
            "fcgi+unix://php.sock:1\0",
        ] {
            assert!(origin_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn servers_of_an_origin() {
        let member = |text| member_url(text).map(|one| (one.url.port, one.weight, one.backup));
        assert_eq!(member("http://10.0.0.1:81"), Ok((81, 1, false)));
        assert_eq!(member("http://10.0.0.1:81 weight=3 backup"), Ok((81, 3, true)));
        assert_eq!(member("http://10.0.0.1  backup "), Ok((80, 1, true)));
        let files = member_url("files:/srv/my pages backup").expect("a directory");
        assert_eq!(files.url.path, PathBuf::from("/srv/my pages"));
        for text in ["http://a weight=0", "http://a weight=x", "http://a weight=1001", "http://a b"]
        {
            assert!(member_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn balances() {
        assert_eq!(balance("hash:url"), Ok(Balance::Url));
        assert_eq!(balance("hash:cookie session"), Ok(Balance::Cookie("session".to_owned())));
        for text in ["", "random", "hash:cookie", "hash:cookie ", "hash:cookie a b"] {
            assert!(balance(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parameters() {
        let pair =
            |name: &str, value: Option<&str>| Ok((name.to_owned(), value.map(str::to_owned)));
        assert_eq!(param("APP_ENV=a=b c"), pair("APP_ENV", Some("a=b c")));
        assert_eq!(param("EMPTY="), pair("EMPTY", Some("")));
        assert_eq!(param("-HTTP_ACCEPT"), pair("HTTP_ACCEPT", None));
        for text in ["", "-", "NAME", "=value", "A B=c", "-A=b"] {
            assert!(param(text).is_err(), "{text}");
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
