//! The lines of a connection's last head with their encoding: the next head often begins with the
//! same lines.

use super::table::Table;

/// Bytes of lines that are remembered at most.
const LONGEST: usize = 4096;
/// Bytes that are compared at once.
const STEP: usize = 32;

/// Lines that were encoded without a change of the table.
#[derive(Debug, Default)]
pub(super) struct Memo {
    lines: Vec<u8>,
    encoded: Vec<u8>,
    /// The end of each line, in `lines` and in `encoded`.
    ends: Vec<(u32, u32)>,
    /// [`Table::changes`] of the table that `encoded` refers to.
    changes: u64,
}

impl Memo {
    /// Whether `lines` may be remembered.
    pub(super) fn takes(lines: &[u8]) -> bool {
        lines.len() <= LONGEST
    }

    /// Bytes of memory behind it.
    pub(super) fn memory(&self) -> usize {
        self.lines.capacity()
            + self.encoded.capacity()
            + self.ends.capacity() * size_of::<(u32, u32)>()
    }

    /// Forgets all but the lines with which `lines` begins too. Returns their length and their
    /// encoding.
    #[inline]
    pub(super) fn keep_common(&mut self, lines: &[u8], table: &Table) -> (usize, &[u8]) {
        if self.changes != table.changes() {
            self.clear();
        }
        let same = common(&self.lines, lines) as u32;
        while self.ends.last().is_some_and(|(line, _)| *line > same) {
            self.ends.pop();
        }
        let (line, code) = self.ends.last().copied().unwrap_or_default();
        self.lines.truncate(line as usize);
        self.encoded.truncate(code as usize);
        (line as usize, &self.encoded)
    }

    /// The lines remembered so far are followed by one more, which ends there.
    #[inline]
    pub(super) fn ends(&mut self, line: usize, code: usize) {
        self.ends.push((line as u32, code as u32));
    }

    /// Remembers the bytes behind the kept ones, whose ends it was told.
    #[inline]
    pub(super) fn extend(&mut self, lines: &[u8], encoded: &[u8], table: &Table) {
        self.lines.extend_from_slice(lines);
        self.encoded.extend_from_slice(encoded);
        self.changes = table.changes();
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.encoded.clear();
        self.ends.clear();
    }
}

/// Length of a common beginning, or up to [`STEP`] bytes less.
#[inline]
fn common(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.chunks(STEP).zip(other.chunks(STEP));
    pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len()).sum()
}
