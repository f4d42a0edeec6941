//! GEOSEARCH, GEOSEARCHSTORE, GEORADIUS and its kin, in steps.

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape as Form, parse_score, rank_key},
    geo::{Position, Shape},
    number::parse_i64,
};
use larder_store::PutError;

use super::super::super::ctx::Ctx;
use super::super::Run;
use super::super::collection::{At, SlowMap, Tree};
use super::super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX, refused};
use super::super::zsets::{Ranked, store};
use super::{SOME, position, unit, write_distance, write_position};
use crate::room::{Held, Place};

/// Bytes of members that are answered between two checks of the clock.
const PIECE: usize = 256 << 10;
/// Bytes of a member that was found beside its own.
const ENTRY: u64 = 160;

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Radius,
    ByMember,
    Search,
    SearchStore,
}

/// GEORADIUS key longitude latitude radius unit \[...]
pub(super) fn georadius(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    search(ctx, args, georadius, Command::Radius, true);
}

/// GEORADIUS_RO key longitude latitude radius unit \[...]
pub(super) fn georadius_ro(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    search(ctx, args, georadius_ro, Command::Radius, false);
}

/// GEORADIUSBYMEMBER key member radius unit \[...]
pub(super) fn georadiusbymember(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    search(ctx, args, georadiusbymember, Command::ByMember, true);
}

/// GEORADIUSBYMEMBER_RO key member radius unit \[...]
pub(super) fn georadiusbymember_ro(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    search(ctx, args, georadiusbymember_ro, Command::ByMember, false);
}

/// GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius unit | BYBOX
/// width height unit \[ASC | DESC] \[COUNT count \[ANY]] \[WITHCOORD] \[WITHDIST] \[WITHHASH]
pub(super) fn geosearch(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    search(ctx, args, geosearch, Command::Search, false);
}

/// GEOSEARCHSTORE destination source ... \[STOREDIST]
pub(super) fn geosearchstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    search(ctx, args, geosearchstore, Command::SearchStore, true);
}

/// The order of what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    No,
    Ascending,
    Descending,
}

/// The options of a search.
struct Options {
    source: usize,
    /// Where the result is stored, and whether with distances for scores.
    store: Option<usize>,
    distances: bool,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    count: u64,
    any: bool,
    sort: Sort,
    middle: Option<Position>,
    shape: Option<Shape>,
    unit: f64,
}

