//! The documents of `docs/`, which the admin interface serves.

use larder_server::Documents;

/// Each document by its name.
macro_rules! documents {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../docs/", $name)))),+]
    };
}

/// All of them.
pub(crate) const ALL: Documents = documents![
    "admin.md",
    "bench.md",
    "client.md",
    "compare.md",
    "configuration.md",
    "conformance.md",
    "dashboard.md",
    "family.md",
    "lab.md",
    "memcached.md",
    "metrics.md",
    "mount.md",
    "operations.md",
    "page-format.md",
    "performance.md",
    "publish.md",
    "queues.md",
    "redis.md",
    "remote.md",
    "slow.md",
    "top.md",
];

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_document_is_here() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for entry in fs::read_dir(docs).expect("docs") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            let is_document = Path::new(&name).extension().is_some_and(|end| end == "md");
            assert_eq!(ALL.iter().any(|(held, _)| *held == name), is_document, "{name}");
        }
    }
}
