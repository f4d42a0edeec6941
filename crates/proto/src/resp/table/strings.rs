//! Commands on strings and bits, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "append" Append 3 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "decr" Decr 2 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "decrby" Decrby 3 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "get" Get 2 [READONLY FAST] [READ STRING FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "getdel" Getdel 2 [WRITE FAST] [WRITE STRING FAST] [1 1 1] ["" [RW ACCESS DELETE] 1 0 1] [];
    "getex" Getex -2 [WRITE FAST] [WRITE STRING FAST] [1 1 1]
        ["RW and UPDATE because it changes the TTL" [RW ACCESS UPDATE] 1 0 1] [];
    "getrange" Getrange 4 [READONLY] [READ STRING SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "getset" Getset 3 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "incr" Incr 2 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "incrby" Incrby 3 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "incrbyfloat" Incrbyfloat 3 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1]
        ["" [RW ACCESS UPDATE] 1 0 1] [];
    "lcs" Lcs -3 [READONLY] [READ STRING SLOW] [1 2 1] ["" [RO ACCESS] 1 1 1] [];
    "mget" Mget -2 [READONLY FAST] [READ STRING FAST] [1 -1 1] ["" [RO ACCESS] 1 -1 1]
        ["request_policy:multi_shard"];
    "mset" Mset -3 [WRITE DENYOOM] [WRITE STRING SLOW] [1 -1 2] ["" [OW UPDATE] 1 -1 2]
        ["request_policy:multi_shard" "response_policy:all_succeeded"];
    "msetnx" Msetnx -3 [WRITE DENYOOM] [WRITE STRING SLOW] [1 -1 2] ["" [OW INSERT] 1 -1 2]
        ["request_policy:multi_shard" "response_policy:agg_min"];
    "psetex" Psetex 4 [WRITE DENYOOM] [WRITE STRING SLOW] [1 1 1] ["" [OW UPDATE] 1 0 1] [];
    "set" Set -3 [WRITE DENYOOM] [WRITE STRING SLOW] [1 1 1]
        ["RW and ACCESS due to the optional `GET` argument" [RW ACCESS UPDATE VARIABLE_FLAGS] 1 0 1] [];
    "setex" Setex 4 [WRITE DENYOOM] [WRITE STRING SLOW] [1 1 1] ["" [OW UPDATE] 1 0 1] [];
    "setnx" Setnx 3 [WRITE DENYOOM FAST] [WRITE STRING FAST] [1 1 1] ["" [OW INSERT] 1 0 1] [];
    "setrange" Setrange 4 [WRITE DENYOOM] [WRITE STRING SLOW] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "strlen" Strlen 2 [READONLY FAST] [READ STRING FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "substr" Substr 4 [READONLY] [READ STRING SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "bitcount" Bitcount -2 [READONLY] [READ BITMAP SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "bitfield" Bitfield -2 [WRITE DENYOOM] [WRITE BITMAP SLOW] [1 1 1]
        ["This command allows both access and modification of the key" [RW ACCESS UPDATE VARIABLE_FLAGS] 1 0 1]
        [];
    "bitfield_ro" BitfieldRo -2 [READONLY FAST] [READ BITMAP FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "bitop" Bitop -4 [WRITE DENYOOM] [WRITE BITMAP SLOW] [2 -1 1]
        ["" [OW UPDATE] 2 0 1, "" [RO ACCESS] 3 -1 1] [];
    "bitpos" Bitpos -3 [READONLY] [READ BITMAP SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "getbit" Getbit 3 [READONLY FAST] [READ BITMAP FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "setbit" Setbit 4 [WRITE DENYOOM] [WRITE BITMAP SLOW] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
}
