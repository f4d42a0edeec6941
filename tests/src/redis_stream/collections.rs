//! Commands on lists, sets and sorted sets.

use super::{Stream, Words};

pub(super) const SHAPES: &[&str] = &[
    "LPUSH {c} {mm}",
    "RPUSH {c} {mm}",
    "RPUSH {c} {mm}",
    "LPUSHX {c} {m}*",
    "RPUSHX {c} {m}*",
    "LPOP {c} [{o}]",
    "RPOP {c} [{o}]",
    "LLEN {c}",
    "LRANGE {c} {o} {o}",
    "LRANGE {c} 0 -1",
    "LINDEX {c} {o}",
    "LSET {c} {o} {m}",
    "LINSERT {c} (BEFORE|AFTER|FOO) {m} {m}",
    "LREM {c} {o} {m}",
    "LTRIM {c} (0|1|-5) (-1|-2|100)",
    "LPOS {c} {m} [RANK_{o}] [COUNT_{o}] [MAXLEN_{o}]",
    "RPOPLPUSH {c} {c}",
    "LMOVE {c} {c} (LEFT|RIGHT|FOO) (LEFT|right)",
    "LMPOP {nc} (LEFT|RIGHT|FOO) [COUNT_{o}]",
    "BLPOP {c}* (0.01|x|-1|1e400)",
    "BRPOP {c}* 0.01",
    "BLMOVE {c} {c} LEFT RIGHT (0.01|x|-1)",
    "BRPOPLPUSH {c} {c} 0.01",
    "BLMPOP 0.01 {nc} LEFT [COUNT_{o}]",
    "SADD {c} {mm}",
    "SADD {c} {mm}",
    "SREM {c} {m}*",
    "SCARD {c}",
    "SISMEMBER {c} {m}",
    "SMISMEMBER {c} {m}*",
    "SMEMBERS {c}",
    "SMOVE {c} {c} {m}",
    "SPOP {c} (100000|0|-1|x)",
    "SRANDMEMBER {c} [0|100000|-3|x]",
    "SSCAN {c} (0|x) COUNT 100000 [MATCH_*1*]",
    "SINTER {c}*",
    "SUNION {c}*",
    "SDIFF {c}*",
    "SINTERSTORE {c} {c}*",
    "SUNIONSTORE {c} {c}*",
    "SDIFFSTORE {c} {c}*",
    "SINTERCARD {nc} [LIMIT_{o}]",
    "ZADD {c} [NX|XX|GT|LT|NX_XX|GT_LT] [CH] {rm}",
    "ZADD {c} {rm}",
    "ZADD {c} {rm}",
    "ZADD {c} [NX|XX] INCR {r} {m}",
    "ZINCRBY {c} {r} {m}",
    "ZREM {c} {m}*",
    "ZCARD {c}",
    "ZSCORE {c} {m}",
    "ZMSCORE {c} {m}*",
    "ZRANK {c} {m}",
    "ZREVRANK {c} {m}",
    "ZRANGE {c} {o} {o} [REV] [WITHSCORES]",
    "ZRANGE {c} 0 -1 WITHSCORES",
    "ZRANGE {c} {b} {b} BYSCORE [REV] [LIMIT_{o}_{o}] [WITHSCORES]",
    "ZRANGE {c} {o} {o} (LIMIT|FOO|BYLEX_WITHSCORES)",
    "ZREVRANGE {c} {o} {o} [WITHSCORES]",
    "ZRANGEBYSCORE {c} {b} {b} [LIMIT_{o}_{o}] [WITHSCORES]",
    "ZREVRANGEBYSCORE {c} {b} {b} [LIMIT_{o}_{o}] [WITHSCORES]",
    "ZRANGEBYLEX lex {l} {l} [LIMIT_{o}_{o}]",
    "ZREVRANGEBYLEX lex {l} {l} [LIMIT_{o}_{o}]",
    "ZLEXCOUNT lex {l} {l}",
    "ZREMRANGEBYLEX lex {l} {l}",
    "ZADD lex 0 {m} 0 {m} 0 {m} 0 {m}",
    "ZRANGESTORE {c} lex {l} {l} BYLEX [REV] [LIMIT_{o}_{o}]",
    "ZRANGESTORE {c} {c} {b} {b} BYSCORE [REV] [LIMIT_{o}_{o}]",
    "ZRANGESTORE {c} {c} {o} {o}",
    "ZCOUNT {c} {b} {b}",
    "ZREMRANGEBYRANK {c} {o} {o}",
    "ZREMRANGEBYSCORE {c} {b} {b}",
    "ZPOPMIN {c} [{o}]",
    "ZPOPMAX {c} [{o}]",
    "ZMPOP {nc} (MIN|MAX|FOO) [COUNT_{o}]",
    "BZPOPMIN {c}* 0.01",
    "BZPOPMAX {c}* (0.01|x|-1)",
    "BZMPOP 0.01 {nc} MIN [COUNT_{o}]",
    "ZRANDMEMBER {c} [0|100000|-3|x] [WITHSCORES]",
    "ZSCAN {c} 0 COUNT 100000 [MATCH_*1*]",
    "ZUNION {nc} [AGGREGATE_(SUM|MIN|MAX|FOO)] [WITHSCORES]",
    "ZINTER {nc} [WEIGHTS_2_3|WEIGHTS_x] [WITHSCORES]",
    "ZDIFF {nc} [WITHSCORES]",
    "ZUNIONSTORE {c} {nc} [WEIGHTS_2|WEIGHTS_0.5_3]",
    "ZINTERSTORE {c} {nc} [AGGREGATE_MAX]",
    "ZDIFFSTORE {c} {nc}",
    "ZINTERCARD {nc} [LIMIT_{o}]",
    "SORT {c} ALPHA [DESC] [LIMIT_{o}_{o}]",
    "SORT {c} [DESC] [LIMIT_{o}_{o}]",
    "SORT {c} BY w* GET # GET w* ALPHA STORE {c}",
    "SORT_RO {c} ALPHA [BY_nosort] [STORE_{c}]",
    "SET w{m} {i}",
    "TYPE {c}",
    "OBJECT ENCODING {c}",
    "EXISTS {c}*",
    "DEL {c}*",
    "SET {c} {m}",
    "HSET {c} f {m}",
    "GET {c}",
    "APPEND {c} x",
    "HGETALL {c}",
    "COPY {c} {c} [REPLACE]",
    "RENAME {c} {c}",
    "RENAMENX {c} {c}",
    "MOVE {c} 1",
    "EXPIRE {c} 1000",
    "TTL {c}",
    "SCAN 0 COUNT 100000 TYPE (list|set|zset|hash|string)",
    "MULTI",
    "EXEC",
    "EXEC",
    "WATCH {c}",
    "COMMAND GETKEYS ZUNION {nc}",
    "COMMAND GETKEYS SORT {c} STORE {c}",
];

