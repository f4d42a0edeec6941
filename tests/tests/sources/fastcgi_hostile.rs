//! A scripted application of FastCGI that breaks the protocol in every place.

#![allow(clippy::unwrap_used)]

use larder_tests::fastcgi::{Application, END, STDERR, STDOUT, record};
use larder_tests::{Answer, Larder, get};
use std::sync::{Arc, Mutex};

const PAGE: &str = "Content-Type: text/html\nCache-Control: max-age=600\n\na page";

/// An application whose answers are set, one after the other, by the test.
struct Script {
    application: Application,
    next: Arc<Mutex<Vec<u8>>>,
    larder: Larder,
    asked: usize,
}

impl Script {
    fn start() -> Script {
        let next: Arc<Mutex<Vec<u8>>> = Arc::default();
        let said = next.clone();
        // Every connection carries one request, whose number is 1.
        let application = Application::start(move |_, output| {
            output.raw(&said.lock().unwrap());
            false
        });
        let larder = Larder::with_config(&format!(
            "threads = 1\n[[site]]\norigin = \"{}\"\n",
            application.url()
        ));
        Script { application, next, larder, asked: 0 }
    }

    /// Asks for a page of its own; None: it broke off.
    fn ask(&mut self, answer: &[u8]) -> (String, Option<Answer>) {
        *self.next.lock().unwrap() = answer.to_vec();
        self.asked += 1;
        let target = format!("/{}", self.asked);
        let mut wire = self.larder.connect();
        wire.send_get(&target, &["Host: site.test"]);
        (target, wire.try_read_for("GET").ok())
    }

    /// The answer is no page, and it leaves nothing behind: the next client gets a page.
    #[track_caller]
    fn is_no_page(&mut self, what: &str, answer: &[u8]) {
        let (target, got) = self.ask(answer);
        let status = got.map(|got| got.status);
        assert!(matches!(status, None | Some(502 | 503)), "{what}: {status:?}");
        *self.next.lock().unwrap() = whole();
        let next = get(self.larder.addr(), &target);
        assert_eq!(next.text(), "a page", "{what}");
        next.assert_forwarded();
    }

    #[track_caller]
    fn is_a_page(&mut self, what: &str, answer: &[u8]) {
        let (target, got) = self.ask(answer);
        let got = got.unwrap_or_else(|| panic!("{what}: it broke off"));
        assert_eq!((got.status, got.text()), (200, "a page"), "{what}");
        get(self.larder.addr(), &target).assert_hit();
    }
}

fn end(status: u8) -> Vec<u8> {
    record(END, 1, &[0, 0, 0, 0, status, 0, 0, 0], 0)
}

fn out(text: &str, padding: u8) -> Vec<u8> {
    record(STDOUT, 1, text.as_bytes(), padding)
}

fn whole() -> Vec<u8> {
    [out(PAGE, 5), record(STDOUT, 1, b"", 0), end(0)].concat()
}

#[test]
fn an_answer_cut_in_any_place_is_no_page() {
    let mut script = Script::start();
    let (head, body) = PAGE.split_at(20);
    let records = [
        out(head, 3),
        record(STDERR, 1, b"a notice\n", 1),
        out(body, 7),
        record(STDOUT, 1, b"", 4),
        record(END, 1, &[0; 8], 2),
    ];
    let answer = records.concat();
    script.is_a_page("whole", &answer);
    for cut in 0..answer.len() {
        script.is_no_page(&format!("cut at {cut}"), &answer[..cut]);
    }
    assert!(script.application.calls().len() > answer.len());
}

