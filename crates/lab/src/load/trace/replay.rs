//! One thread's share of a trace.

use std::{sync::Arc, time::Duration};

use rand::{SeedableRng, rngs::SmallRng};

use super::{
    Trace,
    format::{Entry, Found},
    lines::{Line, Lines},
};
use crate::load::{Ask, Mix, Sizes, Source, Think, keys, seed};

/// Bytes of a value of which neither the trace nor the command line says anything.
const SIZE: usize = 100;

/// What is taken instead of the trace's own.
#[derive(Clone, Debug)]
pub(crate) struct Overrides {
    pub(crate) mix: Option<Mix>,
    pub(crate) sizes: Option<Sizes>,
    pub(crate) ttl: Option<u32>,
    pub(crate) think: Think,
}

/// Replays one thread's lines.
pub(crate) struct Replay {
    trace: Arc<Trace>,
    overrides: Overrides,
    thread: u64,
    threads: u64,
    rng: SmallRng,
    entry: Entry,
    lines: Option<Lines>,
    /// How often the end was reached.
    round: u64,
    /// Whether this round held a request: a round without any is the last.
    asked: bool,
    /// When this round began, and when its last request was, since the beginning of all.
    began: Duration,
    last: Duration,
}

impl Replay {
    pub(crate) fn new(
        trace: Arc<Trace>,
        overrides: Overrides,
        thread: u64,
        threads: u64,
        seed: u64,
    ) -> Replay {
        let rng = SmallRng::seed_from_u64(seed::mixed(seed, thread));
        let (zero, entry) = (Duration::ZERO, Entry::default());
        let mut replay = Replay {
            trace,
            overrides,
            thread,
            threads,
            rng,
            entry,
            lines: None,
            round: 0,
            asked: false,
            began: zero,
            last: zero,
        };
        replay.lines = replay.open();
        replay
    }

    fn open(&mut self) -> Option<Lines> {
        self.asked = false;
        self.began = self.last;
        let lines = Lines::open(&self.trace.path);
        lines.map_err(|error| self.trace.troubles.set_broken(error.to_string())).ok()
    }

    /// Reads on to the next request of ours. False at the end.
    fn advance(&mut self) -> bool {
        let (thread, threads) = (self.thread, self.threads);
        loop {
            let Some(lines) = &mut self.lines else { return false };
            let line = match lines.next(|number| (number - 1) % threads == thread) {
                Ok(line) => line,
                Err(error) => {
                    self.trace.troubles.set_broken(error.to_string());
                    None
                }
            };
            let (number, found) = match line {
                None if self.trace.repeat && self.asked => {
                    self.round += 1;
                    self.lines = self.open();
                    continue;
                }
                None => {
                    self.lines = None;
                    return false;
                }
                Some(Line::TooLong(number)) => (number, Found::Malformed("longer than 64 KiB")),
                Some(Line::Text(number, text)) => {
                    (number, self.trace.format.read(text, number, &mut self.entry))
                }
            };
            let troubles = (self.round == 0).then_some(&self.trace.troubles);
            match (found, troubles) {
                (Found::Request, _) if keys::is_key(&self.entry.key) => return true,
                (Found::Request, Some(troubles)) => {
                    troubles.add_malformed(number, "no key, or spaces or control characters in it");
                }
                (Found::Malformed(why), Some(troubles)) => troubles.add_malformed(number, why),
                (Found::Passed, Some(troubles)) => troubles.add_passed(),
                _ => {}
            }
        }
    }

    /// Since the beginning of all. Logs are written as answers end, not quite in the order of their times; ours never goes back.
    fn time(&mut self) -> Option<Duration> {
        let since = self.entry.time?.saturating_sub(self.trace.origin?);
        self.last = self.last.max(self.began + Duration::from_nanos(since));
        Some(self.last)
    }
}

impl Source for Replay {
    fn next(&mut self, ask: &mut Ask) -> bool {
        if !self.advance() {
            return false;
        }
        self.asked = true;
        ask.at = self.time();
        ask.key.clear();
        if self.trace.targets {
            push_target(&self.entry.key, &mut ask.key);
        } else {
            ask.key.extend_from_slice(&self.entry.key);
        }
        ask.more.clear();
        ask.verb = match &self.overrides.mix {
            Some(mix) => mix.pick(&mut self.rng),
            None => self.entry.verb,
        };
        ask.size = match &self.overrides.sizes {
            Some(sizes) => sizes.of(&ask.key),
            None => self.entry.size.unwrap_or(SIZE),
        };
        ask.ttl = self.overrides.ttl.unwrap_or(self.entry.ttl);
        ask.think = self.overrides.think.draw(&mut self.rng);
        true
    }
}

/// Of a URL what follows the host; anything else with a `/` before it.
fn push_target(key: &[u8], out: &mut Vec<u8>) {
    let rest = key.strip_prefix(b"http://").or_else(|| key.strip_prefix(b"https://"));
    let rest = match rest {
        Some(rest) => &rest[rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len())..],
        None => key,
    };
    if !rest.starts_with(b"/") {
        out.push(b'/');
    }
    out.extend_from_slice(rest);
}
