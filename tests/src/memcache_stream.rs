//! Random commands of memcached's protocols, right and broken ones, from a seed.

mod stale;

use crate::memcache_answers::Versions;

/// Numbers from a seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n as u64) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

#[derive(Clone)]
enum Part {
    Bytes(Vec<u8>),
    /// The version with this label, in digits or as the eight bytes of a header.
    Digits(usize),
    Eight(usize),
}

/// A command, but for the versions in it, which are each server's own.
#[derive(Clone, Default)]
pub struct Command(Vec<Part>);

impl Command {
    fn of(bytes: impl AsRef<[u8]>) -> Command {
        Command(vec![Part::Bytes(bytes.as_ref().to_vec())])
    }

    fn add(&mut self, bytes: impl AsRef<[u8]>) -> &mut Command {
        self.0.push(Part::Bytes(bytes.as_ref().to_vec()));
        self
    }

    /// As sent to the server that has shown these versions.
    pub fn bytes(&self, versions: &Versions) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in &self.0 {
            match part {
                Part::Bytes(part) => bytes.extend_from_slice(part),
                Part::Digits(label) => {
                    bytes.extend_from_slice(versions.value(*label).to_string().as_bytes())
                }
                Part::Eight(label) => {
                    bytes.extend_from_slice(&versions.value(*label).to_be_bytes())
                }
            }
        }
        bytes
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) if bytes.len() > 400 => {
                    write!(f, "{}...({} bytes)", bytes[..60].escape_ascii(), bytes.len())?;
                }
                Part::Bytes(bytes) => write!(f, "{}", bytes.escape_ascii())?,
                Part::Digits(label) | Part::Eight(label) => write!(f, "{{cas {label}}}")?,
            }
        }
        Ok(())
    }
}

/// Lines that are wrong, or right in ways clients rarely write.
const ODD: &[&str] = &[
    "\r\n",
    " \r\n",
    "bogus\r\n",
    "GET k0\r\n",
    "get\r\n",
    "gets \r\n",
    "get  k0\r\n",
    " get k0\r\n",
    "get k0 \r\n",
    "get k0\n",
    "gat\r\n",
    "gat 0\r\n",
    "gat abc k0\r\n",
    "gats 100\r\n",
    "set k0\r\n",
    "set k0 0 0\r\n",
    "set k0 0 0 -1\r\n",
    "set k0 a 0 1\r\nx\r\n",
    "set k0 0 b 1\r\nx\r\n",
    "set k0 0 0 c\r\n",
    "set k0 0 0 1\r\nxyz\r\n",
    "set k0 0 0 1\nx\r\n",
    "set k0 0 0 1 noreply\r\nxyz\r\n",
    "set k0 0 0 1 norepl\r\nx\r\n",
    "set k0 4294967295 0 1\r\nx\r\n",
    "set k0 4294967296 0 1\r\nx\r\n",
    "set k0 -1 0 1\r\nx\r\n",
    "set k0 0 99999999999 1\r\nx\r\n",
    "add k0 0 0\r\n",
    "cas k0 0 0 1\r\nx\r\n",
    "cas k0 0 0 1 abc\r\nx\r\n",
    "cas k0 0 0 1 1 2 3\r\nx\r\n",
    "incr k0\r\n",
    "incr k0 abc\r\n",
    "incr k0 -1\r\n",
    "incr k0 18446744073709551616\r\n",
    "decr\r\n",
    "incr k0 1 2 3\r\n",
    "delete\r\n",
    "delete k0 0\r\n",
    "delete k0 5\r\n",
    "delete k0 noreply\r\n",
    "delete k0 0 noreply\r\n",
    "delete k0 1 2 3\r\n",
    "touch k0\r\n",
    "touch k0 abc\r\n",
    "touch\r\n",
    "flush_all abc\r\n",
    "flush_all -5\r\n",
    "flush_all 0\r\n",
    "flush_all noreply\r\n",
    "flush_all 0 noreply\r\n",
    "verbosity\r\n",
    "verbosity 0\r\n",
    "verbosity 0 noreply\r\n",
    "version\r\n",
    "version x\r\n",
    "shutdown\r\n",
    "cache_memlimit\r\n",
    "slabs\r\n",
    "lru\r\n",
    "mn\r\n",
    "mn x\r\n",
    "mg\r\n",
    "mg k0 !\r\n",
    "mg k0 v v\r\n",
    "mg k0 Tabc\r\n",
    "mg k0 b\r\n",
    "me\r\n",
    "ms\r\n",
    "ms k0\r\n",
    "ms k0 abc\r\n",
    "ms k0 -1\r\n",
    "ms k0 1\r\nxyz\r\n",
    "ms k0 1 MZ\r\nx\r\n",
    "ms k0 1 MSET\r\nx\r\n",
    "ms k0 1 Fabc\r\nx\r\n",
    "md\r\n",
    "md k0 !\r\n",
    "ma\r\n",
    "ma k0 Dabc\r\n",
    "ma k0 MX\r\n",
    "quit\r\n",
];

