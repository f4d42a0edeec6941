//! Commands about the server, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "acl" Acl -2 [] [SLOW] [0 0 0] [] [] => ACL;
    "bgsave" Bgsave -1 [ADMIN NOSCRIPT NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "command" Command -1 [LOADING STALE] [SLOW CONNECTION] [0 0 0] [] ["nondeterministic_output_order"]
        => COMMAND;
    "config" Config -2 [] [SLOW] [0 0 0] [] [] => CONFIG;
    "dbsize" Dbsize 1 [READONLY FAST] [KEYSPACE READ FAST] [0 0 0] []
        ["request_policy:all_shards" "response_policy:agg_sum"];
    "debug" Debug -2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "flushall" Flushall -1 [WRITE] [KEYSPACE WRITE SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "flushdb" Flushdb -1 [WRITE] [KEYSPACE WRITE SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "info" Info -1 [LOADING STALE] [SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_shards" "response_policy:special"];
    "lastsave" Lastsave 1 [LOADING STALE FAST] [ADMIN FAST DANGEROUS] [0 0 0] [] ["nondeterministic_output"];
    "latency" Latency -2 [] [SLOW] [0 0 0] [] [] => LATENCY;
    "lolwut" Lolwut -1 [READONLY FAST] [READ FAST] [0 0 0] [] [];
    "memory" Memory -2 [] [SLOW] [0 0 0] [] [] => MEMORY;
    "monitor" Monitor 1 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "role" Role 1 [NOSCRIPT LOADING STALE FAST] [ADMIN FAST DANGEROUS] [0 0 0] [] [];
    "save" Save 1 [ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "shutdown" Shutdown -1 [ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY] [ADMIN SLOW DANGEROUS] [0 0 0]
        [] [];
    "slowlog" Slowlog -2 [] [SLOW] [0 0 0] [] [] => SLOWLOG;
    "swapdb" Swapdb 3 [WRITE FAST] [KEYSPACE WRITE FAST DANGEROUS] [0 0 0] [] [];
    "time" Time 1 [LOADING STALE FAST] [FAST] [0 0 0] [] ["nondeterministic_output"];
    "cluster" Cluster -2 [] [SLOW] [0 0 0] [] [] => CLUSTER;
    "readonly" Readonly 1 [LOADING STALE FAST] [FAST CONNECTION] [0 0 0] [] [];
    "readwrite" Readwrite 1 [LOADING STALE FAST] [FAST CONNECTION] [0 0 0] [] [];
}

commands! { ACL
    "acl|cat" AclCat -2 [NOSCRIPT LOADING STALE] [SLOW] [0 0 0] [] [];
    "acl|deluser" AclDeluser -3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|dryrun" AclDryrun -4 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|genpass" AclGenpass -2 [NOSCRIPT LOADING STALE] [SLOW] [0 0 0] [] [];
    "acl|getuser" AclGetuser 3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|help" AclHelp 2 [LOADING STALE] [SLOW] [0 0 0] [] [];
    "acl|list" AclList 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|load" AclLoad 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|log" AclLog -2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|save" AclSave 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|setuser" AclSetuser -3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|users" AclUsers 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "acl|whoami" AclWhoami 2 [NOSCRIPT LOADING STALE] [SLOW] [0 0 0] [] [];
}

commands! { COMMAND
    "command|count" CommandCount 2 [LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "command|docs" CommandDocs -2 [LOADING STALE] [SLOW CONNECTION] [0 0 0] []
        ["nondeterministic_output_order"];
    "command|getkeys" CommandGetkeys -4 [LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "command|getkeysandflags" CommandGetkeysandflags -4 [LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "command|help" CommandHelp 2 [LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "command|info" CommandInfo -2 [LOADING STALE] [SLOW CONNECTION] [0 0 0] []
        ["nondeterministic_output_order"];
    "command|list" CommandList -2 [LOADING STALE] [SLOW CONNECTION] [0 0 0] []
        ["nondeterministic_output_order"];
}

commands! { CONFIG
    "config|get" ConfigGet -3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "config|help" ConfigHelp 2 [LOADING STALE] [SLOW] [0 0 0] [] [];
    "config|resetstat" ConfigResetstat 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "config|rewrite" ConfigRewrite 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "config|set" ConfigSet -4 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_nodes" "response_policy:all_succeeded"];
}

commands! { LATENCY
    "latency|doctor" LatencyDoctor 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_nodes" "response_policy:special"];
    "latency|graph" LatencyGraph 3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_nodes" "response_policy:special"];
    "latency|help" LatencyHelp 2 [LOADING STALE] [SLOW] [0 0 0] [] [];
    "latency|histogram" LatencyHistogram -2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_nodes" "response_policy:special"];
    "latency|history" LatencyHistory 3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_nodes" "response_policy:special"];
    "latency|latest" LatencyLatest 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_nodes" "response_policy:special"];
    "latency|reset" LatencyReset -2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_nodes" "response_policy:all_succeeded"];
}

commands! { MEMORY
    "memory|doctor" MemoryDoctor 2 [] [SLOW] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_shards" "response_policy:special"];
    "memory|help" MemoryHelp 2 [LOADING STALE] [SLOW] [0 0 0] [] [];
    "memory|malloc-stats" MemoryMallocStats 2 [] [SLOW] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_shards" "response_policy:special"];
    "memory|purge" MemoryPurge 2 [] [SLOW] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "memory|stats" MemoryStats 2 [] [SLOW] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_shards" "response_policy:special"];
    "memory|usage" MemoryUsage -3 [READONLY] [READ SLOW] [2 2 1] ["" [RO] 2 0 1] [];
}

commands! { SLOWLOG
    "slowlog|get" SlowlogGet -2 [ADMIN LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_nodes" "nondeterministic_output"];
    "slowlog|help" SlowlogHelp 2 [LOADING STALE] [SLOW] [0 0 0] [] [];
    "slowlog|len" SlowlogLen 2 [ADMIN LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_nodes" "response_policy:agg_sum" "nondeterministic_output"];
    "slowlog|reset" SlowlogReset 2 [ADMIN LOADING STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["request_policy:all_nodes" "response_policy:all_succeeded"];
}

commands! { CLUSTER
    "cluster|addslots" ClusterAddslots -3 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] []
        [];
    "cluster|addslotsrange" ClusterAddslotsrange -4 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS]
        [0 0 0] [] [];
    "cluster|bumpepoch" ClusterBumpepoch 2 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output"];
    "cluster|count-failure-reports" ClusterCountFailureReports 3 [ADMIN STALE] [ADMIN SLOW DANGEROUS]
        [0 0 0] [] ["nondeterministic_output"];
    "cluster|countkeysinslot" ClusterCountkeysinslot 3 [STALE] [SLOW] [0 0 0] [] [];
    "cluster|delslots" ClusterDelslots -3 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] []
        [];
    "cluster|delslotsrange" ClusterDelslotsrange -4 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS]
        [0 0 0] [] [];
    "cluster|failover" ClusterFailover -2 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] []
        [];
    "cluster|flushslots" ClusterFlushslots 2 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0]
        [] [];
    "cluster|forget" ClusterForget 3 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "cluster|getkeysinslot" ClusterGetkeysinslot 4 [STALE] [SLOW] [0 0 0] [] ["nondeterministic_output"];
    "cluster|help" ClusterHelp 2 [LOADING STALE] [SLOW] [0 0 0] [] [];
    "cluster|info" ClusterInfo 2 [STALE] [SLOW] [0 0 0] [] ["nondeterministic_output"];
    "cluster|keyslot" ClusterKeyslot 3 [STALE] [SLOW] [0 0 0] [] [];
    "cluster|links" ClusterLinks 2 [STALE] [SLOW] [0 0 0] [] ["nondeterministic_output"];
    "cluster|meet" ClusterMeet -4 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "cluster|myid" ClusterMyid 2 [STALE] [SLOW] [0 0 0] [] [];
    "cluster|nodes" ClusterNodes 2 [STALE] [SLOW] [0 0 0] [] ["nondeterministic_output"];
    "cluster|replicas" ClusterReplicas 3 [ADMIN STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output"];
    "cluster|replicate" ClusterReplicate 3 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] []
        [];
    "cluster|reset" ClusterReset -2 [ADMIN NOSCRIPT STALE] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "cluster|saveconfig" ClusterSaveconfig 2 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0]
        [] [];
    "cluster|set-config-epoch" ClusterSetConfigEpoch 3 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS]
        [0 0 0] [] [];
    "cluster|setslot" ClusterSetslot -4 [ADMIN STALE NO_ASYNC_LOADING] [ADMIN SLOW DANGEROUS] [0 0 0] [] [];
    "cluster|shards" ClusterShards 2 [STALE] [SLOW] [0 0 0] [] ["nondeterministic_output"];
    "cluster|slaves" ClusterSlaves 3 [ADMIN STALE] [ADMIN SLOW DANGEROUS] [0 0 0] []
        ["nondeterministic_output"];
    "cluster|slots" ClusterSlots 2 [STALE] [SLOW] [0 0 0] [] ["nondeterministic_output"];
}
