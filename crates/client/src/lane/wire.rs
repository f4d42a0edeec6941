//! Encoding of operations and decoding of replies, in each protocol.
//!
//! One key is requested with `mg` if the server supports it: its answer is shortest. Several keys
//! are requested with one `get`, which every server handles with the least work on both sides.
//! Quiet requests are answered only if they fail.

use bytes::Bytes;
use larder_proto::memcache::{
    binary as bin,
    client::{CRLF, Done, Fault, KeyError, Reply, binary, meta, text},
    text as txt,
};

use super::send::SendBuffer;
use crate::{
    Error, Item, Stored,
    op::{Answer, Keys, Mode, Op},
};

/// Most entries accepted in one answer to `stats`; memcached has fewer.
const FIGURES: usize = 100_000;
/// Most bytes accepted in one answer to `stats`.
const FIGURES_BYTES: usize = 16 << 20;
/// Limit for the values of one multi-key answer, in bytes, unless the client's value limit times
/// the number of keys is lower.
const ANSWER_BYTES: usize = 128 << 20;

/// Protocol spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Text,
    Meta,
    Binary,
}

/// The replies a request still needs.
#[derive(Debug)]
pub(super) enum ReplyState {
    /// A value for each key found, then an end marker. The key in a reply tells which one it is;
    /// servers keep the order.
    Until {
        keys: Keys,
        items: Vec<Option<Item>>,
        from: usize,
        /// Bytes of values that may still come.
        room: usize,
    },
    /// A value or a miss for each key.
    Each {
        items: Vec<Option<Item>>,
        left: usize,
        error: Option<Error>,
    },
    Stored {
        mode: Mode,
        cas: bool,
    },
    Found,
    Number,
    Pairs {
        pairs: Vec<(String, String)>,
        bytes: usize,
    },
    Version,
    /// The no-op after `count` quiet requests; failures are answered before it.
    QuietRun {
        count: u64,
        failed: u64,
    },
}

/// How a reply continues a request.
#[derive(Debug)]
pub(super) enum Step {
    /// A value for the item of this index; the caller has the bytes and puts it there.
    Value(usize, Found),
    /// More replies belong to the request.
    More,
    /// The last reply.
    End(Result<Answer, Error>),
    /// It does not match the request: the connection cannot be used further.
    Mismatch(String),
}

/// Metadata of a found item.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) flags: u32,
    pub(super) cas: Option<u64>,
    pub(super) at: std::ops::Range<usize>,
}

fn mode(mode: Mode) -> txt::Mode {
    match mode {
        Mode::Set => txt::Mode::Set,
        Mode::Add => txt::Mode::Add,
        Mode::Replace => txt::Mode::Replace,
        Mode::Append => txt::Mode::Append,
        Mode::Prepend => txt::Mode::Prepend,
    }
}

/// Expiries are below 2^31 by now.
fn signed(expiry: u32) -> i32 {
    i32::try_from(expiry).unwrap_or(i32::MAX)
}