#[test]
fn records_in_any_order_that_says_one_thing_are_a_page() {
    let mut script = Script::start();
    let notice = record(STDERR, 1, &[b'x'; 65_535], 255);
    let single: Vec<u8> = PAGE.bytes().flat_map(|byte| record(STDOUT, 1, &[byte], 255)).collect();
    for (what, records) in [
        ("an end without the end of the output", vec![out(PAGE, 0), end(0)]),
        ("a byte in each record", vec![single, end(0)]),
        (
            "lines between",
            vec![
                notice.clone(),
                out(&PAGE[..9], 255),
                notice.clone(),
                out(&PAGE[9..], 0),
                record(STDOUT, 1, b"", 255),
                notice.clone(),
                record(STDERR, 1, b"", 255),
                end(0),
            ],
        ),
        (
            "an end of lines, and lines behind it",
            vec![record(STDERR, 1, b"", 0), notice, out(PAGE, 0), end(0)],
        ),
        ("bytes behind the end", vec![whole(), b"HTTP/1.1 200 OK\r\n\r\npoison".to_vec()]),
        ("another answer behind the end", vec![whole(), out("poison", 0), end(0)]),
    ] {
        script.is_a_page(what, &records.concat());
    }
    // The largest record, and a body of several.
    let long = "y".repeat(65_535);
    let mut answer = out("Content-Type: text/html\n\n", 0);
    for _ in 0..3 {
        answer.extend(out(&long, 255));
    }
    answer.extend(end(0));
    let (_, got) = script.ask(&answer);
    assert_eq!(got.unwrap().body.len(), 3 * 65_535);
}

#[test]
fn records_that_contradict_each_other_are_no_page() {
    let mut script = Script::start();
    let page = || out(PAGE, 0);
    for (what, records) in [
        ("an end before the output", vec![end(0), page()]),
        ("output behind its end", vec![page(), record(STDOUT, 1, b"", 0), out("more", 0), end(0)]),
        ("output of another request", vec![record(STDOUT, 2, PAGE.as_bytes(), 0), end(0)]),
        (
            "output of another request between",
            vec![out(&PAGE[..30], 0), record(STDOUT, 2, b"poison", 0), out(&PAGE[30..], 0), end(0)],
        ),
        ("output of no request", vec![record(STDOUT, 0, PAGE.as_bytes(), 0), end(0)]),
        ("an end of another request", vec![page(), record(END, 2, &[0; 8], 0), end(0)]),
        ("a long end", vec![page(), record(END, 1, &[0; 16], 0)]),
        ("a short end", vec![page(), record(END, 1, &[0; 4], 0)]),
        ("an end that says no", vec![page(), end(1)]),
        ("an end of an unknown kind", vec![page(), end(77)]),
        ("a request", vec![record(1, 1, &[0, 1, 0, 0, 0, 0, 0, 0], 0)]),
        ("parameters", vec![record(4, 1, b"", 0), page(), end(0)]),
        ("a type that is unknown", vec![record(11, 0, &[0; 8], 0), page(), end(0)]),
        ("values that nobody asked for", vec![record(10, 0, b"", 0), page(), end(0)]),
        (
            "another version",
            vec![{
                let mut other = page();
                other[0] = 2;
                other
            }],
        ),
    ] {
        script.is_no_page(what, &records.concat());
    }
}

/// One that takes no more requests: another one of the origin is asked.
#[test]
fn an_overloaded_application_is_passed_over() {
    let busy = Application::start(|_, output| {
        output.end(2);
        true
    });
    let idle = Application::start(|_, output| {
        output.answer("Content-Type: text/plain\nCache-Control: no-store\n\nidle");
        true
    });
    let larder = Larder::with_config(&format!(
        "threads = 1\n[[site]]\n[site.origin]\nurl = [\"{}\", \"{} backup\"]\n",
        busy.url(),
        idle.url()
    ));
    for _ in 0..3 {
        assert_eq!(get(larder.addr(), "/").text(), "idle");
    }
    assert!(!busy.calls().is_empty());
    assert_eq!(idle.calls().len(), 3);
    // A form was not taken either, but nobody can be sure of that.
    let posted = larder.connect().ask("POST", "/", &["Host: a.test", "Content-Length: 0"]);
    assert!(matches!(posted.status, 200 | 503), "{posted:?}");
}
