//! The text of response heads: status lines and fields as they are stored, and as origins send
//! them.

use http::HeaderMap;
use larder_proto::http::{Elements, Header, Version, range};

/// An origin's fields with their names in the usual spelling, to be viewed as [`Fields`].
///
/// A map has names in lower case; clients do not care, people who read them do.
pub(crate) struct Spelled {
    names: Vec<String>,
    values: Vec<Vec<u8>>,
}

impl Spelled {
    pub(crate) fn of(map: &HeaderMap) -> Self {
        let names = map.iter().map(|(name, _)| title_case(name.as_str())).collect();
        let values = map.iter().map(|(_, value)| value.as_bytes().trim_ascii().to_vec()).collect();
        Self { names, values }
    }

    /// Adds a line.
    pub(crate) fn push(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.names.push(name.to_owned());
        self.values.push(value.into());
    }

    /// Whether there is a line of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Replaces the values of that name for which `new` has another.
    pub(crate) fn change(&mut self, name: &str, new: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        for (known, value) in self.names.iter().zip(&mut self.values) {
            if known.eq_ignore_ascii_case(name)
                && let Some(new) = new(value)
            {
                *value = new;
            }
        }
    }

    /// Drops every line of that name.
    pub(crate) fn remove(&mut self, name: &str) {
        let mut at = 0;
        while at < self.names.len() {
            if self.names[at].eq_ignore_ascii_case(name) {
                self.names.remove(at);
                self.values.remove(at);
            } else {
                at += 1;
            }
        }
    }

    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        self.names.iter().zip(&self.values).map(|(name, value)| Header { name, value }).collect()
    }
}

/// `content-type` as `Content-Type`.
pub(crate) fn title_case(name: &str) -> String {
    match name {
        "etag" => return "ETag".to_owned(),
        "www-authenticate" => return "WWW-Authenticate".to_owned(),
        _ => {}
    }
    let (mut out, mut start) = (name.to_owned(), true);
    for (at, byte) in name.bytes().enumerate() {
        if start && byte.is_ascii_lowercase() {
            out[at..=at].make_ascii_uppercase();
        }
        start = byte == b'-';
    }
    out
}

/// A head without its Content-Length: framing is written for each client.
pub(crate) fn without_length(head: &[u8]) -> Vec<u8> {
    without(head, &["content-length"])
}

/// A head without the fields of these names.
pub(crate) fn without(head: &[u8], names: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len());
    for line in head.split_inclusive(|&b| b == b'\n') {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        if !names.iter().any(|gone| name.eq_ignore_ascii_case(gone.as_bytes())) {
            out.extend_from_slice(line);
        }
    }
    out
}

/// `Via` with us added to what was there (RFC 9110 section 7.6.3).
pub(crate) fn via<'a>(
    before: impl Iterator<Item = &'a [u8]>,
    version: Version,
    pseudonym: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    for value in before.flat_map(Elements::of) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(version.number().as_bytes());
    out.push(b' ');
    out.extend_from_slice(pseudonym.as_bytes());
    out
}

/// Appends a field line with a number.
pub(crate) fn number_line(head: &mut Vec<u8>, name: &str, value: u64) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    range::write_number(value, head);
    head.extend_from_slice(b"\r\n");
}

/// The value of a field in a stored head.
pub(crate) fn field<'h>(head: &'h [u8], name: &str) -> Option<&'h [u8]> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_people_know_them() {
        assert_eq!(title_case("content-type"), "Content-Type");
        assert_eq!(title_case("etag"), "ETag");
        assert_eq!(title_case("x-a-b"), "X-A-B");
    }
}