/// Appends the request to the send buffer; nothing on error. `quiet`: for meta writes, see
/// [`ReplyState::QuietRun`]; other requests are answered anyway. `max_item`: largest value this
/// client stores, in bytes.
pub(super) fn encode(
    dialect: Dialect,
    quiet: bool,
    op: Op,
    max_item: usize,
    out: &mut SendBuffer,
) -> Result<ReplyState, KeyError> {
    let back = meta::Back { quiet, ..meta::Back::default() };
    match op {
        Op::Get { keys, cas } => {
            let room = ANSWER_BYTES.max(max_item.saturating_mul(keys.len()));
            get(dialect, keys, cas, None, room, out)
        }
        Op::GetTouch { key, expiry } => {
            get(dialect, Keys::one(key), false, Some(expiry), usize::MAX, out)
        }
        Op::Store { mode, key, value, flags, expiry, cas } => {
            let store = txt::Store {
                mode: self::mode(mode),
                key: &key,
                flags,
                exptime: signed(expiry),
                len: u32::try_from(value.len()).unwrap_or(u32::MAX),
                cas,
                noreply: false,
            };
            put(dialect, back, &store, value, out)?;
            Ok(ReplyState::Stored { mode, cas: cas.is_some() })
        }
        Op::Delete { key } => {
            match dialect {
                Dialect::Text => {
                    text::delete(&txt::Delete { key: &key, noreply: false }, out.head())?
                }
                Dialect::Meta => meta::delete(
                    &meta::Delete { key: &key, back, ..Default::default() },
                    out.head(),
                )?,
                Dialect::Binary => {
                    let delete = bin::delete::Delete { key: &key, quiet: false };
                    binary::delete(&delete, binary::Tag::default(), out.head())?;
                }
            }
            Ok(ReplyState::Found)
        }
        Op::Count { key, up, by } => count(dialect, &key, !up, by, out),
        Op::Touch { key, expiry } => touch(dialect, back, &key, expiry, out),
        Op::Stats { of } => {
            let of = of.unwrap_or_default();
            match dialect {
                Dialect::Binary => binary::stats(&of, 0, out.head())?,
                _ => text::stats(&of, out.head())?,
            }
            Ok(ReplyState::Pairs { pairs: Vec::new(), bytes: 0 })
        }
        Op::Flush { delay } => {
            match dialect {
                Dialect::Binary => {
                    binary::flush(
                        &bin::flush::Flush { exptime: delay, quiet: false },
                        0,
                        out.head(),
                    );
                }
                _ => text::flush(&txt::Flush { delay: signed(delay), noreply: false }, out.head()),
            }
            Ok(ReplyState::Found)
        }
        Op::Version => {
            match dialect {
                Dialect::Binary => binary::version(0, out.head()),
                _ => text::version(out.head()),
            }
            Ok(ReplyState::Version)
        }
    }
}

fn get(
    dialect: Dialect,
    keys: Keys,
    cas: bool,
    touch: Option<u32>,
    room: usize,
    out: &mut SendBuffer,
) -> Result<ReplyState, KeyError> {
    let items = vec![None; keys.len()];
    match dialect {
        Dialect::Meta if keys.len() == 1 => {
            let mut get =
                meta::Get { key: keys.get(0), value: true, flags: true, ..Default::default() };
            get.ttl = touch.map(signed);
            get.back.cas = cas;
            meta::get(&get, out.head())?;
        }
        Dialect::Text | Dialect::Meta => {
            text::get(keys.iter(), cas, touch.map(signed), out.head())?;
            return Ok(ReplyState::Until { keys, items, from: 0, room });
        }
        Dialect::Binary => {
            for key in keys.iter() {
                let get = bin::get::Get { key, touch, value: true, with_key: false, quiet: false };
                binary::get(&get, binary::Tag::default(), out.head())?;
            }
        }
    }
    Ok(ReplyState::Each { left: items.len(), items, error: None })
}

fn put(
    dialect: Dialect,
    back: meta::Back,
    store: &txt::Store<'_>,
    value: Bytes,
    out: &mut SendBuffer,
) -> Result<(), KeyError> {
    let &txt::Store { mode, key, flags, exptime, len, cas, .. } = store;
    match dialect {
        Dialect::Text => text::store(store, out.head())?,
        Dialect::Meta => {
            let set = meta::Set {
                key,
                len,
                mode,
                flags,
                ttl: exptime,
                compare: cas,
                back,
                ..Default::default()
            };
            meta::set(&set, out.head())?;
        }
        Dialect::Binary => {
            let exptime = u32::try_from(exptime).unwrap_or_default();
            let store = bin::store::Store { mode, key, flags, exptime, len, quiet: false };
            binary::store(&store, binary::Tag { opaque: 0, cas }, out.head())?;
        }
    }
    out.value(value);
    if dialect != Dialect::Binary {
        out.head().extend_from_slice(CRLF);
    }
    Ok(())
}

