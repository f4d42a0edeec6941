//! MONITOR: sends every executed command to the monitors.

use std::sync::Arc;

use larder_proto::resp::{
    Args, number,
    table::{Command, flag},
};
use parking_lot::RwLock;

use crate::object::{Client, Peer};

use super::{
    attention,
    ctx::Ctx,
    known::{Known, flag as letter},
    shared::{Face, Shared},
    state::Conn,
};

/// Bytes shown of an argument (a value of megabytes would not help).
const SHOWN: usize = 4096;

/// Length of a line in bytes from which further arguments are only counted.
const LINE: usize = 64 * 1024;

/// Maximum of monitors: a line of up to 70 KB is copied for all of them at once.
const MONITORS: usize = 64;

/// Clients that sent MONITOR. One per process.
#[derive(Default)]
pub(crate) struct Monitors(RwLock<Vec<Arc<Known>>>);

pub(crate) fn monitor(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    if ctx.conn.in_exec {
        return ctx.reply().error("ERR MONITOR isn't allowed for DENY BLOCKING client");
    }
    let known = ctx.conn.known.clone();
    if known.has(letter::MONITOR) {
        // Redis does not answer it either.
        return;
    }
    let mut all = ctx.shared.monitors.0.write();
    if all.len() >= MONITORS {
        drop(all);
        return ctx.reply().error("ERR too many clients in MONITOR");
    }
    known.raise(letter::MONITOR);
    ctx.conn.settle();
    all.push(known);
    attention::set(ctx.shared, attention::MONITOR, true);
    drop(all);
    ctx.reply().ok();
}

/// Ends a connection's MONITOR.
pub(crate) fn leave(shared: &Shared, known: &Known) {
    if !known.has(letter::MONITOR) {
        return;
    }
    known.lower(letter::MONITOR);
    let mut all = shared.monitors.0.write();
    all.retain(|other| other.id() != known.id());
    attention::set(shared, attention::MONITOR, !all.is_empty());
}

/// Returns whether this argument is a password or belongs to one. (Redis:
/// `redactClientCommandArgument`.)
pub(crate) fn is_secret(args: &Args<'_>, at: usize) -> bool {
    let option = |name| (1..args.len()).find(|&at| args.is(at, name));
    if args.is(0, "auth") {
        at > 0
    } else if args.is(0, "hello") {
        option("auth").is_some_and(|auth| at == auth + 1 || at == auth + 2)
    } else if args.is(0, "acl") {
        at > 1 && args.is(1, "setuser")
    } else {
        args.is(0, "config")
            && args.is(1, "set")
            && at > 2
            && at % 2 == 1
            && args.is(at - 1, "requirepass")
    }
}

/// The address of the client, or `lua`.
fn shown_source(conn: &Conn) -> String {
    if conn.in_script { "lua".into() } else { shown_address(&conn.known.client) }
}

/// Reports an executed command to the monitors.
#[cold]
pub(crate) fn feed(face: &Face, conn: &Conn, command: &Command, args: &Args<'_>) {
    // As in Redis, administrative commands are not shown, and scripts were before their commands.
    if !command.has(flag::SKIP_MONITOR | flag::ADMIN) {
        show(face, conn, args);
    }
}

/// Reports a command to the monitors.
#[cold]
pub(crate) fn show(face: &Face, conn: &Conn, args: &Args<'_>) {
    let start = face.clock.micros();
    let mut line = Vec::with_capacity(128);
    let micros = face.wall_micros();
    line.push(b'+');
    number::push_u64(&mut line, micros / 1_000_000);
    line.extend_from_slice(
        format!(".{:06} [{} {}]", micros % 1_000_000, conn.db, shown_source(conn)).as_bytes(),
    );
    for (at, arg) in args.from(0).enumerate() {
        if line.len() > LINE {
            let more = format!(" \"... ({} more arguments)\"", args.len() - at);
            line.extend_from_slice(more.as_bytes());
            break;
        }
        line.push(b' ');
        quote(
            if is_secret(args, at) { b"(redacted)" } else { &arg[..arg.len().min(SHOWN)] },
            &mut line,
        );
    }
    line.extend_from_slice(b"\r\n");
    let limit = face.shared.config.mail_limit();
    for known in face.shared.monitors.0.read().iter() {
        // Nothing is sent to it after its last answer.
        if !(conn.closing && known.id() == conn.known.id()) {
            known.push(&line, limit);
        }
    }
    face.turn_time.took(face.clock.micros().saturating_sub(start));
}

fn shown_address(client: &Client) -> String {
    match client.peer {
        Peer::Tcp(address) | Peer::Udp(address) => address.to_string(),
        Peer::Unix => format!("unix:{}", client.local),
    }
}

/// Appends a string in quotes, with unprintable bytes escaped (Redis: `sdscatrepr`).
pub(crate) fn quote(bytes: &[u8], into: &mut Vec<u8>) {
    into.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => into.extend_from_slice(&[b'\\', byte]),
            b'\n' => into.extend_from_slice(b"\\n"),
            b'\r' => into.extend_from_slice(b"\\r"),
            b'\t' => into.extend_from_slice(b"\\t"),
            7 => into.extend_from_slice(b"\\a"),
            8 => into.extend_from_slice(b"\\b"),
            b' '..=b'~' => into.push(byte),
            _ => {
                let hex = b"0123456789abcdef";
                into.extend_from_slice(&[
                    b'\\',
                    b'x',
                    hex[(byte >> 4) as usize],
                    hex[(byte & 15) as usize],
                ]);
            }
        }
    }
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_like_redis() {
        let mut line = Vec::new();
        quote(b"a\"b\\c\n\x07\x00\xff", &mut line);
        assert_eq!(line, br#""a\"b\\c\n\a\x00\xff""#);
    }
}
