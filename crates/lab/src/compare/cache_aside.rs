//! Client of the cache-aside pattern: it asks the cache and stores the values it did not find.

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
use crate::load::{Operation, value};

/// Gets sent before the first answer is read: this compares hit ratios, not speed.
pub(crate) const BATCH: usize = 32;
/// Longest value of the traces, with some margin.
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

/// An answer of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheReply {
    /// The correct value.
    Hit,
    Miss,
    Stored,
    /// The cache had no room for the value.
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

    /// Requests all keys, then stores those that were missing. Returns for each whether it was
    /// found.
    pub(crate) fn fetch(&mut self, operations: &[Operation]) -> Result<Vec<bool>, String> {
        self.out.clear();
        operations.iter().try_for_each(|operation| self.get(operation))?;
        self.send()?;
        let mut found = Vec::with_capacity(operations.len());
        for operation in operations {
            found.push(self.reply(operation)? == CacheReply::Hit);
        }
        self.out.clear();
        let mut missing: Vec<&Operation> = Vec::new();
        for (operation, _) in operations.iter().zip(&found).filter(|(_, found)| !**found) {
            // A key requested twice in a batch is stored once.
            if !missing.iter().any(|other| other.key == operation.key) {
                missing.push(operation);
                self.set(operation)?;
            }
        }
        self.send()?;
        for operation in missing {
            self.reply(operation)?;
        }
        Ok(found)
    }

    fn get(&mut self, operation: &Operation) -> Result<(), String> {
        match self.language {
            Language::Redis => array(&[b"GET", &operation.key], &mut self.out),
            Language::Meta | Language::Text => {
                let get = meta::Get { key: &operation.key, value: true, ..meta::Get::default() };
                meta::get(&get, &mut self.out).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn set(&mut self, operation: &Operation) -> Result<(), String> {
        if self.language == Language::Redis {
            let mut bytes = Vec::with_capacity(operation.size);
            value::fill(&operation.key, operation.size, &mut bytes);
            array(&[b"SET", &operation.key, &bytes], &mut self.out);
            return Ok(());
        }
        let len = u32::try_from(operation.size).map_err(|_| "a value of 4 GiB".to_owned())?;
        let set = meta::Set { key: &operation.key, len, ..meta::Set::default() };
        meta::set(&set, &mut self.out).map_err(|error| error.to_string())?;
        value::fill(&operation.key, operation.size, &mut self.out);
        self.out.extend_from_slice(CRLF);
        Ok(())
    }

    fn send(&mut self) -> Result<(), String> {
        self.stream.write_all(&self.out).map_err(|error| format!("it took no more: {error}"))
    }

    /// Reads the next answer, which is to `operation`.
    fn reply(&mut self, operation: &Operation) -> Result<CacheReply, String> {
        loop {
            let bytes = &self.read[self.taken..];
            let reply = match self.language {
                Language::Redis => redis(operation, bytes)?,
                Language::Meta | Language::Text => memcached(operation, bytes)?,
            };
            if let Some((reply, used)) = reply {
                self.taken += used;
                return Ok(reply);
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            let filled = self.read.len();
            self.read.resize(filled + (64 << 10), 0);
            let got = self
                .stream
                .read(&mut self.read[filled..])
                .map_err(|error| format!("no answer: {error}"))?;
            self.read.truncate(filled + got);
            if got == 0 {
                return Err("it closed the connection".to_owned());
            }
        }
    }
}

/// A complete answer of memcached and its length; `None` if it is incomplete.
fn memcached(operation: &Operation, bytes: &[u8]) -> Result<Option<(CacheReply, usize)>, String> {
    match Replies::new(LONGEST).next(bytes) {
        Decoded::Incomplete { .. } => Ok(None),
        Decoded::Reply(Reply::Value(value), used) => {
            Ok(Some((right(operation, &bytes[value.at])?, used)))
        }
        Decoded::Reply(Reply::Done(Done::NotFound, _), used) => Ok(Some((CacheReply::Miss, used))),
        Decoded::Reply(Reply::Done(Done::Done, _), used) => Ok(Some((CacheReply::Stored, used))),
        Decoded::Reply(Reply::Done(Done::NotStored, _) | Reply::Error(..), used) => {
            Ok(Some((CacheReply::Refused, used)))
        }
        Decoded::Reply(..) => Err("an answer that belongs to no request".to_owned()),
        Decoded::Broken(broken) => Err(format!("{broken:?}")),
    }
}

/// See [`memcached`].
fn redis(operation: &Operation, bytes: &[u8]) -> Result<Option<(CacheReply, usize)>, String> {
    match receive(bytes, LONGEST) {
        Received::Incomplete { .. } => Ok(None),
        Received::Reply(Got::Bulk(value), used) => Ok(Some((right(operation, value)?, used))),
        Received::Reply(Got::Null, used) => Ok(Some((CacheReply::Miss, used))),
        Received::Reply(Got::Status(_), used) => Ok(Some((CacheReply::Stored, used))),
        Received::Reply(Got::Error(_), used) => Ok(Some((CacheReply::Refused, used))),
        Received::Reply(..) => Err("an answer that belongs to no request".to_owned()),
        Received::Broken(broken) => Err(broken.to_string()),
    }
}

fn right(operation: &Operation, bytes: &[u8]) -> Result<CacheReply, String> {
    let right = bytes.len() == operation.size && value::matches(&operation.key, bytes);
    right.then_some(CacheReply::Hit).ok_or_else(|| "other bytes than were stored".to_owned())
}

/// Appends a Redis command.
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

    fn operation() -> (Operation, Vec<u8>) {
        let operation = Operation { key: b"k1".to_vec(), size: 30, ..Operation::default() };
        let mut value = Vec::new();
        value::fill(&operation.key, operation.size, &mut value);
        (operation, value)
    }

    #[test]
    fn answers_are_hits_only_with_the_right_bytes() {
        let (operation, value) = operation();
        let answer = [b"VA 30\r\n", &value[..], b"\r\nEN\r\n"].concat();
        assert_eq!(memcached(&operation, &answer), Ok(Some((CacheReply::Hit, 39))));
        assert_eq!(memcached(&operation, &answer[..20]), Ok(None));
        assert_eq!(memcached(&operation, b"EN\r\n"), Ok(Some((CacheReply::Miss, 4))));
        assert_eq!(memcached(&operation, b"HD\r\n"), Ok(Some((CacheReply::Stored, 4))));
        assert_eq!(
            memcached(&operation, b"SERVER_ERROR out of memory\r\n"),
            Ok(Some((CacheReply::Refused, 28)))
        );
        assert!(memcached(&operation, b"VA 2\r\nxx\r\n").is_err());

        let answer = [b"$30\r\n", &value[..], b"\r\n"].concat();
        assert_eq!(redis(&operation, &answer), Ok(Some((CacheReply::Hit, 37))));
        assert_eq!(redis(&operation, b"$-1\r\n"), Ok(Some((CacheReply::Miss, 5))));
        assert_eq!(redis(&operation, b"-OOM no\r\n"), Ok(Some((CacheReply::Refused, 9))));
        assert!(redis(&operation, b"$2\r\nxx\r\n").is_err());
    }
}
