//! Listpacks (`listpack.c`), ziplists (`ziplist.c`) and sets of integers (`intset.c`): the elements
//! of small values in one string.

use super::{Bad, Reader};
use crate::resp::number::push_i64;

/// The form of a packed string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Listpack,
    Ziplist,
    Integers,
}

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Number(i64),
    Bytes(Vec<u8>),
}

impl Element {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Element::Bytes(bytes) => bytes,
            Element::Number(number) => {
                let mut text = Vec::new();
                push_i64(&mut text, number);
                text
            }
        }
    }

    pub(super) fn number(self) -> Result<i64, Bad> {
        match self {
            Element::Number(number) => Ok(number),
            Element::Bytes(bytes) => crate::resp::number::parse_i64(&bytes).ok_or(Bad),
        }
    }
}

/// A packed string that is read from its start.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    packing: Packing,
    bytes: Vec<u8>,
    at: usize,
}

const LISTPACK_HEAD: usize = 6;
const ZIPLIST_HEAD: usize = 10;
const INTSET_HEAD: usize = 8;
const END: u8 = 0xff;

impl Packed {
    pub(super) fn new(packing: Packing, bytes: Vec<u8>) -> Result<Packed, Bad> {
        let head = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            four.map(u32::from_le_bytes).ok_or(Bad)
        };
        let (is_right, at) = match packing {
            Packing::Listpack => (head(0)? as usize == bytes.len(), LISTPACK_HEAD),
            Packing::Ziplist => (head(0)? as usize == bytes.len(), ZIPLIST_HEAD),
            Packing::Integers => {
                let (width, count) = (head(0)?, head(4)?);
                let len = u64::from(width) * u64::from(count) + INTSET_HEAD as u64;
                (matches!(width, 2 | 4 | 8) && len == bytes.len() as u64, INTSET_HEAD)
            }
        };
        let ends = packing == Packing::Integers || bytes.last() == Some(&END);
        if !is_right || !ends || bytes.len() < at {
            return Err(Bad);
        }
        Ok(Packed { packing, bytes, at })
    }

    /// The next element; None: there is none.
    pub(super) fn next(&mut self) -> Result<Option<Element>, Bad> {
        let mut reader = Reader { bytes: &self.bytes, at: self.at };
        let element = match self.packing {
            Packing::Integers => {
                if reader.at == self.bytes.len() {
                    return Ok(None);
                }
                let width = usize::from(self.bytes[0]);
                Element::Number(integer(reader.take(width)?))
            }
            Packing::Listpack | Packing::Ziplist => {
                if self.bytes.get(self.at) == Some(&END) {
                    return if self.at + 1 == self.bytes.len() { Ok(None) } else { Err(Bad) };
                }
                match self.packing {
                    Packing::Listpack => listpack_element(&mut reader)?,
                    _ => ziplist_element(&mut reader)?,
                }
            }
        };
        self.at = reader.at;
        Ok(Some(element))
    }

    /// The next element, which must be there.
    pub(super) fn must(&mut self) -> Result<Element, Bad> {
        self.next()?.ok_or(Bad)
    }
}

/// A signed number, little endian.
fn integer(bytes: &[u8]) -> i64 {
    let mut wide = [if bytes.last().is_some_and(|byte| byte >> 7 == 1) { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}

fn listpack_element(reader: &mut Reader<'_>) -> Result<Element, Bad> {
    let start = reader.at;
    let first = reader.byte()?;
    let low = usize::from(first & 0x0f);
    let bytes = |reader: &mut Reader<'_>, len: usize| {
        reader.take(len).map(|bytes| Element::Bytes(bytes.to_vec()))
    };
    let element = match first {
        0..0x80 => Element::Number(first.into()),
        0x80..0xc0 => bytes(reader, usize::from(first & 0x3f))?,
        0xc0..0xe0 => {
            let number = i64::from(first & 0x1f) << 8 | i64::from(reader.byte()?);
            Element::Number(if number >= 1 << 12 { number - (1 << 13) } else { number })
        }
        0xe0..0xf0 => {
            let len = low << 8 | usize::from(reader.byte()?);
            bytes(reader, len)?
        }
        0xf0 => {
            let len = reader.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Bad)?;
            bytes(reader, len as usize)?
        }
        0xf1 => Element::Number(integer(reader.take(2)?)),
        0xf2 => Element::Number(integer(reader.take(3)?)),
        0xf3 => Element::Number(integer(reader.take(4)?)),
        0xf4 => Element::Number(integer(reader.take(8)?)),
        _ => return Err(Bad),
    };
    let back = back_len(reader.at - start);
    reader.take(back)?;
    Ok(element)
}

/// Bytes of the length behind an element of so many bytes.
fn back_len(len: usize) -> usize {
    match len {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

fn ziplist_element(reader: &mut Reader<'_>) -> Result<Element, Bad> {
    if reader.byte()? == 0xfe {
        reader.take(4)?;
    }
    let first = reader.byte()?;
    let len = match first {
        0..0x40 => usize::from(first),
        0x40..0x80 => usize::from(first & 0x3f) << 8 | usize::from(reader.byte()?),
        0x80 => reader.take(4)?.try_into().map(u32::from_be_bytes).map_err(|_| Bad)? as usize,
        0xc0 => return Ok(Element::Number(integer(reader.take(2)?))),
        0xd0 => return Ok(Element::Number(integer(reader.take(4)?))),
        0xe0 => return Ok(Element::Number(integer(reader.take(8)?))),
        0xf0 => return Ok(Element::Number(integer(reader.take(3)?))),
        0xfe => return Ok(Element::Number(integer(reader.take(1)?))),
        0xf1..=0xfd => return Ok(Element::Number(i64::from(first & 0x0f) - 1)),
        _ => return Err(Bad),
    };
    Ok(Element::Bytes(reader.take(len)?.to_vec()))
}

/// A listpack that is written.
#[derive(Clone, Debug)]
pub struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Default for Listpack {
    fn default() -> Self {
        Listpack { bytes: vec![0; LISTPACK_HEAD], count: 0 }
    }
}

impl Listpack {
    /// Appends a number.
    pub fn push_number(&mut self, number: i64) {
        let start = self.bytes.len();
        if (0..128).contains(&number) {
            self.bytes.push(number as u8);
        } else {
            self.bytes.push(0xf4);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.end(start);
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let (start, len) = (self.bytes.len(), bytes.len());
        match len {
            0..0x40 => self.bytes.push(0x80 | len as u8),
            0x40..0x1000 => {
                self.bytes.extend_from_slice(&[0xe0 | (len >> 8) as u8, len as u8]);
            }
            _ => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(bytes);
        self.end(start);
    }

    /// Appends the length of an element, seven bits in a byte, the last with the lowest.
    fn end(&mut self, start: usize) {
        let len = self.bytes.len() - start;
        let bytes = back_len(len);
        for nth in (0..bytes).rev() {
            let more = if nth + 1 < bytes { 0x80 } else { 0 };
            self.bytes.push((len >> (7 * nth)) as u8 & 0x7f | more);
        }
        self.count += 1;
    }

    /// Its bytes.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let len = (self.bytes.len() as u32).to_le_bytes();
        self.bytes[..4].copy_from_slice(&len);
        let count = u16::try_from(self.count).unwrap_or(u16::MAX).to_le_bytes();
        self.bytes[4..6].copy_from_slice(&count);
        self.bytes
    }
}
