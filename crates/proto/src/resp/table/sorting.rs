//! SORT and SORT_RO, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "sort" Sort -2 [WRITE DENYOOM MOVABLEKEYS] [WRITE SET SORTEDSET LIST SLOW DANGEROUS] [1 1 1]
        ["" [RO ACCESS] 1 0 1, "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort" [RO ACCESS] 0 127 1, "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array" [OW UPDATE] 0 127 1] [];
    "sort_ro" SortRo -2 [READONLY MOVABLEKEYS] [READ SET SORTEDSET LIST SLOW DANGEROUS] [1 1 1]
        ["" [RO ACCESS] 1 0 1, "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort" [RO ACCESS] 0 127 1] [];
}
