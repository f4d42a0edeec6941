//! Operations as requests, and replies as answers, in each protocol.
//!
//! One key is asked for by `mg` where the server has it: its answer is the shortest. Several keys are asked for by one `get`,
//! which every server takes with the least work on both sides. Quiet requests are those the server answers only if they fail.

use bytes::Bytes;
use larder_proto::memcache::{
    binary as bin,
    client::{CRLF, Done, Fault, KeyError, Reply, binary, meta, text},
    text as txt,
};

use super::out::Out;
use crate::{
    Error, Item, Stored,
    op::{Answer, Keys, Mode, Op},
};

/// Most figures of one answer to `stats`; more are none of a memcached.
const FIGURES: usize = 100_000;
/// Most bytes of one answer to `stats`.
const FIGURES_BYTES: usize = 16 << 20;
/// Most bytes of the values of one answer to several keys, where the client's own limit for a value times the keys is not more.
const ANSWER_BYTES: usize = 128 << 20;

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Text,
    Meta,
    Binary,
}

/// What a request waits for.
#[derive(Debug)]
pub(super) enum Want {
    /// A value for each key that is found, and the end. The key a value has says which it is; servers keep the order.
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
    /// The no-op behind `count` quiet requests; those that failed say so before it.
    Run {
        count: u64,
        failed: u64,
    },
}

/// What a reply was to a request.
#[derive(Debug)]
pub(super) enum Step {
    /// A value, for this item: it is put there by who has the bytes.
    Value(usize, Found),
    /// More replies belong to it.
    More,
    /// The last.
    End(Result<Answer, Error>),
    /// It does not belong to the request: nothing on the connection can be trusted.
    Astray(String),
}

/// What there is of an item beside its bytes.
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

/// Puts the request into what is to be sent. On error nothing is. `quiet`: of meta writes, see [`Want::Run`]; the others are
/// answered all the same. `max_item`: bytes of the largest value this client stores.
pub(super) fn encode(
    dialect: Dialect,
    quiet: bool,
    op: Op,
    max_item: usize,
    out: &mut Out,
) -> Result<Want, KeyError> {
    let back = meta::Back { quiet, ..meta::Back::default() };
    match op {
        Op::Get { keys, cas } => {
            let room = ANSWER_BYTES.max(max_item.saturating_mul(keys.len()));
            get(dialect, keys, cas, None, room, out)
        }
        Op::GetTouch { key, expiry } => get(dialect, Keys::one(key), false, Some(expiry), usize::MAX, out),
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
            Ok(Want::Stored { mode, cas: cas.is_some() })
        }
        Op::Delete { key } => {
            match dialect {
                Dialect::Text => text::delete(&txt::Delete { key: &key, noreply: false }, out.head())?,
                Dialect::Meta => {
                    meta::delete(&meta::Delete { key: &key, back, ..Default::default() }, out.head())?
                }
                Dialect::Binary => {
                    let delete = bin::delete::Delete { key: &key, quiet: false };
                    binary::delete(&delete, binary::Tag::default(), out.head())?;
                }
            }
            Ok(Want::Found)
        }
        Op::Count { key, up, by } => count(dialect, &key, !up, by, out),
        Op::Touch { key, expiry } => touch(dialect, back, &key, expiry, out),
        Op::Stats { of } => {
            let of = of.unwrap_or_default();
            match dialect {
                Dialect::Binary => binary::stats(&of, 0, out.head())?,
                _ => text::stats(&of, out.head())?,
            }
            Ok(Want::Pairs { pairs: Vec::new(), bytes: 0 })
        }
        Op::Flush { delay } => {
            match dialect {
                Dialect::Binary => {
                    binary::flush(&bin::flush::Flush { exptime: delay, quiet: false }, 0, out.head());
                }
                _ => text::flush(&txt::Flush { delay: signed(delay), noreply: false }, out.head()),
            }
            Ok(Want::Found)
        }
        Op::Version => {
            match dialect {
                Dialect::Binary => binary::version(0, out.head()),
                _ => text::version(out.head()),
            }
            Ok(Want::Version)
        }
    }
}

