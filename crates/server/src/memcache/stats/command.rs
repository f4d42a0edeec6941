//! `stats ...` by its first word: in the text protocol, and as the key of a binary `stat`.

use std::sync::atomic::Ordering::Relaxed;

use super::{
    super::{Face, crawl::Walk},
    classes, config, conns, extensions, general,
    lines::{Form, Lines},
};
use crate::{clock::Ms, net::out::Out, object::Client};

/// Number of items shown by `stats largest`: default and maximum.
const LARGEST: (usize, usize) = (20, 1000);
/// Answer of `stats detail` to anything except on, off and dump.
const DETAIL_USAGE: &str = "CLIENT_ERROR usage: stats detail on|off|dump\r\n";

/// Estimated time of an answer, in microseconds.
const STATS: u64 = 250;

/// Answers `stats <args>`. A returned walk is an unfinished answer: continue it with
/// [`Walk::step`].
pub(crate) fn command(
    face: &Face,
    client: &Client,
    args: &[u8],
    form: Form,
    now: Ms,
    out: &mut Out,
) -> Option<Walk> {
    let mut words = args.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (first, second, third) = (words.next(), words.next(), words.next());
    face.turn_time.took(STATS);
    let lines = &mut Lines::new(out.scratch(), form);
    match first.unwrap_or_default() {
        b"" => general::write(face, lines, now),
        b"settings" => config::write(face, lines),
        b"items" => classes::items(face, lines),
        b"slabs" => classes::slabs(face, lines),
        b"conns" => conns::write(face, client, lines, now),
        b"prefixes" => extensions::prefixes(face, lines),
        b"hotkeys" => extensions::hotkeys(face, lines),
        b"latency" => extensions::latency(face, lines),
        // There is no flash storage, so the list is empty.
        b"extstore" => {}
        b"reset" => {
            face.shared.stats.reset(&face.shared);
            lines.word("RESET\r\n");
            return None;
        }
        b"detail" => {
            detail(face, second.unwrap_or_default(), lines);
            return None;
        }
        b"sizes" => return sizes(face, form, lines),
        b"sizes_enable" | b"sizes_disable" => {
            sizes_switch(face, first == Some(b"sizes_enable"), form, lines);
            return None;
        }
        b"largest" => return largest(face, second, form, lines),
        b"cachedump" if form == Form::Text => return cachedump(face, second, third, lines),
        _ => {
            lines.refuse("ERROR\r\n");
            return None;
        }
    }
    lines.end();
    None
}

fn detail(face: &Face, what: &[u8], lines: &mut Lines<'_>) {
    match what {
        b"on" | b"off" => {
            face.shared.stats.watch_log.detail(what == b"on");
            lines.word("OK\r\n");
        }
        b"dump" => extensions::dump(face, lines),
        _ => lines.refuse(DETAIL_USAGE),
    }
}

fn sizes(face: &Face, form: Form, lines: &mut Lines<'_>) -> Option<Walk> {
    if face.shared.stats.tunables.lock().sizes {
        face.shared.stats.walks.fetch_add(1, Relaxed);
        return Some(Walk::sizes(form));
    }
    lines.stat("sizes_status", "disabled");
    lines.end();
    None
}

/// memcached sends no end here, but a binary client would wait for one.
fn sizes_switch(face: &Face, on: bool, form: Form, lines: &mut Lines<'_>) {
    face.shared.stats.tunables.lock().sizes = on;
    lines.stat("sizes_status", if on { "enabled" } else { "disabled" });
    if form != Form::Text {
        lines.end();
    }
}

fn largest(face: &Face, number: Option<&[u8]>, form: Form, lines: &mut Lines<'_>) -> Option<Walk> {
    let Some(number) = number.map_or(Some(LARGEST.0 as u64), decimal) else {
        lines.refuse("CLIENT_ERROR bad command line format\r\n");
        return None;
    };
    face.shared.stats.walks.fetch_add(1, Relaxed);
    Some(Walk::largest((number as usize).clamp(1, LARGEST.1), form))
}

/// `stats cachedump <class> <limit>`.
fn cachedump(
    face: &Face,
    class: Option<&[u8]>,
    limit: Option<&[u8]>,
    lines: &mut Lines<'_>,
) -> Option<Walk> {
    /// Number of slab classes in memcached.
    const CLASSES: u64 = 64;
    if !face.settings().dump {
        lines.refuse("CLIENT_ERROR stats cachedump not allowed\r\n");
        return None;
    }
    let (Some(class), Some(limit)) = (class, limit) else {
        lines.refuse("CLIENT_ERROR bad command line\r\n");
        return None;
    };
    let (Some(class), Some(limit)) = (decimal(class), decimal(limit)) else {
        lines.refuse("CLIENT_ERROR bad command line format\r\n");
        return None;
    };
    if class >= CLASSES {
        lines.refuse("CLIENT_ERROR Illegal slab id\r\n");
        return None;
    }
    if class != classes::CLASS {
        lines.end();
        return None;
    }
    face.shared.stats.walks.fetch_add(1, Relaxed);
    // memcached parses 32 bits.
    Some(Walk::cachedump(limit as u32))
}

/// Parses a decimal number.
pub(super) fn decimal(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
