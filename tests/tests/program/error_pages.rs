//! The pages that Larder answers with itself: the operator's own, the default ones, and the
//! reference by which an error is found again.

#![allow(clippy::unwrap_used)]

use larder_tests::{
    Admin, Answer, H2, H3, Larder, Origin, Papers, Scratch, get, get_with, wait_for,
};

/// Nobody listens there.
const DOWN: &str = "http://127.0.0.1:1";

fn reference(answer: &Answer) -> String {
    let reference = answer.get("larder-reference").expect("a reference").to_owned();
    assert!(answer.text().contains(&reference), "{}", answer.text());
    reference
}

#[test]
fn a_default_page_is_found_again_by_its_reference() {
    let larder = Larder::with_config(&format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"{DOWN}\"\n[http]\nlisten = \
         \"127.0.0.1:0\"\naccess_log = {{ path = \"@DIR@/log\", format = \"json\" }}\n"
    ));
    let answer = get(larder.addr(), "/a?b=c");
    answer.assert_status(502);
    assert!(answer.text().contains("<h1>502 Bad Gateway</h1>"), "{}", answer.text());
    let reference = reference(&answer);
    let (status, said, wrong) = larder.command(&["why", &reference.to_lowercase()]);
    assert_eq!(status.code(), Some(0), "{wrong}");
    for part in [&reference, "502", "GET http://site.test/a?b=c HTTP/1.1", "Connection refused"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains("client   127.0.0.1"), "{said}");
    let admin = Admin::of(&larder);
    let found = admin.json(&format!("/api/v1/errors?reference={reference}"));
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!((&found[0]["status"], &found[0]["site"]), (&502.into(), &"default".into()));
    let line = wait_for("the line of the log", || {
        let log = std::fs::read_to_string(larder.dir().join("log")).unwrap_or_default();
        log.lines().next().map(str::to_owned)
    });
    assert!(line.contains(&format!("\"reference\":\"{reference}\"")), "{line}");
    // Another one has another reference; without a name the latest come, newest first.
    let second = get(larder.addr(), "/second");
    let all = admin.json("/api/v1/errors");
    let named = |error: &serde_json::Value| error["reference"].as_str().unwrap().to_owned();
    let named: Vec<_> = all.as_array().unwrap().iter().map(named).collect();
    assert!(named.contains(&reference) && named.contains(&self::reference(&second)), "{all}");
    let (status, said, _) = larder.command(&["why", "00000-00000"]);
    assert_eq!(status.code(), Some(1), "{said}");
    let (_, said, _) = larder.command(&["why", "-n", "1"]);
    assert_eq!(said.matches("  request  ").count(), 1, "{said}");
}

#[test]
fn a_line_of_the_live_log_has_the_reference() {
    let larder = Larder::with_config(&format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"{DOWN}\"\n[http]\nlisten = \
         \"127.0.0.1:0\"\n"
    ));
    let mut watch = Admin::of(&larder).watch("/api/v1/log");
    let answer = get(larder.addr(), "/");
    assert_eq!(watch.next_of("request")["reference"], reference(&answer).as_str());
}

#[test]
fn own_pages_by_site_and_status_over_every_protocol() {
    let scratch = Scratch::new("error-pages");
    scratch.write("down.html", "<p>{{status}} {{reason}}, say {{reference}} to us</p>");
    scratch.write("all.json", "{\"error\":{{status}}}");
    let papers = Papers::issue();
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let directory = scratch.path().display();
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\nerror_pages = {{ 4xx = \
         \"{directory}/all.json\", 502 = \"{directory}/all.json\" }}\n[https]\nlisten = \
         \"127.0.0.1:0\"\nhttp3 = true\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" \
         }}]\n[[site]]\norigin = \"{DOWN}\"\nerror_pages = {{ 5xx = \"{directory}/down.html\" \
         }}\n[[site]]\nhosts = [\"other.test\"]\norigin = \"{DOWN}\"\n"
    ));
    let check = |answer: &Answer| {
        answer.assert_status(502);
        assert_eq!(answer.get("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(answer.get("cache-control"), Some("no-store"));
        let reference = reference(answer);
        assert_eq!(answer.text(), format!("<p>502 Bad Gateway, say {reference} to us</p>"));
    };
    check(&get(larder.addr(), "/"));
    check(&H2::connect(larder.addr()).get("/"));
    check(&H2::connect_tls(larder.face("https"), &papers.client(), "127.0.0.1").get("/"));
    check(&H3::connect(larder.face("http3+udp"), &papers).get("/"));
    // Another site has the common ones.
    let other = larder.connect().ask("GET", "/", &["Host: other.test"]);
    assert_eq!((other.status, other.text()), (502, "{\"error\":502}"));
    assert_eq!(other.get("content-type"), Some("application/json"));
    assert!(other.get("larder-reference").is_some());
    // A refusal: nothing is stored.
    let refused = get_with(larder.addr(), "/", &["Cache-Control: only-if-cached"]);
    refused.assert_status(504);
    assert!(refused.text().starts_with("<p>504 Gateway Timeout"), "{}", refused.text());
}

#[test]
fn errors_of_the_origin_stay_as_they_are() {
    let scratch = Scratch::new("error-pages-origin");
    let page = scratch.write("page.html", "ours");
    let origin = Origin::start(|_, reply| {
        reply.answer(503, &["X-From: origin"], "theirs");
    });
    let lines = format!("error_pages = {{ 5xx = \"{}\" }}", page.display());
    let larder = Larder::site(&origin.url(), &lines);
    let answer = get(larder.addr(), "/");
    assert_eq!((answer.status, answer.text()), (503, "theirs"));
    assert_eq!(answer.get("larder-reference"), None);
}

#[test]
fn a_path_without_a_file_has_the_sites_page() {
    let scratch = Scratch::new("error-pages-files");
    scratch.write("page.html", "{{status}}: lost?{{reference}}");
    std::fs::create_dir(scratch.file("root")).unwrap();
    scratch.write("root/index.html", "home");
    let directory = scratch.path().display();
    let larder = Larder::with_config(&format!(
        "[[site]]\norigin = \"files:{directory}/root\"\nerror_pages = {{ 404 = \
         \"{directory}/page.html\" }}\n"
    ));
    let answer = get(larder.addr(), "/absent");
    assert_eq!((answer.status, answer.text()), (404, "404: lost?"));
    assert_eq!(answer.get("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(get(larder.addr(), "/").text(), "home");
}

#[test]
fn a_reload_reads_the_pages_again_and_keeps_them_where_one_is_wrong() {
    let scratch = Scratch::new("error-pages-reload");
    let page = scratch.write("page.html", "one");
    let lines = format!("error_pages = {{ 502 = \"{}\" }}", page.display());
    let larder = Larder::site(DOWN, &lines);
    assert_eq!(get(larder.addr(), "/").text(), "one");
    scratch.write("page.html", "two");
    let (status, ..) = larder.command(&["reload"]);
    assert_eq!(status.code(), Some(0));
    assert_eq!(get(larder.addr(), "/").text(), "two");
    std::fs::remove_file(&page).unwrap();
    let (status, _, wrong) = larder.command(&["reload"]);
    assert_eq!(status.code(), Some(1));
    assert!(wrong.contains("there is no such file"), "{wrong}");
    assert_eq!(get(larder.addr(), "/").text(), "two");
}
