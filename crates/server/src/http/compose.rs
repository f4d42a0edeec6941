//! Response heads for clients: from the origin's fields, and the lines Larder adds to every answer.

use http::HeaderMap;
use larder_proto::{
    http::{Elements, Header, range},
    rules::{CacheStatus, strip},
};

use crate::settings::HttpSettings;

/// An origin's fields with their names in the usual spelling, to be viewed as [`Fields`].
///
/// hyper gives names in lower case; clients do not care, people who read them do.
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
fn title_case(name: &str) -> String {
    match name {
        "etag" => return "ETag".to_owned(),
        "www-authenticate" => return "WWW-Authenticate".to_owned(),
        _ => {}
    }
    let mut start = true;
    name.chars()
        .map(|c| {
            let out = if start { c.to_ascii_uppercase() } else { c };
            start = c == '-';
            out
        })
        .collect()
}

/// Appends a status line.
pub(crate) fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    range::write_number(u64::from(status), out);
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Appends one field line.
pub(crate) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field line with a number.
pub(crate) fn number_line(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    range::write_number(value, out);
    out.extend_from_slice(b"\r\n");
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

/// The head of an interim response: status line, end-to-end fields, empty line.
pub(crate) fn interim_head(out: &mut Vec<u8>, status: u16, reason: &str, map: &HeaderMap) {
    status_line(out, status, reason.as_bytes());
    for (name, value) in map {
        let own = name == "content-length" || name == "set-cookie";
        if !own && !strip::is_hop_by_hop(name.as_str()) {
            line(out, &title_case(name.as_str()), value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// `Via` with us added to what was there (RFC 9110 section 7.6.3).
pub(crate) fn via<'a>(before: impl Iterator<Item = &'a [u8]>, http10: bool, pseudonym: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for value in before.flat_map(Elements::of) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(if http10 { b"1.0 " } else { b"1.1 " });
    out.extend_from_slice(pseudonym.as_bytes());
    out
}

/// What an answer says about where it comes from.
#[derive(Default)]
pub(crate) struct Told<'a> {
    /// The answer is from the store.
    pub(crate) hit: bool,
    /// Something was found in the store, used or not.
    pub(crate) found: bool,
    /// None: the Age of the head, if any, stays.
    pub(crate) age: Option<u32>,
    pub(crate) cache_status: CacheStatus<'a>,
}

/// The lines of a plain hit, up to the number of seconds left: all of them but for Age are the same for every hit, and
/// writing them piece by piece was 600 of the 5,000 instructions between reading a request and sending its answer.
pub(crate) struct HitLines(Vec<u8>);

impl HitLines {
    pub(crate) fn new(http: &HttpSettings) -> Self {
        let cache_status = CacheStatus { hit: true, ..CacheStatus::default() };
        let told = Told { hit: true, found: true, age: None, cache_status };
        let mut lines = Vec::new();
        told_lines(&mut lines, &HttpSettings { cache_status: false, ..http.clone() }, &told);
        if http.cache_status {
            lines.extend_from_slice(b"Cache-Status: ");
            told.cache_status.write(pseudonym(http), &mut lines);
            lines.extend_from_slice(b"; ttl=");
        }
        Self(lines)
    }

    /// Appends Age and the lines of a fresh hit.
    pub(crate) fn write(&self, out: &mut Vec<u8>, http: &HttpSettings, age: u32, ttl: i64) {
        out.extend_from_slice(b"Age: ");
        range::write_number(u64::from(age), out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.0);
        if http.cache_status {
            if ttl < 0 {
                out.push(b'-');
            }
            range::write_number(ttl.unsigned_abs(), out);
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn pseudonym(http: &HttpSettings) -> &str {
    http.via.as_deref().unwrap_or("larder")
}

/// Appends the lines Larder adds to every answer it did not make itself.
pub(crate) fn told_lines(out: &mut Vec<u8>, http: &HttpSettings, told: &Told<'_>) {
    if let Some(age) = told.age {
        number_line(out, "Age", u64::from(age));
    }
    let name = pseudonym(http);
    if http.x_cache {
        out.extend_from_slice(if told.hit { b"X-Cache: HIT from " } else { b"X-Cache: MISS from " });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(if told.found {
            b"\r\nX-Cache-Lookup: HIT from "
        } else {
            b"\r\nX-Cache-Lookup: MISS from "
        });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if told.hit
        && let Some(announce) = &http.announce
    {
        out.extend_from_slice(announce.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if http.cache_status {
        out.extend_from_slice(b"Cache-Status: ");
        told.cache_status.write(name, out);
        out.extend_from_slice(b"\r\n");
    }
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
