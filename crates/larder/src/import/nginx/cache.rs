//! nginx's directives of caching and of fields, in one context.

use std::collections::BTreeMap;

use super::{
    super::{
        draft::{Draft, Keys},
        times,
    },
    parse::Directive,
};

/// Names that the directives of a context refer to.
pub(super) struct Context<'n> {
    /// `inactive` of each cache.
    pub(super) zones: &'n BTreeMap<String, String>,
    pub(super) rates: &'n BTreeMap<String, String>,
    pub(super) needless: &'n [&'n str],
}

/// Fields that Larder sends to the origin by itself, with the client's address and scheme.
const OWN_FIELDS: &[&str] = &[
    "host",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "connection",
    "upgrade",
];

/// Puts the directives of a location into the keys of a site or rule, and of its origin.
pub(super) fn policy(
    context: &Context<'_>,
    directives: &[Directive],
    keys: &mut Keys,
    origin: &mut Keys,
    draft: &mut Draft,
) {
    let find = |names: [&str; 2]| directives.iter().rev().find(|d| names.contains(&d.name()));
    let passes = find(["proxy_pass", "fastcgi_pass"]).is_some();
    let cache = find(["proxy_cache", "fastcgi_cache"]).map(Directive::arg);
    if passes && matches!(cache, None | Some("off")) {
        keys.set("pass", "true");
    }
    let mut updating = false;
    for directive in directives {
        let name = directive.name();
        let known = match name.strip_prefix("proxy_").or(name.strip_prefix("fastcgi_")) {
            Some(rest) => proxied(rest, directive, keys, origin, &mut updating, draft),
            None => false,
        };
        if known || context.needless.contains(&name) {
            continue;
        }
        others(context, directive, keys, draft);
    }
    if updating {
        let zone = cache.and_then(|zone| context.zones.get(zone));
        keys.text("grace", zone.map_or("10m", String::as_str));
    }
}

/// A directive `proxy_...` or `fastcgi_...`. False: it is none of these.
fn proxied(
    name: &str,
    directive: &Directive,
    keys: &mut Keys,
    origin: &mut Keys,
    updating: &mut bool,
    draft: &mut Draft,
) -> bool {
    let time = times::time(directive.arg());
    match name {
        "pass" | "cache" => {}
        "cache_valid" => valid(directive, keys, draft),
        "cache_use_stale" => {
            *updating |= directive.args().iter().any(|word| word == "updating");
            if directive.args().iter().any(|word| word == "error" || word == "timeout" || word.starts_with("http_5")) {
                keys.text("keep", "1d");
            }
        }
        "cache_bypass" | "no_cache" => bypass(directive, keys, draft),
        "cache_key" => cache_key(directive, keys, draft),
        "cache_methods" if directive.args().iter().all(|method| method == "GET" || method == "HEAD") => {}
        "ignore_headers" => {
            for field in directive.args() {
                match field.to_ascii_lowercase().as_str() {
                    "cache-control" | "expires" => {
                        keys.set("cache", "true");
                    }
                    "set-cookie" => draft.leave(directive.line, directive.text(), "pages with Set-Cookie are not stored; allow_set_cookie stores them with the cookie, which is then everybody's"),
                    _ => {}
                }
            }
        }
        "set_header" | "param" => set_header(name, directive, keys, origin, draft),
        "hide_header" => keys.add("response_fields", &format!("-{}", directive.arg())),
        "connect_timeout" => set_time(origin, "connect_timeout", time),
        "read_timeout" => set_time(origin, "first_byte_timeout", time),
        "send_timeout" | "pass_header" | "pass_request_headers" => {}
        "ssl_verify" => origin.set("verify", (directive.arg() == "on").to_string()),
        "ssl_name" => origin.text("tls_name", directive.arg()),
        "ssl_trusted_certificate" => origin.text("ca", directive.arg()),
        "ssl_server_name" => {}
        "split_path_info" => {}
        "cache_min_uses" => draft.leave(directive.line, directive.text(), "pages are stored at the first request; the eviction keeps those that are requested again"),
        _ => return false,
    }
    true
}

fn set_time(keys: &mut Keys, key: &str, time: Option<String>) {
    if let Some(time) = time.filter(|time| time != "0s") {
        keys.text(key, &time);
    }
}

/// Lifetimes by status.
fn valid(directive: &Directive, keys: &mut Keys, draft: &mut Draft) {
    let Some((time, statuses)) = directive.args().split_last() else { return };
    let Some(time) = times::time(time) else {
        return draft.leave(directive.line, directive.text(), "its time is not understood");
    };
    // Like nginx's: only where the answer gives none.
    let refresh = |keys: &mut Keys| {
        keys.set("refresh", format!("{{ min = \"{time}\", percent = 0, max = \"{time}\" }}"));
    };
    if statuses.is_empty() {
        return refresh(keys);
    }
    for status in statuses {
        match status.as_str() {
            "any" => {
                if !keys.has("refresh") {
                    refresh(keys);
                }
                keys.add("error_ttl", &time);
            }
            status if status.starts_with(['2', '3']) => refresh(keys),
            "400" | "403" | "405" | "429" if status != "403" && status != "405" => {
                draft.leave(
                    directive.line,
                    directive.text(),
                    format!("{status} is never stored: one client's fields may cause it"),
                );
            }
            status => keys.add("error_ttl", &format!("{status} {time}")),
        }
    }
}

