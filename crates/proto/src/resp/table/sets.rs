//! Commands on sets, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "sadd" Sadd -3 [WRITE DENYOOM FAST] [WRITE SET FAST] [1 1 1] ["" [RW INSERT] 1 0 1] [];
    "scard" Scard 2 [READONLY FAST] [READ SET FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "sdiff" Sdiff -2 [READONLY] [READ SET SLOW] [1 -1 1]
        ["" [RO ACCESS] 1 -1 1] ["nondeterministic_output_order"];
    "sdiffstore" Sdiffstore -3 [WRITE DENYOOM] [WRITE SET SLOW] [1 -1 1]
        ["" [OW UPDATE] 1 0 1, "" [RO ACCESS] 2 -1 1] [];
    "sinter" Sinter -2 [READONLY] [READ SET SLOW] [1 -1 1]
        ["" [RO ACCESS] 1 -1 1] ["nondeterministic_output_order"];
    "sintercard" Sintercard -3 [READONLY MOVABLEKEYS] [READ SET SLOW] [0 0 0]
        ["" [RO ACCESS] 1 127 0] [];
    "sinterstore" Sinterstore -3 [WRITE DENYOOM] [WRITE SET SLOW] [1 -1 1]
        ["" [RW UPDATE] 1 0 1, "" [RO ACCESS] 2 -1 1] [];
    "sismember" Sismember 3 [READONLY FAST] [READ SET FAST] [1 1 1] ["" [RO] 1 0 1] [];
    "smembers" Smembers 2 [READONLY] [READ SET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] ["nondeterministic_output_order"];
    "smismember" Smismember -3 [READONLY FAST] [READ SET FAST] [1 1 1] ["" [RO ACCESS] 1 0 1] [];
    "smove" Smove 4 [WRITE FAST] [WRITE SET FAST] [1 2 1]
        ["" [RW ACCESS DELETE] 1 0 1, "" [RW INSERT] 2 0 1] [];
    "spop" Spop -2 [WRITE FAST] [WRITE SET FAST] [1 1 1]
        ["" [RW ACCESS DELETE] 1 0 1] ["nondeterministic_output"];
    "srandmember" Srandmember -2 [READONLY] [READ SET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "srem" Srem -3 [WRITE FAST] [WRITE SET FAST] [1 1 1] ["" [RW DELETE] 1 0 1] [];
    "sscan" Sscan -3 [READONLY] [READ SET SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "sunion" Sunion -2 [READONLY] [READ SET SLOW] [1 -1 1]
        ["" [RO ACCESS] 1 -1 1] ["nondeterministic_output_order"];
    "sunionstore" Sunionstore -3 [WRITE DENYOOM] [WRITE SET SLOW] [1 -1 1]
        ["" [OW UPDATE] 1 0 1, "" [RO ACCESS] 2 -1 1] [];
}
