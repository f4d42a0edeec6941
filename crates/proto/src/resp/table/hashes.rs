//! Commands on hashes, as Redis 7.0 describes them, and those of 7.4 and 8.0 for
//! the expiry of fields.

use super::commands;

commands! { COMMANDS
    "hdel" Hdel -3 [WRITE FAST] [WRITE HASH FAST] [1 1 1] ["" [RW DELETE] 1 0 1] [];
    "hexists" Hexists 3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "hexpire" Hexpire -6 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hexpireat" Hexpireat -6 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hexpiretime" Hexpiretime -5 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "hget" Hget 3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "hgetall" Hgetall 2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output_order"];
    "hgetdel" Hgetdel -5 [WRITE FAST] [WRITE HASH FAST] [1 1 1] ["" [RW ACCESS DELETE] 1 0 1] [];
    "hgetex" Hgetex -5 [WRITE FAST] [WRITE HASH FAST] [1 1 1]
        ["RW and UPDATE because it changes the TTL" [RW ACCESS UPDATE] 1 0 1] [];
    "hincrby" Hincrby 4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "hincrbyfloat" Hincrbyfloat 4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1]
        ["" [RW ACCESS UPDATE] 1 0 1] [];
    "hkeys" Hkeys 2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output_order"];
    "hlen" Hlen 2 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "hmget" Hmget -3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "hmset" Hmset -4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hpersist" Hpersist -5 [WRITE FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hpexpire" Hpexpire -6 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hpexpireat" Hpexpireat -6 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hpexpiretime" Hpexpiretime -5 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "hpttl" Hpttl -5 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output"];
    "hrandfield" Hrandfield -2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output"];
    "hscan" Hscan -3 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "hset" Hset -4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hsetex" Hsetex -6 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hsetnx" Hsetnx 4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "hstrlen" Hstrlen 3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "httl" Httl -5 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output"];
    "hvals" Hvals 2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output_order"];
}
