//! Statements of VCL as settings.

use super::{
    super::{draft::Keys, times},
    Side,
    parse::unquoted,
};

/// A statement as keys. False: it has no counterpart.
pub(super) fn action(words: &[String], side: Side, keys: &mut Keys) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rest = words.get(3..).unwrap_or_default();
    match (side, words.as_slice()) {
        (Side::Request, ["return", "(", "pass" | "pipe", ")"]) => keys.set("pass", "true"),
        (_, ["return", "(", "hash" | "lookup" | "deliver" | "fetch", ")"] | ["return"]) => {}
        (Side::Request, ["unset" | "remove", field])
            if field.eq_ignore_ascii_case("req.http.cookie") =>
        {
            keys.set("ignore_cookies", "[\"*\"]");
            keys.set("bypass_cookies", "[]");
        }
        (Side::Request, ["unset" | "remove", field]) if field.starts_with("req.http.") => {
            keys.add("request_fields", &format!("-{}", &field[9..]));
        }
        (Side::Request, ["set", field, "=", ..]) if field.starts_with("req.http.") => {
            let name = &field[9..];
            // The client's address, and the host, are told by themselves.
            if ["x-forwarded-for", "x-real-ip", "x-forwarded-proto", "host"]
                .contains(&name.to_ascii_lowercase().as_str())
            {
                return true;
            }
            let [one] = rest else { return false };
            if !one.starts_with('"') {
                return false;
            }
            keys.add("request_fields", &format!("{name}: {}", unquoted(one)));
        }
        (Side::Request, ["set", "req.backend_hint" | "req.backend", ..] | ["std", ..]) => {}
        (Side::Request, ["set", "req.url", "=", "std.querysort", ..]) => {
            keys.set("sort_query", "true")
        }
        (Side::Response, words) => return response(words, keys),
        (Side::Deliver, ["unset" | "remove", field]) if field.starts_with("resp.http.") => {
            let name = &field[10..];
            if !["x-varnish", "via", "age"].contains(&name.to_ascii_lowercase().as_str()) {
                keys.add("response_fields", &format!("-{name}"));
            }
        }
        (Side::Deliver, ["set", field, "=", one])
            if field.starts_with("resp.http.") && one.starts_with('"') =>
        {
            let name = &field[10..];
            // X-Cache says hit or miss by itself.
            if !name.to_ascii_lowercase().starts_with("x-cache") {
                keys.add("response_fields", &format!("{name}: {}", unquoted(one)));
            }
        }
        (
            Side::Deliver,
            ["set", "resp.http.X-Cache" | "resp.http.X-Cache-Hits" | "resp.http.X-Hits", ..],
        ) => {}
        _ => return false,
    }
    true
}

/// A statement about the origin's answer.
fn response(words: &[&str], keys: &mut Keys) -> bool {
    let value = words.get(3..).unwrap_or_default().concat();
    let time = || times::time(unquoted(&value));
    match words {
        ["set", "beresp.ttl", "=", ..] => match time() {
            Some(time) => keys.text("ttl", &time),
            None => return false,
        },
        ["set", "beresp.grace", "=", ..] => match time() {
            Some(time) => keys.text("grace", &time),
            None => return false,
        },
        ["set", "beresp.keep", "=", ..] => match time() {
            Some(time) => keys.text("keep", &time),
            None => return false,
        },
        ["set", "beresp.uncacheable", "=", "true"] => keys.set("pass", "true"),
        ["set", "beresp.do_gzip", "=", "true"] => {
            keys.set("compress", "[\"zstd\", \"br\", \"gzip\"]");
        }
        ["set", "beresp.do_stream" | "beresp.do_esi" | "beresp.do_gunzip", "=", on] => {
            return words[1] == "beresp.do_stream" || *on == "false";
        }
        ["unset" | "remove", field] if field.starts_with("beresp.http.") => {
            keys.add("response_fields", &format!("-{}", &field[12..]));
        }
        ["set", field, "=", one] if field.starts_with("beresp.http.") && one.starts_with('"') => {
            keys.add("response_fields", &format!("{}: {}", &field[12..], unquoted(one)));
        }
        _ => return false,
    }
    true
}
