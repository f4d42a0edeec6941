//! Commands on sorted sets, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "bzmpop" Bzmpop -5 [WRITE BLOCKING MOVABLEKEYS] [WRITE SORTEDSET SLOW BLOCKING] [0 0 0]
        ["" [RW ACCESS DELETE] 2 127 0] [];
    "bzpopmax" Bzpopmax -3 [WRITE NOSCRIPT BLOCKING FAST] [WRITE SORTEDSET FAST BLOCKING] [1 -2 1]
        ["" [RW ACCESS DELETE] 1 -2 1] [];
    "bzpopmin" Bzpopmin -3 [WRITE NOSCRIPT BLOCKING FAST] [WRITE SORTEDSET FAST BLOCKING] [1 -2 1]
        ["" [RW ACCESS DELETE] 1 -2 1] [];
    "zadd" Zadd -4 [WRITE DENYOOM FAST] [WRITE SORTEDSET FAST] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "zcard" Zcard 2 [READONLY FAST] [READ SORTEDSET FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "zcount" Zcount 4 [READONLY FAST] [READ SORTEDSET FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "zdiff" Zdiff -3 [READONLY MOVABLEKEYS] [READ SORTEDSET SLOW] [0 0 0]
        ["" [RO ACCESS] 1 127 0] [];
    "zdiffstore" Zdiffstore -4 [WRITE DENYOOM MOVABLEKEYS] [WRITE SORTEDSET SLOW] [1 1 1]
        ["" [OW UPDATE] 1 0 1, "" [RO ACCESS] 2 127 0] [];
    "zincrby" Zincrby 4 [WRITE DENYOOM FAST] [WRITE SORTEDSET FAST] [1 1 1]
        ["" [RW ACCESS UPDATE] 1 0 1] [];
    "zinter" Zinter -3 [READONLY MOVABLEKEYS] [READ SORTEDSET SLOW] [0 0 0]
        ["" [RO ACCESS] 1 127 0] [];
    "zintercard" Zintercard -3 [READONLY MOVABLEKEYS] [READ SORTEDSET SLOW] [0 0 0]
        ["" [RO ACCESS] 1 127 0] [];
    "zinterstore" Zinterstore -4 [WRITE DENYOOM MOVABLEKEYS] [WRITE SORTEDSET SLOW] [1 1 1]
        ["" [OW UPDATE] 1 0 1, "" [RO ACCESS] 2 127 0] [];
    "zlexcount" Zlexcount 4 [READONLY FAST] [READ SORTEDSET FAST] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "zmpop" Zmpop -4 [WRITE MOVABLEKEYS] [WRITE SORTEDSET SLOW] [0 0 0]
        ["" [RW ACCESS DELETE] 1 127 0] [];
    "zmscore" Zmscore -3 [READONLY FAST] [READ SORTEDSET FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "zpopmax" Zpopmax -2 [WRITE FAST] [WRITE SORTEDSET FAST] [1 1 1]
        ["" [RW ACCESS DELETE] 1 0 1] [];
    "zpopmin" Zpopmin -2 [WRITE FAST] [WRITE SORTEDSET FAST] [1 1 1]
        ["" [RW ACCESS DELETE] 1 0 1] [];
    "zrandmember" Zrandmember -2 [READONLY] [READ SORTEDSET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "zrange" Zrange -4 [READONLY] [READ SORTEDSET SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "zrangebylex" Zrangebylex -4 [READONLY] [READ SORTEDSET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "zrangebyscore" Zrangebyscore -4 [READONLY] [READ SORTEDSET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "zrangestore" Zrangestore -5 [WRITE DENYOOM] [WRITE SORTEDSET SLOW] [1 2 1]
        ["" [OW UPDATE] 1 0 1, "" [RO ACCESS] 2 0 1] [];
    "zrank" Zrank 3 [READONLY FAST] [READ SORTEDSET FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "zrem" Zrem -3 [WRITE FAST] [WRITE SORTEDSET FAST] [1 1 1] ["" [RW DELETE] 1 0 1] [];
    "zremrangebylex" Zremrangebylex 4 [WRITE] [WRITE SORTEDSET SLOW] [1 1 1]
        ["" [RW DELETE] 1 0 1] [];
    "zremrangebyrank" Zremrangebyrank 4 [WRITE] [WRITE SORTEDSET SLOW] [1 1 1]
        ["" [RW DELETE] 1 0 1] [];
    "zremrangebyscore" Zremrangebyscore 4 [WRITE] [WRITE SORTEDSET SLOW] [1 1 1]
        ["" [RW DELETE] 1 0 1] [];
    "zrevrange" Zrevrange -4 [READONLY] [READ SORTEDSET SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "zrevrangebylex" Zrevrangebylex -4 [READONLY] [READ SORTEDSET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "zrevrangebyscore" Zrevrangebyscore -4 [READONLY] [READ SORTEDSET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "zrevrank" Zrevrank 3 [READONLY FAST] [READ SORTEDSET FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "zscan" Zscan -3 [READONLY] [READ SORTEDSET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "zscore" Zscore 3 [READONLY FAST] [READ SORTEDSET FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "zunion" Zunion -3 [READONLY MOVABLEKEYS] [READ SORTEDSET SLOW] [0 0 0]
        ["" [RO ACCESS] 1 127 0] [];
    "zunionstore" Zunionstore -4 [WRITE DENYOOM MOVABLEKEYS] [WRITE SORTEDSET SLOW] [1 1 1]
        ["" [OW UPDATE] 1 0 1, "" [RO ACCESS] 2 127 0] [];
}
