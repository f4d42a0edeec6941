//! Operations on sets, and walks by mark.

use larder_proto::resp::collection::{Fill, Item, Items, Shape, find, push_item};

use super::super::errors::Outcome;
use super::super::random::pick;
use super::tree::MarkKey;
use super::{At, Coll, Tree};

impl Coll<'_> {
    pub(super) fn key_of(&self, member: &[u8]) -> MarkKey {
        // Nobody looks at keys in a single run.
        self.mark_key(if self.is_packed() { 0 } else { self.mark(member) })
    }

    /// Is it a member of the set?
    pub(in super::super) fn has(&self, member: &[u8]) -> Outcome<bool> {
        if self.len() == 0 {
            return Ok(false);
        }
        let found = self.locate(Tree::Main, At::Key(&self.key_of(member)))?;
        Ok(find(Shape::Bare, &found.run.whole(), member)?.is_some())
    }

    /// Adds a member to the set. False: it was there.
    pub(in super::super) fn add(&mut self, member: &[u8]) -> Outcome<bool> {
        let found = self.locate(Tree::Main, At::Key(&self.key_of(member)))?;
        let run = found.run.whole();
        if find(Shape::Bare, &run, member)?.is_some() {
            return Ok(false);
        }
        let mut bytes = Vec::with_capacity(run.len() + member.len() + 8);
        bytes.extend_from_slice(&run);
        drop(run);
        push_item(&mut bytes, Shape::Bare, member, 0.0);
        let count = if self.len() == 0 { 1 } else { found.count + 1 };
        self.head.count += 1;
        self.replace(Tree::Main, found, bytes, count, Fill::Even)?;
        Ok(true)
    }

    /// Removes a member from the set. False: it was not there.
    pub(in super::super) fn remove(&mut self, member: &[u8]) -> Outcome<bool> {
        if self.len() == 0 {
            return Ok(false);
        }
        let found = self.locate(Tree::Main, At::Key(&self.key_of(member)))?;
        let run = found.run.whole();
        let Some(item) = find(Shape::Bare, &run, member)? else { return Ok(false) };
        let bytes = [&run[..item.start], &run[item.end..]].concat();
        let count = found.count - 1;
        drop(run);
        self.head.count -= 1;
        self.replace(Tree::Main, found, bytes, count, Fill::Even)?;
        Ok(true)
    }

    /// A random item's bytes and score.
    pub(in super::super) fn any(&self) -> Outcome<Option<(Vec<u8>, f64)>> {
        let position = pick(self.len() as usize) as u64;
        self.nth(position, |item| (item.bytes.to_vec(), item.score))
    }

    /// The items of a step of a walk, in the order of their marks, and the next cursor; of a packed
    /// collection all.
    pub(in super::super) fn walk(
        &self,
        cursor: u64,
        count: usize,
        f: &mut dyn FnMut(&Item<'_>) -> bool,
    ) -> Outcome<u64> {
        if self.is_packed() {
            self.each(Tree::Main, 0, &mut |item| {
                f(item);
                true
            })?;
            return Ok(0);
        }
        let members = self.head.members.is_some();
        let tree = if members { Tree::Members } else { Tree::Main };
        let (mut cursor, mut shown) = (cursor, 0);
        loop {
            let found = self.locate(tree, At::Key(&self.mark_key(cursor)))?;
            let run = found.run.whole();
            let mut items = Vec::new();
            for item in Items::new(self.shape(), &run) {
                let item = item?;
                let mark = self.mark(item.bytes);
                if mark >= cursor {
                    items.push((mark, item));
                }
            }
            items.sort_unstable_by_key(|(mark, _)| *mark);
            let mut last = 0;
            for (mark, item) in items {
                // Members with equal marks are shown together.
                if shown >= count && mark != last {
                    return Ok(mark);
                }
                let wants_more = f(&item);
                (last, shown) = (mark, if wants_more { shown + 1 } else { count });
            }
            let after = found.before + found.count;
            if after >= self.len() {
                return Ok(0);
            }
            // The next run begins with marks above all of this one.
            let next = self.locate(tree, At::Position(after))?;
            let run = next.run.whole();
            let mut least = u64::MAX;
            for item in Items::new(self.shape(), &run) {
                least = least.min(self.mark(item?.bytes));
            }
            cursor = least;
        }
    }
}
