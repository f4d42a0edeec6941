//! Further data of a reply.

use super::super::super::{MAX_KEY, line::Words, meta::decode_base64};

/// Flags of a meta reply, or the fields of a binary reply's header. Empty for text replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra<'a> {
    pub(super) flags: Words<'a>,
    pub(super) header: Option<Header>,
}

/// Of a binary reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) opcode: u8,
    pub(super) opaque: u32,
    pub(super) cas: u64,
}

impl<'a> Extra<'a> {
    pub(super) fn meta(flags: Words<'a>) -> Extra<'a> {
        Extra { flags, header: None }
    }

    pub(super) fn binary(header: Header) -> Extra<'a> {
        Extra { flags: Words::new(b""), header: Some(header) }
    }

    /// The text after the letter of a flag; `None`: the flag is absent.
    pub fn flag(&self, letter: u8) -> Option<&'a [u8]> {
        { self.flags }.find(|flag| flag[0] == letter).map(|flag| &flag[1..])
    }

    /// The number of a flag such as `s`, `h` and `l`.
    pub fn number(&self, letter: u8) -> Option<u64> {
        super::line::number(self.flag(letter)?)
    }

    /// `t`: seconds until the item expires; `None`: it does not, or the flag was not requested.
    pub fn left(&self) -> Option<u64> {
        self.number(b't')
    }

    /// The opaque number of the request.
    #[inline]
    pub fn opaque(&self) -> Option<u32> {
        match self.header {
            Some(header) => Some(header.opaque),
            None => self.number(b'O')?.try_into().ok(),
        }
    }

    /// The version, if the reply has it.
    pub fn cas(&self) -> Option<u64> {
        match self.header {
            Some(header) => Some(header.cas).filter(|cas| *cas != 0),
            None => self.number(b'c'),
        }
    }

    /// The command of a binary reply.
    pub fn opcode(&self) -> Option<u8> {
        self.header.map(|header| header.opcode)
    }

    /// The key that a meta reply sends back. `buffer` takes a key that comes as base64. `None`:
    /// there is none, or it cannot be read.
    pub fn key<'b>(&self, buffer: &'b mut [u8; MAX_KEY]) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let sent = self.flag(b'k')?;
        if self.flag(b'b').is_some() { decode_base64(sent, buffer) } else { Some(sent) }
    }

    /// `W`: this client has won the right to store the item anew.
    pub fn won(&self) -> bool {
        self.flag(b'W').is_some()
    }

    /// `X`: the item is stale.
    pub fn stale(&self) -> bool {
        self.flag(b'X').is_some()
    }

    /// `Z`: another client has won already.
    pub fn others(&self) -> bool {
        self.flag(b'Z').is_some()
    }
}
