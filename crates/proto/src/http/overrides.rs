//! Request fields whose purpose is to say something else than the request itself: another target,
//! host, port, scheme, method, client or user. Frameworks and proxies believe them, caches that do
//! not know them are poisoned by them.
//!
//! The names are facts from public work: RFC 7239 and RFC 9440; the lists of Param Miner and the
//! papers "Practical Web Cache Poisoning", "Web Cache Entanglement" and "Your Cache Has Fallen:
//! Cache-Poisoned Denial-of-Service Attack"; and the documentation and source of the frameworks,
//! proxies and networks named beside each group. A name that ends in `*` is a family: every field
//! that begins so.

use std::sync::LazyLock;

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
                 Django, Spring, Tomcat's RemoteIpValve, Express, ASP.NET Core, Traefik, Envoy; \
                 gateways to CGI, which put HTTP_ before a name that has it already",
        // X-Forwarded-For, -Host, -Proto, -Port, -Prefix, -Scheme, -Ssl, -Server, -Path, -Uri,
        // -Method, -By, -Client-Cert, -User, -Tls-*; X-Forward-For, X-Forwarder-For; Forwarded-*.
        names: &["forward*", "x-forward*", "http-*", "x-originally-*", "x-sakura-forwarded-for"],
    },
    Group {
        source: "the target: IIS URL Rewrite and ARR, Symfony and Zend/Laminas, nginx ingress, \
                 Envoy, Spring, WSGI and CGI gateways, Next.js, React Router, Astro, ASP.NET's \
                 request paths, Ning, MyQEE, TeamSite",
        names: &[
            "x-original-*",
            "x-rewrite-*",
            "x-rewritten-*",
            "x-override-*",
            "x-envoy-*",
            "x-istio-*",
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
            "path-base",
            "x-script-name",
            "script-name",
            "script-url",
            "redirect-url",
            "x-base-url",
            "base-url",
            "context-path",
            "x-context-path",
            "unencoded-url",
            "x-proxy-*",
            "x-accel-*",
            "x-sendfile-type",
            "x-invoke-*",
            "x-matched-path",
            "x-middleware-*",
            "x-now-*",
            "x-react-router-*",
            "x-astro-*",
            "x-waws-*",
            "x-replaced-path",
            "x-ingress-*",
            "x-service-name",
            "x-service-port",
            "x-namespace",
            "x-orig-*",
            "orig-*",
            "x-base-path",
            "x-prefix",
            "x-external-*",
            "translate",
            "original-*",
            "raw-uri",
            "x-ning-*",
            "x-myqee-*",
            "x-teamsite-*",
        ],
    },
    Group {
        source: "the host: PortSwigger's lists, Azure Front Door and App Service, Drupal, Ruby, \
                 Odoo, Cerb, Amazon's API Gateway, web application firewalls",
        names: &[
            "x-host",
            "x-host-*",
            "x-http-*",
            "x-request-host",
            "x-requested-host",
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
            "x-sp-edge-*",
            "sp-host",
            "x-waf-*",
            "host-override",
            "x-odoo-*",
            "devblocksproxy*",
            "x-amzn-remapped-*",
            "x-apigateway-*",
            "x-endpoint-api-*",
        ],
    },
    Group {
        source: "scheme, port and TLS: Microsoft's ISA, IIS and front ends, ASP.NET Core, Rack, \
                 Django, WSGI, ARR, Tomcat, Jetty, WebLogic, WebSphere, AWS, nginx and HAProxy \
                 recipes, NearlyFreeSpeech, Orchestra, RFC 9440",
        names: &[
            "front-end-https",
            "x-front-end-https",
            "https",
            "https-*",
            "x-https",
            "x-ssl",
            "x-ssl-*",
            "ssl-*",
            "sslsessionid",
            "x-tls-*",
            "tls-*",
            "x-mtls-*",
            "x-scheme",
            "x-url-scheme",
            "url-scheme",
            "x-proto",
            "x-protocol",
            "protocol",
            "server-protocol",
            "x-port",
            "x-secure",
            "x-proxied-*",
            "x-client-cert*",
            "x-client-ssl*",
            "x-client-tls*",
            "x-client-verify",
            "x-client-dn",
            "x-client-cn",
            "client-cert*",
            "client-ssl-*",
            "cert-*",
            "x-arr-*",
            "was-*",
            "$ws*",
            "ms-aspnetcore-*",
            "x-weblogic-*",
            "x-amzn-mtls-*",
            "x-amzn-tls-*",
            "x-request-scheme",
            "x-nfsn-*",
            "x-orchestra-*",
        ],
    },
    Group {
        source: "the method: Rails and Rack, Symfony, Laravel, Google Data, ASP.NET, IBM \
                 WebSphere, Express; fields of single programs in Param Miner's list",
        names: &[
            "x-method-*",
            "x-method",
            "method-override",
            "x-pretend-method",
            "x-requested-method",
            "x-ajax-real-method",
        ],
    },
    Group {
        source: "coding and cookies: Accept-Encoding as proxies hide it and programs look for it \
                 all the same (Norton, McAfee, NetScaler, ISA), I2P, Traffic Server; WAP gateways, \
                 which bring a phone's cookies, address, number and session",
        names: &[
            "x-accept-encoding*",
            "x-cept-encoding",
            "accept-encodxng",
            "xxxxxxxxxxxxxxx",
            "---------------",
            "x-cookie",
            "x-cookies",
            "cookies",
            "x-wap-*",
        ],
    },
    Group {
        source: "the client's address: nginx, Rails, WebLogic, Zeus and Riverbed, WordPress \
                 plugins, Azure, PortSwigger's lists; lists by which programs tell proxies",
        names: &[
            "client-ip",
            "client-addr*",
            "clientip",
            "clientaddress",
            "x-clientip",
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
            "x-remote-*",
            "remote-*",
            "x-originating-*",
            "originating-*",
            "cluster-client-ip",
            "x-cluster-*",
            "x-custom-ip-authorization",
            "x-proxyuser-ip",
            "wl-proxy-*",
            "proxy-*",
            "xproxy*",
            "xroxy-connection",
            "x-coming-from",
            "coming-from",
            "x-comingfrom",
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
            "xxx-real-ip",
            "x-azc-remote-addr",
            "x-fb-user-remote-addr",
            "x-kaltura-remote-addr",
            "x-cisco-bbsm-clientip",
            "x-sina-proxyuser",
            "x-nokia-ipaddress",
            "x-middleton-*",
            "x-imforwards",
            "x-tinyproxy",
            "mt-proxy-id",
            "pc-remote-addr",
            "rlnclientipaddr",
            "ns-client*",
            "x-citrix-*",
            "local-addr",
            "useragent-via",
            "user-agent-via",
            "viad",
        ],
    },
    Group {
        source: "the user, as proxies that authenticate name it: RFC 3875 (REMOTE_USER), RFC \
                 9440, Apache's mod_auth_openidc, mod_auth_mellon and Shibboleth, oauth2-proxy, \
                 Authelia, authentik, Vouch, Pomerium, Kubernetes, Grafana, Kong, Tailscale, \
                 Google IAP, Azure App Service, AWS ALB, SiteMinder, WebSEAL, Oracle Access \
                 Manager, ngrok, Replit; the subscriber, as mobile networks name it",
        names: &[
            "x-auth-request-*",
            "x-auth-user*",
            "x-auth-email",
            "x-auth-groups",
            "auth-user",
            "auth-password",
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
            "ngrok-auth-*",
            "x-replit-*",
            "sm-user*",
            "smuser",
            "iv-user*",
            "iv-groups",
            "iv-creds",
            "oam-*",
            "msisdn",
            "x-msisdn",
            "x-nokia-msisdn",
            "x-up-calling-line-id",
            "x-up-subno",
            "x-jphone-uid",
            "x-dcmguid",
            "x-em-uid",
            "x-uidh",
            "x-huawei-userid",
            "x-orange-id",
            "x-vodafone-3gpdpcontext",
            "x-att-deviceid",
        ],
    },
    Group {
        source: "what networks say of client and target: Cloudflare, Akamai, Fastly, CloudFront, \
                 Azure, Google, Incapsula, Sucuri, Alibaba, Tencent, Vercel, Netlify, Fly, \
                 DigitalOcean",
        names: &[
            "cf-*",
            "x-cf-*",
            "cloudfront-*",
            "x-cloudfront-*",
            "x-amz-cf-*",
            "fastly-*",
            "x-fastly-*",
            "akamai-*",
            "x-akamai-*",
            "x-edgeconnect-*",
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
            "cdn-client-*",
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
            "x-country",
            "x-country-code",
            "x-client-geo-*",
            "x-client-region*",
            "do-connecting-ip",
        ],
    },
    Group {
        source: "variables of CGI (RFC 3875) and IIS, and of PHP when a field could make one of \
                 any name",
        names: &[
            "query-string",
            "querystring",
            "x-query-string",
            "script-filename",
            "path-translated",
            "request-method",
            "server-name",
            "server-port*",
            "server-addr",
            "auth-type",
            "php-auth-*",
            "get-vars",
            "post-vars",
            "cookie-vars",
            "request-vars",
            "server-vars",
            "env-vars",
            "session-vars",
            "files-vars",
            "post-files",
            "raw-post-data",
        ],
    },
    Group {
        source: "adapters of Azure's functions and static sites (X-Ms-Original-Url); the others are \
                 only in lists of names to try, and no program that reads them is known here",
        names: &[
            "x-ms-original-url",
            "x-hostname",
            "hostname",
            "host-name",
            "hosti",
            "h0st",
            "x-domain",
            "domain",
            "x-subdomain",
            "x-vhost",
            "vhost",
            "x-virtual-host",
            "x-target-host",
            "x-gateway-host",
            "www-address",
            "x-rewrite",
            "base-uri",
            "x-base-uri",
            "x-root",
            "x-app-root",
            "x-verb",
            "x-request-method",
            "x-api-method",
            "request-range",
            "unless-modified-since",
            "x-tls",
            "ssl",
            "port",
            "scheme",
            "x-peer",
            "x-remote",
            "x-client",
            "x-gateway",
            "x-proxy",
            "x-dagd-proxy",
            "x-iwproxy-nesting",
            "x-user",
            "x-username",
            "x-known-username",
            "x-user-id",
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
    let Some(first) = name.bytes().next() else { return false };
    BY_FIRST[usize::from(folded(first))].iter().any(|listed| match listed.strip_suffix('*') {
        Some(family) => name.get(..family.len()).is_some_and(|start| same(start, family)),
        None => same(name, listed),
    })
}

/// The names of [`TABLE`] by their first byte: each field of each request is looked for, and most
/// begin as few of them do.
static BY_FIRST: LazyLock<[Vec<&'static str>; 256]> = LazyLock::new(|| {
    let mut names = [const { Vec::new() }; 256];
    for name in TABLE.iter().flat_map(|group| group.names) {
        names[usize::from(folded(name.as_bytes()[0]))].push(*name);
    }
    names
});

/// Letters in lower case and digits as they are, everything else as `-`.
fn folded(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' }
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
    let equal = |(a, b): (u8, u8)| a == b || folded(a) == folded(b);
    name.len() == other.len() && name.bytes().zip(other.bytes()).all(equal)
}

#[cfg(test)]
mod tests;
