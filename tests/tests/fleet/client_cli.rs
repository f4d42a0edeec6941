//! `larder get`, `set`, ... against memcached servers, beside libmemcached's tools: what one has
//! stored, the other finds.

#![allow(clippy::unwrap_used)]

use larder_tests::{Memcached, Scratch, helper::free_port, larder::binary, memcache};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs the binary; gives exit code and standard output.
fn larder(servers: &str, args: &[&str]) -> (i32, String) {
    let output = output(servers, args, b"");
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn output(servers: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(binary())
        .args(args)
        .env("MEMCACHED_SERVERS", servers)
        .env("LARDER_PASSWORD", "secret")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Two servers in the form of a list.
fn fleet(servers: &[&Memcached]) -> String {
    servers.iter().map(|server| server.server()).collect::<Vec<_>>().join(",")
}

#[test]
fn libmemcacheds_tools_find_what_larder_stores_and_the_other_way_round() {
    let servers = [Memcached::debian(&[]), Memcached::debian(&[]), Memcached::debian(&[])];
    let list = fleet(&servers.each_ref());
    let keys: Vec<String> = (0..20).map(|n| format!("key-{n}")).collect();
    for hash in ["default", "md5", "crc", "fnv1a_64", "murmur"] {
        for key in &keys {
            assert_eq!(
                larder(&list, &["set", "--hash", hash, key, &format!("{key} by {hash}")]).0,
                0
            );
        }
        let mut memccat = Command::new("memccat");
        let memccat =
            memccat.args([&format!("--servers={list}"), &format!("--hash={hash}")]).args(&keys);
        let found = String::from_utf8(memcache::client(memccat).stdout).unwrap();
        let expected: String = keys.iter().map(|key| format!("{key} by {hash}\n")).collect();
        assert_eq!(found, expected);
        assert_eq!(larder(&list, &["flush"]).0, 0);
    }
    let scratch = Scratch::new("memccp");
    let file = scratch.write("page.html", "<p>a page</p>");
    memcache::client(Command::new("memccp").arg(format!("--servers={list}")).arg(&file));
    assert_eq!(larder(&list, &["get", "--raw", "page.html"]), (0, "<p>a page</p>".to_owned()));
}

#[test]
fn every_command_does_its_work_and_says_so_by_its_exit_code() {
    let server = Memcached::debian(&[]);
    let list = server.server();
    let is = |args: &[&str], code: i32, printed: &str| {
        assert_eq!(larder(&list, args), (code, printed.to_owned()), "{args:?}");
    };
    is(&["set", "-F", "9", "k", "v"], 0, "");
    is(&["add", "k", "w"], 1, "");
    is(&["replace", "none", "w"], 1, "");
    is(&["replace", "k", "w"], 0, "");
    is(&["append", "k", "x"], 0, "");
    is(&["prepend", "k", "v"], 0, "");
    is(&["get", "k", "none"], 1, "vwx\n");
    is(&["exist", "k"], 0, "");
    is(&["exist", "k", "none"], 1, "");
    is(&["set", "--expire", "60s", "n", "5"], 0, "");
    is(&["incr", "n", "10"], 0, "15\n");
    is(&["decr", "n"], 0, "14\n");
    is(&["incr", "none"], 1, "");
    is(&["incr", "k"], 3, "");
    is(&["touch", "--expire", "1h", "n"], 0, "");
    is(&["touch", "--expire", "1h", "none"], 1, "");
    is(&["delete", "n", "none"], 1, "");
    is(&["get", "a blank"], 2, "");
    is(&["set", "only-a-key"], 2, "");
    is(&["--no-such-flag"], 2, "");
    is(&["get", "--binary", "k"], 0, "vwx\n");
    is(&["get", "--text", "-F", "k"], 0, "0:vwx\n");
    is(&["ping"], 0, &format!("{list} 1.6.18\n"));
    let (code, stats) = larder(&list, &["stats"]);
    assert!(
        code == 0
            && stats.starts_with(&format!("Server: {list}\n"))
            && stats.contains("\t curr_items: 1\n")
    );
    is(&["flush"], 0, "");
    is(&["get", "k"], 1, "");
    is(&["set", "--max-item", "100", "k", &"x".repeat(101)], 2, "");
}

#[test]
fn values_come_from_files_and_standard_input_and_go_to_files() {
    let server = Memcached::debian(&[]);
    let list = server.server();
    let scratch = Scratch::new("files");
    let (one, two) = (scratch.write("one", "1\n"), scratch.write("two", "2"));
    let names = [one.to_str().unwrap(), two.to_str().unwrap()];
    assert_eq!(larder(&list, &["set", "--file", names[0], "--file", names[1]]).0, 0);
    assert_eq!(larder(&list, &["get", "--raw", "one", "two"]), (0, "1\n2".to_owned()));
    let bytes: Vec<u8> = (0..=255).collect();
    assert!(output(&list, &["set", "all", "-"], &bytes).status.success());
    assert_eq!(output(&list, &["get", "--raw", "all"], b"").stdout, bytes);
    let to = scratch.file("to");
    assert_eq!(larder(&list, &["get", "--file", to.to_str().unwrap(), "all"]).0, 0);
    assert_eq!(std::fs::read(to).unwrap(), bytes);
    assert_eq!(larder(&list, &["set", "--file", scratch.file("none").to_str().unwrap()]).0, 2);
}

#[test]
fn passwords_stay_off_the_command_line_and_dead_servers_are_named() {
    let scratch = Scratch::new("users");
    let users = scratch.write("users", "larder:secret\n");
    let server = Memcached::debian(&["-Y", &users.to_string_lossy()]);
    let list = server.server();
    assert_eq!(larder(&list, &["set", "--user", "larder", "k", "v"]).0, 0);
    let wrong = scratch.write("wrong", "terces\n");
    let wrong = ["get", "--user", "larder", "--password-file", wrong.to_str().unwrap(), "k"];
    assert_eq!(larder(&list, &wrong).0, 3);
    assert_eq!(larder(&list, &["get", "k"]).0, 3);
    let dead = format!("127.0.0.1:{}", free_port());
    let ping = output(&format!("{list},{dead}"), &["ping", "--user", "larder"], b"");
    assert_eq!(ping.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&ping.stdout).starts_with(&list));
    assert!(String::from_utf8_lossy(&ping.stderr).contains(&dead));
    assert_eq!(larder("", &["get", "k"]).0, 2);
}

#[test]
fn wrong_usage_is_told_before_anything_is_asked() {
    let server = Memcached::debian(&[]);
    let list = server.server();
    for args in [
        &["get"][..],
        &["get", "--timeout", "0s", "k"],
        &["get", "--timeout", "soon", "k"],
        &["get", "--distribution", "nearest", "k"],
        &["get", "--hash", "sha1", "k"],
        &["get", "--ketama", "--hash", "md5", "k"],
        &["get", "--binary", "--text", "k"],
        &["get", "--servers", "127.0.0.1:99999", "k"],
        &["get", "--servers", "127.0.0.1:1 weight=0", "k"],
        &["get", "--servers", "127.0.0.1:1,127.0.0.1:1", "k"],
        &["get", "--password-file", "/etc/hostname", "k"],
        &["get", "--password", "secret", "k"],
        &["get", "--user", "a b", "k"],
        &["get", "--prefix", "a b", "k"],
        &["get", "--file", "one-for-two", "k", "l"],
        &["set", "k", "v", "--file", "/etc/hostname"],
        &["set", "--expire", "soon", "k", "v"],
        &["set", "--flags", "-1", "k", "v"],
        &["set", &"k".repeat(251), "v"],
        &["touch", "k"],
        &["incr", "k", "-1"],
    ] {
        let (code, printed) = larder(&list, args);
        assert_eq!((code, printed.as_str()), (2, ""), "{args:?}");
    }
    assert_eq!(server.connect().stat("cmd_get"), "0");
    assert_eq!(server.connect().stat("cmd_set"), "0");
}

#[test]
fn output_nobody_takes_is_not_success() {
    let server = Memcached::debian(&[]);
    let list = server.server();
    assert_eq!(larder(&list, &["set", "k", "v"]).0, 0);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(binary());
    let output = command
        .args(["get", "k", "-s", &list])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("larder: standard output: "), "{said}");
}

#[test]
fn servers_come_from_the_first_variable_that_names_any() {
    let server = Memcached::debian(&[]);
    let ping = |first: &str, second: &str| {
        let mut command = Command::new(binary());
        let command =
            command.arg("ping").env("LIBMEMCACHED_SERVERS", first).env("MEMCACHED_SERVERS", second);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let up = (0, format!("{} 1.6.18\n", server.server()));
    let dead = format!("127.0.0.1:{}", free_port());
    assert_eq!(ping(&server.server(), &dead), up);
    assert_eq!(ping("", &server.server()), up);
    assert_eq!(ping(" ", ""), (2, String::new()));
    assert_eq!(ping("no-such-host.invalid:1", &server.server()).0, 4);
}
