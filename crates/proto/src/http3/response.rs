//! Frames of responses (RFC 9114 sections 4.1 and 7.2).

use super::frame::{FrameHead, kind};
use crate::qpack::Section;

/// Appends the head of a response: its status and field lines as HTTP/1.1 has them, `Name: value`
/// and CRLF each. Fields of the connection are left out.
#[inline]
pub fn head(status: u16, lines: &[u8], out: &mut Vec<u8>) {
    headers(out, |section| {
        section.status(status);
        section.lines(lines);
    });
}

/// Appends trailers: lines as in [`head`].
pub fn trailers(lines: &[u8], out: &mut Vec<u8>) {
    headers(out, |section| section.lines(lines));
}

/// Appends the head of a DATA frame, behind which `length` bytes have to follow.
#[inline]
pub fn data(length: u64, out: &mut Vec<u8>) {
    FrameHead { kind: kind::DATA, length }.write(out);
}

/// Bytes of an integer up to 16,383.
const SHORT: usize = 2;

#[inline]
fn headers(out: &mut Vec<u8>, write: impl FnOnce(&mut Section<'_>)) {
    out.extend_from_slice(&[kind::HEADERS as u8, 0, 0]);
    let start = out.len();
    write(&mut Section::new(out));
    let length = out.len() - start;
    if length < 0x4000 {
        out[start - SHORT..start].copy_from_slice(&(length as u16 | 0x4000).to_be_bytes());
    } else {
        let long = (length as u32 | 0x8000_0000).to_be_bytes();
        out.splice(start - SHORT..start, long);
    }
}
