//! How much of an answer is to come, as far as its bytes say: [`super::stream`] acknowledges what
//! it read only where more follows, because an acknowledgement costs as much as a small write.
//!
//! An error here costs time and nothing else: hyper reads the answer by itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The end of the head has not come.
const HEAD: u64 = u64::MAX;
/// Chunks, or content without a length.
const UNKNOWN: u64 = u64::MAX - 1;

/// Bytes to come. One thread reads and writes it; it is atomic because hyper wants connections that
/// can be sent.
#[derive(Debug)]
pub(super) struct Remaining(AtomicU64);

impl Default for Remaining {
    fn default() -> Self {
        Self(AtomicU64::new(HEAD))
    }
}

impl Remaining {
    /// A request is handed over: an answer is to come.
    pub(super) fn begin(&self) {
        self.0.store(HEAD, Relaxed);
    }

    /// Whether more has to come after these bytes.
    pub(super) fn after(&self, read: &[u8]) -> bool {
        let left = match self.0.load(Relaxed) {
            HEAD => match memchr::memmem::find(read, b"\r\n\r\n") {
                Some(end) => content_length(&read[..end])
                    .map_or(UNKNOWN, |length| length.saturating_sub((read.len() - end - 4) as u64)),
                None => HEAD,
            },
            UNKNOWN => UNKNOWN,
            left => left.saturating_sub(read.len() as u64),
        };
        self.0.store(left, Relaxed);
        match left {
            UNKNOWN => !read.ends_with(b"0\r\n\r\n"),
            left => left > 0,
        }
    }
}

/// The value of Content-Length in a head.
fn content_length(head: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"content-length:";
    let lines = memchr::memchr_iter(b'\n', head).map(|end| &head[end + 1..]);
    let mut named = lines
        .filter(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)));
    let value = named.next()?[NAME.len()..].trim_ascii_start();
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.take(15).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_piece_of_an_answer_is_known() {
        let head = "HTTP/1.1 200 OK\r\nServer: x\r\nCONTENT-LENGTH:  10\r\n\r\n";
        for (pieces, expected) in [
            (vec![format!("{head}0123456789")], vec![false]),
            (vec![head.to_owned(), "01234".into(), "56789".into()], vec![true, true, false]),
            (vec![head[..20].to_owned(), format!("{}0123456789", &head[20..])], vec![true, false]),
            (vec!["HTTP/1.1 204 No\r\n\r\n".into()], vec![true]),
            (
                vec![
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n".into(),
                    "0\r\n\r\n".into(),
                ],
                vec![true, false],
            ),
        ] {
            let remaining = Remaining::default();
            remaining.begin();
            let more: Vec<bool> =
                pieces.iter().map(|piece| remaining.after(piece.as_bytes())).collect();
            assert_eq!(more, expected, "{pieces:?}");
        }
    }
}
