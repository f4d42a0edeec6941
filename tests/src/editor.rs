//! A client that changes large collections together with others, and knows what it has put there.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};

use crate::Resp;
use crate::memcache_stream::Dice;
use crate::redis::{Value, command};

/// Elements of a client in each collection, at most.
const ELEMENTS: usize = 1500;
/// Pairs of fields of a client in the hash, which change together. Others read them.
const PAIRS: usize = 40;
/// Clients whose pairs are read.
const READ: usize = 4;
/// The collections.
const KEYS: [&str; 3] = ["set", "hash", "zset"];

/// One of several clients. Its elements have its number, so that they are its own.
pub struct Editor {
    number: usize,
    dice: Dice,
    client: Resp<TcpStream>,
    /// Its elements in each collection, with value or score.
    own: [BTreeMap<String, String>; 3],
    others: usize,
    /// Changes of pairs.
    changes: u64,
}

impl Editor {
    /// A client with this number.
    pub fn new(addr: SocketAddr, number: usize) -> Editor {
        let (dice, client) = (Dice::new(number as u64 + 1), Resp::tcp(addr));
        Editor { number, dice, client, own: Default::default(), others: 0, changes: 0 }
    }

    /// Changes some elements, and reads others of its own at once; changes a pair of fields, and
    /// reads one of any client. `filling`: stores so many bytes under another key, too.
    #[track_caller]
    pub fn step(&mut self, filling: usize) {
        let (mut sent, mut wanted) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let (which, element) = self.element();
            let own = &mut self.own[which];
            let known = own.get(&element).cloned();
            let value = format!("{}", self.dice.below(1_000_000));
            let key = KEYS[which];
            let removes = self.dice.below(3) == 0;
            let words: Vec<&str> = match (which, removes) {
                (0, true) => vec!["SREM", key, &element],
                (0, false) => vec!["SADD", key, &element],
                (1, true) => vec!["HDEL", key, &element],
                (1, false) => vec!["HSET", key, &element, &value],
                (_, true) => vec!["ZREM", key, &element],
                (_, false) => vec!["ZADD", key, &value, &element],
            };
            sent.extend(command(&words));
            wanted.push(if known.is_some() == removes { "1" } else { "0" }.to_owned());
            if removes {
                own.remove(&element);
            } else {
                own.insert(element, value);
            }
            let (which, element) = self.element();
            let reads = ["SISMEMBER", "HGET", "ZSCORE"][which];
            sent.extend(command(&[reads, KEYS[which], &element]));
            let known = self.own[which].get(&element);
            wanted.push(match which {
                0 => usize::from(known.is_some()).to_string(),
                _ => known.cloned().unwrap_or_else(|| "(nil)".to_owned()),
            });
        }
        if filling > 0 {
            self.others += 1;
            let key = format!("filling:{}:{}", self.number, self.others);
            sent.extend(command(&[&b"SET"[..], key.as_bytes(), &vec![b'x'; filling]]));
            wanted.push("OK".to_owned());
        }
        sent.extend(self.change_pair(&mut wanted));
        let [first, second] = pair(self.dice.below(READ), self.dice.below(PAIRS));
        sent.extend(read_pair("hash", [&first, &second]));
        self.client.send(&sent);
        for (nth, wanted) in wanted.iter().enumerate() {
            let got = self.client.reply();
            let is_null = matches!(&got, Value::Bulk(_, None));
            let got = if is_null { "(nil)".to_owned() } else { got.text() };
            assert_eq!(&got, wanted, "client {}, answer {nth}", self.number);
        }
        check_pair(&mut self.client);
    }

    /// Writes or removes both fields of a pair.
    fn change_pair(&mut self, wanted: &mut Vec<String>) -> Vec<u8> {
        let [first, second] = pair(self.number, self.dice.below(PAIRS));
        let own = &mut self.own[1];
        let is_there = own.contains_key(&first);
        if self.dice.below(4) == 0 {
            wanted.push(if is_there { "2" } else { "0" }.to_owned());
            let sent = command(&["HDEL", "hash", &first, &second]);
            own.remove(&first);
            own.remove(&second);
            return sent;
        }
        self.changes += 1;
        let value = pair_value(self.changes);
        wanted.push(if is_there { "0" } else { "2" }.to_owned());
        let sent = command(&["HSET", "hash", &first, &value, &second, &value]);
        own.insert(first, value.clone());
        own.insert(second, value);
        sent
    }

    fn element(&mut self) -> (usize, String) {
        let which = self.dice.below(3);
        (which, format!("{}:{}", self.number, self.dice.below(ELEMENTS)))
    }

    /// Compares the collections with all that the clients have put there.
    #[track_caller]
    pub fn check(editors: &mut [Editor]) {
        let mut all: [BTreeMap<String, String>; 3] = Default::default();
        for editor in editors.iter() {
            all.iter_mut().zip(&editor.own).for_each(|(all, own)| all.extend(own.clone()));
        }
        let client = &mut editors[0].client;
        for ((size, key), all) in ["SCARD", "HLEN", "ZCARD"].iter().zip(KEYS).zip(&all) {
            assert_eq!(client.ask(&[*size, key]).text(), all.len().to_string(), "{key}");
        }
        let set: BTreeMap<String, String> = client
            .ask(&["SMEMBERS", "set"])
            .items()
            .iter()
            .map(|item| (item.text(), all[0].get(&item.text()).cloned().unwrap_or_default()))
            .collect();
        let pairs = |value: Value| -> BTreeMap<String, String> {
            value.items().chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect()
        };
        let found = [set, pairs(client.ask(&["HGETALL", "hash"])), pairs(client.say_zset("zset"))];
        for ((found, all), key) in found.iter().zip(&all).zip(KEYS) {
            let missing = all.iter().find(|(name, value)| found.get(*name) != Some(value));
            let beyond = found.keys().find(|name| !all.contains_key(*name));
            assert!(missing.is_none() && beyond.is_none(), "{key}: {missing:?}, {beyond:?}");
        }
        // Ranks are counts in the nodes.
        for nth in [0, all[2].len() / 2, all[2].len() - 1] {
            let place = nth.to_string();
            let found = client.ask(&["ZRANGE", "zset", &place, &place]).items()[0].text();
            assert_eq!(client.ask(&["ZRANK", "zset", &found]).text(), place);
        }
    }
}

