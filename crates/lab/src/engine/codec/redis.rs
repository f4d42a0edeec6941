//! Redis: GET, MGET, SET and DEL in RESP2.

use larder_proto::resp::{
    client::{Got, Received, receive},
    number,
};

use super::{Codec, MAX_VALUE, Outcome, Step};
use crate::{
    engine::tally::Fault,
    load::{Operation, Verb, value},
};

/// Appends a command.
pub(super) fn write(operation: &Operation, out: &mut Vec<u8>) -> bool {
    match operation.verb {
        Verb::Get | Verb::Head if operation.more.is_empty() => {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
            bulk(&operation.key, out);
        }
        Verb::Get | Verb::Head => {
            head(b'*', 2 + operation.more.len(), out);
            out.extend_from_slice(b"$4\r\nMGET\r\n");
            bulk(&operation.key, out);
            for key in &operation.more {
                bulk(key, out);
            }
        }
        Verb::Delete => {
            out.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n");
            bulk(&operation.key, out);
        }
        Verb::Set => {
            out.extend_from_slice(if operation.ttl == 0 {
                b"*3\r\n$3\r\nSET\r\n"
            } else {
                b"*5\r\n$3\r\nSET\r\n"
            });
            bulk(&operation.key, out);
            head(b'$', operation.size, out);
            value::fill(&operation.key, operation.size, out);
            out.extend_from_slice(b"\r\n");
            if operation.ttl != 0 {
                out.extend_from_slice(b"$2\r\nEX\r\n");
                bulk(number::Text::default().u64(u64::from(operation.ttl)), out);
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

/// Decoder of the answers on a connection.
#[derive(Default)]
pub(in crate::engine) struct Redis {
    /// Within the answer to an MGET: number of keys answered.
    answered_keys: Option<usize>,
    outcome: Outcome,
}

impl Redis {
    #[inline]
    pub(super) fn take(&mut self, operation: &Operation, bytes: &[u8], codec: &Codec<'_>) -> Step {
        let mut at = 0;
        loop {
            match receive(&bytes[at..], MAX_VALUE) {
                Received::Incomplete { need } if at == 0 => return Step::Need(need),
                Received::Incomplete { .. } => return Step::Part(at),
                Received::Broken(broken) => return Step::Broken(broken.to_string()),
                Received::Reply(got, used) => {
                    at += used;
                    match self.reply(operation, got, codec) {
                        Some(false) => {}
                        Some(true) => {
                            self.answered_keys = None;
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

    /// True: the request is complete. `None`: the reply does not belong to it.
    #[inline]
    fn reply(&mut self, operation: &Operation, got: Got<'_>, codec: &Codec<'_>) -> Option<bool> {
        match (operation.verb, got) {
            (_, Got::Error(text)) => {
                self.outcome.fault = Some(Fault::said(text));
                self.answered_keys.is_none().then_some(true)
            }
            (Verb::Get | Verb::Head, Got::Bulk(_) | Got::Null) => self.value(operation, got, codec),
            (Verb::Get | Verb::Head, Got::Array(count)) => {
                let expected = !operation.more.is_empty()
                    && self.answered_keys.is_none()
                    && count == operation.more.len() + 1;
                expected.then(|| {
                    self.answered_keys = Some(0);
                    false
                })
            }
            (Verb::Set, Got::Status(b"OK")) | (Verb::Delete, Got::Integer(_)) => Some(true),
            _ => None,
        }
    }

    #[inline]
    fn value(&mut self, operation: &Operation, got: Got<'_>, codec: &Codec<'_>) -> Option<bool> {
        let place = match self.answered_keys {
            None if !operation.more.is_empty() => return None,
            answered_keys => answered_keys.unwrap_or(0),
        };
        let key = if place == 0 { &operation.key } else { operation.more.get(place - 1)? };
        if let Got::Bulk(bytes) = got {
            self.outcome.hits += 1;
            self.outcome.wrong |= !codec.is_value(key, bytes);
        } else {
            self.outcome.misses += 1;
        }
        self.answered_keys = self.answered_keys.map(|answered_keys| answered_keys + 1);
        Some(
            self.answered_keys
                .is_none_or(|answered_keys| answered_keys == operation.more.len() + 1),
        )
    }
}
