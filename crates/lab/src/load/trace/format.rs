//! Formats of traces: one request per line.

use std::borrow::Cow;

use serde::Deserialize;

use super::fields;
use crate::load::Verb;

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Squid's native access log, and Larder's in that format.
    Squid,
    /// The common and the combined log format.
    Common,
    /// Larder's access log in JSON.
    Json,
    /// Twitter's cache traces: timestamp, key, key size, value size, client, operation, TTL.
    Twitter,
    /// MSR Cambridge's block traces: timestamp, host, disk, type, offset, size, response time.
    Msr,
    /// Comma-separated, with the numbers of the columns from 1: time, key, size (libCacheSim's
    /// order is 1, 2, 3).
    Csv {
        /// Column of the time, in seconds.
        time: usize,
        /// Column of the key, any text.
        key: usize,
        /// Column of the size in bytes.
        size: usize,
    },
    /// One key per line.
    Keys,
}

/// A parsed line. The key's buffer is reused.
#[derive(Debug, Default)]
pub(crate) struct TraceRecord {
    pub(crate) verb: Verb,
    pub(crate) key: Vec<u8>,
    pub(crate) size: Option<usize>,
    pub(crate) ttl: u32,
    /// Nanoseconds since the trace's own origin.
    pub(crate) time: Option<u64>,
}

/// Result of parsing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineResult {
    /// A request, stored in the record.
    Request,
    /// No request: an empty line, a heading, a method that is not replayed.
    Passed,
    /// Not in this format; what was expected.
    Malformed(&'static str),
}

impl Format {
    /// All formats in the order of detection: the strictest first.
    pub(crate) const KNOWN: &[Format] = &[
        Format::Json,
        Format::Squid,
        Format::Common,
        Format::Twitter,
        Format::Msr,
        Format::Csv { time: 1, key: 2, size: 3 },
        Format::Keys,
    ];

    /// Parses `squid`, `common`, `combined`, `json`, `twitter`, `msr`, `csv`, `csv:TIME,KEY,SIZE`,
    /// `keys`.
    pub fn parse(text: &str) -> Result<Format, String> {
        let wrong = || {
            format!(
                "trace format {text:?}: expected squid, common, json, twitter, msr, csv, \
                 csv:1,2,3 (columns of time, key, size) or keys"
            )
        };
        if let Some(columns) = text.strip_prefix("csv:") {
            let columns: Vec<usize> =
                columns.split(',').map_while(|column| column.trim().parse().ok()).collect();
            return match columns[..] {
                [time, key, size] if time > 0 && key > 0 && size > 0 => {
                    Ok(Format::Csv { time, key, size })
                }
                _ => Err(wrong()),
            };
        }
        let text = if text == "combined" { "common" } else { text };
        Format::KNOWN.iter().find(|format| format.name() == text).copied().ok_or_else(wrong)
    }

    /// Name for command line and display.
    pub fn name(&self) -> &'static str {
        match self {
            Format::Squid => "squid",
            Format::Common => "common",
            Format::Json => "json",
            Format::Twitter => "twitter",
            Format::Msr => "msr",
            Format::Csv { .. } => "csv",
            Format::Keys => "keys",
        }
    }

    /// Parses line `number` into `record`, replacing its contents.
    pub(crate) fn read(&self, line: &[u8], number: u64, record: &mut TraceRecord) -> LineResult {
        if line.trim_ascii().is_empty() {
            return LineResult::Passed;
        }
        let TraceRecord { verb, key, size, ttl, time } = record;
        key.clear();
        (*verb, *size, *ttl, *time) = (Verb::Get, None, 0, None);
        let found = match self {
            Format::Squid => squid(line, record),
            Format::Common => common(line, record),
            Format::Json => json(line, record),
            Format::Twitter => twitter(line, record),
            Format::Msr => msr(line, record),
            Format::Csv { time, key, size } => csv(line, [*time, *key, *size], record),
            Format::Keys => keys(line, record),
        };
        let separated = matches!(self, Format::Twitter | Format::Msr | Format::Csv { .. });
        match found {
            // Column names, or a comment.
            LineResult::Malformed(_) if separated && (number == 1 || line.starts_with(b"#")) => {
                LineResult::Passed
            }
            found => found,
        }
    }
}

