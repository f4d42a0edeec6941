//! Random commands to Larder and to a redis-server from Debian: the replies are the same, byte for
//! byte.
//!
//! Not compared, or not sent, and why:
//!
//! | what | why |
//! |---|---|
//! | RANDOMKEY's key, HRANDFIELD without a count beyond the fields | drawn; whether there is one is compared |
//! | the order of KEYS and SCAN | Redis's is that of its table |
//! | the order in hashes with a value of more than 64 bytes | Redis keeps it only for small ones; Larder always does |
//! | TTL, PTTL and the times of relative expiries | the clocks are read at different moments: two seconds are allowed |
//! | OBJECT ENCODING | Redis's tells the history of a string; that it is a string or a hash is compared |
//! | OBJECT FREQ | Larder evicts by it, the Redis beside it does not |
//! | the cursor of SCAN, and what one step shows | each server's own; a walk in one step is compared |
//! | COMMAND without more, and COUNT | Redis has more commands; a test of its own compares what both have |
//! | SWAPDB | `databases.rs` compares it |
//! | a SET that expires at once | Redis counts it until somebody looks |
//! | LCS of two long strings | both refuse, each names its own limit |
//! | scripts | Larder says which it knows |
//! | figures of memory, DUMP, identifiers of clients, times of idleness | each server's own |

use larder_tests::memcache_stream::Dice;
use larder_tests::redis_stream::{Stream, Words, inline};
use larder_tests::{Redis, Resp, Value, redis::command};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

/// Commands per seed.
const COMMANDS: usize = 6000;
/// Commands sent at once, at the most.
const BATCH: usize = 40;
/// Differences shown, at the most.
const SHOWN: usize = 12;

fn shown(words: &Words) -> String {
    let word = |word: &Vec<u8>| {
        String::from_utf8_lossy(&word[..word.len().min(60)]).escape_debug().to_string()
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Sends commands in pieces as `dice` says, and reads a reply to each.
fn replies(
    talk: &mut Resp<TcpStream>,
    commands: &[Words],
    dice: &mut Dice,
) -> Vec<(Value, Vec<u8>)> {
    let mut bytes = Vec::new();
    for words in commands {
        match inline(words).filter(|_| dice.once_in(10)) {
            Some(line) => bytes.extend(line),
            None => bytes.extend(command(words)),
        }
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let piece = match dice.below(4) {
            0 => 1 + dice.below(30.min(rest.len())),
            1 => 1 + dice.below(rest.len()),
            _ => rest.len(),
        };
        let (now, later) = rest.split_at(piece.min(rest.len()));
        talk.send(now);
        rest = later;
    }
    commands
        .iter()
        .map(|words| talk.maybe().unwrap_or_else(|| panic!("closed at {}", shown(words))))
        .collect()
}

/// Whether the replies are the same, as far as both servers must agree.
fn same(words: &Words, larder: &(Value, Vec<u8>), redis: &(Value, Vec<u8>), small: bool) -> bool {
    if larder.1 == redis.1 {
        return true;
    }
    let (left, right) = (&larder.0, &redis.0);
    let name = words[0].to_ascii_uppercase();
    match &name[..] {
        b"HELLO" => left.items().len() == right.items().len() && !left.is_error(),
        b"COMMAND" => words.len() == 1 || words[1] == b"COUNT",
        b"LCS" => left.text().contains("too long for LCS"),
        b"TIME" => left.items().len() == 2 && right.items().len() == 2,
        b"RANDOMKEY" => matches!((left, right), (Value::Bulk(_, Some(_)), Value::Bulk(_, Some(_)))),
        b"HRANDFIELD" => {
            let pairs = 1 + usize::from(
                words.len() > 3 && matches!(left.items().first(), Some(Value::Bulk(..))),
            );
            (sorted(left, pairs).is_some() && sorted(left, pairs) == sorted(right, pairs))
                || drawn(left, right)
        }
        b"KEYS" => sorted(left, 1).is_some() && sorted(left, 1) == sorted(right, 1),
        b"SCAN" if !words.iter().any(|word| word == b"1000") => {
            !left.is_error() && !right.is_error()
        }
        b"SCAN" => match (scanned(left, 1), scanned(right, 1)) {
            // A step ends by time, too: on a busy machine it may show a part.
            (Some((cursor, ours)), Some((_, theirs))) if cursor.text() != "0" => {
                ours.iter().all(|key| theirs.contains(key))
            }
            (ours, theirs) => ours.is_some() && ours == theirs,
        },
        b"HSCAN" if !small => scanned(left, 2).is_some() && scanned(left, 2) == scanned(right, 2),
        b"HKEYS" | b"HVALS" if !small => {
            sorted(left, 1).is_some() && sorted(left, 1) == sorted(right, 1)
        }
        b"HGETALL" if !small => sorted(left, 2).is_some() && sorted(left, 2) == sorted(right, 2),
        b"TTL" | b"EXPIRETIME" => near(left, right, 2),
        b"PTTL" | b"PEXPIRETIME" => near(left, right, 2000),
        // Redis tells it only where it evicts by it; so does Larder, which evicts by nothing else.
        b"OBJECT" if words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"FREQ")) => {
            matches!(left, Value::Line(b':', _)) && right.text().starts_with("ERR An LFU")
        }
        b"OBJECT" => drawn(left, right) && small_string(left) == small_string(right),
        _ => false,
    }
}

