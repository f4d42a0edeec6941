//! Commands on streams.

use super::{Stream, Words};

pub(super) const SHAPES: &[&str] = &[
    "XADD {q} {new} {pp}",
    "XADD {q} {new} {pp}",
    "XADD {q} {new} {pp}",
    "XADD {q} {new} {pp}",
    "XADD {q} {new} {pp}",
    "XADD {q} [NOMKSTREAM] [MAXLEN_{o}|MAXLEN_=_{len}|MINID_{id}|MAXLEN_{len}_LIMIT_5] {new} {pp}",
    "XADD {q} {id} f",
    "XLEN {q}",
    "XRANGE {q} {end} {end} [COUNT_{o}]",
    "XRANGE {q} - + [COUNT_{o}]",
    "XREVRANGE {q} {end} {end} [COUNT_{o}]",
    "XREVRANGE {q} + -",
    "XDEL {q} {id}*",
    "XTRIM {q} (MAXLEN_{len}|MAXLEN_=_{o}|MINID_{id}|FOO_1|MAXLEN_~_{len}_LIMIT_x)",
    "XREAD [COUNT_{o}] STREAMS {q} {q} {id} {id}",
    "XREAD [COUNT_{o}] [BLOCK_1|BLOCK_x|BLOCK_-1] STREAMS {q} ($|{id}|>)",
    "XREAD [COUNT_{o}] STREAMS {q} {id} 0",
    "XSETID {q} {id} [ENTRIESADDED_{len}_MAXDELETEDID_{id}]",
    "XGROUP CREATE {q} {g} ($|0|{id}) [MKSTREAM] [ENTRIESREAD_{o}]",
    "XGROUP SETID {q} {g} ($|0|{id}) [ENTRIESREAD_{o}]",
    "XGROUP (DESTROY_{q}_{g}|CREATECONSUMER_{q}_{g}_{w}|DELCONSUMER_{q}_{g}_{w}|FOO_{q}|HELP)",
    "XREADGROUP GROUP {g} {w} [COUNT_{o}] [NOACK] STREAMS {q} >",
    "XREADGROUP GROUP {g} {w} [COUNT_{o}] STREAMS {q} >",
    "XREADGROUP GROUP {g} {w} [COUNT_{o}] [BLOCK_1] STREAMS {q} (>|0|{id}|$)",
    "XREADGROUP GROUP {g} {w} STREAMS {q} {q} (>|0) >",
    "XACK {q} {g} {id}*",
    "XACK {q} {g} {id}*",
    "XPENDING {q} {g}",
    "XPENDING {q} {g} [IDLE_0|IDLE_x] {end} {end} (10|2|x) [{w}]",
    "XPENDING {q} {g} - + 100",
    "XCLAIM {q} {g} {w} (0|x|-1) {id} {id} [JUSTID|FORCE|RETRYCOUNT_5|FORCE_JUSTID|FOO]",
    "XCLAIM {q} {g} {w} 0 {id} LASTID {id}",
    "XAUTOCLAIM {q} {g} {w} 0 ({id}|-|x) [COUNT_{o}|JUSTID]",
    "XINFO (STREAM|GROUPS|FOO|HELP) {q}",
    "XINFO CONSUMERS {q} {g}",
    "XINFO STREAM {q} FULL [COUNT_{o}]",
    "TYPE {q}",
    "OBJECT ENCODING {q}",
    "COPY {q} {q} [REPLACE]",
    "RENAME {q} {q}",
    "MOVE {q} 1",
    "SCAN 0 COUNT 100000 TYPE stream",
    "DEL {q}",
    "LPUSH {q} x",
    "GET {q}",
    "MULTI",
    "EXEC",
    "EXEC",
];

impl Stream {
    /// Draws a word of these shapes. False: it is of another kind.
    pub(super) fn stream_word(&mut self, word: &str, words: &mut Words) -> bool {
        let drawn = match word {
            "{q}" if self.dice.once_in(3) => self.dice.one(&["q2", "q3"]).to_owned(),
            "{q}" => "q1".to_owned(),
            "{g}" => self.dice.one(&["g", "g", "g", "h", "nobody"]).to_owned(),
            "{w}" => self.dice.one(&["al", "bo", "ce"]).to_owned(),
            "{len}" => self.dice.below(300).to_string(),
            "{new}" => {
                self.last += self.dice.below(3);
                match self.dice.below(3) {
                    0 => format!("{}-{}", self.last, self.dice.below(50)),
                    _ => format!("{}-*", self.last),
                }
            }
            "{id}" => self.id(),
            "{end}" => match self.dice.below(5) {
                0 => "-".to_owned(),
                1 => "+".to_owned(),
                2 => format!("({}", self.id()),
                _ => self.id(),
            },
            "{pp}" => {
                for nth in 0..=self.dice.below(3) {
                    let name = if self.dice.once_in(9) { "odd" } else { ["a", "b", "c"][nth] };
                    let len = if self.small { 9 } else { 300 };
                    words.push(name.into());
                    words.push(vec![b'v'; self.dice.below(len)]);
                }
                return true;
            }
            _ => return false,
        };
        words.push(drawn.into());
        true
    }

    /// Mostly one of the last IDs.
    fn id(&mut self) -> String {
        let odd = ["0", "0-0", "x", "", "5-", "1-*", "18446744073709551615-18446744073709551615"];
        match self.dice.below(8) {
            0 => self.dice.one(&odd).to_owned(),
            1 => self.dice.below(self.last + 2).to_string(),
            2..=4 => format!("{}-{}", self.dice.below(self.last + 2), self.dice.below(3)),
            _ => {
                let ms = self.last.saturating_sub(self.dice.below(9));
                format!("{ms}-{}", self.dice.below(3))
            }
        }
    }
}
