//! Kestrel's commands for queues, over memcached's text protocol (Kestrel 2.4, docs/guide.md,
//! "Memcache"): command lines in, answers out. No I/O.
//!
//! A data block follows the line of a `set`; the driver of the codec takes it. Verbs are read
//! without regard to case, as Kestrel does.

use crate::memcache::{
    BAD_FORMAT, ERROR, MAX_KEY,
    line::{self, Words},
};

/// Most received bytes without a line end; further ones close the connection.
pub const MAX_LINE: usize = 2048;
/// An expiry below this is a number of seconds from now, else a UNIX time. (Kestrel's limit;
/// memcached's is 30 days.)
const RELATIVE: i64 = 1_000_000;
/// Longest wait of a `get`, in milliseconds: a day.
const MAX_WAIT: u64 = 86_400_000;

/// The start of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A command line, and its length including its end.
    Command(Command<'a>, usize),
    /// The line has no end yet.
    Partial,
    /// It has none within [`MAX_LINE`].
    TooLong,
}

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `set`: a data block follows.
    Set(Set<'a>),
    /// `get`.
    Get(Get<'a>),
    /// `delete`: the queue and its items.
    Delete(Named<'a>),
    /// `flush`: all items of a queue.
    Flush(Named<'a>),
    /// `flush_expired`: the expired items of a queue.
    FlushExpired(Named<'a>),
    /// `flush_all`: all items of all queues. The word is `noreply` or not.
    FlushAll {
        /// No answer is wanted.
        noreply: bool,
    },
    /// `flush_all_expired`.
    FlushAllExpired,
    /// `monitor`: items as they arrive, each opened.
    Monitor {
        /// The queue.
        name: &'a [u8],
        /// Time in milliseconds.
        wait: u64,
        /// Most items; 0: no limit of the client's.
        most: u64,
    },
    /// `confirm`: opened items are done.
    Confirm {
        /// The queue.
        name: &'a [u8],
        /// Number of items.
        count: u64,
    },
    /// `stats`.
    Stats,
    /// `dump_stats`.
    DumpStats,
    /// `dump_config`.
    DumpConfig,
    /// `reload`.
    Reload,
    /// `status`.
    Status,
    /// `version`.
    Version,
    /// `shutdown`.
    Shutdown,
    /// `quit`.
    Quit,
    /// A line that is answered with an error.
    Refused(Refused),
}

/// A line that is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The answer with its line end; empty for none.
    pub answer: &'static [u8],
    /// Bytes after the line that belong to it.
    pub swallow: u64,
    /// The connection is closed.
    pub close: bool,
}

/// A command about one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The queue.
    pub name: &'a [u8],
    /// No answer is wanted.
    pub noreply: bool,
}

/// `set <queue> <flags> <expiry> <bytes> [noreply]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'a> {
    /// The queue.
    pub name: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// When the item expires.
    pub expiry: Expiry,
    /// Bytes of the data block, its line end not counted.
    pub len: u64,
    /// No answer is wanted.
    pub noreply: bool,
}

/// An expiry as a client gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// None: the queue's rules decide.
    Default,
    /// At once: a negative number.
    Past,
    /// Milliseconds from now.
    In(u64),
    /// UNIX milliseconds.
    At(u64),
}

impl Expiry {
    fn of(seconds: i64) -> Expiry {
        match seconds {
            0 => Expiry::Default,
            ..0 => Expiry::Past,
            1..RELATIVE => Expiry::In(seconds as u64 * 1000),
            _ => Expiry::At((seconds as u64).saturating_mul(1000)),
        }
    }

    /// UNIX milliseconds; 0: none.
    pub fn at(self, now: u64) -> u64 {
        match self {
            Expiry::Default => 0,
            Expiry::Past => 1,
            Expiry::In(time) => now.saturating_add(time),
            Expiry::At(time) => time,
        }
    }
}

/// `get <queue>[/option]...`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get<'a> {
    /// The queue.
    pub name: &'a [u8],
    /// Longest wait for an item, in milliseconds.
    pub wait: u64,
    /// Closes an open read first.
    pub close: bool,
    /// Opens a read.
    pub open: bool,
    /// Aborts an open read.
    pub abort: bool,
    /// The item stays.
    pub peek: bool,
}

/// The name of a queue by the rules of the protocol: as long as memcached's keys.
fn name(word: Option<&[u8]>) -> Option<&[u8]> {
    word.filter(|name| !name.is_empty() && name.len() <= MAX_KEY && !name.contains(&b'/'))
}

/// A malformed command. Kestrel closes the connection after most of them; here that is done where
/// the meaning of later bytes or the state of an open read is not certain.
const MALFORMED: Command<'static> =
    Command::Refused(Refused { answer: BAD_FORMAT, swallow: 0, close: false });