fn small_string(value: &Value) -> bool {
    ["int", "embstr", "raw"].contains(&&*value.text())
}

fn drawn(left: &Value, right: &Value) -> bool {
    matches!((left, right), (Value::Bulk(_, Some(_)), Value::Bulk(_, Some(_))))
}

/// The items in groups of `size`, sorted; a reply that holds none stays as it is. A map and pairs
/// are groups already.
fn sorted(value: &Value, size: usize) -> Option<Vec<Vec<Value>>> {
    let Value::Many(_, Some(items)) = value else { return None };
    let mut groups: Vec<Vec<Value>> = items.chunks(size).map(<[Value]>::to_vec).collect();
    groups.sort();
    Some(groups)
}

fn scanned(value: &Value, size: usize) -> Option<(Value, Vec<Vec<Value>>)> {
    let [cursor, items] = value.items() else { return None };
    Some((cursor.clone(), sorted(items, size)?))
}

fn near(left: &Value, right: &Value, allowed: u64) -> bool {
    let number = |value: &Value| match value {
        Value::Line(b':', text) => String::from_utf8_lossy(text).parse::<i64>().ok(),
        _ => None,
    };
    match (number(left), number(right)) {
        // Below zero is a word, not a time.
        (Some(left), Some(right)) if left >= 0 && right >= 0 => left.abs_diff(right) <= allowed,
        _ => false,
    }
}

/// Replies of a transaction belong to the commands in it.
fn same_transaction(queued: &[Words], larder: &Value, redis: &Value, small: bool) -> bool {
    let (left, right) = (larder.items(), redis.items());
    left.len() == right.len()
        && left.len() == queued.len()
        && queued.iter().zip(left).zip(right).all(|((words, left), right)| {
            left == right || same(words, &(left.clone(), vec![0]), &(right.clone(), vec![1]), small)
        })
}

/// What a stream of commands has come to.
#[derive(Default)]
struct Verdict {
    history: Vec<Words>,
    queued: Option<Vec<Words>>,
    differences: Vec<String>,
}

