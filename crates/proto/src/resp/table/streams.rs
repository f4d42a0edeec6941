//! Commands on streams, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "xack" Xack -4 [WRITE FAST] [WRITE STREAM FAST] [1 1 1]
        ["" [RW UPDATE] 1 0 1] [];
    "xadd" Xadd -5 [WRITE DENYOOM FAST] [WRITE STREAM FAST] [1 1 1]
        ["UPDATE instead of INSERT because of the optional trimming feature" [RW UPDATE] 1 0 1]
        ["nondeterministic_output"];
    "xautoclaim" Xautoclaim -6 [WRITE FAST] [WRITE STREAM FAST] [1 1 1]
        ["" [RW DELETE] 1 0 1] ["nondeterministic_output"];
    "xclaim" Xclaim -6 [WRITE FAST] [WRITE STREAM FAST] [1 1 1]
        ["" [RW UPDATE] 1 0 1] ["nondeterministic_output"];
    "xdel" Xdel -3 [WRITE FAST] [WRITE STREAM FAST] [1 1 1]
        ["" [RW DELETE] 1 0 1] [];
    "xgroup" Xgroup -2 [] [SLOW] [0 0 0]
        [] [] => XGROUP;
    "xinfo" Xinfo -2 [] [SLOW] [0 0 0]
        [] [] => XINFO;
    "xlen" Xlen 2 [READONLY FAST] [READ STREAM FAST] [1 1 1]
        ["" [RO] 1 0 1] [];
    "xpending" Xpending -3 [READONLY] [READ STREAM SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] ["nondeterministic_output"];
    "xrange" Xrange -4 [READONLY] [READ STREAM SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "xread" Xread -4 [READONLY BLOCKING MOVABLEKEYS] [READ STREAM SLOW BLOCKING] [0 0 0]
        ["" [RO ACCESS] 1 127 2] [];
    "xreadgroup" Xreadgroup -7 [WRITE BLOCKING MOVABLEKEYS] [WRITE STREAM SLOW BLOCKING] [0 0 0]
        ["" [RO ACCESS] 4 127 2] [];
    "xrevrange" Xrevrange -4 [READONLY] [READ STREAM SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "xsetid" Xsetid -3 [WRITE DENYOOM FAST] [WRITE STREAM FAST] [1 1 1]
        ["" [RW UPDATE] 1 0 1] [];
    "xtrim" Xtrim -4 [WRITE] [WRITE STREAM SLOW] [1 1 1]
        ["" [RW DELETE] 1 0 1] ["nondeterministic_output"];
}

commands! { XGROUP
    "xgroup|createconsumer" XgroupCreateconsumer 5 [WRITE DENYOOM] [WRITE STREAM SLOW] [2 2 1]
        ["" [RW INSERT] 2 0 1] [];
    "xgroup|delconsumer" XgroupDelconsumer 5 [WRITE] [WRITE STREAM SLOW] [2 2 1]
        ["" [RW DELETE] 2 0 1] [];
    "xgroup|create" XgroupCreate -5 [WRITE DENYOOM] [WRITE STREAM SLOW] [2 2 1]
        ["" [RW INSERT] 2 0 1] [];
    "xgroup|destroy" XgroupDestroy 4 [WRITE] [WRITE STREAM SLOW] [2 2 1]
        ["" [RW DELETE] 2 0 1] [];
    "xgroup|setid" XgroupSetid -5 [WRITE] [WRITE STREAM SLOW] [2 2 1]
        ["" [RW UPDATE] 2 0 1] [];
    "xgroup|help" XgroupHelp 2 [LOADING STALE] [STREAM SLOW] [0 0 0]
        [] [];
}

commands! { XINFO
    "xinfo|consumers" XinfoConsumers 4 [READONLY] [READ STREAM SLOW] [2 2 1]
        ["" [RO ACCESS] 2 0 1] ["nondeterministic_output"];
    "xinfo|groups" XinfoGroups 3 [READONLY] [READ STREAM SLOW] [2 2 1]
        ["" [RO ACCESS] 2 0 1] [];
    "xinfo|stream" XinfoStream -3 [READONLY] [READ STREAM SLOW] [2 2 1]
        ["" [RO ACCESS] 2 0 1] [];
    "xinfo|help" XinfoHelp 2 [LOADING STALE] [STREAM SLOW] [0 0 0]
        [] [];
}
