//! Commands on keys of any type, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "copy" Copy -3 [WRITE DENYOOM] [KEYSPACE WRITE SLOW] [1 2 1]
        ["" [RO ACCESS] 1 0 1, "" [OW UPDATE] 2 0 1] [];
    "del" Del -2 [WRITE] [KEYSPACE WRITE SLOW] [1 -1 1] ["" [RM DELETE] 1 -1 1]
        ["request_policy:multi_shard" "response_policy:agg_sum"];
    "dump" Dump 2 [READONLY] [KEYSPACE READ SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "exists" Exists -2 [READONLY FAST] [KEYSPACE READ FAST] [1 -1 1] ["" [RO] 1 -1 1]
        ["request_policy:multi_shard" "response_policy:agg_sum"];
    "expire" Expire -3 [WRITE FAST] [KEYSPACE WRITE FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "expireat" Expireat -3 [WRITE FAST] [KEYSPACE WRITE FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "expiretime" Expiretime 2 [READONLY FAST] [KEYSPACE READ FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "keys" Keys 2 [READONLY] [KEYSPACE READ SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_shards" "nondeterministic_output_order"];
    "move" Move 3 [WRITE FAST] [KEYSPACE WRITE FAST] [1 1 1] ["" [RW ACCESS UPDATE] 1 0 1] [];
    "object" Object -2 [] [SLOW] [0 0 0] [] [] => OBJECT;
    "persist" Persist 2 [WRITE FAST] [KEYSPACE WRITE FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "pexpire" Pexpire -3 [WRITE FAST] [KEYSPACE WRITE FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "pexpireat" Pexpireat -3 [WRITE FAST] [KEYSPACE WRITE FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "pexpiretime" Pexpiretime 2 [READONLY FAST] [KEYSPACE READ FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "pttl" Pttl 2 [READONLY FAST] [KEYSPACE READ FAST] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output"];
    "randomkey" Randomkey 1 [READONLY] [KEYSPACE READ SLOW] [0 0 0] []
        ["request_policy:all_shards" "nondeterministic_output"];
    "rename" Rename 3 [WRITE] [KEYSPACE WRITE SLOW] [1 2 1]
        ["" [RW ACCESS DELETE] 1 0 1, "" [OW UPDATE] 2 0 1] [];
    "renamenx" Renamenx 3 [WRITE FAST] [KEYSPACE WRITE FAST] [1 2 1]
        ["" [RW ACCESS DELETE] 1 0 1, "" [OW INSERT] 2 0 1] [];
    "restore" Restore -4 [WRITE DENYOOM] [KEYSPACE WRITE SLOW DANGEROUS] [1 1 1] ["" [OW UPDATE] 1 0 1] [];
    "scan" Scan -2 [READONLY] [KEYSPACE READ SLOW] [0 0 0] []
        ["nondeterministic_output" "request_policy:special"];
    "touch" Touch -2 [READONLY FAST] [KEYSPACE READ FAST] [1 -1 1] ["" [RO] 1 -1 1]
        ["request_policy:multi_shard" "response_policy:agg_sum"];
    "ttl" Ttl 2 [READONLY FAST] [KEYSPACE READ FAST] [1 1 1] ["" [RO ACCESS] 1 0 1]
        ["nondeterministic_output"];
    "type" Type 2 [READONLY FAST] [KEYSPACE READ FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "unlink" Unlink -2 [WRITE FAST] [KEYSPACE WRITE FAST] [1 -1 1] ["" [RM DELETE] 1 -1 1]
        ["request_policy:multi_shard" "response_policy:agg_sum"];
    "wait" Wait 3 [NOSCRIPT] [SLOW CONNECTION] [0 0 0] []
        ["request_policy:all_shards" "response_policy:agg_min"];
}

commands! { OBJECT
    "object|encoding" ObjectEncoding 3 [READONLY] [KEYSPACE READ SLOW] [2 2 1] ["" [RO] 2 0 1]
        ["nondeterministic_output"];
    "object|freq" ObjectFreq 3 [READONLY] [KEYSPACE READ SLOW] [2 2 1] ["" [RO] 2 0 1]
        ["nondeterministic_output"];
    "object|help" ObjectHelp 2 [LOADING STALE] [KEYSPACE SLOW] [0 0 0] [] [];
    "object|idletime" ObjectIdletime 3 [READONLY] [KEYSPACE READ SLOW] [2 2 1] ["" [RO] 2 0 1]
        ["nondeterministic_output"];
    "object|refcount" ObjectRefcount 3 [READONLY] [KEYSPACE READ SLOW] [2 2 1] ["" [RO] 2 0 1]
        ["nondeterministic_output"];
}