fn count(
    dialect: Dialect,
    key: &[u8],
    down: bool,
    by: u64,
    out: &mut SendBuffer,
) -> Result<ReplyState, KeyError> {
    match dialect {
        Dialect::Text => {
            text::count(&txt::Count { key, delta: by, down, noreply: false }, out.head())?
        }
        Dialect::Meta => {
            meta::count(
                &meta::Count { key, delta: by, down, value: true, ..Default::default() },
                out.head(),
            )?;
        }
        Dialect::Binary => {
            let count = bin::count::Count { key, delta: by, down, initial: None, quiet: false };
            binary::count(&count, binary::Tag::default(), out.head())?;
        }
    }
    Ok(ReplyState::Number)
}

fn touch(
    dialect: Dialect,
    back: meta::Back,
    key: &[u8],
    expiry: u32,
    out: &mut SendBuffer,
) -> Result<ReplyState, KeyError> {
    match dialect {
        Dialect::Text => {
            text::touch(&txt::Touch { key, exptime: signed(expiry), noreply: false }, out.head())?;
        }
        Dialect::Meta => {
            let touch = meta::Get { key, ttl: Some(signed(expiry)), back, ..Default::default() };
            meta::get(&touch, out.head())?;
        }
        Dialect::Binary => {
            let get = bin::get::Get {
                key,
                touch: Some(expiry),
                value: false,
                with_key: false,
                quiet: false,
            };
            binary::get(&get, binary::Tag::default(), out.head())?;
        }
    }
    Ok(ReplyState::Found)
}

/// Most characters kept of a server's error message.
const WORDS: usize = 200;

pub(super) fn words(bytes: &[u8]) -> String {
    // Control characters could affect the terminal that shows the message.
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(bytes).chars().take(WORDS).map(shown).collect()
}

pub(super) fn fault(fault: Fault, reply_text: &[u8]) -> Error {
    let reply_text = words(reply_text);
    match fault {
        Fault::Server => Error::Server(reply_text),
        Fault::Auth => Error::Auth(reply_text),
        // Reply of a server started with `-Y` to a client without credentials.
        Fault::Client if reply_text.contains("unauthenticated") => Error::Auth(reply_text),
        Fault::Client => Error::Refused(reply_text),
        Fault::Command if reply_text.is_empty() => Error::Refused("no such command".to_owned()),
        Fault::Command => Error::Refused(reply_text),
    }
}

