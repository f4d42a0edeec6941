//! From a received command to its handler: rights, states, locks, counting. The order of the checks
//! is Redis's (server.c, `processCommand`), so that a command with two faults gets the same error.

use std::cell::Cell;

use crate::{clock::Ms, net::out::Out};
use larder_proto::resp::{
    Args, Reply,
    table::{self, Command, Id, category, flag},
};

use super::{
    acl, attention, conn,
    ctx::Ctx,
    data, extra,
    locks::{Locks, Requester, StripeGuard, StripeGuards, WantedStripes},
    monitor, multi, pause, script,
    shared::{Face, Shared},
    state::{Conn, gate},
    waiting,
};

mod arguments;
mod begun;
mod last;

pub(crate) use arguments::overlong;
pub(crate) use begun::resume;
pub(crate) use last::Last;

/// Executes a command and appends its answer.
pub(crate) type Handler = fn(&mut Ctx<'_>, &Args<'_>);

/// Maximum of commands.
pub(crate) const COMMANDS: usize = 384;

/// Of the fast commands one in this many is timed, and counts for all: reading the clock twice
/// costs more than half a GET.
const SAMPLE: u32 = 16;
/// Maximum of arguments of a write that counts as fast.
const QUICK_ARGS: usize = 8;
/// The same of one of Redis's fast commands: MGET of more keys is timed.
const FAST_ARGS: usize = 64;
/// Microseconds of a command that LATENCY may note: its least threshold.
const LONG: u64 = 1000;
/// If the slow log's threshold is below this (microseconds), every command is timed.
const CURIOUS: u64 = 1000;

/// A command of the table with a valid number of arguments.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) command: &'static Command,
    pub(crate) handler: Handler,
}

/// The handlers by command number.
pub(crate) fn handlers() -> Box<[Handler; COMMANDS]> {
    let mut handlers: Box<[Handler; COMMANDS]> = Box::new([missing; COMMANDS]);
    for command in
        table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands))
    {
        if let Some(handler) = conn::handler(command.id) {
            handlers[command.id as usize] = handler;
        }
    }
    handlers
}

fn missing(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let text = arguments::unknown(args);
    ctx.reply().error(text);
}

/// Executes one command. False: it must wait ([`pause`], and [`super::job`]).
#[inline]
pub(crate) fn run(face: &Face, conn: &mut Conn, args: &Args<'_>, now: Ms, out: &mut Out) -> bool {
    let known = conn.last.find(args);
    let found = match known.map_or_else(|| find(face, args), Ok) {
        Ok(found) => found,
        Err(text) => {
            if of_http(args.get(0)) {
                conn.closing = true;
                return true;
            }
            let exec =
                args.get(0).eq_ignore_ascii_case(b"exec").then(|| table::find(b"exec")).flatten();
            refuse(face, conn, exec, &text, out);
            return true;
        }
    };
    if known.is_none() {
        conn.last.keep(args, found);
    }
    if !acl::may_go_on(face, conn) {
        return true;
    }
    if conn.gates & HELD_UP != 0 {
        if let Some(ended) = waiting::look(face, conn, now, out) {
            return ended;
        }
        if !may_run(face, conn, found, args, out) {
            return true;
        }
    }
    if attention::any(&face.shared, HEEDED)
        && let Some(ended) = pause::heeds(face, conn, found.command, args, now, out)
    {
        return ended;
    }
    if conn.gates & gate::PAUSED != 0 {
        pause::goes_on(conn);
    }
    if conn.gates & gate::MULTI != 0 && queues(found.command.id) {
        multi::queue(conn, found, args, &mut Reply::new(out.scratch(), conn.version));
        return true;
    }
    if script::runs(found.command.id) && !face.machines.has_one() {
        return false;
    }
    let requester = Requester { client: &conn.known.client, now, ticket: Cell::new(conn.ticket) };
    let Some(guard) = lock(&face.shared.locks, conn, found.command, args, &requester) else {
        if attention::any(&face.shared, attention::LONG_SCRIPT) {
            conn.ticket = 0;
            refuse(face, conn, Some(found.command), script::busy(&face.shared), out);
            return true;
        }
        conn.ticket = requester.ticket.get();
        return false;
    };
    conn.ticket = 0;
    if !matches!(guard, Guard::None) && acl::is_behind(face, conn) {
        // The databases were swapped, perhaps, before it had its keys.
        drop(guard);
        return run(face, conn, args, now, out);
    }
    conn.has_stripe = !matches!(guard, Guard::None);
    conn.keeps_readers_out = matches!(guard, Guard::Many(_));
    call(face, conn, found, args, now, out);
    if conn.wants_stripe {
        drop(guard);
        return run(face, conn, args, now, out);
    }
    if conn.begun.is_none() {
        if conn.blocked.is_some() {
            waiting::ended(face, conn);
        }
        waiting::serve(face, conn, now, out);
    }
    face.tell_gathered(conn.known.id());
    if conn.begun.is_some() || face.has_untold() {
        begun::goes_on(face, conn, guard, args);
    }
    conn.blocked.is_none()
}

