//! One client's request is nobody else's business: what it sends takes no page from others, makes
//! none for them, and is believed where it comes from one who may say so.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, Scratch, get, get_with, larder::run};

/// An origin that refuses odd requests, as servers do, and fails on `/down` from the second time.
fn origin() -> Origin {
    Origin::start(|seen, reply| {
        let fresh = ["Cache-Control: max-age=1000", "ETag: \"a\""];
        match seen.get("accept") {
            Some("odd/406") => reply.answer(406, &[], "no such type"),
            Some("odd/400") => reply.answer(400, &[], "too large"),
            Some("odd/410") => reply.answer(410, &[], "gone"),
            _ if seen.target == "/down" && seen.number > 1 => reply.answer(500, &[], "failed"),
            _ => reply.ok(&fresh, "the page"),
        };
    })
}

#[test]
fn a_refused_request_leaves_the_page_and_its_stale_copy() {
    let origin = origin();
    let larder = Larder::site(&origin.url(), "keep = \"1d\"");
    let reload = "Cache-Control: no-cache";
    for odd in ["Accept: odd/406", "Accept: odd/400"] {
        let status = odd[odd.len() - 3..].parse().unwrap();
        get(larder.addr(), "/page").assert_status(200);
        get_with(larder.addr(), "/page", &[reload, odd]).assert_status(status);
        get(larder.addr(), "/page").assert_status(200).assert_hit();
    }
    // An answer that says that the page is no more is another matter.
    get_with(larder.addr(), "/page", &[reload, "Accept: odd/410"]).assert_status(410);
    assert!(!get(larder.addr(), "/page").is_hit());
}

#[test]
fn a_refused_request_leaves_the_copy_for_an_origin_that_fails() {
    let origin = origin();
    let larder = Larder::site(&origin.url(), "keep = \"1d\"");
    get(larder.addr(), "/down").assert_status(200);
    let odd = ["Cache-Control: no-cache", "Accept: odd/406"];
    get_with(larder.addr(), "/down", &odd).assert_status(406);
    let reload = ["Cache-Control: no-cache"];
    assert_eq!(get_with(larder.addr(), "/down", &reload).assert_status(200).text(), "the page");
}

#[test]
fn errors_of_the_request_have_no_lifetime_of_the_operator() {
    let origin = Origin::start(|seen, reply| {
        let status: u16 = seen.target[1..].parse().unwrap();
        reply.answer(status, &[], "an error");
    });
    let larder = Larder::site(&origin.url(), "error_ttl = \"10s\"");
    for (status, kept) in [
        (400, false),
        (406, false),
        (411, false),
        (414, false),
        (417, false),
        (421, false),
        (428, false),
        (429, false),
        (431, false),
        (403, true),
        (404, true),
        (500, true),
    ] {
        let target = format!("/{status}");
        get(larder.addr(), &target).assert_status(status);
        assert_eq!(get(larder.addr(), &target).is_hit(), kept, "{status}");
    }
}

#[test]
fn fields_that_speak_of_another_request_do_not_reach_the_origin() {
    let names = ["X-Ms-Original-Url", "X-Hostname", "X-HTTP-Verb", "Request-Range", "X-User-Id"];
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = Larder::before(&origin.url());
    let fields: Vec<String> = names.iter().map(|name| format!("{name}: odd")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    get_with(larder.addr(), "/", &fields).assert_status(200);
    let seen = origin.last();
    for name in names {
        assert_eq!(seen.get(name), None, "{name}");
    }
}

/// One rule says which address is the client's: a proxy that writes no X-Forwarded-For passes on
/// whatever its client claims in Forwarded.
#[test]
fn forwarded_names_no_client() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = Larder::with_config(&format!(
        "[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ));
    get_with(larder.addr(), "/", &["Forwarded: for=203.0.113.7"]).assert_status(200);
    assert_eq!(origin.last().get("x-forwarded-for"), Some("127.0.0.1"));
    assert!(!origin.last().fields.joined("forwarded").contains("203.0.113.7"));
}

#[test]
fn a_proxy_that_names_no_client_is_not_believed_about_it() {
    let origin = Origin::serving(&["Cache-Control: no-store"], "page");
    let larder = Larder::with_config(&format!(
        "[http]\nproxy_protocol = true\ntrusted_proxies = [\"127.0.0.0/8\"]\n[[site]]\norigin = \
         \"{}\"\npurge = {{ from = [\"192.0.2.7\"] }}\n",
        origin.url()
    ));
    let unspecified = b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0".to_vec();
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    let claim = ["Host: site.test", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https"];
    for (header, believed) in
        [(b"PROXY UNKNOWN\r\n".to_vec(), false), (unspecified, false), (local, true)]
    {
        let mut wire = larder.connect();
        wire.send(&header);
        wire.ask("GET", "/", &claim).assert_status(200);
        let proto = if believed { "https" } else { "http" };
        assert_eq!(origin.last().get("x-forwarded-proto"), Some(proto), "{header:?}");
        let purged = wire.ask("PURGE", "/", &claim).status;
        assert_eq!(purged != 403, believed, "{purged} {header:?}");
    }
}

/// The options of Connection are searched, not gone through for each field.
#[test]
fn fields_named_by_connection_are_dropped_among_thousands() {
    let origin = Origin::serving(&["Cache-Control: no-store"], "page");
    let larder = Larder::before(&origin.url());
    let many = format!("Connection: {}X-Odd,Zed", "a,B,".repeat(5000));
    let fields = [many.as_str(), "x-odd: 1", "zed: 2", "X-Even: 3"];
    get_with(larder.addr(), "/", &fields).assert_status(200);
    let seen = origin.last();
    let told = ["x-odd", "zed", "x-even"].map(|name| seen.get(name));
    assert_eq!(told, [None, None, Some("3")]);
}

#[test]
fn an_origin_may_switch_to_the_protocol_that_was_asked_for_only() {
    for offered in ["Upgrade: h2c", "Upgrade: websocket, h2c", "X-None: 1"] {
        let origin = Origin::start(move |_, reply| {
            reply.head(101, &["Connection: Upgrade", offered]).take_stream();
        });
        let larder = Larder::before(&origin.url());
        let mut wire = larder.connect();
        wire.send_get("/", &["Host: a", "Connection: Upgrade", "Upgrade: websocket"]);
        wire.read().assert_status(502);
    }
}

fn check(config: &str) -> (bool, String) {
    let scratch = Scratch::new("claims");
    let file = scratch.write("larder.toml", config);
    let (status, out, err) = run(&["check", "--config", file.to_str().unwrap()]);
    (status.success(), out + &err)
}

#[test]
fn the_name_in_via_cannot_split_an_answer() {
    let site = "[[site]]\norigin = \"http://127.0.0.1:9\"\n";
    for (via, good) in [
        ("larder", true),
        ("cache.example.org:8080", true),
        ("", true),
        ("a\\r\\nX-Injected: yes", false),
        ("a b(c", false),
        ("a:b", false),
    ] {
        let (passes, said) = check(&format!("[http]\nvia = \"{via}\"\n{site}"));
        assert_eq!(passes, good, "{via}: {said}");
    }
}

#[test]
fn pages_that_are_served_nowhere_are_warned_of() {
    let site = "[[site]]\norigin = \"http://127.0.0.1:9\"\n";
    let (_, said) = check(&format!("[http]\nlisten = []\n{site}"));
    assert!(said.contains("served nowhere"), "{said}");
}
