//! One Larder renders, the others wait.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{Fleet, counted, wait_counted};
use larder_tests::{Larder, Origin, get, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// An origin that answers when the door is open.
fn held_up(field: &'static str) -> (Origin, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(false));
    let door = open.clone();
    let origin = Origin::start(move |seen, reply| {
        wait_until("the door to be opened", || door.load(Ordering::SeqCst));
        reply.ok(&[field], format!("page {}", seen.number));
    });
    (origin, open)
}

fn herd(larder: &Larder, count: usize) -> Vec<JoinHandle<String>> {
    let addr = larder.addr();
    (0..count)
        .map(|_| thread::spawn(move || get(addr, "/page").assert_status(200).text().to_owned()))
        .collect()
}

fn ended(herd: Vec<JoinHandle<String>>) -> Vec<String> {
    herd.into_iter().map(|client| client.join().unwrap()).collect()
}

fn a_herd_on_both_renders_once(fleet: Fleet) {
    let (origin, open) = held_up("Cache-Control: max-age=600");
    let (one, two) =
        (fleet.larder(&origin, "lease = \"30s\""), fleet.larder(&origin, "lease = \"30s\""));
    let mut clients = herd(&one, 20);
    origin.wait_for(1);
    clients.extend(herd(&two, 20));
    wait_counted(&two, "waits", 1);
    open.store(true, Ordering::SeqCst);
    assert!(ended(clients).iter().all(|text| text == "page 0"));
    assert_eq!(origin.count(), 1);
    wait_counted(&one, "leases", 1);
}

fn a_holder_that_dies_holds_up_nobody_for_longer_than_the_lease(fleet: Fleet) {
    let (origin, open) = held_up("Cache-Control: max-age=600");
    let (one, two) =
        (fleet.larder(&origin, "lease = \"2s\""), fleet.larder(&origin, "lease = \"2s\""));
    let addr = one.addr();
    let lost = thread::spawn(move || {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).ok()
    });
    origin.wait_for(1);
    let clients = herd(&two, 3);
    wait_counted(&two, "waits", 1);
    drop(one);
    lost.join().unwrap();
    origin.wait_for(2);
    open.store(true, Ordering::SeqCst);
    assert!(ended(clients).iter().all(|text| text == "page 1"));
}

fn a_page_that_is_not_for_others_holds_up_nobody(fleet: Fleet) {
    let (origin, open) = held_up("Cache-Control: private");
    let (one, two) =
        (fleet.larder(&origin, "lease = \"1h\""), fleet.larder(&origin, "lease = \"1h\""));
    let mut clients = herd(&one, 1);
    origin.wait_for(1);
    clients.extend(herd(&two, 1));
    wait_counted(&two, "waits", 1);
    open.store(true, Ordering::SeqCst);
    assert_eq!(ended(clients).len(), 2);
    assert_eq!(origin.count(), 2);
}

fn an_origin_that_fails_holds_up_nobody(fleet: Fleet) {
    let door = Arc::new(AtomicBool::new(false));
    let open = door.clone();
    let origin = Origin::start(move |_, reply| {
        wait_until("the door to be opened", || door.load(Ordering::SeqCst));
        reply.close();
    });
    let (one, two) =
        (fleet.larder(&origin, "lease = \"1h\""), fleet.larder(&origin, "lease = \"1h\""));
    let ask = |larder: &Larder| {
        let addr = larder.addr();
        thread::spawn(move || get(addr, "/page").status)
    };
    let first = ask(&one);
    origin.wait_for(1);
    let second = ask(&two);
    wait_counted(&two, "waits", 1);
    open.store(true, Ordering::SeqCst);
    assert_eq!((first.join().unwrap(), second.join().unwrap()), (502, 502));
}

fn stale_is_served_while_another_renders(fleet: Fleet) {
    let (origin, open) = held_up("Cache-Control: max-age=1, stale-while-revalidate=600");
    let remote = "lease = \"1h\"\nlocal_copy = \"1h\"";
    let (one, two) = (fleet.larder(&origin, remote), fleet.larder(&origin, remote));
    open.store(true, Ordering::SeqCst);
    assert_eq!(ended(herd(&one, 1)), ["page 0"]);
    wait_counted(&one, "stores", 1);
    assert_eq!(ended(herd(&two, 1)), ["page 0"]);
    open.store(false, Ordering::SeqCst);
    wait_until("it to be stale", || {
        get(one.addr(), "/page").assert_status(200);
        origin.count() == 2
    });
    wait_until("the other to wait for it", || {
        assert_eq!(
            get(two.addr(), "/page").text(),
            "page 0",
            "in the meantime it serves what it has"
        );
        counted(&two, "waits") >= 1
    });
    open.store(true, Ordering::SeqCst);
    wait_until("both to have the new one", || {
        get(one.addr(), "/page").text() != "page 0" && get(two.addr(), "/page").text() != "page 0"
    });
}

fn without_leases_nobody_waits(fleet: Fleet) {
    let (origin, open) = held_up("Cache-Control: max-age=600");
    let (one, two) =
        (fleet.larder(&origin, "lease = \"0s\""), fleet.larder(&origin, "lease = \"0s\""));
    let mut clients = herd(&one, 2);
    origin.wait_for(1);
    clients.extend(herd(&two, 2));
    origin.wait_for(2);
    open.store(true, Ordering::SeqCst);
    ended(clients);
    assert_eq!((counted(&one, "leases"), counted(&two, "waits")), (0, 0));
}

/// A client waits for another Larder's page, and leaves: nobody looks for the page any more.
fn who_leaves_waits_for_no_lease(fleet: Fleet) {
    let (origin, open) = held_up("Cache-Control: max-age=600");
    let (one, two) =
        (fleet.larder(&origin, "lease = \"1h\""), fleet.larder(&origin, "lease = \"1h\""));
    let clients = herd(&one, 1);
    origin.wait_for(1);
    let mut gone = two.connect();
    gone.send_get("/page", &["Host: site.test"]);
    wait_counted(&two, "waits", 1);
    drop(gone);
    wait_counted(&two, "waits_left", 1);
    open.store(true, Ordering::SeqCst);
    assert_eq!(ended(clients), ["page 0"]);
    assert_eq!(origin.count(), 1);
}

larder_tests::on_every_fleet! {
    who_leaves_waits_for_no_lease,
    a_herd_on_both_renders_once,
    a_holder_that_dies_holds_up_nobody_for_longer_than_the_lease,
    a_page_that_is_not_for_others_holds_up_nobody,
    an_origin_that_fails_holds_up_nobody,
    stale_is_served_while_another_renders,
    without_leases_nobody_waits,
}
