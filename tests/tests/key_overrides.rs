//! One rule for keys: the origin sees exactly what the key knows. Fields that say something else
//! than the request does (another host, path, scheme, port, method, client) reach no origin whose
//! answer others get.

use larder_tests::wire::request;
use larder_tests::{Gate, Larder, Origin, Seen, Wire};

/// Names from public work on cache poisoning (Param Miner's list, "Practical Web Cache Poisoning",
/// "Cache-Poisoned Denial of Service"), and from the documentation of frameworks, proxies and
/// networks.
const NAMES: &[&str] = &[
    // Host
    "Forwarded",
    "X-Forwarded-Host",
    "X-Forwarded-Server",
    "X-Forwarded",
    "X-Host",
    "X-HTTP-Host-Override",
    "X-Original-Host",
    "X-Forwarded-Host-Override",
    "X-Host-Override",
    "X-Real-Host",
    "X-Rewrite-Host",
    "X-Backend-Host",
    "X-Proxy-Host",
    "X-Forwarded-Authority",
    "X-Origin-Host",
    "Origin-Host",
    "Disguised-Host",
    "Proxy-Host",
    "Forwarded-Host",
    "HTTP-Host",
    "X-Server-Name",
    "X-Envoy-Original-Host",
    "WAS-Default-Hostname",
    "X-WAF-Host",
    "Http-Forwarded-Host",
    "X-Forward-Host",
    "Forwarding-Host",
    "Forwarder-Host",
    "X-HTTP-Host",
    // Path and prefix
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-Original-URI",
    "X-Rewrite-URI",
    "X-Original-Path",
    "X-Rewrite-Path",
    "X-Forwarded-Path",
    "X-Forwarded-Prefix",
    "X-Forwarded-Uri",
    "X-Forwarded-URL",
    "X-Forwarded-PathBase",
    "X-Envoy-Original-Path",
    "X-Envoy-Original-URL",
    "X-HTTP-DestinationURL",
    "X-Http-Path-Override",
    "X-HTTP-URL-Override",
    "X-Override-URL",
    "X-Request-URI",
    "X-Request-URL",
    "Request-Uri",
    "Uri",
    "Url",
    "X-Script-Name",
    "Script-Name",
    "X-Path-Info",
    "Path-Info",
    "Base-Url",
    "X-Base-URL",
    "X-Proxy-URL",
    "Proxy-Url",
    "Http-Url",
    "X-Real-URL",
    "X-Real-URI",
    "X-Invoke-Path",
    "X-Invoke-Status",
    "X-Matched-Path",
    "X-Middleware-Prefetch",
    "X-Middleware-Subrequest",
    "X-Middleware-Rewrite",
    "X-Now-Route-Matches",
    "X-WAWS-Unencoded-URL",
    "X-Accel-Mapping",
    "X-Sendfile-Type",
    "X-Replaced-Path",
    "X-Context-Path",
    "X-Path-Prefix",
    // Scheme, port, TLS
    "X-Forwarded-Proto",
    "X-Forwarded-Scheme",
    "X-Forwarded-Protocol",
    "X-Forwarded-Ssl",
    "X-Forwarded-Port",
    "X-Forwarded-HTTPS",
    "Front-End-Https",
    "X-Front-End-Https",
    "X-Url-Scheme",
    "X-Scheme",
    "X-HTTPS",
    "HTTPS",
    "SSL-HTTPS",
    "X-Original-Scheme",
    "X-Original-Proto",
    "X-Original-Port",
    "X-Proto",
    "X-Protocol",
    "X-SSL",
    "X-Port",
    "X-ARR-SSL",
    "X-ARR-LOG-ID",
    "X-ARR-ClientCert",
    "X-Envoy-External-Address",
    "X-Forwarded-Client-Cert",
    "X-SSL-Client-Cert",
    "X-SSL-Client-Verify",
    "SSL-Client-Cert",
    "SSL-Client-S-DN",
    "Client-Cert",
    "Client-Cert-Chain",
    "X-Client-Cert",
    "X-Amzn-Mtls-Clientcert",
    "CloudFront-Forwarded-Proto",
    "Fastly-SSL",
    "CF-Visitor",
    "X-Forwarded-Tls-Client-Cert",
    // Method
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-Method-Override",
    "X-Original-Method",
    "X-Forwarded-Method",
    // The client's address
    "X-Forwarded-For",
    "X-Real-IP",
    "X-Client-IP",
    "Client-IP",
    "True-Client-IP",
    "X-True-Client-IP",
    "X-Remote-IP",
    "X-Remote-Addr",
    "X-Originating-IP",
    "X-Cluster-Client-IP",
    "Cluster-Client-IP",
    "CF-Connecting-IP",
    "CF-Connecting-IPv6",
    "CF-Pseudo-IPv4",
    "CF-IPCountry",
    "Fastly-Client-IP",
    "X-Azure-ClientIP",
    "X-Azure-SocketIP",
    "X-Azure-FDID",
    "X-FD-HealthProbe",
    "X-AppEngine-User-IP",
    "X-AppEngine-Country",
    "Incap-Client-IP",
    "X-Sucuri-ClientIP",
    "Ali-CDN-Real-IP",
    "Cdn-Src-Ip",
    "CDN-Real-IP",
    "CloudFront-Viewer-Address",
    "CloudFront-Viewer-Country",
    "Akamai-Origin-Hop",
    "X-Akamai-Edgescape",
    "X-Custom-IP-Authorization",
    "X-ProxyUser-Ip",
    "WL-Proxy-Client-IP",
    "Proxy-Client-IP",
    "X-Forward-For",
    "X-Forwarder-For",
    "Forwarded-For",
    "Forwarded-For-IP",
    "X-Forwarded-For-Original",
    "X-Original-Forwarded-For",
    "X-Original-Remote-Addr",
    "X-Forwarded-By",
    "Real-IP",
    "X-Source-IP",
    "X-Device-IP",
    "X-Nginx-Proxy",
    "X-NF-Client-Connection-IP",
    "Fly-Client-IP",
    "X-Vercel-Forwarded-For",
    "X-Vercel-IP-Country",
    "DO-Connecting-IP",
    "X-Country-Code",
    "X-Geo-Country",
    "X-Client-Region",
    // The user
    "Remote-User",
    "Remote-Groups",
    "Remote-Name",
    "Remote-Email",
    "X-Remote-User",
    "X-Remote-Group",
    "X-Remote-Extra-Scopes",
    "X-Forwarded-User",
    "X-Forwarded-Preferred-Username",
    "X-Forwarded-Email",
    "X-Forwarded-Groups",
    "X-Forwarded-Access-Token",
    "X-Auth-Request-User",
    "X-Auth-Request-Email",
    "X-Auth-Request-Access-Token",
    "X-Auth-User",
    "X-Auth-Username",
    "X-Authenticated-User",
    "X-Authenticated-Userid",
    "X-Authenticated-Groups",
    "X-Authentik-Username",
    "X-WebAuth-User",
    "X-WebAuth-Groups",
    "X-Vouch-User",
    "X-Pomerium-Jwt-Assertion",
    "X-Goog-Authenticated-User-Email",
    "X-Goog-Iap-Jwt-Assertion",
    "X-MS-Client-Principal",
    "X-MS-Client-Principal-Name",
    "X-MS-Token-AAD-Access-Token",
    "X-Amzn-Oidc-Identity",
    "X-Consumer-Username",
    "X-Credential-Identifier",
    "X-Userinfo",
    "OIDC-Claim-Sub",
    "Mellon-Name-Id",
    "Shib-Session-Id",
    "Tailscale-User-Login",
    "SM-User",
    "SMUSER",
    "Iv-User",
    "OAM-Remote-User",
    "X-Proxy-User",
    "Cf-Access-Authenticated-User-Email",
    "X-SSL-Client-S-DN",
    "X-SSL-Client-DN",
    "X-SSL-Client-CN",
    "SSL-Client-Verify",
    "X-Client-Certificate",
    "X-Client-Verify",
    "X-Forwarded-Client-Certificate",
    // Names that gateways read as others
    "Accept_Encoding",
    "If_None_Match",
    "Cache_Control",
    "Content_Type",
    "Content_Length",
    "User_Agent",
    "X_Odd",
    "Accept.Encoding",
    // Others
    "Max-Forwards",
    "Cookie2",
    "Proxy",
];

