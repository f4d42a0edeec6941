//! Request fields whose purpose is to say something else than the request itself: another target,
//! host, port, scheme, method, client or user. Frameworks and proxies believe them, caches that do
//! not know them are poisoned by them.
//!
//! The names are facts from public work: RFC 7239 and RFC 9440; the lists of Param Miner and the
//! papers "Practical Web Cache Poisoning", "Web Cache Entanglement" and "Your Cache Has Fallen:
//! Cache-Poisoned Denial-of-Service Attack"; and the documentation and source of the frameworks,
//! proxies and networks named beside each group. A name that ends in `*` is a family: every field
//! that begins so.

/// Names, and where they come from.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The programs that read or write these fields.
    pub source: &'static str,
    /// Lower case; a `*` at the end stands for anything.
    pub names: &'static [&'static str],
}

/// Every field that overrides, by what it is about.
pub const TABLE: &[Group] = &[
    Group {
        source: "RFC 7239 and what came before it: proxies of every kind, Symfony, Laravel, Rack, \
                 Django, Spring, Tomcat's RemoteIpValve, Express, ASP.NET Core, Traefik, Envoy",
        // X-Forwarded-For, -Host, -Proto, -Port, -Prefix, -Scheme, -Ssl, -Server, -Path, -Uri,
        // -Method, -By, -Client-Cert, -User, -Tls-*; X-Forward-For, X-Forwarder-For; Forwarded-*.
        names: &["forward*", "x-forward*", "http-x-forward*", "http-forward*"],
    },
    Group {
        source: "the target: IIS URL Rewrite and ARR, Symfony and Zend/Laminas, nginx ingress, \
                 Envoy, Spring, WSGI and CGI gateways, Next.js, ASP.NET's request paths",
        names: &[
            "x-original-*",
            "x-rewrite-*",
            "x-rewritten-*",
            "x-override-*",
            "x-envoy-*",
            "x-request-uri",
            "x-request-url",
            "x-request-path",
            "request-uri",
            "uri",
            "url",
            "x-uri",
            "x-url",
            "x-path",
            "x-path-info",
            "x-path-prefix",
            "path-info",
            "x-script-name",
            "script-name",
            "x-base-url",
            "base-url",
            "x-context-path",
            "x-http-destinationurl",
            "x-http-path-override",
            "x-http-url-override",
            "x-proxy-*",
            "http-url",
            "x-accel-*",
            "x-sendfile-type",
            "x-invoke-*",
            "x-matched-path",
            "x-middleware-*",
            "x-now-route-matches",
            "x-waws-unencoded-url",
            "x-replaced-path",
            "x-ingress-path",
            "x-orig-*",
            "x-base-path",
            "x-prefix",
            "x-external-*",
            "translate",
            "original-*",
            "raw-uri",
        ],
    },
    Group {
        source: "the host: PortSwigger's lists, Azure Front Door and App Service, Drupal, Ruby",
        names: &[
            "x-host",
            "x-host-*",
            "x-http-host",
            "x-http-host-override",
            "http-host",
            "x-server-name",
            "x-server-host",
            "x-server-addr",
            "x-server-port",
            "x-backend-*",
            "x-backend",
            "x-real-*",
            "real-*",
            "x-origin-host",
            "origin-host",
            "disguised-host",
            "x-http-forwarded-*",
            "x-sp-edge-*",
            "proxy-host",
            "x-waf-*",
            "host-override",
        ],
    },
    Group {
        source: "scheme, port and TLS: Microsoft's ISA and front ends, Rack, Django, WSGI, ARR, \
                 Tomcat, AWS, nginx and HAProxy recipes, RFC 9440",
        names: &[
            "front-end-https",
            "x-front-end-https",
            "https",
            "http-https",
            "x-https",
            "ssl-https",
            "x-ssl",
            "x-ssl-*",
            "ssl-*",
            "x-tls-*",
            "tls-*",
            "x-scheme",
            "x-url-scheme",
            "url-scheme",
            "x-proto",
            "x-protocol",
            "x-http-scheme",
            "x-port",
            "x-secure",
            "x-client-cert*",
            "x-client-ssl*",
            "x-client-tls*",
            "x-client-verify",
            "client-cert*",
            "x-arr-*",
            "was-*",
            "$wssc",
            "$wsis",
            "x-amzn-mtls-*",
            "x-request-scheme",
        ],
    },
    Group {
        source: "the method: Rails and Rack, Symfony, Laravel, Google Data, ASP.NET, IBM \
                 WebSphere, Express",
        names: &[
            "x-http-method*",
            "x-method-*",
            "x-method",
            "http-method-override",
            "method-override",
        ],
    },
    Group {
        source: "the client's address: nginx, Rails, WebLogic, Zeus and Riverbed, WordPress \
                 plugins, Azure, PortSwigger's lists",
        names: &[
            "client-ip",
            "x-client-ip",
            "x-client-addr",
            "x-client-address",
            "x-client-host",
            "x-client-port",
            "x-client-proto",
            "x-client-scheme",
            "x-client-src-ip",
            "true-client-*",
            "x-true-*",
            "x-remote-ip",
            "x-remote-addr",
            "x-remote-address",
            "x-remote-host",
            "x-remote-port",
            "remote-addr",
            "remote-ip",
            "remote-host",
            "x-originating-*",
            "originating-*",
            "cluster-client-ip",
            "x-cluster-*",
            "x-custom-ip-authorization",
            "x-proxyuser-ip",
            "wl-proxy-*",
            "proxy-client-ip",
            "proxy-ip",
            "proxy-url",
            "x-coming-from",
            "coming-from",
            "x-comingfrom",
            "x-http-client-ip",
            "http-client-ip",
            "x-source-ip",
            "source-ip",
            "x-src-ip",
            "x-user-ip",
            "x-ip",
            "x-ip-*",
            "x-peer-ip",
            "x-device-ip",
            "x-nginx-*",
            "z-forwarded-for",
            "override-ip",
            "host-ip",
        ],
    },
    Group {
        source: "the user, as proxies that authenticate name it: RFC 3875 (REMOTE_USER), RFC \
                 9440, Apache's mod_auth_openidc, mod_auth_mellon and Shibboleth, oauth2-proxy, \
                 Authelia, authentik, Vouch, Pomerium, Kubernetes, Grafana, Kong, Tailscale, \
                 Google IAP, Azure App Service, AWS ALB, SiteMinder, WebSEAL, Oracle Access \
                 Manager",
        names: &[
            "remote-user*",
            "remote-group*",
            "remote-name",
            "remote-email",
            "x-remote-user*",
            "x-remote-group*",
            "x-remote-extra-*",
            "x-remote-name",
            "x-remote-email",
            "http-remote-user",
            "x-http-remote-user",
            "x-auth-request-*",
            "x-auth-user*",
            "x-auth-email",
            "x-auth-groups",
            "auth-user",
            "x-authenticated-*",
            "x-authentik-*",
            "x-webauth-*",
            "x-vouch-*",
            "x-pomerium-*",
            "x-goog-*",
            "x-ms-client-principal*",
            "x-ms-token-*",
            "x-amzn-oidc-*",
            "x-consumer-*",
            "x-credential-*",
            "x-userinfo",
            "x-token-subject",
            "x-trusted-user",
            "oidc-*",
            "mellon-*",
            "shib-*",
            "tailscale-*",
            "sm-user*",
            "smuser",
            "iv-user*",
            "iv-groups",
            "iv-creds",
            "oam-*",
        ],
    },
    Group {
        source: "what networks say of client and target: Cloudflare, Akamai, Fastly, CloudFront, \
                 Azure, Google, Incapsula, Sucuri, Alibaba, Tencent, Vercel, Netlify, Fly, \
                 DigitalOcean",
        names: &[
            "cf-*",
            "cloudfront-*",
            "x-amz-cf-*",
            "fastly-*",
            "akamai-*",
            "x-akamai-*",
            "x-edge-*",
            "x-azure-*",
            "x-fd-*",
            "x-appengine-*",
            "x-google-*",
            "incap-*",
            "x-incap-*",
            "x-sucuri-*",
            "ali-*",
            "eagleeye-*",
            "cdn-src-ip",
            "cdn-real-ip",
            "cdn-host",
            "x-cdn-*",
            "x-cdn",
            "x-tencent-*",
            "x-vercel-*",
            "x-nf-*",
            "x-netlify-*",
            "fly-*",
            "x-bluecoat-*",
            "x-varnish*",
            "x-geo*",
            "geoip-*",
            "x-country-code",
            "x-client-geo-*",
            "x-client-region*",
            "do-connecting-ip",
        ],
    },
    Group {
        source: "adapters of Azure's functions and static sites (X-Ms-Original-Url); the others are \
                 only in lists of names to try, and no program that reads them is known here",
        names: &[
            "x-ms-original-url",
            "x-hostname",
            "hostname",
            "x-domain",
            "domain",
            "x-vhost",
            "vhost",
            "x-virtual-host",
            "x-http-hostname",
            "x-target-host",
            "x-gateway-host",
            "x-rewrite",
            "base-uri",
            "x-base-uri",
            "x-root",
            "x-app-root",
            "query-string",
            "x-query-string",
            "script-filename",
            "path-translated",
            "x-http-accept-encoding",
            "x-http-verb",
            "x-verb",
            "x-request-method",
            "request-method",
            "http-method",
            "x-api-method",
            "request-range",
            "x-tls",
            "ssl",
            "port",
            "server-port",
            "x-peer",
            "x-remote",
            "x-client",
            "x-gateway",
            "x-proxy",
            "x-user",
            "x-username",
            "x-user-id",
            "php-auth-user",
            "auth-type",
        ],
    },
    Group {
        source: "old cookies and hop counts: RFC 2965; Apache's mod_proxy obeys Max-Forwards for \
                 every method",
        names: &["cookie2", "max-forwards"],
    },
];

