//! `set`, `add`, `replace`, `append`, `prepend`, `cas` (protocol.txt, "Storage commands").

use super::super::{
    BAD_FORMAT, Command, ERROR, MAX_KEY, line, line::Words, refused, refused_unless,
};
use super::NOREPLY;

/// Modes of a store command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Store in any case.
    #[default]
    Set,
    /// Store only if there is no item.
    Add,
    /// Store only if there is an item.
    Replace,
    /// Append to the stored value.
    Append,
    /// Prepend to the stored value.
    Prepend,
}

/// `set <key> <flags> <exptime> <bytes> [noreply]` and its kin; `cas` is a `set` with `cas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Mode of the store command.
    pub mode: Mode,
    /// Key of the item.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// Expiry as sent: seconds from now, a UNIX time above 30 days, or negative.
    pub exptime: i32,
    /// Bytes of the data block, its line end not counted.
    pub len: u32,
    /// `cas`: the required version of the stored item.
    pub cas: Option<u64>,
    /// No answer is wanted.
    pub noreply: bool,
}

/// A data block's length, if it is valid.
pub(crate) fn block(word: &[u8]) -> Option<u32> {
    line::signed32(word).filter(|len| (0..=i32::MAX - 2).contains(len)).map(|len| len as u32)
}

#[inline]
pub(crate) fn store(mode: Mode, mut words: Words<'_>) -> Command<'_> {
    let (Some(key), Some(flags), Some(exptime), Some(len)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return refused(ERROR);
    };
    let last = words.next();
    if last.is_some() && words.next().is_some() {
        return refused(ERROR);
    }
    // The last word counts, even if it is in the place of another.
    fields(mode, key, [flags, exptime, len], None, last.unwrap_or(len) == NOREPLY)
}

pub(super) fn cas(words: Words<'_>) -> Command<'_> {
    let Some([key, flags, exptime, len, cas]) = super::words(words, 6) else {
        return refused(ERROR);
    };
    let noreply = words.last_word() == NOREPLY;
    fields(Mode::Set, key, [flags, exptime, len], Some(cas), noreply)
}

#[inline]
fn fields<'a>(
    mode: Mode,
    key: &'a [u8],
    [flags, exptime, len]: [&[u8]; 3],
    cas: Option<&[u8]>,
    noreply: bool,
) -> Command<'a> {
    if key.len() <= MAX_KEY
        && let (Some(flags), Some(exptime), Some(len)) =
            (line::unsigned32(flags), line::signed32(exptime), block(len))
        && let Ok(cas) = cas.map_or(Ok(None), |cas| line::unsigned(cas).map(Some).ok_or(()))
    {
        return Command::Store(Store { mode, key, flags, exptime, len, cas, noreply });
    }
    refused_unless(noreply, BAD_FORMAT)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    const PLAIN: Store<'_> = Store {
        mode: Mode::Set,
        key: b"k",
        flags: 0,
        exptime: 0,
        len: 1,
        cas: None,
        noreply: false,
    };

    #[track_caller]
    fn is(line: &str, store: Store<'_>) {
        assert_eq!(decode(line.as_bytes()), Decoded::Command(Command::Store(store), line.len()));
    }

    #[track_caller]
    fn is_refused(line: &str, answer: &'static [u8]) {
        assert_eq!(
            decode(line.as_bytes()),
            Decoded::Command(refused(answer), line.len()),
            "{line:?}"
        );
    }

    #[test]
    fn storage_commands_there_are_six() {
        is("set k 0 0 1\r\n", PLAIN);
        is("add k 0 0 1\r\n", Store { mode: Mode::Add, ..PLAIN });
        is("replace k 0 0 1\r\n", Store { mode: Mode::Replace, ..PLAIN });
        is("append k 0 0 1\r\n", Store { mode: Mode::Append, ..PLAIN });
        is("prepend k 0 0 1\r\n", Store { mode: Mode::Prepend, ..PLAIN });
        is("cas k 0 0 1 18446744073709551615\r\n", Store { cas: Some(u64::MAX), ..PLAIN });
    }

    #[test]
    fn noreply_optional_parameter_instructs_the_server_to_not_send_the_reply() {
        is("set k 0 0 1 noreply\r\n", Store { noreply: true, ..PLAIN });
        is("cas k 0 0 1 5 noreply\r\n", Store { cas: Some(5), noreply: true, ..PLAIN });
        // Any other word there is ignored.
        is("set k 0 0 1 norepl\r\n", PLAIN);
        is("cas k 0 0 1 5 x\r\n", Store { cas: Some(5), ..PLAIN });
        // An error is silent too.
        is_refused("set k x 0 1 noreply\r\n", b"");
        is_refused("cas k 0 0 1 noreply\r\n", b"");
        is_refused("set k 0 1 noreply\r\n", b"");
    }

    #[test]
    fn flags_are_32_bits_and_exptime_may_be_negative() {
        is("set k 4294967295 -1 1\r\n", Store { flags: u32::MAX, exptime: -1, ..PLAIN });
        is("set k 4294967297 4294967297 4294967297\r\n", Store { flags: 1, exptime: 1, ..PLAIN });
        is("set k 0 0 0\r\n", Store { len: 0, ..PLAIN });
        is("set k 0 0 2147483645\r\n", Store { len: 2_147_483_645, ..PLAIN });
    }

    #[test]
    fn what_is_no_number_or_no_length_is_a_client_error() {
        for line in [
            "set k x 0 1",
            "set k 0 x 1",
            "set k 0 0 x",
            "set k -1 0 1",
            "set k 0 0 -1",
            "set k 0 0 2147483646",
        ] {
            is_refused(&format!("{line}\r\n"), BAD_FORMAT);
        }
        is_refused("cas k 0 0 1 x\r\n", BAD_FORMAT);
        is_refused("cas k 0 0 1 -1\r\n", BAD_FORMAT);
        is_refused(&format!("set {} 0 0 1\r\n", "x".repeat(251)), BAD_FORMAT);
    }

    #[test]
    fn too_few_and_too_many_words_are_an_error() {
        for line in
            ["set", "set k", "set k 0 0", "set k 0 0 1 2 3", "cas k 0 0 1", "cas k 0 0 1 2 3 4"]
        {
            is_refused(&format!("{line}\r\n"), ERROR);
        }
    }
}