fn pair(client: usize, number: usize) -> [String; 2] {
    ["a", "b"].map(|which| format!("{client}:pair{number}:{which}"))
}

/// The value of both fields of a pair after so many changes. Its length follows from its number.
pub fn pair_value(number: u64) -> String {
    format!("{number:010}{}", "y".repeat(number as usize * 37 % 300))
}

/// Reads two fields that change together: both at once, then one after the other.
pub fn read_pair(key: &str, [first, second]: [&str; 2]) -> Vec<u8> {
    let both = command(&["HMGET", key, first, second]);
    [both, command(&["HGET", key, first]), command(&["HGET", key, second])].concat()
}

/// Checks the answers to that: no change was seen by half, or went back.
#[track_caller]
pub fn check_pair(client: &mut Resp<TcpStream>) {
    let number = |value: &Value| match value {
        Value::Bulk(_, None) => None,
        value => {
            let text = value.text();
            let number = text.get(..10).and_then(|number| number.parse().ok()).unwrap_or(0);
            assert_eq!(text, pair_value(number));
            Some(number)
        }
    };
    let both: Vec<_> = client.reply().items().iter().map(number).collect();
    assert_eq!(both[0], both[1], "read at once");
    let [first, second] = [client.reply(), client.reply()].map(|value| number(&value));
    // The pair may be removed meanwhile.
    if let (Some(first), Some(second)) = (first, second) {
        assert!(first <= second, "{first}, then {second}");
    }
}

impl Resp<TcpStream> {
    fn say_zset(&mut self, key: &str) -> Value {
        self.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"])
    }
}
