//! Lines of a file, one at a time, whatever its length and whether it is compressed.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// Longest line: longer than any URL that servers take. What is longer is passed over and is malformed.
const LINE_BYTES: usize = 64 << 10;
/// Read at once: system calls cost little beside the parsing.
const BUFFER: usize = 256 << 10;
/// What zstd-compressed data begin with.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads lines.
pub(crate) struct Lines {
    reader: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its number from 1, and what is in it, without its end.
    Text(u64, &'a [u8]),
    /// Its number; it is longer than 64 KiB.
    TooLong(u64),
}

impl Lines {
    pub(crate) fn open(path: &Path) -> io::Result<Lines> {
        Ok(Lines::new(decompressed(File::open(path)?)?))
    }

    pub(crate) fn new(reader: Box<dyn BufRead + Send>) -> Lines {
        Lines { reader, line: Vec::new(), number: 0 }
    }

    /// The next line for which `wanted`, given its number, is true; the others are passed over without a copy.
    pub(crate) fn next(&mut self, wanted: impl Fn(u64) -> bool) -> io::Result<Option<Line<'_>>> {
        loop {
            let keep = wanted(self.number + 1);
            let Some(whole) = self.advance(keep)? else { return Ok(None) };
            self.number += 1;
            if keep {
                let number = self.number;
                let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
                return Ok(Some(if whole { Line::Text(number, text) } else { Line::TooLong(number) }));
            }
        }
    }

    /// Goes on to the next line; false where it is too long, none at the end.
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

/// What is in a file, decompressed where it begins as zstd does.
pub(crate) fn decompressed(file: File) -> io::Result<Box<dyn BufRead + Send>> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    if reader.fill_buf()?.starts_with(&ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER, AtEnd(decoder))));
    }
    Ok(Box::new(reader))
}

/// Says of a compressed file that breaks off that it does, and not just that something ended.
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
        // Three bytes at a time, so that lines come in pieces.
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
