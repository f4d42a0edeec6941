//! The process: configuration that is wrong, reload on SIGHUP, drain on SIGTERM, the demo.

#![allow(clippy::unwrap_used)]

use larder_tests::larder::run;
use larder_tests::{Gate, Larder, Origin, Scratch, get, wait_until};
use rustix::process::Signal;

/// Runs `serve` with a configuration that must not start anything; gives what it says.
#[track_caller]
fn refused(text: &str) -> String {
    let scratch = Scratch::new("bad");
    let path = scratch.write("larder.toml", text);
    let (status, _, stderr) = run(&["serve", "--config", &path.to_string_lossy()]);
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(!stderr.contains("listening"), "{stderr}");
    let (checked, _, said) = run(&["check", "--config", &path.to_string_lossy()]);
    assert_eq!(checked.code(), Some(2), "{said}");
    stderr
}

#[test]
fn a_name_that_does_not_exist_is_named_with_the_nearest_one() {
    let said = refused(
        "memory = \"64MiB\"\n[http]\nlisten = [\"127.0.0.1:0\"]\nacess_log = \"x.log\"\n[[site]]\norigin = \"http://127.0.0.1:1\"\n",
    );
    assert!(
        said.contains("larder.toml") && said.contains('4') && said.contains("access_log"),
        "{said}"
    );
}

#[test]
fn a_value_of_the_wrong_kind_says_what_was_expected() {
    let said = refused("memory = \"much\"\n[[site]]\norigin = \"http://127.0.0.1:1\"\n");
    assert!(said.contains("larder.toml") && said.contains("MiB"), "{said}");
    let said = refused("threads = \"two\"\n[[site]]\norigin = \"http://127.0.0.1:1\"\n");
    assert!(said.contains("threads"), "{said}");
    let said = refused("[[site]]\norigin = \"127.0.0.1:1\"\n");
    assert!(said.contains("http://"), "{said}");
}

#[test]
fn every_mistake_is_named_at_once() {
    let said = refused("memory = \"much\"\nthraeds = 2\n[[site]]\nprest = \"mediawiki\"\n");
    assert!(
        said.contains("memory")
            && said.contains("threads")
            && said.contains("preset")
            && said.contains("origin"),
        "{said}"
    );
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let said = refused("memory = \"64MiB\"\n[http\n");
    assert!(said.contains("larder.toml") && said.contains('2'), "{said}");
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let (status, _, stderr) = run(&["serve", "--config", "no-such-file.toml"]);
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no-such-file.toml"), "{stderr}");
}

#[test]
fn flags_that_are_wrong_are_refused() {
    for args in [
        &["serve", "--memory", "much"][..],
        &["serve", "--http", "nowhere"],
        &["serve", "--nonsense"],
        &["nonsense"],
    ] {
        let (status, _, stderr) = run(args);
        assert_eq!(status.code(), Some(2), "{args:?}: {stderr}");
    }
}

#[test]
fn an_address_in_use_is_said_and_nothing_runs() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (status, _, stderr) = run(&["serve", "--http", &addr, "--origin", "http://127.0.0.1:1"]);
    assert!(!status.success() && stderr.contains(&addr), "{stderr}");
}

#[test]
fn a_good_configuration_is_said_to_be_good() {
    let scratch = Scratch::new("good");
    let path = scratch.write("larder.toml", "[[site]]\norigin = \"http://127.0.0.1:1\"\n");
    let (status, stdout, stderr) = run(&["check", "--config", &path.to_string_lossy()]);
    assert!(status.success(), "{stdout}{stderr}");
}

#[test]
fn a_directory_that_cannot_be_used_is_said_when_the_configuration_is_checked() {
    let scratch = Scratch::new("unusable");
    let file = scratch.write("file", "");
    for (table, more) in [("disk", "size = \"1GiB\""), ("queue", "listen = \"127.0.0.1:0\"")] {
        for (path, good) in [
            (file.clone(), false),
            (file.join("deep/below"), false),
            (scratch.path().join("new/directory"), true),
            (scratch.path().to_owned(), true),
        ] {
            let text = format!(
                "[[site]]\norigin = \"http://127.0.0.1:1\"\n[{table}]\npath = \"{}\"\n{more}\n",
                path.display()
            );
            let config = scratch.write("larder.toml", &text);
            let (status, _, stderr) = run(&["check", "--config", &config.to_string_lossy()]);
            // Without its disk it starts, without its queues it does not.
            assert_eq!(status.success(), good || table == "disk", "{stderr}");
            let told = stderr.contains("is not a directory") && stderr.contains("larder.toml:4");
            assert_eq!(told, !good, "{stderr}");
        }
    }
}

