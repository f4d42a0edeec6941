//! The Internet Cache Protocol, version 2 (RFC 2186): whether another cache has a URL.
//!
//! A message is a datagram: a header of 20 bytes and a payload that ends with a URL and a zero
//! byte. A query has the address of the first requester before the URL.

use std::net::Ipv4Addr;

/// Length of the header.
const HEADER: usize = 20;
/// The version that is spoken.
const VERSION: u8 = 2;
/// Longest message (RFC 2186, "message length").
pub const LONGEST: usize = 16_384;
/// Longest URL in an answer or a query.
pub const LONGEST_URL: usize = LONGEST - HEADER - 5;

/// The meaning of a message (RFC 2186, "opcodes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// `ICP_OP_QUERY`: is there a fresh copy?
    Query,
    /// `ICP_OP_HIT`: there is.
    Hit,
    /// `ICP_OP_MISS`: there is none, and the asker may fetch through this cache.
    Miss,
    /// `ICP_OP_ERR`: the query was not understood.
    Err,
    /// `ICP_OP_SECHO`: what an origin's echo port sends back.
    SourceEcho,
    /// `ICP_OP_DECHO`: what a cache's echo port sends back.
    CacheEcho,
    /// `ICP_OP_MISS_NOFETCH`: there is none, and the asker is to fetch elsewhere for now.
    MissNoFetch,
    /// `ICP_OP_DENIED`: the asker may not have it.
    Denied,
    /// `ICP_OP_HIT_OBJ`: a hit with the object behind the URL.
    HitObject,
}

impl Opcode {
    const ALL: [(u8, Opcode); 9] = [
        (1, Opcode::Query),
        (2, Opcode::Hit),
        (3, Opcode::Miss),
        (4, Opcode::Err),
        (10, Opcode::SourceEcho),
        (11, Opcode::CacheEcho),
        (21, Opcode::MissNoFetch),
        (22, Opcode::Denied),
        (23, Opcode::HitObject),
    ];

    fn of(byte: u8) -> Option<Opcode> {
        Self::ALL.iter().find(|(number, _)| *number == byte).map(|(_, opcode)| *opcode)
    }

    fn number(self) -> u8 {
        Self::ALL.iter().find(|(_, opcode)| *opcode == self).map_or(0, |(number, _)| *number)
    }
}

/// A message. Options (objects in answers, round-trip times) are neither offered nor taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its meaning.
    pub opcode: Opcode,
    /// Number of the query, which its answer repeats.
    pub number: u32,
    /// Address of the client the query is made for: in queries; most caches send zeros.
    pub requester: Ipv4Addr,
    /// The URL, without a zero byte. Empty in some errors.
    pub url: &'a [u8],
}

/// Why a datagram is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Shorter than a header, or not as long as the header says.
    Length,
    /// Another version than 2.
    Version,
    /// No operation of the protocol.
    Opcode,
    /// The URL has no end, or bytes that no URL has.
    Url,
}