/// A page that shows every field of the request it was made for, and is for everyone.
fn showing(seen: &Seen) -> String {
    seen.fields.0.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn echo(trusted: bool) -> (Origin, Larder) {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600"], showing(seen));
    });
    let larder = before(&origin, trusted);
    (origin, larder)
}

/// `trusted`: every client is a trusted proxy.
fn before(origin: &Origin, trusted: bool) -> Larder {
    let proxies = if trusted { "trusted_proxies = [\"127.0.0.1\"]" } else { "" };
    Larder::with_config(&format!("[http]\n{proxies}\n[[site]]\norigin = \"{}\"", origin.url()))
}

/// As written, with underscores, and with one of each.
fn spellings(name: &str) -> Vec<String> {
    let mut all = vec![
        name.to_owned(),
        name.replace('-', "_"),
        name.replacen('-', "_", 1),
        name.to_ascii_lowercase(),
    ];
    all.sort();
    all.dedup();
    all
}

/// Requests in one go, each with its own target and fields.
fn ask_all(wire: &mut Wire, requests: &[(String, Vec<String>)]) -> Vec<String> {
    let mut texts = Vec::new();
    for some in requests.chunks(48) {
        let bytes: String = some
            .iter()
            .map(|(target, fields)| {
                let fields: Vec<&str> = std::iter::once("Host: site.test")
                    .chain(fields.iter().map(String::as_str))
                    .collect();
                request("GET", target, &fields)
            })
            .collect();
        wire.send(bytes);
        texts.extend(some.iter().map(|_| wire.read().assert_status(200).text().to_owned()));
    }
    texts
}

