//! Random commands to Larder and to a memcached from Debian: the answers are the same, byte for
//! byte.
//!
//! Not compared, or not sent, and why:
//!
//! | what | why |
//! |---|---|
//! | numbers of versions (`cas unique`) | each server counts its own; the order in which they appear is compared |
//! | times | the servers' clocks tick at different moments; two seconds are allowed |
//! | what memcached had still to send when it closes | it loses that when there is something it has not read; Larder sends it |
//! | `me`: `cls`, `size`, `fetch` | slab classes and bytes of overhead are each server's own; memcached's own look-ups count as fetches |
//! | `I` with `C`, of several items | which of two items' versions is the older one is each server's own; of one item it is compared |
//! | values within 256 bytes of the largest | memcached's own overhead decides which of them fit |
//! | `ma` with `T` | memcached 1.6.18 forgets the new expiry when the number becomes longer |
//! | meta `t` before `T` or `N` | memcached tells the time as it was before, Larder as it is after |
//! | `mg` with `N` and `b`, `ma` with both, or `N` and `T`; `T-1` with `t` | memcached 1.6.18 answers the raw key, counts its own making as a read, wraps |
//! | a stale item, counted, pipelined | memcached keeps or loses the mark, depending on who holds the item at the moment; one by one it is compared |
//! | `ms` with `C` and a value too large | memcached removes the item, though the version might not have been its own |
//! | meta `k` of an item stored with `b` whose key needs no base64, or joined to | memcached keeps the flag with the item, until something is appended; Larder looks at the key |
//! | a retrieval with an overlong key, pipelined | memcached 1.6.18 sends earlier answers twice |
//! | a text length beyond 31 bits | memcached 1.6.18 says nothing and waits; Larder refuses at once |
//! | a number of blanks alone, counted | memcached 1.6.18 reads on into other memory |
//! | a counter that becomes shorter, pipelined | memcached pads it with blanks unless an answer with its old value waits to be sent; one by one it is compared |
//! | binary: an unknown opcode with extras or a key | memcached 1.6.18 throws away so many bytes too much and waits for them |
//! | binary: `touch`, `gat`, `stat` with a value | memcached 1.6.18 takes the value for the next command; Larder refuses |
//! | statistics | figures of memory and time; tests of their own compare the names |

use larder_tests::memcache::{End, Memcached, Talk};
use larder_tests::memcache_answers::{Answers, Versions};
use larder_tests::memcache_stream::{Command, Dice, Stream};
use std::net::TcpStream;
use std::time::Duration;

/// Commands per seed.
const COMMANDS: usize = 4000;
/// Batches a shortened history may be tried again with.
const TRIES: usize = 120;
/// How long a server may be silent before that counts as its answer. Only a server that hangs takes
/// so long.
const SILENCE: Duration = Duration::from_secs(5);

/// One server and what it has shown.
struct Side {
    server: Memcached,
    talk: Talk<TcpStream>,
    versions: Versions,
}

impl Side {
    fn new(server: Memcached) -> Side {
        let talk = connect(&server);
        Side { server, talk, versions: Versions::default() }
    }

    /// Sends the commands, in as many pieces as `dice` says, and reads all answers.
    fn answers(
        &mut self,
        commands: &[Command],
        binary: bool,
        nonce: u32,
        mut dice: Dice,
    ) -> (Answers, End) {
        let (last, end) = sentinel(binary, nonce);
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| bytes.extend(command.bytes(&self.versions)));
        bytes.extend(last);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let piece = match dice.below(6) {
                0 => 1 + dice.below(30.min(rest.len())),
                1 => 1 + dice.below(rest.len()),
                _ => rest.len(),
            };
            let (now, later) = rest.split_at(piece.min(rest.len()));
            self.talk.send(now);
            rest = later;
        }
        let (got, found) = self.talk.until(&end);
        if found != End::Found {
            self.talk = connect(&self.server);
        }
        (Answers::parse(&got, binary, &mut self.versions), found)
    }

    /// As if nothing had ever been asked.
    fn forget(&mut self) {
        self.talk = connect(&self.server);
        self.talk.expect("flush_all\r\n", "OK\r\n");
        self.talk = connect(&self.server);
        self.versions = Versions::default();
    }
}