impl ReplyState {
    /// Handles one reply, whose bytes are in `buffer`.
    pub(super) fn take(&mut self, reply: Reply<'_>, buffer: &[u8]) -> Step {
        match (self, reply) {
            (ReplyState::Each { left, error, .. }, Reply::Error(by, reply_text, _)) => {
                *left -= 1;
                let error = error.get_or_insert_with(|| fault(by, reply_text));
                if *left == 0 { Step::End(Err(error.clone())) } else { Step::More }
            }
            (ReplyState::QuietRun { failed, .. }, Reply::Error(by, reply_text, _)) => {
                match fault(by, reply_text) {
                    // The server may parse a value as requests from here on.
                    refused @ Error::Refused(_) => Step::End(Err(refused)),
                    _ => {
                        *failed += 1;
                        Step::More
                    }
                }
            }
            (ReplyState::QuietRun { .. }, Reply::Done(..)) => Step::More,
            (ReplyState::QuietRun { failed, .. }, Reply::Noop(_)) => {
                Step::End(Ok(Answer::QuietRun { failed: *failed }))
            }
            (_, Reply::Error(by, reply_text, _)) => Step::End(Err(fault(by, reply_text))),
            (ReplyState::Until { keys, items, from, room }, Reply::Value(value)) => {
                let matches = |at: &usize| items[*at].is_none() && keys.get(*at) == value.key;
                let Some(at) =
                    (*from..keys.len()).find(matches).or_else(|| (0..*from).find(matches))
                else {
                    return Step::Mismatch("a value of a key that was not asked for".to_owned());
                };
                let Some(left) = room.checked_sub(value.at.len()) else {
                    return Step::Mismatch("an answer of too many bytes".to_owned());
                };
                (*from, *room) = (at + 1, left);
                Step::Value(at, Found { flags: value.flags, cas: value.cas, at: value.at })
            }
            (ReplyState::Until { items, .. }, Reply::End) => {
                Step::End(Ok(Answer::Items(std::mem::take(items))))
            }
            (ReplyState::Each { items, left, .. }, Reply::Value(value)) => {
                let at = items.len() - *left;
                let cas = value.cas.or_else(|| value.extra.cas());
                Step::Value(at, Found { flags: value.flags, cas, at: value.at })
            }
            (want @ ReplyState::Each { .. }, Reply::Done(Done::NotFound, _)) => want.passed(),
            (ReplyState::Stored { mode, cas }, Reply::Done(done, _)) => stored(*mode, *cas, done),
            (ReplyState::Found, Reply::Done(done, _)) => match done {
                Done::Done | Done::Deleted | Done::Touched | Done::Ok => {
                    Step::End(Ok(Answer::Found(true)))
                }
                Done::NotFound => Step::End(Ok(Answer::Found(false))),
                other => Step::Mismatch(format!("{other:?}")),
            },
            (ReplyState::Number, Reply::Number(number, _)) => {
                Step::End(Ok(Answer::Number(Some(number))))
            }
            (ReplyState::Number, Reply::Done(Done::NotFound, _)) => {
                Step::End(Ok(Answer::Number(None)))
            }
            (ReplyState::Number, Reply::Value(value)) => counter(buffer.get(value.at)),
            (ReplyState::Pairs { pairs, bytes }, Reply::Stat { name, value }) => {
                *bytes += name.len() + value.len();
                if pairs.len() == FIGURES || *bytes > FIGURES_BYTES {
                    return Step::Mismatch("too many figures".to_owned());
                }
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                pairs.push((text(name), text(value)));
                Step::More
            }
            (
                ReplyState::Pairs { pairs, .. },
                Reply::End | Reply::Done(Done::Reset | Done::Ok, _),
            ) => Step::End(Ok(Answer::Pairs(std::mem::take(pairs)))),
            (ReplyState::Version, Reply::Version(version)) => {
                Step::End(Ok(Answer::Version(words(version))))
            }
            (_, other) => Step::Mismatch(words(format!("{other:?}").as_bytes())),
        }
    }

    /// How many values may still come, including the next.
    pub(super) fn open(&self) -> usize {
        match self {
            ReplyState::Until { items, from, .. } => items.len() - *from + 1,
            _ => 1,
        }
    }

    /// Sets the item that a [`Step::Value`] announced.
    pub(super) fn put(&mut self, at: usize, item: Item) -> Step {
        match self {
            ReplyState::Until { items, .. } => {
                items[at] = Some(item);
                Step::More
            }
            want => {
                if let ReplyState::Each { items, .. } = want {
                    items[at] = Some(item);
                }
                want.passed()
            }
        }
    }

    fn passed(&mut self) -> Step {
        let ReplyState::Each { items, left, error } = self else { return Step::More };
        *left -= 1;
        match (*left, error.take()) {
            (0, None) => Step::End(Ok(Answer::Items(std::mem::take(items)))),
            (0, Some(error)) => Step::End(Err(error)),
            (_, was) => {
                *error = was;
                Step::More
            }
        }
    }
}

/// The number in the value of a counter.
fn counter(digits: Option<&[u8]>) -> Step {
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.and_then(|digits| digits.trim_ascii_end().parse().ok()) {
        Some(number) => Step::End(Ok(Answer::Number(Some(number)))),
        None => Step::Mismatch("a counter that is no number".to_owned()),
    }
}

fn stored(mode: Mode, cas: bool, done: Done) -> Step {
    let stored = match done {
        Done::Done | Done::Stored => Stored::Stored,
        Done::NotStored => Stored::NotStored,
        Done::Exists if cas => Stored::Exists,
        Done::NotFound if cas => Stored::NotFound,
        // The binary protocol gives the reason.
        Done::Exists | Done::NotFound if mode != Mode::Set => Stored::NotStored,
        other => return Step::Mismatch(format!("{other:?}")),
    };
    Step::End(Ok(Answer::Stored(stored)))
}
