//! `larder redis` and `larder serve --redis`: options, messages, exit codes.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

fn larder(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    command
}

/// A program that serves; ended when dropped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The addresses of the first `count` lines that name one.
fn serve(arguments: &[&str], count: usize) -> (Serving, Vec<String>) {
    let mut child = larder(arguments).stderr(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let serving = Serving(child);
    let named = lines
        .map_while(Result::ok)
        .filter_map(|line| line.split_once("listening on ").map(|(_, address)| address.to_owned()));
    let addresses: Vec<String> = named.take(count).collect();
    assert_eq!(addresses.len(), count, "it ended: {addresses:?}");
    (serving, addresses)
}

fn ping(address: &str) -> String {
    let mut stream =
        TcpStream::connect(address.strip_prefix("redis://").expect("Redis")).expect("it listens");
    stream.write_all(b"*1\r\n$4\r\nPING\r\n").expect("it takes");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("it answers");
    answer
}

#[test]
fn it_serves_with_redis_servers_names_of_options() {
    let arguments = ["redis", "--port", "0", "--memory", "8MiB"];
    let output = larder(&arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "port 0 is no port, as with Redis");
    let flags = ["serve", "--redis", "127.0.0.1:0", "--memory", "16MiB", "--threads", "1"];
    let (_serving, addresses) = serve(&flags, 1);
    assert_eq!(ping(&addresses[0]), "+PONG\r\n");
}

#[test]
fn one_process_serves_both() {
    let flags = [
        "serve",
        "--redis",
        "127.0.0.1:0",
        "--memcached",
        "127.0.0.1:0",
        "--memory",
        "16MiB",
        "--threads",
        "2",
    ];
    let (_serving, addresses) = serve(&flags, 2);
    assert!(
        addresses.iter().any(|address| address.starts_with("memcached://127.0.0.1:")),
        "{addresses:?}"
    );
    let redis = addresses.iter().find(|address| address.starts_with("redis://")).expect("Redis");
    assert_eq!(ping(redis), "+PONG\r\n");
}

#[test]
fn wrong_options_start_nothing() {
    for (arguments, message) in [
        (&["redis", "--prot", "1"][..], "there is no option \"--prot\""),
        (&["redis", "--appendonly", "yes"], "--appendonly: expected \"no\""),
        (&["serve", "--redis", "6379"], "--redis: error: expected an address and port"),
    ] {
        let output = larder(arguments).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message), "{said}");
    }
    let help = larder(&["redis", "--help"]).output().expect("it runs");
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).contains("--requirepass"));
}
