//! Operations on lists.

use larder_proto::resp::collection::{Damaged, Fill, Item, Items, Kind, Shape, push_item};

use super::super::super::ctx::Ctx;
use super::super::errors::{Outcome, Refused};
use super::{At, Coll, Found, Tree, tree::RUN};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Side {
    Left,
    Right,
}

impl Side {
    /// Parses LEFT or RIGHT.
    pub(in super::super) fn parse(word: &[u8]) -> Option<Side> {
        match () {
            () if word.eq_ignore_ascii_case(b"left") => Some(Side::Left),
            () if word.eq_ignore_ascii_case(b"right") => Some(Side::Right),
            () => None,
        }
    }
}

/// Appends an element to a run.
pub(in super::super) fn push_element(run: &mut Vec<u8>, element: &[u8]) {
    push_item(run, Shape::Bare, element, 0.0);
}

impl Coll<'_> {
    /// Calls `f` with the items from a position on until it returns false.
    pub(in super::super) fn each(
        &self,
        tree: Tree,
        from: u64,
        f: &mut dyn FnMut(&Item<'_>) -> bool,
    ) -> Outcome {
        let mut at = from;
        while at < self.len() {
            let found = self.locate(tree, At::Position(at))?;
            let run = found.run.whole();
            let items = Items::new(self.shape(), &run).skip((at - found.before) as usize);
            for item in items {
                if !f(&item?) {
                    return Ok(());
                }
            }
            at = at.max(found.before) + (found.count - (at - found.before)).max(1);
        }
        Ok(())
    }

    /// Calls `f` with the item at a position.
    pub(in super::super) fn nth<T>(
        &self,
        position: u64,
        f: impl FnOnce(&Item<'_>) -> T,
    ) -> Outcome<Option<T>> {
        let (mut f, mut result) = (Some(f), None);
        self.each(Tree::Main, position, &mut |item| {
            result = f.take().map(|f| f(item));
            false
        })?;
        Ok(result)
    }

    /// Adds elements at an end, one after the other.
    pub(in super::super) fn push<'e>(
        &mut self,
        side: Side,
        elements: impl Iterator<Item = &'e [u8]>,
    ) -> Outcome {
        let position = if side == Side::Left { 0 } else { self.len() };
        let found = self.locate(Tree::Main, At::Position(position))?;
        let (mut pushed, mut count) = (Vec::new(), 0);
        match side {
            Side::Right => elements.for_each(|element| {
                push_element(&mut pushed, element);
                count += 1;
            }),
            Side::Left => {
                let elements: Vec<_> = elements.collect();
                count = elements.len() as u64;
                elements.iter().rev().for_each(|element| push_element(&mut pushed, element));
            }
        }
        let fill = if side == Side::Left { Fill::Last } else { Fill::First };
        let before = if self.len() == 0 { 0 } else { found.count };
        self.head.count += count;
        if before == 0 {
            return self.replace(Tree::Main, found, pushed, count, fill);
        }
        if Self::is_full(&found) {
            return self.put_beside(found, side, (pushed, count), fill);
        }
        let bytes = {
            let run = found.run.whole();
            match side {
                Side::Left => [&pushed, &run[..]].concat(),
                Side::Right => [&run[..], &pushed].concat(),
            }
        };
        self.replace(Tree::Main, found, bytes, before + count, fill)
    }

    /// Removes items from a position on, at most as many as lie in one run; passes each to `f`.
    /// Returns their number.
    pub(in super::super) fn remove_some(
        &mut self,
        position: u64,
        most: u64,
        f: &mut dyn FnMut(&Item<'_>),
    ) -> Outcome<u64> {
        if position >= self.len() || most == 0 {
            return Ok(0);
        }
        let found = self.locate(Tree::Main, At::Position(position))?;
        self.remove_found(found, position, most, f)
    }

    fn remove_found(
        &mut self,
        found: Found,
        position: u64,
        most: u64,
        f: &mut dyn FnMut(&Item<'_>),
    ) -> Outcome<u64> {
        let run = found.run.whole();
        let skip = (position - found.before) as usize;
        let (mut start, mut end, mut removed) = (run.len(), run.len(), 0);
        for (nth, item) in Items::new(self.shape(), &run).enumerate() {
            let item = item?;
            if nth < skip {
                continue;
            }
            if removed == most {
                end = item.start;
                break;
            }
            start = start.min(item.start);
            removed += 1;
            f(&item);
        }
        let bytes = [&run[..start], &run[end..]].concat();
        drop(run);
        self.head.count = self.head.count.saturating_sub(removed);
        let left = found.count.saturating_sub(removed);
        self.replace(Tree::Main, found, bytes, left, Fill::Even)?;
        Ok(removed)
    }

    /// Replaces the element at a position by these: none, one, or it and a new one beside it.
    pub(in super::super) fn put_at(&mut self, position: u64, elements: &[&[u8]]) -> Outcome {
        let found = self.locate(Tree::Main, At::Position(position))?;
        let run = found.run.whole();
        let skip = (position - found.before) as usize;
        let mut bytes = Vec::with_capacity(run.len() + 64);
        for (nth, item) in Items::new(Shape::Bare, &run).enumerate() {
            let item = item?;
            if nth == skip {
                elements.iter().for_each(|element| push_element(&mut bytes, element));
            } else {
                bytes.extend_from_slice(&run[item.start..item.end]);
            }
        }
        drop(run);
        self.head.count = self.head.count + elements.len() as u64 - 1;
        let count = found.count + elements.len() as u64 - 1;
        self.replace(Tree::Main, found, bytes, count, Fill::Even)
    }

    /// Replaces a found run by these bytes of so many items, fewer by `removed`.
    pub(in super::super) fn shrink(
        &mut self,
        found: Found,
        bytes: Vec<u8>,
        count: u64,
        removed: u64,
    ) -> Outcome {
        self.head.count = self.head.count.saturating_sub(removed);
        self.replace(Tree::Main, found, bytes, count, Fill::Even)
    }

    /// Number of items of the last run.
    pub(in super::super) fn last_run(&self) -> Outcome<u64> {
        let last = self.len().saturating_sub(1);
        Ok(self.locate(Tree::Main, At::Position(last))?.count)
    }

    /// Takes the element at an end.
    pub(in super::super) fn pop(&mut self, side: Side) -> Outcome<Option<Vec<u8>>> {
        let mut popped = None;
        let position = if side == Side::Left { 0 } else { self.len().saturating_sub(1) };
        if self.len() == 0 {
            return Ok(None);
        }
        let found = self.locate(Tree::Main, At::Position(position))?;
        if found.count == 1 && found.run.len() > RUN {
            return self.pop_run(found).map(Some);
        }
        let f = &mut |item: &Item<'_>| popped = Some(item.bytes.to_vec());
        self.remove_found(found, position, 1, f)?;
        Ok(popped)
    }

    /// Takes the only element of a run, a long one, with a single copy.
    fn pop_run(&mut self, found: Found) -> Outcome<Vec<u8>> {
        let mut run = found.run.to_vec();
        let item = Items::new(Shape::Bare, &run).next().ok_or(Damaged)??;
        let (start, end) = (item.end - item.bytes.len(), item.end);
        run.truncate(end);
        run.drain(..start);
        self.head.count = self.head.count.saturating_sub(1);
        self.replace(Tree::Main, found, Vec::new(), 0, Fill::Even)?;
        Ok(run)
    }
}

/// Adds an element to the end of a list, which is made if it is missing, and takes an element from
/// another. The source is not empty. None: another write came first.
pub(in super::super) fn shift(
    ctx: &mut Ctx<'_>,
    (from, take): (&[u8], Side),
    (to, put): (&[u8], Side),
) -> Outcome<Option<Vec<u8>>> {
    // The destination is opened first: its type is checked before anything is taken.
    let target = if from == to { None } else { Some(ctx.open_or_new(to, Kind::List)?) };
    let Some(mut source) = ctx.open(from, Kind::List)? else { return Ok(None) };
    let Some(element) = source.pop(take)? else { return Ok(None) };
    let is_apart = target.is_some();
    match target {
        None => source.push(put, [&element[..]].into_iter())?,
        Some(mut target) => {
            target.push(put, [&element[..]].into_iter())?;
            if target.commit(ctx)?.is_none() {
                return Ok(None);
            }
        }
    }
    match source.commit(ctx) {
        // The source was evicted when the destination had the element: it has moved.
        Err(Refused::Lost) if is_apart => Ok(Some(element)),
        done => Ok(done?.map(|()| element)),
    }
}
