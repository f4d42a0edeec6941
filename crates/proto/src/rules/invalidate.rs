//! Invalidation by unsafe requests (RFC 9111 4.4).

use super::Uri;
use crate::http::{Fields, Method};

/// Longer references are not resolved.
const MAX_REFERENCE: usize = 8192;

/// The response to such a request invalidates pages: an unsafe method (unknown ones are), and no
/// error (RFC 9111 section 4.4).
pub fn applies(method: &Method<'_>, status: u16) -> bool {
    !method.is_safe() && (200..400).contains(&status)
}

/// The URLs invalidated by the response to an unsafe request: path and query of the target itself,
/// and of Location and Content-Location if they have the same origin ("a cache MUST NOT trigger an
/// invalidation" elsewhere). Empty where it [`applies`] to none.
pub fn targets(method: &Method<'_>, uri: &Uri<'_>, status: u16, fields: Fields<'_>) -> Vec<String> {
    if !applies(method, status) {
        return Vec::new();
    }
    let mut found = vec![uri.path_and_query.to_owned()];
    for name in ["location", "content-location"] {
        if let Some(target) = fields.get(name).and_then(|value| resolve(uri, value))
            && !found.contains(&target)
        {
            found.push(target);
        }
    }
    found
}

/// Path and query of a reference resolved against `base` (RFC 3986 5), `None` if it leads to
/// another origin or is not an http(s) reference. The fragment is dropped.
fn resolve(base: &Uri<'_>, reference: &[u8]) -> Option<String> {
    if reference.len() > MAX_REFERENCE
        || reference.iter().any(|b| b.is_ascii_control() || *b == b' ')
    {
        return None;
    }
    let reference = std::str::from_utf8(reference).ok()?;
    let reference = reference.split('#').next().unwrap_or_default();
    let rest = match split_scheme(reference) {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case(base.scheme) && rest.starts_with("//") =>
        {
            rest
        }
        Some(_) => return None,
        None => reference,
    };
    if let Some(rest) = rest.strip_prefix("//") {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        return same_authority(base, authority).then(|| normal_path(path));
    }
    let base_path = base.path_and_query.split('?').next().unwrap_or_default();
    Some(match rest.as_bytes().first() {
        None => base.path_and_query.to_owned(),
        Some(b'/') => normal_path(rest),
        Some(b'?') => format!("{base_path}{rest}"),
        Some(_) => {
            let folder = &base_path[..base_path.rfind('/').map_or(0, |at| at + 1)];
            normal_path(&format!("{folder}{rest}"))
        }
    })
}

/// Scheme and the text after its colon; a colon after `/` or `?` belongs to a path or query (RFC
/// 3986 4.2).
fn split_scheme(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    valid.then_some((scheme, rest))
}

/// Same host and port (RFC 9110 4.3.1); user information never matches.
fn same_authority(base: &Uri<'_>, other: &str) -> bool {
    let default_port = if base.scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let bare = |authority: &str| {
        let host = authority
            .strip_suffix(default_port)
            .or(authority.strip_suffix(':'))
            .unwrap_or(authority);
        host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
    };
    !other.is_empty() && bare(base.authority) == bare(other)
}

/// Path without dot segments (RFC 3986 5.2.4), query unchanged; `/` if there is no path.
fn normal_path(path_and_query: &str) -> String {
    let (path, query) = match path_and_query.find('?') {
        Some(at) => path_and_query.split_at(at),
        None => (path_and_query, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;

    const BASE: Uri<'static> =
        Uri { scheme: "http", authority: "example.org:80", path_and_query: "/a/b/c?d=e" };

    #[test]
    fn references_resolve_as_in_rfc_3986() {
        for (reference, expected) in [
            ("", Some("/a/b/c?d=e")),
            ("#f", Some("/a/b/c?d=e")),
            ("?x", Some("/a/b/c?x")),
            ("/", Some("/")),
            ("/x?y#z", Some("/x?y")),
            ("x", Some("/a/b/x")),
            ("./x", Some("/a/b/x")),
            ("../x", Some("/a/x")),
            ("../../../x", Some("/x")),
            (".", Some("/a/b/")),
            ("..", Some("/a/")),
            ("/x/./y/../z/", Some("/x/z/")),
            ("/x//y", Some("/x//y")),
            ("x?/../y", Some("/a/b/x?/../y")),
            ("http://example.org/x", Some("/x")),
            ("HTTP://EXAMPLE.org:80/x", Some("/x")),
            ("http://example.org.", Some("/")),
            ("http://example.org?q", Some("/?q")),
            ("//example.org/x", Some("/x")),
            ("https://example.org/x", None),
            ("http://example.org:8080/x", None),
            ("http://user@example.org/x", None),
            ("//evil.example/x", None),
            ("http:///x", None),
            ("mailto:a@b", None),
            ("/x y", None),
        ] {
            assert_eq!(resolve(&BASE, reference.as_bytes()).as_deref(), expected, "{reference}");
        }
        assert_eq!(resolve(&BASE, b"/\xff"), None);
        assert_eq!(resolve(&BASE, &[b'a'; MAX_REFERENCE + 1]), None);
    }

    #[test]
    fn unsafe_methods_with_success_invalidate_what_they_name() {
        let list = [
            Header { name: "Location", value: b"/new" },
            Header { name: "Content-Location", value: b"http://other.example/x" },
        ];
        let fields = Fields::new(&list);
        let invalidated =
            |method: &str, status| targets(&Method::of(method), &BASE, status, fields);
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
            assert_eq!(invalidated(method, 200), ["/a/b/c?d=e", "/new"], "{method}");
            assert_eq!(invalidated(method, 303).len(), 2);
            for error in [100, 400, 404, 500] {
                assert!(invalidated(method, error).is_empty(), "{method} {error}");
            }
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert!(invalidated(method, 200).is_empty(), "{method}");
        }
        let same = [
            Header { name: "Location", value: b"" },
            Header { name: "Content-Location", value: b"/x" },
        ];
        assert_eq!(targets(&Method::Put, &BASE, 201, Fields::new(&same)), ["/a/b/c?d=e", "/x"]);
    }
}
