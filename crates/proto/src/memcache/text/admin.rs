//! Commands for operators (protocol.txt, "Slabs Reassign" to "Other commands"): recognised here,
//! executed by the holder of the figures.

use super::super::{BAD_FORMAT, Command, ERROR, line, line::Words, refused, refused_unless};
use super::NOREPLY;

/// `shutdown` with an unknown mode.
const BAD_MODE: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";

/// `shutdown [graceful]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// At once.
    Now,
    /// After the requests under way.
    Graceful,
    /// Neither: the answer, if `shutdown` is allowed at all.
    Unknown(&'static [u8]),
}

/// A command for operators, with its words (without the verb).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin<'a> {
    /// The verb.
    pub verb: Verb,
    /// The rest of the line: words separated by blanks, including a `noreply` at the end.
    pub args: &'a [u8],
    /// The last word is `noreply`. Each verb decides whether it applies.
    pub noreply: bool,
}

/// The verbs of [`Admin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `stats ...`
    Stats,
    /// `verbosity <level> [noreply]`: the level is a number.
    Verbosity,
    /// `lru_crawler ...`
    LruCrawler,
    /// `watch ...`
    Watch,
    /// `slabs ...`
    Slabs,
    /// `cache_memlimit <megabytes> [noreply]`
    CacheMemlimit,
    /// `lru ...`
    Lru,
    /// `extstore ...`
    Extstore,
}

/// The command of this verb, if there is one.
pub(super) fn command<'a>(verb: &[u8], args: Words<'a>) -> Option<Command<'a>> {
    let verb = match verb {
        b"stats" => Verb::Stats,
        b"verbosity" => Verb::Verbosity,
        b"lru_crawler" => Verb::LruCrawler,
        b"watch" => Verb::Watch,
        b"slabs" => Verb::Slabs,
        b"cache_memlimit" => Verb::CacheMemlimit,
        b"lru" => Verb::Lru,
        b"extstore" => Verb::Extstore,
        b"shutdown" => return Some(Command::Shutdown(shutdown(args))),
        _ => return None,
    };
    let noreply = args.last_word() == NOREPLY;
    let count = args.count();
    Some(match verb {
        Verb::Verbosity | Verb::CacheMemlimit if !(1..=2).contains(&count) => refused(ERROR),
        Verb::Verbosity if !(noreply && count == 1) && level(args).is_none() => {
            refused_unless(noreply, BAD_FORMAT)
        }
        _ => Command::Admin(Admin { verb, args: args.rest(), noreply }),
    })
}

fn level(mut args: Words<'_>) -> Option<u64> {
    line::unsigned(args.next()?)
}

fn shutdown(mut args: Words<'_>) -> Shutdown {
    match (args.next(), args.next()) {
        (None, _) => Shutdown::Now,
        (Some(b"graceful"), None) => Shutdown::Graceful,
        _ => Shutdown::Unknown(BAD_MODE),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn what_is_for_those_who_run_the_server() {
        for (line, verb, args, noreply) in [
            ("stats", Verb::Stats, "", false),
            ("stats detail on", Verb::Stats, " detail on", false),
            ("verbosity 1", Verb::Verbosity, " 1", false),
            ("verbosity noreply", Verb::Verbosity, " noreply", true),
            ("verbosity 1 noreply", Verb::Verbosity, " 1 noreply", true),
            ("lru_crawler metadump all", Verb::LruCrawler, " metadump all", false),
            ("watch fetchers mutations", Verb::Watch, " fetchers mutations", false),
            ("slabs automove 1", Verb::Slabs, " automove 1", false),
            ("cache_memlimit 64", Verb::CacheMemlimit, " 64", false),
            ("lru tune 10 25 0.1 2.0", Verb::Lru, " tune 10 25 0.1 2.0", false),
            ("extstore x", Verb::Extstore, " x", false),
        ] {
            let admin = Admin { verb, args: args.as_bytes(), noreply };
            let line = format!("{line}\r\n");
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(Command::Admin(admin), line.len()),
                "{line:?}"
            );
        }
        for (line, answer) in [
            ("verbosity", ERROR),
            ("verbosity 0 1 2", ERROR),
            ("verbosity x", BAD_FORMAT),
            ("verbosity -1", BAD_FORMAT),
            ("verbosity x noreply", b""),
            ("cache_memlimit", ERROR),
            ("cache_memlimit 1 2 3", ERROR),
        ] {
            let line = format!("{line}\r\n");
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(refused(answer), line.len()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn shutdown_alone_or_graceful() {
        let is = |line: &str, expected| {
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(Command::Shutdown(expected), line.len())
            );
        };
        is("shutdown\r\n", Shutdown::Now);
        is("shutdown graceful\r\n", Shutdown::Graceful);
        is("shutdown x\r\n", Shutdown::Unknown(BAD_MODE));
        is("shutdown graceful x\r\n", Shutdown::Unknown(BAD_MODE));
    }
}