fn no_field_of_one_client_is_seen_by_another(trusted: bool) {
    assert!(NAMES.len() > 150, "{}", NAMES.len());
    let (origin, larder) = echo(trusted);
    let lines: Vec<String> =
        NAMES.iter().flat_map(|name| spellings(name)).map(|name| format!("{name}: evil")).collect();
    let targets = || (0..lines.len()).map(|number| format!("/{number}"));
    let attacks: Vec<_> = targets().zip(lines.iter().map(|line| vec![line.clone()])).collect();
    let visits: Vec<_> = targets().map(|target| (target, Vec::new())).collect();
    ask_all(&mut larder.connect(), &attacks);
    for (line, text) in lines.iter().zip(ask_all(&mut larder.connect(), &visits)) {
        assert!(!text.contains("evil"), "{line} of another client is in the page:\n{text}");
    }
    // What a trusted proxy names besides Host is in the key: everything else shared one page.
    let keyed =
        lines.iter().filter(|line| trusted && line.to_lowercase().starts_with("x-forwarded-host:"));
    assert_eq!(origin.count(), lines.len() + keyed.count());
}

#[test]
fn no_field_of_anybody_is_seen_by_another() {
    no_field_of_one_client_is_seen_by_another(false);
}

#[test]
fn no_field_through_a_trusted_proxy_is_seen_by_another() {
    no_field_of_one_client_is_seen_by_another(true);
}

/// The same for those who wait for the attacker's page while it is made.
fn no_field_is_seen_by_those_who_wait(trusted: bool) {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target != "/warm" {
            door.wait();
        }
        reply.ok(&["Cache-Control: max-age=600"], showing(seen));
    });
    let larder = before(&origin, trusted);
    larder.connect().get("/warm", &[]);
    // A host that a trusted proxy names is in the key: nobody waits with that request.
    let keyed = |name: &String| trusted && name.eq_ignore_ascii_case("x-forwarded-host");
    let names: Vec<String> =
        NAMES.iter().flat_map(|name| spellings(name)).filter(|name| !keyed(name)).collect();
    let groups: Vec<&[String]> = names.chunks(40).collect();
    let mut pairs = Vec::new();
    for (number, names) in groups.iter().enumerate() {
        let target = format!("/{number}");
        let lines: Vec<String> = names.iter().map(|name| format!("{name}: evil")).collect();
        let fields: Vec<&str> =
            std::iter::once("Host: site.test").chain(lines.iter().map(String::as_str)).collect();
        let mut attacker = larder.connect();
        attacker.send(request("GET", &target, &fields));
        origin.wait_for(number + 2);
        // The answer for `/warm` tells that the request behind it has been read.
        let mut visitor = larder.connect();
        visitor.send(
            request("GET", "/warm", &["Host: site.test"])
                + &request("GET", &target, &["Host: site.test"]),
        );
        visitor.read().assert_hit();
        pairs.push((attacker, visitor));
    }
    gate.open();
    for (mut attacker, mut visitor) in pairs {
        attacker.read().assert_status(200);
        let answer = visitor.read();
        assert!(!answer.text().contains("evil"), "{answer:?}");
    }
    assert_eq!(origin.count(), groups.len() + 1, "those who waited asked for nothing");
}

#[test]
fn no_field_of_anybody_is_seen_by_those_who_wait_with_it() {
    no_field_is_seen_by_those_who_wait(false);
}

#[test]
fn no_field_through_a_trusted_proxy_is_seen_by_those_who_wait_with_it() {
    no_field_is_seen_by_those_who_wait(true);
}

/// Past the cache nothing is stored: a program may use what it likes there, but for claims about
/// who asks.
#[test]
fn requests_past_the_cache_keep_their_fields() {
    let (origin, larder) = echo(false);
    let fields = [
        "Host: site.test",
        "Content-Length: 0",
        "X-HTTP-Method-Override: PUT",
        "api_key: k",
        "X-Real-IP: 9.9.9.9",
    ];
    let text = larder.connect().ask("POST", "/", &fields).text().to_lowercase();
    assert!(text.contains("x-http-method-override: put") && text.contains("api_key: k"), "{text}");
    assert!(!text.contains("9.9.9.9"), "{text}");
    assert_eq!(origin.count(), 1);
}

