//! Commands on hashes, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "hdel" Hdel -3 [WRITE FAST] [WRITE HASH FAST] [1 1 1] ["" [RW DELETE] 1 0 1] [];
    "hexists" Hexists 3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "hget" Hget 3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "hgetall" Hgetall 2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output_order"];
    "hincrby" Hincrby 4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "hincrbyfloat" Hincrbyfloat 4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1]
        ["" [RW ACCESS UPDATE] 1 0 1] [];
    "hkeys" Hkeys 2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output_order"];
    "hlen" Hlen 2 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "hmget" Hmget -3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "hmset" Hmset -4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hrandfield" Hrandfield -2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output"];
    "hscan" Hscan -3 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "hset" Hset -4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "hsetnx" Hsetnx 4 [WRITE DENYOOM FAST] [WRITE HASH FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "hstrlen" Hstrlen 3 [READONLY FAST] [READ HASH FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "hvals" Hvals 2 [READONLY] [READ HASH SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output_order"];
}
