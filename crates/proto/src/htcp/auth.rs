//! AUTH of a message (RFC 2756 section 3): HMAC-MD5 over the addresses of the datagram, the
//! versions, the times, DATA, and the name of the key.

use std::net::{IpAddr, SocketAddr};

use md5::{Digest, Md5};

use super::{Fault, MAJOR, counted, write_counted};
use crate::Secs;

/// Length of a signature.
const DIGEST: usize = 16;
/// Block of HMAC (RFC 2104; RFC 2756 gives its B).
const BLOCK: usize = 64;
/// Longest name of a key that is written.
pub const LONGEST_NAME: usize = 64;
/// Longest AUTH that is written.
pub(super) const LONGEST: usize = 2 + 8 + 2 + LONGEST_NAME + 2 + DIGEST;
/// How far clocks may be apart: a signature of the future is taken so far ahead.
const SKEW: Secs = 60;
/// Longest time for which a signature is believed, whatever it says: a datagram that somebody
/// recorded is of use for as long.
const LONGEST_VALIDITY: Secs = 300;

/// AUTH of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// SIG-TIME.
    pub signed_at: u32,
    /// SIG-EXPIRE.
    pub expires: u32,
    /// KEY-NAME.
    pub key_name: &'a [u8],
    /// SIGNATURE.
    pub signature: &'a [u8],
}

impl<'a> Auth<'a> {
    /// Reads AUTH. None: it is empty, the message is not authenticated.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Option<Auth<'a>>, Fault> {
        let (length, rest) = bytes.split_first_chunk::<2>().ok_or(Fault::Length)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let rest = length.checked_sub(2).and_then(|length| rest.get(..length));
        let rest = rest.ok_or(Fault::Length)?;
        if rest.is_empty() {
            return Ok(None);
        }
        let (times, rest) = rest.split_first_chunk::<8>().ok_or(Fault::Length)?;
        let &[a, b, c, d, e, f, g, h] = times;
        let (key_name, rest) = counted(rest).ok_or(Fault::Length)?;
        let (signature, _) = counted(rest).ok_or(Fault::Length)?;
        Ok(Some(Auth {
            signed_at: u32::from_be_bytes([a, b, c, d]),
            expires: u32::from_be_bytes([e, f, g, h]),
            key_name,
            signature,
        }))
    }

    /// Whether the signature is right for `data` (DATA with its length) and valid now.
    pub fn is_valid(&self, key: &Key<'_>, way: Way, minor: u8, data: &[u8], now: Secs) -> bool {
        let (begin, end) = (Secs::from(self.signed_at), Secs::from(self.expires));
        let in_time =
            begin <= now + SKEW && now < end.saturating_add(SKEW) && now < begin + LONGEST_VALIDITY;
        let named = self.key_name == key.name;
        let right = signature(key, way, minor, (self.signed_at, self.expires), data);
        in_time && named && equal(&right, self.signature)
    }
}

/// A key that both ends know.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The secret.
    pub secret: &'a [u8],
}

/// From where to where a datagram goes, as the receiver sees it.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
}

/// Key, addresses and time of a message that is to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The addresses.
    pub way: Way,
    /// Now.
    pub now: Secs,
    /// Seconds for which it is valid.
    pub valid: u32,
}

/// Appends AUTH to a message whose DATA begins at `data`.
pub(super) fn write(out: &mut Vec<u8>, data: usize, minor: u8, sign: Option<&Signing<'_>>) {
    let Some(sign) = sign.filter(|sign| sign.key.name.len() <= LONGEST_NAME) else {
        out.extend_from_slice(&2u16.to_be_bytes());
        return;
    };
    let begin = u32::try_from(sign.now).unwrap_or(u32::MAX);
    let times = (begin, begin.saturating_add(sign.valid));
    let digest = signature(&sign.key, sign.way, minor, times, &out[data..]);
    let length = 2 + 8 + 2 + sign.key.name.len() + 2 + DIGEST;
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&times.0.to_be_bytes());
    out.extend_from_slice(&times.1.to_be_bytes());
    write_counted(out, sign.key.name);
    write_counted(out, &digest);
}

/// HMAC-MD5 (RFC 2104) of the elements that RFC 2756 lists, in its order.
fn signature(
    key: &Key<'_>,
    way: Way,
    minor: u8,
    (begin, end): (u32, u32),
    data: &[u8],
) -> [u8; DIGEST] {
    let mut text = Vec::with_capacity(data.len() + 128);
    for address in [way.from, way.to] {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => text.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => text.extend_from_slice(&ip.octets()),
        }
        text.extend_from_slice(&address.port().to_be_bytes());
    }
    text.extend_from_slice(&[MAJOR, minor]);
    text.extend_from_slice(&begin.to_be_bytes());
    text.extend_from_slice(&end.to_be_bytes());
    text.extend_from_slice(data);
    write_counted(&mut text, key.name);
    hmac(key.secret, &text)
}

fn hmac(secret: &[u8], text: &[u8]) -> [u8; DIGEST] {
    let mut block = [0; BLOCK];
    if secret.len() > BLOCK {
        block[..DIGEST].copy_from_slice(&Md5::digest(secret));
    } else {
        block[..secret.len()].copy_from_slice(secret);
    }
    let inner = Md5::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text);
    let outer = Md5::new().chain_update(block.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
}

/// In a time that does not depend on where they differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202 section 2, test cases 1, 2 and 6.
    #[test]
    fn hmac_md5() {
        let hex = |digest: [u8; 16]| digest.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(hex(hmac(&[0x0b; 16], b"Hi There")), "9294727a3638bb1c13f48ef8158bfc9d");
        let two = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(two), "750c783e6ab0b503eaa86e310a5db738");
        let six = hmac(&[0xaa; 80], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(six), "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd");
    }
}
