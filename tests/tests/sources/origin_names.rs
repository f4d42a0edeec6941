//! Names of origins that have several addresses.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, get, wait_until};
use std::net::{SocketAddr, ToSocketAddrs};

const FRESH: &[&str] = &["Cache-Control: max-age=1000"];

/// A server at each address of `localhost`, on the same port. They answer with their address.
fn servers() -> Vec<Origin> {
    loop {
        let first = Origin::start(|seen, reply| {
            reply.ok(FRESH, seen.get("host").unwrap_or_default());
        });
        let port = first.addr().port();
        drop(first);
        let mut addresses: Vec<SocketAddr> =
            ("localhost", port).to_socket_addrs().unwrap().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let at = |address: &SocketAddr| {
            let body = address.ip().to_string();
            Origin::at(*address, move |_, reply| {
                reply.ok(FRESH, &body);
            })
        };
        // Another program may have taken the port of one of them.
        if let Ok(servers) = addresses.iter().map(at).collect() {
            return servers;
        }
    }
}

#[test]
fn every_address_of_a_name_is_a_server() {
    let servers = servers();
    let port = servers[0].addr().port();
    let larder = Larder::with_config(&format!(
        "[[site]]\n[site.origin]\nurl = \"http://localhost:{port}\"\nresolve = \"50ms\"\n"
    ));
    let number = std::cell::Cell::new(0);
    let page = || {
        number.set(number.get() + 1);
        get(larder.addr(), &format!("/{}", number.get()))
    };
    wait_until("every address to be asked", || {
        assert_eq!(page().status, 200);
        servers.iter().all(|server| server.count() > 0)
    });
    // One of them dies: the others answer, and no visitor sees it.
    if let [dying, _, ..] = &*servers {
        dying.stop();
        (0..20).for_each(|_| assert_eq!(page().status, 200));
    }
}

#[test]
fn without_resolve_a_name_is_one_server() {
    let servers = servers();
    let port = servers[0].addr().port();
    let larder = Larder::before(&format!("http://localhost:{port}"));
    for number in 0..20 {
        assert_eq!(get(larder.addr(), &format!("/{number}")).status, 200);
    }
    let asked = servers.iter().filter(|server| server.count() > 0).count();
    assert_eq!(asked, 1, "the first that accepts");
}

#[test]
fn a_name_that_cannot_be_found_fails_alone() {
    let good = Origin::serving(FRESH, "good");
    let larder = Larder::with_config(&format!(
        "[[site]]\n[site.origin]\nurl = [\"http://no-such-host.invalid\", \"{}\"]\nresolve = \
         \"50ms\"\n",
        good.url()
    ));
    for number in 0..20 {
        assert_eq!(get(larder.addr(), &format!("/{number}")).text(), "good");
    }
}
