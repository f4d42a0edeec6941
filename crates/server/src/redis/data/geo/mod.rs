//! Positions in sorted sets: GEOADD, GEOPOS, GEODIST, GEOHASH; searches are in `search.rs`.

mod search;

use larder_proto::resp::{
    Args,
    collection::{Kind, Score, parse_score},
    geo::Position,
    table::Id,
};

use super::super::ctx::Ctx;
use super::Run;
use super::errors::{NOT_FLOAT, Outcome, SYNTAX};

/// Members that are looked up between two checks of the clock.
const SOME: usize = 64;

/// The handler of a command on positions; None: another command.
pub(super) fn command(id: Id) -> Option<Run> {
    Some(match id {
        Id::Geoadd => geoadd,
        Id::Geodist => geodist,
        Id::Geohash => geohash,
        Id::Geopos => geopos,
        Id::Georadius => search::georadius,
        Id::GeoradiusRo => search::georadius_ro,
        Id::Georadiusbymember => search::georadiusbymember,
        Id::GeoradiusbymemberRo => search::georadiusbymember_ro,
        Id::Geosearch => search::geosearch,
        Id::Geosearchstore => search::geosearchstore,
        _ => return None,
    })
}

/// Parses longitude and latitude. None: the error is answered.
fn position(ctx: &mut Ctx<'_>, args: &Args<'_>, at: usize) -> Outcome<Option<Position>> {
    let longitude = parse_score(args.get(at)).ok_or(NOT_FLOAT)?;
    let latitude = parse_score(args.get(at + 1)).ok_or(NOT_FLOAT)?;
    let position = Position { longitude, latitude };
    if !position.is_valid() {
        ctx.reply().error(invalid(position));
        return Ok(None);
    }
    Ok(Some(position))
}

fn invalid(Position { longitude, latitude }: Position) -> String {
    format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")
}

/// The metres of a unit.
fn unit(text: &[u8]) -> Outcome<f64> {
    Ok(match &text.to_ascii_lowercase()[..] {
        b"m" => 1.0,
        b"km" => 1000.0,
        b"ft" => 0.3048,
        b"mi" => 1609.34,
        _ => return Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    })
}

/// GEOADD key \[NX | XX] \[CH] longitude latitude member \[longitude latitude member ...]
fn geoadd(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let mut first = 2;
    while ["NX", "XX", "CH"].iter().any(|word| args.is(first, word)) {
        first += 1;
    }
    let has = |word| (2..first).any(|at| args.is(at, word));
    let words = args.len() - first.min(args.len());
    if !words.is_multiple_of(3) || (has("NX") && has("XX")) {
        return ctx.reply().error(SYNTAX);
    }
    if words == 0 {
        return ctx.reply().error(SYNTAX);
    }
    super::zsets::add_positions(ctx, args, geoadd, first, |ctx, args, at| {
        Ok(position(ctx, args, at)?.map(Position::score))
    });
}

/// Answers something for each of the members from the second argument on.
fn each_member(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    again: Run,
    one: fn(&mut Ctx<'_>, Option<Score>),
) {
    let outcome = (|| {
        ctx.open_to_read(args.get(1), Kind::SortedSet)?;
        let from = ctx.out.scratch().len();
        ctx.reply().array(args.len() - 2);
        ctx.steps_from(args, again, from, (2, one), |ctx, args, (at, one)| {
            let set = ctx.open(args.get(1), Kind::SortedSet)?;
            for member in args.from(*at).take(SOME) {
                let score = match &set {
                    Some(set) => set.score(member)?,
                    None => None,
                };
                one(ctx, score);
            }
            *at += SOME;
            Ok(*at >= args.len())
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// GEOHASH key \[member ...]
fn geohash(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    each_member(ctx, args, geohash, |ctx, score| match score {
        Some(score) => ctx.reply().bulk(&Position::of_score(score).geohash()),
        None => ctx.reply().null(),
    });
}

/// GEOPOS key \[member ...]
fn geopos(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    each_member(ctx, args, geopos, |ctx, score| match score {
        Some(score) => write_position(ctx, Position::of_score(score)),
        None => ctx.reply().null_array(),
    });
}

fn write_position(ctx: &mut Ctx<'_>, position: Position) {
    let mut reply = ctx.reply();
    reply.array(2);
    reply.fixed(position.longitude);
    reply.fixed(position.latitude);
}

/// Answers a distance with four digits behind the point.
fn write_distance(ctx: &mut Ctx<'_>, distance: f64) {
    let rounded = (distance * 10_000.0).round_ties_even() as i64;
    let text = format!("{}.{:04}", rounded / 10_000, rounded % 10_000);
    ctx.reply().bulk(text.as_bytes());
}

/// GEODIST key member1 member2 \[M | KM | FT | MI]
fn geodist(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let unit = match args.len() {
            4 => 1.0,
            5 => unit(args.get(4))?,
            _ => return Err(SYNTAX.into()),
        };
        let set = ctx.open_to_read(args.get(1), Kind::SortedSet)?;
        let scores = match &set {
            Some(set) => set.score(args.get(2))?.zip(set.score(args.get(3))?),
            None => None,
        };
        match scores {
            None => ctx.reply().null(),
            Some((one, other)) => {
                let distance = Position::of_score(one).distance(Position::of_score(other));
                write_distance(ctx, distance / unit);
            }
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}
