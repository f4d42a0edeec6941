//! The KetamaNodeLocator of spymemcached, as `Spymemcached.java` says it places keys.

use std::{path::Path, process::Command};

use larder_client::{
    Server,
    hash::Hash,
    placement::{Distribution, Placement},
};

use crate::peer::{Random, agree, input, run};

fn ask(format: &str, servers: &[Server], keys: &[Vec<u8>]) -> Vec<u32> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/placement/Spymemcached.java");
    let mut java = Command::new("java");
    java.args(["-cp", "/usr/share/java/spymemcached.jar"]).arg(source).arg(format);
    run(&mut java, input(servers, keys))
}

#[test]
fn keys_are_placed_as_spymemcached_places_them() {
    let mut random = Random(1);
    let keys: Vec<Vec<u8>> =
        (0..10_000).map(|n| format!("page:{n}:{:x}", random.next()).into_bytes()).collect();
    for (count, weight) in [(1, 1), (3, 1), (20, 1), (5, 4), (50, 9)] {
        let mut server = |at: usize| Server {
            weight: 1 + random.below(weight) as u32,
            ..Server::tcp(
                format!("192.0.2.{at}"),
                if at.is_multiple_of(3) { 11211 } else { 11211 + at as u16 },
            )
        };
        let servers: Vec<Server> = (0..count).map(&mut server).collect();
        let theirs = ask("SPYMEMCACHED", &servers, &keys);
        agree(&Placement::new(Distribution::KetamaSpy, Hash::Md5), &servers, &keys, &theirs);
    }
}

/// `host/ip:port`, as Java writes an address that was looked up.
#[test]
fn servers_given_to_spymemcached_by_name_have_its_names() {
    let keys: Vec<Vec<u8>> = (0..10_000).map(|n| format!("page:{n}").into_bytes()).collect();
    // The only name that is the same on every machine.
    let ports = [11211, 11212, 11213];
    let theirs = ask("SPYMEMCACHED", &ports.map(|port| Server::tcp("localhost", port)), &keys);
    let named = ports.map(|port| Server {
        name: Some(format!("localhost/127.0.0.1:{port}")),
        ..Server::tcp("localhost", port)
    });
    agree(&Placement::new(Distribution::KetamaSpy, Hash::Md5), &named, &keys, &theirs);
}
