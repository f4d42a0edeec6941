//! The guard: checks of every request before its route.
//!
//! | danger | guard |
//! |---|---|
//! | a page of another site that reads this one under its own name (DNS rebinding) | `Host` must be an address, `localhost` or a name of `admin.hosts` |
//! | a page of another site that makes a browser send a request here | `Origin` and `Sec-Fetch-Site` must be our own; no CORS field is ever sent |
//! | anybody who can connect | changes need the token; so does reading, depending on `admin.read` |
//! | another user of this machine at the control socket | its file's permissions, and the kernel's word whose a connection is (`thread`) |
//! | a dashboard shown inside another page | `frame-ancestors 'none'` |
//!
//! The token goes in `Authorization` only, which no browser adds by itself: so a forged request has
//! no credentials.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{App, answer::Refused, thread::Peer};
use crate::settings::{AdminSettings, ReadAccess};

/// Fields of every answer for browsers.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
         object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Passes permitted requests on, and adds the common fields to the answer.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let allowed = allowed(&app, &request);
    let order =
        matches!(request.uri().path(), "/api/v1/reload" | "/api/v1/stop" | "/api/v1/upgrade");
    let changes = !order && !matches!(*request.method(), Method::GET | Method::HEAD);
    let shared = app.http.clone().filter(|_| changes);
    let change = shared.as_ref().map(|shared| shared.changes.begin());
    let mut response = match allowed {
        Ok(()) if matches!(change, Some(None)) => {
            Refused::busy("another process takes over: ask again").into_response()
        }
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn allowed(app: &App, request: &Request) -> Result<(), Refused> {
    if let Some(Peer::Local(_)) = request.extensions().get() {
        // The same user or root, and no browser: neither could do more with the token.
        return Ok(());
    }
    let admin = app.admin();
    let headers = request.headers();
    let host = host(headers, &admin)?;
    let path = request.uri().path();
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes || guarded(path) {
        own_origin(headers, host)?;
    }
    if changes || (admin.read == ReadAccess::Token && guarded(path)) {
        token(app, &admin, headers)?;
    }
    Ok(())
}

/// Whether reading a path may need the token: not the dashboard's files and the documents, which
/// have no data of this server, and not the checks of load balancers.
fn guarded(path: &str) -> bool {
    let files = ["/assets/", "/docs/"].iter().any(|start| path.starts_with(start));
    !(path == "/" || files || path == "/health" || path == "/ready")
}

/// The `Host` field, if it is one of ours.
fn host<'h>(headers: &'h HeaderMap, admin: &AdminSettings) -> Result<&'h str, Refused> {
    let refuse = |message: &str| Refused::new(StatusCode::FORBIDDEN, "bad_host", message);
    let mut fields = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (fields.next(), fields.next()) else {
        return Err(refuse("a request names its host, once"));
    };
    let host = host.to_str().map_err(|_| refuse("Host is not a name"))?;
    let name = without_port(host).trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    if address || name == "localhost" || admin.hosts.contains(&name) {
        return Ok(host);
    }
    Err(refuse(
        "this name is not among `hosts` of [admin]: use the address, localhost, or add the name",
    ))
}

fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(at) if host[at + 1..].bytes().all(|byte| byte.is_ascii_digit()) => &host[..at],
        _ => host,
    }
}

/// Refuses a browser's request on behalf of another site's page. Programs send neither field.
fn own_origin(headers: &HeaderMap, host: &str) -> Result<(), Refused> {
    let foreign = || {
        Refused::new(StatusCode::FORBIDDEN, "bad_origin", "pages of other sites may not do this")
    };
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().map_err(|_| foreign())?;
        let own = origin.split_once("://").is_some_and(|(scheme, authority)| {
            matches!(scheme, "http" | "https") && authority.eq_ignore_ascii_case(host)
        });
        if !own {
            return Err(foreign());
        }
    }
    for site in headers.get_all("sec-fetch-site") {
        if site != "same-origin" && site != "none" {
            return Err(foreign());
        }
    }
    Ok(())
}

/// `Authorization: Bearer TOKEN` (RFC 6750).
fn token(app: &App, admin: &AdminSettings, headers: &HeaderMap) -> Result<(), Refused> {
    let missing = || {
        let message = "this needs the token: Authorization: Bearer TOKEN";
        Refused::new(StatusCode::UNAUTHORIZED, "no_token", message)
    };
    let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?.as_bytes();
    let (scheme, offered) = value.split_at_checked(7).ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return Err(missing());
    }
    let token = admin.token.as_ref().unwrap_or(&app.random);
    if token.matches(offered.trim_ascii()) {
        return Ok(());
    }
    Err(Refused::new(StatusCode::FORBIDDEN, "bad_token", "this is not the token"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (header::HeaderName::from_static(name), HeaderValue::from_static(value))
            })
            .collect()
    }

    fn settings(hosts: &[&str]) -> AdminSettings {
        AdminSettings {
            listen: Vec::new(),
            tls: None,
            token: None,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            read: ReadAccess::Open,
            name: String::new(),
            monkey_api: false,
            connections: 4,
            page_size: 0,
        }
    }

    #[test]
    fn hosts_are_addresses_localhost_and_those_named() {
        let admin = settings(&["cache.example.org"]);
        for good in [
            "127.0.0.1:8081",
            "[::1]:8081",
            "[::1]",
            "localhost",
            "LOCALHOST:1",
            "cache.example.org:8081",
            "Cache.Example.ORG.",
        ] {
            assert_eq!(host(&fields(&[("host", good)]), &admin), Ok(good));
        }
        for bad in [
            "",
            "evil.example",
            "cache.example.org.evil.example",
            "localhost.evil.example:80",
            "x:y:z",
            "127.0.0.1:8081@evil.example",
        ] {
            assert!(host(&fields(&[("host", bad)]), &admin).is_err(), "{bad}");
        }
        assert!(host(&HeaderMap::new(), &admin).is_err());
        let mut twice = fields(&[("host", "localhost")]);
        twice.append("host", HeaderValue::from_static("localhost"));
        assert!(host(&twice, &admin).is_err());
    }

    #[test]
    fn other_sites_pages_are_told_from_our_own() {
        let ask = |pairs: &[(&'static str, &'static str)]| {
            own_origin(&fields(pairs), "127.0.0.1:8081").is_ok()
        };
        assert!(ask(&[]));
        assert!(ask(&[("origin", "http://127.0.0.1:8081"), ("sec-fetch-site", "same-origin")]));
        assert!(ask(&[("sec-fetch-site", "none")]));
        assert!(!ask(&[("origin", "http://127.0.0.1:80")]));
        assert!(!ask(&[("origin", "null")]));
        assert!(!ask(&[("origin", "http://evil.example")]));
        assert!(!ask(&[("sec-fetch-site", "cross-site")]));
        assert!(!ask(&[("sec-fetch-site", "same-site")]));
    }
}
