//! Lengths, strings and numbers.

use std::ops::Range;

use super::{Bad, LONGEST, Lzf};
use crate::resp::number::push_i64;

/// A position in a payload.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// Position of the next byte.
    pub at: usize,
}

/// A string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// It lies there in the payload.
    There(Range<usize>),
    /// A number that was stored in binary.
    Number(Vec<u8>),
    /// It is compressed there, and has so many bytes.
    Packed(Range<usize>, usize),
}

impl<'a> Reader<'a> {
    /// So many bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Bad> {
        let end = self.at.checked_add(len).ok_or(Bad)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Bad)?;
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        self.take(N)?.try_into().map_err(|_| Bad)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Bad> {
        Ok(self.array::<1>()?[0])
    }

    /// A number of 8 bytes, little endian.
    pub(super) fn fixed(&mut self) -> Result<u64, Bad> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length; Err of a kind of string that is no length.
    fn len_or_kind(&mut self) -> Result<Result<u64, u8>, Bad> {
        let first = self.byte()?;
        Ok(match (first >> 6, first) {
            (0, _) => Ok(u64::from(first & 0x3f)),
            (1, _) => Ok(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            (3, _) => Err(first & 0x3f),
            (_, 0x80) => Ok(u32::from_be_bytes(self.array()?).into()),
            (_, 0x81) => Ok(u64::from_be_bytes(self.array()?)),
            _ => return Err(Bad),
        })
    }

    /// A length or a number.
    pub(super) fn len(&mut self) -> Result<u64, Bad> {
        self.len_or_kind()?.map_err(|_| Bad)
    }

    /// A string.
    ///
    /// # Errors
    /// There is none.
    pub fn text(&mut self) -> Result<Text, Bad> {
        let number = |number: i64| {
            let mut text = Vec::new();
            push_i64(&mut text, number);
            Ok(Text::Number(text))
        };
        let range = |own: &mut Self, len: u64| -> Result<Range<usize>, Bad> {
            let start = own.at;
            own.take(usize::try_from(len).map_err(|_| Bad)?)?;
            Ok(start..own.at)
        };
        match self.len_or_kind()? {
            Ok(len) => Ok(Text::There(range(self, len)?)),
            Err(0) => number(i8::from_le_bytes(self.array()?).into()),
            Err(1) => number(i16::from_le_bytes(self.array()?).into()),
            Err(2) => number(i32::from_le_bytes(self.array()?).into()),
            Err(3) => {
                let (packed, len) = (self.len()?, self.len()?);
                let len = usize::try_from(len).map_err(|_| Bad)?;
                Ok(Text::Packed(range(self, packed)?, len))
            }
            Err(_) => Err(Bad),
        }
    }

    /// The bytes of a string, which are at most [`LONGEST`].
    pub(super) fn string(&mut self) -> Result<Vec<u8>, Bad> {
        match self.text()? {
            Text::There(place) if place.len() <= LONGEST => Ok(self.bytes[place].to_vec()),
            Text::Number(text) => Ok(text),
            Text::Packed(place, len) if len <= LONGEST => {
                let mut unpacked = Lzf::new(place.len(), len)?;
                if !unpacked.step(&self.bytes[place], usize::MAX)? {
                    return Err(Bad);
                }
                Ok(unpacked.into_bytes())
            }
            _ => Err(Bad),
        }
    }

    /// A score of the older form: a length and digits, or a mark.
    pub(super) fn old_score(&mut self) -> Result<f64, Bad> {
        let score = match self.byte()? {
            253 => return Err(Bad),
            254 => f64::INFINITY,
            255 => f64::NEG_INFINITY,
            len => {
                let text = std::str::from_utf8(self.take(len.into())?).map_err(|_| Bad)?;
                text.parse().map_err(|_| Bad)?
            }
        };
        if score.is_nan() { Err(Bad) } else { Ok(score) }
    }

    /// A score of 8 bytes.
    pub(super) fn score(&mut self) -> Result<f64, Bad> {
        let score = f64::from_bits(self.fixed()?);
        if score.is_nan() { Err(Bad) } else { Ok(score) }
    }
}