/// Whether a field of this name (any case; `_` and other characters that CGI gateways turn into `_`
/// count as `-`) is one of [`TABLE`].
pub fn is_override(name: &str) -> bool {
    TABLE.iter().flat_map(|group| group.names).any(|listed| match listed.strip_suffix('*') {
        Some(family) => name.get(..family.len()).is_some_and(|start| same(start, family)),
        None => same(name, listed),
    })
}

/// Whether the name is spelled in letters, digits and dashes alone.
///
/// Gateways to CGI, FastCGI and WSGI turn the dash into `_`, some of them (lighttpd, old Apaches)
/// every other character too: `Accept_Encoding` and `Accept.Encoding` are then
/// `HTTP_ACCEPT_ENCODING`. nginx and newer Apaches drop such names.
pub fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether both names are one to a gateway: without regard to case, nor to which character joins
/// words. `other` is in lower case, with dashes.
pub fn same(name: &str, other: &str) -> bool {
    let folded =
        |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    name.len() == other.len() && name.bytes().map(folded).eq(other.bytes().map(folded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        let names: Vec<&str> = TABLE.iter().flat_map(|group| group.names).copied().collect();
        for (at, name) in names.iter().enumerate() {
            assert_eq!(*name, name.to_ascii_lowercase());
            assert!(!names[..at].contains(name), "{name} is there twice");
            assert!(name.trim_end_matches('*').len() >= 3, "{name} takes too much");
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
        ] {
            assert!(!is_override(name), "{name}");
        }
    }
}
