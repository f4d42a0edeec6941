//! Copies of large collections, in steps: their parts, and at last the head.

use larder_proto::resp::{
    Args,
    collection::{Head, Kind, facts_apart},
};
use larder_store::{Entry, Owner, Part, Put, PutError};

use super::super::{
    ctx::Ctx,
    job::{Job, Progress},
};
use super::collection::put_copy;
use super::errors::{NO_KEY, Outcome, Refused, refused};
use super::joined::Whole;
use super::long::{End, Target, store_condition};

/// Returns whether an entry is the head of a collection with parts.
pub(super) fn has_parts(entry: &Entry<'_>) -> bool {
    match super::collection::kind_of(entry) {
        None => false,
        Some(_) if facts_apart(entry.head()).is_some() => true,
        // Its groups may have parts, too.
        Some(Kind::Stream) => Head::read(&Whole::of(entry)).is_ok_and(|head| {
            head.main.level > 0 || head.members.is_some_and(|groups| groups.level > 0)
        }),
        Some(_) => entry.head().get(1).is_some_and(|level| *level > 0),
    }
}

/// A copy in progress.
struct Copy {
    head: Head,
    from: Owner,
    to: Owner,
    parts: Vec<u64>,
    at: usize,
    /// The next copied part to look at: none may have been removed while it had no owner.
    seen: usize,
    target: Target,
    end: Option<End>,
}

impl Ctx<'_> {
    /// Copies a collection with parts to the target; `end` composes the answer.
    pub(super) fn copy_tree(
        &mut self,
        args: &Args<'_>,
        source: usize,
        entry: Entry<'static>,
        target: Target,
        end: End,
    ) -> Outcome {
        let key = args.get(source);
        let Some(kind) = super::collection::kind_of(&entry) else { return Ok(()) };
        let Some(coll) = self.coll(key, Some(entry), kind)? else { return Ok(()) };
        let (parts, mut head) = (coll.parts()?, coll.head.clone());
        drop(coll);
        let from = self.store.owner(self.ns, key, head.id).ok_or(Refused::Key)?;
        head.id = self.shared.part_owner();
        let to = self.store.owner(target.ns, args.get(target.key), head.id).ok_or(Refused::Key)?;
        self.go(Copy { head, from, to, parts, at: 0, seen: 0, target, end: Some(end) }, args);
        Ok(())
    }
}

impl Copy {
    fn part(&self, ctx: &Ctx<'_>, number: u64) -> Result<(), PutError> {
        let mut bytes = Vec::new();
        let part = ctx.store.read_part(&self.from, number, &mut bytes, ctx.now);
        let (whole, room) = match &part {
            Some(Part::Copied(room)) => (Whole::Stored(&bytes), *room),
            Some(Part::Fixed(part)) => (Whole::of(part), 0),
            None => return Err(PutError::NotFound),
        };
        ctx.store.put_part(&self.to, number, &whole, room, ctx.shared.clock.now()).map(drop)
    }

    fn parts(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<bool, PutError> {
        while let Some(number) = self.parts.get(self.at) {
            self.part(ctx, *number)?;
            self.at += 1;
            if ctx.is_over() {
                return Ok(false);
            }
        }
        while let Some(number) = self.parts.get(self.seen) {
            // Read, so that it counts as young again.
            if !ctx.store.use_part(&self.to, *number, ctx.shared.clock.now()) {
                return Err(PutError::Full);
            }
            self.seen += 1;
            if ctx.is_over() {
                return Ok(false);
            }
        }
        let Target { ns, flags, expires, condition, key } = self.target;
        let head = put_copy(ctx.store, &self.to, &self.head, ctx.now)?;
        let version = Some(self.head.id);
        let put = Put { value: &[&head], flags, expires, version, ..Put::default() };
        let condition = store_condition(condition, None);
        ctx.store.put(ns, args.get(key), put, condition, ctx.now).map(|_| true)
    }
}

impl Job for Copy {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        let key = args.get(self.target.key);
        let stored = match self.parts(ctx, args) {
            Ok(false) => return Progress::Again,
            Ok(true) => true,
            Err(PutError::Exists) => false,
            // A part was evicted, and so the whole.
            Err(PutError::NotFound) => {
                ctx.settle(Err(NO_KEY.into()), args);
                return Progress::Done;
            }
            Err(error) => {
                ctx.settle(Err(refused(error, key)), args);
                return Progress::Done;
            }
        };
        if let Some(end) = self.end.take() {
            end(ctx, args, stored);
        }
        Progress::Done
    }
}
