//! CLIENT: properties of the connection, and the list of all connections.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use larder_proto::resp::{Args, Version, number, table};

use crate::{
    clock::Ms,
    object::{Client, HIGH_WATER, Peer},
    redis::{
        ctx::Ctx,
        dispatch::text,
        job::{Job, Progress},
        known::{Known, Text, flag},
        state::Answers,
    },
    room::{Held, Place},
};

pub(crate) const BAD_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";
/// Maximum length of a client's or library's name, in bytes.
const NAME: usize = 1024;

/// Returns whether a name is valid: printable, without spaces (Redis: `validateClientName`).
pub(crate) fn is_name(name: &[u8]) -> bool {
    name.len() <= NAME && name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// The client's address in Redis's format.
pub(crate) fn address(client: &Client) -> String {
    match client.peer {
        Peer::Tcp(address) | Peer::Udp(address) => address.to_string(),
        Peer::Unix => format!("{}:0", client.local),
    }
}

/// The local address of the connection.
pub(crate) fn local_address(client: &Client) -> String {
    match client.peer {
        Peer::Tcp(_) | Peer::Udp(_) => client.local.to_string(),
        Peer::Unix => format!("{}:0", client.local),
    }
}

pub(crate) fn id(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let id = ctx.conn.known.id();
    ctx.reply().integer(id as i64);
}

pub(crate) fn get_name(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let name = ctx.conn.known.text.lock().name.clone();
    if name.is_empty() { ctx.reply().null() } else { ctx.reply().bulk(&name) }
}

pub(crate) fn set_name(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if !is_name(args.get(2)) {
        return ctx.reply().error(BAD_NAME);
    }
    let name = args.get(2).to_vec();
    set_text(ctx, name, |text| &mut text.name);
}

/// Sets a name of the client, if there is memory for it, and answers.
fn set_text(ctx: &mut Ctx<'_>, value: Vec<u8>, place: fn(&mut Text) -> &mut Vec<u8>) {
    let before = std::mem::replace(place(&mut ctx.conn.known.text.lock()), value);
    if ctx.conn.hold() {
        return ctx.reply().ok();
    }
    *place(&mut ctx.conn.known.text.lock()) = before;
    ctx.conn.hold();
    ctx.reply().error("OOM no room for the names of so many clients");
}

/// CLIENT SETINFO (Redis 7.2): newer libraries send it whatever the server's version.
pub(crate) fn set_info(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let value = args.get(3);
    let (library, version) = (args.is(2, "lib-name"), args.is(2, "lib-ver"));
    if !library && !version {
        let error = format!("ERR Unrecognized option '{}'", text(args.get(2)));
        return ctx.reply().error(error);
    }
    if !is_name(value) {
        let what = if library { "lib-name" } else { "lib-ver" };
        return ctx
            .reply()
            .error(format!("ERR {what} cannot contain spaces, newlines or special characters."));
    }
    let value = value.to_vec();
    match library {
        true => set_text(ctx, value, |text| &mut text.lib_name),
        false => set_text(ctx, value, |text| &mut text.lib_version),
    }
}

/// CLIENT NO-TOUCH (Redis 7.2): accepted, without effect.
pub(crate) fn no_touch(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.is(2, "on") || args.is(2, "off") {
        ctx.reply().ok()
    } else {
        ctx.reply().error("ERR syntax error")
    }
}

pub(crate) fn no_evict(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match (args.is(2, "on"), args.is(2, "off")) {
        (true, _) => ctx.conn.known.raise(flag::NO_EVICT),
        (_, true) => ctx.conn.known.lower(flag::NO_EVICT),
        _ => return ctx.reply().error("ERR syntax error"),
    }
    ctx.reply().ok();
}

/// CLIENT UNBLOCK client-id [TIMEOUT | ERROR]
pub(crate) fn unblock(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() == 4 && !args.is(3, "timeout") && !args.is(3, "error") {
        return ctx.reply().error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    }
    match number::parse_i64(args.get(2)) {
        Some(id) => {
            let with_error = args.len() == 4 && args.is(3, "error");
            let done = ctx.shared.waiting.unblock(id as u64, with_error);
            ctx.reply().integer(done.into());
        }
        None => ctx.reply().error("ERR value is not an integer or out of range"),
    }
}

pub(crate) fn reply(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.is(2, "on") {
        if ctx.conn.answers != Answers::On {
            ctx.conn.answers = Answers::TurnedOn;
        }
        ctx.reply().ok();
    } else if args.is(2, "off") {
        ctx.conn.answers = Answers::Off;
    } else if args.is(2, "skip") {
        if ctx.conn.answers != Answers::Off {
            ctx.conn.answers = Answers::SkipNext;
        }
    } else {
        ctx.reply().error("ERR syntax error");
    }
}

pub(crate) fn info(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let line = describe(&ctx.conn.known, ctx.now, Some(args));
    ctx.reply().verbatim("txt", line.as_bytes());
}

/// Type of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Normal,
    Subscriber,
    /// Masters and replicas: none exist.
    Replication,
}