/// Expiry times: never, later, gone already, and UNIX times gone and to come.
const EXPTIMES: &[&str] =
    &["0", "0", "0", "0", "0", "1000", "2592000", "-1", "2592001", "2000000000"];

/// Makes commands.
pub struct Stream {
    pub(crate) dice: Dice,
    /// Versions the servers have shown.
    versions: usize,
}

impl Stream {
    /// From a seed.
    pub fn new(seed: u64) -> Stream {
        Stream { dice: Dice::new(seed), versions: 0 }
    }

    /// The servers have shown so many versions.
    pub fn shown(&mut self, versions: usize) {
        self.versions = versions;
    }

    /// Any command of the text and meta protocols.
    pub fn text(&mut self) -> Command {
        match self.dice.below(20) {
            0 => Command::of(self.dice.one(ODD)),
            1..=3 => self.gets(),
            4..=8 => self.stores(),
            9..=11 => self.small(),
            12..=13 => self.meta_get(),
            14..=16 => self.meta_set(),
            17 => self.meta_delete(),
            18 => self.meta_count(),
            _ => Command::of(format!("me {}\r\n", self.key())),
        }
    }

    pub(crate) fn key(&mut self) -> String {
        match self.dice.below(200) {
            0 => "L".repeat(250),
            n => format!("k{}", n % 7),
        }
    }

    /// A key of a counter; its values are below 2^63, as memcached 1.6.18 looks for a minus sign
    /// behind larger ones, in other memory. Others are not counted: memcached writes counters in
    /// place or not, depending on who holds them at the moment, and forgets that an item is stale
    /// in the second case only.
    fn counter(&mut self) -> String {
        match self.dice.below(10) {
            0 => self.key().replace('k', "n"),
            n => format!("n{}", n % 3),
        }
    }

    /// A key that may be too long. Not for retrievals: memcached 1.6.18 sends answers twice after
    /// one in a batch.
    fn any_key(&mut self) -> String {
        if self.dice.once_in(100) { "L".repeat(251) } else { self.key() }
    }

    pub(crate) fn value(&mut self) -> Vec<u8> {
        let len = match self.dice.below(120) {
            0..40 => return self.dice.one(&["0", "1", "9", "10", "9223372036854770000"]).into(),
            40..50 => 0,
            50..80 => self.dice.below(20),
            80..100 => self.dice.below(300),
            100..110 => 4000 + self.dice.below(300),
            110..116 => 8150 + self.dice.below(100),
            116..119 => 60_000 + self.dice.below(12_000),
            _ if self.dice.once_in(8) => (1 << 20) + 1,
            _ => 300_000,
        };
        let start = self.dice.below(26);
        (0..len).map(|at| b'a' + ((start + at * 7) % 26) as u8).collect()
    }

