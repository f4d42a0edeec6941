//! The version of a page, and its type: from the fields of an answer.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hyper::header::{CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};
use larder_proto::http::date;

/// Seconds between the last change of a page and the answer, after which the time alone tells two
/// versions apart (RFC 7232 section 2.2.2): a page may change twice within one second.
const SETTLED: u64 = 60;
/// The longest type that is kept: those that are registered have less than half.
const LONGEST_TYPE: usize = 255;

/// The version of a page: its entity tag, its time, and its size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Version {
    tag: Option<Box<[u8]>>,
    modified: Option<Box<[u8]>>,
    /// None: known only when it is read.
    pub(super) size: Option<u64>,
    /// Tag or time tell it from every other version (RFC 9110 section 8.8.1).
    is_strong: bool,
}

impl Version {
    pub(super) fn of(fields: &HeaderMap, size: Option<u64>) -> Version {
        let bytes =
            |name: HeaderName| fields.get(name).map(|value| Box::<[u8]>::from(value.as_bytes()));
        let (tag, modified) = (bytes(ETAG), bytes(LAST_MODIFIED));
        let is_strong = match &tag {
            Some(tag) if tag.starts_with(b"\"") => true,
            _ => is_settled(modified.as_deref(), bytes(DATE).as_deref()),
        };
        Version { tag, modified, size, is_strong }
    }

    /// Whether two of the same version are the same bytes.
    pub(super) fn is_told(&self) -> bool {
        self.size.is_some() && self.is_strong
    }

    /// Whether an answer is of the same version, by the same fields.
    pub(super) fn is(&self, other: &Version) -> bool {
        self.tag == other.tag && self.modified == other.modified && self.size == other.size
    }

    pub(super) fn modified(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds(self.modified.as_deref()?)?))
    }
}

fn seconds(field: &[u8]) -> Option<u64> {
    // No server writes years of two digits any more, which is the one use of the present time.
    date::parse(field, 0)
}

fn is_settled(modified: Option<&[u8]>, answered: Option<&[u8]>) -> bool {
    let (modified, answered) = (modified.and_then(seconds), answered.and_then(seconds));
    modified.zip(answered).is_some_and(|(modified, answered)| {
        modified.checked_add(SETTLED).is_some_and(|settled| settled <= answered)
    })
}

/// The type of a page, as the extended attributes of a file say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Type {
    kind: Option<Arc<[u8]>>,
    charset: Option<Arc<[u8]>>,
}

impl Type {
    /// From `Content-Type`.
    pub(super) fn of(fields: &HeaderMap) -> Type {
        let field = fields.get(CONTENT_TYPE).map(|field| field.as_bytes()).unwrap_or_default();
        if field.len() > LONGEST_TYPE {
            return Type::default();
        }
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let lower = |text: &[u8]| Some(Arc::from(text.to_ascii_lowercase()));
        let kind = parts.next().filter(|kind| kind.contains(&b'/')).and_then(lower);
        let charset = parts.find_map(|part| {
            let at = part.iter().position(|byte| *byte == b'=')?;
            let (name, value) = part.split_at(at);
            let value = value[1..].strip_prefix(b"\"").unwrap_or(&value[1..]);
            let value = value.strip_suffix(b"\"").unwrap_or(value);
            if name.eq_ignore_ascii_case(b"charset") { lower(value) } else { None }
        });
        Type { charset: charset.filter(|_| kind.is_some()), kind }
    }

    /// The extended attributes that there are, by freedesktop.org's names.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'static str, &Arc<[u8]>)> {
        let both = [("user.mime_type", &self.kind), ("user.charset", &self.charset)];
        both.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs =
            lines.iter().map(|(name, value)| (name.clone(), value.parse().expect("a value")));
        pairs.collect()
    }

    #[test]
    fn versions_are_told_apart_by_strong_validators_alone() {
        let (then, soon) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:36 GMT");
        let later = "Sun, 06 Nov 1994 08:50:37 GMT";
        let told = |lines: &[(HeaderName, &str)], size| Version::of(&fields(lines), size).is_told();
        assert!(told(&[(ETAG, "\"a\"")], Some(1)));
        assert!(!told(&[(ETAG, "\"a\"")], None));
        assert!(!told(&[(ETAG, "W/\"a\"")], Some(1)));
        assert!(!told(&[(ETAG, "W/\"a\""), (LAST_MODIFIED, then)], Some(1)));
        assert!(!told(&[(LAST_MODIFIED, then), (DATE, soon)], Some(1)));
        assert!(told(&[(LAST_MODIFIED, then), (DATE, later)], Some(1)));
        assert!(told(&[(ETAG, "W/\"a\""), (LAST_MODIFIED, then), (DATE, later)], Some(1)));
        assert!(!told(&[(LAST_MODIFIED, "soon"), (DATE, later)], Some(1)));
        assert!(!told(&[], Some(1)));
    }

    #[test]
    fn types_are_read() {
        let read = |value| {
            let read = Type::of(&fields(&[(CONTENT_TYPE, value)]));
            let text = |value: &Arc<[u8]>| String::from_utf8_lossy(value).into_owned();
            read.attributes().map(|(name, value)| (name, text(value))).collect::<Vec<_>>()
        };
        let pair = |name: &'static str, value: &str| (name, value.to_owned());
        assert_eq!(read("Text/HTML"), [pair("user.mime_type", "text/html")]);
        let both = [pair("user.mime_type", "text/html"), pair("user.charset", "utf-8")];
        assert_eq!(read("text/html; a=b ;CHARSET=\"UTF-8\""), both);
        for none in ["", "html", "; charset=utf-8", &"a/".repeat(200)] {
            assert_eq!(read(none), [], "{none}");
        }
    }
}
