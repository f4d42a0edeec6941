//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO, and the effect of tracking on a read.

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::{
    Args, number,
    table::{Command, Id, flag as what},
};

use crate::redis::{
    ctx::Ctx,
    data::PART,
    known::flag,
    on_demand::OnDemand,
    script,
    shared::{Face, Shared},
    state::{Conn, ENTRY, Tracks},
};

/// Maximum of prefixes per connection.
const PREFIXES: usize = 1024;
/// Maximum of different prefixes of all connections: a write compares its key with all of them.
const ALL_PREFIXES: usize = 1 << 14;
/// Longest prefix in bytes: a write looks at up to as many prefixes as its key has bytes.
const LONGEST_PREFIX: usize = 1024;
/// Maximum of a connection's prefixes in bytes.
const PREFIX_BYTES: usize = 64 << 10;

/// Records the keys that a command is about to read, if the client may cache them. Returns what
/// CLIENT CACHING said for it.
pub(crate) fn remember(
    face: &Face,
    conn: &mut Conn,
    command: &Command,
    args: &Args<'_>,
) -> Option<bool> {
    let caching = conn.tracks.caching;
    if conn.in_script {
        // The script remembers the keys that it has declared.
        conn.remembers = false;
        return caching;
    }
    let shared = &*face.shared;
    let tracks = &conn.tracks;
    let keeps = match (tracks.opt_in, tracks.opt_out) {
        (true, _) => tracks.caching == Some(true),
        (_, true) => tracks.caching != Some(false),
        _ => true,
    };
    let is_script = script::runs(command.id);
    let keeps = keeps && (is_script || command.has(what::READONLY));
    // A command with many keys (MGET, EXISTS, TOUCH) remembers them in parts: `Ctx::remember`; a
    // script when it reads.
    conn.remembers = keeps && (is_script || (command.last < 0 && args.len() > PART));
    if keeps && !conn.remembers {
        for place in command.places(args) {
            let dropped = shared.tracking.remember(shared, args.get(place), conn.known.id());
            dropped.for_each(|untold| face.tell(untold));
        }
    }
    // CACHING applies to the next command other than CLIENT, or to a whole transaction.
    if tracks.caching.is_some() && !conn.in_exec {
        let stays =
            matches!(command.id, Id::Multi | Id::Exec) || command.name.starts_with("client");
        if !stays {
            conn.end_caching();
        }
    }
    caching
}

/// Ends tracking.
pub(crate) fn off(shared: &Shared, conn: &mut Conn) {
    if !conn.tracks.on {
        return;
    }
    shared.tracking.leave(shared, &conn.known, &conn.tracks.prefixes);
    conn.tracks = OnDemand::default();
    conn.hold();
    conn.known.lower(flag::TRACKING | flag::BROADCAST | flag::BROKEN_REDIRECT | flag::NO_LOOP);
    conn.known.redirect.store(0, Relaxed);
    conn.settle();
}

/// Parses the options of CLIENT TRACKING ON. `Err`: the error message.
fn read(ctx: &Ctx<'_>, args: &Args<'_>) -> Result<(Tracks, u64), String> {
    let mut tracks = Tracks { on: true, ..Tracks::default() };
    let mut redirect = 0;
    let mut at = 3;
    while at < args.len() {
        let more = at + 1 < args.len();
        if args.is(at, "redirect") && more {
            at += 1;
            if redirect != 0 {
                return Err("ERR A client can only redirect to a single other client".to_owned());
            }
            let id = number::parse_i64(args.get(at))
                .ok_or("ERR value is not an integer or out of range")?;
            redirect = id as u64;
            if ctx.shared.registry.get(redirect).is_none() {
                return Err("ERR The client ID you want redirect to does not exist".to_owned());
            }
        } else if args.is(at, "bcast") {
            tracks.broadcast = true;
        } else if args.is(at, "optin") {
            tracks.opt_in = true;
        } else if args.is(at, "optout") {
            tracks.opt_out = true;
        } else if args.is(at, "noloop") {
            tracks.no_loop = true;
        } else if args.is(at, "prefix") && more {
            at += 1;
            tracks.prefixes.push(args.get(at).into());
        } else {
            return Err("ERR syntax error".to_owned());
        }
        at += 1;
    }
    Ok((tracks, redirect))
}

/// Checks the options against each other and against the connection's earlier ones.
fn check(tracks: &Tracks, before: &Tracks) -> Result<(), String> {
    if !tracks.prefixes.is_empty() && !tracks.broadcast {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".to_owned());
    }
    if before.on && before.broadcast != tracks.broadcast {
        return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this \
                    client, and then re-enabling it with a different mode."
            .to_owned());
    }
    if tracks.broadcast && (tracks.opt_in || tracks.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".to_owned());
    }
    if tracks.opt_in && tracks.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".to_owned());
    }
    if (tracks.opt_in && before.opt_out) || (tracks.opt_out && before.opt_in) {
        return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this \
                    client, and then re-enabling it with a different mode."
            .to_owned());
    }
    overlaps(tracks, before)
}

