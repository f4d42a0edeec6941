//! Finds the end of the answer to a MySQL command.

/// More result sets follow (in the status of OK and EOF).
const MORE_RESULTS: u16 = 0x0008;
/// The rows stay with the server until they are fetched.
const CURSOR: u16 = 0x0040;
/// The code of an error packet that is none: MariaDB's progress reports.
const PROGRESS: u16 = 0xffff;

/// The part of an answer that comes next.
#[derive(Debug)]
pub(super) enum Answer {
    /// OK, an error, a file asked for, or the number of columns.
    Result,
    /// This many columns.
    Columns(u64),
    /// The EOF after the columns.
    AfterColumns,
    /// Rows (or fields) to EOF.
    Rows,
    /// The numbers of a prepared statement.
    Prepare,
    /// This many packets.
    Skip(u64),
    /// One packet.
    Single,
    /// Another authentication.
    Proof,
    /// Nothing: the answer ends with the end of its last packet.
    Ended,
}

/// The effect of a packet on an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    On,
    /// The client must send a file.
    File,
    End,
    Wrong(&'static str),
}

impl Answer {
    /// Bytes of a packet that are examined: two numbers of nine bytes before a status, and a first
    /// byte.
    pub(super) const SEEN: usize = 32;

    /// Reads the next packet of the answer from its first bytes and its length.
    pub(super) fn packet(
        &mut self,
        content: &[u8],
        length: usize,
        deprecate_eof: bool,
        cached_columns: bool,
    ) -> Step {
        let Some(&kind) = content.first() else {
            // A row without columns does not exist; an empty text of COM_STATISTICS may.
            return if matches!(self, Answer::Single) {
                Step::End
            } else {
                Step::Wrong("the server sent an empty packet")
            };
        };
        if kind == 0xff && !matches!(self, Answer::Columns(_) | Answer::Skip(_)) {
            let progress = content.get(1..3) == Some(&PROGRESS.to_le_bytes());
            return if progress { Step::On } else { Step::End };
        }
        match self {
            Answer::Result => self.result(kind, content, deprecate_eof, cached_columns),
            Answer::Columns(left) | Answer::Skip(left) if *left > 1 => {
                *left -= 1;
                Step::On
            }
            Answer::Columns(_) => {
                *self = if deprecate_eof { Answer::Rows } else { Answer::AfterColumns };
                Step::On
            }
            Answer::AfterColumns => {
                if eof_status(content) & CURSOR != 0 {
                    return self.set_ended(eof_status(content));
                }
                *self = Answer::Rows;
                Step::On
            }
            // A row of 16 MB and more may begin with this byte, too.
            Answer::Rows if kind == 0xfe && (length < 9 || deprecate_eof && length < 0xff_ffff) => {
                let status = if deprecate_eof { ok_status(content) } else { eof_status(content) };
                self.set_ended(status)
            }
            Answer::Rows => Step::On,
            Answer::Prepare => self.prepare(content, deprecate_eof),
            Answer::Skip(_) | Answer::Single => Step::End,
            Answer::Proof | Answer::Ended => Step::Wrong("the server sent more than was asked for"),
        }
    }

    fn result(
        &mut self,
        kind: u8,
        content: &[u8],
        deprecate_eof: bool,
        cached_columns: bool,
    ) -> Step {
        match kind {
            0x00 => self.set_ended(ok_status(content)),
            0xfb => Step::File,
            _ => {
                let Some((columns, rest)) = number(content) else {
                    return Step::Wrong("the server's number of columns is none");
                };
                let known = cached_columns && rest.first() == Some(&0);
                *self = match (known, deprecate_eof) {
                    (false, _) => Answer::Columns(columns),
                    (true, true) => Answer::Rows,
                    (true, false) => Answer::AfterColumns,
                };
                Step::On
            }
        }
    }

    fn set_ended(&mut self, status: u16) -> Step {
        if status & MORE_RESULTS == 0 {
            return Step::End;
        }
        *self = Answer::Result;
        Step::On
    }

    fn prepare(&mut self, content: &[u8], deprecate_eof: bool) -> Step {
        let &[0, _, _, _, _, c0, c1, p0, p1, ..] = content else {
            return Step::Wrong("the server's answer to a statement to prepare is too short");
        };
        let definitions = |count: u16| match count {
            0 => 0,
            count => u64::from(count) + u64::from(!deprecate_eof),
        };
        match definitions(u16::from_le_bytes([c0, c1])) + definitions(u16::from_le_bytes([p0, p1]))
        {
            0 => Step::End,
            packets => {
                *self = Answer::Skip(packets);
                Step::On
            }
        }
    }
}

/// The status in an OK: after the number of changed rows and the last inserted id. Without one,
/// nothing follows.
fn ok_status(content: &[u8]) -> u16 {
    let status = || {
        let (_, rest) = number(&content[1..])?;
        let (_, rest) = number(rest)?;
        rest.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    };
    status().unwrap_or(0)
}

/// The status in an EOF: after the number of warnings.
fn eof_status(content: &[u8]) -> u16 {
    content
        .get(3..5)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// A length-encoded number, and the bytes after it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let width = match first {
        0..=0xfa => return Some((u64::from(*first), rest)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(width)?;
    Some((value.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)), rest))
}