    /// The label of a version that was shown, mostly a late one.
    fn label(&mut self) -> usize {
        let back = if self.dice.once_in(3) { 30 } else { 3 };
        self.versions.saturating_sub(1 + self.dice.below(back))
    }

    fn noreply(&mut self) -> &'static str {
        if self.dice.once_in(6) { " noreply" } else { "" }
    }

    fn gets(&mut self) -> Command {
        let verb = self.dice.one(&["get", "get", "gets", "gets", "gat", "gats"]);
        let mut line = verb.to_owned();
        if verb.starts_with("gat") {
            line += &format!(" {}", self.dice.one(EXPTIMES));
        }
        let most = if self.dice.once_in(10) { 40 } else { 4 };
        for _ in 0..=self.dice.below(most) {
            line += &format!(" {}", if self.dice.once_in(4) { self.counter() } else { self.key() });
        }
        Command::of(line + "\r\n")
    }

    fn stores(&mut self) -> Command {
        if self.dice.once_in(5) {
            let (key, number) =
                (self.counter(), self.dice.one(&["0", "9", "10", "9223372036854770000", "x"]));
            return Command::of(format!("set {key} 3 0 {}\r\n{number}\r\n", number.len()));
        }
        let verb = self
            .dice
            .one(&["set", "set", "set", "add", "replace", "append", "prepend", "cas", "cas"]);
        let value = self.value();
        let key = if value.len() < 1000 { self.any_key() } else { self.key() };
        let flags = self.dice.one(&["0", "1", "65536", "4294967295"]);
        let line = format!("{verb} {key} {flags} {} {}", self.dice.one(EXPTIMES), value.len());
        let mut command = Command::of(line);
        if verb == "cas" {
            command.add(" ").0.push(Part::Digits(self.label()));
        }
        let noreply = self.noreply();
        command.add(noreply).add("\r\n").add(value).add("\r\n");
        command
    }

    fn small(&mut self) -> Command {
        let key = self.any_key();
        let line = match self.dice.below(12) {
            0..=2 => format!("delete {key}{}\r\n", self.noreply()),
            3..=5 => format!("incr {} {}{}\r\n", self.counter(), self.delta(), self.noreply()),
            6..=8 => format!("decr {} 0{}\r\n", self.counter(), self.noreply()),
            9..=10 => format!("touch {key} {}{}\r\n", self.dice.one(EXPTIMES), self.noreply()),
            _ if self.dice.once_in(4) => format!("flush_all{}\r\n", self.noreply()),
            _ => format!("get {}\r\n", self.key()),
        };
        Command::of(line)
    }

    fn delta(&mut self) -> &'static str {
        self.dice.one(&["0", "1", "2", "9", "100"])
    }

    /// A key as meta commands may have it: in base64 with the flag `b` now and then, where its
    /// bytes are none of a text key.
    fn meta_key(&mut self) -> (String, &'static str) {
        if self.dice.once_in(8) {
            return (self.dice.one(&["AAECAw==", "AAECBA==", "/w==", "a"]).to_owned(), " b");
        }
        (self.any_key(), "")
    }

    fn flags(&mut self, of: &[&str], most: usize) -> String {
        let mut taken = of.to_vec();
        let mut flags = String::new();
        for _ in 0..self.dice.below(most + 1) {
            if !taken.is_empty() {
                let at = self.dice.below(taken.len());
                flags += &format!(" {}", taken.swap_remove(at));
            }
        }
        flags
    }

    fn meta_get(&mut self) -> Command {
        let (key, base64) = self.meta_key();
        // Expiries first: memcached carries flags out in their order, so a `t` before a `T` tells
        // what was.
        let mut flags = String::new();
        if self.dice.once_in(3) {
            flags += if base64.is_empty() { self.dice.one(&["", " N500"]) } else { "" };
            flags += if flags.is_empty() { self.dice.one(&["", " T0", " T900"]) } else { "" };
            flags += self.dice.one(&["", " R30", " R600"]);
        }
        flags += &self.flags(&["c", "f", "h", "k", "l", "Oabc", "q", "s", "t", "v", "v"], 8);
        Command::of(format!("mg {key}{base64}{flags}\r\n"))
    }

    fn meta_set(&mut self) -> Command {
        let ((key, base64), mut value) = (self.meta_key(), self.value());
        if key.len() > 250 {
            // Read as a line of its own, which ends the connection when it is long.
            value.truncate(1000);
        }
        // Not joined where the key is in base64: memcached 1.6.18 forgets then that it was.
        let modes = ["", "", "", " MS", " ME", " MR", " Me", " Ms", " N300", " MA", " MP"];
        let mode = self.dice.one(if base64.is_empty() { &modes } else { &modes[..9] });
        let flags =
            self.flags(&["c", "k", "Ox1", "q", "F17", "F4294967295", "T0", "T800", "T-1", "I"], 4);
        let mut command = Command::of(format!("ms {key} {}{base64}{mode}{flags}", value.len()));
        if !flags.contains(" I") && value.len() < 1 << 20 && self.dice.once_in(3) {
            command.add(" C").0.push(Part::Digits(self.label()));
        }
        command.add("\r\n").add(value).add("\r\n");
        command
    }

    fn meta_delete(&mut self) -> Command {
        let (key, base64) = self.meta_key();
        let flags = self.flags(&["k", "Oop", "q", "I", "T300"], 3);
        let mut command = Command::of(format!("md {key}{base64}{flags}"));
        if !flags.contains(" I") && self.dice.once_in(4) {
            command.add(" C").0.push(Part::Digits(self.label()));
        }
        command.add("\r\n");
        command
    }

    fn meta_count(&mut self) -> Command {
        let (key, base64) = (self.counter(), "");
        let plain = ["c", "k", "Oinc", "q", "t", "v", "D5", "MI", "M+", "Mincr"];
        let mut flags = String::new();
        if self.dice.once_in(3) {
            flags += self.dice.one(&["", " N0", " N700", " N700 J13"]);
        }
        flags += &self.flags(&plain, 5);
        Command::of(format!("ma {key}{base64}{flags}\r\n"))
    }

    /// A counter, right or wrong, changed or read: numbers that become shorter, that wrap, that are
    /// none.
    pub fn counting(&mut self) -> Command {
        let key = format!("n{}", self.dice.below(3));
        let delta = self.dice.one(&["0", "1", "9", "95", "1000", "18446744073709551615"]);
        let mode = self.dice.one(&["MI", "MD", "M-", "Mdecr", "Md", "M+"]);
        let text = self.dice.one(&[
            "0",
            "9",
            "10",
            "100",
            "99 ",
            " 7",
            "7 x",
            "-1",
            "x",
            "9223372036854775807",
        ]);
        Command::of(match self.dice.below(9) {
            0..=1 => format!("incr {key} {delta}\r\n"),
            2..=3 => format!("decr {key} {delta}\r\n"),
            4 => format!("ma {key} {mode} D{delta} v N0 J12\r\n"),
            5..=6 => format!("mg {key} v s\r\n"),
            _ => format!("set {key} 0 0 {}\r\n{text}\r\n", text.len()),
        })
    }

    /// Any command of the binary protocol.
    pub fn binary(&mut self) -> Command {
        let key = self.key();
        let exptime = self.dice.one(&[0_u32, 0, 0, 1000, 2_592_001, 2_000_000_000, u32::MAX]);
        let (opcode, extras, key, value) = match self.dice.below(24) {
            0..=4 => (self.dice.one(&[0x00, 0x09, 0x0c, 0x0d]), vec![], key, vec![]),
            5..=7 => (
                self.dice.one(&[0x1c, 0x1d, 0x1e, 0x23, 0x24]),
                exptime.to_be_bytes().to_vec(),
                key,
                vec![],
            ),
            8..=13 => {
                let extras = [[0, 0, 1, 7], exptime.to_be_bytes()].concat();
                (
                    self.dice.one(&[0x01, 0x01, 0x11, 0x02, 0x12, 0x03, 0x13]),
                    extras,
                    key,
                    self.value(),
                )
            }
            14..=15 => (self.dice.one(&[0x0e, 0x19, 0x0f, 0x1a]), vec![], key, self.value()),
            16..=17 => (self.dice.one(&[0x05, 0x15]), self.count(exptime), self.counter(), vec![]),
            18 => (
                self.dice.one(&[0x06, 0x16]),
                [&[0; 16], &exptime.to_be_bytes()[..]].concat(),
                self.counter(),
                vec![],
            ),
            22 => {
                let value = self.dice.one(&["0", "9", "10", "9223372036854770000", "x"]).into();
                (0x01, vec![0; 8], self.counter(), value)
            }
            19..=20 => (self.dice.one(&[0x04, 0x14]), vec![], key, vec![]),
            21 if self.dice.once_in(5) => {
                (self.dice.one(&[0x08, 0x18]), vec![], String::new(), vec![])
            }
            23 if self.dice.once_in(3) => return self.odd_packet(),
            _ => (self.dice.one(&[0x0a, 0x0b]), vec![], String::new(), vec![]),
        };
        let cas = (value.len() < 1 << 20 && self.dice.once_in(5)).then(|| self.label());
        self.packet(opcode, &extras, key.as_bytes(), &value, cas)
    }

    fn count(&mut self, exptime: u32) -> Vec<u8> {
        let delta = self.dice.one(&[0_u64, 1, 7]);
        let initial = self.dice.one(&[0_u64, 5, 9_223_372_036_854_770_000]);
        [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()].concat()
    }

    fn packet(
        &mut self,
        opcode: u8,
        extras: &[u8],
        key: &[u8],
        value: &[u8],
        cas: Option<usize>,
    ) -> Command {
        let body = (extras.len() + key.len() + value.len()) as u32;
        let lengths =
            [&(key.len() as u16).to_be_bytes()[..], &[extras.len() as u8, 0, 0, 0]].concat();
        let opaque = (self.dice.number() as u32).to_be_bytes();
        let head = [&[0x80, opcode], &lengths[..], &body.to_be_bytes(), &opaque].concat();
        let mut command = Command::of(head);
        match cas {
            Some(label) => command.0.push(Part::Eight(label)),
            None => {
                command.add([0; 8]);
            }
        }
        command.add(extras).add(key).add(value);
        command
    }

    /// Packets that are wrong: opcodes nobody knows, lengths that do not fit.
    fn odd_packet(&mut self) -> Command {
        let (opcode, extras, key, value): (u8, &[u8], &[u8], &[u8]) = self.dice.one(&[
            (0x50, &b""[..], &b""[..], &b"value"[..]),
            (0xff, b"", b"", b""),
            (0x1b, b"", b"", b""),
            (0x20, b"", b"", b""),
            (0x21, b"", b"PLAIN", b"\0u\0p"),
            (0x00, b"xx", b"k0", b""),
            (0x00, b"", b"", b""),
            (0x01, b"", b"k0", b"12345678"),
            (0x04, b"", b"k0", b"x"),
            (0x05, b"", b"k0", b""),
            (0x08, b"abc", b"", b""),
            (0x0a, b"", b"", b"x"),
            (0x0e, b"1234", b"k0", b"x"),
            (0x1c, b"", b"k0", b""),
            (0x10, b"", b"bogus", b""),
            (0x07, b"", b"", b""),
            (0x17, b"", b"", b""),
        ]);
        self.packet(opcode, extras, key, value, None)
    }
}
