//! A key as sent: plain, or base64 of a binary one.

use super::{super::MAX_KEY, base64};

/// A key as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    sent: &'a [u8],
    base64: bool,
}

impl<'a> Key<'a> {
    /// A key as sent, at most [`MAX_KEY`] long; `None`: it should be base64, and is not.
    pub(super) fn new(sent: &'a [u8], base64: bool) -> Option<Self> {
        let right = !base64 || base64::decode(sent, &mut [0; MAX_KEY]).is_some();
        right.then_some(Self { sent, base64 })
    }

    /// The key itself. `buffer` takes a binary one.
    #[inline]
    pub fn bytes<'b>(&self, buffer: &'b mut [u8; MAX_KEY]) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.base64 { base64::decode(self.sent, buffer).unwrap_or_default() } else { self.sent }
    }

    /// Was it sent as base64?
    pub fn is_base64(&self) -> bool {
        self.base64
    }

    /// Appends it in the form of an answer: a binary one in base64, with its flag.
    pub fn write(&self, into: &mut Vec<u8>) {
        self.write_text(into);
        if self.base64 {
            into.extend_from_slice(b" b");
        }
    }

    /// Appends it as text, a binary one in base64.
    pub fn write_text(&self, into: &mut Vec<u8>) {
        if self.base64 {
            base64::encode(self.bytes(&mut [0; MAX_KEY]), into);
        } else {
            into.extend_from_slice(self.sent);
        }
    }
}
