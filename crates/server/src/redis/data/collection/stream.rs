//! Operations on the entries of streams.

use larder_proto::resp::{
    collection::{Root, separator},
    stream::{Entry, Run, State, StreamId, push_entry},
};

use super::super::errors::Outcome;
use super::tree::RUN;
use super::{At, Coll, Tree};

/// Most entries of a run (Redis: `stream-node-max-entries`).
pub(in super::super) const RUN_ENTRIES: u64 = 100;

impl Coll<'_> {
    /// The facts of the stream; of a new one there are none yet.
    pub(in super::super) fn state(&self) -> Outcome<State> {
        if self.head.extra.is_empty() {
            return Ok(State::default());
        }
        Ok(State::read(&self.head.extra)?)
    }

    /// Changes the facts of the stream.
    pub(in super::super) fn set_state(&mut self, state: &State) {
        self.head.extra = state.write();
    }

    /// Adds an entry, whose ID is above all others.
    pub(in super::super) fn append<'p>(
        &mut self,
        id: StreamId,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Outcome {
        let len = self.len();
        let found = self.locate(Tree::Main, At::Position(len))?;
        let run = found.run.whole();
        let mut bytes = Vec::with_capacity(run.len() + 256);
        bytes.extend_from_slice(&run);
        drop(run);
        let old = bytes.len();
        push_entry(&mut bytes, id, pairs.clone())?;
        let count = if len == 0 { 0 } else { found.count };
        self.head.count += 1;
        if count < RUN_ENTRIES && (bytes.len() <= RUN || count == 0) {
            let above = self.separator_of(&found)?;
            return self.replace_runs(Tree::Main, found, vec![(bytes, count + 1, above)]);
        }
        bytes.truncate(old);
        let last = Run::read(&bytes)?.entries().last().transpose()?;
        let last = last.map_or(StreamId::MIN, |entry| entry.id).to_key();
        let mut new = Vec::new();
        push_entry(&mut new, id, pairs)?;
        let above = self.separator_of(&found)?;
        let runs = vec![(bytes, count, above), (new, 1, separator(&last, &id.to_key()))];
        self.replace_runs(Tree::Main, found, runs)
    }

    /// Calls `f` with the entries from an ID on until it returns false.
    pub(in super::super) fn entries(
        &self,
        from: StreamId,
        f: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Outcome {
        if self.len() == 0 {
            return Ok(());
        }
        let mut found = self.locate(Tree::Main, At::Key(&from.to_key()))?;
        loop {
            for entry in Run::read(&found.run.whole())?.entries() {
                let entry = entry?;
                if entry.id >= from && !f(&entry) {
                    return Ok(());
                }
            }
            let next = found.before + found.count;
            if next >= self.len() {
                return Ok(());
            }
            found = self.locate(Tree::Main, At::Position(next))?;
        }
    }

    /// Calls `f` with the entries from an ID on, backwards, until it returns false.
    pub(in super::super) fn entries_back(
        &self,
        from: StreamId,
        f: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Outcome {
        if self.len() == 0 {
            return Ok(());
        }
        let mut found = self.locate(Tree::Main, At::Key(&from.to_key()))?;
        loop {
            let run = found.run.whole();
            let entries: Result<Vec<_>, _> = Run::read(&run)?.entries().collect();
            for entry in entries?.iter().rev() {
                if entry.id <= from && !f(entry) {
                    return Ok(());
                }
            }
            let Some(before) = found.before.checked_sub(1) else { return Ok(()) };
            drop(run);
            found = self.locate(Tree::Main, At::Position(before))?;
        }
    }

    /// Number of entries below an ID.
    pub(in super::super) fn entries_below(&self, id: StreamId) -> Outcome<u64> {
        if self.len() == 0 {
            return Ok(0);
        }
        let found = self.locate(Tree::Main, At::Key(&id.to_key()))?;
        let mut count = found.before;
        for entry in Run::read(&found.run.whole())?.entries() {
            if entry?.id >= id {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// The first ID.
    pub(in super::super) fn first_id(&self) -> Outcome<Option<StreamId>> {
        let mut first = None;
        self.entries(StreamId::MIN, &mut |entry| {
            first = Some(entry.id);
            false
        })?;
        Ok(first)
    }

    /// The last ID.
    pub(in super::super) fn last_id(&self) -> Outcome<Option<StreamId>> {
        if self.len() == 0 {
            return Ok(None);
        }
        let found = self.locate(Tree::Main, At::Position(self.len() - 1))?;
        let run = found.run.whole();
        let last = Run::read(&run)?.entries().last().transpose()?;
        Ok(last.map(|entry| entry.id))
    }

    /// Is there an entry with this ID? Calls `f` with it.
    pub(in super::super) fn entry(
        &self,
        id: StreamId,
        f: &mut dyn FnMut(&Entry<'_>),
    ) -> Outcome<bool> {
        let mut is_there = false;
        self.entries(id, &mut |entry| {
            if entry.id == id {
                is_there = true;
                f(entry);
            }
            false
        })?;
        Ok(is_there)
    }

    /// Removes the entry with this ID. False: there is none.
    pub(in super::super) fn remove_entry(&mut self, id: StreamId) -> Outcome<bool> {
        if self.len() == 0 {
            return Ok(false);
        }
        let found = self.locate(Tree::Main, At::Key(&id.to_key()))?;
        let run = found.run.whole();
        let mut place = None;
        for entry in Run::read(&run)?.entries() {
            let entry = entry?;
            if entry.id >= id {
                place = (entry.id == id).then_some((entry.start, entry.end));
                break;
            }
        }
        let Some((start, end)) = place else { return Ok(false) };
        let bytes = [&run[..start], &run[end..]].concat();
        drop(run);
        self.head.count -= 1;
        let count = found.count - 1;
        if count == 0 {
            self.replace_runs(Tree::Main, found, Vec::new())?;
        } else {
            let above = self.separator_of(&found)?;
            self.replace_runs(Tree::Main, found, vec![(bytes, count, above)])?;
        }
        Ok(true)
    }

    /// Number of entries of the first run.
    pub(in super::super) fn first_run(&self) -> Outcome<u64> {
        if self.len() == 0 { Ok(0) } else { Ok(self.locate(Tree::Main, At::Position(0))?.count) }
    }

    /// Removes so many entries from the start, at most those of the first run. Returns their
    /// number.
    pub(in super::super) fn remove_first(&mut self, most: u64) -> Outcome<u64> {
        if self.len() == 0 || most == 0 {
            return Ok(0);
        }
        let found = self.locate(Tree::Main, At::Position(0))?;
        let removed = most.min(found.count);
        self.head.count -= removed;
        if removed == found.count {
            self.replace_runs(Tree::Main, found, Vec::new())?;
            return Ok(removed);
        }
        let run = found.run.whole();
        let read = Run::read(&run)?;
        let end = match read.entries().nth(removed as usize) {
            Some(entry) => entry?.start,
            None => run.len(),
        };
        let bytes = [&run[..read.start()], &run[end..]].concat();
        drop(run);
        let (above, left) = (self.separator_of(&found)?, found.count - removed);
        self.replace_runs(Tree::Main, found, vec![(bytes, left, above)])?;
        Ok(removed)
    }

    /// Number of runs and of nodes of the entries.
    pub(in super::super) fn blocks(&self) -> Outcome<(u64, u64)> {
        if self.is_packed() {
            return Ok((u64::from(self.len() > 0), 1));
        }
        let (mut runs, mut nodes) = (0, 1);
        let mut left = vec![self.head.main.clone()];
        while let Some(root) = left.pop() {
            let mut children = Vec::new();
            self.collect(1, &root.bytes, &mut children)?;
            if root.level == 1 {
                runs += children.len() as u64;
                continue;
            }
            nodes += children.len() as u64;
            for part in children {
                let bytes = self.part(part)?.into_vec();
                left.push(Root { level: root.level - 1, bytes });
            }
        }
        Ok((runs, nodes))
    }
}
