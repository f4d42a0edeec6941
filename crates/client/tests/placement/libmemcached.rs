//! Every hash with every distribution of libmemcached, as `libmemcached.c` says it places keys.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use larder_client::{
    Server,
    hash::Hash,
    placement::{Distribution, Placement, Ring},
};

use crate::peer::{Random, agree, directory, fleet, input, keys, mixed_fleet, run, same};

/// Its hashes by number (`memcached_hash_t`). Hsieh's is 7, which Debian leaves out of the library.
const HASHES: [(Hash, u8); 10] = [
    (Hash::OneAtATime, 0),
    (Hash::Md5, 1),
    (Hash::Crc, 2),
    (Hash::Fnv1_64, 3),
    (Hash::Fnv1a_64, 4),
    (Hash::Fnv1_32, 5),
    (Hash::Fnv1a_32, 6),
    (Hash::Murmur, 8),
    (Hash::Jenkins, 9),
    (Hash::Murmur3, 10),
];

/// Its distributions. `consistent` is another name for ketama.
const DISTRIBUTIONS: [(Distribution, &str); 5] = [
    (Distribution::Modula, "modula"),
    (Distribution::Ketama, "consistent"),
    (Distribution::Ketama, "ketama"),
    (Distribution::KetamaWeighted, "weighted"),
    (Distribution::KetamaSpyLibmemcached, "spy"),
];

/// `libmemcached.c`, compiled.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/placement/libmemcached.c");
        let program = directory("libmemcached").join("libmemcached");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-o"])
            .arg(&program)
            .arg(source)
            .args(["-lmemcached", "-lhashkit"]);
        let status = cc.status().expect("cc; scripts/test-deps.sh installs what tests need");
        assert!(
            status.success(),
            "{cc:?}: libmemcached-dev is needed; scripts/test-deps.sh installs it"
        );
        program
    })
}

fn ask(distribution: &str, hash: u8, servers: &[Server], keys: &[Vec<u8>]) -> Vec<u32> {
    run(Command::new(program()).args([distribution, &hash.to_string()]), input(servers, keys))
}

#[test]
fn hashes_are_those_of_libmemcached() {
    let keys = keys(20_000, 1);
    for (hash, number) in HASHES {
        let theirs = ask("value", number, &[], &keys);
        assert_eq!(theirs.len(), keys.len());
        for (key, value) in keys.iter().zip(theirs) {
            assert_eq!(
                hash.of(key),
                value,
                "{} of {:?}",
                hash.name(),
                key.escape_ascii().to_string()
            );
        }
    }
}

#[test]
fn every_hash_and_distribution_places_keys_as_libmemcached_does() {
    let keys = keys(10_000, 2);
    for (distribution, name) in DISTRIBUTIONS {
        for (hash, number) in HASHES {
            for (count, weight) in [(1, 1), (2, 1), (3, 5), (8, 1), (17, 9)] {
                let servers = mixed_fleet(count, weight, count as u64 * 100 + u64::from(number));
                let theirs = ask(name, number, &servers, &keys);
                agree(&Placement::new(distribution, hash), &servers, &keys, &theirs);
            }
        }
    }
}

/// Behaviours set by themselves bring hashes of their own, which are not those their documents
/// name.
#[test]
fn behaviours_are_the_placements_they_are_said_to_be() {
    let keys = keys(10_000, 6);
    for (name, placement) in
        [("KETAMA", Placement::ketama()), ("KETAMA_WEIGHTED", Placement::ketama_weighted())]
    {
        for weight in [1, 5] {
            let servers = mixed_fleet(9, weight, weight);
            agree(&placement, &servers, &keys, &ask(name, 0, &servers, &keys));
        }
    }
}

/// Shares are computed in single precision, where some weights come out a point lower than they
/// would.
#[test]
fn weights_are_rounded_as_libmemcached_rounds_them() {
    let keys = keys(1_000, 3);
    let mut random = Random(4);
    for count in 2..=50 {
        for weight in [1, 3, 10, 100, 4_000_000] {
            let servers = fleet(count, weight, random.next());
            let theirs = ask("weighted", 1, &servers, &keys);
            agree(&Placement::ketama_weighted(), &servers, &keys, &theirs);
        }
    }
}

#[test]
fn an_ejected_server_leaves_the_ring_libmemcached_makes_then() {
    let keys = keys(10_000, 5);
    // Ports where nobody listens, held until all are known.
    let listeners: Vec<TcpListener> =
        (0..7).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let port = |listener: &TcpListener| listener.local_addr().expect("its address").port();
    let ports: Vec<u16> = listeners.iter().map(port).collect();
    drop(listeners);
    for (distribution, name) in DISTRIBUTIONS.into_iter().skip(1) {
        for weight in [1, 4] {
            let server = |(at, port): (usize, &u16)| Server {
                weight: 1 + (at as u32 % weight),
                ..Server::tcp("127.0.0.1", *port)
            };
            let servers: Vec<Server> = ports.iter().enumerate().map(server).collect();
            let mut command = Command::new(program());
            command.args([name, "1", "2", "5"]);
            let theirs = run(&mut command, input(&servers, &keys));
            assert!(theirs.iter().all(|index| ![2, 5].contains(index)), "they were ejected");
            let placement = Placement::new(distribution, Hash::Md5);
            let ring =
                Ring::living(&placement, &servers, |at| ![2, 5].contains(&at)).expect("a ring");
            same(&ring, &placement, &servers, &keys, &theirs);
        }
    }
}
