//! The path of a request as the name of a file.
//!
//! A name is only ever made of plain segments: no `.`, no `..`, none that is
//! empty or hidden, no slash that was not written as one, no zero byte.

use super::cookie::percent_decoded;

/// The one hidden directory whose files are public (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// A path whose escapes are undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedPath {
    bytes: Vec<u8>,
    /// Place of the first slash that was written as `%2F`; else the length.
    plain: usize,
}

impl DecodedPath {
    /// Undoes the escapes of a path without its query. None: it begins with no slash, or has a zero
    /// byte, which ends a name for some programs and not for others.
    pub fn new(path: &str) -> Option<Self> {
        let written = path.as_bytes();
        let bytes = percent_decoded(written);
        let slash = written.windows(3).position(|at| at.eq_ignore_ascii_case(b"%2f"));
        let plain = slash.map_or(bytes.len(), |at| percent_decoded(&written[..at]).len());
        (bytes.starts_with(b"/") && !bytes.contains(&0)).then_some(Self { bytes, plain })
    }

    /// The bytes; the first is a slash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes before the first slash that was written as `%2F`. Names of files end there
    /// at the latest.
    pub fn plain(&self) -> usize {
        self.plain
    }
}

/// Whether a segment of a path is `.` or `..`, in any spelling in which a server may take it for
/// one: escaped (`%2e%2e`), behind an escaped or a reversed slash, before parameters (`..;a`).
pub fn has_dot_segment(path: &[u8]) -> bool {
    let mut rest = path;
    let decoded = std::iter::from_fn(|| {
        let (first, behind) = rest.split_first()?;
        let hex = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                rest = &behind[2..];
                u8::try_from(high * 16 + low).ok()
            }
            _ => {
                rest = behind;
                Some(*first)
            }
        }
    });
    // Length of the segment so far, where it is made of dots alone.
    let mut dots = None;
    for byte in decoded.chain([b'/']) {
        match byte {
            b'/' | b'\\' | b';' if matches!(dots, Some(1 | 2)) => return true,
            b'/' | b'\\' => dots = Some(0u8),
            b'.' => dots = dots.map(|dots| dots.saturating_add(1)),
            _ => dots = None,
        }
    }
    false
}

/// The path that most servers make of a path without its query: escapes undone, slashes merged, dot
/// segments resolved (RFC 3986 section 6.2.2). None: it is the same.
pub fn plain(path: &str) -> Option<String> {
    let odd = |pair: &[u8]| matches!(pair, [b'/', b'/' | b'.'] | [b'%', _]);
    if !path.as_bytes().windows(2).any(odd) {
        return None;
    }
    let decoded = percent_decoded(path.as_bytes());
    let mut out = Vec::with_capacity(decoded.len());
    let mut ends_in_slash = true;
    for segment in decoded.split(|byte| *byte == b'/') {
        ends_in_slash = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => out.truncate(out.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            segment => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
    if ends_in_slash {
        out.push(b'/');
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Whether a path names a file or a directory below a root: a slash, and plain segments divided by
/// slashes. A directory's name has no slash at its end; that of the root is empty.
pub fn names_file(path: &[u8]) -> bool {
    let Some(below) = path.strip_prefix(b"/") else { return path.is_empty() };
    let hidden = |segment: &[u8]| segment.is_empty() || segment.starts_with(b".");
    let mut segments = below.split(|byte| *byte == b'/');
    let first = segments.next().unwrap_or_default();
    !path.contains(&0) && (first == WELL_KNOWN || !hidden(first)) && !segments.any(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths() {
        for same in ["", "/", "/a", "/a/b/", "/a.b/c..d", "*", "/a-b;c"] {
            assert_eq!(plain(same), None, "{same}");
        }
        for (path, expected) in [
            ("/%61dmin/x", "/admin/x"),
            ("//admin///x", "/admin/x"),
            ("/x/../admin/x", "/admin/x"),
            ("/./admin/x/.", "/admin/x/"),
            ("/x/%2e%2E/admin/x/..", "/admin/"),
            ("/../../admin", "/admin"),
            ("/x/..%2Fadmin", "/admin"),
            ("/..", "/"),
            ("/a%", "/a%"),
            ("/%25%32%65", "/%2e"),
            ("/.well-known/x", "/.well-known/x"),
            ("/%ff", "/\u{fffd}"),
        ] {
            assert_eq!(plain(path).unwrap_or_else(|| path.to_owned()), expected, "{path}");
        }
    }

    #[test]
    fn escapes_are_undone() {
        let path = DecodedPath::new("/a%20b/c%C3%A9%2f%2Fd%zz").expect("a path");
        assert_eq!(path.as_bytes(), b"/a b/c\xc3\xa9//d%zz");
        assert_eq!(path.plain(), 8);
        let path = DecodedPath::new("/index.php/%2e%2e").expect("a path");
        assert_eq!((path.as_bytes(), path.plain()), (&b"/index.php/.."[..], 13));
    }

    #[test]
    fn no_zero_byte_and_no_relative_path() {
        assert_eq!(DecodedPath::new("/a%00.php"), None);
        assert_eq!(DecodedPath::new("a"), None);
        assert_eq!(DecodedPath::new("*"), None);
        assert_eq!(DecodedPath::new(""), None);
    }

    #[test]
    fn dot_segments_in_every_spelling() {
        for path in [
            "/..",
            "/.",
            "/a/../b",
            "/a/./b",
            "/%2e%2E/b",
            "/.%2e",
            "/a/..%2fb",
            "/a%2F../b",
            "/a\\..\\b",
            "/a%5c..%5cb",
            "/..;/b",
            "/a/..;x=1",
            "/a/..%3b/b",
        ] {
            assert!(has_dot_segment(path.as_bytes()), "{path}");
        }
        for path in ["/", "/a..", "/..a/b", "/.../b", "/a/.well-known", "/a;../b", "/%", "/%2", "*"]
        {
            assert!(!has_dot_segment(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn names_of_files() {
        for path in ["", "/a", "/a/b.php", "/a b", "/a../b", "/.well-known/acme", "/a\\b"] {
            assert!(names_file(path.as_bytes()), "{path:?}");
        }
        for path in [
            "/",
            "a",
            "//a",
            "/a//b",
            "/a/",
            "/.",
            "/..",
            "/a/..",
            "/../a",
            "/a/./b",
            "/.env",
            "/a/.git/config",
            "/a/.well-known/b",
            "/a\0b",
        ] {
            assert!(!names_file(path.as_bytes()), "{path:?}");
        }
        assert!(names_file(b"/\xff\xfe"));
    }
}