fn get(
    dialect: Dialect,
    keys: Keys,
    cas: bool,
    touch: Option<u32>,
    room: usize,
    out: &mut Out,
) -> Result<Want, KeyError> {
    let items = vec![None; keys.len()];
    match dialect {
        Dialect::Meta if keys.len() == 1 => {
            let mut get = meta::Get { key: keys.get(0), value: true, flags: true, ..Default::default() };
            get.ttl = touch.map(signed);
            get.back.cas = cas;
            meta::get(&get, out.head())?;
        }
        Dialect::Text | Dialect::Meta => {
            text::get(keys.iter(), cas, touch.map(signed), out.head())?;
            return Ok(Want::Until { keys, items, from: 0, room });
        }
        Dialect::Binary => {
            for key in keys.iter() {
                let get = bin::get::Get { key, touch, value: true, with_key: false, quiet: false };
                binary::get(&get, binary::Tag::default(), out.head())?;
            }
        }
    }
    Ok(Want::Each { left: items.len(), items, error: None })
}

fn put(
    dialect: Dialect,
    back: meta::Back,
    store: &txt::Store<'_>,
    value: Bytes,
    out: &mut Out,
) -> Result<(), KeyError> {
    let &txt::Store { mode, key, flags, exptime, len, cas, .. } = store;
    match dialect {
        Dialect::Text => text::store(store, out.head())?,
        Dialect::Meta => {
            let set =
                meta::Set { key, len, mode, flags, ttl: exptime, compare: cas, back, ..Default::default() };
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

fn count(dialect: Dialect, key: &[u8], down: bool, by: u64, out: &mut Out) -> Result<Want, KeyError> {
    match dialect {
        Dialect::Text => text::count(&txt::Count { key, delta: by, down, noreply: false }, out.head())?,
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
    Ok(Want::Number)
}

fn touch(
    dialect: Dialect,
    back: meta::Back,
    key: &[u8],
    expiry: u32,
    out: &mut Out,
) -> Result<Want, KeyError> {
    match dialect {
        Dialect::Text => {
            text::touch(&txt::Touch { key, exptime: signed(expiry), noreply: false }, out.head())?;
        }
        Dialect::Meta => {
            let touch = meta::Get { key, ttl: Some(signed(expiry)), back, ..Default::default() };
            meta::get(&touch, out.head())?;
        }
        Dialect::Binary => {
            let get = bin::get::Get { key, touch: Some(expiry), value: false, with_key: false, quiet: false };
            binary::get(&get, binary::Tag::default(), out.head())?;
        }
    }
    Ok(Want::Found)
}

/// The server's words for an error, at most so many characters of them.
const WORDS: usize = 200;

pub(super) fn words(bytes: &[u8]) -> String {
    // A control character could do something to the terminal it is shown on.
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(bytes).chars().take(WORDS).map(shown).collect()
}

pub(super) fn fault(fault: Fault, said: &[u8]) -> Error {
    let said = words(said);
    match fault {
        Fault::Server => Error::Server(said),
        Fault::Auth => Error::Auth(said),
        // What `-Y` says to whoever has not said who it is.
        Fault::Client if said.contains("unauthenticated") => Error::Auth(said),
        Fault::Client => Error::Refused(said),
        Fault::Command if said.is_empty() => Error::Refused("no such command".to_owned()),
        Fault::Command => Error::Refused(said),
    }
}

impl Want {
    /// Takes one reply, of which `buffer` is the bytes.
    pub(super) fn take(&mut self, reply: Reply<'_>, buffer: &[u8]) -> Step {
        match (self, reply) {
            (Want::Each { left, error, .. }, Reply::Error(by, said, _)) => {
                *left -= 1;
                let error = error.get_or_insert_with(|| fault(by, said));
                if *left == 0 { Step::End(Err(error.clone())) } else { Step::More }
            }
            (Want::Run { failed, .. }, Reply::Error(by, said, _)) => match fault(by, said) {
                // It may take a value for requests from here on.
                refused @ Error::Refused(_) => Step::End(Err(refused)),
                _ => {
                    *failed += 1;
                    Step::More
                }
            },
            (Want::Run { .. }, Reply::Done(..)) => Step::More,
            (Want::Run { failed, .. }, Reply::Noop(_)) => Step::End(Ok(Answer::Run { failed: *failed })),
            (_, Reply::Error(by, said, _)) => Step::End(Err(fault(by, said))),
            (Want::Until { keys, items, from, room }, Reply::Value(value)) => {
                let matches = |at: &usize| items[*at].is_none() && keys.get(*at) == value.key;
                let Some(at) = (*from..keys.len()).find(matches).or_else(|| (0..*from).find(matches)) else {
                    return Step::Astray("a value of a key that was not asked for".to_owned());
                };
                let Some(left) = room.checked_sub(value.at.len()) else {
                    return Step::Astray("an answer of too many bytes".to_owned());
                };
                (*from, *room) = (at + 1, left);
                Step::Value(at, Found { flags: value.flags, cas: value.cas, at: value.at })
            }
            (Want::Until { items, .. }, Reply::End) => Step::End(Ok(Answer::Items(std::mem::take(items)))),
            (Want::Each { items, left, .. }, Reply::Value(value)) => {
                let at = items.len() - *left;
                let cas = value.cas.or_else(|| value.extra.cas());
                Step::Value(at, Found { flags: value.flags, cas, at: value.at })
            }
            (want @ Want::Each { .. }, Reply::Done(Done::NotFound, _)) => want.passed(),
            (Want::Stored { mode, cas }, Reply::Done(done, _)) => stored(*mode, *cas, done),
            (Want::Found, Reply::Done(done, _)) => match done {
                Done::Done | Done::Deleted | Done::Touched | Done::Ok => Step::End(Ok(Answer::Found(true))),
                Done::NotFound => Step::End(Ok(Answer::Found(false))),
                other => Step::Astray(format!("{other:?}")),
            },
            (Want::Number, Reply::Number(number, _)) => Step::End(Ok(Answer::Number(Some(number)))),
            (Want::Number, Reply::Done(Done::NotFound, _)) => Step::End(Ok(Answer::Number(None))),
            (Want::Number, Reply::Value(value)) => {
                let digits = buffer.get(value.at).and_then(|digits| std::str::from_utf8(digits).ok());
                match digits.and_then(|digits| digits.trim_ascii_end().parse().ok()) {
                    Some(number) => Step::End(Ok(Answer::Number(Some(number)))),
                    None => Step::Astray("a counter that is no number".to_owned()),
                }
            }
            (Want::Pairs { pairs, bytes }, Reply::Stat { name, value }) => {
                *bytes += name.len() + value.len();
                if pairs.len() == FIGURES || *bytes > FIGURES_BYTES {
                    return Step::Astray("too many figures".to_owned());
                }
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                pairs.push((text(name), text(value)));
                Step::More
            }
            (Want::Pairs { pairs, .. }, Reply::End | Reply::Done(Done::Reset | Done::Ok, _)) => {
                Step::End(Ok(Answer::Pairs(std::mem::take(pairs))))
            }
            (Want::Version, Reply::Version(version)) => Step::End(Ok(Answer::Version(words(version)))),
            (_, other) => Step::Astray(words(format!("{other:?}").as_bytes())),
        }
    }

    /// How many values may still come, the next among them.
    pub(super) fn open(&self) -> usize {
        match self {
            Want::Until { items, from, .. } => items.len() - *from + 1,
            _ => 1,
        }
    }

    /// The item a [`Step::Value`] was for.
    pub(super) fn put(&mut self, at: usize, item: Item) -> Step {
        match self {
            Want::Until { items, .. } => {
                items[at] = Some(item);
                Step::More
            }
            want => {
                if let Want::Each { items, .. } = want {
                    items[at] = Some(item);
                }
                want.passed()
            }
        }
    }

    fn passed(&mut self) -> Step {
        let Want::Each { items, left, error } = self else { return Step::More };
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

fn stored(mode: Mode, cas: bool, done: Done) -> Step {
    let stored = match done {
        Done::Done | Done::Stored => Stored::Stored,
        Done::NotStored => Stored::NotStored,
        Done::Exists if cas => Stored::Exists,
        Done::NotFound if cas => Stored::NotFound,
        // The binary protocol says why.
        Done::Exists | Done::NotFound if mode != Mode::Set => Stored::NotStored,
        other => return Step::Astray(format!("{other:?}")),
    };
    Step::End(Ok(Answer::Stored(stored)))
}