fn connect(server: &Memcached) -> Talk<TcpStream> {
    let mut talk = server.connect();
    talk.patience(SILENCE);
    talk
}

/// A last command, and how the answer to it ends: nothing else in a batch has its number.
fn sentinel(binary: bool, nonce: u32) -> (Vec<u8>, Vec<u8>) {
    if !binary {
        let last = format!("md sentinel O{nonce:08x} k\r\n");
        return (last.into(), format!("NF O{nonce:08x} ksentinel\r\n").into());
    }
    let packet = |magic: u8| {
        let mut packet = vec![magic, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        packet.extend(nonce.to_be_bytes());
        packet.extend([0; 8]);
        packet
    };
    (packet(0x80), packet(0x81))
}

/// Both servers, asked the same.
struct Pair {
    larder: Side,
    memcached: Side,
    nonce: u32,
}

/// Where answers differ.
struct Difference {
    larder: (Answers, End),
    memcached: (Answers, End),
}

impl std::fmt::Debug for Difference {
    /// From shortly before where they part.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sides =
            [&self.larder, &self.memcached].map(|side| format!("{:?} {:?}", side.0, side.1));
        let parted = sides[0].bytes().zip(sides[1].bytes()).position(|(a, b)| a != b).unwrap_or(0);
        for (name, side) in ["larder", "memcached"].iter().zip(&sides) {
            let from = parted.saturating_sub(150).min(side.len());
            let shown = side.get(from..(parted + 250).min(side.len())).unwrap_or(side);
            writeln!(f, "{name:>9}: ...{shown}")?;
        }
        Ok(())
    }
}

impl Pair {
    fn new(flags: &[&str]) -> Pair {
        Pair {
            larder: Side::new(Memcached::larder(flags)),
            memcached: Side::new(Memcached::debian(flags)),
            nonce: 0,
        }
    }

    fn batch(&mut self, commands: &[Command], binary: bool, split: u64) -> Result<(), Difference> {
        self.nonce += 1;
        let larder = self.larder.answers(commands, binary, self.nonce, Dice::new(split));
        let memcached = self.memcached.answers(commands, binary, self.nonce, Dice::new(split));
        let lost = memcached.1 == End::Closed && larder.0.begins_with(&memcached.0);
        if larder.1 == memcached.1 && (lost || larder.0.same(&memcached.0)) {
            return Ok(());
        }
        Err(Difference { larder, memcached })
    }

    /// The commands one by one from the beginning: the difference they make, if any.
    fn again(&mut self, commands: &[Command], binary: bool) -> Option<Difference> {
        self.larder.forget();
        self.memcached.forget();
        commands
            .iter()
            .find_map(|command| self.batch(std::slice::from_ref(command), binary, u64::MAX).err())
    }

    /// Leaves out what the difference does not need.
    fn shorten(
        &mut self,
        mut commands: Vec<Command>,
        binary: bool,
    ) -> (Vec<Command>, Option<Difference>) {
        let mut seen = self.again(&commands, binary);
        let (mut piece, mut tries) = (commands.len() / 2, 0);
        while piece > 0 && seen.is_some() {
            let mut at = 0;
            while at < commands.len() && tries < TRIES {
                let mut fewer = commands.clone();
                fewer.drain(at..(at + piece).min(commands.len()));
                tries += 1;
                match self.again(&fewer, binary) {
                    Some(difference) => (commands, seen) = (fewer, Some(difference)),
                    None => at += piece,
                }
            }
            piece /= 2;
        }
        (commands, seen)
    }
}

/// `TEST_SEED` runs one seed alone.
fn seeds(of: &[u64]) -> Vec<u64> {
    match std::env::var("TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("TEST_SEED is a number")],
        Err(_) => of.to_vec(),
    }
}