fn prefixed(lines: &str) -> (Origin, Larder) {
    let origin = Origin::start(|seen, reply| {
        let shown =
            ["x-forwarded-prefix", "x_device"].map(|name| seen.fields.joined(name)).join("|");
        reply.ok(&["Cache-Control: max-age=600"], shown);
    });
    let config = format!(
        "[http]\n{lines}\n[[site]]\norigin = \"{}\"\nkey_fields = [\"X-Forwarded-Prefix\", \
         \"X_Device\"]",
        origin.url()
    );
    (origin, Larder::with_config(&config))
}

#[test]
fn fields_in_the_key_reach_the_origin_and_have_pages_of_their_own() {
    let (origin, larder) = prefixed("trusted_proxies = [\"127.0.0.1\"]");
    let cases: [(&[&str], &str); 6] = [
        (&["X-Forwarded-Prefix: /a"], "/a|"),
        (&["X-Forwarded-Prefix: /b"], "/b|"),
        (&["x_device: tv"], "|tv"),
        (&["X-Forwarded-Prefix: /a", "X_Device: tv"], "/a|tv"),
        (&["X-Forwarded-Prefix: "], "|"),
        (&[], "|"),
    ];
    for (fields, expected) in cases {
        assert_eq!(larder.connect().get("/", fields).text(), expected);
        assert_eq!(larder.connect().get("/", fields).assert_hit().text(), expected);
    }
    assert_eq!(origin.count(), cases.len());
    // The other spelling is another field, and reaches nobody.
    assert_eq!(larder.connect().get("/", &["X_Forwarded_Prefix: /evil"]).assert_hit().text(), "|");
}

#[test]
fn a_proxys_field_in_the_key_counts_from_trusted_proxies_only() {
    let (origin, larder) = prefixed("");
    assert_eq!(larder.connect().get("/", &["X-Forwarded-Prefix: /evil"]).text(), "|");
    assert_eq!(larder.connect().get("/", &[]).assert_hit().text(), "|");
    assert_eq!(larder.connect().get("/", &["X_Device: tv"]).text(), "|tv");
    assert_eq!(origin.count(), 2);
}

/// The address of a client is told to the origin and is in no key.
#[test]
fn what_varies_on_the_clients_address_is_for_nobody_else() {
    for vary in ["Vary: X-Forwarded-For", "Vary: Accept, Forwarded"] {
        let origin = Origin::start(move |seen, reply| {
            reply.ok(&["Cache-Control: max-age=600", vary], seen.fields.joined("x-forwarded-for"));
        });
        let config = format!(
            "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\norigin = \"{}\"",
            origin.url()
        );
        let larder = Larder::with_config(&config);
        for address in ["203.0.113.1", "203.0.113.2"] {
            let answer = larder.connect().get("/", &[&format!("X-Forwarded-For: {address}")]);
            assert_eq!(answer.text(), format!("{address}, 127.0.0.1"), "{vary}");
        }
    }
}

/// What does not reach the origin makes no variants either.
#[test]
fn vary_on_a_field_that_the_origin_does_not_see_makes_one_page() {
    let origin = Origin::start(|seen, reply| {
        let fields = ["Cache-Control: max-age=600", "Vary: X-Forwarded-Proto, X-Original-URL"];
        reply.ok(&fields, seen.fields.joined("x-forwarded-proto"));
    });
    let larder = Larder::before(&origin.url());
    larder.connect().get("/", &["X-Original-URL: /a"]);
    let other = larder.connect().get("/", &["X-Original-URL: /b", "X-Forwarded-Proto: https"]);
    assert_eq!(other.assert_hit().text(), "http");
}

/// A range is in no key: an error that one provokes is its client's alone, and what is no range is
/// not asked for.
#[test]
fn an_error_provoked_by_a_range_is_not_kept() {
    let origin = Origin::start(|seen, reply| {
        match seen.get("range") {
            Some(range) => {
                reply.answer(400, &["Cache-Control: max-age=600"], format!("no {range}"))
            }
            None => reply.ok(&["Cache-Control: max-age=600"], "page"),
        };
    });
    let larder = Larder::before(&origin.url());
    for (number, range) in
        ["bytes=0-1", "bytes=-1", "bytes=9-1", "evil", "bytes=0-,x"].iter().enumerate()
    {
        let target = format!("/{number}");
        let first = larder.connect().get(&target, &[&format!("Range: {range}")]);
        assert!(!first.text().contains("evil") && !first.text().contains('x'), "{first:?}");
        assert_eq!(
            larder.connect().get(&target, &[]).assert_status(200).text(),
            "page",
            "after {range}"
        );
    }
}
