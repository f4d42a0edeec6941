//! Received bytes into commands: arrays of bulk strings, and inline commands (RESP specification, "Sending commands to a
//! Redis server"). Limits and errors are Redis 7.0's (networking.c: processMultibulkBuffer, processInlineBuffer).

use super::args::{Args, Span};
use super::{inline, number, short};

/// Longest line: an inline command, or a length on its own. Redis: PROTO_INLINE_MAX_SIZE.
pub const MAX_LINE: usize = 64 * 1024;
/// Most arguments of a command. (Redis 7.0 takes 2^31, and 16 bytes of memory for each that is announced and comes.)
pub const MAX_ARGS: usize = 1024 * 1024;
/// What a client that has not authenticated may send: arguments.
const STRANGER_ARGS: i64 = 10;
/// What a client that has not authenticated may send: bytes in one argument.
const STRANGER_BULK: u64 = 16 * 1024;
/// Places kept from one command to the next.
const KEPT_SPANS: usize = 1024;
/// Unescaped bytes kept from one inline command to the next.
const KEPT_TEXT: usize = 4096;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest argument in bytes (proto-max-bulk-len).
    pub bulk: u64,
    /// Largest command in bytes, everything counted; at most 4 GiB. What is longer is refused like a bulk that is.
    pub command: u64,
    /// Must it authenticate before anything else? Then it may send little.
    pub stranger: bool,
}

/// What lies at the start of the received bytes.
#[derive(Debug)]
pub enum Step<'a> {
    /// A command, and how many bytes it took.
    Command {
        /// Its name and arguments.
        args: Args<'a>,
        /// Its bytes.
        used: usize,
    },
    /// So many bytes that are no command and need no answer (an empty line, an empty array).
    Skip(usize),
    /// More bytes are needed: the command goes at least so far from its start (0: that is not known). Once its last
    /// argument has begun, this is where the command ends.
    More(usize),
    /// The client does not speak RESP: it is told this error (without the leading `-`) and closed.
    Error(Vec<u8>),
}

/// Takes commands out of received bytes. Between calls that return [`Step::More`] it keeps how far it came, so that a
/// command arriving in many pieces is looked at once: the caller shows the same bytes again with more behind them.
#[derive(Debug, Default)]
pub struct Decoder {
    spans: Vec<Span>,
    /// The words of an inline command, without quotes.
    text: Vec<u8>,
    /// Looked at so far, from the start of the command; 0: nothing.
    at: usize,
    /// Arguments still to come.
    left: usize,
}

enum Line {
    Number(usize, Option<i64>),
    /// No line end yet.
    Open,
    TooLong,
}

enum Failed {
    More(usize),
    Error(Vec<u8>),
}

impl Decoder {
    /// The next command in `input`.
    #[inline]
    pub fn step<'a>(&'a mut self, input: &'a [u8], limits: &Limits) -> Step<'a> {
        let Some(&first) = input.first() else { return Step::More(0) };
        if first != b'*' {
            return self.inline(input);
        }
        match self.multibulk(input, limits) {
            Ok(used) if self.spans.is_empty() => Step::Skip(used),
            Ok(used) => Step::Command { args: Args::new(input, &self.spans), used },
            Err(Failed::More(hint)) => Step::More(hint),
            Err(Failed::Error(text)) => {
                self.at = 0;
                Step::Error(text)
            }
        }
    }

