//! The Hyper Text Caching Protocol (RFC 2756): whether another cache has what a request would get,
//! and that it is to forget it.
//!
//! A message is a datagram: a header, DATA with the operation, AUTH ([`auth`]). Two orders of the
//! bits of DATA are in use. The RFC's has the opcode in the upper half of its byte; Squid's older
//! one, which MediaWiki sends and which has minor version 0, has it in the lower half, and the
//! flags at the other end of theirs. An answer has the order of its request.

pub mod auth;

use auth::Auth;

/// Length of the header.
const HEADER: usize = 4;
/// Length of DATA before the operation's own bytes.
const DATA: usize = 8;
/// Longest message: its length has 16 bits, and a datagram has at most so much.
pub const LONGEST: usize = 65_507;
/// The major version that is spoken.
const MAJOR: u8 = 0;

/// An operation (RFC 2756 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Nothing: whether the other is there.
    Nop,
    /// Whether there is a fresh copy.
    Tst,
    /// Reports of changes.
    Mon,
    /// Changes of stored headers.
    Set,
    /// Forget.
    Clr,
    /// A number without a meaning.
    Other(u8),
}

impl Opcode {
    fn of(number: u8) -> Opcode {
        match number {
            0 => Opcode::Nop,
            1 => Opcode::Tst,
            2 => Opcode::Mon,
            3 => Opcode::Set,
            4 => Opcode::Clr,
            other => Opcode::Other(other),
        }
    }

    fn number(self) -> u8 {
        match self {
            Opcode::Nop => 0,
            Opcode::Tst => 1,
            Opcode::Mon => 2,
            Opcode::Set => 3,
            Opcode::Clr => 4,
            Opcode::Other(number) => number & 0xf,
        }
    }
}

/// Where the bits of DATA are, and the minor version that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The minor version.
    pub minor: u8,
    /// Squid's older order.
    pub reversed: bool,
}

impl Format {
    /// The RFC's order, with the minor version by which Squid knows it.
    pub const RFC: Format = Format { minor: 1, reversed: false };
    /// Squid's older order, which MediaWiki sends.
    pub const REVERSED: Format = Format { minor: 0, reversed: true };
}

/// Numbers of RESPONSE where it speaks of the whole message (RFC 2756 section 3).
pub mod error {
    /// Authentication was not used, and is required.
    pub const NOT_AUTHENTIC: u8 = 0;
    /// Authentication was used, and does not fit.
    pub const WRONG_AUTHENTICATION: u8 = 1;
    /// The opcode is not implemented.
    pub const OPCODE: u8 = 2;
    /// The major version is not supported.
    pub const MAJOR_VERSION: u8 = 3;
    /// The opcode is not wanted.
    pub const UNDESIRED: u8 = 5;
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Where the bits are.
    pub format: Format,
    /// The operation.
    pub opcode: Opcode,
    /// RESPONSE: of answers.
    pub response: u8,
    /// RR: it is an answer.
    pub answer: bool,
    /// F1. In a request: an answer is wanted. In an answer: `response` speaks of the message, not
    /// of the operation ([`error`]).
    pub flag: bool,
    /// Number of the request, which its answer repeats.
    pub number: u32,
    /// OP-DATA.
    pub data: &'a [u8],
    /// None: not authenticated.
    pub auth: Option<Auth<'a>>,
    /// The bytes that the signature covers: those of DATA.
    pub signed: &'a [u8],
}

/// Why a datagram is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A length that does not fit.
    Length,
    /// A major version other than 0.
    Version,
}

impl<'a> Message<'a> {
    /// Reads a datagram.
    pub fn parse(datagram: &'a [u8]) -> Result<Message<'a>, Fault> {
        let (head, rest) = datagram.split_first_chunk::<HEADER>().ok_or(Fault::Length)?;
        let length = usize::from(u16::from_be_bytes([head[0], head[1]]));
        // Bytes behind the message are none of it; a longer one was cut.
        let rest = length.checked_sub(HEADER).and_then(|length| rest.get(..length));
        let rest = rest.ok_or(Fault::Length)?;
        let [_, _, major, minor] = *head;
        if major != MAJOR {
            return Err(Fault::Version);
        }
        let length = rest.first_chunk::<2>().ok_or(Fault::Length)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (signed, rest) = rest.split_at_checked(length).ok_or(Fault::Length)?;
        let (bits, data) = signed.split_first_chunk::<DATA>().ok_or(Fault::Length)?;
        let &[_, _, operation, flags, n0, n1, n2, n3] = bits;
        let reversed = minor == 0 && is_reversed(operation, flags);
        let (upper, lower) = (operation >> 4, operation & 0xf);
        let (opcode, response) = if reversed { (lower, upper) } else { (upper, lower) };
        let (answer, flag) = if reversed { (0x80, 0x40) } else { (0x01, 0x02) };
        Ok(Message {
            format: Format { minor, reversed },
            opcode: Opcode::of(opcode),
            response,
            answer: flags & answer != 0,
            flag: flags & flag != 0,
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            data,
            auth: Auth::parse(rest)?,
            signed,
        })
    }
}

/// Of minor version 0: a request has no RESPONSE, so its opcode shows the order; an answer has a
/// flag that shows it.
fn is_reversed(operation: u8, flags: u8) -> bool {
    match (flags & 0xc0 != 0, flags & 0x03 != 0) {
        (true, false) => true,
        (false, true) => false,
        _ => operation & 0xf != 0 || operation == 0,
    }
}

/// The beginning of a message to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where the bits are.
    pub format: Format,
    /// The operation.
    pub opcode: Opcode,
    /// RESPONSE.
    pub response: u8,
    /// RR.
    pub answer: bool,
    /// F1.
    pub flag: bool,
    /// Number of the request.
    pub number: u32,
}

