//! Several applications behind one site, by FastCGI.

#![allow(clippy::unwrap_used)]

use larder_tests::fastcgi::{Application, STDOUT};
use larder_tests::{Admin, Gate, Larder, Scratch, Started, get, wait_until};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

/// One worker before these applications, with lines for the table of the origin.
fn before(urls: &[String], lines: &str) -> Larder {
    Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n[site.origin]\nurl = \
         {urls:?}\n{lines}\n"
    ))
}

fn answering(text: &'static str) -> Application {
    Application::start(move |_, output| {
        output.answer(&format!("Content-Type: text/plain\n\n{text}"));
        true
    })
}

#[test]
fn an_overloaded_application_sends_its_visitors_to_another() {
    let overloaded = Application::start(|_, output| {
        output.end(2);
        true
    });
    let other = answering("other");
    let urls = [overloaded.url(), format!("{} backup", other.url())];
    let larder = before(&urls, "failure_pause = \"1h\"");
    for number in 0..5 {
        assert_eq!(get(larder.addr(), &format!("/{number}")).text(), "other");
    }
    assert_eq!(overloaded.calls().len(), 3, "then it is left alone");
    let failed = format!(
        "larder_origin_failures_total{{origin=\"{}\",reason=\"overloaded\"}}",
        overloaded.url()
    );
    assert_eq!(Admin::of(&larder).metric(&failed), 3);
}

#[test]
fn where_all_are_overloaded_visitors_are_told_when_to_come_again() {
    let overloaded = || {
        Application::start(|_, output| {
            output.end(2);
            true
        })
    };
    let (one, other) = (overloaded(), overloaded());
    let larder = before(&[one.url(), other.url()], "");
    let refused = get(larder.addr(), "/");
    assert_eq!((refused.status, refused.get("retry-after")), (503, Some("1")));
    assert_eq!((one.calls().len(), other.calls().len()), (1, 1));
}

#[test]
fn an_order_that_was_executed_and_led_on_is_not_sent_to_another() {
    let gate = Gate::closed();
    let open = gate.clone();
    let first = Application::start(move |_, output| {
        // The next request finds no connection: this one has not ended.
        output.record(STDOUT, b"Location: /thanks\n\n");
        open.wait();
        false
    });
    let other = answering("other");
    let urls = [first.url(), format!("{} backup", other.url())];
    let larder = before(&urls, "max_connections = 1\nmax_waiting = 0");
    let mut wire = larder.connect();
    wire.send("POST /order HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\norder");
    assert_eq!(wire.read_for("POST").status, 503);
    assert_eq!((first.calls().len(), other.calls().len()), (1, 0));
    gate.open();
}

#[test]
fn a_directory_below_a_prefix_is_named_as_the_visitor_does() {
    let scratch = Scratch::new("prefix");
    std::fs::create_dir(scratch.file("sub")).unwrap();
    let application = answering("page");
    let larder = Larder::with_config(&format!(
        "[[site]]\nstrip_prefix = \"/app\"\n[site.origin]\nurl = \"{}\"\nroot = \"{}\"\n",
        application.url(),
        scratch.path().display()
    ));
    let moved = get(larder.addr(), "/app/sub?x=1");
    assert_eq!((moved.status, moved.get("location")), (301, Some("/app/sub/?x=1")));
    assert_eq!(application.calls().len(), 0);
}

/// One process of PHP that serves many requests.
fn php() -> Started {
    Started::start(|_, port| {
        let mut command = Command::new("php-cgi");
        command.args(["-b", &format!("127.0.0.1:{port}")]).env("PHP_FCGI_MAX_REQUESTS", "100000");
        (command, None)
    })
}

#[test]
fn a_php_that_is_killed_fails_no_visitor() {
    let servers = [php(), php(), php()];
    let scripts = Scratch::new("scripts");
    scripts.write("page.php", "<?php echo 'page ', $_GET['n'];");
    let root = scripts.path().display().to_string();
    let urls = servers.each_ref().map(|server| format!("fcgi://{}", server.addr()));
    let larder = Larder::with_config(&format!(
        "threads = 2\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n[site.origin]\nurl = \
         {urls:?}\nroot = \"{root}\"\nidle_connections = 0\n"
    ));
    let (addr, done) = (larder.addr(), Arc::new(AtomicUsize::new(0)));
    let visitors = (0..4).map(|visitor| {
        let done = done.clone();
        thread::spawn(move || {
            for number in 0..60 {
                let name = visitor * 1000 + number;
                let page = get(addr, &format!("/page.php?n={name}"));
                assert_eq!((page.status, page.text()), (200, &*format!("page {name}")));
                done.fetch_add(1, SeqCst);
            }
        })
    });
    let visitors: Vec<_> = visitors.collect();
    wait_until("some pages", || done.load(SeqCst) > 40);
    let [killed, _one, _other] = servers;
    drop(killed);
    visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
    let healthy = format!("larder_origin_healthy{{origin=\"{}\"}}", urls[0]);
    assert_eq!(Admin::of(&larder).metric(&healthy), 0);
}
