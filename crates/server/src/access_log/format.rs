//! The three formats of a line. Each function appends one line, with its newline, and allocates
//! only if the buffer is too small.

use super::{
    Record,
    text::{Moment, address, backslash, json_string, number, percent},
};
use crate::settings::LogFormat;

/// Appends one line.
pub(super) fn line(out: &mut Vec<u8>, format: LogFormat, record: &Record<'_>) {
    match format {
        LogFormat::Squid => squid(out, record),
        LogFormat::Combined => combined(out, record),
        LogFormat::Json => json(out, record),
    }
    out.push(b'\n');
}

/// Squid's native format, `%9d.%03d %6d %s %s/%03d %d %s %s %s %s/%s %s`: time, elapsed
/// milliseconds, client, result/status, bytes, method, URL, user, hierarchy/peer, type.
fn squid(out: &mut Vec<u8>, record: &Record<'_>) {
    number(out, record.time / 1000, 9, b' ');
    out.push(b'.');
    number(out, record.time % 1000, 3, b'0');
    out.push(b' ');
    number(out, record.elapsed_us / 1000, 6, b' ');
    out.push(b' ');
    address(out, record.client);
    out.push(b' ');
    out.extend_from_slice(record.result.as_str().as_bytes());
    out.push(b'/');
    number(out, u64::from(record.status), 3, b'0');
    out.push(b' ');
    number(out, record.bytes, 0, b' ');
    out.push(b' ');
    percent(out, record.method.as_bytes());
    out.push(b' ');
    percent(out, record.url.as_bytes());
    out.push(b' ');
    percent(out, record.user.unwrap_or_default());
    out.push(b' ');
    out.extend_from_slice(record.hierarchy.as_str().as_bytes());
    out.push(b'/');
    match record.hierarchy.peer() {
        Some(peer) => address(out, peer),
        None => out.push(b'-'),
    }
    out.push(b' ');
    percent(out, media_type(record.content_type.unwrap_or_default()));
}

/// The type without its parameters, as Squid logs it.
fn media_type(content_type: &[u8]) -> &[u8] {
    let end = content_type.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t'));
    &content_type[..end.unwrap_or(content_type.len())]
}

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Apache's combined format, `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i"`; times in
/// UTC.
fn combined(out: &mut Vec<u8>, record: &Record<'_>) {
    address(out, record.client);
    out.extend_from_slice(b" - ");
    percent(out, record.user.unwrap_or_default());
    out.extend_from_slice(b" [");
    combined_time(out, record.time);
    out.extend_from_slice(b"] \"");
    backslash(out, record.method.as_bytes());
    out.push(b' ');
    backslash(out, path(record.url).as_bytes());
    out.push(b' ');
    backslash(out, record.http_version.as_bytes());
    out.extend_from_slice(b"\" ");
    number(out, u64::from(record.status), 3, b'0');
    out.push(b' ');
    match record.body_bytes {
        0 => out.push(b'-'),
        bytes => number(out, bytes, 0, b' '),
    }
    for field in [record.referer, record.user_agent] {
        out.extend_from_slice(b" \"");
        backslash(out, field.unwrap_or(b"-"));
        out.push(b'"');
    }
}

fn combined_time(out: &mut Vec<u8>, time: u64) {
    let moment = Moment::new(time);
    number(out, moment.day, 2, b'0');
    out.push(b'/');
    out.extend_from_slice(MONTHS[moment.month as usize - 1]);
    out.push(b'/');
    number(out, moment.year, 4, b'0');
    for part in [moment.hour, moment.minute, moment.second] {
        out.push(b':');
        number(out, part, 2, b'0');
    }
    out.extend_from_slice(b" +0000");
}

/// The target as the client sent it: the part behind the authority.
fn path(url: &str) -> &str {
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
        return url;
    };
    match rest.find(['/', '?']) {
        Some(start) => &rest[start..],
        None => "/",
    }
}

/// One JSON object per line. Every key is always there, in this order; absent values are null.
fn json(out: &mut Vec<u8>, record: &Record<'_>) {
    out.extend_from_slice(b"{\"time\":\"");
    json_time(out, record.time);
    out.extend_from_slice(b"\",\"elapsed_us\":");
    number(out, record.elapsed_us, 0, b' ');
    out.extend_from_slice(b",\"client\":\"");
    address(out, record.client);
    out.push(b'"');
    json_field(out, "method", Some(record.method.as_bytes()));
    json_field(out, "url", Some(record.url.as_bytes()));
    json_field(out, "http_version", Some(record.http_version.as_bytes()));
    for (key, value) in [
        ("status", u64::from(record.status)),
        ("bytes", record.bytes),
        ("body_bytes", record.body_bytes),
    ] {
        json_key(out, key);
        number(out, value, 0, b' ');
    }
    json_field(out, "result", Some(record.result.as_str().as_bytes()));
    json_field(out, "hierarchy", Some(record.hierarchy.as_str().as_bytes()));
    json_key(out, "peer");
    match record.hierarchy.peer() {
        None => out.extend_from_slice(b"null"),
        Some(peer) => {
            out.push(b'"');
            address(out, peer);
            out.push(b'"');
        }
    }
    json_field(out, "content_type", record.content_type);
    json_field(out, "user", record.user);
    json_field(out, "referer", record.referer);
    json_field(out, "user_agent", record.user_agent);
    json_field(out, "cache_status", record.cache_status);
    json_field(out, "tls_version", record.tls.map(|tls| tls.version.as_bytes()));
    json_field(out, "tls_cipher", record.tls.map(|tls| tls.cipher.as_bytes()));
    json_key(out, "tls_resumed");
    let resumed = record.tls.map_or("null", |tls| if tls.resumed { "true" } else { "false" });
    out.extend_from_slice(resumed.as_bytes());
    json_field(out, "reference", record.reference.map(str::as_bytes));
    out.push(b'}');
}

