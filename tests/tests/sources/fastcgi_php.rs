//! PHP by FastCGI, with Debian's php-fpm: which script answers a path, and what it is told.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Php, Wire, get, get_with, wait_until};
use std::os::unix::fs::symlink;

/// A page that says what it was told.
const SHOW: &str = r#"<?php
header('Cache-Control: max-age=600');
foreach (['SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REQUEST_URI', 'PHP_SELF', 'HTTPS'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '-', "\n";
echo 'file=', substr($_SERVER['SCRIPT_FILENAME'], strlen($_SERVER['DOCUMENT_ROOT'])), "\n";
echo 'host=', $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_NAME'], ' ', $_SERVER['REMOTE_ADDR'], "\n";
echo 'body=', file_get_contents('php://input'), ' post=', json_encode($_POST), "\n";
echo 'random=', random_int(0, PHP_INT_MAX), "\n";
"#;

fn before(php: &Php, lines: &str) -> Larder {
    Larder::site_with_origin(&format!("{}{lines}", php.origin()))
}

fn show(processes: usize, unix: bool) -> Php {
    let files = [
        ("index.php", SHOW),
        ("blog/index.php", SHOW),
        ("upload/evil.jpg", SHOW),
        (".hidden.php", SHOW),
        ("old.php.bak", SHOW),
    ];
    Php::start(processes, unix, &files)
}

#[track_caller]
fn assert_says(answer: &larder_tests::Answer, lines: &[&str]) {
    assert_eq!(answer.status, 200, "{answer:?}");
    for line in lines {
        assert!(answer.text().lines().any(|found| found == *line), "{line}:\n{}", answer.text());
    }
}

#[test]
fn pages_of_php_are_cached_over_tcp_and_over_a_unix_socket() {
    for unix in [false, true] {
        let php = show(2, unix);
        let larder = before(&php, "");
        let first = get(larder.addr(), "/?a=b");
        let expected = [
            "SCRIPT_NAME=/index.php",
            "QUERY_STRING=a=b",
            "file=/index.php",
            "PATH_INFO=",
            "HTTPS=-",
        ];
        assert_says(&first, &expected);
        assert_says(&first, &["host=site.test site.test 127.0.0.1"]);
        assert_eq!(get(larder.addr(), "/?a=b").assert_hit().text(), first.text());
        assert_ne!(get(larder.addr(), "/?a=c").text(), first.text());
    }
}

#[test]
fn the_command_line_is_enough() {
    let php = show(2, false);
    let root = php.root().display().to_string();
    let larder = Larder::serve(&["--http", "127.0.0.1:0", "--origin", &php.url(), "--root", &root]);
    assert_says(&get(larder.addr(), "/blog/"), &["SCRIPT_NAME=/blog/index.php"]);
}

#[test]
fn a_path_may_go_on_behind_the_script() {
    let php = show(2, false);
    let larder = before(&php, "");
    let answer = get(larder.addr(), "/index.php/Main%20Page/x?a");
    let expected = [
        "SCRIPT_NAME=/index.php",
        "PATH_INFO=/Main Page/x",
        "REQUEST_URI=/index.php/Main%20Page/x?a",
        "PHP_SELF=/index.php/Main Page/x",
        "QUERY_STRING=a",
    ];
    assert_says(&answer, &expected);
    let moved = get(larder.addr(), "/blog?a=b");
    assert_eq!((moved.status, moved.get("location")), (301, Some("/blog/?a=b")));
}

#[test]
fn only_scripts_that_exist_below_the_root_are_run() {
    let php = show(2, false);
    symlink("/etc", php.root().join("etc")).unwrap();
    symlink("..", php.root().join("up")).unwrap();
    std::fs::write(php.root().join("../outside.php"), SHOW).unwrap();
    let larder = before(&php, "");
    for path in [
        "/upload/evil.jpg/x.php",
        "/upload/evil.jpg/.php",
        "/upload/evil.jpg%00.php",
        "/missing.php",
        "/missing.php/index.php",
        "/.hidden.php",
        "/up/outside.php",
        "/../outside.php",
        "/%2e%2e/outside.php",
        "/..%2foutside.php",
        "//index.php",
        "/blog//index.php",
        "/blog%2findex.php",
        "/etc/passwd",
        "/old.php~",
    ] {
        let answer = get(larder.addr(), path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        assert!(!answer.text().contains("SCRIPT_NAME"), "{path}: {answer:?}");
    }
}

#[test]
fn a_front_controller_answers_for_all_other_paths() {
    let php = show(2, false);
    let larder = before(&php, "try_files = [\"$uri\", \"$uri/\", \"/index.php?$args\"]\n");
    let pretty = get(larder.addr(), "/2026/11/hello%20world?page=2");
    let expected = [
        "SCRIPT_NAME=/index.php",
        "PATH_INFO=",
        "REQUEST_URI=/2026/11/hello%20world?page=2",
        "QUERY_STRING=page=2",
    ];
    assert_says(&pretty, &expected);
    assert_says(&get(larder.addr(), "/blog/"), &["SCRIPT_NAME=/blog/index.php"]);
    // A path without a file goes to the application, which knows no such page.
    assert_says(&get(larder.addr(), "/upload/evil.jpg/x.php"), &["SCRIPT_NAME=/index.php"]);
    assert_says(&get(larder.addr(), "/.env"), &["SCRIPT_NAME=/index.php"]);
    get(larder.addr(), "/a%00b").assert_status(400);
    let passes = before(&php, "try_files = [\"$uri\", \"/index.php$uri\"]\n");
    assert_says(&get(passes.addr(), "/wiki/A%2FB"), &["PATH_INFO=/wiki/A/B"]);
}

#[test]
fn forms_reach_php_whatever_their_framing() {
    let php = show(2, false);
    let larder = before(&php, "");
    let form = "Content-Type: application/x-www-form-urlencoded";
    let mut wire: Wire = larder.connect();
    wire.send(format!(
        "POST /index.php HTTP/1.1\r\nHost: a\r\n{form}\r\nContent-Length: 7\r\n\r\na=1&b=2"
    ));
    let expected = ["body=a=1&b=2 post={\"a\":\"1\",\"b\":\"2\"}"];
    assert_says(&wire.read(), &expected);
    wire.send(format!(
        "POST /index.php HTTP/1.1\r\nHost: a\r\n{form}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    wire.send("3\r\na=1\r\n4\r\n&b=2\r\n0\r\n\r\n");
    assert_says(&wire.read(), &expected);
}

#[test]
fn a_page_flushed_piecewise_streams_and_php_reports_errors() {
    let files = [
        (
            "slow.php",
            "<?php header('Cache-Control: max-age=60'); echo 'first'; flush(); \
             while (!file_exists(__DIR__ . '/go')) usleep(1000); echo ' second';",
        ),
        ("error.php", "<?php http_response_code(404); error_log(\"a problem\"); echo 'gone';"),
        ("fatal.php", "<?php header('Cache-Control: max-age=60'); undefined_function();"),
    ];
    let php = Php::start(2, false, &files);
    let larder = before(&php, "");
    let mut wire = larder.connect();
    wire.send_get("/slow.php", &["Host: site.test"]);
    assert_eq!(wire.read_head().status, 200);
    assert_eq!(wire.read_chunked_bytes(5), b"first");
    std::fs::write(php.root().join("go"), "").unwrap();
    assert_eq!(wire.read_chunked_bytes(7), b" second");
    assert_eq!(get(larder.addr(), "/error.php").assert_status(404).text(), "gone");
    get(larder.addr(), "/fatal.php").assert_status(500);
    let about = format!("larder: {}: GET site.test/error.php: ", php.url());
    wait_until("the line of the error log", || {
        larder.stderr().lines().any(|line| line.starts_with(&about) && line.ends_with("a problem"))
    });
}

/// A process of php-fpm serves one connection: while Larder keeps it, others must have their turn.
#[test]
fn one_process_serves_many_clients() {
    let php = show(1, true);
    let larder = before(&php, "max_connections = 1\n");
    std::thread::scope(|scope| {
        for client in 0..8 {
            let addr = larder.addr();
            scope.spawn(move || {
                for n in 0..40 {
                    let answer = get_with(addr, &format!("/?{client}-{n}"), &[]);
                    assert_says(&answer, &[&format!("QUERY_STRING={client}-{n}")]);
                }
            });
        }
    });
}
