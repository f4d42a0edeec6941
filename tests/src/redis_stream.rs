//! Random commands for two servers that speak Redis's protocol: every command Larder has, with its
//! options, on few keys, so that types clash and options meet what they ask for; some of them
//! broken.

mod collections;
mod compare;
mod places;
mod streams;

pub use compare::{Comparison, shown};

use crate::memcache_stream::Dice;

/// Commands by shape. A word in braces is drawn (see `draw`), `[a|b]` is one of them or nothing,
/// `(a|b)` one of them, and a word that ends with `*` comes one to three times. A blank divides
/// words; inside brackets `_` does.
const SHAPES: &[&str] = &[
    "GET {k}",
    "SET {k} {v} [NX|XX] [GET] [EX_{s}|PX_{S}|EXAT_{u}|PXAT_{U}|KEEPTTL]",
    "SET {k} {i}",
    "SET {k} {x} [GET|NX|EX_{x}|EX|FOO|PX_0]",
    "GETEX {k} [EX_{s}|PX_{S}|EXAT_{t}|PXAT_{T}|PERSIST|FOO]",
    "GETDEL {k}",
    "GETSET {k} {v}",
    "MGET {k}*",
    "MSET {kv}*",
    "MSETNX {kv}*",
    "SETNX {k} {v}",
    "SETEX {k} {s} {v}",
    "PSETEX {k} {S} {v}",
    "APPEND {k} {v}",
    "STRLEN {k}",
    "GETRANGE {k} {o} {o}",
    "SUBSTR {k} {o} {o}",
    "SETRANGE {k} {n} {v}",
    "INCR {k}",
    "DECR {k}",
    "INCRBY {k} {i}",
    "DECRBY {k} {i}",
    "INCRBYFLOAT {k} {f}",
    "LCS {k} {k} [LEN|IDX] [MINMATCHLEN_2] [WITHMATCHLEN]",
    "SETBIT {k} {n} (0|1|2)",
    "GETBIT {k} {n}",
    "BITCOUNT {k} [{o}_{o}|{o}_{o}_BYTE|{o}_{o}_BIT|{o}]",
    "BITPOS {k} (0|1|2) [{o}|{o}_{o}|{o}_{o}_BIT]",
    "BITOP (AND|OR|XOR|NOT|FOO) {k} {k}*",
    "BITFIELD {k} [OVERFLOW_(WRAP|SAT|FAIL)] [SET_u8_{n}_{i}|INCRBY_i5_#2_{n}|GET_u4_{n}]",
    "BITFIELD_RO {k} GET u8 {n}",
    "DEL {k}*",
    "UNLINK {k}*",
    "EXISTS {k}*",
    "TOUCH {k}*",
    "TYPE {k}",
    "EXPIRE {k} {s} [NX|XX|GT|LT|FOO|NX_XX|GT_LT|NX_GT]",
    "PEXPIRE {k} {S} [NX|XX|GT|LT]",
    "EXPIREAT {k} {t} [NX|XX|GT|LT]",
    "PEXPIREAT {k} {T} [NX|XX|GT|LT]",
    "EXPIRE {k} (0|-1|{x}|99999999999999999)",
    "TTL {k}",
    "PTTL {k}",
    "EXPIRETIME {k}",
    "PEXPIRETIME {k}",
    "PERSIST {k}",
    "RENAME {k} {k}",
    "RENAMENX {k} {k}",
    "COPY {k} {k} [REPLACE|DB_1|DB_1_REPLACE|DB_99|FOO]",
    "MOVE {k} (0|1|2|99|x)",
    "RANDOMKEY",
    "KEYS (*|k?|k[12]|h*|[^k]*|\\k1|nothing)",
    "DBSIZE",
    "OBJECT ENCODING {k}",
    "OBJECT REFCOUNT {k}",
    "OBJECT FREQ {k}",
    "OBJECT FOO {k}",
    "HSET {h} {fv}*",
    "HSETNX {h} {e} {v}",
    "HMSET {h} {fv}*",
    "HGET {h} {e}",
    "HMGET {h} {e}*",
    "HGETALL {h}",
    "HDEL {h} {e}*",
    "HEXISTS {h} {e}",
    "HLEN {h}",
    "HSTRLEN {h} {e}",
    "HKEYS {h}",
    "HVALS {h}",
    "HINCRBY {h} {e} {i}",
    "HINCRBYFLOAT {h} {e} {f}",
    "HRANDFIELD {h} 100 [WITHVALUES]",
    "HRANDFIELD {h} [0|x]",
    "HSCAN {h} 0 [MATCH_e*] [COUNT_1000]",
    "HSCAN {h} (x|0) [COUNT_0|COUNT|FOO]",
    "SCAN 0 COUNT 1000 [MATCH_k*] [TYPE_(string|hash|list)]",
    "SCAN (x|0) [COUNT_0|COUNT|FOO]",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH {k}*",
    "UNWATCH",
    "PUBLISH {k} {v}",
    "PUBSUB (CHANNELS|NUMPAT|NUMSUB)",
    "PUBSUB FOO",
    "PING [{v}]",
    "ECHO {v}",
    "SELECT (0|1|2|16|-1|x)",
    "SELECT 0",
    "CLIENT (SETNAME_{k}|GETNAME|NO-EVICT_on|NO-EVICT_x|FOO)",
    "CLIENT SETNAME {i}",
    "FLUSHDB [ASYNC|SYNC|FOO]",
    "AUTH (x|default_x)",
    "CONFIG FOO",
    "NOSUCHCOMMAND {v}*",
    "TIME {v}",
    "WAIT",
    "HELLO (x|4|1)",
    "COMMAND COUNT {v}",
    "COMMAND GETKEYS MSET {kv}*",
    "COMMAND GETKEYS GET",
    "COMMAND FOO",
];

