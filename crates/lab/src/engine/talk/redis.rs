//! Redis: GET, MGET, SET and DEL in RESP2.

use larder_proto::resp::{
    client::{Got, Received, receive},
    number,
};

use super::{MAX_VALUE, Outcome, Speech, Step};
use crate::{
    engine::tally::Fault,
    load::{Ask, Verb, value},
};

/// Appends a command.
pub(super) fn write(ask: &Ask, out: &mut Vec<u8>) -> bool {
    match ask.verb {
        Verb::Get | Verb::Head if ask.more.is_empty() => {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
            bulk(&ask.key, out);
        }
        Verb::Get | Verb::Head => {
            head(b'*', 2 + ask.more.len(), out);
            out.extend_from_slice(b"$4\r\nMGET\r\n");
            bulk(&ask.key, out);
            for key in &ask.more {
                bulk(key, out);
            }
        }
        Verb::Delete => {
            out.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n");
            bulk(&ask.key, out);
        }
        Verb::Set => {
            out.extend_from_slice(if ask.ttl == 0 { b"*3\r\n$3\r\nSET\r\n" } else { b"*5\r\n$3\r\nSET\r\n" });
            bulk(&ask.key, out);
            head(b'$', ask.size, out);
            value::fill(&ask.key, ask.size, out);
            out.extend_from_slice(b"\r\n");
            if ask.ttl != 0 {
                out.extend_from_slice(b"$2\r\nEX\r\n");
                bulk(number::Text::default().u64(u64::from(ask.ttl)), out);
            }
        }
    }
    true
}

fn head(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    number::push_u64(out, count as u64);
    out.extend_from_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    head(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Where in an answer a connection is.
#[derive(Default)]
pub(in crate::engine) struct Redis {
    /// Within the answer to an MGET: keys that have been told of.
    told: Option<usize>,
    outcome: Outcome,
}

impl Redis {
    #[inline]
    pub(super) fn take(&mut self, ask: &Ask, bytes: &[u8], speech: &Speech<'_>) -> Step {
        let mut at = 0;
        loop {
            match receive(&bytes[at..], MAX_VALUE) {
                Received::Incomplete { need } if at == 0 => return Step::Need(need),
                Received::Incomplete { .. } => return Step::Part(at),
                Received::Broken(broken) => return Step::Broken(broken.to_string()),
                Received::Reply(got, used) => {
                    at += used;
                    match self.reply(ask, got, speech) {
                        Some(false) => {}
                        Some(true) => {
                            self.told = None;
                            return Step::Over {
                                used: at,
                                outcome: std::mem::take(&mut self.outcome),
                                keep: true,
                            };
                        }
                        None => return Step::Broken("an answer to another command".to_owned()),
                    }
                }
            }
        }
    }

    /// True: the request is answered. None: that is no answer to it.
    #[inline]
    fn reply(&mut self, ask: &Ask, got: Got<'_>, speech: &Speech<'_>) -> Option<bool> {
        match (ask.verb, got) {
            (_, Got::Error(text)) => {
                self.outcome.fault = Some(Fault::said(text));
                self.told.is_none().then_some(true)
            }
            (Verb::Get | Verb::Head, Got::Bulk(_) | Got::Null) => self.value(ask, got, speech),
            (Verb::Get | Verb::Head, Got::Array(count)) => {
                let expected = !ask.more.is_empty() && self.told.is_none() && count == ask.more.len() + 1;
                expected.then(|| {
                    self.told = Some(0);
                    false
                })
            }
            (Verb::Set, Got::Status(b"OK")) | (Verb::Delete, Got::Integer(_)) => Some(true),
            _ => None,
        }
    }

    #[inline]
    fn value(&mut self, ask: &Ask, got: Got<'_>, speech: &Speech<'_>) -> Option<bool> {
        let place = match self.told {
            None if !ask.more.is_empty() => return None,
            told => told.unwrap_or(0),
        };
        let key = if place == 0 { &ask.key } else { ask.more.get(place - 1)? };
        if let Got::Bulk(bytes) = got {
            self.outcome.hits += 1;
            self.outcome.wrong |= !speech.is_value(key, bytes);
        } else {
            self.outcome.misses += 1;
        }
        self.told = self.told.map(|told| told + 1);
        Some(self.told.is_none_or(|told| told == ask.more.len() + 1))
    }
}
