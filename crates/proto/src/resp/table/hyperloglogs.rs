//! Commands on HyperLogLogs, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "pfadd" Pfadd -2 [WRITE DENYOOM FAST] [WRITE HYPERLOGLOG FAST] [1 1 1]
        ["" [RW INSERT] 1 0 1] [];
    "pfcount" Pfcount -2 [READONLY] [READ HYPERLOGLOG SLOW] [1 -1 1]
        ["RW because it may change the internal representation of the key, and propagate to replicas"
            [RW ACCESS] 1 -1 1] [];
    "pfdebug" Pfdebug 3 [WRITE DENYOOM ADMIN] [WRITE HYPERLOGLOG ADMIN SLOW DANGEROUS] [2 2 1]
        ["" [RW ACCESS] 2 0 1] [];
    "pfmerge" Pfmerge -2 [WRITE DENYOOM] [WRITE HYPERLOGLOG SLOW] [1 -1 1]
        ["" [RW ACCESS INSERT] 1 0 1, "" [RO ACCESS] 2 -1 1] [];
    "pfselftest" Pfselftest 1 [ADMIN] [HYPERLOGLOG ADMIN SLOW DANGEROUS] [0 0 0] [] [];
}
