//! `ma` (protocol.txt, "Meta Arithmetic").

use super::super::{Command, line::Words, refused};
use super::{Echo, Key, delete, flags::Flags};

/// `M` with an unknown mode.
const BAD_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";

/// `ma <key> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    /// Key of the item.
    pub key: Key<'a>,
    /// Request fields echoed in the answer.
    pub echo: Echo<'a>,
    /// `D`: amount of the change.
    pub delta: u64,
    /// `M`: downwards.
    pub down: bool,
    /// `N` and `J`: a missing counter is created, with this expiry and value.
    pub vivify: Option<(i32, u64)>,
    /// `C`: required version of the stored item.
    pub compare: Option<u64>,
    /// `E`: the version it gets.
    pub version: Option<u64>,
    /// `T`: the new expiry, as sent.
    pub ttl: Option<i32>,
    /// `v`: the new number is wanted.
    pub value: bool,
    /// `q`: success is not answered.
    pub quiet: bool,
}

pub(super) fn count(words: Words<'_>) -> Command<'_> {
    let flags = match delete::read(words) {
        Ok(flags) => flags,
        Err(answer) => return refused(answer),
    };
    let down = match flags.mode {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        Some(_) => return refused(BAD_MODE),
    };
    let flags = match flags.opaque() {
        Ok(flags) => flags,
        Err(answer) => return refused(answer),
    };
    let Flags { key, echo, delta, initial, compare, version, ttl, value, quiet, .. } = flags;
    let vivify = flags.vivify.map(|ttl| (ttl, initial));
    Command::MetaCount(Count {
        key,
        echo,
        delta,
        down,
        vivify,
        compare,
        version,
        ttl,
        value,
        quiet,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, ERROR, decode};
    use super::*;

    fn read(line: &str) -> Count<'_> {
        match decode(line.as_bytes()) {
            Decoded::Command(Command::MetaCount(count), used) if used == line.len() => count,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn the_flags_used_by_the_ma_command() {
        let count = read("ma k N60 J13 D5 T30 C1 E2 MD q v t c\r\n");
        assert_eq!((count.vivify, count.delta, count.ttl), (Some((60, 13)), 5, Some(30)));
        assert_eq!((count.compare, count.version), (Some(1), Some(2)));
        assert!(count.down && count.quiet && count.value);
        let count = read("ma k J5\r\n");
        assert_eq!((count.vivify, count.delta, count.down), (None, 1, false));
    }

    #[test]
    fn i_and_plus_increment_d_and_minus_decrement() {
        for (mode, down) in [("I", false), ("+", false), ("D", true), ("-", true)] {
            assert_eq!(read(&format!("ma k M{mode}\r\n")).down, down);
        }
        for (line, answer) in
            [("ma k Mi", BAD_MODE), ("ma k Mincr", delete::BAD_FLAG), ("ma", ERROR)]
        {
            let line = format!("{line}\r\n");
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(refused(answer), line.len()),
                "{line:?}"
            );
        }
    }
}
