//! The admin interface: who may, what is answered, and what a flood of it costs others.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use larder_tests::{Admin, Answer, Larder, Origin, Resp, Scratch, get, wait_until};
use serde_json::Value;

/// A Larder with an admin interface, and further lines for that.
fn with_admin(origin: &Origin, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "[[site]]\norigin = \"{}\"\n[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \
         [\"127.0.0.1:0\"]\n{lines}\n",
        origin.url()
    ))
}

fn fresh() -> Origin {
    Origin::serving(&["Cache-Control: max-age=600", "Content-Type: text/plain"], "page")
}

#[track_caller]
fn code(answer: &Answer) -> String {
    let json: Value =
        serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    assert!(json["error"]["message"].as_str().is_some_and(|message| message.len() > 10), "{json}");
    json["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn without_its_table_there_is_none() {
    let origin = fresh();
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    assert!(Admin::printed(&larder.stderr()).is_none(), "{}", larder.stderr());
}

#[test]
fn a_flag_is_enough() {
    let origin = fresh();
    let larder = Larder::serve(&[
        "--http",
        "127.0.0.1:0",
        "--threads",
        "1",
        "--origin",
        &origin.url(),
        "--admin",
        "127.0.0.1:0",
    ]);
    assert_eq!(Admin::of(&larder).get("/health").text(), "ok\n");
}

#[test]
fn every_route_for_looking_answers() {
    let origin = fresh();
    let larder = with_admin(&origin, "name = \"test-1\"");
    let admin = Admin::of(&larder);
    get(larder.addr(), "/page");
    get(larder.addr(), "/page").assert_hit();
    for (path, kind, part) in [
        ("/", "text/html", "<"),
        ("/health", "text/plain", "ok"),
        ("/ready", "text/plain", "ok"),
        ("/metrics", "text/plain; version=0.0.4", "# TYPE larder_"),
        ("/api/v1/openapi.json", "application/json", "\"3.1.0\""),
        ("/api/v1/stats", "application/json", "\"test-1\""),
        ("/api/v1/history?since=0", "application/json", "\"step_ms\":1000"),
        ("/api/v1/top?by=misses&limit=5", "application/json", "\"misses\""),
        ("/api/v1/objects", "application/json", "\"http://site.test/page\""),
        ("/api/v1/object?url=http://site.test/page", "application/json", "\"fresh\""),
        ("/api/v1/purges", "application/json", "[]"),
        ("/api/v1/pages", "application/json", "\"pages\":[]"),
        ("/api/v1/sites", "application/json", &origin.url()),
    ] {
        let answer = admin.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let found = answer.get("content-type").unwrap_or_default();
        assert!(found.starts_with(kind), "{path}: {found}");
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
        assert!(
            answer
                .get("content-security-policy")
                .is_some_and(|csp| csp.contains("frame-ancestors 'none'"))
        );
        assert_eq!(answer.get("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.get("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(answer.get("access-control-allow-origin"), None, "{path}");
    }
    let stats = admin.json("/api/v1/stats");
    assert_eq!(stats["http"]["results"]["hit"], 1);
    assert_eq!(stats["http"]["results"]["miss"], 1);
    let open =
        admin.ask("GET", "/metrics", &["Accept: application/openmetrics-text; version=1.0.0"], "");
    assert!(open.get("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(open.text().ends_with("# EOF\n"));
}

#[test]
fn the_dashboards_files_are_checked_by_their_tags() {
    let origin = fresh();
    let larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    let page = admin.get("/");
    let tag = page.get("etag").unwrap().to_owned();
    let again = admin.ask("GET", "/", &[&format!("If-None-Match: {tag}")], "");
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(admin.get("/assets/../Cargo.toml").status, 404);
    assert_eq!(admin.get("/assets/none.js").status, 404);
}

#[test]
fn what_is_not_there_or_not_meant_is_told() {
    let origin = fresh();
    let larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    for (path, status, expected) in [
        ("/nothing", 404, "no_route"),
        ("/api/v1/nothing", 404, "no_route"),
        ("/api/v1/top?by=colour", 400, "bad_parameter"),
        ("/api/v1/objects?limi=1", 400, "bad_parameter"),
        ("/api/v1/objects?state=ripe", 400, "bad_parameter"),
        ("/api/v1/objects?cursor=x", 400, "bad_parameter"),
        ("/api/v1/objects?prefix=page", 400, "bad_url"),
        ("/api/v1/object", 400, "bad_parameter"),
        ("/api/v1/object?url=http://site.test/none", 404, "not_stored"),
        ("/api/v1/keys?face=memcached", 404, "no_face"),
        ("/api/v1/keys?face=redis", 404, "no_face"),
        ("/api/v1/keys?face=mysql", 400, "bad_parameter"),
        ("/api/v1/log?status=bad", 400, "bad_parameter"),
        ("/api/v1/purge", 405, "bad_method"),
    ] {
        let answer = admin.get(path);
        assert_eq!((answer.status, code(&answer).as_str()), (status, expected), "{path}");
    }
}

#[test]
fn changes_need_the_token() {
    let origin = fresh();
    let larder = with_admin(&origin, "monkey_api = true");
    let admin = Admin::of(&larder);
    get(larder.addr(), "/");
    let changes = [
        ("POST", "/api/v1/purge", "{\"url\":\"http://site.test/\"}"),
        ("PUT", "/api/v1/pages?url=http://site.test/", "page"),
        ("DELETE", "/api/v1/pages?url=http://site.test/", ""),
        ("POST", "/cache/stats", ""),
        ("POST", "/cache/add/x", "page"),
        ("POST", "/cache/reset/x", ""),
    ];
    for (method, path, body) in changes {
        let answer = admin.ask(method, path, &[], body);
        assert_eq!((answer.status, code(&answer).as_str()), (401, "no_token"), "{method} {path}");
        assert!(answer.get("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
        for wrong in ["Bearer wrong", "Bearer ", "Basic dXNlcjpwYXNz", &admin.token] {
            let answer = admin.ask(method, path, &[&format!("Authorization: {wrong}")], body);
            assert!([401, 403].contains(&answer.status), "{method} {path} {wrong}: {answer:?}");
        }
        // A token in the URL is none: URLs end up in logs.
        let joint = if path.contains('?') { '&' } else { '?' };
        let answer = admin.ask(method, &format!("{path}{joint}token={}", admin.token), &[], body);
        assert_eq!(answer.status, 401);
    }
    get(larder.addr(), "/").assert_hit();
    for path in ["/cache/stats", "/cache/add/x", "/cache/reset/x", "/api/v1/purge"] {
        assert_eq!(admin.get(path).status, 405, "a GET changes nothing: {path}");
    }
    assert_eq!(larder.stderr().matches(&admin.token).count(), 1, "the token is said once");
}

#[test]
fn a_token_file_counts_and_is_read_again() {
    let origin = fresh();
    let scratch = Scratch::new("token");
    let file = scratch.write("admin.token", "first-token\n");
    let lines = format!("token_file = \"{}\"\nread = \"token\"", file.display());
    let larder = with_admin(&origin, &lines);
    let mut admin = Admin::of(&larder);
    assert_eq!(admin.token, "", "what is in a file is not said");
    let status = |admin: &Admin| admin.order("GET", "/api/v1/stats", "").status;
    admin.token = "first-token".to_owned();
    assert_eq!(status(&admin), 200);
    scratch.write("admin.token", "second-token\n");
    larder.hup();
    wait_until("the reload", || larder.stderr().contains("configuration reloaded"));
    assert_eq!(status(&admin), 403);
    admin.token = "second-token".to_owned();
    assert_eq!(status(&admin), 200);
    for file in ["first-token", "second-token"] {
        assert!(!larder.stderr().contains(file));
    }
}

#[test]
fn looking_can_need_the_token_too() {
    let origin = fresh();
    let larder = with_admin(&origin, "read = \"token\"");
    let admin = Admin::of(&larder);
    for path in [
        "/metrics",
        "/api/v1/stats",
        "/api/v1/live",
        "/api/v1/log",
        "/api/v1/objects",
        "/api/v1/purges",
    ] {
        assert_eq!(admin.get(path).status, 401, "{path}");
    }
    assert_eq!(admin.order("GET", "/metrics", "").status, 200);
    for path in ["/", "/health", "/ready"] {
        assert_eq!(admin.get(path).status, 200, "{path}");
    }
}

#[test]
fn names_that_others_could_give_this_machine_are_refused() {
    let origin = fresh();
    let larder = with_admin(&origin, "hosts = [\"cache.example.org\"]");
    let admin = Admin::of(&larder);
    let port = admin.addr.port();
    for good in
        [format!("localhost:{port}"), "cache.example.org".to_owned(), format!("[::1]:{port}")]
    {
        assert_eq!(
            admin.ask("GET", "/api/v1/stats", &[&format!("Host: {good}")], "").status,
            200,
            "{good}"
        );
    }
    for path in ["/", "/metrics", "/health", "/api/v1/stats", "/api/v1/purge"] {
        for bad in [format!("rebound.example:{port}"), "cache.example.org.evil.example".to_owned()]
        {
            let answer = admin.ask("GET", path, &[&format!("Host: {bad}")], "");
            assert_eq!((answer.status, code(&answer).as_str()), (403, "bad_host"), "{path} {bad}");
        }
    }
}

#[test]
fn pages_of_other_sites_may_do_nothing() {
    let origin = fresh();
    let larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    get(larder.addr(), "/");
    let token = format!("Authorization: Bearer {}", admin.token);
    let body = "{\"url\":\"http://site.test/\"}";
    for foreign in [
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        let answer = admin.ask("POST", "/api/v1/purge", &[&token, foreign], body);
        assert_eq!((answer.status, code(&answer).as_str()), (403, "bad_origin"), "{foreign}");
        for stream in ["/api/v1/live", "/api/v1/log", "/api/v1/hist", "/api/v1/stats"] {
            assert_eq!(admin.ask("GET", stream, &[foreign], "").status, 403, "{stream} {foreign}");
        }
    }
    get(larder.addr(), "/").assert_hit();
    let own = format!("Origin: http://{}", admin.addr);
    let answer =
        admin.ask("POST", "/api/v1/purge", &[&token, &own, "Sec-Fetch-Site: same-origin"], body);
    assert_eq!(answer.text(), "{\"purged\":1}\n");
}

#[test]
fn bodies_heads_and_watchers_have_limits() {
    let origin = fresh();
    let larder = with_admin(&origin, "page_size = \"64KiB\"");
    let admin = Admin::of(&larder);
    let token = format!("Authorization: Bearer {}", admin.token);
    // Said to be too large: refused before it is sent.
    let mut wire = admin.connect();
    wire.send(format!(
        "PUT /api/v1/pages?url=http://site.test/big HTTP/1.1\r\nHost: \
         {}\r\n{token}\r\nContent-Length: 1000000000\r\n\r\n",
        admin.addr
    ));
    assert_eq!(wire.read().status, 413);
    // Not said: refused when it is.
    let mut wire = admin.connect();
    wire.send(format!(
        "PUT /api/v1/pages?url=http://site.test/big HTTP/1.1\r\nHost: \
         {}\r\n{token}\r\nTransfer-Encoding: chunked\r\n\r\n",
        admin.addr
    ));
    for _ in 0..5 {
        wire.send(format!("4000\r\n{}\r\n", "x".repeat(0x4000)));
    }
    assert_eq!(wire.read().status, 413);
    assert_eq!(admin.order("POST", "/api/v1/purge", "x".repeat(70_000)).status, 413);
    let long = format!("X-Long: {}", "x".repeat(200_000));
    assert_eq!(admin.ask("GET", "/health", &[&long], "").status, 431);
    let watchers: Vec<_> = (0..32).map(|_| admin.watch("/api/v1/live")).collect();
    let answer = admin.get("/api/v1/log");
    assert_eq!((answer.status, code(&answer).as_str()), (503, "busy"));
    assert_eq!(admin.get("/health").status, 200, "others go on");
    drop(watchers);
    wait_until("a place for a watcher", || {
        let mut wire = admin.connect();
        wire.send(admin.request("GET", "/api/v1/log", &[], b""));
        wire.read_head().status == 200
    });
}

#[test]
fn who_holds_all_connections_stops_nobody_else_for_long() {
    let origin = fresh();
    let larder = with_admin(&origin, "connections = 8");
    let admin = Admin::of(&larder);
    get(larder.addr(), "/");
    let mut slow: Vec<_> = (0..8)
        .map(|_| {
            let mut wire = admin.connect();
            wire.send("GET /health HTTP/1.1\r\nHost: loc");
            wire
        })
        .collect();
    wait_until("the ninth to be closed", || refused(admin.addr));
    for _ in 0..10 {
        get(larder.addr(), "/").assert_hit();
    }
    // One that sends no whole request in time is closed, and gives its place back.
    for wire in &mut slow {
        wire.expect_closed();
    }
    assert_eq!(admin.get("/health").status, 200);
    get(larder.addr(), "/").assert_hit();
}

/// Whether a new connection is closed at once.
fn refused(addr: SocketAddr) -> bool {
    let mut wire = larder_tests::Wire::connect(addr);
    wire.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wire.try_read_for("GET").is_err()
}

#[test]
fn it_is_not_ready_while_it_stops() {
    let gate = larder_tests::Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, reply| {
        held.wait();
        reply.ok(&["Cache-Control: max-age=600"], "late");
    });
    let mut larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    assert_eq!(admin.get("/ready").status, 200);
    let mut waiting = larder.connect();
    waiting.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    larder.term();
    wait_until("it to say that it stops", || admin.get("/ready").status == 503);
    assert_eq!(code(&admin.get("/ready")), "draining");
    assert_eq!(admin.get("/health").status, 200, "it still runs");
    gate.open();
    assert_eq!(waiting.read().text(), "late");
    assert!(larder.wait_exit().success());
}

#[test]
fn the_demonstration_shows_its_link() {
    let mut demo = larder_tests::Started::start(|_, port| {
        let mut command = std::process::Command::new(larder_tests::larder::binary());
        command.args(["demo", "--delay", "0ms", "--http", &format!("127.0.0.1:{port}")]);
        (command, None)
    });
    wait_until("the welcome", || demo.printed().contains("Ctrl-C"));
    let admin = Admin::printed(&demo.printed()).unwrap();
    assert!(
        demo.printed().contains(&format!("Watch    http://{}/#token={}", admin.addr, admin.token))
    );
    assert_eq!(admin.order("GET", "/api/v1/stats", "").status, 200);
    demo.term();
    assert!(demo.wait_exit().success());
}

/// docs/openapi.json against OpenAPI 3.1's own schema, by a validator that others wrote.
#[test]
fn the_description_of_the_api_is_valid() {
    let root = larder_tests::helper::source_root();
    let modules = root.join("tests/.cache/openapi");
    assert!(modules.is_dir(), "{} is missing: run scripts/test-deps.sh", modules.display());
    let validate = |file: &std::path::Path| {
        let output = std::process::Command::new("/usr/bin/python3")
            .args(["-m", "openapi_spec_validator"])
            .arg(file)
            .env("PYTHONPATH", &modules)
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let origin = fresh();
    let larder = with_admin(&origin, "");
    let served = Admin::of(&larder).get("/api/v1/openapi.json");
    let file = larder.dir().join("openapi.json");
    std::fs::write(&file, &served.body).unwrap();
    assert_eq!(validate(&file), (true, format!("{}: OK\n", file.display())));
    assert_eq!(served.body, std::fs::read(root.join("docs/openapi.json")).unwrap());
    let broken = served.text().replace("\"responses\"", "\"answers\"");
    std::fs::write(&file, broken).unwrap();
    assert!(!validate(&file).0, "the validator takes anything");
}

#[test]
fn the_hottest_keys_of_redis_clients_are_known() {
    let origin = fresh();
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--redis",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--threads",
        "1",
    ];
    let larder = Larder::serve(&[&flags[..], &["--origin", &origin.url()]].concat());
    let mut client = Resp::tcp(larder.face("redis"));
    assert_eq!(client.say("SET hot 1"), "OK");
    assert_eq!(client.say("HSET hash field 2"), "1");
    for round in 0..2000 {
        assert_eq!(client.say("GET hot"), "1");
        assert_eq!(client.say("HGET hash field"), "2");
        client.ask(&["MGET".to_owned(), "hot".to_owned(), format!("cold:{round}")]);
    }
    let admin = Admin::of(&larder);
    let told = admin.json("/api/v1/keys?face=redis&limit=2");
    let keys: Vec<_> =
        told["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect();
    assert_eq!((keys, &told["face"]), (vec!["hot", "hash"], &Value::from("redis")), "{told}");
    // 4,000 of 8,000 reads: the first 1,024 of a second are all looked at, and one in 64 of those
    // beyond: five deviations are 2,500.
    let figure = |name: &str| told["keys"][0][name].as_u64().unwrap();
    assert!((1_500..=6_500).contains(&figure("gets")), "{told}");
    assert!(figure("gets_at_least") <= 4_000, "{told}");
    assert_eq!(client.say("CONFIG RESETSTAT"), "OK");
    assert_eq!(admin.json("/api/v1/keys?face=redis")["gets"], 0);
}
