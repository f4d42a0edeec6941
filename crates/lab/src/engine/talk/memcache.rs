//! memcached: text and meta commands.

use larder_proto::memcache::{
    client::{self, Broken, Decoded, Done, Replies, Reply, meta, text},
    text::{Delete, Mode, Store},
};

use super::{MAX_VALUE, Outcome, Speech, Step};
use crate::{
    engine::tally::Fault,
    load::{Ask, Verb, value},
};

/// Seconds, as the protocol has them.
fn seconds(ttl: u32) -> i32 {
    i32::try_from(ttl).unwrap_or(i32::MAX)
}

fn keys(ask: &Ask) -> impl Iterator<Item = &[u8]> {
    std::iter::once(&ask.key).chain(&ask.more).map(Vec::as_slice)
}

/// Appends a text command.
pub(super) fn text(ask: &Ask, out: &mut Vec<u8>) -> bool {
    match ask.verb {
        Verb::Get | Verb::Head => text::get(keys(ask), false, None, out).is_ok(),
        Verb::Delete => text::delete(&Delete { key: &ask.key, noreply: false }, out).is_ok(),
        Verb::Set => {
            let Ok(len) = u32::try_from(ask.size) else { return false };
            let store = Store {
                mode: Mode::Set,
                key: &ask.key,
                flags: 0,
                exptime: seconds(ask.ttl),
                len,
                cas: None,
                noreply: false,
            };
            text::store(&store, out).is_ok() && content(ask, out)
        }
    }
}

/// Appends meta commands: one for each key.
pub(super) fn meta(ask: &Ask, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let done = match ask.verb {
        Verb::Get | Verb::Head => {
            keys(ask).all(|key| meta::get(&meta::Get { key, value: true, ..Default::default() }, out).is_ok())
        }
        Verb::Delete => meta::delete(&meta::Delete { key: &ask.key, ..Default::default() }, out).is_ok(),
        Verb::Set => {
            let Ok(len) = u32::try_from(ask.size) else { return false };
            let set = meta::Set { key: &ask.key, len, ttl: seconds(ask.ttl), ..Default::default() };
            meta::set(&set, out).is_ok() && content(ask, out)
        }
    };
    if !done {
        out.truncate(start);
    }
    done
}

fn content(ask: &Ask, out: &mut Vec<u8>) -> bool {
    value::fill(&ask.key, ask.size, out);
    out.extend_from_slice(client::CRLF);
    true
}

/// Where in an answer a connection is.
pub(in crate::engine) struct Memcache {
    meta: bool,
    /// Keys of the request that have been told of: by a value, by a miss, or because a later one was.
    told: usize,
    outcome: Outcome,
}

impl Memcache {
    pub(super) fn new(meta: bool) -> Memcache {
        Memcache { meta, told: 0, outcome: Outcome::default() }
    }

    #[inline]
    pub(super) fn take(&mut self, ask: &Ask, bytes: &[u8], speech: &Speech<'_>) -> Step {
        let mut at = 0;
        loop {
            match Replies::new(MAX_VALUE).next(&bytes[at..]) {
                Decoded::Incomplete { need } if at == 0 => return Step::Need(need),
                Decoded::Incomplete { .. } => return Step::Part(at),
                Decoded::Broken(broken) => return Step::Broken(reason(broken)),
                Decoded::Reply(reply, used) => match self.reply(ask, &reply, &bytes[at..], speech) {
                    Some(false) => at += used,
                    Some(true) => return self.over(at + used),
                    None => return Step::Broken("an answer to another command".to_owned()),
                },
            }
        }
    }

    fn over(&mut self, used: usize) -> Step {
        self.told = 0;
        Step::Over { used, outcome: std::mem::take(&mut self.outcome), keep: true }
    }

    /// True: the request is answered. None: that is no answer to it.
    #[inline]
    fn reply(&mut self, ask: &Ask, reply: &Reply<'_>, bytes: &[u8], speech: &Speech<'_>) -> Option<bool> {
        let get = matches!(ask.verb, Verb::Get | Verb::Head);
        let count = 1 + ask.more.len();
        match reply {
            Reply::Value(value) if get => {
                let key = if self.meta { Some(self.told) } else { place(ask, self.told, value.key) };
                let Some(place) = key.filter(|place| *place < count) else {
                    self.outcome.wrong = true;
                    return Some(false);
                };
                self.outcome.misses += (place - self.told) as u32;
                self.outcome.hits += 1;
                self.told = place + 1;
                self.outcome.wrong |= !speech.is_value(key_at(ask, place), &bytes[value.at.clone()]);
                Some(self.meta && self.told == count)
            }
            Reply::End if get && !self.meta => {
                self.outcome.misses += (count - self.told) as u32;
                Some(true)
            }
            Reply::Done(Done::NotFound, _) if get && self.meta => {
                self.told += 1;
                self.outcome.misses += 1;
                Some(self.told == count)
            }
            Reply::Done(Done::Stored | Done::Done, _) if ask.verb == Verb::Set => Some(true),
            Reply::Done(Done::Deleted | Done::Done | Done::NotFound, _) if ask.verb == Verb::Delete => {
                Some(true)
            }
            Reply::Done(Done::NotStored, _) if ask.verb == Verb::Set => {
                self.outcome.fault = Some(Fault::said(b"not stored"));
                Some(true)
            }
            Reply::Error(_, words, _) => {
                self.outcome.fault = Some(Fault::said(words));
                self.told += 1;
                Some(!self.meta || !get || self.told == count)
            }
            _ => None,
        }
    }
}

/// The place of `key` among those of the request, `from` on: values come in the order of keys.
fn place(ask: &Ask, from: usize, key: &[u8]) -> Option<usize> {
    (from..1 + ask.more.len()).find(|place| key_at(ask, *place) == key)
}

fn key_at(ask: &Ask, place: usize) -> &[u8] {
    if place == 0 { &ask.key } else { &ask.more[place - 1] }
}

#[cold]
fn reason(broken: Broken) -> String {
    broken.to_string()
}
