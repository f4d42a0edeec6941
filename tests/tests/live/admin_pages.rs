//! Pages that other programs publish, and the routes of Monkey's cache plugin.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use larder_tests::{Admin, Gate, Larder, Origin, get, wait_until};
use serde_json::{Value, json};

fn with_admin(origin: &Origin, site: &str, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "[[site]]\norigin = \"{}\"\n{site}\n[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \
         [\"127.0.0.1:0\"]\n{lines}\n",
        origin.url()
    ))
}

fn numbered() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600"], format!("origin {}", seen.number + 1));
    })
}

/// What curl, as a publisher or a visitor would use it, gets.
#[track_caller]
fn curl(args: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "-m", "20"]).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_published_page_is_served_like_any_other() {
    let origin = numbered();
    let larder = with_admin(&origin, "", "");
    let admin = Admin::of(&larder);
    let file = larder.dir().join("notes.txt");
    std::fs::write(&file, "0123456789").unwrap();
    let token = format!("Authorization: Bearer {}", admin.token);
    let page = format!("http://{}/files/notes.txt", larder.addr());
    let at = format!("http://{}/api/v1/pages?url={page}&ttl=1h&tags=notes,files", admin.addr);
    let status = curl(&[
        "-T",
        file.to_str().unwrap(),
        "-H",
        &token,
        "-H",
        "Content-Language: de",
        "-w",
        "%{http_code}",
        &at,
    ]);
    assert_eq!(status, "201");
    let answer = curl(&["-i", &page]).to_ascii_lowercase();
    let lines: Vec<&str> = answer.lines().collect();
    assert!(lines[0].starts_with("http/1.1 200"), "{answer}");
    for line in
        ["content-type: text/plain; charset=utf-8", "content-language: de", "content-length: 10"]
    {
        assert!(lines.contains(&line), "{line}: {answer}");
    }
    assert!(
        answer.ends_with("\r\n\r\n0123456789") && answer.contains("cache-status: larder; hit"),
        "{answer}"
    );
    assert!(!answer.contains("bearer"), "{answer}");
    assert_eq!(curl(&["-r", "2-4", "-w", " %{http_code}", &page]), "234 206");
    assert_eq!(curl(&["-r", "20-", "-o", "/dev/null", "-w", "%{http_code}", &page]), "416");
    let tag = lines.iter().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    assert_eq!(curl(&["-H", &format!("If-None-Match: {tag}"), "-w", "%{http_code}", &page]), "304");
    assert_eq!(
        curl(&["-H", "If-None-Match: \"other\"", "-o", "/dev/null", "-w", "%{http_code}", &page]),
        "200"
    );
    let head = curl(&["-I", &page]).to_ascii_lowercase();
    assert!(head.contains("content-length: 10") && head.contains("200 ok"), "{head}");
    assert_eq!(
        curl(&["-H", "Cache-Control: max-age=0", &page]),
        "0123456789",
        "a reload does not lose it"
    );
    assert_eq!(origin.count(), 0);
    let listed = &admin.json("/api/v1/pages")["pages"][0];
    assert_eq!((&listed["url"], &listed["size"]), (&json!(page), &json!(10)));
    assert_eq!(listed["tags"], json!(["notes", "files"]));
    assert!(
        listed["expires_ms"].as_u64().unwrap() - listed["published_ms"].as_u64().unwrap()
            == 3_600_000
    );
    assert_eq!(
        curl(&["-T", file.to_str().unwrap(), "-H", &token, "-w", "%{http_code}", &at]),
        "204",
        "again"
    );
    assert_eq!(admin.purge(&json!({"tags": ["notes"]})), 1);
    assert_eq!(curl(&[&page]), "origin 1");
}

#[test]
fn a_page_lies_over_the_origins_until_it_is_reset() {
    let origin = numbered();
    let larder = with_admin(&origin, "", "");
    let admin = Admin::of(&larder);
    assert_eq!(get(larder.addr(), "/").text(), "origin 1");
    let url = "/api/v1/pages?url=http://site.test/";
    assert_eq!(admin.order("PUT", url, "published").status, 201);
    let answer = get(larder.addr(), "/");
    assert_eq!(
        (answer.text(), answer.get("content-type")),
        ("published", Some("text/html; charset=utf-8"))
    );
    assert_eq!(admin.order("DELETE", url, "").status, 204);
    assert_eq!(admin.order("DELETE", url, "").status, 404, "twice");
    assert_eq!(admin.json("/api/v1/pages")["pages"], json!([]));
    assert_eq!(get(larder.addr(), "/").text(), "origin 2");
    assert_eq!(
        admin.order("DELETE", url, "").status,
        404,
        "what an origin sent is not reset but purged"
    );
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn a_page_whose_time_is_over_is_the_origins_again() {
    let origin = numbered();
    let larder = with_admin(&origin, "", "");
    let admin = Admin::of(&larder);
    assert_eq!(
        admin.order("PUT", "/api/v1/pages?url=http://site.test/a&ttl=1", "short").status,
        201
    );
    let token = format!("Authorization: Bearer {}", admin.token);
    let control = "Cache-Control: public, max-age=1";
    let answer =
        admin.ask("PUT", "/api/v1/pages?url=http://site.test/b", &[&token, control], "short");
    assert_eq!(answer.status, 201);
    for path in ["/a", "/b"] {
        wait_until("its time to be over", || get(larder.addr(), path).text().starts_with("origin"));
    }
}

#[test]
fn variants_of_before_are_gone_when_a_page_is_published() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(
            &["Cache-Control: max-age=600", "Vary: X-Kind"],
            format!("origin {}", seen.number + 1),
        );
    });
    let larder = with_admin(&origin, "", "");
    let admin = Admin::of(&larder);
    let ask =
        |kind: &str| larder.connect().get("/", &[&format!("X-Kind: {kind}")]).text().to_owned();
    assert_eq!((ask("a").as_str(), ask("b").as_str()), ("origin 1", "origin 2"));
    assert_eq!(
        admin.order("PUT", "/api/v1/pages?url=http://site.test/", "one for all").status,
        201
    );
    assert_eq!((ask("a").as_str(), ask("b").as_str()), ("one for all", "one for all"));
}

