//! Replay of one thread's lines of a trace.

use std::{sync::Arc, time::Duration};

use rand::{SeedableRng, rngs::SmallRng};

use super::{
    Trace,
    format::{LineResult, TraceRecord},
    lines::{Line, Lines},
};
use crate::{
    load::{Mix, Operation, Sizes, Source, Think, keys},
    random,
};

/// Length of a value in bytes if neither the trace nor the command line gives one.
const SIZE: usize = 100;

/// Values that replace the trace's own.
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
    record: TraceRecord,
    lines: Option<Lines>,
    /// Number of times the end was reached.
    round: u64,
    /// Whether this round had a request: a round without any is the last.
    asked: bool,
    /// Start of this round and time of its last request, since the start of the first round.
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
        let rng = SmallRng::seed_from_u64(random::derived(seed, thread));
        let (zero, record) = (Duration::ZERO, TraceRecord::default());
        let mut replay = Replay {
            trace,
            overrides,
            thread,
            threads,
            rng,
            record,
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
        lines.map_err(|error| self.trace.skipped.set_broken(error.to_string())).ok()
    }

    /// Reads up to the next request of this thread. False at the end.
    fn advance(&mut self) -> bool {
        let (thread, threads) = (self.thread, self.threads);
        loop {
            let Some(lines) = &mut self.lines else { return false };
            let line = match lines.next(|number| (number - 1) % threads == thread) {
                Ok(line) => line,
                Err(error) => {
                    self.trace.skipped.set_broken(error.to_string());
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
                Some(Line::TooLong(number)) => {
                    (number, LineResult::Malformed("longer than 64 KiB"))
                }
                Some(Line::Text(number, text)) => {
                    (number, self.trace.format.read(text, number, &mut self.record))
                }
            };
            let skipped = (self.round == 0).then_some(&self.trace.skipped);
            match (found, skipped) {
                (LineResult::Request, _) if keys::is_key(&self.record.key) => return true,
                (LineResult::Request, Some(skipped)) => {
                    skipped.add_malformed(number, "no key, or spaces or control characters in it");
                }
                (LineResult::Malformed(why), Some(skipped)) => skipped.add_malformed(number, why),
                (LineResult::Passed, Some(skipped)) => skipped.add_passed(),
                _ => {}
            }
        }
    }

    /// Time since the start of the first round. Logs are written when answers end, not strictly in
    /// the order of their times; these times never decrease.
    fn time(&mut self) -> Option<Duration> {
        let since = self.record.time?.saturating_sub(self.trace.origin?);
        self.last = self.last.max(self.began + Duration::from_nanos(since));
        Some(self.last)
    }
}

impl Source for Replay {
    fn next(&mut self, operation: &mut Operation) -> bool {
        if !self.advance() {
            return false;
        }
        self.asked = true;
        operation.at = self.time();
        operation.key.clear();
        if self.trace.targets {
            push_target(&self.record.key, &mut operation.key);
        } else {
            operation.key.extend_from_slice(&self.record.key);
        }
        operation.more.clear();
        operation.verb = match &self.overrides.mix {
            Some(mix) => mix.pick(&mut self.rng),
            None => self.record.verb,
        };
        operation.size = match &self.overrides.sizes {
            Some(sizes) => sizes.of(&operation.key),
            None => self.record.size.unwrap_or(SIZE),
        };
        operation.ttl = self.overrides.ttl.unwrap_or(self.record.ttl);
        operation.think = self.overrides.think.draw(&mut self.rng);
        true
    }
}

/// Appends the part of a URL after the host, or any other key prefixed with `/`.
fn push_target(key: &[u8], out: &mut Vec<u8>) {
    let rest = key.strip_prefix(b"http://").or_else(|| key.strip_prefix(b"https://"));
    let rest = match rest {
        Some(rest) => {
            &rest[rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len())..]
        }
        None => key,
    };
    if !rest.starts_with(b"/") {
        out.push(b'/');
    }
    out.extend_from_slice(rest);
}
