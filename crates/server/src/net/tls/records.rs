//! Plain bytes cut into records, and records written into buffers.

use std::io::{self, IoSlice};

use rustls::unbuffered::{EncodeError, EncryptError, InsufficientSizeError};

/// Plain bytes of a full record (RFC 8446 section 5.1).
pub(super) const RECORD: usize = 16 * 1024;

/// The bytes of some slices that are still to be sealed.
pub(super) struct Rest<'s, 'b> {
    slices: &'s [IoSlice<'b>],
    /// Bytes of the first slice that are used up.
    at: usize,
}

impl<'s, 'b> Rest<'s, 'b> {
    pub(super) fn new(slices: &'s [IoSlice<'b>]) -> Self {
        Self { slices, at: 0 }
    }

    pub(super) fn is_more(&self) -> bool {
        self.slices.iter().map(|slice| slice.len()).sum::<usize>() > self.at
    }

    /// The next full record, or all that is left. It is gathered in `several` where it lies in
    /// several slices. Empty: nothing is left.
    pub(super) fn next<'r>(&mut self, several: &'r mut Vec<u8>) -> &'r [u8]
    where
        's: 'r,
    {
        several.clear();
        while let Some((slice, others)) = self.slices.split_first() {
            let left = &slice[self.at..];
            let taken = left.len().min(RECORD - several.len());
            if several.is_empty() && (taken == RECORD || others.is_empty()) {
                self.at += taken;
                return &left[..taken];
            }
            several.extend_from_slice(&left[..taken]);
            if taken < left.len() || several.len() == RECORD {
                self.at += taken;
                break;
            }
            (self.slices, self.at) = (others, 0);
        }
        several
    }
}

/// Reasons why something could not be encoded.
pub(super) enum Fault {
    /// It takes so many bytes.
    Room(usize),
    Failed,
}

impl From<EncodeError> for Fault {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Fault::Room(required_size)
            }
            EncodeError::AlreadyEncoded => Fault::Failed,
        }
    }
}

impl From<EncryptError> for Fault {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Fault::Room(required_size)
            }
            EncryptError::EncryptExhausted => Fault::Failed,
        }
    }
}

/// Appends what `write` encodes.
pub(super) fn encode<E: Into<Fault>>(
    sealed: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> io::Result<()> {
    let before = sealed.len();
    let mut room = 0;
    loop {
        sealed.resize(before + room, 0);
        match write(&mut sealed[before..]).map_err(Into::into) {
            Ok(written) => {
                sealed.truncate(before + written);
                return Ok(());
            }
            Err(Fault::Room(needed)) if needed > room => room = needed,
            Err(_) => {
                sealed.truncate(before);
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

pub(super) fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Whether a client begins as one of HTTP does, or of another protocol of words; a TLS record
/// begins with 22 (RFC 8446 section 5.1).
pub(super) fn speaks_plainly(received: &[u8]) -> bool {
    received.first().is_some_and(u8::is_ascii_alphabetic)
}
