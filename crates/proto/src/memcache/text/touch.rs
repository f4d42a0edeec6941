//! `touch` (protocol.txt, "Touch").

use super::super::{
    BAD_FORMAT, Command, ERROR, MAX_KEY, line, line::Words, refused, refused_unless,
};
use super::NOREPLY;

/// An invalid expiry.
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// `touch <key> <exptime> [noreply]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// Expiry as sent.
    pub exptime: i32,
    /// No answer is wanted.
    pub noreply: bool,
}

pub(super) fn touch(words: Words<'_>) -> Command<'_> {
    let Some([key, exptime]) = super::words(words, 3) else { return refused(ERROR) };
    let noreply = words.last_word() == NOREPLY;
    if key.len() > MAX_KEY {
        return refused_unless(noreply, BAD_FORMAT);
    }
    match line::signed32(exptime) {
        Some(exptime) => Command::Touch(Touch { key, exptime, noreply }),
        None => refused_unless(noreply, BAD_EXPTIME),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn exptime_works_the_same_as_with_the_update_commands() {
        let touch = |exptime, noreply| Command::Touch(Touch { key: b"k", exptime, noreply });
        for (line, expected) in [
            ("touch k 0", touch(0, false)),
            ("touch k -1", touch(-1, false)),
            ("touch k 20 noreply", touch(20, true)),
            ("touch k 20 x", touch(20, false)),
            ("touch k", refused(ERROR)),
            ("touch k 0 1 2", refused(ERROR)),
            ("touch k x", refused(BAD_EXPTIME)),
            ("touch k x noreply", refused(b"")),
            (&format!("touch {} 1", "x".repeat(251)), refused(BAD_FORMAT)),
        ] {
            let line = format!("{line}\r\n");
            assert_eq!(decode(line.as_bytes()), Decoded::Command(expected, line.len()), "{line:?}");
        }
    }
}
