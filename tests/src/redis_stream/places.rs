//! Commands on positions and HyperLogLogs.

use super::{Stream, Words};

pub(super) const SHAPES: &[&str] = &[
    "GEOADD {p} {at} {pm} {at} {pm} {at} {pm}",
    "GEOADD {p} [NX|XX|CH|XX_CH|NX_XX] {at} {pm} {at} {pm}",
    "GEOADD {p} {at} {pm} x",
    "GEOPOS {p} {pm} {pm}",
    "GEOPOS {p}",
    "GEOHASH {p} {pm} {pm}",
    "GEODIST {p} {pm} {pm} [km|M|mi|ft|q|m_m]",
    "GEOSEARCH {p} FROMMEMBER {pm} {area} ASC [WITHDIST] [WITHCOORD] [WITHHASH]",
    "GEOSEARCH {p} FROMLONLAT {at} {area} DESC [WITHDIST] [COUNT_3|COUNT_0|COUNT_x]",
    "GEOSEARCH {p} FROMLONLAT {at} {area} COUNT 5 [ANY] [WITHDIST]",
    "GEOSEARCH {p} {area} [ANY] [FROMMEMBER_{pm}] [STOREDIST]",
    "GEOSEARCHSTORE {p} {p} FROMLONLAT {at} {area} [STOREDIST|COUNT_3|WITHDIST]",
    "GEORADIUS {p} {at} (100|500|5000|-1|x) (km|mi|z) ASC [WITHDIST] [STORE_p4|STOREDIST_p4]",
    "GEORADIUS_RO {p} {at} 900 km ASC [WITHCOORD] [STORE_p4]",
    "GEORADIUSBYMEMBER {p} {pm} (100|5000) km [COUNT_3] ASC [STORE_p4]",
    "GEORADIUSBYMEMBER_RO {p} {pm} 900 km DESC",
    "ZRANGE {p} 0 -1 WITHSCORES",
    "ZREM {p} {pm}",
    "PFADD {y} {ye} {ye} {ye}",
    "PFADD {y} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye} {ye}",
    "PFADD {y}",
    "PFCOUNT {y}",
    "PFCOUNT {y} {y} {y}",
    "PFMERGE {y} {y}",
    "PFMERGE y9",
    "GET {y}",
    "GET {y}",
    "STRLEN {y}",
    "SET y1 (HYLL|x)",
    "DEL y1 {y}",
    "APPEND {y} x",
    "COMMAND GETKEYS GEORADIUS {p} 1 2 3 km STORE a STOREDIST b",
    "COMMAND GETKEYS GEORADIUSBYMEMBER {p} m 3 km STOREDIST b",
    "COMMAND INFO (georadius|geosearchstore|pfcount|pfmerge|geoadd)",
    "COMMAND DOCS (geoadd|geosearch|pfadd|georadius)",
];

impl Stream {
    /// Draws a word of these shapes. False: it is of another kind.
    pub(super) fn place_word(&mut self, word: &str, words: &mut Words) -> bool {
        let drawn = match word {
            "{p}" => self.dice.one(&["p1", "p1", "p2", "p3", "y1"]).to_owned(),
            "{pm}" => format!("m{}", self.dice.below(60)),
            "{y}" => self.dice.one(&["y1", "y2", "y3", "y4"]).to_owned(),
            "{ye}" => self.dice.below(100_000).to_string(),
            "{at}" => {
                let place = match self.dice.below(12) {
                    0 => (self.dice.one(&["181", "-180.5", "x", "0"]).to_owned(), "0".to_owned()),
                    1 => ("0".to_owned(), self.dice.one(&["86", "-90", "y", "1e1"]).to_owned()),
                    2..=6 => (self.degrees(12, 16), self.degrees(36, 39)),
                    _ => (self.degrees(-180, 180), self.degrees(-85, 85)),
                };
                words.push(place.0.into());
                place.1
            }
            "{area}" => {
                let radius = self.dice.one(&["1", "50", "300", "3000", "20000", "-1", "x"]);
                let unit = self.dice.one(&["km", "km", "mi", "m", "ft", "z"]);
                let area = match self.dice.below(2) {
                    0 => vec!["BYRADIUS", radius],
                    _ => vec!["BYBOX", radius, "400"],
                };
                words.extend(area.into_iter().map(Into::into));
                unit.to_owned()
            }
            _ => return false,
        };
        words.push(drawn.into());
        true
    }

    fn degrees(&mut self, from: i64, to: i64) -> String {
        let whole = from + self.dice.below((to - from) as usize) as i64;
        format!("{whole}.{:06}", self.dice.below(1_000_000))
    }
}
