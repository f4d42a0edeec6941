//! Answers that name a file: X-Accel-Redirect and X-Sendfile.

#![allow(clippy::unwrap_used)]

use larder_tests::fastcgi::Application;
use larder_tests::{Larder, Origin, Scratch, get, get_with};
use std::fs;
use std::os::unix::fs::symlink;

const TEXT: &str = "0123456789";

/// Files that may be sent, and a secret beside them.
fn files() -> Scratch {
    let scratch = Scratch::new("files");
    fs::create_dir_all(scratch.file("open/deep")).unwrap();
    scratch.write("open/a b.txt", TEXT);
    scratch.write("open/deep/c.bin", "deep");
    scratch.write("open/.hidden", "secret");
    scratch.write("secret.txt", "secret");
    symlink(scratch.file("secret.txt"), scratch.file("open/link")).unwrap();
    scratch
}

/// An application whose answers have the fields that a request has in its query, divided by `;`.
fn told() -> Application {
    Application::start(|called, output| {
        let fields = called.get("QUERY_STRING").replace(';', "\n");
        output.answer(&format!("Content-Type: text/html\nX-Made: yes\n{fields}\n\nits own body"));
        true
    })
}

fn before(url: &str, lines: &str) -> Larder {
    Larder::with_config(&format!("threads = 1\n[[site]]\n[site.origin]\nurl = \"{url}\"\n{lines}"))
}

fn sending(url: &str, files: &Scratch) -> Larder {
    before(url, &format!("send_files = [\"/f/={}\"]\n", files.file("open").display()))
}

#[test]
fn a_file_takes_the_place_of_the_answer_that_names_it() {
    let (application, files) = (told(), files());
    let larder = sending(&application.url(), &files);
    let target = "/?X-Accel-Redirect:/f/a%20b.txt%3Fx;Set-Cookie:a=b;ETag:\"no\";Content-Length:12;\
                  Content-Disposition:attachment;X-Accel-Redirect-Not:x";
    let target = target.replace("%3Fx", "?x");
    for _ in 0..2 {
        let answer = get(larder.addr(), &target);
        assert_eq!((answer.status, answer.text()), (200, TEXT));
        for (name, value) in [
            ("content-type", "text/html"),
            ("set-cookie", "a=b"),
            ("content-disposition", "attachment"),
            ("content-length", "10"),
            ("x-made", "yes"),
        ] {
            assert_eq!(answer.get(name), Some(value), "{name}");
        }
        for name in ["x-accel-redirect", "x-sendfile", "surrogate-control"] {
            assert_eq!(answer.get(name), None, "{name}");
        }
        assert_ne!(answer.get("etag"), Some("\"no\""));
    }
    // Without a word of the application nothing is stored; its connection is kept.
    let calls = application.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[1].connection, calls[1].number), (0, 1));
    // Nobody names a media type: that of the file.
    let origin = Origin::serving(&["X-Accel-Redirect: /f/deep/c.bin"], "own");
    let larder = sending(&origin.url(), &files);
    let answer = get(larder.addr(), "/");
    assert_eq!(answer.text(), "deep");
    assert_eq!(answer.get("content-type"), Some("application/octet-stream"));
}

#[test]
fn ranges_and_conditions_are_those_of_the_file() {
    let (application, files) = (told(), files());
    let larder = sending(&application.url(), &files);
    let target = "/?X-Accel-Redirect:/f/a%20b.txt";
    let whole = get(larder.addr(), target);
    let etag = whole.get("etag").unwrap().to_owned();
    let part = get_with(larder.addr(), target, &["Range: bytes=2-4"]);
    assert_eq!((part.status, part.text()), (206, "234"));
    assert_eq!(part.get("content-range"), Some("bytes 2-4/10"));
    let beyond = get_with(larder.addr(), target, &["Range: bytes=20-"]);
    assert_eq!(beyond.status, 416);
    let other = get_with(larder.addr(), target, &["Range: bytes=2-4", "If-Range: \"other\""]);
    assert_eq!((other.status, other.text()), (200, TEXT));
    let head = larder.connect().ask("HEAD", target, &["Host: a.test"]);
    assert_eq!((head.status, head.get("content-length")), (200, Some("10")));
    // The answer to a form is the whole file.
    let fields = ["Host: a.test", "Content-Length: 0", "Range: bytes=2-4"];
    let posted = larder.connect().ask("POST", target, &fields);
    assert_eq!((posted.status, posted.text()), (200, TEXT));
    // Conditions reach an origin whose pages are passed.
    let url = application.url();
    let open = files.file("open");
    let passing = Larder::with_config(&format!(
        "[[site]]\npass = true\norigin = {{ url = \"{url}\", send_files = [\"/f/={}\"] }}\n",
        open.display()
    ));
    let fields = [&*format!("If-None-Match: {etag}")];
    let known = get_with(passing.addr(), target, &fields);
    assert_eq!((known.status, known.text(), known.get("x-made")), (304, "", Some("yes")));
    let other = get_with(passing.addr(), target, &["If-Match: \"other\""]);
    assert_eq!(other.status, 412);
    // An application that answers a condition itself is left alone.
    let own = get(larder.addr(), &format!("{target};Status:404"));
    assert_eq!((own.status, own.text()), (404, "its own body"));
    assert_eq!(own.get("x-accel-redirect"), None);
}