/// Parses a type; None: unknown.
pub(crate) fn type_named(name: &[u8]) -> Option<Type> {
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    match () {
        () if is("normal") => Some(Type::Normal),
        () if is("pubsub") => Some(Type::Subscriber),
        () if is("replica") || is("slave") || is("master") => Some(Type::Replication),
        () => None,
    }
}

pub(crate) fn type_of(known: &Known) -> Type {
    if known.has(flag::SUBSCRIBER) { Type::Subscriber } else { Type::Normal }
}

pub(crate) fn list(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let all = ctx.shared.registry.list();
    let chosen: Vec<Arc<Known>> = if args.len() == 2 {
        all
    } else if args.len() == 4 && args.is(2, "type") {
        let Some(wanted) = type_named(args.get(3)) else {
            let error = format!("ERR Unknown client type '{}'", text(args.get(3)));
            return ctx.reply().error(error);
        };
        all.into_iter().filter(|known| type_of(known) == wanted).collect()
    } else if args.len() > 3 && args.is(2, "id") {
        let mut chosen = Vec::new();
        for id in args.from(3) {
            match number::parse_i64(id) {
                Some(id) => chosen.extend(ctx.shared.registry.get(id as u64)),
                None => return ctx.reply().error("ERR Invalid client ID"),
            }
        }
        chosen
    } else {
        return ctx.reply().error("ERR syntax error");
    };
    let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
    let (left, lines) = (chosen.into_iter(), VecDeque::new());
    ctx.go(ClientList { left, lines, bytes: 0, held, is_complete: false }, args);
}

/// Bytes of lines in one piece, and the most that a line adds to it.
const PIECE: usize = 64 * 1024;
const LINE: usize = 8 * 1024;

/// A CLIENT LIST in progress: all lines are composed, as their length precedes them, and then
/// answered as fast as the client reads.
struct ClientList {
    left: std::vec::IntoIter<Arc<Known>>,
    lines: VecDeque<Vec<u8>>,
    /// Bytes of all lines.
    bytes: usize,
    /// Memory of the lines, charged to the clients' memory.
    held: Held,
    /// The head is answered; the lines follow.
    is_complete: bool,
}

impl ClientList {
    /// Composes the line of the next client. False: none is left.
    fn compose(&mut self, now: Ms, (own, args): (u64, &Args<'_>)) -> bool {
        let Some(known) = self.left.next() else { return false };
        let line = describe(&known, now, (known.id() == own).then_some(args));
        self.bytes += line.len();
        match self.lines.back_mut().filter(|last| last.len() + LINE <= PIECE) {
            Some(last) => last.extend_from_slice(line.as_bytes()),
            None => {
                let mut piece = Vec::with_capacity(PIECE.min((self.left.len() + 1) * LINE));
                piece.extend_from_slice(line.as_bytes());
                self.lines.push_back(piece);
            }
        }
        true
    }
}

impl Job for ClientList {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        // In a transaction nothing is sent between the commands.
        let most = if ctx.conn.in_exec { u64::MAX } else { HIGH_WATER };
        while !self.is_complete {
            if !self.compose(ctx.now, (ctx.conn.known.id(), args)) {
                ctx.reply().verbatim_head("txt", self.bytes);
                self.is_complete = true;
            } else if !self.held.resize((self.lines.len() * PIECE) as u64) {
                ctx.reply().error("OOM no room for the list of so many clients");
                return Progress::Done;
            } else if ctx.is_over() {
                return Progress::Again;
            }
        }
        while let Some(piece) = self.lines.pop_front() {
            ctx.out.scratch().extend_from_slice(&piece);
            self.held.resize((self.lines.len() * PIECE) as u64);
            if ctx.out.pending() > most {
                return Progress::Send;
            }
            if ctx.overflows() {
                return Progress::Done;
            }
        }
        ctx.reply().bulk_end();
        Progress::Done
    }
}

