//! Commands with many arguments, processed some at a time.

use larder_proto::resp::Args;

use super::super::{
    ctx::Ctx,
    job::{Job, Progress},
};
use super::errors::Outcome;

/// Arguments processed between two checks of the clock, and by a write to one key's fields at once.
/// A write with more of them holds its key, as commands of several keys do.
pub(in super::super) const PART: usize = 1024;
/// Most arguments of a write of a hash's fields that is one step, and their bytes: a millisecond
/// and a half. Readers of hashes take no lock while no longer command runs.
pub(super) const TOGETHER: (usize, usize) = (256, 1024 * 1024);
/// Keys processed between two checks of the clock.
const KEYS: usize = 32;

/// Does a write of a hash's fields take one step?
#[inline]
pub(in super::super) fn is_one_step(args: &Args<'_>) -> bool {
    args.len() <= TOGETHER.0 && args.from(1).map(<[u8]>::len).sum::<usize>() <= TOGETHER.1
}

/// A command that performs the same operation for each of its keys.
pub(super) struct Each<S> {
    /// The next key.
    pub(super) at: usize,
    /// Distance between keys.
    pub(super) stride: usize,
    pub(super) state: S,
    /// The operation for the key at this position.
    pub(super) one: fn(&mut Ctx<'_>, &Args<'_>, usize, &mut S) -> Outcome,
    /// Composes the answer.
    pub(super) end: fn(&mut Ctx<'_>, &Args<'_>, &S),
}

impl<S> Job for Each<S> {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        while self.at < args.len() {
            ctx.remember(args.from(self.at).step_by(self.stride).take(KEYS));
            for _ in 0..KEYS {
                if self.at >= args.len() {
                    break;
                }
                if let Err(refused) = (self.one)(ctx, args, self.at, &mut self.state) {
                    ctx.settle(Err(refused), args);
                    return Progress::Done;
                }
                self.at += self.stride;
            }
            if self.at < args.len() && ctx.is_over() {
                return Progress::Again;
            }
        }
        (self.end)(ctx, args, &self.state);
        Progress::Done
    }
}

/// Counts the keys for which `one` returns true, and answers the number.
pub(super) fn count(ctx: &mut Ctx<'_>, args: &Args<'_>, one: fn(&mut Ctx<'_>, &[u8]) -> bool) {
    let step = Each {
        at: 1,
        stride: 1,
        state: (0, one),
        one: |ctx, args, at, (counted, one)| {
            *counted += usize::from(one(ctx, args.get(at)));
            Ok(())
        },
        end: |ctx, _, (counted, _)| ctx.reply().count(*counted),
    };
    ctx.go(step, args);
}
