//! Protocols: encoding of requests, decoding and checking of answers. No sockets and no clock.

mod fields;
mod http;
mod http2;
mod http3;
mod memcache;
mod page;
mod redis;
#[cfg(test)]
mod tests;
mod upload;

use std::cell::Cell;

use fields::Fields;
use http::{Http, Requests};
pub(super) use http2::Http2;
pub(super) use http3::{Answer, OPENING, ServerStream};
use memcache::Memcache;
use redis::Redis;

use super::{
    Check, HttpVersion, KnownPages, Plan, Protocol,
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
    /// The server ends the connection; requests that are under way are not answered on it.
    Leave,
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
    /// HTTP/2 and HTTP/3, written with the state of a connection.
    Fields(Fields),
    Text,
    Meta,
    Redis,
}

impl<'a> Codec<'a> {
    pub(super) fn new(plan: &'a Plan, pages: &'a SeenPages) -> Codec<'a> {
        let encoder = match &plan.protocol {
            Protocol::Http { host, fields } => match plan.version {
                HttpVersion::Http1 => Encoder::Http(Requests::new(host, fields, plan.reconnect)),
                HttpVersion::Http2 | HttpVersion::Http3 => {
                    Encoder::Fields(Fields::new(host, fields, plan.tls.is_some()))
                }
            },
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
            Encoder::Fields(fields) => fields.request(operation).is_some(),
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
            Encoder::Fields(_) => Answers::Http2(Box::new(Http2::new())),
            Encoder::Text => Answers::Memcache(Memcache::new(false)),
            Encoder::Meta => Answers::Memcache(Memcache::new(true)),
            Encoder::Redis => Answers::Redis(Redis::default()),
        }
    }
}

/// Decoder of the answers on a connection.
pub(super) enum Answers {
    Http(Http),
    Http2(Box<Http2>),
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
            // Its answers come in any order, see [`Http2::take`].
            Answers::Http2(_) => Step::Broken("an answer out of order".to_owned()),
        }
    }

    /// Appends the request in `slot`, on an open connection. False: the protocol cannot express
    /// it.
    #[inline]
    pub(super) fn ask(
        &mut self,
        codec: &Codec<'_>,
        slot: usize,
        operation: &Operation,
        out: &mut Vec<u8>,
    ) -> bool {
        let (Answers::Http2(http2), Encoder::Fields(fields)) = (self, &codec.encoder) else {
            return codec.encode(operation, out);
        };
        let Some(request) = fields.request(operation) else { return false };
        request.note(codec);
        http2.request(slot, &request, out);
        true
    }

    /// Appends the bytes that a client sends before all requests.
    pub(super) fn open(&mut self, out: &mut Vec<u8>) {
        if let Answers::Http2(http2) = self {
            http2.open(out);
        }
    }

    /// Appends bytes that have to be sent beside requests.
    #[inline]
    pub(super) fn reply(&mut self, out: &mut Vec<u8>) {
        if let Answers::Http2(http2) = self {
            http2.reply(out);
        }
    }

    /// Whether the connection takes another request now.
    #[inline]
    pub(super) fn have_room(&self) -> bool {
        match self {
            Answers::Http2(http2) => http2.has_room(),
            _ => true,
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
