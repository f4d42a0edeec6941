//! Administrative commands: `stats`, `watch`, `lru_crawler`. Also commands that tune machinery
//! Larder does not have (`slabs`, `lru`, `extstore`): they answer as memcached 1.6.18 where a
//! client can tell the difference.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use larder_proto::memcache::text::{Admin, Verb};

use super::{
    super::{Face, crawl::Walk, watch::WatchResult},
    command::{self, decimal},
    lines::Form,
    tunables::Tunables,
};
use crate::{clock::Ms, net::out::Out, object::Client};

/// Continuation of the session after a command.
#[derive(Debug)]
pub(crate) enum Continuation {
    /// With the next command.
    Next,
    /// More of this answer: [`Walk::step`].
    Walk(Walk),
    /// The client is a watcher: its input is discarded, lines come through its mailbox.
    Watch,
}

const OK: &[u8] = b"OK\r\n";
const ERROR: &[u8] = b"ERROR\r\n";
const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
/// Slab classes of memcached: 1 to 63.
const CLASSES: std::ops::Range<u64> = 1..64;
/// Most words parsed of a line: the longest of these commands has six.
const WORDS: usize = 8;

/// Executes the command. Answers unless the client sent `noreply`.
pub(crate) fn admin(
    face: &Face,
    client: &Arc<Client>,
    admin: &Admin<'_>,
    now: Ms,
    out: &mut Out,
) -> Continuation {
    let mut words = [&b""[..]; WORDS];
    let mut count = 0;
    for word in admin.args.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
        if count < WORDS {
            words[count] = word;
            count += 1;
        }
    }
    let words = &words[..count];
    let answer = match admin.verb {
        Verb::Stats => {
            let walk = command::command(face, client, admin.args, Form::Text, now, out);
            return walk.map_or(Continuation::Next, Continuation::Walk);
        }
        Verb::LruCrawler => match crawler(face, words) {
            Ok(walk) => return Continuation::Walk(walk),
            Err(answer) => answer,
        },
        Verb::Watch => match watch(face, client, admin) {
            Ok(()) => {
                out.scratch().extend_from_slice(OK);
                return Continuation::Watch;
            }
            Err(answer) => answer,
        },
        Verb::Slabs => slabs(face, words),
        Verb::Lru => lru(&mut face.shared.stats.tunables.lock(), words),
        Verb::CacheMemlimit => memlimit(face, words),
        Verb::Verbosity => verbosity(face, words),
        Verb::Extstore => extstore(words),
    };
    // These commands count or compare all their words, so `noreply` makes them an unknown command.
    let heeds_noreply = match admin.verb {
        Verb::LruCrawler => false,
        Verb::Slabs => words.first() == Some(&&b"automove"[..]),
        _ => true,
    };
    if !(admin.noreply && heeds_noreply) {
        out.scratch().extend_from_slice(answer);
    }
    Continuation::Next
}

fn watch(face: &Face, client: &Arc<Client>, admin: &Admin<'_>) -> Result<(), &'static [u8]> {
    let settings = face.settings();
    if !settings.watch {
        return Err(b"CLIENT_ERROR watch commands not allowed\r\n");
    }
    match face.shared.stats.watch_log.watch(client, admin.args, settings.watcher_buffer) {
        WatchResult::Begun => {
            // It stays on without watchers: the observer checks whether there are any.
            face.store.observing(true);
            Ok(())
        }
        WatchResult::Unknown => Err(ERROR),
        WatchResult::TooMany => Err(b"WATCHER_TOO_MANY log watcher limit reached\r\n"),
    }
}

/// `lru_crawler ...`: starts a walk or answers.
fn crawler(face: &Face, words: &[&[u8]]) -> Result<Walk, &'static [u8]> {
    let mut tunables = face.shared.stats.tunables.lock();
    match *words {
        [b"metadump", classes] => {
            if !tunables.crawler {
                return Err(b"CLIENT_ERROR lru crawler disabled\r\n");
            }
            drop(tunables);
            dump(face, classes, Walk::metadump)
        }
        [b"mgdump", classes] => {
            if !tunables.crawler {
                return Err(b"CLIENT_ERROR lru crawler disabled\r\n");
            }
            drop(tunables);
            dump(face, classes, Walk::mgdump)
        }
        // The store sweeps expired items continuously: nothing is to be started.
        [b"crawl", _] if !tunables.crawler => Err(b"CLIENT_ERROR lru crawler disabled\r\n"),
        [b"crawl", classes] => Err(if class_list(classes).is_some() { OK } else { BAD_CLASS }),
        [b"sleep", micros] => Err(match number(micros) {
            None => BAD_FORMAT,
            Some(micros) if micros > 1_000_000 => {
                b"CLIENT_ERROR sleep must be one second or less\r\n"
            }
            Some(micros) => {
                tunables.crawler_sleep = micros;
                OK
            }
        }),
        [b"tocrawl", items] => Err(match number(items) {
            None => BAD_FORMAT,
            Some(items) => {
                tunables.crawler_tocrawl = items;
                OK
            }
        }),
        [b"enable"] if tunables.crawler => Err(b"ERROR failed to start lru crawler thread\r\n"),
        [on @ (b"enable" | b"disable")] => {
            tunables.crawler = on == b"enable";
            Err(OK)
        }
        _ => Err(ERROR),
    }
}

