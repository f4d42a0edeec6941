//! `incr`, `decr` (protocol.txt, "Increment/Decrement").

use super::super::{
    BAD_FORMAT, Command, ERROR, MAX_KEY, line, line::Words, refused, refused_unless,
};
use super::NOREPLY;

/// An invalid delta.
const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";

/// `incr <key> <value> [noreply]`, `decr ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// Amount of the change.
    pub delta: u64,
    /// `decr`.
    pub down: bool,
    /// No answer is wanted.
    pub noreply: bool,
}

pub(super) fn count(words: Words<'_>, down: bool) -> Command<'_> {
    let Some([key, delta]) = super::words(words, 3) else { return refused(ERROR) };
    let noreply = words.last_word() == NOREPLY;
    if key.len() > MAX_KEY {
        return refused_unless(noreply, BAD_FORMAT);
    }
    match line::unsigned(delta) {
        Some(delta) => Command::Count(Count { key, delta, down, noreply }),
        None => refused_unless(noreply, BAD_DELTA),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn value_is_a_decimal_representation_of_a_64_bit_unsigned_integer() {
        let count =
            |delta, down, noreply| Command::Count(Count { key: b"k", delta, down, noreply });
        for (line, expected) in [
            ("incr k 1", count(1, false, false)),
            ("decr k 18446744073709551615", count(u64::MAX, true, false)),
            ("incr k 1 noreply", count(1, false, true)),
            ("incr k 1 2", count(1, false, false)),
            ("incr k", refused(ERROR)),
            ("incr k 1 noreply 3", refused(ERROR)),
            ("incr k x", refused(BAD_DELTA)),
            ("incr k -1", refused(BAD_DELTA)),
            ("incr k 18446744073709551616", refused(BAD_DELTA)),
            ("decr k x noreply", refused(b"")),
            (&format!("incr {} 1", "x".repeat(251)), refused(BAD_FORMAT)),
        ] {
            let line = format!("{line}\r\n");
            assert_eq!(decode(line.as_bytes()), Decoded::Command(expected, line.len()), "{line:?}");
        }
    }
}
