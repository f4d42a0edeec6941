//! Records by key in the second tree of a stream: its consumer groups. Changes are collected and
//! applied with the commit, in the order of their keys, so that those of one run write it once.

use larder_proto::resp::collection::{Fill, Items, Node, Shape, push_valued};

use super::super::errors::Outcome;
use super::{At, Coll, Found, Tree};

impl Coll<'_> {
    /// The record with this key, with the collected changes.
    pub(in super::super) fn record(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        if let Some(change) = self.changes.get(key) {
            return Ok(change.clone());
        }
        let mut record = None;
        self.scan_records(key, &mut |found, value| {
            record = (found == key).then(|| value.to_vec());
            false
        })?;
        Ok(record)
    }

    /// Changes a record, or removes it (None).
    pub(in super::super) fn set_record(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.changes.insert(key, value);
    }

    /// Calls `f` with the records from a key on until it returns false. The collected changes do
    /// not count.
    pub(in super::super) fn scan_records(
        &self,
        from: &[u8],
        f: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome {
        if self.head.members.is_none() {
            return Ok(());
        }
        let mut from = from.to_vec();
        loop {
            let found = self.locate(Tree::Groups, At::Key(&from))?;
            for item in Items::new(Shape::Valued, &found.run.whole()) {
                let item = item?;
                if item.bytes >= &from[..] && !f(item.bytes, item.value) {
                    return Ok(());
                }
            }
            match found.above()? {
                Some(above) => from = above,
                None => return Ok(()),
            }
        }
    }

    /// Number of records below a key, without the collected changes.
    pub(in super::super) fn records_below(&self, key: &[u8]) -> Outcome<u64> {
        if self.head.members.is_none() {
            return Ok(0);
        }
        let found = self.locate(Tree::Groups, At::Key(key))?;
        let mut count = found.before;
        for item in Items::new(Shape::Valued, &found.run.whole()) {
            if item?.bytes >= key {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// The last key below this one, without the collected changes.
    pub(in super::super) fn key_below(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let Some(last) = self.records_below(key)?.checked_sub(1) else { return Ok(None) };
        let found = self.locate(Tree::Groups, At::Position(last))?;
        let nth = (last - found.before) as usize;
        let run = found.run.whole();
        match Items::new(Shape::Valued, &run).nth(nth) {
            Some(item) => Ok(Some(item?.bytes.to_vec())),
            None => Ok(None),
        }
    }

    /// Writes the collected changes into the tree.
    pub(super) fn apply_changes(&mut self) -> Outcome {
        let changes: Vec<_> = std::mem::take(&mut self.changes).into_iter().collect();
        if !changes.is_empty() {
            self.head.members.get_or_insert_default();
        }
        let mut rest = &changes[..];
        while let Some((first, _)) = rest.first() {
            let found = self.locate(Tree::Groups, At::Key(first))?;
            let above = found.above()?;
            let here = rest.partition_point(|(key, _)| above.as_ref().is_none_or(|up| key < up));
            let (now, later) = rest.split_at(here.max(1));
            let (bytes, count, at_end) = merged(&found, now)?;
            let fill = if at_end && above.is_none() { Fill::First } else { Fill::Even };
            self.replace(Tree::Groups, found, bytes, count, fill)?;
            rest = later;
        }
        Ok(())
    }
}

/// A run with changes in it, the number of its items, and whether they are all behind the others.
fn merged(found: &Found, changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Outcome<(Vec<u8>, u64, bool)> {
    let run = found.run.whole();
    let (mut bytes, mut count, mut at_end) = (Vec::with_capacity(run.len() + 256), 0, true);
    let mut changes = changes.iter().peekable();
    let push = |bytes: &mut Vec<u8>, change: &(Vec<u8>, Option<Vec<u8>>)| match &change.1 {
        Some(value) => {
            push_valued(bytes, &change.0, value);
            1
        }
        None => 0,
    };
    for item in Items::new(Shape::Valued, &run) {
        let item = item?;
        while let Some(change) = changes.next_if(|(key, _)| &key[..] < item.bytes) {
            count += push(&mut bytes, change);
            at_end = false;
        }
        if let Some(change) = changes.next_if(|(key, _)| key == item.bytes) {
            count += push(&mut bytes, change);
            at_end = false;
        } else {
            bytes.extend_from_slice(&run[item.start..item.end]);
            count += 1;
        }
    }
    changes.for_each(|change| count += push(&mut bytes, change));
    Ok((bytes, count, at_end))
}

impl Found {
    /// The separator of the next run; None: this is the last.
    fn above(&self) -> Outcome<Option<Vec<u8>>> {
        for step in self.path.iter().rev() {
            if let Some(next) = Node(&step.node[step.end..]).children().next() {
                return Ok(Some(next?.separator.to_vec()));
            }
        }
        Ok(None)
    }
}
