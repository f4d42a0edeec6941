//! Protocols: requests into bytes, bytes into what came of them. No sockets and no clock.

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
    Check, Known, Plan, Protocol,
    pages::{Pages, Sum},
    tally::Fault,
};
use crate::load::{Ask, Lengths, value};

/// Largest value of an object that is taken: as much as Redis's `proto-max-bulk-len` gives, and more than any memcached.
const MAX_VALUE: usize = 512 << 20;

/// What came of a request.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Objects found, or pages from a cache.
    pub(super) hits: u32,
    /// Objects not found, or pages for which a cache asked further.
    pub(super) misses: u32,
    /// Other bytes than there should be.
    pub(super) wrong: bool,
    /// It failed, though the connection is as good as before.
    pub(super) fault: Option<Fault>,
}

/// What the next bytes of a connection were.
#[derive(Debug)]
pub(super) enum Step {
    /// Not enough: so many bytes, from the first that is not used up, are needed at least.
    Need(usize),
    /// So many bytes belong to the answer, and it goes on.
    Part(usize),
    /// So many bytes end the answer.
    Over {
        used: usize,
        outcome: Outcome,
        /// Another request may follow on this connection.
        keep: bool,
    },
    /// It is no answer, for this reason.
    Broken(String),
}

/// What all connections of a thread have in common.
pub(super) struct Speech<'a> {
    language: Language,
    check: Check,
    lengths: &'a Lengths,
    known: &'a Known,
    pages: &'a Pages,
    /// Pages that have begun.
    begun: Cell<u32>,
}

enum Language {
    Http(Requests),
    Text,
    Meta,
    Redis,
}

impl<'a> Speech<'a> {
    pub(super) fn new(plan: &'a Plan, pages: &'a Pages) -> Speech<'a> {
        let language = match &plan.protocol {
            Protocol::Http { host, fields } => Language::Http(Requests::new(host, fields, plan.reconnect)),
            Protocol::MemcachedText => Language::Text,
            Protocol::MemcachedMeta => Language::Meta,
            Protocol::Redis => Language::Redis,
        };
        let (lengths, known, begun) = (&plan.lengths, &*plan.known, Cell::new(0));
        Speech { language, check: plan.check, lengths, known, pages, begun }
    }

    /// Appends a request. False, and nothing appended: it cannot be said in this protocol.
    pub(super) fn ask(&self, ask: &Ask, out: &mut Vec<u8>) -> bool {
        match &self.language {
            Language::Http(requests) => requests.write(ask, self, out),
            Language::Text => memcache::text(ask, out),
            Language::Meta => memcache::meta(ask, out),
            Language::Redis => redis::write(ask, out),
        }
    }

    /// Whether bytes matter at all.
    #[inline]
    fn compares(&self) -> bool {
        matches!(self.check, Check::Bytes | Check::Every(_))
    }

    /// Whether an object's value is what it should be.
    #[inline]
    fn is_value(&self, key: &[u8], bytes: &[u8]) -> bool {
        !self.compares() || (self.lengths.allow(key, bytes.len()) && value::matches(key, bytes))
    }

    /// Whether the bytes of the page that begins now are looked at.
    #[inline]
    fn looks(&self) -> bool {
        let Check::Every(pages) = self.check else { return self.check == Check::Bytes };
        let begun = self.begun.get();
        self.begun.set(if begun + 1 == pages { 0 } else { begun + 1 });
        begun == 0
    }

    /// Whether another status than 200 is a failure.
    fn wants_ok(&self, target: &[u8]) -> bool {
        match self.check {
            Check::Ok | Check::Every(_) => true,
            Check::Bytes => self.known.find(target).is_some(),
            Check::Framing => false,
        }
    }

    /// What a new connection reads with.
    pub(super) fn answers(&self) -> Answers {
        match self.language {
            Language::Http(_) => Answers::Http(Http::new()),
            Language::Text => Answers::Memcache(Memcache::new(false)),
            Language::Meta => Answers::Memcache(Memcache::new(true)),
            Language::Redis => Answers::Redis(Redis::default()),
        }
    }
}

/// Where in an answer a connection is.
pub(super) enum Answers {
    Http(Http),
    Memcache(Memcache),
    Redis(Redis),
}

impl Answers {
    /// Takes what it can of `bytes`, which answer `ask`.
    #[inline]
    pub(super) fn take(&mut self, speech: &Speech<'_>, ask: &Ask, bytes: &[u8]) -> Step {
        match self {
            Answers::Http(http) => http.take(ask, bytes, speech),
            Answers::Memcache(memcache) => memcache.take(ask, bytes, speech),
            Answers::Redis(redis) => redis.take(ask, bytes, speech),
        }
    }

    /// The server has ended the connection: perhaps that is the answer's end.
    pub(super) fn end(&mut self, speech: &Speech<'_>, ask: &Ask) -> Option<Outcome> {
        match self {
            Answers::Http(http) => http.end(ask, speech),
            _ => None,
        }
    }
}
