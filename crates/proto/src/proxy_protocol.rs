//! The PROXY protocol, versions 1 and 2: the first bytes of a connection, by which a proxy tells
//! from which address its client came (haproxy.org, proxy-protocol.txt of 2020-03-05).
//!
//! Both versions begin in a way that no other protocol here does. The receiver knows beforehand
//! whether such a header comes (section 2): it is never guessed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1, in bytes, line end included (section 2.1).
const LONGEST_1: usize = 107;
/// The beginning of version 2 (section 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 before the addresses.
const FIXED_2: usize = 16;
/// Longest header of version 2 that is accepted, in bytes: certificates of clients that a proxy
/// passes on fit.
pub const LONGEST: usize = 4096;

/// Fields behind the addresses of version 2.
mod field {
    pub(super) const CRC32C: u8 = 0x03;
    pub(super) const SSL: u8 = 0x20;
}

/// The client is connected to the proxy over TLS.
const CLIENT_SSL: u8 = 1;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the header.
    pub len: usize,
    /// The client; None: the connection is the proxy's own, or of a kind without addresses.
    pub source: Option<Source>,
    /// The connection is the proxy's own (LOCAL), such as a check of its health.
    pub local: bool,
}

/// A proxy's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its address.
    pub client: SocketAddr,
    /// The address it connected to.
    pub server: SocketAddr,
    /// It speaks TLS with the proxy.
    pub secure: bool,
}

/// Result of parsing the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A header.
    Complete(Header),
    /// More bytes are to come.
    Partial,
}

/// The bytes are no header of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Words.
    One,
    /// Binary.
    Two,
}

impl Version {
    /// The header of a connection that is the sender's own: it names no client (LOCAL, and UNKNOWN
    /// in version 1).
    pub const fn own(self) -> &'static [u8] {
        match self {
            Self::One => b"PROXY UNKNOWN\r\n",
            Self::Two => b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
        }
    }
}

/// Parses the header at the start of a connection.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let begins = |with: &[u8]| {
        let common = bytes.len().min(with.len());
        bytes[..common] == with[..common]
    };
    if begins(b"PROXY ") {
        return version_1(bytes);
    }
    if begins(SIGNATURE) { version_2(bytes) } else { Err(Malformed) }
}

fn version_1(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let window = &bytes[..bytes.len().min(LONGEST_1)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if window.len() < LONGEST_1 { Ok(Parsed::Partial) } else { Err(Malformed) };
    };
    let len = end + 2;
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| Malformed)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next().ok_or(Malformed)?;
    if family == "UNKNOWN" {
        // The rest of the line is to be ignored.
        return Ok(Parsed::Complete(Header { len, source: None, local: false }));
    }
    let mut word = || words.next().ok_or(Malformed);
    let (client, server) = (word()?, word()?);
    let (from, to) = (port(word()?)?, port(word()?)?);
    let address = |text: &str| -> Result<IpAddr, Malformed> {
        match family {
            "TCP4" => text.parse().map(IpAddr::V4),
            "TCP6" => text.parse().map(IpAddr::V6),
            _ => return Err(Malformed),
        }
        .map_err(|_| Malformed)
    };
    let client = SocketAddr::new(address(client)?, from);
    let server = SocketAddr::new(address(server)?, to);
    if words.next().is_some() {
        return Err(Malformed);
    }
    let source = Some(Source { client, server, secure: false });
    Ok(Parsed::Complete(Header { len, source, local: false }))
}

/// Decimal digits without a zero before them.
fn port(text: &str) -> Result<u16, Malformed> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (text.len() > 1 && text.starts_with('0')) {
        return Err(Malformed);
    }
    text.parse().map_err(|_| Malformed)
}

fn version_2(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let Some(&[command, family, high, low]) = bytes.get(12..FIXED_2) else {
        return Ok(Parsed::Partial);
    };
    let len = FIXED_2 + usize::from(u16::from_be_bytes([high, low]));
    if command >> 4 != 2 || command & 15 > 1 || len > LONGEST {
        return Err(Malformed);
    }
    let Some(rest) = bytes.get(FIXED_2..len) else { return Ok(Parsed::Partial) };
    let (addresses, fields) = match family >> 4 {
        0 => (None, rest),
        1 => addresses(rest, |bytes: [u8; 4]| IpAddr::V4(Ipv4Addr::from(bytes)))?,
        2 => addresses(rest, |bytes: [u8; 16]| IpAddr::V6(Ipv6Addr::from(bytes)))?,
        // Sockets of the file system: two paths of 108 bytes.
        3 => (None, rest.get(216..).ok_or(Malformed)?),
        _ => return Err(Malformed),
    };
    let secure = fields_of(fields, &bytes[..len])?;
    let (local, is_stream) = (command & 15 == 0, family & 15 == 1);
    let source = addresses.filter(|_| !local && is_stream).map(|(client, server)| Source {
        client,
        server,
        secure,
    });
    Ok(Parsed::Complete(Header { len, source, local }))
}

/// Both addresses with their ports, and the bytes behind them.
#[expect(clippy::type_complexity, reason = "two addresses and a rest")]
fn addresses<const N: usize>(
    bytes: &[u8],
    address: impl Fn([u8; N]) -> IpAddr,
) -> Result<(Option<(SocketAddr, SocketAddr)>, &[u8]), Malformed> {
    let (client, rest) = bytes.split_first_chunk::<N>().ok_or(Malformed)?;
    let (server, rest) = rest.split_first_chunk::<N>().ok_or(Malformed)?;
    let (from, rest) = rest.split_first_chunk::<2>().ok_or(Malformed)?;
    let (to, rest) = rest.split_first_chunk::<2>().ok_or(Malformed)?;
    let whole =
        |bytes: [u8; N], port: [u8; 2]| SocketAddr::new(address(bytes), u16::from_be_bytes(port));
    Ok((Some((whole(*client, *from), whole(*server, *to))), rest))
}

/// Reads the fields (type, length, value; section 2.2). True: the client speaks TLS.
fn fields_of(mut fields: &[u8], header: &[u8]) -> Result<bool, Malformed> {
    let mut secure = false;
    while let Some((&[kind, high, low], rest)) = fields.split_first_chunk::<3>() {
        let len = usize::from(u16::from_be_bytes([high, low]));
        let (value, rest) = rest.split_at_checked(len).ok_or(Malformed)?;
        match kind {
            field::CRC32C => {
                let told = value.try_into().map(u32::from_be_bytes).map_err(|_| Malformed)?;
                // The sum is made over the header with zeros in place of the sum.
                let at = header.len() - rest.len() - len;
                let parts = [&header[..at], &[0; 4], &header[at + len..]];
                if crc32c(parts) != told {
                    return Err(Malformed);
                }
            }
            field::SSL => {
                let (client, _) = value.split_first_chunk::<5>().ok_or(Malformed)?;
                secure = client[0] & CLIENT_SSL != 0;
            }
            _ => {}
        }
        fields = rest;
    }
    if fields.is_empty() { Ok(secure) } else { Err(Malformed) }
}

/// CRC-32C (RFC 3720 appendix B.4), bit by bit: a header a connection.
fn crc32c<const N: usize>(parts: [&[u8]; N]) -> u32 {
    let mut sum = u32::MAX;
    for &byte in parts.into_iter().flatten() {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests;
