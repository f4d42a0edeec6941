//! Records from the application to the server.
//!
//! The decoder keeps no bytes: the caller's buffer holds what is not decoded yet, and output is
//! returned as slices of it, in pieces as they arrive.

use super::{HEADER_BYTES, VERSION, kind};

/// Limits on the records of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of STDERR that are returned; further ones are skipped.
    pub stderr: usize,
}

/// A mistake of the application; nothing that follows on the connection can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// A version other than 1.
    Version(u8),
    /// A record of another request, or a management record that nobody asked for.
    Id(u16),
    /// A type that applications do not send.
    Kind(u8),
    /// An END_REQUEST record without its 8 bytes.
    End(u16),
    /// Output behind the end of the output.
    AfterStdout,
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Version(version) => write!(f, "a record of version {version}"),
            Self::Id(id) => write!(f, "a record of request {id}, which is not under way"),
            Self::Kind(kind) => write!(f, "a record of type {kind}"),
            Self::End(length) => write!(f, "an END_REQUEST record of {length} bytes"),
            Self::AfterStdout => f.write_str("output behind the end of the output"),
        }
    }
}

/// How the application ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The request is complete, with this exit status.
    Complete(u32),
    /// The application does not take several requests at a time on one connection.
    CannotMultiplex,
    /// The application takes no further requests at the moment.
    Overloaded,
    /// The application does not know the Responder role.
    UnknownRole,
    /// A status that the specification does not have.
    Unknown(u8),
}

/// Meaning of the next bytes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'b> {
    /// More bytes are needed; none are used up. The buffer must be able to hold 279 bytes.
    Need,
    /// `used` bytes can be dropped from the buffer.
    Skip {
        /// Bytes used up; never 0.
        used: usize,
    },
    /// `used` bytes can be dropped; `data` is the end of them.
    Stdout {
        /// Bytes used up.
        used: usize,
        /// Output; never empty.
        data: &'b [u8],
    },
    /// `used` bytes can be dropped; `data` is the end of them.
    Stderr {
        /// Bytes used up.
        used: usize,
        /// Bytes for the log; never empty.
        data: &'b [u8],
    },
    /// The answer is over; bytes behind `used` are none of it.
    End {
        /// Bytes used up.
        used: usize,
        /// How it ended.
        end: End,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the first byte of a header.
    Header,
    /// Within the content of a record of this type, which is not 0 bytes.
    Content { kind: u8, left: usize, padding: usize },
    /// That many bytes of padding are to come; never 0.
    Padding(usize),
    /// After END_REQUEST, or after an error.
    Over,
}

/// Decodes the answer to one request.
#[derive(Clone, Debug)]
pub struct Decoder {
    id: u16,
    state: State,
    stdout_over: bool,
    /// Bytes of STDERR that may still be returned.
    stderr_left: usize,
}

impl Decoder {
    /// A decoder for the answer to request `id`.
    pub const fn new(id: u16, limits: Limits) -> Self {
        Self { id, state: State::Header, stdout_over: false, stderr_left: limits.stderr }
    }

    /// Whether END_REQUEST, or an error, was read.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Decodes the start of `buf`: the first bytes that are not used up yet. After an error, and
    /// after [`Step::End`], it always asks for more bytes.
    pub fn decode<'b>(&mut self, buf: &'b [u8]) -> Result<Step<'b>, RecordError> {
        let result = self.step(buf);
        if result.is_err() {
            self.state = State::Over;
        }
        result
    }

    fn step<'b>(&mut self, buf: &'b [u8]) -> Result<Step<'b>, RecordError> {
        let mut used = 0;
        loop {
            let rest = &buf[used..];
            let taken = match self.state {
                State::Header => match self.header(rest)? {
                    Some(Read::Bytes(bytes)) => bytes,
                    Some(Read::End(bytes, end)) => {
                        return Ok(Step::End { used: used + bytes, end });
                    }
                    None => 0,
                },
                State::Content { kind, left, padding } => {
                    let (length, returned) = self.portion(kind, left.min(rest.len()));
                    self.content(kind, left - length, padding);
                    let (data, used) = (&rest[..length], used + length);
                    match kind {
                        _ if length == 0 || !returned => length,
                        kind::STDOUT => return Ok(Step::Stdout { used, data }),
                        _ => return Ok(Step::Stderr { used, data }),
                    }
                }
                State::Padding(left) => {
                    let length = left.min(rest.len());
                    self.padding(left - length);
                    length
                }
                State::Over => 0,
            };
            used += taken;
            match (taken, used) {
                (0, 0) => return Ok(Step::Need),
                (0, used) => return Ok(Step::Skip { used }),
                _ => {}
            }
        }
    }

    /// None: it is not complete yet. An END_REQUEST record is taken as a whole.
    fn header(&mut self, rest: &[u8]) -> Result<Option<Read>, RecordError> {
        let Some(&[version, kind, id_high, id_low, high, low, padding, _]) =
            rest.first_chunk::<HEADER_BYTES>()
        else {
            return Ok(None);
        };
        let (id, length) = (u16::from_be_bytes([id_high, id_low]), u16::from_be_bytes([high, low]));
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        if !matches!(kind, kind::STDOUT | kind::STDERR | kind::END) {
            return Err(RecordError::Kind(kind));
        }
        if id != self.id {
            return Err(RecordError::Id(id));
        }
        let padding = usize::from(padding);
        match (kind, length) {
            (kind::END, 8) => Ok(self.end(&rest[HEADER_BYTES..], padding)),
            (kind::END, _) => Err(RecordError::End(length)),
            (kind::STDOUT, 1..) if self.stdout_over => Err(RecordError::AfterStdout),
            (kind, _) => {
                self.stdout_over |= kind == kind::STDOUT && length == 0;
                self.content(kind, usize::from(length), padding);
                Ok(Some(Read::Bytes(HEADER_BYTES)))
            }
        }
    }

    fn end(&mut self, rest: &[u8], padding: usize) -> Option<Read> {
        let &[a, b, c, d, status, ..] = rest.first_chunk::<8>()?;
        if rest.len() < 8 + padding {
            return None;
        }
        self.state = State::Over;
        let end = match status {
            0 => End::Complete(u32::from_be_bytes([a, b, c, d])),
            1 => End::CannotMultiplex,
            2 => End::Overloaded,
            3 => End::UnknownRole,
            other => End::Unknown(other),
        };
        Some(Read::End(HEADER_BYTES + 8 + padding, end))
    }

    fn content(&mut self, kind: u8, left: usize, padding: usize) {
        match left {
            0 => self.padding(padding),
            left => self.state = State::Content { kind, left, padding },
        }
    }

    fn padding(&mut self, left: usize) {
        self.state = if left == 0 { State::Header } else { State::Padding(left) };
    }

    /// Bytes of a record's content that are taken at a time, and whether they are returned.
    fn portion(&mut self, kind: u8, available: usize) -> (usize, bool) {
        match (kind, self.stderr_left) {
            (kind::STDERR, 0) => (available, false),
            (kind::STDERR, allowed) => {
                let length = available.min(allowed);
                self.stderr_left -= length;
                (length, true)
            }
            _ => (available, true),
        }
    }
}

enum Read {
    /// A header of so many bytes.
    Bytes(usize),
    /// A whole END_REQUEST record of so many bytes.
    End(usize, End),
}
