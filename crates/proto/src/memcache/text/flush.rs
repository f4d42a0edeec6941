//! `flush_all` (protocol.txt, "Other commands").

use super::super::{Command, ERROR, line, line::Words, refused, refused_unless};
use super::NOREPLY;

/// An invalid delay.
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// `flush_all [delay] [noreply]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Delay, as sent; 0 and less: now.
    pub delay: i32,
    /// No answer is wanted.
    pub noreply: bool,
}

pub(super) fn flush(words: Words<'_>) -> Command<'_> {
    let Some([]) = super::words(words, 2) else { return refused(ERROR) };
    let noreply = words.last_word() == NOREPLY;
    let mut args = words;
    let delay = match (args.next(), args.next()) {
        (None, _) => Some(0),
        (Some(_), None) if noreply => Some(0),
        (Some(delay), _) => line::signed32(delay),
    };
    match delay {
        Some(delay) => Command::Flush(Flush { delay, noreply }),
        None => refused_unless(noreply, BAD_EXPTIME),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn flush_all_is_a_command_with_an_optional_numeric_argument() {
        let flush = |delay, noreply| Command::Flush(Flush { delay, noreply });
        for (line, expected) in [
            ("flush_all", flush(0, false)),
            ("flush_all 10", flush(10, false)),
            ("flush_all -1", flush(-1, false)),
            ("flush_all noreply", flush(0, true)),
            ("flush_all 10 noreply", flush(10, true)),
            ("flush_all 10 x", flush(10, false)),
            ("flush_all x", refused(BAD_EXPTIME)),
            ("flush_all x noreply", refused(b"")),
            ("flush_all 1 2 3", refused(ERROR)),
        ] {
            let line = format!("{line}\r\n");
            assert_eq!(decode(line.as_bytes()), Decoded::Command(expected, line.len()), "{line:?}");
        }
    }
}
