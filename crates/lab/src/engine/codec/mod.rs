//! Protocols: encoding of requests, decoding and checking of answers. No sockets and no clock.

mod http;
mod memcache;
mod redis;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use http::{Http, Requests};
use memcache::Memcache;
use redis::Redis;

use super::{
    Check, KnownPages, Plan, Protocol,
    pages::{BodySum, SeenPages},
    tally::Fault,
};
use crate::load::{Lengths, Operation, value};

/// Largest value accepted, in bytes: Redis's `proto-max-bulk-len`, and more than any memcached
/// allows.
const MAX_VALUE: usize = 512 << 20;

/// Result of a request.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Objects found, or pages served from a cache.
    pub(super) hits: u32,
    /// Objects not found, or pages for which a cache asked its origin.
    pub(super) misses: u32,
    /// The bytes differ from the expected ones.
    pub(super) wrong: bool,
    /// It failed, but the connection remains usable.
    pub(super) fault: Option<Fault>,
}

/// Result of decoding the next bytes of a connection.
#[derive(Debug)]
pub(super) enum Step {
    /// Incomplete: at least this many bytes, counted from the first unused one, are needed.
    Need(usize),
    /// This many bytes belong to the answer, which continues.
    Part(usize),
    /// This many bytes end the answer.
    Over {
        used: usize,
        outcome: Outcome,
        /// Whether the connection can be used for another request.
        keep: bool,
    },
    /// Not a valid answer, with the reason.
    Broken(String),
}

/// Encoder and settings shared by all connections of a thread.
pub(super) struct Codec<'a> {
    encoder: Encoder,
    check: Check,
    lengths: &'a Lengths,
    known: &'a KnownPages,
    pages: &'a SeenPages,
    /// Number of pages started.
    begun: Cell<u32>,
}

enum Encoder {
    Http(Requests),
    Text,
    Meta,
    Redis,
}

impl<'a> Codec<'a> {
    pub(super) fn new(plan: &'a Plan, pages: &'a SeenPages) -> Codec<'a> {
        let encoder = match &plan.protocol {
            Protocol::Http { host, fields } => {
                Encoder::Http(Requests::new(host, fields, plan.reconnect))
            }
            Protocol::MemcachedText => Encoder::Text,
            Protocol::MemcachedMeta => Encoder::Meta,
            Protocol::Redis => Encoder::Redis,
        };
        let (lengths, known, begun) = (&plan.lengths, &*plan.known, Cell::new(0));
        Codec { encoder, check: plan.check, lengths, known, pages, begun }
    }

    /// Appends a request. False: the protocol cannot express it, and nothing is appended.
    pub(super) fn encode(&self, operation: &Operation, out: &mut Vec<u8>) -> bool {
        match &self.encoder {
            Encoder::Http(requests) => requests.write(operation, self, out),
            Encoder::Text => memcache::text(operation, out),
            Encoder::Meta => memcache::meta(operation, out),
            Encoder::Redis => redis::write(operation, out),
        }
    }

    /// Whether bytes are compared at all.
    #[inline]
    fn compares(&self) -> bool {
        matches!(self.check, Check::Bytes | Check::Every(_))
    }

    /// Whether an object has the expected value.
    #[inline]
    fn is_value(&self, key: &[u8], bytes: &[u8]) -> bool {
        !self.compares() || (self.lengths.allow(key, bytes.len()) && value::matches(key, bytes))
    }

    /// Whether the page that starts now is compared.
    #[inline]
    fn looks(&self) -> bool {
        let Check::Every(pages) = self.check else { return self.check == Check::Bytes };
        let begun = self.begun.get();
        self.begun.set(if begun + 1 == pages { 0 } else { begun + 1 });
        begun == 0
    }

    /// Whether a status other than 200 is a failure.
    fn wants_ok(&self, target: &[u8]) -> bool {
        match self.check {
            Check::Ok | Check::Every(_) => true,
            Check::Bytes => self.known.find(target).is_some(),
            Check::Framing => false,
        }
    }

    /// Decoder for a new connection.
    pub(super) fn answers(&self) -> Answers {
        match self.encoder {
            Encoder::Http(_) => Answers::Http(Http::new()),
            Encoder::Text => Answers::Memcache(Memcache::new(false)),
            Encoder::Meta => Answers::Memcache(Memcache::new(true)),
            Encoder::Redis => Answers::Redis(Redis::default()),
        }
    }
}

/// Decoder of the answers on a connection.
pub(super) enum Answers {
    Http(Http),
    Memcache(Memcache),
    Redis(Redis),
}

impl Answers {
    /// Decodes as much of `bytes`, the answer to `operation`, as possible.
    #[inline]
    pub(super) fn take(&mut self, codec: &Codec<'_>, operation: &Operation, bytes: &[u8]) -> Step {
        match self {
            Answers::Http(http) => http.take(operation, bytes, codec),
            Answers::Memcache(memcache) => memcache.take(operation, bytes, codec),
            Answers::Redis(redis) => redis.take(operation, bytes, codec),
        }
    }

    /// The server has closed the connection, which may be the end of the answer.
    pub(super) fn end(&mut self, codec: &Codec<'_>, operation: &Operation) -> Option<Outcome> {
        match self {
            Answers::Http(http) => http.end(operation, codec),
            _ => None,
        }
    }
}
