//! The meta protocol (protocol.txt, "Meta Commands"). One file per verb; their common parts are in
//! `flags` and `key`.
//!
//! Flags are read as memcached 1.6.18 reads them: any verb accepts any flag that some verb knows,
//! and uses those that apply to it. Beyond 1.6.18, from the protocol's present document: `E` (the
//! version a write gives), `x` for `md` (the value is removed, the item stays), `N` with the append
//! and prepend modes of `ms` (a missing item is created).

mod base64;
mod count;
mod debug;
mod delete;
mod flags;
mod get;
mod key;
mod set;

pub(crate) use base64::{decode as decode_base64, encode as encode_base64};
pub use count::Count;
pub use debug::{Debug, Metadata};
pub use delete::Delete;
pub use get::Get;
pub use key::Key;
pub use set::Set;

use super::{Command, ERROR, line, line::Words, refused};

/// Found, stored, deleted, counted.
pub const HD: &[u8] = b"HD";
/// A value follows.
pub const VA: &[u8] = b"VA ";
/// `mg`, `me`: not found.
pub const EN: &[u8] = b"EN";
/// Not found.
pub const NF: &[u8] = b"NF";
/// Not stored.
pub const NS: &[u8] = b"NS";
/// The stored item has another version.
pub const EX: &[u8] = b"EX";
/// The answer to `mn`.
pub const MN: &[u8] = b"MN\r\n";

/// A line of the meta protocol, by its verb's second letter.
#[inline]
pub(super) fn command(verb: u8, words: Words<'_>) -> Command<'_> {
    match verb {
        b'g' => get::get(words),
        b's' => set::set(words),
        b'd' => delete::delete(words),
        b'a' => count::count(words),
        b'e' => debug::debug(words),
        b'n' => Command::MetaNoop,
        _ => refused(ERROR),
    }
}

/// The request fields that an answer echoes: the flags that ask for data, in the order they were
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    flags: Words<'a>,
    any: bool,
}

impl<'a> Echo<'a> {
    /// Appends the data that the flags ask for, each after a blank: opaque and key as received, and
    /// all that `value` provides. `value` appends the value of the flag it is given and returns
    /// true, or returns false if the flag asks for nothing. It is called with every flag but those
    /// two, in order, if any flag asks for data or changes an expiry.
    #[inline]
    pub fn write(
        &self,
        key: &Key<'a>,
        into: &mut Vec<u8>,
        value: impl FnMut(u8, &mut Vec<u8>) -> bool,
    ) {
        if self.any {
            self.write_all(key, into, value);
        }
    }

    fn write_all(
        &self,
        key: &Key<'a>,
        into: &mut Vec<u8>,
        mut value: impl FnMut(u8, &mut Vec<u8>) -> bool,
    ) {
        for flag in self.flags {
            match flag[0] {
                b'O' => {
                    into.push(b' ');
                    into.extend_from_slice(flag);
                }
                b'k' => {
                    into.extend_from_slice(b" k");
                    key.write(into);
                }
                letter => {
                    let before = into.len();
                    into.extend_from_slice(&[b' ', letter]);
                    if !value(letter, into) {
                        into.truncate(before);
                    }
                }
            }
        }
    }
}

/// Appends a signed number.
pub fn signed(value: i64, into: &mut Vec<u8>) {
    if value < 0 {
        into.push(b'-');
    }
    line::decimal(value.unsigned_abs(), into);
}

#[cfg(test)]
mod tests {
    use super::super::{BAD_FORMAT, Decoded, decode};
    use super::*;

    #[test]
    fn mn_returns_a_static_response_code() {
        assert_eq!(decode(b"mn\r\n"), Decoded::Command(Command::MetaNoop, 4));
        assert_eq!(decode(b"mn foo\r\n"), Decoded::Command(Command::MetaNoop, 8));
    }

    #[test]
    fn commands_without_a_key() {
        for line in ["mg\r\n", "ms\r\n", "md  \r\n", "ma\r\n", "mz a\r\n"] {
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(refused(ERROR), line.len()),
                "{line:?}"
            );
        }
        assert_eq!(decode(b"me\r\n"), Decoded::Command(refused(BAD_FORMAT), 4));
    }

    fn echo(line: &str) -> String {
        let Decoded::Command(Command::MetaGet(get), _) = decode(line.as_bytes()) else {
            panic!("{line}")
        };
        let mut into = Vec::new();
        get.echo.write(&get.key, &mut into, |flag, into| match flag {
            b't' => {
                signed(-1, into);
                true
            }
            b's' => {
                line::decimal(3, into);
                true
            }
            _ => false,
        });
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn flags_are_returned_in_the_same_order_as_they_were_in_the_original_command() {
        assert_eq!(echo("mg key v s k O123 q t\r\n"), " s3 kkey O123 t-1");
        assert_eq!(echo("mg key t O k\r\n"), " t-1 O kkey");
        assert_eq!(echo("mg key v\r\n"), "");
    }

    #[test]
    fn if_b_flag_is_sent_and_a_key_is_returned_via_k_the_key_is_base64() {
        assert_eq!(echo("mg YWI= b k s\r\n"), " kYWI= b s3");
        assert_eq!(echo("mg YWI= b s\r\n"), " s3");
        assert_eq!(echo("mg YQ=a k b\r\n"), " kYQA= b");
    }
}
