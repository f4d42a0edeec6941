//! Operations on sorted sets.

use larder_proto::resp::collection::{
    Fill, Item, Items, Score, Shape, compare, find, push_item, rank_key,
};

use super::super::errors::Outcome;
use super::{At, Coll, Tree};

impl Coll<'_> {
    /// The score of a member.
    pub(in super::super) fn score(&self, member: &[u8]) -> Outcome<Option<Score>> {
        if self.len() == 0 {
            return Ok(None);
        }
        let found = match self.head.members.is_some() {
            true => self.locate(Tree::Members, At::Key(&self.mark(member).to_be_bytes()))?,
            // Without a tree of members it is packed, or about to become a tree: looked up below.
            false if self.is_packed() => self.locate(Tree::Main, At::Position(0))?,
            false => {
                let mut score = None;
                self.each(Tree::Main, 0, &mut |item| {
                    score = (item.bytes == member).then_some(item.score);
                    score.is_none()
                })?;
                return Ok(score);
            }
        };
        Ok(find(Shape::Scored, &found.run.whole(), member)?.map(|item| item.score))
    }

    /// Gives a member this score (`None`: removes it); `old`: the score it has.
    pub(in super::super) fn set_score(
        &mut self,
        member: &[u8],
        old: Option<Score>,
        new: Option<Score>,
    ) -> Outcome {
        // Redis's small sorted sets have no -0 either.
        let new = new.map(|score| if score == 0.0 { 0.0 } else { score });
        if let Some(old) = old {
            self.take_ranked(member, old)?;
        }
        if let Some(new) = new {
            self.put_ranked(member, new)?;
        }
        if self.head.members.is_some() {
            self.put_member(member, new)?;
        }
        // A tree needs its members, a packed set has none.
        self.settle_members()
    }

    fn take_ranked(&mut self, member: &[u8], score: Score) -> Outcome {
        let found = self.locate(Tree::Main, At::Key(&rank_key(score, member)))?;
        let run = found.run.whole();
        let Some(item) = find(Shape::Scored, &run, member)? else { return Ok(()) };
        let bytes = [&run[..item.start], &run[item.end..]].concat();
        let count = found.count - 1;
        drop(run);
        self.head.count -= 1;
        self.replace(Tree::Main, found, bytes, count, Fill::Even)
    }

    fn put_ranked(&mut self, member: &[u8], score: Score) -> Outcome {
        let found = self.locate(Tree::Main, At::Key(&rank_key(score, member)))?;
        let run = found.run.whole();
        let mut at = run.len();
        for item in Items::new(Shape::Scored, &run) {
            let item = item?;
            if compare((item.score, item.bytes), (score, member)).is_gt() {
                at = item.start;
                break;
            }
        }
        let mut bytes = Vec::with_capacity(run.len() + member.len() + 16);
        bytes.extend_from_slice(&run[..at]);
        push_item(&mut bytes, Shape::Scored, member, score);
        bytes.extend_from_slice(&run[at..]);
        let is_last = at == run.len() && found.before + found.count == self.len();
        drop(run);
        let count = if self.len() == 0 { 1 } else { found.count + 1 };
        self.head.count += 1;
        let fill = if is_last { Fill::First } else { Fill::Even };
        self.replace(Tree::Main, found, bytes, count, fill)
    }

    fn put_member(&mut self, member: &[u8], score: Option<Score>) -> Outcome {
        let key = self.mark(member).to_be_bytes();
        let found = self.locate(Tree::Members, At::Key(&key))?;
        let run = found.run.whole();
        let mut bytes = Vec::with_capacity(run.len() + member.len() + 16);
        let mut count = found.count;
        match find(Shape::Scored, &run, member)? {
            Some(item) => {
                bytes.extend_from_slice(&run[..item.start]);
                bytes.extend_from_slice(&run[item.end..]);
                count -= 1;
            }
            None => bytes.extend_from_slice(&run),
        }
        if let Some(score) = score {
            push_item(&mut bytes, Shape::Scored, member, score);
            count += 1;
        }
        drop(run);
        self.replace(Tree::Members, found, bytes, count, Fill::Even)
    }

    /// Removes members from a position on, at most as many as lie in one run; passes each to `f`.
    /// Returns their number.
    pub(in super::super) fn remove_ranked(
        &mut self,
        position: u64,
        most: u64,
        f: &mut dyn FnMut(&[u8], Score),
    ) -> Outcome<u64> {
        let mut removed = Vec::new();
        let number = self.remove_some(position, most, &mut |item| {
            removed.push(item.bytes.to_vec());
            f(item.bytes, item.score);
        })?;
        if self.head.members.is_some() && self.len() > 0 {
            removed.iter().try_for_each(|member| self.put_member(member, None))?;
            self.settle_members()?;
        }
        Ok(number)
    }

    /// Number of members for which `before` is true: it is for all up to one. `key`: a key of the
    /// run with the first for which it is not.
    pub(in super::super) fn count_before(
        &self,
        key: &[u8],
        before: &dyn Fn(&Item<'_>) -> bool,
    ) -> Outcome<u64> {
        if self.len() == 0 {
            return Ok(0);
        }
        let found = self.locate(Tree::Main, At::Key(key))?;
        let run = found.run.whole();
        let mut count = found.before;
        for item in Items::new(Shape::Scored, &run) {
            if !before(&item?) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// The position of a member with this score.
    pub(in super::super) fn rank(&self, member: &[u8], score: Score) -> Outcome<u64> {
        self.count_before(&rank_key(score, member), &|item| {
            compare((item.score, item.bytes), (score, member)).is_lt()
        })
    }
}
