//! Commands of Redis that Larder does not have, so that a client that sends one gets the reason
//! instead of "unknown command", and so that rules of users may name them.

use super::category::{ADMIN, CONNECTION, DANGEROUS, FAST, KEYSPACE, SLOW, WRITE};

/// Subject of a command that Larder does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Copies of the data on other servers.
    Replication,
    /// Files of the data.
    Persistence,
    /// Loadable modules.
    Modules,
}

static ABSENT: &[(Absent, &str)] = &[
    (
        Absent::Replication,
        "asking failover migrate psync replconf replicaof restore-asking slaveof sync",
    ),
    (Absent::Persistence, "bgrewriteaof"),
    (Absent::Modules, "module"),
];

/// Categories of Redis's commands for operators.
const OPERATORS: u32 = ADMIN | SLOW | DANGEROUS;

/// The commands that Larder does not have, each followed by its subcommands, with their categories.
pub static COMMANDS: &[(&str, u32)] = &[
    ("asking", FAST | CONNECTION),
    ("bgrewriteaof", OPERATORS),
    ("failover", OPERATORS),
    ("migrate", KEYSPACE | WRITE | SLOW | DANGEROUS),
    ("module", SLOW),
    ("module|help", SLOW),
    ("module|list", OPERATORS),
    ("module|load", OPERATORS),
    ("module|loadex", OPERATORS),
    ("module|unload", OPERATORS),
    ("psync", OPERATORS),
    ("replconf", OPERATORS),
    ("replicaof", OPERATORS),
    ("restore-asking", KEYSPACE | WRITE | SLOW | DANGEROUS),
    ("slaveof", OPERATORS),
    ("sync", OPERATORS),
];

/// Is this a command of Redis that Larder does not have?
pub fn absent(name: &[u8]) -> Option<Absent> {
    let knows =
        |names: &str| names.split(' ').any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    ABSENT.iter().find(|(_, names)| knows(names)).map(|(about, _)| *about)
}

impl Absent {
    /// The error for a client, its code included.
    pub fn error(self) -> &'static str {
        match self {
            Absent::Replication => "ERR Larder is a cache: it does not replicate or move its data",
            Absent::Persistence => "ERR Larder is a cache: it keeps its data in memory only",
            Absent::Modules => "ERR Larder loads no modules",
        }
    }
}