/// The flags of CLIENT LIST, in Redis's order.
fn letters(known: &Known) -> String {
    let shown = [
        (flag::MONITOR, 'O'),
        (flag::SUBSCRIBER, 'P'),
        (flag::MULTI, 'x'),
        (flag::BLOCKED, 'b'),
        (flag::TRACKING, 't'),
        (flag::BROKEN_REDIRECT, 'R'),
        (flag::BROADCAST, 'B'),
    ];
    let mut letters: String =
        shown.iter().filter(|(bit, _)| known.has(*bit)).map(|(_, letter)| *letter).collect();
    if known.client.peer == Peer::Unix {
        letters.push('U');
    }
    if known.has(flag::NO_EVICT) {
        letters.push('e');
    }
    if letters.is_empty() {
        letters.push('N');
    }
    letters
}

/// Bytes of a command as a client sends it, and of its arguments.
fn lengths(args: &Args<'_>) -> (usize, usize) {
    let head = |number: usize| "*\r\n".len() + number.to_string().len();
    let bytes = args.from(0).map(<[u8]>::len).sum();
    let heads: usize = args.from(0).map(|arg| head(arg.len()) + "\r\n".len()).sum();
    (head(args.len()) + heads + bytes, bytes)
}

/// A line of CLIENT LIST. Only the connection's worker knows its buffers, so their sizes are 0, but
/// for the command that asks.
pub(crate) fn describe(known: &Known, now: Ms, asks: Option<&Args<'_>>) -> String {
    let (sent, arguments) = asks.map(lengths).unwrap_or_default();
    let client = &known.client;
    let held = Text::clone(&known.text.lock());
    let seconds = |since: Ms| now.saturating_sub(since) / 1000;
    let redirect = match known.redirect.load(Relaxed) {
        _ if !known.has(flag::TRACKING) => -1,
        id => id as i64,
    };
    let waiting = client.waiting();
    let library = match held.lib_name.is_empty() && held.lib_version.is_empty() {
        true => String::new(),
        false => format!(" lib-name={} lib-ver={}", text(&held.lib_name), text(&held.lib_version)),
    };
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} qbuf={sent} qbuf-free=0 argv-mem={arguments} multi-mem=0 rbs=0 rbp=0 \
         obl=0 oll={} omem={} tot-mem={} events=r cmd={} user={} redir={} resp={}{library}\n",
        client.id,
        address(client),
        local_address(client),
        client.id,
        text(&held.name),
        seconds(client.since),
        seconds(client.active.load(Relaxed)),
        letters(known),
        known.db.load(Relaxed),
        known.channels.load(Relaxed),
        known.patterns.load(Relaxed),
        known.shard_channels.load(Relaxed),
        known.queued.load(Relaxed),
        u8::from(waiting > 0),
        waiting,
        waiting + size_of::<Known>(),
        command_name(known.command.load(Relaxed)),
        text(&held.user),
        redirect,
        if known.version() == Version::V3 { 3 } else { 2 },
    )
}

/// The name of a command by its number.
pub(crate) fn command_name(number: u16) -> &'static str {
    let mut all =
        table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands));
    all.find(|command| command.id as u16 == number).map_or("NULL", |command| command.name)
}
