//! One rule for keys: the origin sees exactly what the key knows. Fields that say something else
//! than the request does (another host, path, scheme, port, method, client) reach no origin whose
//! answer others get.

use larder_proto::http::overrides::TABLE;
use larder_tests::wire::request;
use larder_tests::{Gate, H2, Larder, Origin, Seen, Wire};

/// Names from public lists, beside those of the table under test.
const NAMES: &str = include_str!("../../../crates/proto/tests/rule_for_keys/names.txt");

/// Every name: those of the lists, and those of the table, of each family one.
fn names() -> Vec<String> {
    let listed = NAMES.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
    let table = TABLE.iter().flat_map(|group| group.names).map(|name| name.replace('*', "-own"));
    let mut names: Vec<String> = listed.chain(table).collect();
    names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
    names.dedup_by_key(|name| name.to_ascii_lowercase());
    names
}

/// Every spelling of every name.
pub(super) fn every_spelling() -> Vec<String> {
    names().iter().flat_map(|name| spellings(name)).collect()
}

/// A host that a trusted proxy names is in the key.
pub(super) fn is_keyed(name: &str, trusted: bool) -> bool {
    trusted && name.eq_ignore_ascii_case("x-forwarded-host")
}

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
pub(super) fn before(origin: &Origin, trusted: bool) -> Larder {
    let proxies = if trusted { "trusted_proxies = [\"127.0.0.1\"]" } else { "" };
    Larder::with_config(&format!(
        "[http]\nh2c = true\n{proxies}\n[[site]]\norigin = \"{}\"",
        origin.url()
    ))
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
    let (origin, larder) = echo(trusted);
    let names = every_spelling();
    assert!(names.len() > 1000, "{}", names.len());
    // Each field has a value of its own, and each client another.
    let ask = |client: Option<&str>| {
        let requests: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let field = client.map(|client| format!("{name}: {client}-{at}-evil"));
                (format!("/{at}"), field.into_iter().collect())
            })
            .collect();
        ask_all(&mut larder.connect(), &requests)
    };
    ask(Some("first"));
    for (at, (name, text)) in names.iter().zip(ask(Some("second"))).enumerate() {
        let own = is_keyed(name, trusted) && text.contains(&format!("second-{at}-evil"));
        assert!(own || !text.contains("-evil"), "{name} of a client is in the page:\n{text}");
    }
    for (name, text) in names.iter().zip(ask(None)) {
        assert!(!text.contains("-evil"), "{name} of another client is in the page:\n{text}");
    }
    // What is in the key has pages of its own: everything else shared one.
    let keyed = names.iter().filter(|name| is_keyed(name, trusted)).count();
    assert_eq!(origin.count(), names.len() + 2 * keyed);
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
    // Nobody waits with a request whose field is in the key.
    let names: Vec<String> =
        every_spelling().into_iter().filter(|name| !is_keyed(name, trusted)).collect();
    let groups: Vec<&[String]> = names.chunks(40).collect();
    let mut pairs = Vec::new();
    for (number, names) in groups.iter().enumerate() {
        let target = format!("/{number}");
        let value = |(at, name)| format!("{name}: {number}-{at}-evil");
        let lines: Vec<String> = names.iter().enumerate().map(value).collect();
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
        assert!(!answer.text().contains("-evil"), "{answer:?}");
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

/// Fields about a client, with values that programs believe; `N` is the client's number.
const BELIEVED: [(&str, &str); 24] = [
    ("X-Forwarded-For", "203.0.113.N"),
    ("Forwarded", "for=203.0.113.N;host=evil-N.test;proto=https"),
    ("Forwarded", "for=\"[2001:db8::N]:4711\";by=_evil-N"),
    ("Via", "1.1 evil-N.test"),
    ("X-Real-IP", "203.0.113.N"),
    ("X-Client-IP", "203.0.113.N"),
    ("X-Cluster-Client-IP", "203.0.113.N"),
    ("X-Originating-IP", "203.0.113.N"),
    ("X-Remote-Addr", "203.0.113.N"),
    ("X-Forwarded", "for=203.0.113.N"),
    ("Forwarded-For", "203.0.113.N"),
    ("True-Client-IP", "203.0.113.N"),
    ("CF-Connecting-IP", "203.0.113.N"),
    ("Fastly-Client-IP", "203.0.113.N"),
    ("X-Forwarded-Server", "evil-N.test"),
    ("X-Host", "evil-N.test"),
    ("X-Forwarded-Port", "8443"),
    ("X-Forwarded-Scheme", "https"),
    ("X-Forwarded-Ssl", "on"),
    ("X-Url-Scheme", "https"),
    ("Front-End-Https", "on"),
    ("X-Forwarded-Prefix", "/evil-N"),
    ("X-Original-URL", "/evil-N"),
    ("X-HTTP-Method-Override", "DELETE"),
];

/// The exception that docs/operations.md names: lines that may tell of the client's address.
fn tells_address(line: &str) -> bool {
    ["x-forwarded-for: ", "forwarded: "].iter().any(|told| line.starts_with(told))
}

/// Believable values are no way around the rule: a page shows of the client that had it made its
/// address, as far as trusted proxies vouch for it, and nothing else.
#[test]
fn of_the_client_that_makes_a_page_its_address_alone_is_told() {
    for (proxies, lines, tells) in [
        ("", "", true),
        ("trusted_proxies = [\"127.0.0.1\"]", "", true),
        ("trusted_proxies = [\"127.0.0.1\"]", "forward_client = false", false),
    ] {
        let origin = Origin::start(|seen, reply| {
            reply.ok(&["Cache-Control: max-age=600"], showing(seen));
        });
        let url = origin.url();
        let config = format!("[http]\n{proxies}\n[[site]]\norigin = \"{url}\"\n{lines}");
        let larder = Larder::with_config(&config);
        let plain = larder.connect().get("/plain", &[]).text().to_lowercase();
        assert_eq!(plain.contains("127.0.0.1\n"), tells, "{plain}");
        let ask = |number: u32| {
            let fields = BELIEVED.iter().enumerate().map(|(at, (name, value))| {
                let value = value.replace('N', &number.to_string());
                (format!("/{at}"), vec![format!("{name}: {value}")])
            });
            ask_all(&mut larder.connect(), &fields.collect::<Vec<_>>())
        };
        let (first, second) = (ask(1), ask(2));
        for ((name, _), (first, second)) in BELIEVED.iter().zip(first.iter().zip(&second)) {
            let vouched = !proxies.is_empty() && *name == "X-Forwarded-For";
            assert_eq!(first, second, "{name} is in no key");
            let (told, others): (Vec<&str>, Vec<&str>) =
                plain.lines().partition(|line| tells_address(line));
            let page = first.to_lowercase();
            let (told_here, others_here): (Vec<&str>, Vec<&str>) =
                page.lines().partition(|line| tells_address(line));
            assert_eq!(others_here, others, "{name}");
            assert_eq!(told_here == told, !(vouched && tells), "{name}: {told_here:?}");
            assert!(!page.contains("evil") && !page.contains("2001:db8"), "{name}: {page}");
        }
        assert_eq!(origin.count(), 1 + BELIEVED.len());
        // Past the cache the origin is told, whatever the site says of stored pages.
        let passed = larder.connect().ask("POST", "/", &["Host: a", "Content-Length: 0"]);
        assert!(passed.text().to_lowercase().contains("x-forwarded-for: 127.0.0.1\n"));
    }
}

/// The scheme that a trusted proxy names is in the key.
#[test]
fn pages_of_http_and_https_behind_a_proxy_are_apart() {
    let (origin, larder) = echo(true);
    for (scheme, times) in [("https", 1), ("http", 2), ("https", 2)] {
        let field = format!("X-Forwarded-Proto: {scheme}");
        let text = larder.connect().get("/", &[&field]).text().to_lowercase();
        assert!(text.contains(&format!("x-forwarded-proto: {scheme}\n")), "{text}");
        assert_eq!(origin.count(), times);
    }
}

/// The whole head that the origin gets, the fields that Larder itself adds included.
#[test]
fn however_a_client_speaks_the_origin_gets_one_head() {
    let (origin, larder) = echo(false);
    let mut expected = larder.connect().get("/plain", &[]).text().to_owned();
    for (number, text) in [
        "GET /N HTTP/1.0\r\nHost: site.test\r\n",
        "GET http://site.test/N HTTP/1.1\r\nHost: site.test\r\n",
        "GET /N HTTP/1.1\r\nHOST: Site.TEST.:80\r\nConnection: keep-alive\r\n",
        "GET /N HTTP/1.1\r\nHost: site.test\r\nVia: 1.0 fred, 2 inner\r\nAccept-Encoding: \
         gzip;q=0\r\n",
        "GET /N HTTP/1.1\r\nHost: site.test\r\nX-Forwarded-For: 203.0.113.7\r\nLarder-Debug: 1\r\n",
        "GET /N HTTP/1.1\r\nHost: site.test\r\nSurrogate-Capability: a=\"ESI/1.0\"\r\nProxy: \
         evil\r\n",
    ]
    .iter()
    .enumerate()
    {
        let mut wire = larder.connect();
        wire.send(text.replace("/N", &format!("/{number}")) + "\r\n");
        assert_eq!(wire.read().text(), expected, "{text}");
    }
    let mut client = H2::connect(larder.addr());
    client.ask_for("SITE.test");
    assert_eq!(client.ask("GET", "/h2", &[("via", "2 inner")]).text(), expected);
    // A client of pages of many names is known by nothing else.
    expected.make_ascii_lowercase();
    assert!(expected.contains("via: 1.1 larder\n"), "{expected}");
    assert_eq!(origin.count(), 8);
}

/// The same rule over HTTP/2: many fields at once, and none of them is in the page.
#[test]
fn no_field_of_http2_is_seen_by_another() {
    for trusted in [false, true] {
        let (origin, larder) = echo(trusted);
        let mut names: Vec<String> =
            every_spelling().iter().map(|name| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !is_keyed(name, trusted));
        let mut client = H2::connect(larder.addr());
        client.ask_for("site.test");
        let groups: Vec<&[String]> = names.chunks(40).collect();
        for (number, names) in groups.iter().enumerate() {
            let fields: Vec<(&str, &str)> =
                names.iter().map(|name| (name.as_str(), "first-evil")).collect();
            let path = format!("/{number}");
            assert_eq!(client.ask("GET", &path, &fields).status, 200);
            let answer = larder.connect().get(&path, &[]);
            assert!(!answer.assert_hit().text().contains("-evil"), "{answer:?}");
        }
        assert_eq!(origin.count(), groups.len());
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
