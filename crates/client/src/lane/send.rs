//! Send buffer: one batch of requests, written with as few system calls as possible.
//!
//! Request heads are contiguous in one buffer. Small values are copied after their heads, which is
//! cheaper than an entry of a vectored write; large values are sent from where they are.

use std::io::IoSlice;

use bytes::Bytes;

/// Values up to this size are copied.
const SMALL: usize = 2048;
/// Most slices in one vectored write; the rest of a batch follows in the next.
const PIECES: usize = 128;
/// Capacity above which the empty head buffer is released.
const KEPT: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    heads: Vec<u8>,
    parts: Vec<Part>,
    /// Number of parts that are sent.
    done: usize,
    /// Bytes sent of the next part.
    within: usize,
    /// End of the heads that are in `parts`.
    closed: usize,
}

#[derive(Debug)]
enum Part {
    Heads(usize, usize),
    Value(Bytes),
}

impl SendBuffer {
    /// The buffer for heads.
    pub(super) fn head(&mut self) -> &mut Vec<u8> {
        &mut self.heads
    }

    /// Appends a value.
    pub(super) fn value(&mut self, value: Bytes) {
        if value.len() <= SMALL {
            self.heads.extend_from_slice(&value);
        } else {
            self.close();
            self.parts.push(Part::Value(value));
        }
    }

    /// Whether everything is sent.
    pub(super) fn is_empty(&self) -> bool {
        self.done == self.parts.len() && self.closed == self.heads.len()
    }

    fn close(&mut self) {
        if self.closed < self.heads.len() {
            self.parts.push(Part::Heads(self.closed, self.heads.len()));
            self.closed = self.heads.len();
        }
    }

    /// Calls `write` with the next slices and returns its result.
    pub(super) fn pieces<T>(&mut self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        self.close();
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for (at, part) in self.parts[self.done..].iter().take(PIECES).enumerate() {
            let whole: &[u8] = match part {
                Part::Heads(from, to) => &self.heads[*from..*to],
                Part::Value(value) => value,
            };
            slices[at] = IoSlice::new(if at == 0 { &whole[self.within..] } else { whole });
            count += 1;
        }
        write(&slices[..count])
    }

    /// Records that this many bytes were sent.
    pub(super) fn sent(&mut self, mut bytes: usize) {
        while bytes > 0 && self.done < self.parts.len() {
            let len = match &self.parts[self.done] {
                Part::Heads(from, to) => to - from,
                Part::Value(value) => value.len(),
            };
            let left = len - self.within;
            if bytes < left {
                self.within += bytes;
                return;
            }
            bytes -= left;
            self.within = 0;
            self.parts[self.done] = Part::Heads(0, 0);
            self.done += 1;
        }
        if self.is_empty() {
            self.heads.clear();
            if self.heads.capacity() > KEPT {
                self.heads = Vec::new();
            }
            self.parts.clear();
            (self.done, self.within, self.closed) = (0, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends in steps of `step` bytes; returns all bytes and the number of slices of the first
    /// write.
    fn drain(mut out: SendBuffer, step: usize) -> (Vec<u8>, usize) {
        let mut all = Vec::new();
        let mut first = None;
        while !out.is_empty() {
            let chunk: Vec<u8> = out.pieces(|pieces| {
                first.get_or_insert(pieces.len());
                pieces.iter().flat_map(|piece| piece.iter().copied()).take(step).collect()
            });
            out.sent(chunk.len());
            all.extend(chunk);
        }
        assert!(out.heads.is_empty() && out.parts.is_empty());
        (all, first.unwrap_or(0))
    }

    fn batch() -> (SendBuffer, Vec<u8>) {
        let mut out = SendBuffer::default();
        let mut whole = Vec::new();
        for (n, size) in [10, 5000, 0, 3000, SMALL, SMALL + 1].into_iter().enumerate() {
            let value = vec![b'a' + n as u8; size];
            out.head().extend_from_slice(b"set x\r\n");
            out.value(value.clone().into());
            out.head().extend_from_slice(b"\r\n");
            whole.extend_from_slice(b"set x\r\n");
            whole.extend_from_slice(&value);
            whole.extend_from_slice(b"\r\n");
        }
        (out, whole)
    }

    #[test]
    fn all_bytes_are_sent_in_order_however_they_are_taken() {
        for step in [1, 7, 4096, usize::MAX] {
            let (out, whole) = batch();
            let (sent, pieces) = drain(out, step);
            assert!(sent == whole, "in steps of {step}");
            assert_eq!(pieces, 7, "three large values, and the heads and small values around them");
        }
    }
}