    /// The command [`Decoder::step`] gave last. `input` must be the same.
    pub fn last<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        let bytes = if input.first() == Some(&b'*') { input } else { &self.text[..] };
        Args::new(bytes, &self.spans)
    }

    fn multibulk(&mut self, input: &[u8], limits: &Limits) -> Result<usize, Failed> {
        if self.at == 0 {
            self.start(input, limits)?;
        }
        while self.left > 0 {
            let (start, len) = self.bulk(input, limits)?;
            let end = start + len;
            if input.len() < end + 2 {
                return Err(Failed::More(end + 2));
            }
            self.spans.push(Span { at: start as u32, len: len as u32 });
            self.at = end + 2;
            self.left -= 1;
        }
        Ok(std::mem::take(&mut self.at))
    }

    /// The head: `*` and the number of arguments.
    fn start(&mut self, input: &[u8], limits: &Limits) -> Result<(), Failed> {
        self.spans.clear();
        if self.spans.capacity() > KEPT_SPANS {
            self.spans = Vec::new();
        }
        // Nearly all commands have fewer than ten arguments.
        if let [b'*', count @ b'1'..=b'9', b'\r', _, ..] = *input {
            (self.at, self.left) = (4, usize::from(count - b'0'));
            return Ok(());
        }
        let (end, count) = match number_line(input, 1) {
            Line::Number(end, count) => (end, count),
            Line::Open => return Err(Failed::More(0)),
            Line::TooLong => return Err(error("too big mbulk count string")),
        };
        let count =
            count.filter(|&n| n <= MAX_ARGS as i64).ok_or_else(|| error("invalid multibulk length"))?;
        if limits.stranger && count > STRANGER_ARGS {
            return Err(error("unauthenticated multibulk length"));
        }
        (self.at, self.left) = (end, usize::try_from(count).unwrap_or(0));
        Ok(())
    }

    /// Where the next argument starts, and its length.
    #[inline]
    fn bulk(&self, input: &[u8], limits: &Limits) -> Result<(usize, usize), Failed> {
        // Nearly all arguments are shorter than 1000 bytes.
        if let Some((head, len)) = short::bulk_head(input.get(self.at..).unwrap_or_default()) {
            let start = self.at + head;
            if len as u64 <= limits.bulk && (start + len + 2) as u64 <= limits.command {
                return Ok((start, len));
            }
        }
        self.long_bulk(input, limits)
    }

    #[cold]
    fn long_bulk(&self, input: &[u8], limits: &Limits) -> Result<(usize, usize), Failed> {
        let (end, len) = match number_line(input, self.at + 1) {
            Line::Number(end, len) => (end, len),
            Line::Open => return Err(Failed::More(0)),
            Line::TooLong => return Err(error("too big bulk count string")),
        };
        let first = input.get(self.at).copied().unwrap_or_default();
        if first != b'$' {
            let text = [b"ERR Protocol error: expected '$', got '", &[first][..], b"'"].concat();
            return Err(Failed::Error(text));
        }
        let len = len.and_then(|n| u64::try_from(n).ok()).filter(|&n| n <= limits.bulk);
        let len = len.ok_or_else(|| error("invalid bulk length"))?;
        if limits.stranger && len > STRANGER_BULK {
            return Err(error("unauthenticated bulk length"));
        }
        if end as u64 + len + 2 > limits.command.min(u64::from(u32::MAX)) {
            return Err(error("invalid bulk length"));
        }
        Ok((end, len as usize))
    }

    fn inline<'a>(&'a mut self, input: &[u8]) -> Step<'a> {
        let window = &input[..input.len().min(MAX_LINE + 1)];
        let seen = self.at.min(window.len());
        let Some(end) = window[seen..].iter().position(|&b| b == b'\n').map(|n| seen + n) else {
            if window.len() > MAX_LINE {
                self.at = 0;
                return Step::Error(b"ERR Protocol error: too big inline request".into());
            }
            self.at = window.len();
            return Step::More(0);
        };
        self.at = 0;
        self.spans.clear();
        if self.text.capacity() > KEPT_TEXT {
            self.text = Vec::new();
        }
        self.text.clear();
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if inline::split(line, &mut self.text, &mut self.spans).is_none() {
            return Step::Error(b"ERR Protocol error: unbalanced quotes in request".into());
        }
        if self.spans.is_empty() {
            return Step::Skip(end + 1);
        }
        Step::Command { args: Args::new(&self.text, &self.spans), used: end + 1 }
    }
}

fn error(what: &str) -> Failed {
    Failed::Error([b"ERR Protocol error: ", what.as_bytes()].concat())
}

/// The number from `at` to the line's end, and where the next line starts. Like Redis, it does not look at the byte after
/// `\r`.
fn number_line(input: &[u8], at: usize) -> Line {
    let Some(rest) = input.get(at..) else { return Line::Open };
    let window = &rest[..rest.len().min(MAX_LINE)];
    match window.iter().position(|&b| b == b'\r') {
        Some(len) if at + len + 1 < input.len() => {
            Line::Number(at + len + 2, number::parse_i64(&rest[..len]))
        }
        None if rest.len() >= MAX_LINE => Line::TooLong,
        _ => Line::Open,
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
