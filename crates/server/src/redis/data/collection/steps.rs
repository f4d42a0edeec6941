//! Commands over many items, in steps.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
};

use larder_proto::resp::{
    Args,
    table::{self, flag},
};

use super::super::super::{
    ctx::Ctx,
    freed::free_elsewhere,
    job::{Job, Progress},
};
use super::super::Run;
use super::super::errors::{Outcome, Refused};
use super::Coll;
use crate::clock::Ms;

/// Items between two checks of the clock, and their bytes: at least one item is taken.
pub(in super::super) const ITEMS: usize = 64;
/// The same for changes of a tree, each of which may write blocks of its own.
const CHANGES: usize = 8;
pub(in super::super) const BYTES: usize = 64 * 1024;

/// Entries of a [`SlowMap`] that are freed at once.
const FREED: usize = 4096;

impl Coll<'_> {
    /// Number of changes between two checks of the clock.
    pub(in super::super) fn changes_in_a_step(&self) -> usize {
        if self.is_packed() { ITEMS } else { CHANGES }
    }
}

/// Number of arguments from a position on, `most` at most, that one step processes.
pub(in super::super) fn portion(args: &Args<'_>, from: usize, most: usize) -> usize {
    let mut bytes = 0;
    let fits = |argument: &&[u8]| {
        let is_room = bytes < BYTES;
        bytes += argument.len();
        is_room
    };
    args.from(from).take(most).take_while(fits).count()
}

/// A map of a command's result, which may be large. It is freed by a thread of its own if the
/// command ends before it is used up: the worker would be held for long.
#[derive(Debug)]
pub(in super::super) struct SlowMap<K: Send + 'static, V: Send + 'static>(BTreeMap<K, V>);

impl<K: AsRef<[u8]> + Ord + Send, V: Send> SlowMap<K, V> {
    /// Takes the first entries out, as many as one step processes.
    pub(in super::super) fn pop_some(&mut self) -> Vec<(K, V)> {
        let (mut some, mut bytes) = (Vec::new(), 0);
        while some.len() < ITEMS
            && bytes < BYTES
            && let Some((key, value)) = self.0.pop_first()
        {
            bytes += key.as_ref().len();
            some.push((key, value));
        }
        some
    }
}

impl<K: Send, V: Send> Default for SlowMap<K, V> {
    fn default() -> Self {
        SlowMap(BTreeMap::new())
    }
}

impl<K: Send, V: Send> Deref for SlowMap<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.0
    }
}

impl<K: Send, V: Send> DerefMut for SlowMap<K, V> {
    fn deref_mut(&mut self) -> &mut BTreeMap<K, V> {
        &mut self.0
    }
}

impl<K: Send + 'static, V: Send + 'static> Drop for SlowMap<K, V> {
    fn drop(&mut self) {
        if self.0.len() > FREED {
            free_elsewhere(std::mem::take(&mut self.0));
        }
    }
}

/// A command in steps: each does a part of the work and says whether it was the last. A collection
/// that turns out to be evicted in the middle makes the command start again without it.
pub(in super::super) struct Steps<S> {
    /// Start of the answer.
    from: usize,
    /// The time for all steps: what expires meanwhile is there until the command ends.
    now: Ms,
    again: Run,
    state: S,
    step: fn(&mut Ctx<'_>, &Args<'_>, &mut S) -> Outcome<bool>,
}

impl<S> Job for Steps<S> {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        ctx.now = self.now;
        if ctx.conn.stays {
            // The first part of a long command counts, too.
            ctx.is_over();
        }
        loop {
            match (self.step)(ctx, args, &mut self.state) {
                Ok(true) => return Progress::Done,
                Ok(false) => {
                    if ctx.overflows() {
                        // A write does not stop in the middle, whoever reads its answer.
                        if !is_write(args) {
                            return Progress::Done;
                        }
                        ctx.out.scratch().truncate(self.from);
                    }
                    if ctx.is_over() {
                        return Progress::Again;
                    }
                }
                Err(error) => {
                    ctx.out.scratch().truncate(self.from);
                    match error {
                        Refused::Lost => (self.again)(ctx, args),
                        error => ctx.settle(Err(error), args),
                    }
                    return Progress::Done;
                }
            }
        }
    }
}

#[cold]
fn is_write(args: &Args<'_>) -> bool {
    table::find(args.get(0)).is_some_and(|command| command.has(flag::WRITE))
}

impl Ctx<'_> {
    /// Begins a command in steps; `again` is its handler.
    pub(in super::super) fn steps<S: 'static>(
        &mut self,
        args: &Args<'_>,
        again: Run,
        state: S,
        step: fn(&mut Ctx<'_>, &Args<'_>, &mut S) -> Outcome<bool>,
    ) {
        let from = self.out.scratch().len();
        self.steps_from(args, again, from, state, step);
    }

    /// The same if the start of the answer is composed, from here on.
    pub(in super::super) fn steps_from<S: 'static>(
        &mut self,
        args: &Args<'_>,
        again: Run,
        from: usize,
        state: S,
        step: fn(&mut Ctx<'_>, &Args<'_>, &mut S) -> Outcome<bool>,
    ) {
        self.go(Steps { from, now: self.now, again, state, step }, args);
    }
}