/// States of the server that a command may have to wait or be refused for.
const HEEDED: u32 = attention::PAUSE | attention::LONG_SCRIPT | attention::REFUSALS;

/// Gates that a command may have to wait or be refused for.
const HELD_UP: u32 = gate::STRANGER
    | gate::MULTI
    | gate::SUBSCRIBER
    | gate::MONITOR
    | gate::BLOCKED
    | gate::RESTRICTED;

/// Returns whether a transaction queues this command.
fn queues(id: Id) -> bool {
    !matches!(id, Id::Exec | Id::Discard | Id::Multi | Id::Watch | Id::Quit | Id::Reset)
}

/// Checks the connection's state. False: the command was refused and answered.
#[cold]
fn may_run(face: &Face, conn: &mut Conn, found: Found, args: &Args<'_>, out: &mut Out) -> bool {
    let command = found.command;
    if conn.gates & gate::STRANGER != 0 && !command.has(flag::NO_AUTH) {
        refuse(face, conn, Some(command), "NOAUTH Authentication required.", out);
        return false;
    }
    if conn.gates & gate::MULTI != 0 && command.has(flag::NO_MULTI) {
        refuse(face, conn, Some(command), "ERR Command not allowed inside a transaction", out);
        return false;
    }
    if conn.gates & gate::RESTRICTED != 0
        && let Err(text) = acl::check(&face.shared, conn, command, args)
    {
        refuse(face, conn, Some(command), &text, out);
        return false;
    }
    if conn.gates & gate::SUBSCRIBER != 0 && !for_subscribers(command.id) {
        let text = format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            command.name
        );
        refuse(face, conn, Some(command), &text, out);
        return false;
    }
    if conn.gates & gate::MONITOR != 0
        && command.has(flag::WRITE | flag::READONLY | flag::MAY_REPLICATE)
    {
        refuse(face, conn, Some(command), "ERR Replica can't interact with the keyspace", out);
        return false;
    }
    true
}

fn for_subscribers(id: Id) -> bool {
    matches!(
        id,
        Id::Ping
            | Id::Subscribe
            | Id::Ssubscribe
            | Id::Unsubscribe
            | Id::Sunsubscribe
            | Id::Psubscribe
            | Id::Punsubscribe
            | Id::Quit
            | Id::Reset
    )
}

/// Finds the command, or returns the error.
#[inline]
pub(crate) fn find(face: &Face, args: &Args<'_>) -> Result<Found, Vec<u8>> {
    let Some(command) = table::find(args.get(0)) else {
        return extra::find(args).ok_or_else(|| arguments::unknown(args));
    };
    let command = if command.subcommands.is_empty() || args.len() == 1 {
        command
    } else {
        match command.subcommand(args.get(1)) {
            Some(command) => command,
            None => {
                return extra::find(args)
                    .ok_or_else(|| arguments::unknown_subcommand(command, args));
            }
        }
    };
    if !command.takes(args.len()) && command.id != Id::Quit {
        return Err(format!("ERR wrong number of arguments for '{}' command", command.name).into());
    }
    if arguments::are_too_many(command, args) {
        return Err(format!("ERR too many arguments for '{}' command", command.name).into());
    }
    Ok(Found { command, handler: face.handlers[command.id as usize] })
}

