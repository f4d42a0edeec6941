//! The response fields that are stored and sent on (RFC 9111 3.1, RFC 9110 7.6.1).

use super::{Policy, ResponseFacts, compress};
use crate::Ms;
use crate::http::cache_control::field_names;
use crate::http::range::write_number;
use crate::http::{Elements, Fields, date};

/// Whether a field of this name concerns only the connection or the next proxy (RFC 9110 7.6.1, RFC
/// 9111 3.1), regardless of Connection.
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    ];
    NAMES.iter().any(|hop| name.eq_ignore_ascii_case(hop))
}

/// Whether this message's Connection names the field.
pub fn named_by_connection(fields: Fields<'_>, name: &str) -> bool {
    fields.elements("connection").any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
}

/// A head ready to send, and the lines withheld from clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredHead {
    /// Status line and field lines, without the closing empty line and without Age.
    pub head: Vec<u8>,
    /// Lines as received that the head lacks (Surrogate-Control) or has rewritten (Cache-Control).
    /// A 304 updates these first (RFC 9111 3.2), because the page's lifetime depends on them.
    pub withheld: Vec<u8>,
}

/// The head to store: without hop-by-hop fields, Age, fields named by `private` or `no-cache` (RFC
/// 9111 5.2.2.4, .7), and cookies unless the policy allows them; with a Date (RFC 9110 6.6.1).
/// `reason` may be empty.
pub fn stored_head(resp: &ResponseFacts<'_>, reason: &str, policy: &Policy) -> StoredHead {
    let keep = |name: &str| {
        let cookie = !policy.allow_set_cookie && name.eq_ignore_ascii_case("set-cookie");
        !cookie && !name.eq_ignore_ascii_case("age") && !restricted(resp.fields, policy, name)
    };
    let mut stored = write_head(resp, reason, policy, keep);
    compress::say_vary(resp, policy, &mut stored.head);
    stored
}

/// The head to send to the client whose request fetched the response: as [`stored_head`], but with
/// Age and with the fields meant for that client alone, and without Content-Length: framing is
/// written for each client.
pub fn forwarded_head(resp: &ResponseFacts<'_>, reason: &str, policy: &Policy) -> Vec<u8> {
    let mut head =
        write_head(resp, reason, policy, |name| !name.eq_ignore_ascii_case("content-length")).head;
    compress::say_vary(resp, policy, &mut head);
    head
}

/// Whether a 304 made from a stored head carries this field: the fields of the 200, without those
/// that describe the body (RFC 9110 15.4.5).
pub fn sent_with_304(name: &str) -> bool {
    let describes = name.len() > 8
        && name.as_bytes()[..8].eq_ignore_ascii_case(b"content-")
        && !name.eq_ignore_ascii_case("content-location")
        && !name.eq_ignore_ascii_case("content-security-policy");
    !describes
}

fn write_head(
    resp: &ResponseFacts<'_>,
    reason: &str,
    policy: &Policy,
    keep: impl Fn(&str) -> bool,
) -> StoredHead {
    let mut out = StoredHead::default();
    write_status_line(resp.status, reason, &mut out.head);
    let mut dated = false;
    for (name, value) in resp.fields.iter() {
        if is_hop_by_hop(name) || named_by_connection(resp.fields, name) || !keep(name) {
            continue;
        }
        if policy.surrogate && name.eq_ignore_ascii_case("surrogate-control") {
            write_line(name, value, &mut out.withheld);
            continue;
        }
        if name.eq_ignore_ascii_case("date") {
            if dated || date::parse(value, resp.response_time / 1000).is_none() {
                continue;
            }
            dated = true;
        }
        write_field(name, value, policy, &mut out);
    }
    if !dated {
        write_date(resp.response_time, &mut out.head);
    }
    out
}

/// One field; parts of Cache-Control for shared caches only may be removed.
fn write_field(name: &str, value: &[u8], policy: &Policy, out: &mut StoredHead) {
    let shared_only = |directive: &[u8]| {
        let name = directive.split(|&b| b == b'=').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"s-maxage") || name.eq_ignore_ascii_case(b"proxy-revalidate")
    };
    let rewrite = policy.strip_s_maxage
        && name.eq_ignore_ascii_case("cache-control")
        && Elements::of(value).any(shared_only);
    if !rewrite {
        return write_line(name, value, &mut out.head);
    }
    write_line(name, value, &mut out.withheld);
    let left: Vec<&[u8]> = Elements::of(value).filter(|d| !shared_only(d)).collect();
    if !left.is_empty() {
        write_line(name, &left.join(&b", "[..]), &mut out.head);
    }
}

/// Whether `private="name"` or `no-cache="name"` restricts the field to the client it was sent to.
pub(super) fn restricted(fields: Fields<'_>, policy: &Policy, name: &str) -> bool {
    let targets = policy.targets.iter().map(String::as_str);
    targets.chain(["cache-control"]).any(|control| {
        ["private", "no-cache"].into_iter().any(|directive| {
            field_names(fields.all(control), directive)
                .any(|n| n.eq_ignore_ascii_case(name.as_bytes()))
        })
    })
}

