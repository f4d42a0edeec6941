//! Answers of memcached's protocols, taken apart so that those of two servers can be compared.
//!
//! Two servers may number versions (`cas unique`) as they like: a version is compared by when it
//! first appeared. Their clocks tick at different moments: times are compared with a tolerance. All
//! else is compared byte for byte.

use std::collections::HashMap;

/// How far apart two servers' times may be, in seconds.
const TOLERANCE: i64 = 2;

/// Versions in the order in which a server first showed them.
#[derive(Default)]
pub struct Versions {
    labels: HashMap<u64, usize>,
    values: Vec<u64>,
}

impl Versions {
    /// The number of a version: how many others this server showed before.
    fn label(&mut self, value: u64) -> usize {
        let next = self.values.len();
        let label = *self.labels.entry(value).or_insert(next);
        if label == next {
            self.values.push(value);
        }
        label
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// The version with this number; one nobody has where there is none.
    pub fn value(&self, label: usize) -> u64 {
        self.values.get(label).copied().unwrap_or(4_000_000_000_000)
    }
}

/// Something in an answer.
#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Version(usize),
    Time(i64),
}

impl Piece {
    fn same(&self, other: &Piece) -> bool {
        match (self, other) {
            (Piece::Time(a), Piece::Time(b)) => a.abs_diff(*b) <= TOLERANCE.unsigned_abs(),
            (a, b) => a == b,
        }
    }
}

/// What a server answered.
#[derive(Clone, Default)]
pub struct Answers(Vec<Piece>);