/// Returns whether this is HTTP: `POST / HTTP/1.1`, `Host: ...`. A page could make a browser send
/// commands in a request's body, so the connection is closed without an answer, as by Redis.
fn of_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Text of a peer, for a message.
pub(crate) fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Refuses a command: answers, counts, and fails the transaction that it was to be part of.
#[cold]
pub(crate) fn refuse(
    face: &Face,
    conn: &mut Conn,
    command: Option<&Command>,
    text: impl AsRef<[u8]>,
    out: &mut Out,
) {
    let mut text = std::borrow::Cow::Borrowed(text.as_ref());
    // Nothing of a command that was to begin again.
    conn.wants_stripe = false;
    multi::fail(conn);
    if command.is_some_and(|command| command.id == Id::Exec) {
        // A refused EXEC also ends the transaction, and gives the reason.
        multi::end(conn);
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        text = [b"EXECABORT Transaction discarded because of: ", reason].concat().into();
    }
    let text = &*text;
    if let Some(command) = command {
        face.counters.commands[command.id as usize].rejected.one();
    }
    face.counters.error(text);
    Reply::new(out.scratch(), conn.version).error(text);
}

/// Locks that a command holds while it runs.
enum Guard<'a> {
    None,
    One(StripeGuard<'a>),
    Many(StripeGuards<'a>),
}

/// Commands on values in several records: their reads are locked too.
const COLLECTIONS: u32 =
    category::LIST | category::SET | category::SORTEDSET | category::STREAM | category::GEO;

/// Takes the locks of a command. None: it must wait.
#[inline]
fn lock<'a>(
    locks: &'a Locks,
    conn: &Conn,
    command: &Command,
    args: &Args<'_>,
    requester: &Requester<'_>,
) -> Option<Guard<'a>> {
    if !command.has(flag::WRITE | flag::READONLY) && !script::runs(command.id) {
        return match command.id {
            Id::Exec => take(locks, &multi::wanted(locks, conn), requester),
            _ => Some(Guard::None),
        };
    }
    if command.has(flag::MOVABLEKEYS) {
        let mut wanted = WantedStripes::default();
        want(locks, &mut wanted, command, args);
        return take(locks, &wanted, requester);
    }
    let mut places = command.key_places(args.len());
    let (first, more) = (places.next(), places.next());
    match (first, more) {
        // With more arguments it may run in steps; so that reads see all or nothing, it locks as
        // for several keys.
        (Some(place), None)
            if command.has(flag::WRITE) && is_short(command, args) && !conn.wants_stripe =>
        {
            locks.write(args.get(place), requester).map(Guard::One)
        }
        // A command that has waited is locked as before, and leaves the queue.
        (Some(_), None)
            if !command.has(flag::WRITE)
                && !locks.is_busy()
                && conn.ticket == 0
                && !conn.wants_stripe
                && command.categories & COLLECTIONS == 0
                && command.id != Id::Dump =>
        {
            Some(Guard::None)
        }
        (Some(place), None) if !command.has(flag::WRITE) => {
            locks.write(args.get(place), requester).map(Guard::One)
        }
        _ => {
            let mut wanted = WantedStripes::default();
            want(locks, &mut wanted, command, args);
            take(locks, &wanted, requester)
        }
    }
}

/// Is it a write of one key that ends in one step, or whose readers take its stripe?
#[inline]
fn is_short(command: &Command, args: &Args<'_>) -> bool {
    if command.categories & category::HASH != 0 {
        return data::is_one_step(args);
    }
    args.len() <= data::PART
}

fn take<'a>(
    locks: &'a Locks,
    wanted: &WantedStripes,
    requester: &Requester<'_>,
) -> Option<Guard<'a>> {
    if wanted.is_empty() {
        Some(Guard::None)
    } else {
        locks.take(wanted, requester).map(Guard::Many)
    }
}

