//! `md` (protocol.txt, "Meta Delete").

use super::super::{BAD_FORMAT, Command, ERROR, MAX_KEY, line::Words, refused};
use super::{Echo, Key, flags, flags::Flags};

/// Too many flags.
const TOO_MANY: &[u8] = b"CLIENT_ERROR options flags too long\r\n";
/// A wrong flag, whatever the fault.
pub(super) const BAD_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";

/// `md <key> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Key of the item.
    pub key: Key<'a>,
    /// Request fields echoed in the answer.
    pub echo: Echo<'a>,
    /// `C`: required version of the stored item.
    pub compare: Option<u64>,
    /// `E`: the version a marked item gets.
    pub version: Option<u64>,
    /// `I`: the item is marked stale instead of removed.
    pub invalidate: bool,
    /// `x`: the value and the client's flags go, the item stays.
    pub empty: bool,
    /// `T`, with `I`: the new expiry, as sent.
    pub ttl: Option<i32>,
    /// `q`: success is not answered.
    pub quiet: bool,
}

/// Key and flags of a line in which all errors of flags have one text.
pub(super) fn read(mut words: Words<'_>) -> Result<Flags<'_>, &'static [u8]> {
    let key = words.next().ok_or(ERROR)?;
    if key.len() > MAX_KEY {
        return Err(BAD_FORMAT);
    }
    if flags::too_many(words, 2) {
        return Err(TOO_MANY);
    }
    Flags::read(key, words).map_err(|_| BAD_FLAG)
}

pub(super) fn delete(words: Words<'_>) -> Command<'_> {
    match read(words).and_then(Flags::opaque) {
        Ok(Flags { key, echo, compare, version, invalidate, empty, ttl, quiet, .. }) => {
            Command::MetaDelete(Delete {
                key,
                echo,
                compare,
                version,
                invalidate,
                empty,
                ttl,
                quiet,
            })
        }
        Err(answer) => refused(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn the_flags_used_by_the_md_command() {
        let Decoded::Command(Command::MetaDelete(delete), 29) =
            decode(b"md YWI= b C1 I T30 q x E9 k\r\n")
        else {
            panic!("no md")
        };
        assert_eq!(delete.key.bytes(&mut [0; 250]), b"ab");
        assert_eq!((delete.compare, delete.version, delete.ttl), (Some(1), Some(9), Some(30)));
        assert!(delete.invalidate && delete.quiet && delete.empty);
    }

    #[test]
    fn errors_in_flags_are_one() {
        for (line, answer) in [
            ("md", ERROR),
            ("md a Tx", BAD_FLAG),
            ("md a k k", BAD_FLAG),
            ("md a z", BAD_FLAG),
            ("md a b", BAD_FLAG),
            ("md a v k s c t f h l q u O1 P1 L1 D1 I C1 MI N1", TOO_MANY),
            (&format!("md {}", "x".repeat(251)), BAD_FORMAT),
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
