//! Commands on positions, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "geoadd" Geoadd -5 [WRITE DENYOOM] [WRITE GEO SLOW] [1 1 1]
        ["" [RW UPDATE] 1 0 1] [];
    "geodist" Geodist -4 [READONLY] [READ GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "geohash" Geohash -2 [READONLY] [READ GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "geopos" Geopos -2 [READONLY] [READ GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "georadius" Georadius -6 [WRITE DENYOOM MOVABLEKEYS] [WRITE GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1, "" [OW UPDATE] 6 127 3, "" [OW UPDATE] 6 127 4] [];
    "georadius_ro" GeoradiusRo -6 [READONLY] [READ GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "georadiusbymember" Georadiusbymember -5 [WRITE DENYOOM MOVABLEKEYS] [WRITE GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1, "" [OW UPDATE] 5 127 3, "" [OW UPDATE] 5 127 4] [];
    "georadiusbymember_ro" GeoradiusbymemberRo -5 [READONLY] [READ GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "geosearch" Geosearch -7 [READONLY] [READ GEO SLOW] [1 1 1]
        ["" [RO ACCESS] 1 0 1] [];
    "geosearchstore" Geosearchstore -8 [WRITE DENYOOM] [WRITE GEO SLOW] [1 2 1]
        ["" [OW UPDATE] 1 0 1, "" [RO ACCESS] 2 0 1] [];
}