/// The first command line of `input`.
pub fn decode(input: &[u8]) -> Decoded<'_> {
    match line::split(input) {
        Some((line, used)) => Decoded::Command(command(line), used),
        None if input.len() <= MAX_LINE => Decoded::Partial,
        None => Decoded::TooLong,
    }
}

fn command(line: &[u8]) -> Command<'_> {
    let mut words = Words::new(line);
    // The longest verb has 17 bytes.
    let mut lower = [0; 20];
    let verb = words.next().unwrap_or_default();
    let Some(lower) = lower.get_mut(..verb.len()) else { return unknown(line) };
    lower.copy_from_slice(verb);
    lower.make_ascii_lowercase();
    match &*lower {
        b"get" => get(words),
        b"set" => set(words),
        b"delete" => named(words, Command::Delete),
        b"flush" => named(words, Command::Flush),
        b"flush_expired" => named(words, Command::FlushExpired),
        b"flush_all" => {
            Command::FlushAll { noreply: words.last_word().eq_ignore_ascii_case(b"noreply") }
        }
        b"flush_all_expired" => Command::FlushAllExpired,
        b"monitor" => monitor(words).unwrap_or(MALFORMED),
        b"confirm" => confirm(words).unwrap_or(MALFORMED),
        b"stats" => Command::Stats,
        b"dump_stats" => Command::DumpStats,
        b"dump_config" => Command::DumpConfig,
        b"reload" => Command::Reload,
        b"status" if words.next().is_none() => Command::Status,
        b"version" => Command::Version,
        b"shutdown" => Command::Shutdown,
        b"quit" => Command::Quit,
        b"add" | b"replace" | b"append" | b"prepend" | b"cas" => foreign(words.nth(3)),
        b"ms" => foreign(words.nth(1)),
        _ => unknown(line),
    }
}

/// A command of memcached that sends data and is none here. Its data is not taken for commands.
fn foreign(length: Option<&[u8]>) -> Command<'static> {
    match length.and_then(line::unsigned).filter(|len| *len <= i32::MAX as u64) {
        Some(len) => Command::Refused(Refused { answer: ERROR, swallow: len + 2, close: false }),
        None => Command::Refused(Refused { answer: ERROR, swallow: 0, close: true }),
    }
}

/// Unknown verb. A line that looks like HTTP closes the connection, so that a page in a browser
/// cannot send commands.
fn unknown(line: &[u8]) -> Command<'_> {
    let close = Words::new(line).last_word().starts_with(b"HTTP/");
    Command::Refused(Refused { answer: if close { b"" } else { ERROR }, swallow: 0, close })
}

