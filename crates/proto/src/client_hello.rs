//! The first message of a TLS client (RFC 8446 section 4.1.2), read before TLS reads it: a server
//! that asks the clients of some names for certificates has to know the name first.

/// The parts of a hello that select a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The name of the server, in lower case (RFC 6066 section 3).
    pub server_name: Option<String>,
    /// The protocols that the client offers (ALPN, RFC 7301).
    pub protocols: Vec<Vec<u8>>,
}

/// Result of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// The hello is not whole yet.
    Partial,
    /// It is whole.
    Hello(Hello),
    /// The bytes are no hello.
    Other,
}

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

/// Looks at the first bytes of a connection: records whose contents are the message.
pub fn peek(mut received: &[u8]) -> Peeked {
    let mut message = Vec::new();
    loop {
        match received.first() {
            None => return Peeked::Partial,
            Some(&HANDSHAKE_RECORD) => {}
            Some(_) => return Peeked::Other,
        }
        let Some((head, rest)) = received.split_first_chunk::<5>() else { return Peeked::Partial };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if length == 0 {
            return Peeked::Other;
        }
        message.extend_from_slice(&rest[..length.min(rest.len())]);
        let wanted = match *message {
            [] => return Peeked::Partial,
            [CLIENT_HELLO, a, b, c, ..] => 4 + u32::from_be_bytes([0, a, b, c]) as usize,
            [CLIENT_HELLO, ..] => usize::MAX,
            _ => return Peeked::Other,
        };
        if message.len() >= wanted {
            return parse(&message[4..wanted]).map_or(Peeked::Other, Peeked::Hello);
        }
        match rest.get(length..) {
            Some(behind) => received = behind,
            None => return Peeked::Partial,
        }
    }
}

/// Reads a message without its head.
fn parse(body: &[u8]) -> Option<Hello> {
    let mut reader = Reader(body);
    // The version, the random bytes, the session; suites; compressions.
    reader.take(2 + 32)?;
    reader.list8()?;
    reader.list16()?;
    reader.list8()?;
    let mut hello = Hello::default();
    if reader.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = Reader(reader.list16()?);
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.number16()?, extensions.list16()?);
        match kind {
            SERVER_NAME => hello.server_name = server_name(content),
            ALPN => {
                let mut names = Reader(Reader(content).list16()?);
                while !names.0.is_empty() {
                    hello.protocols.push(names.list8()?.to_vec());
                }
            }
            _ => {}
        }
    }
    Some(hello)
}

/// The first name of the list, if it is a host's.
fn server_name(content: &[u8]) -> Option<String> {
    let mut names = Reader(Reader(content).list16()?);
    let is_host = names.take(1)? == [0];
    let name = std::str::from_utf8(names.list16()?).ok()?;
    is_host.then(|| name.to_ascii_lowercase())
}

/// Takes parts off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Bytes behind their length in one byte.
    fn list8(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }

    /// Bytes behind their length in two bytes.
    fn list16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list16(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat()
    }

    /// A message that asks for a name and offers two protocols.
    fn message() -> Vec<u8> {
        let name = [&[0][..], &list16(b"WWW.example.org")].concat();
        let name = [&[0, 0][..], &list16(&list16(&name))].concat();
        let alpn = [&[0, 16][..], &list16(&list16(b"\x02h2\x08http/1.1"))].concat();
        let other = [&[0, 43][..], &list16(&[2, 3, 4])].concat();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[2, 1, 1],
            &list16(&[0x13, 1]),
            &[1, 0],
            &list16(&[other, name, alpn].concat()),
        ]
        .concat();
        let length = u32::try_from(body.len()).expect("short").to_be_bytes();
        [&[CLIENT_HELLO][..], &length[1..], &body].concat()
    }

    fn record(content: &[u8]) -> Vec<u8> {
        [&[HANDSHAKE_RECORD, 3, 1][..], &list16(content)].concat()
    }

    fn hello() -> Peeked {
        Peeked::Hello(Hello {
            server_name: Some("www.example.org".to_owned()),
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        })
    }

    #[test]
    fn a_hello_in_any_number_of_records_is_read_once_it_is_whole() {
        let message = message();
        for size in [1, 3, 50, message.len()] {
            let records: Vec<u8> = message.chunks(size).flat_map(record).collect();
            for end in 0..records.len() {
                assert_eq!(peek(&records[..end]), Peeked::Partial, "{end} bytes");
            }
            assert_eq!(peek(&records), hello());
            assert_eq!(peek(&[&records[..], b"more"].concat()), hello());
        }
    }

    #[test]
    fn other_bytes_are_no_hello() {
        for other in [&b"GET / HTTP/1.1"[..], &[22, 3, 1, 0, 0], &record(&[2, 0, 0, 0]), &[21]] {
            assert_eq!(peek(other), Peeked::Other);
        }
        // Each length in it made too large.
        let message = message();
        for at in 4..message.len() {
            let mut broken = message.clone();
            broken[at] = 0xff;
            assert_ne!(peek(&record(&broken)), Peeked::Partial, "byte {at}");
        }
    }
}
