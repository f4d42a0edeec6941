//! URLs of a mounted site: paths of names, encoded.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// The site, from its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Host and port as the URL has them, for the field `Host`.
    pub(super) authority: String,
    /// Host and port to connect to.
    pub(super) server: String,
    /// The path of the root, encoded; it ends with a slash.
    pub(super) root: String,
    /// By HTTPS.
    pub(super) is_secure: bool,
}

impl Address {
    /// Reads `http://host[:port][/path/]`, or the same with `https`.
    pub(super) fn parse(url: &str) -> Result<Address, String> {
        let wanted = || format!("{url}: expected http://host[:port]/[path/], or https://...");
        let secure = url.strip_prefix("https://");
        let (is_secure, rest) = (secure.is_some(), secure.or_else(|| url.strip_prefix("http://")));
        let rest = rest.ok_or_else(wanted)?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty()
            || authority.contains('@')
            || path.contains(['?', '#'])
            || !plain(rest)
        {
            return Err(wanted());
        }
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        let numbered = match port {
            Some(port) if !port.ends_with(']') => {
                port.parse::<u16>().map_err(|_| wanted())?;
                true
            }
            _ => false,
        };
        let port = if is_secure { 443 } else { 80 };
        let server = if numbered { authority.to_owned() } else { format!("{authority}:{port}") };
        let slash = if path.ends_with('/') { "" } else { "/" };
        let (authority, root) = (authority.to_owned(), format!("{path}{slash}"));
        Ok(Address { authority, server, root, is_secure })
    }

    /// The host without its port, and without the brackets of an IPv6 address.
    pub(super) fn host(&self) -> &str {
        let host = self.server.rsplit_once(':').map_or(&*self.server, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The path that a field `Location` names, relative to `from`, if it is of this site.
    pub(super) fn follow(&self, from: &str, location: &str) -> Option<String> {
        let location = location.split('#').next().unwrap_or_default();
        let scheme = if self.is_secure { "https://" } else { "http://" };
        let path = match location.strip_prefix(scheme) {
            Some(rest) => {
                let at = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(at);
                if !authority.eq_ignore_ascii_case(&self.authority) {
                    return None;
                }
                path.to_owned()
            }
            None if location.starts_with("//") || location.contains("://") => return None,
            None if location.starts_with('/') => location.to_owned(),
            None => {
                let from = from.split('?').next().unwrap_or_default();
                format!("{}{location}", &from[..=from.rfind('/')?])
            }
        };
        let sound = !path.is_empty() && path.bytes().all(|byte| byte.is_ascii_graphic());
        sound.then_some(path)
    }
}

/// Puts a name behind the path of its directory. `queries`: a question mark begins a query, which
/// is taken as it is encoded. None: no path of a site has such a name.
pub(super) fn join(directory: &str, name: &OsStr, queries: bool) -> Option<String> {
    let name = name.as_bytes();
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return None;
    }
    let mut path = directory.to_owned();
    let mut in_query = false;
    for byte in name {
        in_query |= queries && *byte == b'?';
        let plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(byte);
        if plain || (in_query && b"?%".contains(byte)) {
            path.push(char::from(*byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Address {
        Address::parse(url).expect("a URL")
    }

    #[test]
    fn urls_are_read() {
        let site = address("http://example.org");
        assert_eq!((&*site.server, &*site.root), ("example.org:80", "/"));
        let site = address("http://127.0.0.1:8080/wiki");
        assert_eq!((&*site.server, &*site.root), ("127.0.0.1:8080", "/wiki/"));
        assert_eq!(address("http://[::1]/").server, "[::1]:80");
        assert_eq!(address("http://[::1]:81/").server, "[::1]:81");
        let site = address("https://example.org/a");
        assert_eq!((&*site.server, site.host()), ("example.org:443", "example.org"));
        assert!(site.is_secure);
        assert_eq!(address("https://[::1]:81/").host(), "::1");
        for wrong in [
            "ftp://x/",
            "https://",
            "http://",
            "http:///x",
            "http://a@b/",
            "http://a:b/",
            "http://a/?q",
            "x",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_encoded_whole() {
        let path = |name: &[u8]| join("/d/", OsStr::from_bytes(name), false);
        let query = |name: &[u8]| join("/d/", OsStr::from_bytes(name), true);
        assert_eq!(query(b"a%b?c=%2Fd?e#\n").as_deref(), Some("/d/a%25b?c=%2Fd?e%23%0A"));
        assert_eq!(path(b"a b?c#d%e").as_deref(), Some("/d/a%20b%3Fc%23d%25e"));
        assert_eq!(path(b"\xc3\xa4\n").as_deref(), Some("/d/%C3%A4%0A"));
        assert_eq!(path(b"Talk:Main_Page").as_deref(), Some("/d/Talk:Main_Page"));
        for wrong in [&b".."[..], b".", b"", b"a/b"] {
            assert_eq!(path(wrong), None);
        }
    }

    #[test]
    fn redirects_stay_on_the_site() {
        let secure = address("https://example.org/");
        assert_eq!(secure.follow("/", "https://example.org/c").as_deref(), Some("/c"));
        assert_eq!(secure.follow("/", "http://example.org/c"), None);
        let site = address("http://example.org/");
        let to = |location| site.follow("/a/b", location);
        assert_eq!(to("http://EXAMPLE.org/c/").as_deref(), Some("/c/"));
        assert_eq!(to("/c?d#e").as_deref(), Some("/c?d"));
        assert_eq!(to("b/").as_deref(), Some("/a/b/"));
        for away in
            ["https://example.org/", "//other/", "http://other/", "http://example.org", "/ü"]
        {
            assert_eq!(to(away), None, "{away}");
        }
    }
}
