//! Fleets and keys, and how they are told to another program.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use larder_client::{
    Address, Server,
    placement::{Placement, Ring},
};

/// Numbers that are the same in every run (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Keys of 1 to 120 bytes, some beyond ASCII, none with a blank or a control character.
pub(crate) fn keys(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let mut key = |at: usize| {
        let len = 1 + random.below(if at.is_multiple_of(10) { 120 } else { 30 });
        let high = at.is_multiple_of(5);
        let mut byte = || match random.below(if high { 222 } else { 94 }) {
            low @ 0..94 => b'!' + low as u8,
            high => 0x80 + (high - 94) as u8,
        };
        (0..len).map(|_| byte()).collect()
    };
    (0..count).map(&mut key).collect()
}

/// `count` servers on TCP, every third on the default port, some by name, some by IPv6, with
/// weights up to `weight`.
pub(crate) fn fleet(count: usize, weight: u64, seed: u64) -> Vec<Server> {
    let mut random = Random(seed);
    let mut server = |at: usize| {
        let host = match random.below(5) {
            0 => format!("cache{at}.example.org"),
            1 => format!("2001:db8::{at:x}"),
            _ => format!("10.{}.{}.{at}", random.below(256), random.below(256)),
        };
        let port = if random.below(3) == 0 { 11211 } else { 1 + random.below(65_000) as u16 };
        Server { weight: 1 + random.below(weight) as u32, ..Server::tcp(host, port) }
    };
    (0..count).map(&mut server).collect()
}

/// As [`fleet`], with some unix sockets.
pub(crate) fn mixed_fleet(count: usize, weight: u64, seed: u64) -> Vec<Server> {
    let mut servers = fleet(count, weight, seed);
    for (at, server) in servers.iter_mut().enumerate().filter(|(at, _)| at % 4 == 3) {
        server.address = Address::Unix(format!("/run/memcached/{at}.sock").into());
    }
    servers
}

/// Host and port as other programs want them; a unix socket's path and 0.
pub(crate) fn host_and_port(server: &Server) -> (String, u16) {
    match &server.address {
        Address::Tcp(host, port) => (host.clone(), *port),
        Address::Unix(path) => (path.display().to_string(), 0),
    }
}

/// The servers and the keys as the programs here read them.
pub(crate) fn input(servers: &[Server], keys: &[Vec<u8>]) -> Vec<u8> {
    let mut input = Vec::new();
    for server in servers {
        let (host, port) = host_and_port(server);
        input.extend_from_slice(format!("{host} {port} {}\n", server.weight).as_bytes());
    }
    input.push(b'\n');
    for key in keys {
        input.extend_from_slice(key);
        input.push(b'\n');
    }
    input
}

/// Runs `command` with `input` and returns its lines, each a number.
pub(crate) fn run(command: &mut Command, input: Vec<u8>) -> Vec<u32> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(|e| {
            panic!("{command:?}: {e}; scripts/test-deps.sh installs what tests need")
        });
    let mut stdin = child.stdin.take().expect("it was piped");
    // It answers while it reads: both at once, or both wait.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    writer.join().expect("no panic").expect("it read everything");
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// A directory for what one test makes.
pub(crate) fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
}

/// Every key is where `theirs` says.
#[track_caller]
pub(crate) fn agree(placement: &Placement, servers: &[Server], keys: &[Vec<u8>], theirs: &[u32]) {
    let ring = Ring::new(placement, servers).expect("a ring");
    same(&ring, placement, servers, keys, theirs);
}

/// As [`agree`], of a ring made before.
#[track_caller]
pub(crate) fn same(
    ring: &Ring,
    placement: &Placement,
    servers: &[Server],
    keys: &[Vec<u8>],
    theirs: &[u32],
) {
    assert_eq!(theirs.len(), keys.len());
    let wrong = keys.iter().zip(theirs).filter(|(key, index)| ring.locate(key) != **index as usize);
    let wrong: Vec<_> =
        wrong.map(|(key, index)| (key.escape_ascii().to_string(), *index)).collect();
    let some = &wrong[..wrong.len().min(3)];
    assert!(
        wrong.is_empty(),
        "{placement:?}, {} servers: {} keys, such as {some:?}",
        servers.len(),
        wrong.len()
    );
}