impl Stream {
    /// Draws a word of these shapes. False: it is of another kind.
    pub(super) fn collection_word(&mut self, word: &str, words: &mut Words) -> bool {
        match word {
            "{c}" => words.push(self.collection()),
            "{m}" => words.push(self.member()),
            "{mm}" => (0..self.many()).for_each(|_| words.push(self.member())),
            "{r}" => words.push(self.score()),
            "{rm}" => {
                for _ in 0..self.many() {
                    let (score, member) = (self.score(), self.member());
                    words.extend([score, member]);
                }
            }
            "{nc}" => {
                let keys: Words = (0..=self.dice.below(3)).map(|_| self.collection()).collect();
                let number = match self.dice.below(12) {
                    0 => self.dice.one(&["0", "-1", "x", "9"]).to_owned(),
                    _ => keys.len().to_string(),
                };
                words.push(number.into());
                words.extend(keys);
            }
            "{b}" => {
                let bound = self.dice.one(&["-inf", "+inf", "(3", "5", "(-2", "12", "0", "(", "x"]);
                words.push(bound.into());
            }
            "{l}" => {
                let bound = self.dice.one(&["-", "+", "[1", "(v1", "[v", "(x", "[", "foo"]);
                words.push(bound.into());
            }
            _ => return false,
        }
        true
    }

    fn collection(&mut self) -> Vec<u8> {
        vec![b'c', b'1' + self.dice.below(4) as u8]
    }

    /// Mostly few at once; now and then more than one record holds.
    fn many(&mut self) -> usize {
        match self.dice.below(8) {
            0 if !self.small => 100 + self.dice.below(400),
            0 | 1 => 1 + self.dice.below(30),
            _ => 1 + self.dice.below(3),
        }
    }

    fn member(&mut self) -> Vec<u8> {
        let most = if self.small { 30 } else { 3000 };
        match self.dice.below(8) {
            0 => Vec::new(),
            1 => b"a\0\r\n\xff".to_vec(),
            2..=4 => self.dice.below(most).to_string().into(),
            5 if !self.small => vec![b'x'; self.dice.below(300)],
            _ => format!("v{}", self.dice.below(most)).into(),
        }
    }

    /// Not -0: Redis keeps its sign in large sorted sets alone.
    fn score(&mut self) -> Vec<u8> {
        let odd = ["inf", "-inf", "1e5", "0.1", "-2.5", "1e-10", "0x10", "nan", "x", "3.0", ""];
        match self.dice.below(6) {
            0 => self.dice.one(&odd).into(),
            _ => (self.dice.below(30) as i64 - 10).to_string().into(),
        }
    }
}