fn json_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn json_field(out: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    json_key(out, key);
    match value {
        Some(value) => json_string(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// RFC 3339, with milliseconds.
fn json_time(out: &mut Vec<u8>, time: u64) {
    let moment = Moment::new(time);
    for (part, width, end) in [
        (moment.year, 4, b'-'),
        (moment.month, 2, b'-'),
        (moment.day, 2, b'T'),
        (moment.hour, 2, b':'),
        (moment.minute, 2, b':'),
        (moment.second, 2, b'.'),
        (moment.millisecond, 3, b'Z'),
    ] {
        number(out, part, width, b'0');
        out.push(end);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{
        super::{Hierarchy, ResultCode, Tls},
        *,
    };

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("address")
    }

    fn record() -> Record<'static> {
        Record {
            time: 971_211_336_007,
            elapsed_us: 180_999,
            client: ip("127.0.0.1"),
            method: "GET",
            url: "http://www.example.com/apache_pb.gif?a=b",
            http_version: "HTTP/1.0",
            status: 200,
            bytes: 2626,
            body_bytes: 2326,
            result: ResultCode::TcpMiss,
            hierarchy: Hierarchy::Direct(ip("10.1.2.3")),
            content_type: Some(b"text/html; charset=utf-8"),
            user: Some(b"frank"),
            referer: Some(b"http://www.example.com/start.html"),
            user_agent: Some(b"Mozilla/4.08 [en] (Win98; I ;Nav)"),
            cache_status: Some(b"larder; fwd=miss; stored"),
            reference: None,
            tls: Some(Tls { version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256", resumed: true }),
        }
    }

    fn nothing_known() -> Record<'static> {
        Record {
            time: 7,
            elapsed_us: 999,
            client: ip("2001:db8::1"),
            url: "error:invalid-request",
            status: 0,
            bytes: 0,
            body_bytes: 0,
            result: ResultCode::None,
            hierarchy: Hierarchy::None,
            content_type: None,
            user: None,
            referer: None,
            user_agent: None,
            cache_status: None,
            reference: None,
            tls: None,
            ..record()
        }
    }

    fn written(format: LogFormat, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        line(&mut out, format, record);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn squid_native_is_exact() {
        assert_eq!(
            written(LogFormat::Squid, &record()),
            "971211336.007    180 127.0.0.1 TCP_MISS/200 2626 GET http://www.example.com/apache_pb.gif?a=b frank \
             HIER_DIRECT/10.1.2.3 text/html\n"
        );
        assert_eq!(
            written(LogFormat::Squid, &nothing_known()),
            "        0.007      0 2001:db8::1 NONE/000 0 GET error:invalid-request - HIER_NONE/- \
             -\n"
        );
        let now = Record {
            time: 1_753_000_000_120,
            elapsed_us: 12_345_678_000,
            user: None,
            hierarchy: Hierarchy::FirstUpPeer(ip("::1")),
            ..record()
        };
        assert_eq!(
            written(LogFormat::Squid, &now),
            "1753000000.120 12345678 127.0.0.1 TCP_MISS/200 2626 GET http://www.example.com/apache_pb.gif?a=b - \
             FIRSTUP_PARENT/::1 text/html\n"
        );
    }

    /// The example of Apache's own documentation (in UTC, and with a query).
    #[test]
    fn combined_is_exact() {
        assert_eq!(
            written(LogFormat::Combined, &record()),
            "127.0.0.1 - frank [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif?a=b HTTP/1.0\" 200 2326 \
             \"http://www.example.com/start.html\" \"Mozilla/4.08 [en] (Win98; I ;Nav)\"\n"
        );
        assert_eq!(
            written(LogFormat::Combined, &nothing_known()),
            "2001:db8::1 - - [01/Jan/1970:00:00:00 +0000] \"GET error:invalid-request HTTP/1.0\" \
             000 - \"-\" \"-\"\n"
        );
    }

    #[test]
    fn json_parses_back() {
        let value: serde_json::Value =
            serde_json::from_str(&written(LogFormat::Json, &record())).expect("JSON");
        let expected = serde_json::json!({
            "time": "2000-10-10T20:55:36.007Z", "elapsed_us": 180_999, "client": "127.0.0.1", "method": "GET",
            "url": "http://www.example.com/apache_pb.gif?a=b", "http_version": "HTTP/1.0", "status": 200,
            "bytes": 2626, "body_bytes": 2326, "result": "TCP_MISS", "hierarchy": "HIER_DIRECT", "peer": "10.1.2.3",
            "content_type": "text/html; charset=utf-8", "user": "frank",
            "referer": "http://www.example.com/start.html", "user_agent": "Mozilla/4.08 [en] (Win98; I ;Nav)",
            "cache_status": "larder; fwd=miss; stored", "tls_version": "TLSv1.3",
            "tls_cipher": "TLS_AES_128_GCM_SHA256", "tls_resumed": true, "reference": null,
        });
        assert_eq!(value, expected);
        let value: serde_json::Value =
            serde_json::from_str(&written(LogFormat::Json, &nothing_known())).expect("JSON");
        assert_eq!(
            (&value["peer"], &value["tls_resumed"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert_eq!(value.as_object().expect("object").len(), 21);
    }

    #[test]
    fn targets_are_found_in_urls() {
        for (url, expected) in [
            ("http://a/b?c", "/b?c"),
            ("http://a", "/"),
            ("http://a?b", "?b"),
            ("*", "*"),
            ("/b?u=http://c/d", "/b?u=http://c/d"),
            ("https://a/b", "/b"),
            ("http://[::1]:80//x", "//x"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
    }

    /// All bytes, and text that could forge a line.
    fn hostile() -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = vec![
            (0..=255).collect(),
            b"x\n1.2.3.4 - - [01/Jan/2030:00:00:00 +0000] \"GET /forged HTTP/1.1\" 200 1 \"-\" \"-\""
                .to_vec(),
            b"\" 200 1 \"".to_vec(),
            b"\\\" \\".to_vec(),
            b"\",\"status\":500,\"x\":\"".to_vec(),
            b"\x1b[2J\x1b]0;owned\x07".to_vec(),
            "\u{2028}\u{85}\u{202e}".as_bytes().to_vec(),
        ];
        all.push(vec![b'"'; 3]);
        all
    }

    fn with_everything<'a>(bytes: &'a [u8], text: &'a str) -> Record<'a> {
        Record {
            method: text,
            url: text,
            http_version: text,
            content_type: Some(bytes),
            user: Some(bytes),
            referer: Some(bytes),
            user_agent: Some(bytes),
            cache_status: Some(bytes),
            ..record()
        }
    }

    /// Splits a combined line as log readers do.
    fn combined_fields(line: &str) -> Vec<String> {
        let (mut fields, mut quoted, mut bracketed, mut escaped) =
            (vec![String::new()], false, false, false);
        for character in line.trim_end_matches('\n').chars() {
            match character {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                '[' if !quoted => bracketed = true,
                ']' if !quoted => bracketed = false,
                ' ' if !quoted && !bracketed => {
                    fields.push(String::new());
                    continue;
                }
                _ => {}
            }
            fields.last_mut().expect("never empty").push(character);
        }
        fields
    }

    #[test]
    fn nothing_a_client_sends_forges_a_line_or_a_field() {
        for bytes in hostile() {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let record = with_everything(&bytes, &text);
            for format in [LogFormat::Squid, LogFormat::Combined, LogFormat::Json] {
                let line = written(format, &record);
                let inside = line.strip_suffix('\n').expect("one line");
                assert!(!inside.chars().any(char::is_control), "{format:?}: {inside:?}");
            }
            let squid = written(LogFormat::Squid, &record);
            assert_eq!(squid.split_whitespace().count(), 10, "{squid}");
            let combined = combined_fields(&written(LogFormat::Combined, &record));
            assert_eq!(combined.len(), 9, "{combined:?}");
            assert_eq!((combined[5].as_str(), combined[6].as_str()), ("200", "2326"));
            let json: serde_json::Value =
                serde_json::from_str(&written(LogFormat::Json, &record)).expect("JSON");
            assert_eq!(json["status"], 200);
            assert_eq!(json["url"], text.as_str());
            assert_eq!(json["user_agent"], String::from_utf8_lossy(&bytes).as_ref());
        }
    }

    #[test]
    fn a_buffer_with_room_is_not_moved() {
        let mut out = Vec::with_capacity(64 * 1024);
        let (start, capacity) = (out.as_ptr(), out.capacity());
        for format in [LogFormat::Squid, LogFormat::Combined, LogFormat::Json] {
            line(&mut out, format, &record());
        }
        assert_eq!((out.as_ptr(), out.capacity()), (start, capacity));
    }
}
