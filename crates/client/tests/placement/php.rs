//! PHP's memcached extension with the options sites set, as `where_php.php` says it places keys.

use std::{path::Path, process::Command};

use larder_client::{
    hash::Hash,
    placement::{Distribution, Placement},
};

use crate::peer::{agree, fleet, input, keys, run};

#[test]
fn options_of_php_are_the_placements_they_are_said_to_be() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/placement/where_php.php");
    let mut keys = keys(12_000, 1);
    keys.retain(|key| key.is_ascii());
    let consistent = r#"["OPT_DISTRIBUTION", "DISTRIBUTION_CONSISTENT"]"#;
    for (options, placement) in [
        ("[]".to_owned(), Placement::default()),
        (format!("[{consistent}]"), Placement::new(Distribution::Ketama, Hash::OneAtATime)),
        (
            format!(r#"[{consistent}, ["OPT_HASH", "HASH_FNV1A_64"]]"#),
            Placement::new(Distribution::Ketama, Hash::Fnv1a_64),
        ),
        (r#"[["OPT_LIBKETAMA_COMPATIBLE", true]]"#.to_owned(), Placement::ketama_weighted()),
    ] {
        for (count, weight) in [(4, 1), (9, 5)] {
            let servers = fleet(count, weight, 3);
            let mut php = Command::new("/usr/bin/php");
            let theirs = run(php.arg(&source).arg(&options), input(&servers, &keys));
            agree(&placement, &servers, &keys, &theirs);
        }
    }
}