fn method(name: &[u8]) -> Option<Verb> {
    match name {
        b"GET" => Some(Verb::Get),
        b"HEAD" => Some(Verb::Head),
        b"PUT" => Some(Verb::Set),
        b"DELETE" => Some(Verb::Delete),
        _ => None,
    }
}

/// `time elapsed client result/status bytes method URL user hierarchy/peer type`.
fn squid(line: &[u8], record: &mut TraceRecord) -> LineResult {
    const EXPECTED: LineResult = LineResult::Malformed(
        "expected time, elapsed, client, result/status, bytes, method, URL, ...",
    );
    let mut parts = line.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
    let mut next = || parts.next().unwrap_or_default();
    let (time, elapsed, _client, result, bytes, name, url) =
        (next(), next(), next(), next(), next(), next(), next());
    let (Some(time), Some(_), Some(bytes)) =
        (fields::seconds(time), fields::whole(elapsed), fields::whole(bytes))
    else {
        return EXPECTED;
    };
    if url.is_empty() || !result.contains(&b'/') {
        return EXPECTED;
    }
    let Some(verb) =
        method(name).filter(|_| !url.starts_with(b"error:") && !result.starts_with(b"UDP_"))
    else {
        return LineResult::Passed;
    };
    (record.verb, record.time, record.size) = (verb, Some(time), usize::try_from(bytes).ok());
    record.key.extend_from_slice(url);
    LineResult::Request
}

/// `host ident user [time] "method target version" status bytes ...`.
fn common(line: &[u8], record: &mut TraceRecord) -> LineResult {
    const EXPECTED: LineResult =
        LineResult::Malformed("expected host ident user [time] \"request\" status bytes ...");
    let Some(opened) = memchr::memmem::find(line, b" [") else { return EXPECTED };
    let line = &line[opened + 2..];
    let Some(closed) = memchr::memmem::find(line, b"] \"") else { return EXPECTED };
    let Some(time) = fields::common_time(&line[..closed]) else { return EXPECTED };
    let line = &line[closed + 3..];
    let Some(end) = closing_quote(line) else { return EXPECTED };
    let (request, rest) = (&line[..end], &line[end + 1..]);
    let mut rest = rest.split(|byte| *byte == b' ').filter(|part| !part.is_empty());
    let (Some(status), Some(bytes)) = (rest.next(), rest.next()) else { return EXPECTED };
    let bytes = if bytes == b"-" { Some(0) } else { fields::whole(bytes) };
    let (Some(_), Some(bytes)) = (fields::whole(status), bytes) else { return EXPECTED };
    // The quoted part is what a client sent: an invalid request in it is no error of the trace.
    let mut parts = request.split(|byte| *byte == b' ');
    let (Some(name), Some(target)) = (parts.next(), parts.next()) else {
        return LineResult::Passed;
    };
    let Some(verb) = method(name).filter(|_| !target.starts_with(b"error:")) else {
        return LineResult::Passed;
    };
    unescape(target, &mut record.key);
    (record.verb, record.time, record.size) = (verb, Some(time), usize::try_from(bytes).ok());
    LineResult::Request
}

fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })
}

/// Reverts the escapes `\"`, `\\` and `\xhh`.
fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let hex = rest.get(at + 2..at + 4).filter(|_| rest[at + 1] == b'x');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        let used = match (byte, rest.get(at + 1)) {
            (Some(byte), _) => {
                out.push(byte);
                4
            }
            (None, Some(byte)) => {
                out.push(*byte);
                2
            }
            (None, None) => 1,
        };
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
}

#[derive(Deserialize)]
struct JsonLine<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    body_bytes: u64,
}

