//! Commands of connections, transactions and channels, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "auth" Auth -2 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [FAST CONNECTION] [0 0 0] [] [];
    "client" Client -2 [] [SLOW] [0 0 0] [] [] => CLIENT;
    "echo" Echo 2 [LOADING STALE FAST] [FAST CONNECTION] [0 0 0] [] [];
    "hello" Hello -1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [FAST CONNECTION] [0 0 0] [] [];
    "ping" Ping -1 [FAST] [FAST CONNECTION] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "quit" Quit -1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [FAST CONNECTION] [0 0 0] [] [];
    "reset" Reset 1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [FAST CONNECTION] [0 0 0] [] [];
    "select" Select 2 [LOADING STALE FAST] [FAST CONNECTION] [0 0 0] [] [];
    "discard" Discard 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [FAST TRANSACTION] [0 0 0] [] [];
    "exec" Exec 1 [NOSCRIPT LOADING STALE SKIP_SLOWLOG] [SLOW TRANSACTION] [0 0 0] [] [];
    "multi" Multi 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [FAST TRANSACTION] [0 0 0] [] [];
    "unwatch" Unwatch 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [FAST TRANSACTION] [0 0 0] [] [];
    "watch" Watch -2 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [FAST TRANSACTION] [1 -1 1] ["" [RO] 1 -1 1]
        [];
    "psubscribe" Psubscribe -2 [PUBSUB NOSCRIPT LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
    "publish" Publish 3 [PUBSUB LOADING STALE FAST] [PUBSUB FAST] [0 0 0] [] [];
    "pubsub" Pubsub -2 [] [SLOW] [0 0 0] [] [] => PUBSUB;
    "punsubscribe" Punsubscribe -1 [PUBSUB NOSCRIPT LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
    "spublish" Spublish 3 [PUBSUB LOADING STALE FAST] [PUBSUB FAST] [1 1 1] ["" [NOT_KEY] 1 0 1] [];
    "ssubscribe" Ssubscribe -2 [PUBSUB NOSCRIPT LOADING STALE] [PUBSUB SLOW] [1 -1 1] ["" [NOT_KEY] 1 -1 1]
        [];
    "subscribe" Subscribe -2 [PUBSUB NOSCRIPT LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
    "sunsubscribe" Sunsubscribe -1 [PUBSUB NOSCRIPT LOADING STALE] [PUBSUB SLOW] [1 -1 1]
        ["" [NOT_KEY] 1 -1 1] [];
    "unsubscribe" Unsubscribe -1 [PUBSUB NOSCRIPT LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
}

commands! { CLIENT
    "client|caching" ClientCaching 3 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|getname" ClientGetname 2 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|getredir" ClientGetredir 2 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|help" ClientHelp 2 [LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|id" ClientId 2 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|info" ClientInfo 2 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] []
        ["nondeterministic_output"];
    "client|kill" ClientKill -3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS CONNECTION] [0 0 0] []
        [];
    "client|list" ClientList -2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS CONNECTION] [0 0 0] []
        ["nondeterministic_output"];
    "client|no-evict" ClientNoEvict 3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS CONNECTION]
        [0 0 0] [] [];
    "client|pause" ClientPause -3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS CONNECTION] [0 0 0]
        [] [];
    "client|reply" ClientReply 3 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|setname" ClientSetname 3 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|tracking" ClientTracking -3 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|trackinginfo" ClientTrackinginfo 2 [NOSCRIPT LOADING STALE] [SLOW CONNECTION] [0 0 0] [] [];
    "client|unblock" ClientUnblock -3 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS CONNECTION]
        [0 0 0] [] [];
    "client|unpause" ClientUnpause 2 [ADMIN NOSCRIPT LOADING STALE] [ADMIN SLOW DANGEROUS CONNECTION]
        [0 0 0] [] [];
}

commands! { PUBSUB
    "pubsub|channels" PubsubChannels -2 [PUBSUB LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
    "pubsub|help" PubsubHelp 2 [LOADING STALE] [SLOW] [0 0 0] [] [];
    "pubsub|numpat" PubsubNumpat 2 [PUBSUB LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
    "pubsub|numsub" PubsubNumsub -2 [PUBSUB LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
    "pubsub|shardchannels" PubsubShardchannels -2 [PUBSUB LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
    "pubsub|shardnumsub" PubsubShardnumsub -2 [PUBSUB LOADING STALE] [PUBSUB SLOW] [0 0 0] [] [];
}
