//! States of the whole process that an operator has to know of: each is told on the terminal when
//! it begins and when it is over, and is a metric.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use larder_metrics::Conditions;
use larder_proto::units::show_size;
use larder_store::{NAMESPACES, Namespace};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use super::Registry;
use crate::net::descriptors;

/// Looks with trouble, more than without, after which a state has begun. A look is once a second.
const BEGIN: u8 = 5;
/// No state counts more looks: it is over after at most so many without trouble.
const MOST: u8 = 10;

/// A state that begins and ends with some delay, so that it is told once and not at every change.
#[derive(Debug, Default)]
struct Lasting {
    score: u8,
    on: bool,
}

impl Lasting {
    /// Notes a look. Some: the state has begun (true) or is over.
    fn look(&mut self, trouble: bool, begin: u8) -> Option<bool> {
        self.score = match trouble {
            true => (self.score + 1).min(MOST),
            false => self.score.saturating_sub(1),
        };
        let on = if self.on { self.score > 0 } else { self.score >= begin };
        (std::mem::replace(&mut self.on, on) != on).then_some(on)
    }
}

#[derive(Debug, Default)]
struct Looks {
    memory: Lasting,
    descriptors: Lasting,
    /// The counts of the look before.
    evicted_recent: u64,
    failures: u64,
}

/// The states of the process.
#[derive(Debug, Default)]
pub(super) struct States {
    looks: Mutex<Looks>,
    memory_short: AtomicBool,
    descriptors_short: AtomicBool,
    reload_failed: AtomicBool,
    reloads: AtomicU64,
    reloads_failed: AtomicU64,
}

impl States {
    pub(super) fn figures(&self) -> Conditions {
        let gauge = |state: &AtomicBool| u64::from(state.load(Relaxed));
        Conditions {
            reload_failed: gauge(&self.reload_failed),
            reloads: self.reloads.load(Relaxed),
            reloads_failed: self.reloads_failed.load(Relaxed),
            memory_short: gauge(&self.memory_short),
            descriptors_short: gauge(&self.descriptors_short),
            descriptor_failures: descriptors::failures(),
        }
    }
}

impl Registry {
    /// Notes how a reload ended.
    pub fn reloaded(&self, done: bool) {
        let states = &self.states;
        states.reload_failed.store(!done, Relaxed);
        states.reloads.fetch_add(1, Relaxed);
        states.reloads_failed.fetch_add(u64::from(!done), Relaxed);
    }

    /// Looks whether memory or descriptors are short, and tells of a change. To be called once a
    /// second.
    pub(crate) fn look(&self) {
        for line in self.changes(self.evicted_recent(), descriptors::failures()) {
            eprintln!("larder: {line}");
        }
    }

    /// Entries that were evicted although somebody had read them just before, since the start.
    fn evicted_recent(&self) -> u64 {
        let all = (0..NAMESPACES as u8).map(Namespace);
        all.map(|number| self.parts.store.stats(number).evicted_recent).sum()
    }

    fn changes(&self, evicted_recent: u64, failures: u64) -> Vec<String> {
        let mut looks = self.states.looks.lock();
        let mut lines = Vec::new();
        let evicted = evicted_recent > std::mem::replace(&mut looks.evicted_recent, evicted_recent);
        if let Some(short) = looks.memory.look(evicted, BEGIN) {
            self.states.memory_short.store(short, Relaxed);
            lines.push(match short {
                true => format!(
                    "memory is full: entries are evicted that were read in the last minute. More \
                     than `memory = \"{}\"` would give more hits",
                    show_size(self.settings.read().memory)
                ),
                false => "memory is enough again: nothing is evicted that was read in the last \
                          minute"
                    .to_owned(),
            });
        }
        let failed = failures > std::mem::replace(&mut looks.failures, failures);
        // One is enough: somebody was not served.
        if let Some(short) = looks.descriptors.look(failed, 1) {
            self.states.descriptors_short.store(short, Relaxed);
            let limit = getrlimit(Resource::Nofile).current;
            let limit = limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
            lines.push(match short {
                true => format!(
                    "no descriptor is left (limit {limit}): new connections wait, files cannot be \
                     opened. Raise `ulimit -n` (LimitNOFILE), or lower `http.limits.connections`"
                ),
                false => "there are descriptors again".to_owned(),
            });
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let mut state = Lasting::default();
        let mut told = Vec::new();
        for (number, trouble) in [(4, true), (3, false), (30, true), (2, false), (30, true)] {
            for _ in 0..number {
                told.extend(state.look(trouble, BEGIN));
            }
        }
        assert_eq!(told, [true], "short pauses are no end, short troubles no beginning");
        let quiet = (0..100).filter_map(|look| state.look(false, BEGIN).map(|on| (look, on)));
        assert_eq!(quiet.collect::<Vec<_>>(), [(usize::from(MOST) - 1, false)]);
    }

    #[test]
    fn one_look_is_enough_where_somebody_was_not_served() {
        let mut state = Lasting::default();
        assert_eq!(state.look(true, 1), Some(true));
        assert_eq!((state.look(true, 1), state.look(false, 1)), (None, None));
        assert_eq!(state.look(false, 1), Some(false));
    }
}