fn get(mut words: Words<'_>) -> Command<'_> {
    let close = Command::Refused(Refused { answer: BAD_FORMAT, swallow: 0, close: true });
    let Some(word) = words.next() else { return MALFORMED };
    let last = words.last_word();
    if !last.is_empty() {
        // The request of a browser has a known verb, too.
        return if last.starts_with(b"HTTP/") { close } else { MALFORMED };
    }
    let mut parts = word.split(|byte| *byte == b'/');
    let Some(name) = name(parts.next()) else { return close };
    let mut get = Get { name, ..Get::default() };
    for option in parts {
        match option {
            b"open" => get.open = true,
            b"close" => get.close = true,
            b"abort" => get.abort = true,
            b"peek" => get.peek = true,
            b"" => {}
            _ => match option.strip_prefix(b"t=").and_then(line::unsigned) {
                Some(wait) => get.wait = wait.min(MAX_WAIT),
                None => return close,
            },
        }
    }
    let both = (get.peek || get.abort) && (get.open || get.close);
    if both || (get.peek && get.abort) { close } else { Command::Get(get) }
}

fn set(mut words: Words<'_>) -> Command<'_> {
    let mut next = || words.next().unwrap_or_default();
    let (queue, flags, expiry, len, last) = (next(), next(), next(), next(), next());
    // Nobody can tell the data behind it from commands.
    let Some(len) = line::unsigned(len).filter(|len| *len <= i32::MAX as u64) else {
        return Command::Refused(Refused { answer: BAD_FORMAT, swallow: 0, close: true });
    };
    let noreply = last == b"noreply";
    let answer: &[u8] = if noreply { b"" } else { BAD_FORMAT };
    let refused = Command::Refused(Refused { answer, swallow: len + 2, close: false });
    let (Some(name), Some(flags), Some(expiry)) =
        (name(Some(queue)), line::unsigned32(flags), line::signed(expiry))
    else {
        return refused;
    };
    Command::Set(Set { name, flags, expiry: Expiry::of(expiry), len, noreply })
}

fn named<'a>(mut words: Words<'a>, command: fn(Named<'a>) -> Command<'a>) -> Command<'a> {
    let Some(name) = name(words.next()) else { return MALFORMED };
    command(Named { name, noreply: words.last_word() == b"noreply" })
}

fn monitor(mut words: Words<'_>) -> Option<Command<'_>> {
    let name = name(words.next())?;
    let wait = line::unsigned(words.next()?)?.saturating_mul(1000).min(MAX_WAIT);
    let most = words.next().map_or(Some(0), line::unsigned)?;
    Some(Command::Monitor { name, wait, most })
}

fn confirm(mut words: Words<'_>) -> Option<Command<'_>> {
    let name = name(words.next())?;
    Some(Command::Confirm { name, count: line::unsigned(words.next()?)? })
}

/// The head of an item: its data and [`END`] follow.
pub fn value(name: &[u8], flags: u32, len: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(b"VALUE ");
    into.extend_from_slice(name);
    into.push(b' ');
    line::decimal(u64::from(flags), into);
    into.push(b' ');
    line::decimal(len, into);
    into.extend_from_slice(b"\r\n");
}

/// The end of an item's data and of its answer.
pub const END: &[u8] = b"\r\nEND\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(line: &str, command: Command<'_>) {
        let line = format!("{line}\r\n");
        assert_eq!(decode(line.as_bytes()), Decoded::Command(command, line.len()), "{line}");
    }

    const GET: Get<'_> =
        Get { name: b"work", wait: 0, close: false, open: false, abort: false, peek: false };

    #[test]
    fn options_of_a_get_stand_behind_slashes() {
        is("GET work", Command::Get(GET));
        is("get work/t=500/open", Command::Get(Get { wait: 500, open: true, ..GET }));
        is("get work/close/open", Command::Get(Get { close: true, open: true, ..GET }));
        is("get work/abort", Command::Get(Get { abort: true, ..GET }));
        is("get work/t=1/peek/", Command::Get(Get { wait: 1, peek: true, ..GET }));
        let wait = MAX_WAIT;
        is("get work/t=99999999999999", Command::Get(Get { wait, ..GET }));
    }

    #[test]
    fn a_get_that_contradicts_itself_closes() {
        let refused = || Command::Refused(Refused { answer: BAD_FORMAT, swallow: 0, close: true });
        for line in ["/open", "q/peek/open", "q/abort/close", "q/peek/abort", "q/t=x", "q/wait"] {
            is(&format!("get {line}"), refused());
        }
        is("get / HTTP/1.1", refused());
        is("get a b", MALFORMED);
        is("get", MALFORMED);
    }

    #[test]
    fn expiries_are_relative_below_a_million() {
        let set = |expiry| {
            let (flags, len, noreply) = (7, 5, false);
            Command::Set(Set { name: b"q", flags, expiry, len, noreply })
        };
        is("set q 7 0 5", set(Expiry::Default));
        is("set q 7 999999 5", set(Expiry::In(999_999_000)));
        is("set q 7 1000000 5", set(Expiry::At(1_000_000_000)));
        is("set q 7 -1 5", set(Expiry::Past));
        assert_eq!(Expiry::In(5).at(100), 105);
        assert_eq!((Expiry::Default.at(9), Expiry::At(7).at(9)), (0, 7));
        let silent = Set { name: b"q", flags: 0, expiry: Expiry::Default, len: 0, noreply: true };
        is("SET q 0 0 0 noreply", Command::Set(silent));
    }

    #[test]
    fn the_data_of_a_refused_set_is_skipped() {
        let skip = |answer, swallow| Command::Refused(Refused { answer, swallow, close: false });
        is("set a/b 0 0 5", skip(BAD_FORMAT, 7));
        is("set q x 0 5 noreply", skip(b"", 7));
        let close = Refused { answer: BAD_FORMAT, swallow: 0, close: true };
        is("set q 0 0 x", Command::Refused(close));
        is("set q 0 0", Command::Refused(close));
    }

    #[test]
    fn other_commands() {
        let named = Named { name: b"q", noreply: false };
        is("delete q", Command::Delete(named));
        is("delete q noreply", Command::Delete(Named { noreply: true, ..named }));
        is("FLUSH q", Command::Flush(named));
        is("flush_expired q", Command::FlushExpired(named));
        is("flush_all", Command::FlushAll { noreply: false });
        is("flush_all 0 noreply", Command::FlushAll { noreply: true });
        is("monitor q 10", Command::Monitor { name: b"q", wait: 10_000, most: 0 });
        is("monitor q 10 5", Command::Monitor { name: b"q", wait: 10_000, most: 5 });
        is("confirm q 5", Command::Confirm { name: b"q", count: 5 });
        is("confirm q", MALFORMED);
        is("dump_config", Command::DumpConfig);
        is("flush_all_expired", Command::FlushAllExpired);
        let error = Refused { answer: ERROR, swallow: 0, close: false };
        for line in ["", "gets q", "status x", "a_verb_longer_than_any_other"] {
            is(line, Command::Refused(error));
        }
        let http = Refused { answer: b"", swallow: 0, close: true };
        is("POST / HTTP/1.1", Command::Refused(http));
        assert_eq!(decode(b"get q"), Decoded::Partial);
        assert_eq!(decode(&[b'x'; 2049]), Decoded::TooLong);
    }
}