#[test]
fn what_is_being_fetched_does_not_take_a_published_pages_place() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, reply| {
        held.wait();
        reply.ok(&["Cache-Control: max-age=600"], "origin");
    });
    let larder = with_admin(&origin, "", "");
    let admin = Admin::of(&larder);
    let mut waiting = larder.connect();
    waiting.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    assert_eq!(admin.order("PUT", "/api/v1/pages?url=http://site.test/", "published").status, 201);
    gate.open();
    assert_eq!(waiting.read().text(), "origin");
    assert_eq!(get(larder.addr(), "/").assert_hit().text(), "published");
}

#[test]
fn what_cannot_be_published_is_told() {
    let origin = numbered();
    let site = "hosts = [\"site.test\"]\n[[site.rule]]\npath = \"/api/*\"\npass = true";
    let larder = with_admin(&origin, site, "page_size = \"1KiB\"");
    let admin = Admin::of(&larder);
    let put = |query: &str, fields: &[&str], body: &str| {
        let token = format!("Authorization: Bearer {}", admin.token);
        let answer = admin.ask(
            "PUT",
            &format!("/api/v1/pages?{query}"),
            &[&[token.as_str()], fields].concat(),
            body,
        );
        let error: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        (answer.status, error["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |status, code: &str| (status, code.to_owned());
    assert_eq!(put("url=http://site.test/x&ttl=soon", &[], ""), refused(400, "bad_parameter"));
    assert_eq!(put("url=site.test/x", &[], ""), refused(400, "bad_url"));
    assert_eq!(put("ttl=1", &[], ""), refused(400, "bad_parameter"));
    assert_eq!(put("url=http://other.test/x", &[], ""), refused(404, "no_site"));
    assert_eq!(put("url=http://site.test/api/x", &[], ""), refused(409, "passed"));
    assert_eq!(put("url=http://site.test/x", &["Vary: Cookie"], ""), refused(400, "bad_header"));
    assert_eq!(put("url=http://site.test/x", &[], &"x".repeat(2000)), refused(413, "too_large"));
    assert_eq!(admin.json("/api/v1/pages")["pages"], json!([]));
    assert_eq!(put("url=http://site.test/x", &[], &"x".repeat(1024)).0, 201);
    assert_eq!(put("url=http://site.test/empty", &[], "").0, 201);
    assert_eq!(get(larder.addr(), "/empty").assert_hit().body.len(), 0);
}

#[test]
fn monkeys_routes_work_where_they_are_on() {
    let origin = numbered();
    let larder = with_admin(&origin, "hosts = [\"site.test\"]", "monkey_api = true");
    let admin = Admin::of(&larder);
    let answer = admin.order("POST", "/cache/add/static/app%20one.js", "let a = 1;");
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = get(larder.addr(), "/static/app%20one.js");
    assert_eq!(page.assert_hit().text(), "let a = 1;");
    assert!(page.get("content-type").unwrap().starts_with("text/javascript"), "{page:?}");
    let stats: Value =
        serde_json::from_slice(&admin.order("POST", "/cache/stats", "").body).unwrap();
    assert_eq!(
        stats["files"],
        json!([{"uri": "http://site.test/static/app%20one.js", "size": 10}])
    );
    let (used, size) =
        (stats["memory"]["used"].as_u64().unwrap(), stats["memory"]["size"].as_u64().unwrap());
    // Of 64 MiB a sixteenth is for copies of large pages; none where there are too many processors
    // to share it.
    assert!(used > 0 && [60 << 20, 64 << 20].contains(&size), "{stats}");
    assert!(stats["requests_per_second"].is_u64(), "{stats}");
    assert_eq!(admin.order("POST", "/cache/reset/static/app%20one.js", "").status, 200);
    assert_eq!(get(larder.addr(), "/static/app%20one.js").text(), "origin 1");
    // A path is the one that a request spells, whatever its escapes stand for.
    for path in ["/%3Cb%3E", "/%0d%0a", "/x%00y", "/d%2fe", "/%41"] {
        let added = admin.order("POST", &format!("/cache/add{path}?host=site.test"), path);
        assert_eq!(added.status, 200, "{path}: {added:?}");
        assert_eq!(get(larder.addr(), path).assert_hit().text(), path);
    }
    assert_eq!(get(larder.addr(), "/A").text(), "origin 2");
    // As in the plugin, what was fetched is reset too.
    assert_eq!(admin.order("POST", "/cache/reset/static/app%20one.js", "").status, 200);
    assert_eq!(get(larder.addr(), "/static/app%20one.js").text(), "origin 3");
}

#[test]
fn monkeys_routes_are_off_by_default() {
    let origin = numbered();
    let larder = with_admin(&origin, "", "");
    let admin = Admin::of(&larder);
    for path in ["/cache/stats", "/cache/add/x", "/cache/reset/x"] {
        assert_eq!(admin.order("POST", path, "x").status, 404, "{path}");
    }
}