/// Adds a command's keys to the stripes of an operation.
pub(crate) fn want(locks: &Locks, wanted: &mut WantedStripes, command: &Command, args: &Args<'_>) {
    let is_script = script::runs(command.id);
    if !command.has(flag::WRITE | flag::READONLY) && !is_script {
        return;
    }
    if command.categories & category::SCRIPTING != 0 && !is_script {
        // FUNCTION LOAD and its like write no keys.
        return;
    }
    if command.has(flag::MOVABLEKEYS) {
        command.places(args).into_iter().for_each(|place| wanted.key(args.get(place)));
        if matches!(command.id, Id::Sort | Id::SortRo) && data::reads_others(args) {
            wanted.all();
        }
    } else {
        for place in command.key_places(args.len()) {
            if wanted.is_all() {
                break;
            }
            wanted.key(args.get(place));
        }
    }
    if is_script && !locks.declared.knows(locks.declared.hash(command.id, args)) {
        wanted.all();
    }
    if command.has(flag::WRITE) || (is_script && !command.has(flag::READONLY)) {
        wanted.writes();
    }
    if command.has(flag::WRITE) && command.first == 0 && !command.has(flag::MOVABLEKEYS) {
        wanted.all();
    }
}

/// Executes a command whose locks are held. Appends its answer; counts its time and failure.
#[inline]
pub(crate) fn call(
    face: &Face,
    conn: &mut Conn,
    found: Found,
    args: &Args<'_>,
    now: Ms,
    out: &mut Out,
) {
    let Found { command, handler } = found;
    let shared = &*face.shared;
    let counter = &face.counters.commands[command.id as usize];
    // A command that begins again was counted.
    if !std::mem::take(&mut conn.wants_stripe) {
        counter.calls.one();
    }
    conn.known.command.store(command.id as u16, std::sync::atomic::Ordering::Relaxed);
    conn.turns = conn.turns.wrapping_add(1);
    if !conn.in_exec {
        face.until.set(0);
    }
    let caching = match conn.gates & gate::TRACKING {
        0 => None,
        _ => conn::tracking::remember(face, conn, command, args),
    };
    let weight = if !is_quick(command, args) || shared.config.slowlog_micros() < CURIOUS {
        1
    } else if conn.turns % SAMPLE == 1 {
        SAMPLE
    } else {
        0
    };
    let start = if weight > 0 { face.clock.micros() } else { 0 };
    let at = out.scratch().len();
    handler(&mut Ctx::new(face, conn, now, out), args);
    if conn.wants_stripe {
        // CLIENT CACHING is of the whole command.
        if caching.is_some() {
            conn.tracks.caching = caching;
        }
        return;
    }
    if out.scratch().get(at) == Some(&b'-') {
        failed(face, conn, command, &out.scratch()[at + 1..]);
    }
    if weight > 0 {
        let micros = face.clock.micros().saturating_sub(start);
        face.turn_time.took(micros);
        counter.micros.add(micros * u64::from(weight));
        if micros >= shared.config.slowlog_micros() && !command.has(flag::SKIP_SLOWLOG) {
            slow(shared, conn, args, (now, micros));
        }
        if micros >= LONG {
            shared.events.took(&shared.config, command, face.wall_micros() / 1_000_000, micros);
        }
        face.counters.latency(command, micros, u64::from(weight));
    }
    if attention::any(shared, attention::MONITOR) {
        monitor::feed(face, conn, command, args);
    }
}

/// Notes a slow command. One that waits is noted when it is served.
#[cold]
fn slow(shared: &Shared, conn: &Conn, args: &Args<'_>, (now, micros): (Ms, u64)) {
    let Some(entry) = shared.slowlog.entry(&shared.config, conn, args, (now, micros)) else {
        return;
    };
    match &conn.blocked {
        Some(blocked) if !blocked.is_called() => blocked.was_slow(shared, entry),
        _ => shared.slowlog.note(&shared.config, entry),
    }
}

/// Returns whether a command is fast: Redis's fast commands with few arguments, except PUBLISH, and
/// writes of one key with few arguments, such as SET.
#[inline]
fn is_quick(command: &Command, args: &Args<'_>) -> bool {
    if command.has(flag::FAST) {
        return args.len() <= FAST_ARGS && !command.has(flag::PUBSUB);
    }
    command.has(flag::WRITE) && command.first == 1 && command.last == 1 && args.len() <= QUICK_ARGS
}

#[cold]
fn failed(face: &Face, conn: &mut Conn, command: &Command, text: &[u8]) {
    face.counters.commands[command.id as usize].failed.one();
    if !std::mem::take(&mut conn.is_passed_on) {
        face.counters.error(text);
    }
}
