//! Commands on lists, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "blmove" Blmove 6 [WRITE DENYOOM NOSCRIPT BLOCKING] [WRITE LIST SLOW BLOCKING] [1 2 1]
        ["" [RW ACCESS DELETE] 1 0 1, "" [RW INSERT] 2 0 1] [];
    "blmpop" Blmpop -5 [WRITE BLOCKING MOVABLEKEYS] [WRITE LIST SLOW BLOCKING] [0 0 0]
        ["" [RW ACCESS DELETE] 2 127 0] [];
    "blpop" Blpop -3 [WRITE NOSCRIPT BLOCKING] [WRITE LIST SLOW BLOCKING] [1 -2 1]
        ["" [RW ACCESS DELETE] 1 -2 1] [];
    "brpop" Brpop -3 [WRITE NOSCRIPT BLOCKING] [WRITE LIST SLOW BLOCKING] [1 -2 1]
        ["" [RW ACCESS DELETE] 1 -2 1] [];
    "brpoplpush" Brpoplpush 4 [WRITE DENYOOM NOSCRIPT BLOCKING] [WRITE LIST SLOW BLOCKING] [1 2 1]
        ["" [RW ACCESS DELETE] 1 0 1, "" [RW INSERT] 2 0 1] [];
    "lindex" Lindex 3 [READONLY] [READ LIST SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "linsert" Linsert 5 [WRITE DENYOOM] [WRITE LIST SLOW] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "llen" Llen 2 [READONLY FAST] [READ LIST FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "lmove" Lmove 5 [WRITE DENYOOM] [WRITE LIST SLOW] [1 2 1]
        ["" [RW ACCESS DELETE] 1 0 1, "" [RW INSERT] 2 0 1] [];
    "lmpop" Lmpop -4 [WRITE MOVABLEKEYS] [WRITE LIST SLOW] [0 0 0]
        ["" [RW ACCESS DELETE] 1 127 0] [];
    "lpop" Lpop -2 [WRITE FAST] [WRITE LIST FAST] [1 1 1] ["" [RW ACCESS DELETE] 1 0 1] [];
    "lpos" Lpos -3 [READONLY] [READ LIST SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "lpush" Lpush -3 [WRITE DENYOOM FAST] [WRITE LIST FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "lpushx" Lpushx -3 [WRITE DENYOOM FAST] [WRITE LIST FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "lrange" Lrange 4 [READONLY] [READ LIST SLOW] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "lrem" Lrem 4 [WRITE] [WRITE LIST SLOW] [1 1 1] ["" [RW DELETE] 1 0 1] [];
    "lset" Lset 4 [WRITE DENYOOM] [WRITE LIST SLOW] [1 1 1] ["" [RW UPDATE] 1 0 1] [];
    "ltrim" Ltrim 4 [WRITE] [WRITE LIST SLOW] [1 1 1] ["" [RW DELETE] 1 0 1] [];
    "rpop" Rpop -2 [WRITE FAST] [WRITE LIST FAST] [1 1 1] ["" [RW ACCESS DELETE] 1 0 1] [];
    "rpoplpush" Rpoplpush 3 [WRITE DENYOOM] [WRITE LIST SLOW] [1 2 1]
        ["" [RW ACCESS DELETE] 1 0 1, "" [RW INSERT] 2 0 1] [];
    "rpush" Rpush -3 [WRITE DENYOOM FAST] [WRITE LIST FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "rpushx" Rpushx -3 [WRITE DENYOOM FAST] [WRITE LIST FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
}
