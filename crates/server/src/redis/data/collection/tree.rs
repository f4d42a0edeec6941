//! Finding and replacing runs in a tree.

use larder_proto::resp::collection::{
    Damaged, Fill, Kind, MARK, Node, Place, Root, Shape, Times, mark_key, push_child, push_item,
};

use super::super::errors::Outcome;
use super::{Bytes, Coll, Side, Tree, pages::fits};
use crate::clock::Ms;

/// Most bytes of a run of a list or stream, and of a collection without a tree: a record of the
/// store up to this size is written in one step.
pub(super) const RUN: usize = 4000;
/// Most bytes of a run of a set, sorted set or hash, unless it is one item. Its changes are
/// everywhere, and each writes a run anew; a run takes some 60 bytes beside its items
/// (decision 46).
const SHORT_RUN: usize = 2000;
/// Bytes of the only run of a tree below which it is no tree any more.
const LOWERED: usize = RUN / 4;
/// Most bytes of a node, and of the root.
pub(super) const NODE: usize = 2000;
/// Most levels of a tree: more than memory has room for, with two children to a node.
const LEVELS: u8 = 40;
/// Fewest children of a node but the last of several: their separators may be long.
pub(super) const CHILDREN: usize = 2;

/// Where to look in a tree.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum At<'k> {
    /// The run with this item; the last run if there are not as many.
    Position(u64),
    /// The run in which this key is, or would be.
    Key(&'k [u8]),
    /// A run of a hash with a field that has expired at this time.
    Due(Ms),
}

/// A key by which a tree is ordered by marks.
pub(super) struct MarkKey {
    bytes: [u8; MARK + 16],
    len: usize,
}

impl std::ops::Deref for MarkKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A run in its tree.
pub(in super::super) struct Found {
    /// The nodes from the root on.
    pub(super) path: Vec<Step>,
    /// Its part; None: the run is the root.
    part: Option<u64>,
    /// Room of that part.
    room: usize,
    /// Its bytes.
    pub(in super::super) run: Bytes,
    /// Number of items before it.
    pub(in super::super) before: u64,
    /// Number of its items.
    pub(in super::super) count: u64,
}

/// A node on the path to a run, and the child in it.
pub(super) struct Step {
    pub(super) node: Vec<u8>,
    part: Option<u64>,
    room: usize,
    start: usize,
    pub(super) end: usize,
    /// Number of items below the child.
    count: u64,
}

/// A run to be stored: its bytes, the number of its items, its separator.
pub(super) type Run = (Vec<u8>, u64, Vec<u8>);

