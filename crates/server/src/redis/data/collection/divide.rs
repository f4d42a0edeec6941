//! Runs and nodes that become too large, or new: they are divided, and stored as new parts.

use larder_proto::resp::collection::{
    Damaged, Fill, Items, Kind, Node, Shape, Times, divide, push_child, rank_key, separator,
};

use super::super::errors::Outcome;
use super::tree::{CHILDREN, NODE, Run, separator_at};
use super::{Coll, Tree};

impl Coll<'_> {
    /// Divides bytes into runs. `first`: the separator of the first.
    pub(super) fn runs(
        &self,
        tree: Tree,
        bytes: Vec<u8>,
        count: u64,
        first: Vec<u8>,
        fill: Fill,
    ) -> Outcome<Vec<Run>> {
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let most = self.run_size();
        if bytes.len() <= most {
            return Ok(vec![(bytes, count, first)]);
        }
        let shape = self.shape();
        if tree == Tree::Members || matches!(self.kind, Kind::Set | Kind::Hash) {
            return self.runs_by_mark(&bytes, first);
        }
        let mut runs: Vec<Run> = Vec::new();
        let parts = divide(shape, &bytes, most, fill)?;
        if parts.len() == 1 {
            return Ok(vec![(bytes, count, first)]);
        }
        for (part, count) in parts {
            let above = match runs.last() {
                None => first.clone(),
                Some(_) if self.kind == Kind::List => Vec::new(),
                Some((before, ..)) => between(shape, before, &bytes[part.clone()])?,
            };
            runs.push((bytes[part].to_vec(), count, above));
        }
        Ok(runs)
    }

    /// Divides members by their marks: equal marks stay together.
    pub(super) fn runs_by_mark(&self, bytes: &[u8], first: Vec<u8>) -> Outcome<Vec<Run>> {
        let shape = self.shape();
        let mut items = Vec::new();
        for item in Items::new(shape, bytes) {
            let item = item?;
            items.push((self.mark(item.bytes), item.start, item.end));
        }
        items.sort_unstable();
        let most = self.run_size();
        let aim = bytes.len() / bytes.len().div_ceil(most) + 1;
        let mut runs: Vec<Run> = vec![(Vec::new(), 0, first)];
        let mut last = 0;
        for (mark, start, end) in items {
            let is_full = runs.last().is_some_and(|(run, ..)| {
                !run.is_empty() && (run.len() >= aim || run.len() + end - start > most)
            });
            if is_full && mark != last {
                runs.push((Vec::new(), 0, mark.to_be_bytes().to_vec()));
            }
            last = mark;
            if let Some((run, count, _)) = runs.last_mut() {
                run.extend_from_slice(&bytes[start..end]);
                *count += 1;
            }
        }
        Ok(runs)
    }

    pub(super) fn put_runs(&mut self, runs: &[Run]) -> Outcome<Vec<u8>> {
        let mut children = Vec::new();
        for (run, count, separator) in runs {
            let part = self.put_part(run)?;
            if self.has_times {
                let mut sealed = separator.clone();
                Times::of_run(run)?.seal(&mut sealed);
                push_child(&mut children, *count, part, &sealed);
            } else {
                push_child(&mut children, *count, part, separator);
            }
        }
        Ok(children)
    }

    /// Stores a node as parts of at most [`NODE`] bytes; returns them as children.
    pub(super) fn put_nodes(&mut self, node: &[u8], first: &[u8]) -> Outcome<Vec<u8>> {
        if node.is_empty() {
            return Ok(Vec::new());
        }
        let aim = node.len() / node.len().div_ceil(NODE) + 1;
        let (mut children, mut start, mut count, mut own) = (Vec::new(), 0, 0, 0);
        let mut separator = first.to_vec();
        for child in Node(node).children() {
            let child = child?;
            (count, own) = (count + child.count, own + 1);
            let is_full = child.end - start >= aim && own >= CHILDREN;
            if is_full || child.end == node.len() {
                let part = self.put_part(&node[start..child.end])?;
                if self.has_times {
                    Times::of_node(&node[start..child.end])?.seal(&mut separator);
                }
                push_child(&mut children, count, part, &separator);
                (start, count, own) = (child.end, 0, 0);
                separator = separator_at(node, start)?;
            }
        }
        Ok(children)
    }
}

/// The separator between two runs by score and member, or by key.
fn between(shape: Shape, before: &[u8], run: &[u8]) -> Outcome<Vec<u8>> {
    let last = Items::new(shape, before).last().ok_or(Damaged)??;
    let first = Items::new(shape, run).next().ok_or(Damaged)??;
    if shape == Shape::Valued {
        return Ok(separator(last.bytes, first.bytes));
    }
    Ok(separator(&rank_key(last.score, last.bytes), &rank_key(first.score, first.bytes)))
}
