//! Where the `src` of an include leads.

use super::value::percent;

/// A place on one of the hosts that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host and port; None: that of the page.
    pub authority: Option<String>,
    /// Path and query, from the slash on.
    pub path_and_query: String,
}

/// Longest `src`, in bytes.
const MAX_LENGTH: usize = 8192;

/// The place that `src` names in a page at `base` (path and query); None: it names none over HTTP.
pub fn resolve(src: &[u8], base: &str) -> Option<Target> {
    let src = src.trim_ascii();
    if src.is_empty() || src.len() > MAX_LENGTH {
        return None;
    }
    let src = written(src.split(|&byte| byte == b'#').next()?);
    let scheme = ["http://", "https://"].into_iter().find(|scheme| starts_with(&src, scheme));
    let absolute = scheme.map(|scheme| &src[scheme.len()..]).or_else(|| src.strip_prefix("//"));
    if let Some(rest) = absolute {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.is_empty() || authority.contains('@') {
            return None;
        }
        let path_and_query = if rest.starts_with('/') { rest.into() } else { format!("/{rest}") };
        let path_and_query = without_dots(&path_and_query);
        return Some(Target { authority: Some(authority.to_owned()), path_and_query });
    }
    // `mailto:x` is no path; `a:b` may be one only behind a slash (RFC 3986 section 4.2).
    let first = src.split(['/', '?']).next().unwrap_or_default();
    if first.contains(':') {
        return None;
    }
    let base = base.split('?').next().unwrap_or_default();
    let directory = base.rfind('/').map_or("/", |slash| &base[..=slash]);
    let joined = match src.as_bytes().first() {
        Some(b'/') => src,
        Some(b'?') | None => format!("{base}{src}"),
        _ => format!("{directory}{src}"),
    };
    Some(Target { authority: None, path_and_query: without_dots(&joined) })
}

fn starts_with(text: &str, scheme: &str) -> bool {
    text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// Visible ASCII: all other bytes encoded.
fn written(src: &[u8]) -> String {
    let mut out = Vec::with_capacity(src.len());
    for &byte in src {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                percent(byte, &mut out);
            }
            byte if byte.is_ascii_graphic() => out.push(byte),
            byte => percent(byte, &mut out),
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// The path without segments of dots (RFC 3986 section 5.2.4), and the query.
fn without_dots(path_and_query: &str) -> String {
    let (path, query) = match path_and_query.find('?') {
        Some(at) => path_and_query.split_at(at),
        None => (path_and_query, ""),
    };
    let mut segments: Vec<&str> = Vec::new();
    let mut last_is_dots = false;
    for segment in path.split('/').skip(1) {
        last_is_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    let end = if last_is_dots && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}{query}", segments.join("/"))
}
