//! Reads lines of a file one at a time, of any length, compressed or not.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// Longest line: longer than any URL servers accept. Longer lines are skipped as malformed.
const LINE_BYTES: usize = 64 << 10;
/// Read size: system calls then cost little compared to parsing.
const BUFFER: usize = 256 << 10;
/// First bytes of zstd data.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reader of lines.
pub(crate) struct Lines {
    reader: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
}

/// A line, or its absence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its number, from 1, and its text without the line end.
    Text(u64, &'a [u8]),
    /// The number of a line longer than 64 KiB.
    TooLong(u64),
}

impl Lines {
    pub(crate) fn open(path: &Path) -> io::Result<Lines> {
        Ok(Lines::new(decompressed(File::open(path)?)?))
    }

    pub(crate) fn new(reader: Box<dyn BufRead + Send>) -> Lines {
        Lines { reader, line: Vec::new(), number: 0 }
    }

    /// The next line whose number `wanted` accepts; others are skipped without a copy.
    pub(crate) fn next(&mut self, wanted: impl Fn(u64) -> bool) -> io::Result<Option<Line<'_>>> {
        loop {
            let keep = wanted(self.number + 1);
            let Some(whole) = self.advance(keep)? else { return Ok(None) };
            self.number += 1;
            if keep {
                let number = self.number;
                let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
                return Ok(Some(if whole {
                    Line::Text(number, text)
                } else {
                    Line::TooLong(number)
                }));
            }
        }
    }

    /// Reads the next line; false if it is too long, `None` at the end.
    fn advance(&mut self, keep: bool) -> io::Result<Option<bool>> {
        self.line.clear();
        let (mut whole, mut any) = (true, false);
        loop {
            let bytes = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            if bytes.is_empty() {
                return Ok(any.then_some(whole));
            }
            any = true;
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if keep && self.line.len() + part.len() <= LINE_BYTES {
                self.line.extend_from_slice(part);
            } else {
                whole = !keep;
            }
            let used = end.map_or(bytes.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(whole));
            }
        }
    }
}

/// The contents of a file, decompressed if it is a zstd file.
pub(crate) fn decompressed(file: File) -> io::Result<Box<dyn BufRead + Send>> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    if reader.fill_buf()?.starts_with(&ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER, AtEnd(decoder))));
    }
    Ok(Box::new(reader))
}

/// Adds to the error of a truncated compressed file that it is truncated.
struct AtEnd<R>(R);

impl<R: Read> Read for AtEnd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| io::Error::new(error.kind(), format!("zstd: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &'static [u8], wanted: impl Fn(u64) -> bool) -> Vec<String> {
        // Three bytes at a time, so that lines are split.
        let mut lines = Lines::new(Box::new(BufReader::with_capacity(3, text)));
        let mut found = Vec::new();
        while let Some(line) = lines.next(&wanted).unwrap() {
            found.push(match line {
                Line::Text(number, text) => format!("{number}:{}", String::from_utf8_lossy(text)),
                Line::TooLong(number) => format!("{number} too long"),
            });
        }
        found
    }

    #[test]
    fn lines_come_whole_with_their_numbers() {
        assert_eq!(all(b"one\ntwo\r\n\nlast", |_| true), ["1:one", "2:two", "3:", "4:last"]);
        assert_eq!(all(b"one\ntwo\nthree\nfour\n", |n| n % 2 == 0), ["2:two", "4:four"]);
        assert_eq!(all(b"", |_| true), [""; 0]);
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let text: &'static [u8] =
            Box::leak([vec![b'x'; LINE_BYTES + 1], b"\nnext\n".to_vec()].concat().into());
        assert_eq!(all(text, |_| true), ["1 too long", "2:next"]);
    }
}