impl Verdict {
    fn look(
        &mut self,
        words: &Words,
        larder: &(Value, Vec<u8>),
        redis: &(Value, Vec<u8>),
        small: bool,
    ) {
        let name = words[0].to_ascii_uppercase();
        let queued = redis.1 == b"+QUEUED\r\n";
        let good = match &mut self.queued {
            Some(all) if name == b"EXEC" => {
                larder.1 == redis.1 || same_transaction(all, &larder.0, &redis.0, small)
            }
            _ => same(words, larder, redis, small),
        };
        match &mut self.queued {
            Some(all) if queued => all.push(words.clone()),
            _ => {}
        }
        match &name[..] {
            b"MULTI" if redis.1 == b"+OK\r\n" => self.queued = Some(Vec::new()),
            b"EXEC" | b"DISCARD" if !redis.0.text().contains("wrong number") => self.queued = None,
            _ => {}
        }
        if !good {
            // What has no words of its own is about all that came before.
            let about = |past: &&Words| {
                words.len() == 1 || past.iter().skip(1).any(|word| words[1..].contains(word))
            };
            let most = if words.len() == 1 { 25 } else { 4 };
            let past: Vec<String> =
                self.history.iter().rev().filter(about).take(most).map(shown).collect();
            self.differences.push(format!(
                "{}\n   larder {}\n   redis  {}\n   before: {}",
                shown(words),
                cut(&larder.1),
                cut(&redis.1),
                past.join(" <- ")
            ));
        }
        self.history.push(words.clone());
    }
}

fn cut(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).escape_debug().to_string()
}

fn compare(seed: u64, version: &str, small: bool) {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let (mut left, mut right) = (larder.connect(), redis.connect());
    assert_eq!(left.ask(&["HELLO", version]).is_error(), right.ask(&["HELLO", version]).is_error());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_secs();
    let mut stream = Stream::new(seed, now, small);
    let mut dice = Dice::new(seed ^ 0x5eed);
    let mut verdict = Verdict::default();
    let mut sent = 0;
    while sent < COMMANDS && verdict.differences.is_empty() {
        let commands: Vec<Words> = (0..=dice.below(BATCH)).map(|_| stream.next_command()).collect();
        sent += commands.len();
        let (ours, theirs) =
            (replies(&mut left, &commands, &mut dice), replies(&mut right, &commands, &mut dice));
        for ((words, ours), theirs) in commands.iter().zip(&ours).zip(&theirs) {
            verdict.look(words, ours, theirs, small);
        }
    }
    verdict.differences.truncate(SHOWN);
    assert!(
        verdict.differences.is_empty(),
        "seed {seed}, RESP{version}, after {sent} commands:\n{}",
        verdict.differences.join("\n")
    );
}

#[test]
fn resp2_with_small_values() {
    for seed in 1..=3 {
        compare(seed, "2", true);
    }
}

#[test]
fn resp2_with_large_values() {
    for seed in 11..=12 {
        compare(seed, "2", false);
    }
}

#[test]
fn resp3_with_small_values() {
    for seed in 21..=23 {
        compare(seed, "3", true);
    }
}

#[test]
fn resp3_with_large_values() {
    for seed in 31..=32 {
        compare(seed, "3", false);
    }
}

/// Bytes that are no commands; each on a connection of its own, and the end of it is compared.
const BROKEN: &[&[u8]] = &[
    b"*1\r\n$x\r\n",
    b"*1\r\n$-1\r\n",
    b"*x\r\n",
    b"*2147483648\r\n",
    b"*1\r\n:1\r\n",
    b"*1\r\n$99999999999\r\n",
    b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
    b"*0\r\n*-5\r\n\r\n\r\nPING\r\n",
    b"SET a \"unbalanced\r\n",
    b"SET a 'b\\'c'\r\nGET a\r\n",
    b"SET a \"\\x41\\n\"\r\nGET a\r\n",
    b"PING 'a'b\r\n",
    b"POST / HTTP/1.1\r\n\r\n",
    b"host: a\r\n",
    b"PING\nPING\r\n",
];