fn search(ctx: &mut Ctx<'_>, args: &Args<'_>, again: Run, form: Command, stores: bool) {
    let outcome = (|| {
        let source = if form == Command::SearchStore { 2 } else { 1 };
        let there = ctx.open_to_read(args.get(source), Kind::SortedSet)?.is_some();
        let Some(options) = parse(ctx, args, form, stores, there)? else { return Ok(()) };
        if !there {
            match options.store {
                Some(key) => {
                    let event = event(form);
                    let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
                    store(ctx, args, key, event, (Ranked::default(), held));
                }
                None => ctx.reply().array(0),
            }
            return Ok(());
        }
        let (Some(middle), Some(shape)) = (options.middle, options.shape) else { return Ok(()) };
        let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
        let ranges = shape.ranges(middle);
        let job = Search {
            options,
            middle,
            shape,
            ranges,
            nth: 0,
            at: None,
            found: SlowMap::default(),
            number: 0,
            bytes: 0,
            held,
            ranked: Ranked::default(),
            answered: None,
            event: event(form),
        };
        ctx.steps(args, again, job, Search::step);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

fn event(form: Command) -> &'static str {
    match form {
        Command::Search | Command::SearchStore => "geosearchstore",
        Command::Radius | Command::ByMember => "georadiusstore",
    }
}

/// A distance and its unit.
fn radius(args: &Args<'_>, at: usize) -> Outcome<(f64, f64)> {
    let radius = parse_score(args.get(at)).ok_or("ERR need numeric radius")?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    Ok((radius, unit(args.get(at + 1))?))
}

fn of_member(ctx: &Ctx<'_>, args: &Args<'_>, key: usize, at: usize) -> Outcome<Position> {
    const MISSING: &str = "ERR could not decode requested zset member";
    let set = ctx.open(args.get(key), Kind::SortedSet)?.ok_or(MISSING)?;
    Ok(Position::of_score(set.score(args.get(at))?.ok_or(MISSING)?))
}

/// Parses all. None: an error is answered. `there`: the source exists.
fn parse(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    form: Command,
    stores: bool,
    there: bool,
) -> Outcome<Option<Options>> {
    let mut options = Options {
        source: 1,
        store: None,
        distances: false,
        with_distance: false,
        with_hash: false,
        with_position: false,
        count: 0,
        any: false,
        sort: Sort::No,
        middle: None,
        shape: None,
        unit: 1.0,
    };
    let at = match form {
        Command::Radius => {
            let Some(middle) = position(ctx, args, 2)? else { return Ok(None) };
            options.middle = Some(middle);
            options.circle(radius(args, 4)?);
            6
        }
        Command::ByMember if !there => 5,
        Command::ByMember => {
            options.middle = Some(of_member(ctx, args, 1, 2)?);
            options.circle(radius(args, 3)?);
            5
        }
        Command::Search => 2,
        Command::SearchStore => {
            (options.source, options.store) = (2, Some(1));
            3
        }
    };
    if !options.words(ctx, args, at, form, stores, there)? {
        return Ok(None);
    }
    if !options.check(ctx, args, form, there) {
        return Ok(None);
    }
    if options.count > 0 && options.sort == Sort::No && !options.any {
        options.sort = Sort::Ascending;
    }
    Ok(Some(options))
}

impl Options {
    fn circle(&mut self, (radius, unit): (f64, f64)) {
        (self.shape, self.unit) = (Some(Shape::Circle(radius * unit)), unit);
    }

    /// Parses the options. False: an error is answered.
    fn words(
        &mut self,
        ctx: &mut Ctx<'_>,
        args: &Args<'_>,
        from: usize,
        form: Command,
        stores: bool,
        there: bool,
    ) -> Outcome<bool> {
        let searches = matches!(form, Command::Search | Command::SearchStore);
        let (mut at, mut by_member, mut by_place) = (from, false, false);
        let (mut by_radius, mut by_box) = (false, false);
        while at < args.len() {
            let more = args.len() - at - 1;
            match () {
                () if args.is(at, "WITHDIST") => self.with_distance = true,
                () if args.is(at, "WITHHASH") => self.with_hash = true,
                () if args.is(at, "WITHCOORD") => self.with_position = true,
                () if args.is(at, "ANY") => self.any = true,
                () if args.is(at, "ASC") => self.sort = Sort::Ascending,
                () if args.is(at, "DESC") => self.sort = Sort::Descending,
                () if more > 0 && args.is(at, "COUNT") => {
                    let count = parse_i64(args.get(at + 1)).ok_or(NOT_INTEGER)?;
                    if count <= 0 {
                        return Err("ERR COUNT must be > 0".into());
                    }
                    self.count = count as u64;
                    at += 1;
                }
                () if more > 0
                    && stores
                    && !searches
                    && (args.is(at, "STORE") || args.is(at, "STOREDIST")) =>
                {
                    (self.store, self.distances) = (Some(at + 1), args.is(at, "STOREDIST"));
                    at += 1;
                }
                () if form == Command::SearchStore && args.is(at, "STOREDIST") => {
                    self.distances = true;
                }
                () if more > 0 && searches && !by_place && args.is(at, "FROMMEMBER") => {
                    by_member = true;
                    if there {
                        self.middle = Some(of_member(ctx, args, self.source, at + 1)?);
                    } else {
                        self.middle = Some(Position::default());
                    }
                    at += 1;
                }
                () if more > 1 && searches && !by_member && args.is(at, "FROMLONLAT") => {
                    by_place = true;
                    let Some(middle) = position(ctx, args, at + 1)? else { return Ok(false) };
                    self.middle = Some(middle);
                    at += 2;
                }
                () if more > 1 && searches && !by_box && args.is(at, "BYRADIUS") => {
                    by_radius = true;
                    self.circle(radius(args, at + 1)?);
                    at += 2;
                }
                () if more > 2 && searches && !by_radius && args.is(at, "BYBOX") => {
                    by_box = true;
                    self.rectangle(args, at + 1)?;
                    at += 3;
                }
                () => return Err(SYNTAX.into()),
            }
            at += 1;
        }
        Ok(true)
    }

    fn rectangle(&mut self, args: &Args<'_>, at: usize) -> Outcome {
        let width = parse_score(args.get(at)).ok_or("ERR need numeric width")?;
        let height = parse_score(args.get(at + 1)).ok_or("ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err("ERR height or width cannot be negative".into());
        }
        let unit = unit(args.get(at + 2))?;
        (self.shape, self.unit) = (Some(Shape::Box(width * unit, height * unit)), unit);
        Ok(())
    }

    /// Checks the options against each other. False: an error is answered.
    fn check(&self, ctx: &mut Ctx<'_>, args: &Args<'_>, form: Command, there: bool) -> bool {
        let searches = matches!(form, Command::Search | Command::SearchStore);
        let name = String::from_utf8_lossy(args.get(0)).into_owned();
        let with = self.with_distance || self.with_hash || self.with_position;
        let text = if self.store.is_some() && with {
            let name = match form {
                Command::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            format!("ERR {name} is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
        } else if searches && self.middle.is_none() {
            format!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}")
        } else if searches && self.shape.is_none() {
            format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {name}")
        } else if self.any && self.count == 0 {
            "ERR the ANY argument requires COUNT argument".to_owned()
        } else {
            debug_assert!(!there || (self.middle.is_some() && self.shape.is_some()));
            return true;
        };
        ctx.reply().error(text);
        false
    }
}

/// A member that was found.
struct Found {
    member: Box<[u8]>,
    score: f64,
    distance: f64,
    position: Position,
}

/// A search in progress.
struct Search {
    options: Options,
    middle: Position,
    shape: Shape,
    ranges: Vec<(f64, f64)>,
    /// The range that is searched, and the next key in it.
    nth: usize,
    at: Option<Vec<u8>>,
    /// By distance, if they are sorted, and then in the order in which they were found.
    found: SlowMap<(u64, u64), Found>,
    number: u64,
    bytes: u64,
    held: Held,
    /// The members to be stored, by score and member.
    ranked: Ranked,
    /// Members still to be answered.
    answered: Option<u64>,
    event: &'static str,
}

impl Search {
    fn step(ctx: &mut Ctx<'_>, args: &Args<'_>, job: &mut Search) -> Outcome<bool> {
        if job.answered.is_some() {
            return Ok(job.answer(ctx));
        }
        let is_enough = job.options.any && job.found.len() as u64 >= job.options.count;
        if job.nth < job.ranges.len() && !is_enough {
            job.look(ctx, args)?;
            return Ok(false);
        }
        if let Some(key) = job.options.store {
            return Ok(job.store(ctx, args, key));
        }
        let len = job.found.len();
        ctx.reply().array(len);
        job.answered = Some(len as u64);
        Ok(len == 0)
    }

    /// Looks at the members of one run.
    fn look(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
        let (low, high) = self.ranges[self.nth];
        let from = self.at.take().unwrap_or_else(|| rank_key(low, b""));
        let set = ctx.open(args.get(self.options.source), Kind::SortedSet)?;
        let set = set.ok_or(Refused::Lost)?;
        let found = set.locate(Tree::Main, At::Key(&from))?;
        let run = found.run.whole();
        let mut is_over = found.before + found.count >= set.len();
        for item in Items::new(Form::Scored, &run) {
            let item = item?;
            if item.score >= high {
                is_over = true;
                break;
            }
            if item.score < low || rank_key(item.score, item.bytes) < from {
                continue;
            }
            let position = Position::of_score(item.score);
            let Some(distance) = self.shape.distance(self.middle, position) else { continue };
            self.keep(item.bytes, item.score, distance, position)?;
            if self.options.any && self.found.len() as u64 >= self.options.count {
                is_over = true;
                break;
            }
        }
        if is_over {
            self.nth += 1;
            return Ok(());
        }
        let next = set.locate(Tree::Main, At::Position(found.before + found.count))?;
        let run = next.run.whole();
        let first = Items::new(Form::Scored, &run).next().ok_or(Refused::Lost)??;
        self.at = Some(rank_key(first.score, first.bytes));
        Ok(())
    }

    fn keep(&mut self, member: &[u8], score: f64, distance: f64, position: Position) -> Outcome {
        // Distances are not negative: their bits have their order.
        let order = match self.options.sort {
            Sort::No => 0,
            Sort::Ascending => distance.to_bits(),
            Sort::Descending => u64::MAX - distance.to_bits(),
        };
        self.bytes += ENTRY + member.len() as u64;
        let found = Found { member: member.into(), score, distance, position };
        self.found.insert((order, self.number), found);
        self.number += 1;
        // Those beyond COUNT are not kept.
        let Options { count, any, .. } = self.options;
        if count > 0
            && !any
            && self.found.len() as u64 > count
            && let Some((_, last)) = self.found.pop_last()
        {
            self.bytes -= ENTRY + last.member.len() as u64;
        }
        if self.held.resize(self.bytes) { Ok(()) } else { Err(refused(PutError::Full, b"")) }
    }

    /// Answers some members. True: all are answered.
    fn answer(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Options { with_distance, with_hash, with_position, unit, .. } = self.options;
        let more = [with_distance, with_hash, with_position];
        let more = more.into_iter().filter(|with| *with).count();
        let mut bytes = 0;
        for _ in 0..SOME {
            if bytes > PIECE {
                break;
            }
            let left = self.answered.unwrap_or_default();
            let Some((_, found)) = self.found.pop_first().filter(|_| left > 0) else {
                return true;
            };
            self.answered = Some(left - 1);
            if more > 0 {
                ctx.reply().array(more + 1);
            }
            ctx.reply().bulk(&found.member);
            bytes += found.member.len();
            if with_distance {
                write_distance(ctx, found.distance / unit);
            }
            if with_hash {
                ctx.reply().integer(found.score as i64);
            }
            if with_position {
                write_position(ctx, found.position);
            }
        }
        self.answered == Some(0)
    }

    /// Gives some members their scores, and stores all at the end. True: it has ended.
    fn store(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>, key: usize) -> bool {
        let Options { distances, unit, .. } = self.options;
        for _ in 0..SOME {
            let Some((_, found)) = self.found.pop_first() else { break };
            let score = if distances { found.distance / unit } else { found.score };
            self.ranked.insert(rank_key(score, &found.member), (score, found.member));
        }
        let is_over = self.found.is_empty();
        if is_over {
            let none = Held::new(&ctx.conn.known.client.holder, Place::Heap);
            let held = std::mem::replace(&mut self.held, none);
            store(ctx, args, key, self.event, (std::mem::take(&mut self.ranked), held));
        }
        is_over
    }
}
