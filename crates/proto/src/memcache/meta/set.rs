//! `ms` (protocol.txt, "Meta Set").

use super::super::text::{self, Mode};
use super::super::{BAD_FORMAT, Command, ERROR, MAX_KEY, Refused, line::Words, refused};
use super::{Echo, Key, flags, flags::Flags};

/// Too many flags.
const TOO_MANY: &[u8] = b"CLIENT_ERROR options flags too long\r\n";
/// `M` with an unknown mode.
const BAD_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";

/// `ms <key> <datalen> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'a> {
    /// Key of the item.
    pub key: Key<'a>,
    /// Request fields echoed in the answer.
    pub echo: Echo<'a>,
    /// `M`: the mode.
    pub mode: Mode,
    /// Bytes of the data block, its line end not counted.
    pub len: u32,
    /// `F`: the client's flags.
    pub flags: u32,
    /// `T`: expiry as sent; 0: never.
    pub ttl: i32,
    /// `C`: required version of the stored item.
    pub compare: Option<u64>,
    /// `E`: the version it gets.
    pub version: Option<u64>,
    /// `I`: a version older than that of the stored item stores too, marked stale.
    pub invalidate: bool,
    /// `N`: append and prepend create a missing item, with this expiry.
    pub vivify: Option<i32>,
    /// `q`: success is not answered.
    pub quiet: bool,
}

#[inline]
pub(super) fn set(mut words: Words<'_>) -> Command<'_> {
    let Some(key) = words.next() else { return refused(ERROR) };
    let len = words.next();
    if key.len() > MAX_KEY {
        return refused(BAD_FORMAT);
    }
    let Some(len) = len else { return refused(BAD_FORMAT) };
    if flags::too_many(words, 3) {
        return refused(TOO_MANY);
    }
    let Some(len) = text::block(len) else { return refused(BAD_FORMAT) };
    match Flags::read(key, words).and_then(|flags| with(flags, len)) {
        Ok(set) => Command::MetaSet(set),
        // The data block follows in any case: it is not a command.
        Err(answer) => {
            Command::Refused(Refused { answer, swallow: u64::from(len) + 2, close: false })
        }
    }
}

fn with(flags: Flags<'_>, len: u32) -> Result<Set<'_>, &'static [u8]> {
    let mode = match flags.mode {
        None | Some(b'S') => Mode::Set,
        Some(b'E') => Mode::Add,
        Some(b'R') => Mode::Replace,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        Some(_) => return Err(BAD_MODE),
    };
    let flags = flags.opaque()?;
    let Flags { key, echo, client, ttl, compare, version, invalidate, vivify, quiet, .. } = flags;
    let ttl = ttl.unwrap_or(0);
    Ok(Set {
        key,
        echo,
        mode,
        len,
        flags: client,
        ttl,
        compare,
        version,
        invalidate,
        vivify,
        quiet,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    fn read(line: &str) -> Set<'_> {
        match decode(line.as_bytes()) {
            Decoded::Command(Command::MetaSet(set), used) if used == line.len() => set,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn the_flags_used_by_the_ms_command() {
        let set = read("ms k 5 T30 F7 C1 E2 I q MS\r\n");
        assert_eq!(
            (set.len, set.ttl, set.flags, set.compare, set.version),
            (5, 30, 7, Some(1), Some(2))
        );
        assert!(set.invalidate && set.quiet);
        let set = read("ms k 0\r\n");
        assert_eq!(
            (set.len, set.ttl, set.flags, set.compare, set.mode),
            (0, 0, 0, None, Mode::Set)
        );
        assert_eq!(read("ms k 1 MA N60\r\n").vivify, Some(60));
        assert_eq!(read("ms YWI= 1 b\r\n").key.bytes(&mut [0; 250]), b"ab");
    }

    #[test]
    fn mode_takes_a_single_character() {
        for (mode, is) in [
            ("E", Mode::Add),
            ("A", Mode::Append),
            ("P", Mode::Prepend),
            ("R", Mode::Replace),
            ("S", Mode::Set),
        ] {
            assert_eq!(read(&format!("ms k 1 M{mode}\r\n")).mode, is);
        }
    }

    #[track_caller]
    fn is_refused(line: &str, answer: &'static [u8], swallow: u64) {
        let expected = Command::Refused(Refused { answer, swallow, close: false });
        let line = format!("{line}\r\n");
        assert_eq!(decode(line.as_bytes()), Decoded::Command(expected, line.len()), "{line:?}");
    }

    #[test]
    fn a_line_whose_length_is_not_known_swallows_nothing() {
        is_refused("ms k", BAD_FORMAT, 0);
        is_refused("ms k S2", BAD_FORMAT, 0);
        is_refused("ms k -1", BAD_FORMAT, 0);
        is_refused("ms k 2147483646", BAD_FORMAT, 0);
        is_refused(&format!("ms {} 2", "x".repeat(251)), BAD_FORMAT, 0);
        is_refused("ms k 2 v k s c t f h l q u O1 P1 L1 D1 I C1 MS", TOO_MANY, 0);
    }

    #[test]
    fn a_bad_flag_swallows_the_block() {
        is_refused("ms k 2 MX", BAD_MODE, 4);
        is_refused("ms k 2 Me", BAD_MODE, 4);
        is_refused("ms k 2 k k q", b"CLIENT_ERROR duplicate flag\r\n", 4);
        is_refused("ms k 2 b", b"CLIENT_ERROR error decoding key\r\n", 4);
    }
}
