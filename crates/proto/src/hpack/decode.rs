//! Decoding of header blocks (RFC 7541 sections 3 and 6).

use super::table::{Name, Table};
use super::text::Text;
use super::{DEFAULT_TABLE_SIZE, ENTRY_OVERHEAD, HpackError, integer, static_table};

/// Lists more than this many times as large as the limit are an error: two bytes of a block may
/// insert a copy of a name of 4 KiB, and a list above the limit is decoded for the table alone.
const EXPANSION: usize = 8;
/// The least size that is one, in bytes, however small the limit is.
const LEAST_MOST: usize = 64 * 1024;

/// One decoded field line.
#[derive(Debug)]
pub struct Line<'a> {
    /// The name as received: nothing is checked.
    pub name: &'a [u8],
    /// The value as received: nothing is checked.
    pub value: &'a [u8],
    /// Index in the static table of an entry with this name; 0 if the block did not refer to one.
    pub static_name: u8,
    /// The peer asks that no one ever indexes this line (section 6.2.3).
    pub never_indexed: bool,
    /// A note that stays with the line in the dynamic table: 0 in a line that is new, else as the
    /// receiver left it. A receiver that notes its findings need not check the line again.
    pub mark: &'a mut u8,
}

/// Result of decoding a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Size of the header list: names, values and 32 bytes for each line (RFC 9113 section 6.5.2).
    pub size: usize,
    /// The size is above the limit: lines behind it were decoded and not delivered.
    pub too_large: bool,
}

/// The decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Largest size that the peer may choose for the table.
    setting: u32,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: Table::new(DEFAULT_TABLE_SIZE), setting: DEFAULT_TABLE_SIZE }
    }
}

impl Decoder {
    /// Sets the largest table that the peer may use, once it has acknowledged the setting
    /// (`SETTINGS_HEADER_TABLE_SIZE`). If the table in use is larger, the next block must begin
    /// with a size update (section 4.2).
    pub fn set_table_size(&mut self, setting: u32) {
        self.setting = setting.min(super::MAX_TABLE_SIZE);
    }

    /// Bytes of memory behind the decoder.
    pub fn memory(&self) -> usize {
        self.table.memory()
    }

    /// Frees the memory of an empty table. The table of a peer that indexes stays: it belongs to
    /// the protocol's state.
    pub fn rest(&mut self) {
        self.table.shrink();
    }

    /// Decodes one whole block and calls `sink` with every line, in order.
    ///
    /// Once the size of the list is above `list_limit` no further line is delivered, but the table
    /// is kept in step, up to a list many times as large ([`HpackError::TooLarge`]). `scratch` is
    /// memory for Huffman codes; its content has no meaning.
    pub fn decode(
        &mut self,
        block: &[u8],
        list_limit: usize,
        scratch: &mut Vec<u8>,
        sink: &mut impl FnMut(Line<'_>),
    ) -> Result<Decoded, HpackError> {
        let mut input = self.size_updates(block)?;
        let mut size = 0_usize;
        let most = list_limit.saturating_mul(EXPANSION).max(LEAST_MOST);
        while let Some(&first) = input.first() {
            if size > most {
                return Err(HpackError::TooLarge);
            }
            let mut deliver = |line: Line<'_>| {
                size = size.saturating_add(line.name.len() + line.value.len() + ENTRY_OVERHEAD);
                if size <= list_limit {
                    sink(line);
                }
            };
            if first & 0x80 != 0 {
                self.indexed(integer::decode(&mut input, 7)?, &mut deliver)?;
            } else {
                self.literal(first, &mut input, scratch, &mut deliver)?;
            }
        }
        Ok(Decoded { size, too_large: size > list_limit })
    }

    /// Reads the size updates at the start of a block: at most two, the smallest size and the last
    /// (section 4.2).
    #[inline]
    fn size_updates<'b>(&mut self, block: &'b [u8]) -> Result<&'b [u8], HpackError> {
        let (mut input, mut updates) = (block, 0);
        while let Some(0x20..=0x3f) = input.first() {
            let size = integer::decode(&mut input, 5)?;
            updates += 1;
            if size > self.setting as usize || updates > 2 {
                return Err(HpackError::TableSize);
            }
            self.table.resize(size as u32);
        }
        if self.table.max() > self.setting { Err(HpackError::TableSize) } else { Ok(input) }
    }

    #[inline]
    fn indexed(&mut self, index: usize, sink: &mut impl FnMut(Line<'_>)) -> Result<(), HpackError> {
        if let Some((name, value)) = static_table::entry(index) {
            let (static_name, mark) = (index as u8, &mut 0);
            sink(Line { name, value, static_name, never_indexed: false, mark });
            return Ok(());
        }
        let place = index.checked_sub(static_table::LEN + 1).ok_or(HpackError::Index)?;
        let (name, value, entry) = self.table.get_mut(place).ok_or(HpackError::Index)?;
        let (static_name, mark) = (entry.static_name, &mut entry.mark);
        sink(Line { name, value, static_name, never_indexed: false, mark });
        Ok(())
    }

    #[inline]
    fn literal(
        &mut self,
        first: u8,
        input: &mut &[u8],
        scratch: &mut Vec<u8>,
        sink: &mut impl FnMut(Line<'_>),
    ) -> Result<(), HpackError> {
        let adds = first & 0x40 != 0;
        if !adds && first & 0x20 != 0 {
            // A size update behind the first field.
            return Err(HpackError::TableSize);
        }
        let index = integer::decode(input, if adds { 6 } else { 4 })?;
        let mut used = 0;
        let (given, place) = match index.checked_sub(static_table::LEN + 1) {
            None if index == 0 => (Some(Text::decode(input, 7, scratch, &mut used)?), None),
            place => (None, place),
        };
        let value = Text::decode(input, 7, scratch, &mut used)?;
        let value = value.of(scratch);
        let (name, static_name) = match (&given, place) {
            (Some(text), _) => (text.of(scratch), 0),
            (None, None) => (static_table::entry(index).ok_or(HpackError::Index)?.0, index as u8),
            (None, Some(place)) => {
                let (name, _, entry) = self.table.get_mut(place).ok_or(HpackError::Index)?;
                let static_name = entry.static_name;
                (name, static_name)
            }
        };
        let mut mark = 0;
        let never_indexed = !adds && first & 0x10 != 0;
        sink(Line { name, value, static_name, never_indexed, mark: &mut mark });
        if adds {
            let name = match (&given, place) {
                (None, Some(place)) => Name::Entry(place),
                (Some(text), _) => Name::Given(text.of(scratch)),
                (None, None) => Name::Given(static_table::entry(index).ok_or(HpackError::Index)?.0),
            };
            self.table.insert(name, value, static_name, mark);
        }
        Ok(())
    }
}