/// `$cookie_NAME` makes a request pass.
fn bypass(directive: &Directive, keys: &mut Keys, draft: &mut Draft) {
    for word in directive.args() {
        match word.strip_prefix('$') {
            Some(name) if name.starts_with("cookie_") => {
                keys.add("bypass_cookies", &name["cookie_".len()..]);
            }
            // Requests with Authorization are not answered from memory unless the answer allows it;
            // no-cache of a client is obeyed.
            Some("http_authorization" | "http_pragma" | "http_cache_control" | "upstream_http_set_cookie") => {}
            Some(name) if name.starts_with("skip") || name.contains("cache") => {}
            _ => draft.leave(directive.line, format!("{} {word}", directive.name()), "a condition is a rule here: pass = true of a [[site.rule]] with header, cookie or path"),
        }
    }
}

fn cache_key(directive: &Directive, keys: &mut Keys, draft: &mut Draft) {
    let text = directive.args().join("");
    let mut rest = text.as_str();
    let mut uri = false;
    while let Some(at) = rest.find('$') {
        let name = &rest[at + 1..];
        let name = name.trim_start_matches('{');
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        match &name[..end] {
            "scheme" | "host" | "proxy_host" | "http_host" | "server_name" | "request_method"
            | "server_port" | "is_args" => {}
            "request_uri" | "args" => uri = true,
            "uri" => uri |= text.contains("args"),
            field if field.starts_with("cookie_") => {
                keys.add("vary_cookies", &field["cookie_".len()..])
            }
            field if field.starts_with("http_") => {
                keys.add("key_fields", &field["http_".len()..].replace('_', "-"))
            }
            field => draft.leave(
                directive.line,
                directive.text(),
                format!("`${field}` cannot be in the key"),
            ),
        }
        rest = &name[end..];
    }
    if !uri {
        draft.leave(
            directive.line,
            directive.text(),
            "path and query are always in the key: drop_query leaves parameters out",
        );
    }
}

fn set_header(
    name: &str,
    directive: &Directive,
    keys: &mut Keys,
    origin: &mut Keys,
    draft: &mut Draft,
) {
    let (field, value) = (directive.arg(), directive.args().get(1).map_or("", String::as_str));
    let lower = field.to_ascii_lowercase();
    if name == "param" {
        // The usual parameters are sent by themselves.
        if !value.contains('$') && !value.is_empty() {
            origin.add("params", &format!("{field}={value}"));
        }
        return;
    }
    match value {
        _ if lower == "host" && !value.contains('$') => origin.text("host_header", value),
        _ if OWN_FIELDS.contains(&lower.as_str()) => {}
        "" => keys.add("request_fields", &format!("-{field}")),
        value if value.contains('$') => {
            draft.leave(directive.line, directive.text(), "fields have no variables here")
        }
        value => keys.add("request_fields", &format!("{field}: {value}")),
    }
}

/// Directives that are no proxy's.
fn others(context: &Context<'_>, directive: &Directive, keys: &mut Keys, draft: &mut Draft) {
    let args: Vec<&str> = directive.args().iter().map(String::as_str).collect();
    match (directive.name(), args.as_slice()) {
        ("root" | "index" | "ssl" | "access_log" | "alias" | "try_files" | "autoindex", _) => {}
        ("gzip", ["on"]) => keys.set("compress", "[\"zstd\", \"br\", \"gzip\"]"),
        ("gzip", _) => {}
        ("add_header", [field, value, ..]) if !value.contains('$') => {
            keys.add("response_fields", &format!("{field}: {value}"));
        }
        ("add_header", [_, "$upstream_cache_status", ..]) => {}
        ("expires", [time]) if *time != "off" && *time != "-1" => draft.leave(
            directive.line,
            directive.text(),
            "a lifetime for browsers: `Cache-Control: max-age` in response_fields, or `expires` of \
             a files origin",
        ),
        ("expires", _) => {}
        ("limit_req", words) => {
            let named = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
            let rate = named("zone=").and_then(|zone| context.rates.get(zone));
            match (rate, named("burst=")) {
                (Some(rate), Some(burst)) => keys.text("limit", &format!("{rate} burst {burst}")),
                (Some(rate), None) => keys.text("limit", rate),
                _ => draft.leave(directive.line, directive.text(), "its zone is not in this file"),
            }
        }
        ("include", [file])
            if file.ends_with("proxy_params")
                || file.contains("fastcgi_params")
                || file.contains("fastcgi-php")
                || file.contains("fastcgi.conf") => {}
        _ => {
            // A directive of the server is one of each of its locations.
            let (line, text) = (directive.line, directive.text());
            let known = draft.left.iter().any(|left| left.line == line && left.text == text);
            if !known {
                draft.leave(directive.line, directive.text(), "no counterpart");
            }
        }
    }
}