fn compare(seed: u64, binary: bool) {
    let (mut pair, mut stream, mut dice) =
        (Pair::new(&["-m", "256"]), Stream::new(seed), Dice::new(!seed));
    let mut history = Vec::new();
    while history.len() < COMMANDS {
        let count = 1 + dice.below(12);
        let one = |stream: &mut Stream| if binary { stream.binary() } else { stream.text() };
        let batch = (0..count).map(|_| one(&mut stream)).collect::<Vec<_>>();
        let result = pair.batch(&batch, binary, dice.number());
        history.extend(batch.iter().cloned());
        stream.shown(pair.memcached.versions.count());
        if let Err(difference) = result {
            let (short, shorter) = pair.shorten(history, binary);
            match shorter {
                Some(shorter) => panic!("seed {seed}: after\n{short:#?}\n{shorter:?}"),
                None => {
                    panic!(
                        "seed {seed}: the batch\n{batch:#?}\n{difference:?}\n(not seen again one \
                         by one)"
                    )
                }
            }
        }
    }
}

#[test]
fn text_and_meta() {
    for seed in seeds(&[1, 2, 3, 4]) {
        compare(seed, false);
    }
}

#[test]
fn counters_one_by_one() {
    for seed in seeds(&[21, 22]) {
        // memcached's background threads hold items now and then, and one that is held is not
        // counted in place.
        let mut pair = Pair::new(&["-o", "no_lru_maintainer,no_lru_crawler"]);
        let mut stream = Stream::new(seed);
        let mut history = Vec::new();
        for _ in 0..COMMANDS / 4 {
            history.push(stream.counting());
            if let Err(difference) = pair.batch(&history[history.len() - 1..], false, u64::MAX) {
                let (short, _) = pair.shorten(history, false);
                panic!("seed {seed}: after\n{short:#?}\n{difference:?}");
            }
        }
    }
}

/// Items marked stale, the right to store them anew, and versions older and newer than theirs: one
/// item, one by one.
#[test]
fn stale_items_one_by_one() {
    for seed in seeds(&[31, 32, 33, 34, 35, 36]) {
        // memcached's background threads hold items now and then, and one that is held is not
        // counted in place.
        let mut pair = Pair::new(&["-o", "no_lru_maintainer,no_lru_crawler"]);
        let mut stream = Stream::new(seed);
        let mut history = Vec::new();
        for _ in 0..COMMANDS / 4 {
            history.push(stream.stale(seed % 3 == 0));
            if let Err(difference) = pair.batch(&history[history.len() - 1..], false, u64::MAX) {
                let (short, _) = pair.shorten(history, false);
                panic!("seed {seed}: after\n{short:#?}\n{difference:?}");
            }
            stream.shown(pair.memcached.versions.count());
        }
    }
}

#[test]
fn binary() {
    for seed in seeds(&[11, 12, 13, 14]) {
        compare(seed, true);
    }
}

/// Dashboards look figures up by name: all of memcached's are there.
#[test]
fn statistics_have_the_same_names() {
    let servers = [Memcached::debian(&[]), Memcached::larder(&[])];
    let names = |server: &Memcached, what: &str| {
        let mut talk = server.connect();
        talk.expect("set k 0 0 1\r\nx\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
        let answer = talk.ask(format!("stats{what}\r\n"), "END\r\n");
        let name = |line: &str| {
            // Slab classes have numbers of each server's own.
            let name = line.strip_prefix("STAT ")?.split(' ').next()?;
            Some(name.replace(|c: char| c.is_ascii_digit(), "0").replace("00", "0"))
        };
        answer.lines().filter_map(name).collect::<std::collections::BTreeSet<_>>()
    };
    for what in ["", " settings", " items", " slabs", " conns"] {
        let [memcached, larder] = [0, 1].map(|at| names(&servers[at], what));
        let missing = memcached.difference(&larder).collect::<Vec<_>>();
        assert!(!memcached.is_empty() && missing.is_empty(), "stats{what} has no {missing:?}");
    }
}

/// The test's own proof: a server whose versions are not kept is told from one whose are.
#[test]
fn a_difference_is_seen() {
    let mut pair = Pair {
        larder: Side::new(Memcached::debian(&["-C"])),
        memcached: Side::new(Memcached::debian(&[])),
        nonce: 0,
    };
    let mut stream = Stream::new(5);
    let differs = (0..200).any(|_| pair.batch(&[stream.text()], false, u64::MAX).is_err());
    assert!(differs);
}
