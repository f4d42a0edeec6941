//! The text protocol (protocol.txt, "Storage commands" to "Other commands"). One file per verb.

mod admin;
mod count;
mod delete;
mod flush;
mod get;
mod store;
mod touch;

pub use admin::{Admin, Shutdown, Verb};
pub use count::Count;
pub use delete::Delete;
pub use flush::Flush;
pub use get::{END, Get, Key, Keys, value};
pub use store::{Mode, Store};
pub use touch::Touch;

pub(crate) use get::get;
pub(crate) use store::{block, store};

use super::{Command, ERROR, Refused, line::Words, refused};

/// `set` and its kin succeeded.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of an `add`, `replace`, `append` or `prepend` did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas`: the item was changed meanwhile.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// Not found.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// `delete` succeeded.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// `touch` succeeded.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// Done.
pub const OK: &[u8] = b"OK\r\n";

/// The word that asks for no answer, at the end of a line.
const NOREPLY: &[u8] = b"noreply";

/// The most words into which memcached splits a line, including the verb; the rest is one more.
const MAX_WORDS: usize = 23;

/// At most `most` words after the verb, as an array; `None`: fewer than `N`, or more than `most`.
fn words<'a, const N: usize>(mut words: Words<'a>, most: usize) -> Option<[&'a [u8]; N]> {
    let mut taken = [&b""[..]; N];
    for word in &mut taken {
        *word = words.next()?;
    }
    (words.count() <= most - N).then_some(taken)
}

/// A line of the text protocol. `args`: the words after the verb.
pub(super) fn command<'a>(verb: &'a [u8], args: Words<'a>, line: &'a [u8]) -> Command<'a> {
    match verb {
        b"bget" => get(args, false),
        b"gat" => get::gat(args, false),
        b"gats" => get::gat(args, true),
        b"add" => store(Mode::Add, args),
        b"replace" => store(Mode::Replace, args),
        b"append" => store(Mode::Append, args),
        b"prepend" => store(Mode::Prepend, args),
        b"cas" => store::cas(args),
        b"incr" => count::count(args, false),
        b"decr" => count::count(args, true),
        b"delete" => delete::delete(args),
        b"touch" => touch::touch(args),
        b"flush_all" => flush::flush(args),
        b"version" => Command::Version,
        b"quit" => Command::Quit,
        b"refresh_certs" => refused(b"Error TLS not enabled\r\n"),
        _ => admin::command(verb, args).unwrap_or_else(|| unknown(line)),
    }
}

/// Unknown verb. A line that looks like HTTP closes the connection, so that a page in a browser
/// cannot send commands.
fn unknown(line: &[u8]) -> Command<'_> {
    let words = Words::new(line);
    if words.count() <= MAX_WORDS && words.last_word().starts_with(b"HTTP/") {
        return Command::Refused(Refused { answer: b"", swallow: 0, close: true });
    }
    refused(ERROR)
}

#[cfg(test)]
mod tests {
    use super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn a_client_that_sent_a_nonexistent_command_name_gets_error() {
        for line in [
            "\r\n",
            "\n",
            "a\r\n",
            "GET a\r\n",
            "  \r\n",
            "mx\r\n",
            "gett a\r\n",
            "misbehave\r\n",
            "foo x HTTP\r\n",
        ] {
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(refused(ERROR), line.len()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn what_looks_like_http_ends_the_connection() {
        let close = Refused { answer: b"", swallow: 0, close: true };
        for line in ["POST / HTTP/1.1\r\n", "HTTP/1.0\r\n"] {
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(Command::Refused(close), line.len())
            );
        }
    }

    #[test]
    fn words_without_arguments() {
        assert_eq!(decode(b"version foo\r\n"), Decoded::Command(Command::Version, 13));
        assert_eq!(decode(b" quit\n"), Decoded::Command(Command::Quit, 6));
    }

    #[test]
    fn a_line_without_end_is_waited_for_up_to_a_limit() {
        assert_eq!(decode(b""), Decoded::Partial);
        assert_eq!(decode(b"set a 0 0 1\r"), Decoded::Partial);
        assert_eq!(decode(&[b'x'; 2048]), Decoded::Partial);
        assert_eq!(decode(&[b'x'; 2049]), Decoded::TooLong);
    }
}