#[test]
fn the_application_decides_what_is_stored() {
    let files = files();
    let path = files.file("open/a b.txt");
    let field = format!("X-Sendfile: {}", path.display());
    let origin = Origin::start(move |seen, reply| {
        let control = match seen.path() {
            "/public" => "Cache-Control: public, max-age=600",
            _ => "Cache-Control: private, max-age=600",
        };
        reply.ok(&[control, &field, "Vary: X-Kind", "Content-Type: text/x-own"], "own");
    });
    let larder = sending(&origin.url(), &files);
    let first = get(larder.addr(), "/public");
    assert_eq!((first.text(), first.get("content-type")), (TEXT, Some("text/x-own")));
    get(larder.addr(), "/public").assert_hit();
    get_with(larder.addr(), "/public", &["X-Kind: b"]).assert_forwarded();
    let part = get_with(larder.addr(), "/public", &["Range: bytes=0-1"]);
    assert!(part.status == 206 && part.is_hit(), "{part:?}");
    for _ in 0..2 {
        assert_eq!(get(larder.addr(), "/private").text(), TEXT);
    }
    assert_eq!((origin.count_of("/public"), origin.count_of("/private")), (2, 2));
}

#[test]
fn nothing_but_files_of_these_directories_is_sent() {
    let (application, files) = (told(), files());
    let larder = sending(&application.url(), &files);
    let open = files.file("open");
    let open = open.display();
    let accel = [
        "/f/../secret.txt",
        "/f/%2e%2e/secret.txt",
        "/f/deep/%2e%2e/%2e%2e/secret.txt",
        "/f/deep%2Fc.bin",
        "/f//deep/c.bin",
        "/f/.hidden",
        "/f/link",
        "/f/deep",
        "/f/",
        "/f",
        "/f/none",
        "/g/a%20b.txt",
        "f/a%20b.txt",
        "/f/a%00.txt",
        "/etc/passwd",
        "http://127.0.0.1/f/a%20b.txt",
    ];
    let sendfile = [
        "/etc/passwd".to_owned(),
        format!("{open}/../secret.txt"),
        format!("{open}/.hidden"),
        format!("{open}/link"),
        format!("{open}x/a"),
        format!("{open}"),
        "a b.txt".to_owned(),
    ];
    let accel = accel.iter().map(|target| format!("X-Accel-Redirect:{target}"));
    let sendfile = sendfile.iter().map(|target| format!("X-Sendfile:{target}"));
    for field in accel.chain(sendfile) {
        let answer =
            get(larder.addr(), &format!("/?{};Cache-Control:max-age=9", field.replace(' ', "+")));
        assert_eq!(answer.status, 404, "{field}: {answer:?}");
        assert!(!answer.text().contains("secret"), "{field}");
        assert_eq!(answer.get("x-made"), Some("yes"), "{field}");
    }
}

#[test]
fn an_origin_that_may_name_no_files_names_none() {
    let (application, files) = (told(), files());
    let larder = before(&application.url(), "");
    let path = files.file("open/deep/c.bin");
    for field in [format!("X-Sendfile:{}", path.display()), "X-Accel-Redirect:/f/deep/c.bin".into()]
    {
        let answer = get(larder.addr(), &format!("/?{field}"));
        assert_eq!((answer.status, answer.text()), (200, "its own body"));
    }
}
