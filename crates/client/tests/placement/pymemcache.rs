//! pymemcache's HashClient, as `where_pymemcache.py` says it places keys.

use std::{path::Path, process::Command};

use larder_client::{
    hash::Hash,
    placement::{Distribution, Placement},
};

use crate::peer::{agree, input, keys, mixed_fleet, run};

#[test]
fn keys_are_placed_as_pymemcache_places_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/placement/where_pymemcache.py");
    // Text, as pymemcache's hash takes it.
    let mut keys = keys(12_000, 1);
    keys.retain(|key| key.is_ascii());
    assert!(keys.len() > 9_000);
    for count in [1, 2, 5, 12] {
        let servers = mixed_fleet(count, 3, count as u64);
        let theirs = run(Command::new("/usr/bin/python3").arg(&source), input(&servers, &keys));
        let placement = Placement::new(Distribution::RendezvousPymemcache, Hash::default());
        agree(&placement, &servers, &keys, &theirs);
    }
}