/// One command: its words.
pub type Words = Vec<Vec<u8>>;

/// A source of commands.
pub struct Stream {
    dice: Dice,
    /// Unix time in seconds at which the stream was made: what expires does so far from it.
    now: u64,
    /// Values of up to 64 bytes only: Redis keeps the order of small hashes, and forgets that of
    /// others.
    small: bool,
    shapes: &'static [&'static str],
    /// Milliseconds of the last ID that an entry of a stream got.
    last: usize,
}

impl Stream {
    /// The same seed and time give the same commands.
    pub fn new(seed: u64, now: u64, small: bool) -> Stream {
        Stream { dice: Dice::new(seed), now, small, shapes: SHAPES, last: 1 }
    }

    /// Commands on lists, sets and sorted sets; not `small`: of some thousands of items.
    pub fn of_collections(seed: u64, now: u64, small: bool) -> Stream {
        Stream { shapes: collections::SHAPES, ..Stream::new(seed, now, small) }
    }

    /// Commands on streams; not `small`: with fields of some hundred bytes.
    pub fn of_streams(seed: u64, now: u64, small: bool) -> Stream {
        Stream { shapes: streams::SHAPES, ..Stream::new(seed, now, small) }
    }

    /// Commands on positions and HyperLogLogs.
    pub fn of_places(seed: u64, now: u64, small: bool) -> Stream {
        Stream { shapes: places::SHAPES, ..Stream::new(seed, now, small) }
    }

    /// The next command.
    pub fn next_command(&mut self) -> Words {
        let shape = self.dice.one(self.shapes);
        let mut words = Words::new();
        for part in shape.split(' ') {
            self.part(part, &mut words);
        }
        self.breakage(&mut words);
        words
    }

    fn part(&mut self, part: &str, words: &mut Words) {
        if let Some(options) = part.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && !part.contains("\\")
            && words.first().is_none_or(|name| name != b"KEYS")
        {
            if self.dice.once_in(2) {
                self.option(options, words);
            }
        } else if let Some(options) = part.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        {
            self.option(options, words);
        } else if let Some(repeated) = part.strip_suffix('*').filter(|rest| rest.ends_with('}')) {
            for _ in 0..=self.dice.below(3) {
                self.word(repeated, words);
            }
        } else {
            self.word(part, words);
        }
    }