/// No prefix may begin another: a key would be reported twice.
fn overlaps(tracks: &Tracks, before: &Tracks) -> Result<(), String> {
    // Check the number before comparing them with each other.
    if tracks.prefixes.len() + before.prefixes.len() > PREFIXES {
        return Err("ERR too many prefixes".to_owned());
    }
    let bytes: usize =
        tracks.prefixes.iter().chain(&before.prefixes).map(|prefix| prefix.len()).sum();
    if bytes > PREFIX_BYTES {
        return Err("ERR the prefixes are too long".to_owned());
    }
    if tracks.prefixes.iter().any(|prefix| prefix.len() > LONGEST_PREFIX) {
        return Err("ERR a prefix is too long".to_owned());
    }
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (at, prefix) in tracks.prefixes.iter().enumerate() {
        if let Some(known) = before.prefixes.iter().find(|known| overlap(known, prefix)) {
            return Err(format!(
                "ERR Prefix '{}' overlaps with an existing prefix '{}'. Prefixes for a single \
                 client must not overlap.",
                shown(prefix),
                shown(known)
            ));
        }
        if let Some(other) = tracks.prefixes[at + 1..].iter().find(|other| overlap(other, prefix)) {
            return Err(format!(
                "ERR Prefix '{}' overlaps with another provided prefix '{}'. Prefixes for a \
                 single client must not overlap.",
                shown(prefix),
                shown(other)
            ));
        }
    }
    Ok(())
}

pub(crate) fn tracking(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let read = read(ctx, args);
    let (mut tracks, redirect) = match read {
        Ok(read) => read,
        Err(error) => return ctx.reply().error(error),
    };
    if args.is(2, "off") {
        off(ctx.shared, ctx.conn);
        return ctx.reply().ok();
    }
    if !args.is(2, "on") {
        return ctx.reply().error("ERR syntax error");
    }
    if let Err(error) = check(&tracks, &ctx.conn.tracks) {
        return ctx.reply().error(error);
    }
    let (_, _, prefixes, _) = ctx.shared.tracking.counts();
    if prefixes + tracks.prefixes.len() > ALL_PREFIXES {
        return ctx.reply().error("ERR too many prefixes");
    }
    let more: usize = tracks.prefixes.iter().map(|prefix| 2 * (prefix.len() + ENTRY)).sum();
    ctx.conn.tracks.bytes += more;
    if !ctx.conn.hold() {
        ctx.conn.tracks.bytes -= more;
        return ctx.reply().error("OOM no room for more prefixes");
    }
    let before = std::mem::take(&mut ctx.conn.tracks).into_inner();
    if tracks.broadcast && tracks.prefixes.is_empty() && before.prefixes.is_empty() {
        tracks.prefixes.push(Box::default());
    }
    let known = &ctx.conn.known;
    known.lower(flag::BROKEN_REDIRECT | flag::NO_LOOP);
    known.raise(flag::TRACKING);
    for (letter, on) in [(flag::BROADCAST, tracks.broadcast), (flag::NO_LOOP, tracks.no_loop)] {
        if on {
            known.raise(letter);
        }
    }
    known.redirect.store(redirect, Relaxed);
    if before.on {
        ctx.shared.tracking.add_prefixes(known, &tracks.prefixes);
    } else {
        ctx.shared.tracking.enter(ctx.shared, known, &tracks.prefixes);
    }
    tracks.prefixes.extend(before.prefixes);
    tracks.bytes = before.bytes;
    ctx.conn.tracks = OnDemand::new(tracks);
    ctx.conn.settle();
    ctx.reply().ok();
}

pub(crate) fn caching(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let tracks = &mut ctx.conn.tracks;
    if !tracks.on {
        return ctx.reply().error(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        );
    }
    if args.is(2, "yes") {
        if !tracks.opt_in {
            return ctx.reply().error(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            );
        }
        tracks.caching = Some(true);
    } else if args.is(2, "no") {
        if !tracks.opt_out {
            return ctx.reply().error(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            );
        }
        tracks.caching = Some(false);
    } else {
        return ctx.reply().error("ERR syntax error");
    }
    ctx.reply().ok();
}

pub(crate) fn get_redirect(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let redirect = ctx.conn.known.redirect.load(Relaxed) as i64;
    let answer = if ctx.conn.tracks.on { redirect } else { -1 };
    ctx.reply().integer(answer);
}

pub(crate) fn info(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let tracks = (*ctx.conn.tracks).clone();
    let known = ctx.conn.known.clone();
    let shown = [
        (tracks.on, "on"),
        (!tracks.on, "off"),
        (tracks.broadcast, "bcast"),
        (tracks.opt_in, "optin"),
        (tracks.opt_in && tracks.caching == Some(true), "caching-yes"),
        (tracks.opt_out, "optout"),
        (tracks.opt_out && tracks.caching == Some(false), "caching-no"),
        (tracks.no_loop, "noloop"),
        (known.has(flag::BROKEN_REDIRECT), "broken_redirect"),
    ];
    let flags: Vec<&str> = shown.iter().filter(|(yes, _)| *yes).map(|(_, word)| *word).collect();
    let redirect = if tracks.on { known.redirect.load(Relaxed) as i64 } else { -1 };
    let mut reply = ctx.reply();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(tracks.prefixes.len());
    let mut prefixes = tracks.prefixes;
    prefixes.sort_unstable();
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
}
