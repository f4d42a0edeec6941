//! LCS: the longest common subsequence of two strings (Redis: t_string.c, lcsCommand).

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::Entry;

use super::super::ctx::Ctx;
use super::access::is_string;
use super::errors::{NOT_INTEGER, Outcome, SYNTAX};
use super::joined::Whole;

/// Maximum of the table of lengths in bytes: the product of both strings' lengths, times four. It
/// is filled and read at once, which takes two milliseconds. (Redis: up to proto-max-bulk-len, and
/// it serves no other client meanwhile.)
const TABLE: u64 = 4 * 1024 * 1024;

struct Options {
    len: bool,
    idx: bool,
    least: i64,
    with_len: bool,
}

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]
pub(super) fn lcs(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = lcs_step(ctx, args);
    ctx.settle(outcome, args);
}

fn parse(args: &Args<'_>) -> Outcome<Options> {
    let mut options = Options { len: false, idx: false, least: 0, with_len: false };
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "IDX") {
            options.idx = true;
        } else if args.is(at, "LEN") {
            options.len = true;
        } else if args.is(at, "WITHMATCHLEN") {
            options.with_len = true;
        } else if args.is(at, "MINMATCHLEN") && at + 1 < args.len() {
            options.least = parse_i64(args.get(at + 1)).ok_or(NOT_INTEGER)?.max(0);
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    if options.len && options.idx {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    Ok(options)
}

fn lcs_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let first = ctx.read(args.get(1));
    let second = ctx.read(args.get(2));
    if [&first, &second].into_iter().flatten().any(|entry| !is_string(entry)) {
        return Err("ERR The specified keys must contain string values".into());
    }
    let options = parse(args)?;
    let len = |entry: &Option<Entry<'_>>| entry.as_ref().map_or(0, |entry| entry.len());
    let size = (len(&first) + 1).saturating_mul(len(&second) + 1).saturating_mul(4);
    if size > TABLE {
        return Err("ERR String too long for LCS".into());
    }
    let (a, b) = (first.as_ref().map(Whole::of), second.as_ref().map(Whole::of));
    let (a, b) = (a.as_deref().unwrap_or_default(), b.as_deref().unwrap_or_default());
    let table = Table::of(a, b);
    let found = table.trace(a, b);
    let len = table.at(a.len(), b.len());
    if options.len {
        ctx.reply().integer(len.into());
    } else if options.idx {
        answer_matches(ctx, &found.matches, len, &options);
    } else {
        ctx.reply().bulk(&found.text);
    }
    Ok(())
}

/// Lengths of the longest common subsequence of each pair of prefixes.
struct Table {
    /// At most the shorter string's length, which [`TABLE`] keeps below 1,024.
    lengths: Vec<u16>,
    width: usize,
}

/// A run of equal bytes: its ranges in the first and in the second string (ends included).
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

struct Trace {
    text: Vec<u8>,
    matches: Vec<Match>,
}

impl Table {
    fn of(a: &[u8], b: &[u8]) -> Table {
        let width = b.len() + 1;
        let mut lengths = vec![0; (a.len() + 1) * width];
        for (i, x) in a.iter().enumerate() {
            let (above, row) = lengths[i * width..].split_at_mut(width);
            let mut left = 0;
            for ((y, above), cell) in b.iter().zip(above.windows(2)).zip(&mut row[1..]) {
                left = if x == y { above[0] + 1 } else { above[1].max(left) };
                *cell = left;
            }
        }
        Table { lengths, width }
    }

    fn at(&self, i: usize, j: usize) -> u16 {
        self.lengths[i * self.width + j]
    }

    /// Walks from the ends back. Returns the subsequence and its runs, the last one first.
    fn trace(&self, a: &[u8], b: &[u8]) -> Trace {
        let (mut i, mut j) = (a.len(), b.len());
        let mut trace = Trace { text: Vec::new(), matches: Vec::new() };
        let mut run: Option<Match> = None;
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                trace.text.push(a[i - 1]);
                match &mut run {
                    Some(run) if run.a.0 == i && run.b.0 == j => {
                        (run.a.0, run.b.0) = (i - 1, j - 1)
                    }
                    _ => {
                        let next = Match { a: (i - 1, i - 1), b: (j - 1, j - 1) };
                        trace.matches.extend(run.replace(next));
                    }
                }
                (i, j) = (i - 1, j - 1);
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        trace.matches.extend(run);
        trace.text.reverse();
        trace
    }
}

fn answer_matches(ctx: &mut Ctx<'_>, matches: &[Match], len: u16, options: &Options) {
    let long = |run: &&Match| options.least == 0 || (run.a.1 - run.a.0 + 1) as i64 >= options.least;
    let shown: Vec<&Match> = matches.iter().filter(long).collect();
    let mut reply = ctx.reply();
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(shown.len());
    for run in shown {
        reply.array(2 + usize::from(options.with_len));
        for (from, to) in [run.a, run.b] {
            reply.array(2);
            reply.count(from);
            reply.count(to);
        }
        if options.with_len {
            reply.count(run.a.1 - run.a.0 + 1);
        }
    }
    reply.bulk(b"len");
    reply.integer(len.into());
}
