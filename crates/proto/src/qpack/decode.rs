//! Decoding of field sections (RFC 9204 section 4.5).

use super::{QpackError, static_table};
use crate::hpack::text::Text;
use crate::hpack::{Decoded, ENTRY_OVERHEAD, HpackError, Line, integer};

/// Decodes one whole section and calls `sink` with every line, in order.
///
/// Once the size of the list is above `list_limit` no further line is delivered. `scratch` is
/// memory for Huffman codes; its content has no meaning.
pub fn decode(
    section: &[u8],
    list_limit: usize,
    scratch: &mut Vec<u8>,
    sink: &mut impl FnMut(Line<'_>),
) -> Result<Decoded, QpackError> {
    let mut input = section;
    prefix(&mut input)?;
    let mut size = 0_usize;
    while let Some(&first) = input.first() {
        let mut used = 0;
        let (mut given, mut never_indexed) = (None, first & 0x20 != 0);
        let (name, mut value) = match first >> 4 {
            // An entry, with its value.
            8.. => {
                never_indexed = false;
                let entry = entry(first & 0x40 != 0, &mut input, 6)?;
                (entry.0, Some(entry.1))
            }
            // The name of an entry.
            4..=7 => (entry(first & 0x10 != 0, &mut input, 4)?.0, None),
            2..=3 => {
                never_indexed = first & 0x10 != 0;
                given = Some(Text::decode(&mut input, 3, scratch, &mut used)?);
                (&[][..], None)
            }
            // Entries of the dynamic table that came after the section was begun.
            _ => return Err(QpackError::Dynamic),
        };
        let text = match value {
            Some(_) => None,
            None => Some(Text::decode(&mut input, 7, scratch, &mut used)?),
        };
        let name = given.as_ref().map_or(name, |text| text.of(scratch));
        if let Some(text) = &text {
            value = Some(text.of(scratch));
        }
        let value = value.unwrap_or_default();
        size = size.saturating_add(name.len() + value.len() + ENTRY_OVERHEAD);
        if size <= list_limit {
            sink(Line { name, value, static_name: 0, never_indexed, mark: &mut 0 });
        }
    }
    Ok(Decoded { size, too_large: size > list_limit })
}

/// The prefix of a section (section 4.5.1): that of one without dynamic entries.
fn prefix(input: &mut &[u8]) -> Result<(), QpackError> {
    let (&insert_count, rest) = input.split_first().ok_or(HpackError::Truncated)?;
    if insert_count != 0 {
        return Err(QpackError::Dynamic);
    }
    *input = rest;
    let negative = input.first().is_some_and(|first| first & 0x80 != 0);
    integer::decode(input, 7)?;
    // The base would be below 0.
    if negative { Err(QpackError::Dynamic) } else { Ok(()) }
}

/// A static entry, whose index has a prefix of `bits` bits.
#[inline]
fn entry(
    is_static: bool,
    input: &mut &[u8],
    bits: u32,
) -> Result<(&'static [u8], &'static [u8]), QpackError> {
    let index = integer::decode(input, bits)?;
    if !is_static {
        return Err(QpackError::Dynamic);
    }
    Ok(static_table::entry(index).ok_or(HpackError::Index)?)
}
