//! The check of a page, whatever protocol brings it.

use crc32fast::Hasher;
use larder_proto::http::{Cached, ResponseHead};

use super::{BodySum, Codec, Outcome};
use crate::{
    engine::tally::Fault,
    load::{Operation, Verb},
};

/// A page on its way.
pub(super) struct Page {
    check: BodyCheck,
    sum: Hasher,
    length: u64,
}

/// How the bytes of a body are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyCheck {
    /// Not at all.
    Away,
    /// Summed, to compare with the first page of that target.
    BodySum,
    /// Compared with a known page; whether they are equal so far.
    Page(bool),
}

impl Page {
    pub(super) fn new() -> Page {
        Page { check: BodyCheck::Away, sum: Hasher::new(), length: 0 }
    }

    /// Length of the body so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Begins the answer to `operation`.
    #[inline]
    pub(super) fn begin(&mut self, operation: &Operation, codec: &Codec<'_>) {
        self.length = 0;
        self.sum.reset();
        self.check = if !codec.looks() {
            BodyCheck::Away
        } else if operation.verb == Verb::Get && codec.known.find(&operation.key).is_some() {
            BodyCheck::Page(true)
        } else {
            BodyCheck::BodySum
        };
    }

    /// Takes the next bytes of the body.
    #[inline]
    pub(super) fn body(&mut self, bytes: &[u8], operation: &Operation, codec: &Codec<'_>) {
        match &mut self.check {
            BodyCheck::Away => {}
            BodyCheck::BodySum => self.sum.update(bytes),
            BodyCheck::Page(same) => {
                let rest = codec
                    .known
                    .find(&operation.key)
                    .and_then(|page| page.get(self.length as usize..));
                *same &= rest.is_some_and(|rest| rest.starts_with(bytes));
            }
        }
        self.length += bytes.len() as u64;
    }

    /// Judges the whole answer.
    #[inline]
    pub(super) fn outcome(
        &self,
        head: ResponseHead,
        operation: &Operation,
        codec: &Codec<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let gone = matches!(head.status, 404 | 410) && operation.verb == Verb::Delete;
        let unexpected = head.status != 200 && codec.wants_ok(&operation.key);
        if (head.status >= 400 && !gone) || unexpected {
            outcome.fault = Some(Fault::Status(head.status));
            return outcome;
        }
        match head.cached {
            Cached::Hit => outcome.hits = 1,
            Cached::Miss => outcome.misses = 1,
            Cached::Unknown => {}
        }
        if operation.verb == Verb::Get && head.status == 200 {
            outcome.wrong = !self.is_right(operation, codec);
        }
        outcome
    }

    #[inline]
    fn is_right(&self, operation: &Operation, codec: &Codec<'_>) -> bool {
        match self.check {
            BodyCheck::Away => true,
            BodyCheck::BodySum => {
                let sum = BodySum { length: self.length, crc: self.sum.clone().finalize() };
                codec.pages.same(&operation.key, sum)
            }
            BodyCheck::Page(same) => {
                same && codec
                    .known
                    .find(&operation.key)
                    .is_some_and(|page| page.len() as u64 == self.length)
            }
        }
    }
}
