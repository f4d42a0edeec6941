//! Clients that send or read slowly, many of them: what they hold must not be what others need.

use larder_tests::{Larder, Origin, Wire, get, wait_until};

const FRESH: &[&str] = &["Cache-Control: max-age=1000"];

#[test]
fn unread_pipelines_do_not_pile_up_in_memory() {
    let body = "v".repeat(3500);
    let origin = Origin::start(move |_, reply| {
        reply.ok(FRESH, &body);
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    let before = larder.usage().rss;
    let many = "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(600);
    // 200 * 600 * 3.5 kB are 420 MB; next to nothing of it is read.
    let mut stalled = Vec::new();
    for _ in 0..200 {
        let mut wire = Wire::connect_narrow(larder.addr());
        // The head of the first answer tells that Larder is at work on them.
        wire.send(&many).read_head();
        stalled.push(wire);
    }
    // Both workers have come round to others since.
    for _ in 0..50 {
        get(larder.addr(), "/").assert_hit();
    }
    let grown = larder.usage().peak_rss.saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB more for 200 connections", grown >> 20);
}

#[test]
fn slow_uploads_leave_the_origin_to_others() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(FRESH, &seen.target);
    });
    let text = format!("[[site]]\norigin = {{ url = \"{}\", max_connections = 8 }}", origin.url());
    let larder = Larder::with_config(&text);
    get(larder.addr(), "/warm");
    // The hit before each tells that Larder has read the upload too.
    let both = "GET /warm HTTP/1.1\r\nHost: site.test\r\n\r\nPOST /slow HTTP/1.1\r\nHost: \
                site.test\r\nContent-Length: 10\r\n\r\nx";
    let mut slow: Vec<Wire> = (0..200).map(|_| larder.connect()).collect();
    for wire in &mut slow {
        wire.send(both);
    }
    for wire in &mut slow {
        wire.read().assert_hit();
    }
    for n in 0..20 {
        let target = format!("/page/{n}");
        assert_eq!(get(larder.addr(), &target).assert_status(200).text(), target);
    }
    // One that goes on is served like any other.
    slow[0].send("123456789");
    slow[0].read().assert_status(200);
}

#[test]
fn stalled_readers_of_large_pages_leave_the_store_to_others() {
    let large = "q".repeat(3_500_000);
    let origin = Origin::start(move |seen, reply| {
        let body: &str = if seen.target.starts_with("/large") { &large } else { &seen.target };
        reply.ok(FRESH, body);
    });
    let text = format!("memory = \"16MiB\"\n[[site]]\norigin = \"{}\"", origin.url());
    let larder = Larder::with_config(&text);
    // 14 * 3.5 MB are three times the memory there is.
    let mut stalled = Vec::new();
    for n in 0..14 {
        let target = format!("/large/{n}");
        get(larder.addr(), &target);
        let mut wire = Wire::connect_narrow(larder.addr());
        wire.send_get(&target, &["Host: site.test"]).read_head();
        stalled.push(wire);
    }
    // Whoever does not read for two seconds counts as stalled; together they may hold half of the
    // memory.
    wait_until("room in the store", || {
        get(larder.addr(), "/small");
        get(larder.addr(), "/small").is_hit()
    });
    for n in 0..20 {
        let target = format!("/small/{n}");
        get(larder.addr(), &target);
        assert_eq!(get(larder.addr(), &target).assert_hit().text(), target);
    }
}