impl Answers {
    /// Takes what came apart; `binary`: in the binary protocol.
    pub fn parse(bytes: &[u8], binary: bool, versions: &mut Versions) -> Answers {
        let mut answers = Answers::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let used =
                if binary { answers.packet(rest, versions) } else { answers.line(rest, versions) };
            rest = &rest[used.clamp(1, rest.len())..];
        }
        answers
    }

    /// Are they the same, but for how far clocks may be apart?
    pub fn same(&self, other: &Answers) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a.same(b))
    }

    /// Is `start` the same as far as it goes?
    pub fn begins_with(&self, start: &Answers) -> bool {
        let Some((last, before)) = start.0.split_last() else { return true };
        let same = self.0.iter().zip(before).all(|(a, b)| a.same(b));
        same && self.0.get(before.len()).is_some_and(|piece| match (piece, last) {
            (Piece::Text(text), Piece::Text(start)) => text.starts_with(start),
            (piece, last) => piece.same(last),
        })
    }

    fn text(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.extend_from_slice(bytes),
            _ => self.0.push(Piece::Text(bytes.to_vec())),
        }
    }

    fn version(&mut self, digits: &str, versions: &mut Versions) {
        match digits.parse() {
            Ok(value) if value != 0 => self.0.push(Piece::Version(versions.label(value))),
            _ => self.text(digits.as_bytes()),
        }
    }

    fn time(&mut self, digits: &str) {
        match digits.parse() {
            Ok(value) if value != -1 => self.0.push(Piece::Time(value)),
            _ => self.text(digits.as_bytes()),
        }
    }

    /// One line with its data block; gives its length.
    fn line(&mut self, bytes: &[u8], versions: &mut Versions) -> usize {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
            self.text(bytes);
            return bytes.len();
        };
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let words = line.split(' ').collect::<Vec<_>>();
        let mut data = 0;
        match words[..] {
            ["VALUE", key, flags, len, ref cas @ ..] => {
                self.text(format!("VALUE {key} {flags} {len}").as_bytes());
                for cas in cas {
                    self.text(b" ");
                    self.version(cas, versions);
                }
                data = len.parse::<usize>().map_or(0, |len| len + 2);
            }
            ["VA" | "HD" | "NF" | "NS" | "EX" | "EN", ..] => {
                self.meta(&words, versions);
                if let ["VA", len, ..] = words[..] {
                    data = len.parse::<usize>().map_or(0, |len| len + 2);
                }
            }
            ["ME", ..] => self.debug(&words, versions),
            _ => self.text(&bytes[..end]),
        }
        self.text(b"\r\n");
        let whole = (end + 2 + data).min(bytes.len());
        self.text(&bytes[end + 2..whole]);
        whole
    }

    /// The flags of a meta answer.
    fn meta(&mut self, words: &[&str], versions: &mut Versions) {
        for (at, word) in words.iter().enumerate() {
            if at > 0 {
                self.text(b" ");
            }
            match word.split_at_checked(1) {
                Some(("c", digits)) if at > 0 => {
                    self.text(b"c");
                    self.version(digits, versions);
                }
                Some((flag @ ("t" | "l"), digits)) if at > 0 => {
                    self.text(flag.as_bytes());
                    self.time(digits);
                }
                _ => self.text(word.as_bytes()),
            }
        }
    }

    /// The answer to `me`. The slab class and the memory of an item are each server's own; `h`
    /// tells whether it was fetched.
    fn debug(&mut self, words: &[&str], versions: &mut Versions) {
        for word in words {
            match word.split_once('=') {
                Some(("cas", digits)) => self.version(digits, versions),
                Some(("exp" | "la", digits)) => self.time(digits),
                Some(("cls" | "size" | "fetch", _)) => {}
                _ => self.text(word.as_bytes()),
            }
            self.text(b" ");
        }
    }

    /// One packet; gives its length.
    fn packet(&mut self, bytes: &[u8], versions: &mut Versions) -> usize {
        let Some((head, rest)) = bytes.split_first_chunk::<24>() else {
            self.text(bytes);
            return bytes.len();
        };
        let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        self.text(&head[..16]);
        let [.., a, b, c, d, e, f, g, h] = *head;
        let cas = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        self.version(&cas.to_string(), versions);
        self.text(&rest[..body.min(rest.len())]);
        24 + body
    }
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) if text.len() > 2000 => {
                    write!(f, "{}...({} bytes)", text[..500].escape_ascii(), text.len())?;
                }
                Piece::Text(text) => write!(f, "{}", text.escape_ascii())?,
                Piece::Version(label) => write!(f, "{{cas {label}}}")?,
                Piece::Time(time) => write!(f, "{{time {time}}}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bytes: &[u8]) -> Answers {
        Answers::parse(bytes, false, &mut Versions::default())
    }

    #[test]
    fn versions_are_compared_by_when_they_appeared() {
        let a = seen(b"VALUE k 0 1 70\r\nx\r\nEND\r\nHD c71\r\nHD c70\r\n");
        assert!(a.same(&seen(b"VALUE k 0 1 5\r\nx\r\nEND\r\nHD c9\r\nHD c5\r\n")));
        assert!(!a.same(&seen(b"VALUE k 0 1 5\r\nx\r\nEND\r\nHD c9\r\nHD c9\r\n")));
    }

    #[test]
    fn times_have_a_tolerance() {
        assert!(seen(b"HD t99 l0\r\n").same(&seen(b"HD t100 l1\r\n")));
        assert!(!seen(b"HD t90\r\n").same(&seen(b"HD t100\r\n")));
        assert!(!seen(b"HD t-1\r\n").same(&seen(b"HD t1\r\n")));
    }

    #[test]
    fn a_beginning_is_told_from_something_else() {
        let whole = seen(b"HD c7\r\nVALUE k 0 3 8\r\nabc\r\nEND\r\n");
        assert!(whole.begins_with(&seen(b"HD c5\r\nVALUE k 0 3 6\r\nab")));
        assert!(whole.begins_with(&seen(b"")));
        assert!(!whole.begins_with(&seen(b"HD c5\r\nVALUE k 0 3 6\r\nax")));
        assert!(!seen(b"HD c7\r\n").begins_with(&whole));
    }

    #[test]
    fn all_else_is_compared_byte_for_byte() {
        assert!(!seen(b"VALUE k 0 4\r\nHD 1\r\n").same(&seen(b"VALUE k 0 4\r\nHD 2\r\n")));
        assert!(!seen(b"STORED\r\n").same(&seen(b"STORED \r\n")));
        assert!(!seen(b"VA 1 Ot5 kc9\r\nx\r\n").same(&seen(b"VA 1 Ot6 kc9\r\nx\r\n")));
    }
}
