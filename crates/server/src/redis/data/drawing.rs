//! Random members of sets and sorted sets.

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    number::parse_i64,
};

use super::super::ctx::Ctx;
use super::Run;
use super::collection::{At, BYTES, ITEMS, Tree};
use super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX};
use super::random::pick;

/// Most members drawn with repetition.
const MOST_DRAWS: u64 = 1 << 20;

/// Parses `count [word]`, `word` for scores: the number of members to draw, below zero with
/// repetition, and whether the word is there.
pub(super) fn draws(args: &Args<'_>, word: &str) -> Outcome<(i64, bool)> {
    let count = drawn(args.get(2))?;
    if args.len() > 4 || (args.len() == 4 && !args.is(3, word)) {
        return Err(SYNTAX.into());
    }
    let with_scores = args.len() == 4;
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    Ok((count, with_scores))
}

/// Parses a number of members to draw.
pub(super) fn drawn(text: &[u8]) -> Outcome<i64> {
    let count = parse_i64(text).ok_or(NOT_INTEGER)?;
    if count == i64::MIN {
        let text = "ERR value is out of range, value must between -9223372036854775807 and \
                    9223372036854775807";
        return Err(text.into());
    }
    if count < 0 && count.unsigned_abs() > MOST_DRAWS {
        return Err("ERR value is out of range".into());
    }
    Ok(count)
}

/// Composes the answer for a member: its bytes, its score, and whether the score is wanted.
type Answer = fn(&mut Ctx<'_>, &[u8], f64, bool);

/// Members being drawn.
struct Drawing {
    kind: Kind,
    with_scores: bool,
    repeats: bool,
    left: u64,
    /// The next position, if every member is drawn once at most.
    at: u64,
    answer: Answer,
}

impl Ctx<'_> {
    /// Draws members and answers them, in steps.
    pub(super) fn draw(
        &mut self,
        args: &Args<'_>,
        again: Run,
        kind: Kind,
        (count, with_scores): (i64, bool),
        head: impl Fn(&mut Ctx<'_>, u64),
        answer: Answer,
    ) -> Outcome {
        let Some(coll) = self.open_to_read(args.get(1), kind)? else {
            self.reply().array(0);
            return Ok(());
        };
        let repeats = count < 0;
        let left = if repeats { count.unsigned_abs() } else { (count as u64).min(coll.len()) };
        drop(coll);
        let from = self.out.scratch().len();
        head(self, left);
        let job = Drawing { kind, with_scores, repeats, left, at: 0, answer };
        self.steps_from(args, again, from, job, |ctx, args, job| {
            let Some(coll) = ctx.open(args.get(1), job.kind)? else { return Err(Refused::Lost) };
            if job.repeats {
                let (mut drawn, mut bytes) = (0, 0);
                while drawn < job.left.min(ITEMS as u64) && bytes < BYTES {
                    if let Some((member, score)) = coll.any()? {
                        bytes += member.len();
                        (job.answer)(ctx, &member, score, job.with_scores);
                    }
                    drawn += 1;
                }
                job.left -= drawn;
                return Ok(job.left == 0);
            }
            if job.left == 0 {
                return Ok(true);
            }
            let found = coll.locate(Tree::Main, At::Position(job.at))?;
            let run = found.run.whole();
            let shape = if job.kind == Kind::Set { Shape::Bare } else { Shape::Scored };
            // Each is taken with the probability that yields the wanted number (Knuth's
            // algorithm S).
            for item in Items::new(shape, &run) {
                let item = item?;
                if (pick((coll.len() - job.at) as usize) as u64) < job.left {
                    job.left -= 1;
                    (job.answer)(ctx, item.bytes, item.score, job.with_scores);
                }
                job.at += 1;
            }
            Ok(job.left == 0 || job.at >= coll.len())
        });
        Ok(())
    }
}