fn dump(face: &Face, classes: &[u8], walk: fn() -> Walk) -> Result<Walk, &'static [u8]> {
    if !face.settings().dump {
        return Err(b"ERROR metadump not allowed\r\n");
    }
    let named =
        class_list(classes).or_else(|| (classes == b"hash").then_some(true)).ok_or(BAD_CLASS)?;
    face.shared.stats.walks.fetch_add(1, Relaxed);
    Ok(if named { walk() } else { Walk::nothing() })
}

/// Parses `all` or `<id>[,<id>...]`. Returns whether the class that holds all items is listed;
/// None: the list is invalid.
fn class_list(words: &[u8]) -> Option<bool> {
    if words == b"all" {
        return Some(true);
    }
    let mut named = false;
    for class in words.split(|byte| *byte == b',').filter(|class| !class.is_empty()) {
        let class = decimal(class).filter(|class| CLASSES.contains(class))?;
        named |= class == super::classes::CLASS;
    }
    Some(named)
}

/// Parses a number of 32 bits, as memcached does.
fn number(word: &[u8]) -> Option<u64> {
    decimal(word).filter(|number| *number <= u64::from(u32::MAX))
}

/// `slabs reassign`, `slabs automove`: there are no slabs.
fn slabs(face: &Face, words: &[&[u8]]) -> &'static [u8] {
    match *words {
        [b"reassign", from, to] => match (signed(from), signed(to)) {
            (Some(from), Some(to)) if from == to => b"SAME src and dst class are identical\r\n",
            // Class 0 is memcached's pool of free pages.
            (Some(0..64), Some(0..64)) => b"NOSPARE source class has no spare pages\r\n",
            (Some(_), Some(_)) => b"BADCLASS invalid src or dst class id\r\n",
            _ => BAD_FORMAT,
        },
        [b"automove", b"ratio", ratio, ..] => match fraction(ratio) {
            Some(ratio) => {
                face.shared.stats.tunables.lock().automove_ratio = ratio;
                OK
            }
            None => BAD_FORMAT,
        },
        [b"automove", level, ..] => match number(level) {
            Some(level @ 0..=2) => {
                face.shared.stats.tunables.lock().automove = level;
                OK
            }
            Some(_) => ERROR,
            None => BAD_FORMAT,
        },
        _ => ERROR,
    }
}

fn signed(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn fraction(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok().filter(|value: &f64| value.is_finite())
}

/// `lru mode`, `lru tune`, `lru temp_ttl`: stored without effect.
fn lru(tunables: &mut Tunables, words: &[&[u8]]) -> &'static [u8] {
    match *words {
        [b"mode", mode @ (b"flat" | b"segmented"), ..] => {
            tunables.segmented = mode == b"segmented";
            OK
        }
        [b"tune", hot, warm, hot_age, warm_age, ..] => {
            let percent = number(hot).zip(number(warm));
            let Some((percent, factors)) = percent.zip(fraction(hot_age).zip(fraction(warm_age)))
            else {
                return ERROR;
            };
            if percent.0 + percent.1 > 80 {
                return b"ERROR hot and warm pcts must not exceed 80\r\n";
            }
            if factors.0 <= 0.0 || factors.1 <= 0.0 {
                return b"ERROR hot/warm age factors must be greater than 0\r\n";
            }
            (tunables.percent, tunables.factors) = (percent, factors);
            OK
        }
        [b"temp_ttl", ttl, ..] => match signed(ttl) {
            Some(ttl) => {
                tunables.temp_ttl = u64::try_from(ttl).ok();
                OK
            }
            None => ERROR,
        },
        _ => ERROR,
    }
}

/// `cache_memlimit <megabytes>`. The memory is mapped at the start and shared with the other faces:
/// a client can confirm its size, not change it.
fn memlimit(face: &Face, words: &[&[u8]]) -> &'static [u8] {
    const MIB: u64 = 1 << 20;
    let Some(megabytes) = words.first().and_then(|word| decimal(word)) else { return ERROR };
    if megabytes < 8 {
        return b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
    }
    if megabytes == super::general::limit(face) / MIB {
        return OK;
    }
    b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
}

fn verbosity(face: &Face, words: &[&[u8]]) -> &'static [u8] {
    /// Highest verbosity of memcached.
    const MOST: u64 = 2;
    match words.first() {
        None | Some(&b"noreply") => ERROR,
        Some(level) => match number(level) {
            Some(level) => {
                face.shared.stats.tunables.lock().verbosity = level.min(MOST);
                face.shared.echoes.store(level >= MOST, Relaxed);
                OK
            }
            None => BAD_FORMAT,
        },
    }
}

/// `extstore <setting> <number> ...`: there is no flash storage.
fn extstore(words: &[&[u8]]) -> &'static [u8] {
    const SETTINGS: &[&[u8]] = &[
        b"free_memchunks",
        b"item_size",
        b"item_age",
        b"low_ttl",
        b"recache_rate",
        b"compact_under",
        b"drop_under",
        b"max_frag",
        b"drop_unread",
        b"max_sleep",
    ];
    match words {
        [setting, _, ..] if SETTINGS.contains(setting) => OK,
        _ => ERROR,
    }
}