fn json(line: &[u8], record: &mut TraceRecord) -> LineResult {
    const EXPECTED: LineResult =
        LineResult::Malformed("expected an object with time, method, url and body_bytes");
    let Ok(line) = serde_json::from_slice::<JsonLine<'_>>(line) else { return EXPECTED };
    let Some(time) = fields::json_time(line.time.as_bytes()) else { return EXPECTED };
    let Some(verb) = method(line.method.as_bytes()).filter(|_| !line.url.starts_with("error:"))
    else {
        return LineResult::Passed;
    };
    (record.verb, record.time, record.size) =
        (verb, Some(time), usize::try_from(line.body_bytes).ok());
    record.key.extend_from_slice(line.url.as_bytes());
    LineResult::Request
}

/// `timestamp,key,key size,value size,client id,operation,TTL`.
fn twitter(line: &[u8], record: &mut TraceRecord) -> LineResult {
    const EXPECTED: LineResult =
        LineResult::Malformed("expected timestamp,key,key size,value size,client id,operation,TTL");
    let Some([time, key, key_size, size, _client, operation, ttl]) = columns(line) else {
        return EXPECTED;
    };
    let (Some(time), Some(_), Some(size), Some(ttl)) =
        (fields::seconds(time), fields::whole(key_size), fields::whole(size), fields::whole(ttl))
    else {
        return EXPECTED;
    };
    record.verb = match operation {
        b"get" | b"gets" => Verb::Get,
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => {
            Verb::Set
        }
        b"delete" => Verb::Delete,
        _ => return EXPECTED,
    };
    (record.time, record.size, record.ttl) =
        (Some(time), usize::try_from(size).ok(), u32::try_from(ttl).unwrap_or(0));
    record.key.extend_from_slice(key);
    LineResult::Request
}

/// `timestamp,host,disk,type,offset,size,response time`; times in units of 100 ns. The key is
/// `host.disk.offset`.
fn msr(line: &[u8], record: &mut TraceRecord) -> LineResult {
    const EXPECTED: LineResult = LineResult::Malformed(
        "expected timestamp,host,disk,Read or Write,offset,size,response time",
    );
    let Some([time, host, disk, kind, offset, size, _took]) = columns(line) else {
        return EXPECTED;
    };
    let time = fields::whole(time).and_then(|time| time.checked_mul(100));
    let (Some(time), Some(_), Some(_), Some(size)) =
        (time, fields::whole(disk), fields::whole(offset), fields::whole(size))
    else {
        return EXPECTED;
    };
    record.verb = match kind {
        b"Read" => Verb::Get,
        b"Write" => Verb::Set,
        _ => return EXPECTED,
    };
    (record.time, record.size) = (Some(time), usize::try_from(size).ok());
    for part in [host, b".", disk, b".", offset] {
        record.key.extend_from_slice(part);
    }
    LineResult::Request
}

fn csv(line: &[u8], [time, key, size]: [usize; 3], record: &mut TraceRecord) -> LineResult {
    const EXPECTED: LineResult =
        LineResult::Malformed("expected columns with time in seconds, key, and size in bytes");
    let column =
        |number: usize| line.split(|byte| *byte == b',').nth(number - 1).map(<[u8]>::trim_ascii);
    let (Some(time), Some(key), Some(size)) = (column(time), column(key), column(size)) else {
        return EXPECTED;
    };
    let (Some(time), Some(size)) = (fields::seconds(time), fields::whole(size)) else {
        return EXPECTED;
    };
    (record.time, record.size) = (Some(time), usize::try_from(size).ok());
    record.key.extend_from_slice(key);
    LineResult::Request
}

fn keys(line: &[u8], record: &mut TraceRecord) -> LineResult {
    let key = line.trim_ascii();
    if key.contains(&b' ') || key.contains(&b',') {
        return LineResult::Malformed("expected a key, without spaces and commas");
    }
    record.key.extend_from_slice(key);
    LineResult::Request
}

/// Splits a line into exactly `N` columns.
fn columns<const N: usize>(line: &[u8]) -> Option<[&[u8]; N]> {
    let mut parts = line.split(|byte| *byte == b',');
    let mut all = [&line[..0]; N];
    for part in &mut all {
        *part = parts.next()?.trim_ascii();
    }
    parts.next().is_none().then_some(all)
}
