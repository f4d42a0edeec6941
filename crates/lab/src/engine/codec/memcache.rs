//! memcached: text and meta commands.

use larder_proto::memcache::{
    client::{self, Broken, Decoded, Done, Replies, Reply, meta, text},
    text::{Delete, Mode, Store},
};

use super::{Codec, MAX_VALUE, Outcome, Step};
use crate::{
    engine::tally::Fault,
    load::{Operation, Verb, value},
};

/// Seconds in the protocol's type.
fn seconds(ttl: u32) -> i32 {
    i32::try_from(ttl).unwrap_or(i32::MAX)
}

fn keys(operation: &Operation) -> impl Iterator<Item = &[u8]> {
    std::iter::once(&operation.key).chain(&operation.more).map(Vec::as_slice)
}

/// Appends a text command.
pub(super) fn text(operation: &Operation, out: &mut Vec<u8>) -> bool {
    match operation.verb {
        Verb::Get | Verb::Head => text::get(keys(operation), false, None, out).is_ok(),
        Verb::Delete => text::delete(&Delete { key: &operation.key, noreply: false }, out).is_ok(),
        Verb::Set => {
            let Ok(len) = u32::try_from(operation.size) else { return false };
            let store = Store {
                mode: Mode::Set,
                key: &operation.key,
                flags: 0,
                exptime: seconds(operation.ttl),
                len,
                cas: None,
                noreply: false,
            };
            text::store(&store, out).is_ok() && content(operation, out)
        }
    }
}

/// Appends one meta command per key.
pub(super) fn meta(operation: &Operation, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let done = match operation.verb {
        Verb::Get | Verb::Head => keys(operation).all(|key| {
            meta::get(&meta::Get { key, value: true, ..Default::default() }, out).is_ok()
        }),
        Verb::Delete => {
            meta::delete(&meta::Delete { key: &operation.key, ..Default::default() }, out).is_ok()
        }
        Verb::Set => {
            let Ok(len) = u32::try_from(operation.size) else { return false };
            let set = meta::Set {
                key: &operation.key,
                len,
                ttl: seconds(operation.ttl),
                ..Default::default()
            };
            meta::set(&set, out).is_ok() && content(operation, out)
        }
    };
    if !done {
        out.truncate(start);
    }
    done
}

fn content(operation: &Operation, out: &mut Vec<u8>) -> bool {
    value::fill(&operation.key, operation.size, out);
    out.extend_from_slice(client::CRLF);
    true
}

/// Decoder of the answers on a connection.
pub(in crate::engine) struct Memcache {
    meta: bool,
    /// Keys of the request already answered: by a value, a miss, or an answer for a later key.
    answered_keys: usize,
    outcome: Outcome,
}

impl Memcache {
    pub(super) fn new(meta: bool) -> Memcache {
        Memcache { meta, answered_keys: 0, outcome: Outcome::default() }
    }

    #[inline]
    pub(super) fn take(&mut self, operation: &Operation, bytes: &[u8], codec: &Codec<'_>) -> Step {
        let mut at = 0;
        loop {
            match Replies::new(MAX_VALUE).next(&bytes[at..]) {
                Decoded::Incomplete { need } if at == 0 => return Step::Need(need),
                Decoded::Incomplete { .. } => return Step::Part(at),
                Decoded::Broken(broken) => return Step::Broken(reason(broken)),
                Decoded::Reply(reply, used) => {
                    match self.reply(operation, &reply, &bytes[at..], codec) {
                        Some(false) => at += used,
                        Some(true) => return self.over(at + used),
                        None => return Step::Broken("an answer to another command".to_owned()),
                    }
                }
            }
        }
    }

    fn over(&mut self, used: usize) -> Step {
        self.answered_keys = 0;
        Step::Over { used, outcome: std::mem::take(&mut self.outcome), keep: true }
    }

    /// True: the request is complete. `None`: the reply does not belong to it.
    #[inline]
    fn reply(
        &mut self,
        operation: &Operation,
        reply: &Reply<'_>,
        bytes: &[u8],
        codec: &Codec<'_>,
    ) -> Option<bool> {
        let get = matches!(operation.verb, Verb::Get | Verb::Head);
        let count = 1 + operation.more.len();
        match reply {
            Reply::Value(value) if get => {
                let key = if self.meta {
                    Some(self.answered_keys)
                } else {
                    place(operation, self.answered_keys, value.key)
                };
                let Some(place) = key.filter(|place| *place < count) else {
                    self.outcome.wrong = true;
                    return Some(false);
                };
                self.outcome.misses += (place - self.answered_keys) as u32;
                self.outcome.hits += 1;
                self.answered_keys = place + 1;
                self.outcome.wrong |=
                    !codec.is_value(key_at(operation, place), &bytes[value.at.clone()]);
                Some(self.meta && self.answered_keys == count)
            }
            Reply::End if get && !self.meta => {
                self.outcome.misses += (count - self.answered_keys) as u32;
                Some(true)
            }
            Reply::Done(Done::NotFound, _) if get && self.meta => {
                self.answered_keys += 1;
                self.outcome.misses += 1;
                Some(self.answered_keys == count)
            }
            Reply::Done(Done::Stored | Done::Done, _) if operation.verb == Verb::Set => Some(true),
            Reply::Done(Done::Deleted | Done::Done | Done::NotFound, _)
                if operation.verb == Verb::Delete =>
            {
                Some(true)
            }
            Reply::Done(Done::NotStored, _) if operation.verb == Verb::Set => {
                self.outcome.fault = Some(Fault::said(b"not stored"));
                Some(true)
            }
            Reply::Error(_, words, _) => {
                self.outcome.fault = Some(Fault::said(words));
                self.answered_keys += 1;
                Some(!self.meta || !get || self.answered_keys == count)
            }
            _ => None,
        }
    }
}

/// Index of `key` among those of the request, from `from` on: values come in the order of the keys.
fn place(operation: &Operation, from: usize, key: &[u8]) -> Option<usize> {
    (from..1 + operation.more.len()).find(|place| key_at(operation, *place) == key)
}

fn key_at(operation: &Operation, place: usize) -> &[u8] {
    if place == 0 { &operation.key } else { &operation.more[place - 1] }
}

#[cold]
fn reason(broken: Broken) -> String {
    broken.to_string()
}
