//! States of the whole process that an operator has to know of: each is told once on the terminal
//! when it begins, and once when it is over.
//!
//! The server looks once a second, and a state has to last for some looks: these tests take some
//! seconds.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Larder, Origin, get, wait_until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::net::TcpStream;

const CONFIG: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \
                      \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:1\"\n";

fn figure(admin: &Admin, name: &str) -> u64 {
    admin.json("/api/v1/stats")["conditions"][name].as_u64().unwrap()
}

fn lines(larder: &Larder, part: &str) -> usize {
    larder.stderr().lines().filter(|line| line.contains(part)).count()
}

#[test]
fn a_reload_that_fails_and_one_that_does_not() {
    let larder = Larder::with_config(CONFIG);
    let admin = Admin::of(&larder);
    assert_eq!(figure(&admin, "reload_failed"), 0);
    larder.rewrite_config(&CONFIG.replace("origin", "orgin"));
    let (status, _, wrong) = larder.command(&["reload"]);
    assert_eq!(status.code(), Some(1), "{wrong}");
    assert_eq!((figure(&admin, "reload_failed"), figure(&admin, "reloads_failed")), (1, 1));
    assert_eq!(admin.metric("larder_reload_failed"), 1);
    assert_eq!(lines(&larder, "the configuration in use stays as it was"), 1);
    larder.rewrite_config(CONFIG);
    let (status, ..) = larder.command(&["reload"]);
    assert_eq!(status.code(), Some(0));
    assert_eq!((figure(&admin, "reload_failed"), figure(&admin, "reloads")), (0, 2));
    assert_eq!(lines(&larder, "configuration reloaded"), 1);
}

#[test]
fn descriptors_that_run_out_and_come_back() {
    let larder = Larder::with_config(CONFIG);
    let admin = Admin::of(&larder);
    let pid = Pid::from_raw(larder.pid().try_into().unwrap());
    let open = std::fs::read_dir(format!("/proc/{}/fd", larder.pid())).unwrap().count() as u64;
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = |current| prlimit(pid, Resource::Nofile, Rlimit { current, maximum });
    let before = limit(Some(open)).unwrap();
    let clients: Vec<_> = (0..8).map(|_| TcpStream::connect(larder.addr()).unwrap()).collect();
    wait_until("the line", || lines(&larder, "no descriptor is left") == 1);
    let line = format!("no descriptor is left (limit {open})");
    assert_eq!(lines(&larder, &line), 1, "{}", larder.stderr());
    limit(before.current).unwrap();
    wait_until("the figure", || figure(&admin, "descriptor_failures") > 0);
    assert_eq!(figure(&admin, "descriptors_short"), 1);
    drop(clients);
    wait_until("the end", || lines(&larder, "there are descriptors again") == 1);
    assert_eq!(figure(&admin, "descriptors_short"), 0);
    assert_eq!(lines(&larder, "no descriptor is left"), 1, "said once");
    get(larder.addr(), "/").assert_status(502);
}

#[test]
fn memory_that_is_too_small_for_what_is_read() {
    let page = "x".repeat(200_000);
    let origin = Origin::start(move |_, reply| {
        reply.ok(&["Cache-Control: max-age=1000"], &page);
    });
    let config = CONFIG.replace("http://127.0.0.1:1", &origin.url());
    let larder = Larder::with_config(&format!("memory = \"16MiB\"\n{config}"));
    let admin = Admin::of(&larder);
    let mut page = 0;
    wait_until("the line", || {
        for _ in 0..20 {
            page = (page + 1) % 400;
            for _ in 0..3 {
                get(larder.addr(), &format!("/{page}"));
            }
        }
        lines(&larder, "memory is full") == 1
    });
    assert_eq!(lines(&larder, "`memory = \"16MiB\"`"), 1, "{}", larder.stderr());
    assert_eq!(figure(&admin, "memory_short"), 1);
    let metrics = admin.get("/metrics").text().to_owned();
    let of = "larder_store_evictions_recent_total{namespace=\"pages\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(of)).expect(&metrics);
    assert!(line.parse::<u64>().unwrap() > 0);
    wait_until("the end", || lines(&larder, "memory is enough again") == 1);
    assert_eq!((figure(&admin, "memory_short"), lines(&larder, "memory is full")), (0, 1));
}
