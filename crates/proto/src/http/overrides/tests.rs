//! The table, and names that are and are not in it.

use super::*;

#[test]
fn the_table_is_in_order() {
    let names: Vec<&str> = TABLE.iter().flat_map(|group| group.names).copied().collect();
    for (at, name) in names.iter().enumerate() {
        assert_eq!(*name, name.to_ascii_lowercase());
        assert!(!names[..at].contains(name), "{name} is there twice");
        assert!(name.trim_end_matches('*').len() >= 3, "{name} takes too much");
        let of_family = |family: &&str| family.ends_with('*') && *family != *name;
        let family =
            names.iter().copied().filter(of_family).find(|family| {
                name.trim_end_matches('*').starts_with(family.trim_end_matches('*'))
            });
        assert_eq!(family, None, "{name} is in it");
    }
}

#[test]
fn spellings_of_one_name() {
    for name in [
        "X-Forwarded-Host",
        "x_forwarded_host",
        "X-Forwarded_Host",
        "X.Forwarded.Host",
        "FORWARDED",
        "X-Original-URL",
        "x_rewrite_url",
        "X-HTTP-Method-Override",
        "Front-End-Https",
        "True_Client_IP",
        "X-Real-IP",
        "CF-Connecting-IP",
        "X-ProxyUser-Ip",
        "Client-IP",
        "X-Forwarded",
    ] {
        assert!(is_override(name), "{name}");
    }
}

/// Fields that browsers, programs and tracing send about themselves go on.
#[test]
fn ordinary_fields_are_not_in_the_table() {
    for name in [
        "Accept",
        "Accept-Charset",
        "Accept-Language",
        "Authorization",
        "Cache-Control",
        "Content-Type",
        "Cookie",
        "DNT",
        "Early-Data",
        "From",
        "Host",
        "If-None-Match",
        "Origin",
        "Pragma",
        "Prefer",
        "Priority",
        "Range",
        "Referer",
        "Save-Data",
        "Sec-Fetch-Mode",
        "Sec-CH-UA",
        "Sec-GPC",
        "Traceparent",
        "Tracestate",
        "Upgrade-Insecure-Requests",
        "User-Agent",
        "Via",
        "CDN-Loop",
        "X-Requested-With",
        "X-Request-ID",
        "X-Correlation-ID",
        "X-CSRF-Token",
        "X-Amzn-Trace-Id",
        "X-Cloud-Trace-Context",
        "X-B3-TraceId",
        "X-Client-Data",
        "X-Api-Key",
        "X-PJAX",
        "X-Inertia",
        "RSC",
        "Next-Router-State-Tree",
        "HX-Request",
        "Turbo-Frame",
        "X-Device",
        "Link",
        "Depth",
        "Service-Worker",
        "Purpose",
        "Viewport-Width",
        "Width",
        "DPR",
        "X-WP-Nonce",
        "X-HgArg-1",
        "X-Auth-Token",
        "X-Client-Version",
        "X-Request-Start",
    ] {
        assert!(!is_override(name), "{name}");
    }
}
