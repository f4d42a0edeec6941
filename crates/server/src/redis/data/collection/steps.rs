//! Commands over many items, in steps.

use larder_proto::resp::Args;

use super::super::super::{
    ctx::Ctx,
    job::{Job, Progress},
};
use super::super::Run;
use super::super::errors::{Outcome, Refused};

/// A command in steps: each does a part of the work and says whether it was the last. A collection
/// that turns out to be evicted in the middle makes the command start again without it.
pub(in super::super) struct Steps<S> {
    /// Start of the answer.
    from: usize,
    again: Run,
    state: S,
    step: fn(&mut Ctx<'_>, &Args<'_>, &mut S) -> Outcome<bool>,
}

impl<S> Job for Steps<S> {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        loop {
            match (self.step)(ctx, args, &mut self.state) {
                Ok(true) => return Progress::Done,
                Ok(false) if ctx.overflows() => return Progress::Done,
                Ok(false) if ctx.is_over() => return Progress::Again,
                Ok(false) => {}
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
        self.go(Steps { from, again, state, step }, args);
    }
}