impl Head {
    /// A request in the RFC's order. `wanted`: an answer is wanted.
    pub fn request(opcode: Opcode, number: u32, wanted: bool) -> Head {
        Head { format: Format::RFC, opcode, response: 0, answer: false, flag: wanted, number }
    }

    /// The answer to a request.
    pub fn answer(request: &Message<'_>, response: u8) -> Head {
        let Message { format, opcode, number, .. } = *request;
        Head { format, opcode, response, answer: true, flag: false, number }
    }

    /// The answer that a request cannot be served as a whole; see [`error`].
    pub fn refusal(request: &Message<'_>, error: u8) -> Head {
        Head { flag: true, ..Head::answer(request, error) }
    }

    /// Writes the datagram into `out`, which is emptied before: the header, this, OP-DATA as
    /// `write` appends it, AUTH. `sign` is given what a signature covers. False: it would be too
    /// long, and `out` is empty.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
        sign: Option<&auth::Signing<'_>>,
    ) -> bool {
        out.clear();
        let Head { format, opcode, response, answer, flag, number } = *self;
        out.extend_from_slice(&[0, 0, MAJOR, format.minor, 0, 0]);
        let (opcode, response) = (opcode.number(), response & 0xf);
        out.push(if format.reversed { response << 4 | opcode } else { opcode << 4 | response });
        let (answer, flag) = (u8::from(answer), u8::from(flag));
        out.push(if format.reversed { answer << 7 | flag << 6 } else { flag << 1 | answer });
        out.extend_from_slice(&number.to_be_bytes());
        write(out);
        let data = out.len() - HEADER;
        if out.len() > LONGEST - auth::LONGEST {
            out.clear();
            return false;
        }
        out[HEADER..HEADER + 2].copy_from_slice(&(data as u16).to_be_bytes());
        auth::write(out, HEADER, format.minor, sign);
        let length = out.len() as u16;
        out[..2].copy_from_slice(&length.to_be_bytes());
        true
    }
}

/// A request of HTTP as TST and CLR name it (SPECIFIER, RFC 2756 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Specifier<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The URL with scheme and host.
    pub url: &'a [u8],
    /// The version; `HTTP/1.1`, and `1/1` of Squid.
    pub version: &'a [u8],
    /// Lines of the request's head, each with its end of line. Some senders have none.
    pub fields: &'a [u8],
}

impl<'a> Specifier<'a> {
    /// Reads OP-DATA of a TST. None: a length does not fit.
    pub fn parse(data: &'a [u8]) -> Option<Specifier<'a>> {
        let (method, rest) = counted(data)?;
        let (url, rest) = counted(rest)?;
        let (version, rest) = counted(rest)?;
        let (fields, _) = counted(rest)?;
        Some(Specifier { method, url, version, fields })
    }

    /// Reads OP-DATA of a CLR: a word with the reason comes first.
    pub fn parse_clr(data: &'a [u8]) -> Option<Specifier<'a>> {
        Self::parse(data.get(2..)?)
    }

    /// Appends it. Texts that are too long for their length are cut to nothing.
    pub fn write(&self, out: &mut Vec<u8>) {
        for text in [self.method, self.url, self.version, self.fields] {
            write_counted(out, text);
        }
    }

    /// Appends OP-DATA of a CLR without a reason.
    pub fn write_clr(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0]);
        self.write(out);
    }
}

/// Appends OP-DATA of the answer to a TST that found something (DETAIL): lines about the response,
/// about the entity, about the cache.
pub fn write_detail(out: &mut Vec<u8>, [response, entity, cache]: [&[u8]; 3]) {
    for text in [response, entity, cache] {
        write_counted(out, text);
    }
}

/// A COUNTSTR and the bytes behind it.
fn counted(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

fn write_counted(out: &mut Vec<u8>, text: &[u8]) {
    let (length, text) = match u16::try_from(text.len()) {
        Ok(length) => (length, text),
        Err(_) => (0, &b""[..]),
    };
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests;