impl Coll<'_> {
    /// Most bytes of a run.
    pub(super) fn run_size(&self) -> usize {
        match self.kind {
            Kind::List | Kind::Stream => RUN,
            Kind::Set | Kind::SortedSet | Kind::Hash => SHORT_RUN,
        }
    }

    /// The key of a mark. A hash's separators end with times, which must not count.
    pub(super) fn mark_key(&self, mark: u64) -> MarkKey {
        let len = if self.kind == Kind::Hash { MARK + 16 } else { MARK };
        MarkKey { bytes: mark_key(mark), len }
    }

    fn tree(&self, tree: Tree) -> Outcome<&Root> {
        match tree {
            Tree::Main => Ok(&self.head.main),
            Tree::Members | Tree::Groups => Ok(self.head.members.as_ref().ok_or(Damaged)?),
        }
    }

    /// Finds a run.
    pub(in super::super) fn locate(&self, tree: Tree, at: At<'_>) -> Outcome<Found> {
        let root = self.tree(tree)?;
        let (mut level, mut bytes) = (root.level, Bytes::Own(root.bytes.clone()));
        if level > LEVELS {
            return Err(Damaged.into());
        }
        let (mut path, mut part, mut room) = (Vec::with_capacity(level.into()), None, 0);
        let (mut before, mut count) = (0, self.len());
        while level > 0 {
            let node = bytes.into_vec();
            let place = match at {
                At::Position(position) => Node(&node).at(position.saturating_sub(before))?,
                At::Key(key) => Node(&node).with(key)?,
                At::Due(now) => due(&node, now)?,
            };
            (before, count) = (before + place.before, place.count);
            let (next, start, end) = (place.part, place.start, place.end);
            path.push(Step { node, part, room, start, end, count });
            (bytes, room) = self.page(next)?;
            (part, level) = (Some(next), level - 1);
        }
        self.still()?;
        Ok(Found { path, part, room, run: bytes, before, count })
    }

    /// Replaces a found run by these bytes of so many items. `fill`: see
    /// [`larder_proto::resp::collection::divide`].
    pub(in super::super) fn replace(
        &mut self,
        tree: Tree,
        mut found: Found,
        bytes: Vec<u8>,
        count: u64,
        fill: Fill,
    ) -> Outcome {
        let (mut bytes, mut count) = (bytes, count);
        let is_small = count > 0 && bytes.len() < self.run_size() / 4 && fill == Fill::Even;
        if is_small && found.part.is_some() {
            (bytes, count) = self.join(&mut found, bytes, count)?;
        }
        let Some(step) = found.path.last() else {
            return self.replace_root(tree, bytes, count, fill);
        };
        let first = separator_at(&step.node, step.start)?;
        if self.stays(&found, &bytes, count) {
            return self.put_run(tree, found, (bytes, count, first));
        }
        if let Some(part) = found.part {
            self.drop_part(part, found.run.len());
        }
        let runs = self.runs(tree, bytes, count, first, fill)?;
        let children = self.put_runs(&runs)?;
        self.put_in(tree, found, children, sum(&runs))
    }

    /// May the part of a found run get these bytes where it lies?
    fn stays(&self, found: &Found, bytes: &[u8], count: u64) -> bool {
        found.part.is_some()
            && count > 0
            && fits(found.room, bytes.len())
            && (bytes.len() <= self.run_size() || count == 1)
    }

    /// Gives the part of a found run these bytes.
    fn put_run(&mut self, tree: Tree, found: Found, (bytes, count, first): Run) -> Outcome {
        let Some(part) = found.part else { return Ok(()) };
        let times = if self.has_times { Some(Times::of_run(&bytes)?) } else { None };
        let child = child(count, part, first, times);
        self.edit(part, found.room, found.run.len(), bytes);
        self.put_in(tree, found, child, count)
    }

    /// Puts the elements of a list beside a found run that is full and stays as it is.
    pub(super) fn put_beside(
        &mut self,
        mut found: Found,
        side: Side,
        (bytes, count): (Vec<u8>, u64),
        fill: Fill,
    ) -> Outcome {
        if let Some(step) = found.path.last_mut() {
            let place = if side == Side::Left { step.start } else { step.end };
            (step.start, step.end, step.count) = (place, place, 0);
        }
        let runs = self.runs(Tree::Main, bytes, count, Vec::new(), fill)?;
        let children = self.put_runs(&runs)?;
        self.put_in(Tree::Main, found, children, sum(&runs))
    }

    /// May a found run not grow, and stay while others are put beside it?
    pub(super) fn is_full(found: &Found) -> bool {
        // Of a list.
        found.part.is_some() && found.run.len() >= RUN
    }

    /// The separator of a found run.
    pub(super) fn separator_of(&self, found: &Found) -> Outcome<Vec<u8>> {
        found
            .path
            .last()
            .map_or_else(|| Ok(Vec::new()), |step| separator_at(&step.node, step.start))
    }

    /// Replaces a found run by these runs.
    pub(super) fn replace_runs(&mut self, tree: Tree, found: Found, mut runs: Vec<Run>) -> Outcome {
        let is_one = runs.len() == 1;
        if let Some(part) = found.part {
            if is_one
                && let Some(run) =
                    runs.pop_if(|(bytes, count, _)| self.stays(&found, bytes, *count))
            {
                return self.put_run(tree, found, run);
            }
            self.drop_part(part, found.run.len());
            let children = self.put_runs(&runs)?;
            return self.put_in(tree, found, children, sum(&runs));
        }
        if is_one {
            self.root(tree).bytes = runs.pop().unwrap_or_default().0;
        } else {
            let children = self.put_runs(&runs)?;
            let level = u8::from(!runs.is_empty());
            *self.root(tree) = Root { level, bytes: children };
        }
        Ok(())
    }

    /// Puts children, with so many items below them, into the tree in place of that of a found run.
    fn put_in(
        &mut self,
        tree: Tree,
        mut found: Found,
        mut children: Vec<u8>,
        mut count: u64,
    ) -> Outcome {
        while let Some(step) = found.path.pop() {
            let Step { mut node, part, room, start, end, count: before } = step;
            let len = node.len();
            node.splice(start..end, children);
            let Some(above) = found.path.last() else {
                self.root(tree).bytes = node;
                return self.settle_root(tree);
            };
            count = (above.count + count).saturating_sub(before);
            let first = separator_at(&above.node, above.start)?;
            let stays = part.filter(|_| {
                !node.is_empty() && node.len() <= NODE.max(len) && fits(room, node.len())
            });
            children = match stays {
                Some(part) => {
                    let times = if self.has_times { Some(Times::of_node(&node)?) } else { None };
                    self.edit(part, room, len, node);
                    child(count, part, first, times)
                }
                None => {
                    if let Some(part) = part {
                        self.drop_part(part, len);
                    }
                    self.put_nodes(&node, &first)?
                }
            };
        }
        Ok(())
    }

    /// Joins a small run with a neighbour below the same node.
    fn join(&mut self, found: &mut Found, bytes: Vec<u8>, count: u64) -> Outcome<(Vec<u8>, u64)> {
        let most = self.run_size() / 4 * 3;
        let Some(step) = found.path.last_mut() else { return Ok((bytes, count)) };
        let (mut before, mut after) = (None, None);
        for child in Node(&step.node).children() {
            let child = child?;
            if child.end == step.start {
                before = Some((child.part, child.count, child.start));
            } else if child.start == step.end {
                after = Some((child.part, child.count, child.end));
            }
        }
        if let Some((part, more, end)) = after {
            let next = self.part(part)?;
            if next.len() + bytes.len() <= most {
                (step.end, step.count) = (end, step.count + more);
                self.drop_part(part, next.len());
                return Ok(([bytes, next.into_vec()].concat(), count + more));
            }
        }
        let Some(step) = found.path.last_mut() else { return Ok((bytes, count)) };
        if let Some((part, more, start)) = before {
            let last = self.part(part)?;
            if last.len() + bytes.len() <= most {
                (step.start, step.count) = (start, step.count + more);
                self.drop_part(part, last.len());
                return Ok(([last.into_vec(), bytes].concat(), count + more));
            }
        }
        Ok((bytes, count))
    }

    /// Replaces the only run of a tree without nodes.
    fn replace_root(&mut self, tree: Tree, bytes: Vec<u8>, count: u64, fill: Fill) -> Outcome {
        let is_packed = match self.kind {
            Kind::Hash => is_small(count, bytes.len() as u64),
            _ => bytes.len() <= RUN,
        };
        if is_packed {
            self.root(tree).bytes = bytes;
            return Ok(());
        }
        let runs = self.runs(tree, bytes, count, Vec::new(), fill)?;
        let children = self.put_runs(&runs)?;
        *self.root(tree) = Root { level: 1, bytes: children };
        self.settle_root(tree)
    }

    /// Divides or lowers a root that has become too large or too small.
    fn settle_root(&mut self, tree: Tree) -> Outcome {
        while self.root(tree).bytes.len() > NODE
            && Node(&self.root(tree).bytes).children().count() >= 2 * CHILDREN
        {
            let node = std::mem::take(&mut self.root(tree).bytes);
            let children = self.put_nodes(&node, &[])?;
            let root = self.root(tree);
            (root.bytes, root.level) = (children, root.level + 1);
        }
        while self.lower_root(tree)? {}
        Ok(())
    }

    /// Replaces a root with one child by that child. False: it stays.
    fn lower_root(&mut self, tree: Tree) -> Outcome<bool> {
        let root = self.root(tree);
        let level = root.level;
        let children = Node(&root.bytes).children().take(2);
        let parts: Result<Vec<u64>, Damaged> =
            children.map(|child| child.map(|child| child.part)).collect();
        let only = match parts?[..] {
            [only] => only,
            [] => {
                *root = Root::default();
                return Ok(false);
            }
            _ => return Ok(false),
        };
        let bytes = self.part(only)?;
        let len = bytes.len();
        if level == 1 && (len > LOWERED || tree == Tree::Members) {
            return Ok(false);
        }
        self.drop_part(only, len);
        *self.root(tree) = Root { level: level - 1, bytes: bytes.into_vec() };
        Ok(level > 1)
    }

    /// Gives a sorted set that is a tree its tree of members, and takes it from one that is not.
    pub(super) fn settle_members(&mut self) -> Outcome {
        match (self.is_packed(), self.head.members.is_some()) {
            (false, false) => {
                let mut members = Vec::new();
                self.each(Tree::Main, 0, &mut |item| {
                    push_item(&mut members, Shape::Scored, item.bytes, item.score);
                    true
                })?;
                let runs = self.runs_by_mark(&members, Vec::new())?;
                let children = self.put_runs(&runs)?;
                self.head.members = Some(Root { level: 1, bytes: children });
                self.settle_root(Tree::Members)
            }
            (true, true) => {
                // A small one: its members lie in few parts.
                let mut parts = Vec::new();
                if let Some(root) = self.head.members.take() {
                    self.collect(root.level, &root.bytes, &mut parts)?;
                }
                parts.into_iter().for_each(|part| self.drop_part(part, 0));
                (self.head.id, self.head.bytes) = (self.head.id, 0);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// All parts.
    pub(in super::super) fn parts(&self) -> Outcome<Vec<u64>> {
        let mut parts = Vec::new();
        for root in [Some(&self.head.main), self.head.members.as_ref()].into_iter().flatten() {
            if root.level > 0 {
                self.collect(root.level, &root.bytes, &mut parts)?;
            }
        }
        Ok(parts)
    }

    /// The parts below a node.
    pub(super) fn collect(&self, level: u8, node: &[u8], parts: &mut Vec<u64>) -> Outcome {
        for child in Node(node).children() {
            let child = child?;
            parts.push(child.part);
            if level > 1 && level <= LEVELS {
                let below = self.part(child.part)?.into_vec();
                self.collect(level - 1, &below, parts)?;
            }
        }
        Ok(())
    }
}

/// Is a hash small enough for one record? Its fields are listed in the order they came, as Redis
/// does up to 512 of them. A record with few fields may be large: a tree of them saves little.
pub(in super::super) fn is_small(fields: u64, bytes: u64) -> bool {
    const SMALL: (u64, u64) = (512, 16 * 1024);
    const FEW: (u64, u64) = (16, 4 * 1024 * 1024 - 1024);
    [SMALL, FEW].into_iter().any(|(most, size)| fields <= most && bytes <= size)
}

/// A child of a node.
fn child(count: u64, part: u64, mut separator: Vec<u8>, times: Option<Times>) -> Vec<u8> {
    if let Some(times) = times {
        times.seal(&mut separator);
    }
    let mut child = Vec::with_capacity(separator.len() + 16);
    push_child(&mut child, count, part, &separator);
    child
}

/// Number of items of runs.
fn sum(runs: &[Run]) -> u64 {
    runs.iter().map(|(_, count, _)| count).sum()
}

/// A child with a field that has expired.
fn due(node: &[u8], now: Ms) -> Result<Place<'_>, Damaged> {
    for child in Node(node).children() {
        let child = child?;
        if Times::read(child.separator).soonest <= now {
            return Ok(child);
        }
    }
    Err(Damaged)
}

/// The separator of the child at this place of a node; empty at its end.
pub(super) fn separator_at(node: &[u8], start: usize) -> Outcome<Vec<u8>> {
    match Node(&node[start.min(node.len())..]).children().next() {
        Some(child) => Ok(child?.separator.to_vec()),
        None => Ok(Vec::new()),
    }
}
