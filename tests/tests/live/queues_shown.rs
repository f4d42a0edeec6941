//! Queues in `larder top` and on the dashboard.

#![allow(clippy::unwrap_used)]

use super::dashboard::{dashboard, node, succeeds};
use super::top::{admin, pty::Pty};
use larder_tests::Larder;
use larder_tests::memcache::Talk;
use larder_tests::queues::{set, value};

/// Queues with items in several states. The name of one is markup.
fn start() -> Larder {
    let larder = Larder::with_config(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = [\"127.0.0.1:0\"]\n\
         [[site]]\norigin = \"http://127.0.0.1:1\"\n\
         [queue]\nlisten = [\"127.0.0.1:0\"]\npath = \"@DIR@/queues\"\nmax_aborts = 1\n\
         [[queue.named]]\nname = \"full\"\nmax_items = 1\n",
    );
    let mut talk = Talk::tcp(larder.face("queue"));
    for item in 0..7 {
        talk.expect(set("mails", &item.to_string()), "STORED\r\n");
    }
    talk.expect("get mails/open\r\n", &value("mails", "0"));
    talk.expect("get mails/abort\r\n", "END\r\n");
    talk.expect("get mails\r\n", &value("mails", "1"));
    talk.expect(set("full", "x"), "STORED\r\n").expect(set("full", "x"), "NOT_STORED\r\n");
    talk.expect(set("<b>bold", "x"), "STORED\r\n");
    larder
}

#[test]
fn top_shows_the_queues_of_a_server() {
    let larder = start();
    let address = admin(&larder).to_string();
    let mut pty = Pty::larder(&["top", "-i", "200ms", &address], 100, 70);
    pty.wait_line(&["larder top  1 up"]);
    pty.wait_line(&["QUEUE (since its start)", "ITEMS", "FAILED"]);
    // Items, bytes, open, age, added, taken, refused, failed.
    pty.wait_line(&["mails ", " 5 ", " 7 ", " 2 ", " 1"]);
    pty.wait_line(&["full ", " 1 ", " 1 ", " 0 ", " 1 ", " 0"]);
    pty.wait_line(&["<b>bold "]);
    pty.wait_line(&["3 queues, 7 items of 7", "0 readers wait"]);
    pty.keys("q");
    assert_eq!(pty.ended(), 0);
}

#[test]
fn the_dashboard_shows_the_queues() {
    let larder = start();
    succeeds(node(&["queues.mjs", &dashboard(&larder)]));
}
