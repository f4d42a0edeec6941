//! `mg` (protocol.txt, "Meta Get").

use super::super::{BAD_FORMAT, Command, ERROR, MAX_KEY, line::Words, refused};
use super::{Echo, Key, flags, flags::Flags};

/// Too many flags.
const TOO_MANY: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";

/// `mg <key> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// Key of the item.
    pub key: Key<'a>,
    /// Request fields echoed in the answer.
    pub echo: Echo<'a>,
    /// `v`: the value is wanted.
    pub value: bool,
    /// `q`: a miss is not answered.
    pub quiet: bool,
    /// `u`: the item is not marked as used.
    pub unbumped: bool,
    /// `T`: the new expiry, as sent.
    pub ttl: Option<i32>,
    /// `N`: a missing item is created, with this expiry.
    pub vivify: Option<i32>,
    /// `R`: if fewer seconds are left, one client wins the right to store it anew.
    pub recache: Option<i32>,
    /// `E`: the version of a created item.
    pub version: Option<u64>,
}

#[inline]
pub(super) fn get(mut words: Words<'_>) -> Command<'_> {
    let Some(key) = words.next() else { return refused(ERROR) };
    if key.len() > MAX_KEY {
        return refused(BAD_FORMAT);
    }
    if flags::too_many(words, 2) {
        return refused(TOO_MANY);
    }
    match Flags::read(key, words).and_then(Flags::opaque) {
        Ok(Flags { key, echo, value, quiet, unbumped, ttl, vivify, recache, version, .. }) => {
            Command::MetaGet(Get {
                key,
                echo,
                value,
                quiet,
                unbumped,
                ttl,
                vivify,
                recache,
                version,
            })
        }
        Err(answer) => refused(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    fn read(line: &str) -> Get<'_> {
        match decode(line.as_bytes()) {
            Decoded::Command(Command::MetaGet(get), used) if used == line.len() => get,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn flags_modify_the_item() {
        let get = read("mg k v q u T30 N60 R10 E5\r\n");
        assert!(get.value && get.quiet && get.unbumped);
        assert_eq!(
            (get.ttl, get.vivify, get.recache, get.version),
            (Some(30), Some(60), Some(10), Some(5))
        );
        let get = read("mg k\r\n");
        assert!(!get.value && !get.quiet && !get.unbumped);
        assert_eq!((get.ttl, get.vivify, get.recache), (None, None, None));
    }

    #[test]
    fn interpret_key_as_base64_encoded_binary_value() {
        assert_eq!(read("mg YWI= v b\r\n").key.bytes(&mut [0; 250]), b"ab");
        assert_eq!(read("mg YWI= v\r\n").key.bytes(&mut [0; 250]), b"YWI=");
    }

    #[test]
    fn seventeen_flags_are_enough() {
        let all = [
            "v", "k", "s", "c", "t", "f", "h", "l", "q", "u", "O1", "P1", "L1", "D1", "I", "C1",
            "MI", "N1",
        ];
        read(&format!("mg k {}\r\n", all[..17].join(" ")));
        let line = format!("mg k {}\r\n", all.join(" "));
        assert_eq!(decode(line.as_bytes()), Decoded::Command(refused(TOO_MANY), line.len()));
        let line = format!("mg {}\r\n", "x".repeat(251));
        assert_eq!(decode(line.as_bytes()), Decoded::Command(refused(BAD_FORMAT), line.len()));
    }
}
