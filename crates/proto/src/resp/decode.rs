//! Parses received bytes into commands: arrays of bulk strings, and inline commands (RESP
//! specification, "Sending commands to a Redis server"). Limits and errors are those of Redis 7.0
//! (networking.c: processMultibulkBuffer, processInlineBuffer).

use super::args::{Args, Span};
use super::{inline, number, rest::Rest, short};

/// Longest line: an inline command, or a length on its own. Redis: PROTO_INLINE_MAX_SIZE.
pub const MAX_LINE: usize = 64 * 1024;
/// Most arguments of a command. (Redis 7.0 accepts 2^31, and takes 16 bytes of memory for each
/// argument that is announced and arrives.)
pub const MAX_ARGS: usize = 1024 * 1024;
/// Most arguments from a client that has not authenticated.
const STRANGER_ARGS: i64 = 10;
/// Most bytes in one argument from a client that has not authenticated.
const STRANGER_BULK: u64 = 16 * 1024;
/// Capacity kept from one command to the next, in arguments.
const KEPT_SPANS: usize = 1024;
/// Bytes kept while a client is idle.
const KEPT_AT_REST: usize = 4096;
/// Capacity kept from one inline command to the next, in unescaped bytes.
const KEPT_TEXT: usize = 4096;

/// Limits of a client's commands.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest argument in bytes (proto-max-bulk-len).
    pub bulk: u64,
    /// Largest command in bytes, everything counted; at most 4 GiB. A longer one is refused like a
    /// bulk that is too long.
    pub command: u64,
    /// Must it authenticate before anything else? Then lower limits apply.
    pub stranger: bool,
    /// Largest argument in bytes that anything could be done with, at least 1024: one that
    /// announces more is refused ([`Step::Refused`]).
    pub item: u64,
    /// Largest command in bytes that there could be room for: one whose arguments announce more is
    /// refused.
    pub room: u64,
}

/// Why a command is refused before it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMuch {
    /// An argument is longer than [`Limits::item`].
    Argument,
    /// All of it is longer than [`Limits::room`].
    Command,
}

/// The start of the received bytes.
#[derive(Debug)]
pub enum Step<'a> {
    /// A command, and its length.
    Command {
        /// Its name and arguments.
        args: Args<'a>,
        /// Its bytes.
        used: usize,
    },
    /// This many bytes that are not a command and need no answer (an empty line, an empty array).
    Skip(usize),
    /// More bytes are needed: the command has at least this length (0: unknown). Once its last
    /// argument has begun, this is the end of the command.
    More(usize),
    /// The command announces more than there is room for: the rest of it must be discarded
    /// ([`Decoder::give_up`]).
    Refused(TooMuch),
    /// The client does not speak RESP: it gets this error (without the leading `-`) and is closed.
    Error(Vec<u8>),
}

/// Parses commands from received bytes. Between calls that return [`Step::More`] it keeps its
/// position, so that a command arriving in many pieces is examined once: the caller passes the same
/// bytes again with more after them.
#[derive(Debug, Default)]
pub struct Decoder {
    spans: Vec<Span>,
    /// The words of an inline command, without quotes.
    text: Vec<u8>,
    /// Bytes examined so far, from the start of the command; 0: none.
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
    Refused(TooMuch),
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
            Err(Failed::Refused(why)) => Step::Refused(why),
            Err(Failed::Error(text)) => {
                self.at = 0;
                Step::Error(text)
            }
        }
    }

    /// The last command that [`Decoder::step`] returned. `input` must be the same.
    pub fn last<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        let bytes = if input.first() == Some(&b'*') { input } else { &self.text[..] };
        Args::new(bytes, &self.spans)
    }

    /// No command is under way: the decoder may serve another connection.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.at == 0 && self.left == 0
    }

    /// The command under way is not wanted: how far it was looked at, from its start, and what of
    /// it comes from there. None: no argument of it has begun.
    pub fn give_up(&mut self) -> Option<(usize, Rest)> {
        let at = std::mem::take(&mut self.at);
        let rest = Rest::new(std::mem::take(&mut self.left));
        self.spans = Vec::new();
        (at > 0 && rest != Rest::new(0)).then_some((at, rest))
    }

    /// Between commands it gives back what is more than a few arguments need.
    pub fn rest(&mut self) {
        if self.at == 0 && self.kept() > KEPT_AT_REST {
            *self = Decoder::default();
        }
    }

    /// Bytes that it keeps, besides what it is shown.
    pub fn kept(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.text.capacity()
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
        let count = count
            .filter(|&n| n <= MAX_ARGS as i64)
            .ok_or_else(|| error("invalid multibulk length"))?;
        if limits.stranger && count > STRANGER_ARGS {
            return Err(error("unauthenticated multibulk length"));
        }
        (self.at, self.left) = (end, usize::try_from(count).unwrap_or(0));
        Ok(())
    }

    /// Start of the next argument, and its length.
    #[inline]
    fn bulk(&self, input: &[u8], limits: &Limits) -> Result<(usize, usize), Failed> {
        // Nearly all arguments are shorter than 1000 bytes.
        if let Some((head, len)) = short::bulk_head(input.get(self.at..).unwrap_or_default()) {
            let start = self.at + head;
            if len as u64 <= limits.bulk
                && (start + len + 2) as u64 <= limits.command.min(limits.room)
            {
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
        if len > limits.item {
            return Err(Failed::Refused(TooMuch::Argument));
        }
        if end as u64 + len + 2 > limits.room {
            return Err(Failed::Refused(TooMuch::Command));
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

/// The number from `at` to the line's end, and the start of the next line. Like Redis, it ignores
/// the byte after `\r`.
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
mod tests;