#[test]
fn the_version_is_printed() {
    let (status, stdout, _) = run(&["--version"]);
    assert!(status.success() && stdout.contains(env!("CARGO_PKG_VERSION")), "{stdout}");
}

fn reloaded(larder: &Larder) {
    larder.hup();
    wait_until("the reload", || larder.stderr().contains("configuration reloaded"));
}

#[test]
fn sighup_takes_the_configuration_anew_and_drops_no_connection() {
    let old = Origin::serving(&["Cache-Control: no-store"], "old");
    let new = Origin::serving(&["Cache-Control: no-store"], "new");
    let larder = Larder::site(&old.url(), "");
    let mut wire = larder.connect();
    assert_eq!(wire.get("/", &[]).text(), "old");
    larder.rewrite_config(&format!("[[site]]\norigin = \"{}\"\n", new.url()));
    reloaded(&larder);
    wait_until("the new origin", || wire.get("/", &[]).text() == "new");
}

#[test]
fn a_request_under_way_survives_a_reload() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |_, reply| {
        reply.chunked(200, &["Cache-Control: max-age=60"]).chunk("first ");
        door.wait();
        reply.chunk("second").end();
    });
    let larder = Larder::site(&origin.url(), "");
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    wire.read_head();
    assert_eq!(wire.read_chunked_bytes(6), b"first ");
    larder.rewrite_config(&format!(
        "[[site]]\norigin = \"{}\"\nstrip_s_maxage = true\n",
        origin.url()
    ));
    reloaded(&larder);
    gate.open();
    assert_eq!(wire.read_chunked_bytes(6), b"second");
}

#[test]
fn pages_survive_a_reload() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let larder = Larder::site(&origin.url(), "");
    get(larder.addr(), "/");
    reloaded(&larder);
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn a_configuration_that_is_wrong_leaves_the_old_one_in_use() {
    let origin = Origin::serving(&["Cache-Control: no-store"], "page");
    let larder = Larder::site(&origin.url(), "");
    larder.rewrite_config("[[site]]\norigin = 5\n");
    larder.hup();
    wait_until("the refusal", || larder.stderr().contains("stays as it was"));
    assert_eq!(get(larder.addr(), "/").text(), "page");
}

#[test]
fn sigterm_lets_requests_under_way_finish() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |_, reply| {
        door.wait();
        reply.ok(&["Cache-Control: max-age=60"], "page");
    });
    let mut larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    let mut idle = larder.connect();
    larder.term();
    // The idle one is let go, and nobody new comes in.
    idle.expect_closed();
    let addr = larder.addr();
    wait_until("the listener to be closed", || std::net::TcpStream::connect(addr).is_err());
    assert!(larder.is_running());
    gate.open();
    let answer = wire.read();
    assert_eq!((answer.status, answer.text()), (200, "page"));
    wire.expect_closed();
    assert!(larder.wait_exit().success());
}

#[test]
fn sigterm_ends_an_idle_server() {
    let origin = Origin::serving(&[], "");
    let mut larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    larder.term();
    assert!(larder.wait_exit().success());
}

#[test]
fn the_drain_has_an_end() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |_, _| door.wait());
    let text = format!(
        "[http]\nlimits = {{ drain = \"200ms\" }}\n[[site]]\norigin = \"{}\"",
        origin.url()
    );
    let mut larder = Larder::with_config(&text);
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    larder.term();
    larder.wait_exit();
    gate.open();
}

/// Requests that arrive at idle connections while the server is told to stop.
#[test]
fn a_request_that_meets_the_drain_is_answered() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let mut larder = Larder::site(&origin.url(), "");
    assert_eq!(get(larder.addr(), "/").text(), "page");
    let mut wires: Vec<_> = (0..200).map(|_| larder.connect()).collect();
    for wire in &mut wires {
        wire.get("/", &[]).assert_hit();
    }
    larder_tests::client::signal(larder.pid(), Signal::STOP);
    for wire in &mut wires {
        wire.send_get("/", &["Host: site.test"]);
    }
    larder.term();
    larder_tests::client::signal(larder.pid(), Signal::CONT);
    for wire in &mut wires {
        assert_eq!(wire.read().text(), "page");
        wire.expect_closed();
    }
    assert!(larder.wait_exit().success());
}