fn write_status_line(status: u16, reason: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_number(u64::from(status), out);
    out.push(b' ');
    out.extend(reason.bytes().filter(|b| !b.is_ascii_control()));
    out.extend_from_slice(b"\r\n");
}

pub(super) fn write_line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn write_date(now: Ms, out: &mut Vec<u8>) {
    write_line("Date", &date::format(now / 1000), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::test_support::{fields, http_date, response};

    fn stored(list: &[(&str, &str)], policy: &Policy) -> (String, String) {
        let held = fields(list);
        let out = stored_head(&response(200, &held), "OK", policy);
        let text = |bytes| String::from_utf8(bytes).expect("ASCII");
        (text(out.head), text(out.withheld))
    }

    /// The stored lines without status line and Date.
    fn lines(list: &[(&str, &str)], policy: &Policy) -> Vec<String> {
        let (head, _) = stored(list, policy);
        let kept = head.lines().skip(1).filter(|l| !l.starts_with("Date"));
        kept.map(str::to_owned).collect()
    }

    #[test]
    fn hop_by_hop_fields_are_not_stored() {
        for name in [
            "Connection",
            "Keep-Alive",
            "Proxy-Authenticate",
            "Proxy-Authentication-Info",
            "Proxy-Authorization",
            "Proxy-Connection",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
            "Age",
        ] {
            assert!(lines(&[(name, "x")], &Policy::default()).is_empty(), "{name}");
        }
        let list = [("connection", "a, B"), ("A", "1"), ("b", "2"), ("c", "3")];
        assert_eq!(lines(&list, &Policy::default()), ["c: 3"]);
    }

    #[test]
    fn fields_kept_to_one_client_are_not_stored() {
        for directive in ["no-cache", "private"] {
            let cc = format!("{directive}=\"a, B\", max-age=60");
            let list = [("Cache-Control", cc.as_str()), ("A", "1"), ("b", "2"), ("c", "3")];
            assert_eq!(
                lines(&list, &Policy::default()),
                [format!("Cache-Control: {cc}"), "c: 3".to_owned()]
            );
        }
        let cookie = [("Set-Cookie", "a=b"), ("x", "y")];
        assert_eq!(lines(&cookie, &Policy::default()), ["x: y"]);
        let allowed = Policy { allow_set_cookie: true, ..Policy::default() };
        assert_eq!(lines(&cookie, &allowed), ["Set-Cookie: a=b", "x: y"]);
        let own = [("Cache-Control", "max-age=60, no-cache=\"Set-Cookie\""), cookie[0]];
        assert_eq!(lines(&own, &allowed), ["Cache-Control: max-age=60, no-cache=\"Set-Cookie\""]);
        let held = fields(&cookie);
        let sent = forwarded_head(&response(200, &held), "OK", &Policy::default());
        assert!(
            sent.starts_with(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n"),
            "{}",
            sent.escape_ascii()
        );
    }

    #[test]
    fn a_date_is_always_there() {
        let (now, earlier) = (format!("Date: {}", http_date(0)), http_date(-30));
        for (list, expected) in [
            (&[][..], now.clone()),
            (&[("date", "foo")], now.clone()),
            (&[("date", earlier.as_str())], format!("date: {earlier}")),
        ] {
            assert_eq!(
                stored(list, &Policy::default()).0,
                format!("HTTP/1.1 200 OK\r\n{expected}\r\n")
            );
        }
    }

    #[test]
    fn what_is_for_shared_caches_is_withheld() {
        let strip = Policy { strip_s_maxage: true, ..Policy::default() };
        for (cc, sent) in [
            ("s-maxage=18000, must-revalidate, max-age=0", Some("must-revalidate, max-age=0")),
            ("S-MaxAge=1", None),
            ("proxy-revalidate, x=\"s-maxage=1\"", Some("x=\"s-maxage=1\"")),
        ] {
            let list = [("Cache-Control", cc)];
            let expected: Vec<String> =
                sent.map(|s| format!("Cache-Control: {s}")).into_iter().collect();
            assert_eq!(lines(&list, &strip), expected);
            assert_eq!(stored(&list, &strip).1, format!("Cache-Control: {cc}\r\n"));
            assert_eq!(lines(&list, &Policy::default()), [format!("Cache-Control: {cc}")]);
        }
        assert_eq!(stored(&[("Cache-Control", "max-age=1")], &strip).1, "");
        let surrogate = [("Surrogate-Control", "max-age=5"), ("CDN-Cache-Control", "max-age=9")];
        assert_eq!(lines(&surrogate, &Policy::default()), ["CDN-Cache-Control: max-age=9"]);
        assert_eq!(stored(&surrogate, &Policy::default()).1, "Surrogate-Control: max-age=5\r\n");
    }

    #[test]
    fn a_304_does_not_describe_a_body() {
        for (name, sent) in [
            ("ETag", true),
            ("Cache-Control", true),
            ("Content-Location", true),
            ("Vary", true),
            ("Date", true),
            ("Content-Security-Policy", true),
            ("Content-Type", false),
            ("content-length", false),
            ("Content-Encoding", false),
        ] {
            assert_eq!(sent_with_304(name), sent, "{name}");
        }
    }
}
