//! `delete` (protocol.txt, "Deletion").

use super::super::{BAD_FORMAT, Command, ERROR, MAX_KEY, line::Words, refused, refused_unless};
use super::NOREPLY;

/// `delete` with a time: old clients may send 0, nothing else.
const USAGE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";

/// `delete <key> [0] [noreply]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// No answer is wanted.
    pub noreply: bool,
}

pub(super) fn delete(words: Words<'_>) -> Command<'_> {
    let Some([key]) = super::words(words, 3) else { return refused(ERROR) };
    let mut more = words;
    more.next();
    let (time, second) = (more.next(), more.next());
    let noreply = time.is_some() && words.last_word() == NOREPLY;
    match (time, second) {
        (None, _) | (Some(b"0"), None) => {}
        (Some(_), None) if noreply => {}
        (Some(b"0"), Some(_)) if noreply => {}
        _ => return refused_unless(noreply, USAGE),
    }
    if key.len() > MAX_KEY {
        return refused_unless(noreply, BAD_FORMAT);
    }
    Command::Delete(Delete { key, noreply })
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn the_command_delete_allows_for_explicit_deletion_of_items() {
        for (line, noreply) in [
            ("delete k\r\n", false),
            ("delete k 0\r\n", false),
            ("delete k noreply\r\n", true),
            ("delete k 0 noreply\r\n", true),
        ] {
            let expected = Command::Delete(Delete { key: b"k", noreply });
            assert_eq!(decode(line.as_bytes()), Decoded::Command(expected, line.len()));
        }
        let alone = Command::Delete(Delete { key: b"noreply", noreply: false });
        assert_eq!(decode(b"delete noreply\n"), Decoded::Command(alone, 15));
    }

    #[test]
    fn a_time_other_than_0_is_refused() {
        let long = "x".repeat(251);
        for (line, answer) in [
            ("delete", ERROR),
            ("delete k 0 noreply 1", ERROR),
            ("delete k 1", USAGE),
            ("delete k 00", USAGE),
            ("delete k 0 0", USAGE),
            ("delete k 1 noreply", b""),
            (&format!("delete {long}"), BAD_FORMAT),
            (&format!("delete {long} 1"), USAGE),
            (&format!("delete {long} noreply"), b""),
        ] {
            let line = format!("{line}\r\n");
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(refused(answer), line.len()),
                "{line:?}"
            );
        }
    }
}
