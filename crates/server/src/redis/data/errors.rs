//! Errors of several commands, in Redis's words.

use larder_proto::resp::Args;
use larder_store::{MAX_KEY, PutError};

use super::super::ctx::Ctx;

pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const NOT_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(super) const NO_KEY: &str = "ERR no such key";
pub(super) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
pub(super) const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const TOO_LARGE: &str = "ERR value is larger than the largest item this server stores";

/// The reason why a command had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// This error.
    Error(&'static str),
    /// `ERR invalid expire time in '...' command`
    Expiry,
    /// The key is longer than the store takes.
    Key,
    /// A part of the collection was evicted, and so the whole: the command starts again.
    Lost,
    /// The command needs the stripe of its key, and starts again with it.
    Unlocked,
    /// The hash must be made ready in steps; then the command starts again.
    Unready,
}

/// Most keys of a command that looks at all of them in one step.
const KEYS: usize = 4096;
const TOO_MANY_KEYS: &str = "ERR this command takes at most 4096 keys";

/// Are there few enough keys to look at all of them in one step?
pub(super) fn few_keys(keys: usize) -> Outcome {
    if keys <= KEYS { Ok(()) } else { Err(TOO_MANY_KEYS.into()) }
}

/// Result of a step of a command.
pub(super) type Outcome<T = ()> = Result<T, Refused>;

impl From<&'static str> for Refused {
    fn from(text: &'static str) -> Self {
        Refused::Error(text)
    }
}

/// Converts a refused write. (Unmet conditions are handled before.)
pub(super) fn refused(error: PutError, key: &[u8]) -> Refused {
    match error {
        PutError::TooLarge if key.len() > MAX_KEY => Refused::Key,
        PutError::TooLarge => Refused::Error(TOO_LARGE),
        _ => Refused::Error(FULL),
    }
}

impl Ctx<'_> {
    /// Answers the error, if there is one.
    #[inline]
    pub(super) fn settle(&mut self, outcome: Outcome, args: &Args<'_>) {
        if let Err(refused) = outcome {
            self.refuse(refused, args);
        }
    }

    #[cold]
    fn refuse(&mut self, refused: Refused, args: &Args<'_>) {
        if refused == Refused::Unready {
            return self.begin_ready(args);
        }
        if refused == Refused::Unlocked {
            self.conn.wants_stripe = true;
            return;
        }
        let mut reply = self.reply();
        match refused {
            Refused::Error(text) => reply.error(text),
            Refused::Expiry => {
                let name = args.get(0).to_ascii_lowercase();
                reply.error([b"ERR invalid expire time in '", &name[..], b"' command"].concat());
            }
            Refused::Lost | Refused::Unlocked | Refused::Unready => reply.error(FULL),
            Refused::Key => reply.error(format!("ERR the key is longer than {MAX_KEY} bytes")),
        }
    }
}