impl<'a> Message<'a> {
    /// Reads a datagram.
    pub fn parse(datagram: &'a [u8]) -> Result<Message<'a>, Fault> {
        let (head, payload) = datagram.split_at_checked(HEADER).ok_or(Fault::Length)?;
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if usize::from(u16::from_be_bytes([head[2], head[3]])) != datagram.len()
            || datagram.len() > LONGEST
        {
            return Err(Fault::Length);
        }
        if head[1] != VERSION {
            return Err(Fault::Version);
        }
        let opcode = Opcode::of(head[0]).ok_or(Fault::Opcode)?;
        let (requester, rest) = match opcode {
            Opcode::Query => {
                let (address, rest) = payload.split_first_chunk::<4>().ok_or(Fault::Length)?;
                (Ipv4Addr::from(*address), rest)
            }
            _ => (Ipv4Addr::UNSPECIFIED, payload),
        };
        // An object, or padding, may follow the zero byte.
        let end = memchr::memchr(0, rest).ok_or(Fault::Url)?;
        let url = &rest[..end];
        if !url.iter().all(|byte| byte.is_ascii_graphic() || *byte >= 0x80) {
            return Err(Fault::Url);
        }
        Ok(Message { opcode, number: word(4), requester, url })
    }

    /// Writes the datagram into `out`, which is emptied before. False: the URL is too long, and
    /// `out` is empty.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        out.clear();
        if self.url.len() > LONGEST_URL {
            return false;
        }
        let query = self.opcode == Opcode::Query;
        let length = HEADER + if query { 4 } else { 0 } + self.url.len() + 1;
        out.extend_from_slice(&[self.opcode.number(), VERSION]);
        // At most LONGEST, see above.
        out.extend_from_slice(&(length as u16).to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        // Options, option data and the sender's address, which receivers must not use.
        out.extend_from_slice(&[0; 12]);
        if query {
            out.extend_from_slice(&self.requester.octets());
        }
        out.extend_from_slice(self.url);
        out.push(0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &[u8] = b"http://a.example/x";

    /// RFC 2186: header, then the requester's address, then the URL with a zero byte.
    fn query() -> Vec<u8> {
        let mut bytes = vec![1, 2, 0, 43, 0, 0, 0, 7];
        bytes.extend([0; 12]);
        bytes.extend([192, 0, 2, 1]);
        bytes.extend(URL);
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_query_has_the_layout_of_the_rfc() {
        let message = Message {
            opcode: Opcode::Query,
            number: 7,
            requester: Ipv4Addr::new(192, 0, 2, 1),
            url: URL,
        };
        assert_eq!(Message::parse(&query()), Ok(message));
        let mut out = b"rest".to_vec();
        assert!(message.write(&mut out));
        assert_eq!(out, query());
    }

    #[test]
    fn an_answer_has_the_number_and_the_url_of_its_query() {
        for (number, opcode) in Opcode::ALL.into_iter().filter(|(_, o)| *o != Opcode::Query) {
            let answer = Message { opcode, number: 9, requester: Ipv4Addr::UNSPECIFIED, url: URL };
            let mut out = Vec::new();
            assert!(answer.write(&mut out));
            assert_eq!(out[0], number);
            assert_eq!(out.len(), 20 + URL.len() + 1);
            assert_eq!(Message::parse(&out), Ok(answer));
        }
    }

    #[test]
    fn an_object_behind_the_url_is_left_alone() {
        let mut bytes = query();
        bytes.drain(20..24);
        bytes[0] = 23;
        bytes.extend([0, 3, b'a', b'b', b'c']);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        let read = Message::parse(&bytes).expect("a message");
        assert_eq!((read.opcode, read.url), (Opcode::HitObject, URL));
    }

    #[test]
    fn other_bytes_are_no_message() {
        assert_eq!(Message::parse(b""), Err(Fault::Length));
        assert_eq!(Message::parse(&query()[..42]), Err(Fault::Length));
        let with = |at: usize, byte: u8| {
            let mut bytes = query();
            bytes[at] = byte;
            Message::parse(&bytes).map(|_| ())
        };
        assert_eq!(with(1, 3), Err(Fault::Version));
        assert_eq!(with(0, 0), Err(Fault::Opcode));
        assert_eq!(with(42, b'x'), Err(Fault::Url));
        assert_eq!(with(30, b' '), Err(Fault::Url));
        let mut short = query()[..20].to_vec();
        short[3] = 20;
        assert_eq!(Message::parse(&short), Err(Fault::Length));
    }

    #[test]
    fn a_url_that_is_too_long_is_not_written() {
        let url = vec![b'a'; LONGEST_URL + 1];
        let mut message = Message {
            opcode: Opcode::Query,
            number: 0,
            requester: Ipv4Addr::UNSPECIFIED,
            url: &url,
        };
        let mut out = Vec::new();
        assert!(!message.write(&mut out) && out.is_empty());
        message.url = &url[1..];
        assert!(message.write(&mut out));
        assert_eq!(out.len(), LONGEST);
        assert_eq!(Message::parse(&out), Ok(message));
    }
}
