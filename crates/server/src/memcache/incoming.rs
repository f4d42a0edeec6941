//! Values too long to buffer, for the text, meta and binary protocols. The received bytes go
//! directly to their place in the store; the item becomes visible when the value is complete.
//!
//! Shorter values do not pass here: the store copies them once from the receive buffer.

use std::sync::Arc;

use larder_proto::memcache::BAD_CHUNK;
use larder_store::{Fill, FillOptions, PutError};

use super::{
    Face, OBJECTS, binary, meta,
    ops::{self, Stored, Write},
    text,
};
use crate::room::{Held, Place};
use crate::{clock::Ms, net::out::Out, object::Client};

/// Bytes behind a data block in the text protocols.
const END: &[u8] = b"\r\n";

/// The command of a value; it composes the answer.
#[derive(Debug)]
pub(super) enum Answer {
    Text(text::Store),
    Meta(meta::Set),
    Binary(binary::Value),
}

impl Answer {
    fn write(&self) -> (Write<'_>, u64) {
        match self {
            Self::Text(store) => (store.write(), store.len),
            Self::Meta(set) => (set.write(), set.len),
            Self::Binary(value) => {
                let write = Write {
                    mode: value.mode,
                    key: &value.key,
                    flags: value.flags,
                    expires: value.expires,
                    compare: value.compare,
                    ..Write::default()
                };
                (write, value.len)
            }
        }
    }

    /// Bytes expected behind the value.
    fn end(&self) -> &'static [u8] {
        match self {
            Self::Text(_) | Self::Meta(_) => END,
            Self::Binary(_) => b"",
        }
    }

    fn stored(&self, face: &Face, stored: Stored, now: Ms, out: &mut Out) {
        match self {
            Self::Text(store) => store.stored(stored, out),
            Self::Meta(set) => set.stored(face, stored, now, out),
            Self::Binary(value) => value.stored(face, stored, out),
        }
    }

    /// Answers that the block has no valid end.
    fn bad_chunk(&self, out: &mut Out) {
        match self {
            Self::Text(store) if store.noreply => {}
            _ => out.scratch().extend_from_slice(BAD_CHUNK),
        }
    }
}

/// A value in transfer.
#[derive(Debug)]
pub(super) struct Incoming {
    answer: Answer,
    /// The store's reservation for the bytes, or the reason why they are discarded.
    fill: Result<Fill<'static>, Stored>,
    /// Bytes of the value that are not received yet.
    left: u64,
    /// Bytes behind the value that are not received yet.
    end: &'static [u8],
    /// Other bytes came behind the value.
    broken: bool,
    /// Store memory that the value occupies.
    held: Held,
}

/// The result that reports a failed write.
fn failure(error: PutError) -> Stored {
    match error {
        PutError::TooLarge => Stored::TooLarge,
        _ => Stored::NoMemory,
    }
}

impl Incoming {
    /// Starts the transfer of a value. An error: the value cannot be stored; the client is
    /// answered, and this many bytes must be discarded.
    pub(super) fn begin(
        face: &Face,
        client: &Arc<Client>,
        answer: Answer,
        now: Ms,
        out: &mut Out,
    ) -> Result<Self, u64> {
        let (write, len) = answer.write();
        let begin = || {
            if !ops::fits(face, write.key, write.flags, len) {
                return Err(Stored::TooLarge);
            }
            // A value that fits a segment gets its memory at once, a longer one as it arrives.
            let mut held = Held::new(&client.holder, Place::Store);
            if !held.resize(len.min(face.segment)) {
                return Err(Stored::NoMemory);
            }
            let options =
                FillOptions { flags: write.flags, size_hint: Some(len), ..FillOptions::default() };
            let fill = face.store.fill(OBJECTS, write.key, options, now).map_err(failure)?;
            if held.resize(fill.memory(0)) { Ok((fill, held)) } else { Err(Stored::NoMemory) }
        };
        let end = answer.end();
        match begin() {
            Ok((fill, held)) => {
                Ok(Self { answer, fill: Ok(fill), left: len, end, broken: false, held })
            }
            Err(stored) => {
                ops::refuse(face, &write, stored, len, now);
                answer.stored(face, stored, now, out);
                Err(len + end.len() as u64)
            }
        }
    }

    /// Takes the value's bytes from `input`. Returns their number, and whether the value is
    /// complete.
    pub(super) fn take(&mut self, input: &[u8]) -> (usize, bool) {
        let value = self.left.min(input.len() as u64) as usize;
        self.left -= value as u64;
        // After a failed write the bytes are discarded, so that the next command is found.
        if let Ok(fill) = &mut self.fill {
            let written = if self.held.resize(fill.memory(value as u64)) {
                fill.write(&input[..value]).map_err(failure)
            } else {
                Err(Stored::NoMemory)
            };
            if let Err(stored) = written {
                self.fill = Err(stored);
                self.held.resize(0);
            }
        }
        let mut used = value;
        if self.left == 0 {
            let behind = self.end.len().min(input.len() - value);
            let (expected, rest) = self.end.split_at(behind);
            self.broken |= input[value..value + behind] != *expected;
            self.end = rest;
            used += behind;
        }
        (used, self.left == 0 && self.end.is_empty())
    }

    /// Stores the complete value and answers.
    pub(super) fn end(self, face: &Face, now: Ms, out: &mut Out) {
        if self.broken {
            self.answer.bad_chunk(out);
            return;
        }
        let (write, len) = self.answer.write();
        let stored = match self.fill {
            Ok(fill) => ops::commit(face, &write, fill, len, now),
            Err(stored) => ops::refuse(face, &write, stored, len, now),
        };
        self.answer.stored(face, stored, now, out);
    }
}