    /// One of those divided by bars, outside of parentheses.
    fn option(&mut self, options: &str, words: &mut Words) {
        let (mut depth, mut all, mut one) = (0, Vec::new(), String::new());
        for c in options.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if c == '|' && depth == 0 {
                all.push(std::mem::take(&mut one));
            } else {
                one.push(c);
            }
        }
        all.push(one);
        let chosen = all[self.dice.below(all.len())].clone();
        for word in chosen.split('_') {
            match word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
                Some(inner) => self.option(inner, words),
                None => self.word(word, words),
            }
        }
    }

    fn word(&mut self, word: &str, words: &mut Words) {
        if self.collection_word(word, words)
            || self.stream_word(word, words)
            || self.place_word(word, words)
        {
            return;
        }
        let drawn = match word {
            "{kv}" => {
                let key = self.key(b'k');
                words.push(key);
                self.value()
            }
            "{fv}" => {
                let field = self.field();
                words.push(field);
                self.value()
            }
            "{k}" => self.key(b'k'),
            "{h}" => self.key(b'h'),
            "{e}" => self.field(),
            "{v}" => self.value(),
            "{i}" => self.integer().into(),
            "{f}" => self.float().into(),
            "{x}" => self.dice.one(NO_NUMBERS).into(),
            "{n}" => self
                .dice
                .one(&["0", "1", "7", "8", "13", "40", "100", "-1", "x", "4294967296"])
                .into(),
            "{o}" => self.dice.one(&["0", "1", "2", "5", "-1", "-3", "-100", "100", "x"]).into(),
            "{s}" => self.dice.one(&["1000", "2000", "5000000", "9999999999", "+5"]).into(),
            "{S}" => self.dice.one(&["1000000", "2000000", "5000000000", "0", "-5"]).into(),
            // A SET that expires at once stays in Redis until somebody looks: only later times.
            "{u}" => self.later(1).into(),
            "{U}" => self.later(1000).into(),
            "{t}" => self.moment(1).into(),
            "{T}" => self.moment(1000).into(),
            other => other.as_bytes().to_vec(),
        };
        words.push(drawn);
    }

    /// Mostly of one type, now and then of the other.
    fn key(&mut self, usual: u8) -> Vec<u8> {
        let letter = if self.dice.once_in(12) { self.dice.one(b"kh") } else { usual };
        match self.dice.below(40) {
            0 => Vec::new(),
            1 => b"a key with blanks\r\n\0\xff".to_vec(),
            _ => vec![letter, b'1' + self.dice.below(5) as u8],
        }
    }

    fn field(&mut self) -> Vec<u8> {
        match self.dice.below(40) {
            0 => Vec::new(),
            1 => b"\0\r\n\xfe".to_vec(),
            _ => format!("e{}", self.dice.below(7)).into(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.dice.below(12) {
            0 => Vec::new(),
            1..=3 => self.integer().into(),
            4 => self.float().into(),
            5 => b"\0\r\n\xff$5\r\n".to_vec(),
            6 => vec![b'x'; 44 + self.dice.below(2)],
            7 if !self.small => vec![b'y'; self.dice.one(&[65, 1000, 20_000, 70_000])],
            _ => (0..self.dice.below(20)).map(|_| b'a' + self.dice.below(4) as u8).collect(),
        }
    }

    fn float(&mut self) -> &'static str {
        match self.dice.one(FLOATS) {
            // Counted on, it has 400 digits.
            "1e400" if self.small => "1e40",
            float => float,
        }
    }

    fn integer(&mut self) -> String {
        match self.dice.below(6) {
            0 => self.dice.one(INTEGERS).to_owned(),
            1 => self.dice.one(NO_NUMBERS).to_owned(),
            _ => (self.dice.below(2001) as i64 - 1000).to_string(),
        }
    }

    /// A time far ahead, or long ago.
    fn moment(&mut self, factor: u64) -> String {
        match self.dice.below(8) {
            0 => "1".to_owned(),
            1 => self.dice.one(NO_NUMBERS).to_owned(),
            _ => self.later(factor),
        }
    }

    fn later(&mut self, factor: u64) -> String {
        ((self.now + 1000 * (1 + self.dice.below(100) as u64)) * factor).to_string()
    }

    /// Now and then a word is missing, or one too many, or the name is written otherwise.
    fn breakage(&mut self, words: &mut Words) {
        match self.dice.below(60) {
            0 => {
                words.pop();
            }
            1 => words.push(b"extra".to_vec()),
            2 => words[0] = words[0].to_ascii_lowercase(),
            3 => words.truncate(1),
            _ => {}
        }
        if words.is_empty() {
            words.push(b"PING".to_vec());
        }
    }
}

const FLOATS: &[&str] = &[
    "1.5",
    "-0.1",
    "3",
    "1e3",
    "1e-5",
    "inf",
    "-inf",
    "nan",
    "0x10",
    " 1",
    "1 ",
    "",
    "1.0",
    "12345678901234567890",
    "1e400",
    "0.1e1",
    "5.0e-324",
    "-0",
];
const INTEGERS: &[&str] = &[
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775806",
    "-9223372036854775807",
    "0",
    "1",
];
const NO_NUMBERS: &[&str] = &[
    "x",
    "",
    "1.5",
    " 1",
    "1 ",
    "+1",
    "01",
    "-0",
    "9223372036854775808",
    "0x1",
    "1e2",
    "-",
    "--1",
];

/// Whether a command can be written on one line, as people type it.
pub fn inline(words: &Words) -> Option<Vec<u8>> {
    let plain = |word: &Vec<u8>| {
        !word.is_empty() && word.len() < 100 && word.iter().all(|byte| byte.is_ascii_alphanumeric())
    };
    words.iter().all(plain).then(|| {
        let mut line = words.join(&b' ');
        line.extend(b"\r\n");
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_comes_and_every_brace_is_drawn() {
        let mut stream = Stream::new(1, 1_000_000_000, false);
        let mut names = std::collections::HashSet::new();
        for _ in 0..20_000 {
            let words = stream.next_command();
            names.insert(words[0].to_ascii_uppercase());
            let odd = |word: &Vec<u8>| word.starts_with(b"{") || word.ends_with(b"}");
            assert!(!words.iter().any(odd), "{words:?}");
        }
        for shape in SHAPES {
            let name = shape.split(' ').next().unwrap();
            assert!(names.contains(name.as_bytes()), "{name}");
        }
    }
}
