//! Limits of a command's arguments, and the errors for commands that are unknown.

use larder_proto::resp::{
    Args,
    table::{self, Command, Id, flag},
};

use super::{COLLECTIONS, text};

/// Maximum of arguments of a command without keys, unless it runs in steps.
const WORDS: usize = 1024;

/// Returns whether these are too many arguments for the command.
#[inline]
pub(super) fn are_too_many(command: &Command, args: &Args<'_>) -> bool {
    args.len() > WORDS && !takes_many(command)
}

#[cold]
fn takes_many(command: &Command) -> bool {
    command.has(flag::WRITE | flag::READONLY)
        || matches!(
            command.id,
            Id::Subscribe
                | Id::Ssubscribe
                | Id::Unsubscribe
                | Id::Sunsubscribe
                | Id::Psubscribe
                | Id::Punsubscribe
                | Id::PubsubNumsub
                | Id::PubsubShardnumsub
                | Id::Watch
                | Id::Eval
                | Id::Evalsha
                | Id::Fcall
                | Id::CommandGetkeys
        )
}

/// Maximum of an argument that is no value, in bytes: it is hashed, compared or copied at once.
const WORD: usize = 64 * 1024;
/// The same of ECHO and PING.
const ECHOED: usize = 1 << 20;
/// The same of a message, which is composed, and copied for a subscriber at least; and of a field's
/// value.
const MESSAGE: usize = 4 << 20;

/// The error for a long command with an argument that would hold the worker. Behind the first
/// argument of some commands a value of any length may follow.
#[cold]
pub(crate) fn overlong(args: &Args<'_>) -> Option<String> {
    let command = table::find(args.get(0));
    if command.is_some_and(|command| !command.takes(args.len())) {
        // Refused for their number, and never looked at.
        return None;
    }
    let (word, value) = match command.map(|command| command.id) {
        Some(
            Id::Set
            | Id::Setex
            | Id::Psetex
            | Id::Setnx
            | Id::Getset
            | Id::Append
            | Id::Setrange
            | Id::Mset
            | Id::Msetnx
            | Id::Restore,
        ) => (WORD, usize::MAX),
        Some(_) if command.is_some_and(|command| command.categories & COLLECTIONS != 0) => {
            (WORD, MESSAGE)
        }
        Some(Id::Publish | Id::Spublish | Id::Hset | Id::Hsetnx | Id::Hmset) => (WORD, MESSAGE),
        // COMMAND GETKEYS: a command of any other is its arguments.
        Some(_) if args.is(0, "command") => (MESSAGE, MESSAGE),
        Some(Id::Echo | Id::Ping) => (ECHOED, ECHOED),
        Some(
            Id::Eval
            | Id::EvalRo
            | Id::Evalsha
            | Id::EvalshaRo
            | Id::Fcall
            | Id::FcallRo
            | Id::Script,
        ) => (MESSAGE, MESSAGE),
        Some(Id::Function) => (LIBRARIES, LIBRARIES),
        None => return None,
        Some(_) => (WORD, WORD),
    };
    let places = command.into_iter().flat_map(|command| command.places(args));
    let is_over = |most| move |arg: &[u8]| arg.len() > most;
    let most = if args.from(1).any(is_over(value)) {
        value
    } else if is_over(word)(args.get(1)) || places.map(|place| args.get(place)).any(is_over(word)) {
        word
    } else {
        return None;
    };
    let name = args.get(0).to_ascii_lowercase();
    Some(format!("ERR an argument of '{}' is longer than {most} bytes", text(&name)))
}

/// The same of the payload of FUNCTION RESTORE, whose checksum is computed at once.
const LIBRARIES: usize = 2 << 20;

/// Bytes of a command's arguments shown in "unknown command".
const SHOWN: usize = 128;

#[cold]
pub(super) fn unknown(args: &Args<'_>) -> Vec<u8> {
    if let Some(absent) = table::absent::absent(args.get(0)) {
        return absent.error().into();
    }
    let mut shown = Vec::new();
    for arg in args.from(1) {
        if shown.len() >= SHOWN {
            break;
        }
        let room = SHOWN - shown.len();
        shown.push(b'\'');
        shown.extend_from_slice(printed(arg, room));
        shown.extend_from_slice(b"' ");
    }
    let name = printed(args.get(0), SHOWN);
    [b"ERR unknown command '", name, b"', with args beginning with: ", &shown].concat()
}

#[cold]
pub(super) fn unknown_subcommand(command: &Command, args: &Args<'_>) -> Vec<u8> {
    let name = printed(args.get(1), SHOWN);
    let help = format!("'. Try {} HELP.", command.name.to_ascii_uppercase());
    [b"ERR unknown subcommand '", name, help.as_bytes()].concat()
}

/// The part of an argument that C's `%.*s` prints: at most `most` bytes, up to a zero byte.
fn printed(bytes: &[u8], most: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(most)];
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}