#[test]
fn what_is_no_command_is_answered_alike() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut wrong = String::new();
    for bytes in BROKEN {
        let answer = |server: &Redis| {
            let mut talk = server.connect();
            talk.send(bytes);
            talk.stream().shutdown(std::net::Shutdown::Write).unwrap();
            cut(&talk.rest())
        };
        let (ours, theirs) = (answer(&larder), answer(&redis));
        if ours != theirs {
            wrong.push_str(&format!("{}\n  larder {ours}\n  redis  {theirs}\n", cut(bytes)));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Who has not authenticated may send little, and is told so when it is announced.
#[test]
fn strangers_are_refused_alike() {
    let servers = [Redis::larder(&["--requirepass", "x"]), Redis::debian(&["--requirepass", "x"])];
    for bytes in [
        &b"*11\r\n"[..],
        b"*10\r\n$4\r\nPING\r\n$16385\r\n",
        b"*1000000\r\n$4\r\nPING\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\n",
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nAUTH y\r\nAUTH x\r\n*11\r\n$4\r\nPING\r\n",
    ] {
        let [larder, redis] = servers.each_ref().map(|server| {
            let mut talk = server.connect();
            talk.send(bytes).stream().shutdown(std::net::Shutdown::Write).unwrap();
            cut(&talk.rest())
        });
        assert_eq!(larder, redis, "{}", cut(bytes));
    }
}

/// Where there is no room, a command is refused and the connection goes on; a transaction is none
/// any more.
#[test]
fn what_there_is_no_room_for_is_refused_alike() {
    let servers = [
        Redis::larder(&["--memory", "8MiB"]),
        Redis::debian(&["--maxmemory", "100kb", "--maxmemory-policy", "noeviction"]),
    ];
    let mut many: Words = vec![b"MSET".to_vec()];
    many.extend((0..50).map(|_| vec![b'v'; 1_000_000]));
    many.push(b"odd".to_vec());
    many.push(b"even".to_vec());
    let line = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Words>();
    let commands = [many.clone(), line("PING"), line("CLIENT REPLY SKIP"), many, line("ECHO on")];
    let [larder, redis] = servers.each_ref().map(|server| {
        let mut talk = server.connect();
        // A command whose answer is skipped, and the one before it, are not answered.
        let answered = commands.len() - 2;
        commands.iter().for_each(|words| {
            talk.send(command(words));
        });
        (0..answered).map(|_| talk.reply()).collect::<Vec<_>>()
    });
    assert_eq!(larder, redis);
    assert!(larder[0].text().starts_with("OOM "), "{:?}", larder[0]);
}

/// What SHUTDOWN says before it would do anything.
#[test]
fn a_shutdown_that_makes_no_sense_is_refused_alike() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let (mut left, mut right) = (larder.connect(), redis.connect());
    for words in ["SHUTDOWN later", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW", "SHUTDOWN ABORT"]
    {
        assert_eq!(left.say(words), right.say(words), "{words}");
    }
}

/// A page in a browser can have it send bytes to any port of this machine, but not without these
/// words.
#[test]
fn browsers_are_cut_off() {
    let larder = Redis::larder(&[]);
    for head in
        ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 30\r\n\r\n"]
    {
        let mut browser = larder.connect();
        browser.send(head).send("SET forged 1\r\n");
        browser.rest();
        assert_eq!(larder.connect().say("GET forged"), "(nil)", "{head}");
    }
}

/// The parts of COMMAND's answer by which clients route and check: name, arity, flags, and the
/// places of the keys.
#[test]
fn commands_are_described_alike() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let (mut left, mut right) = (larder.connect(), redis.connect());
    let names = left.ask(&["COMMAND", "LIST"]);
    assert!(names.items().len() > 100, "{}", names.items().len());
    let mut wrong = String::new();
    for name in names.items() {
        let name = name.text();
        let facts = |talk: &mut Resp<TcpStream>| {
            let info = talk.ask(&["COMMAND", "INFO", &name]);
            let one = info.items().first().cloned()?;
            let items = one.items();
            let mut flags: Vec<Value> = items.get(2)?.items().to_vec();
            flags.sort();
            Some((items[0].clone(), items[1].clone(), flags, items[3..6].to_vec()))
        };
        let (ours, theirs) = (facts(&mut left), facts(&mut right));
        if ours != theirs && theirs.is_some() {
            wrong.push_str(&format!("{name}\n  larder {ours:?}\n  redis  {theirs:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
