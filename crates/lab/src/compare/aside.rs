//! A program with a cache beside its database: it asks the cache, and stores what it did not find.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use larder_proto::{
    memcache::client::{CRLF, Decoded, Done, Replies, Reply, meta},
    resp::client::{Got, Received, receive},
};

use super::objects::Language;
use crate::load::{Ask, value};

/// Gets sent before the first answer is read: the rates of caches are compared here, not their speed.
pub(crate) const BATCH: usize = 32;
/// Longest value of the traces, and some.
const LONGEST: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a cache.
pub(crate) struct Cache {
    stream: TcpStream,
    language: Language,
    out: Vec<u8>,
    read: Vec<u8>,
    taken: usize,
}

/// What one answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// The value, whole and right.
    Hit,
    Miss,
    Stored,
    /// The cache had no room for it.
    Refused,
}

impl Cache {
    pub(crate) fn connect(address: SocketAddr, language: Language) -> Result<Self, String> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok(stream)
        };
        let stream = connect().map_err(|error: std::io::Error| format!("{address}: {error}"))?;
        Ok(Self { stream, language, out: Vec::new(), read: Vec::new(), taken: 0 })
    }

    /// Asks for all, then stores what was missing. Says of each whether it was there.
    pub(crate) fn ask(&mut self, asks: &[Ask]) -> Result<Vec<bool>, String> {
        self.out.clear();
        asks.iter().try_for_each(|ask| self.get(ask))?;
        self.send()?;
        let mut found = Vec::with_capacity(asks.len());
        for ask in asks {
            found.push(self.said(ask)? == Said::Hit);
        }
        self.out.clear();
        let mut missing: Vec<&Ask> = Vec::new();
        for (ask, _) in asks.iter().zip(&found).filter(|(_, found)| !**found) {
            // Asked twice in a batch: stored once.
            if !missing.iter().any(|other| other.key == ask.key) {
                missing.push(ask);
                self.set(ask)?;
            }
        }
        self.send()?;
        for ask in missing {
            self.said(ask)?;
        }
        Ok(found)
    }

    fn get(&mut self, ask: &Ask) -> Result<(), String> {
        match self.language {
            Language::Redis => array(&[b"GET", &ask.key], &mut self.out),
            Language::Meta | Language::Text => {
                let get = meta::Get { key: &ask.key, value: true, ..meta::Get::default() };
                meta::get(&get, &mut self.out).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn set(&mut self, ask: &Ask) -> Result<(), String> {
        if self.language == Language::Redis {
            let mut bytes = Vec::with_capacity(ask.size);
            value::fill(&ask.key, ask.size, &mut bytes);
            array(&[b"SET", &ask.key, &bytes], &mut self.out);
            return Ok(());
        }
        let len = u32::try_from(ask.size).map_err(|_| "a value of 4 GiB".to_owned())?;
        let set = meta::Set { key: &ask.key, len, ..meta::Set::default() };
        meta::set(&set, &mut self.out).map_err(|error| error.to_string())?;
        value::fill(&ask.key, ask.size, &mut self.out);
        self.out.extend_from_slice(CRLF);
        Ok(())
    }

    fn send(&mut self) -> Result<(), String> {
        self.stream.write_all(&self.out).map_err(|error| format!("it took no more: {error}"))
    }

    /// The next answer, which is to this request.
    fn said(&mut self, ask: &Ask) -> Result<Said, String> {
        loop {
            let bytes = &self.read[self.taken..];
            let said = match self.language {
                Language::Redis => redis(ask, bytes)?,
                Language::Meta | Language::Text => memcached(ask, bytes)?,
            };
            if let Some((said, used)) = said {
                self.taken += used;
                return Ok(said);
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            let filled = self.read.len();
            self.read.resize(filled + (64 << 10), 0);
            let got =
                self.stream.read(&mut self.read[filled..]).map_err(|error| format!("no answer: {error}"))?;
            self.read.truncate(filled + got);
            if got == 0 {
                return Err("it closed the connection".to_owned());
            }
        }
    }
}

/// A whole answer of memcached's and its length. `None`: not all of it is here.
fn memcached(ask: &Ask, bytes: &[u8]) -> Result<Option<(Said, usize)>, String> {
    match Replies::new(LONGEST).next(bytes) {
        Decoded::Incomplete { .. } => Ok(None),
        Decoded::Reply(Reply::Value(value), used) => Ok(Some((right(ask, &bytes[value.at])?, used))),
        Decoded::Reply(Reply::Done(Done::NotFound, _), used) => Ok(Some((Said::Miss, used))),
        Decoded::Reply(Reply::Done(Done::Done, _), used) => Ok(Some((Said::Stored, used))),
        Decoded::Reply(Reply::Done(Done::NotStored, _) | Reply::Error(..), used) => {
            Ok(Some((Said::Refused, used)))
        }
        Decoded::Reply(..) => Err("an answer that belongs to no request".to_owned()),
        Decoded::Broken(broken) => Err(format!("{broken:?}")),
    }
}

/// See [`memcached`].
fn redis(ask: &Ask, bytes: &[u8]) -> Result<Option<(Said, usize)>, String> {
    match receive(bytes, LONGEST) {
        Received::Incomplete { .. } => Ok(None),
        Received::Reply(Got::Bulk(value), used) => Ok(Some((right(ask, value)?, used))),
        Received::Reply(Got::Null, used) => Ok(Some((Said::Miss, used))),
        Received::Reply(Got::Status(_), used) => Ok(Some((Said::Stored, used))),
        Received::Reply(Got::Error(_), used) => Ok(Some((Said::Refused, used))),
        Received::Reply(..) => Err("an answer that belongs to no request".to_owned()),
        Received::Broken(broken) => Err(broken.to_string()),
    }
}

fn right(ask: &Ask, bytes: &[u8]) -> Result<Said, String> {
    let right = bytes.len() == ask.size && value::matches(&ask.key, bytes);
    right.then_some(Said::Hit).ok_or_else(|| "other bytes than were stored".to_owned())
}

/// A command of Redis's.
fn array(parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> (Ask, Vec<u8>) {
        let ask = Ask { key: b"k1".to_vec(), size: 30, ..Ask::default() };
        let mut value = Vec::new();
        value::fill(&ask.key, ask.size, &mut value);
        (ask, value)
    }

    #[test]
    fn answers_are_hits_only_with_the_right_bytes() {
        let (ask, value) = ask();
        let answer = [b"VA 30\r\n", &value[..], b"\r\nEN\r\n"].concat();
        assert_eq!(memcached(&ask, &answer), Ok(Some((Said::Hit, 39))));
        assert_eq!(memcached(&ask, &answer[..20]), Ok(None));
        assert_eq!(memcached(&ask, b"EN\r\n"), Ok(Some((Said::Miss, 4))));
        assert_eq!(memcached(&ask, b"HD\r\n"), Ok(Some((Said::Stored, 4))));
        assert_eq!(memcached(&ask, b"SERVER_ERROR out of memory\r\n"), Ok(Some((Said::Refused, 28))));
        assert!(memcached(&ask, b"VA 2\r\nxx\r\n").is_err());

        let answer = [b"$30\r\n", &value[..], b"\r\n"].concat();
        assert_eq!(redis(&ask, &answer), Ok(Some((Said::Hit, 37))));
        assert_eq!(redis(&ask, b"$-1\r\n"), Ok(Some((Said::Miss, 5))));
        assert_eq!(redis(&ask, b"-OOM no\r\n"), Ok(Some((Said::Refused, 9))));
        assert!(redis(&ask, b"$2\r\nxx\r\n").is_err());
    }
}
