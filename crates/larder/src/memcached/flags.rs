//! The table of memcached's flags, with their effects.

use larder_server::settings::WireProtocol;

use super::{COMPATIBLE, Exit, Typed, extended};
use crate::getopt::{self, Flag, Takes, atoi};

/// In memcached's order, which shows in messages about ambiguous names. An empty name: the flag has
/// none.
const FLAGS: &[Flag] = &[
    (b'a', "unix-mask", Takes::Argument),
    (b'A', "enable-shutdown", Takes::Nothing),
    (b'Z', "enable-ssl", Takes::Nothing),
    (b'p', "port", Takes::Argument),
    (b's', "unix-socket", Takes::Argument),
    (b'U', "udp-port", Takes::Argument),
    (b'm', "memory-limit", Takes::Argument),
    (b'M', "disable-evictions", Takes::Nothing),
    (b'c', "conn-limit", Takes::Argument),
    (b'k', "lock-memory", Takes::Nothing),
    (b'h', "help", Takes::Nothing),
    (b'i', "license", Takes::Nothing),
    (b'V', "version", Takes::Nothing),
    (b'r', "enable-coredumps", Takes::Nothing),
    (b'v', "verbose", Takes::Nothing),
    (b'd', "daemon", Takes::Nothing),
    (b'l', "listen", Takes::Argument),
    (b'u', "user", Takes::Argument),
    (b'P', "pidfile", Takes::Argument),
    (b'f', "slab-growth-factor", Takes::Argument),
    (b'n', "slab-min-size", Takes::Argument),
    (b't', "threads", Takes::Argument),
    (b'D', "", Takes::Argument),
    (b'L', "enable-largepages", Takes::Nothing),
    (b'R', "max-reqs-per-event", Takes::Argument),
    (b'C', "disable-cas", Takes::Nothing),
    (b'b', "listen-backlog", Takes::Argument),
    (b'B', "protocol", Takes::Argument),
    (b'I', "max-item-size", Takes::Argument),
    (b'S', "enable-sasl", Takes::Nothing),
    (b'F', "disable-flush-all", Takes::Nothing),
    (b'X', "disable-dumping", Takes::Nothing),
    (b'W', "disable-watch", Takes::Nothing),
    (b'Y', "auth-file", Takes::Argument),
    (b'e', "memory-file", Takes::Argument),
    (b'o', "extended", Takes::Argument),
    (b'N', "napi-ids", Takes::Argument),
];

/// The most threads; memcached has no limit.
const MOST_THREADS: i64 = 1024;

/// The request of the flags.
#[derive(Debug)]
pub(super) enum Parsed {
    Serve(Box<Typed>),
    /// Print a text and exit.
    Show(String),
}

/// The reason why parsing stopped: a mistake, or a flag that prints a text.
enum Stopped {
    Wrong(Exit),
    Show(String),
}

impl From<String> for Stopped {
    fn from(message: String) -> Stopped {
        Stopped::Wrong(Exit::from(message))
    }
}

impl From<Exit> for Stopped {
    fn from(exit: Exit) -> Stopped {
        Stopped::Wrong(exit)
    }
}

/// Parses all flags. Other words have no effect, as in memcached.
pub(super) fn read(arguments: &[String]) -> Result<Parsed, Exit> {
    let mut typed = Typed::default();
    match getopt::each(FLAGS, arguments, |letter, value| take(letter, value, &mut typed)) {
        Ok(_) => Ok(Parsed::Serve(Box::new(typed))),
        Err(Stopped::Show(text)) => Ok(Parsed::Show(text)),
        Err(Stopped::Wrong(exit)) => Err(exit),
    }
}

fn take(letter: u8, value: &str, typed: &mut Typed) -> Result<(), Stopped> {
    match letter {
        b'h' => return Err(Stopped::Show(help())),
        b'i' => return Err(Stopped::Show(license())),
        b'V' => return Err(Stopped::Show(version())),
        b'A' => typed.shutdown = true,
        b'M' => typed.no_evictions = true,
        b'k' => typed.lock = true,
        b'r' => typed.core = true,
        b'd' => typed.daemon = true,
        b'C' => typed.cas = false,
        b'S' => typed.sasl = true,
        b'F' => typed.flush_all = false,
        b'X' => typed.dump = false,
        b'W' => typed.watch = false,
        b'v' => typed.verbosity = (typed.verbosity + 1).min(3),
        b'Z' => typed.tls = true,
        b'L' => typed.without_effect.push("-L".to_owned()),
        b'a' => typed.unix_mode = octal(value),
        b's' => typed.unix_socket = Some(value.to_owned()),
        b'u' => typed.user = Some(value.to_owned()),
        b'P' => typed.pid_file = Some(value.to_owned()),
        b'Y' => typed.auth_file = Some(value.to_owned()),
        b'l' => match &mut typed.listen {
            Some(list) => {
                list.push(',');
                list.push_str(value);
            }
            list => *list = Some(value.to_owned()),
        },
        b'e' => typed.memory_file = Some(value.to_owned()),
        b'o' => extended::read(value, typed)?,
        _ => with_number(letter, value, typed)?,
    }
    Ok(())
}

/// Flags whose value is parsed.
fn with_number(letter: u8, value: &str, typed: &mut Typed) -> Result<(), Exit> {
    let number = atoi(value);
    let positive =
        |message: &str| if number > 0 { Ok(()) } else { Err(Exit::failure(message.to_owned())) };
    match letter {
        b'p' => typed.port = Some(number),
        b'U' => typed.udp_port = Some(number),
        b'm' => typed.megabytes = number,
        b'c' => {
            positive("Maximum connections must be greater than 0")?;
            typed.connections = number;
        }
        b'f' => {
            // As atof: text that is no number is 0.
            if value.trim().parse().unwrap_or(0.0) <= 1.0 {
                return Err(Exit::failure("Factor must be greater than 1".to_owned()));
            }
            typed.without_effect.push("-f".to_owned());
        }
        b'n' => {
            positive("Chunk size must be greater than 0")?;
            typed.without_effect.push("-n".to_owned());
        }
        b't' => {
            positive("Number of threads must be greater than 0")?;
            if number > MOST_THREADS {
                return Err(Exit::failure(format!(
                    "Number of threads must not be greater than {MOST_THREADS}"
                )));
            }
            typed.threads = number;
            if number > 64 {
                typed.warnings.push(
                    "WARNING: Setting a high number of workerthreads is not recommended.\n Set \
                     this value to the number of cores in your machine or less.",
                );
            }
        }
        b'N' => {
            positive("Maximum number of NAPI IDs must be greater than 0")?;
            typed.napi_ids = number;
            typed.without_effect.push("-N".to_owned());
        }
        b'R' => {
            positive("Number of requests per event must be greater than 0")?;
            typed.requests_per_event = number;
        }
        b'b' => typed.backlog = number,
        b'I' => typed.item_size = item_size(value),
        b'B' => typed.protocol = Some(protocol(value)?),
        b'D' => match value.bytes().next() {
            Some(delimiter) => typed.delimiter = Some(delimiter),
            None => return Err(Exit::failure("No delimiter specified".to_owned())),
        },
        other => return Err(Exit::failure(format!("Illegal argument \"{}\"", char::from(other)))),
    }
    Ok(())
}

/// As `strtol(.., 8)`: the leading octal digits; only permissions are kept.
fn octal(text: &str) -> u32 {
    let digits = text.trim().bytes().take_while(|byte| (b'0'..=b'7').contains(byte));
    digits.fold(0u32, |mode, digit| (mode * 8 + u32::from(digit - b'0')) & 0o777)
}

/// A number of bytes, or of KiB or MiB with `k` or `m` behind it.
fn item_size(text: &str) -> i64 {
    let shift = match text.bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        _ => 0,
    };
    atoi(text) << shift
}

fn protocol(name: &str) -> Result<WireProtocol, Exit> {
    match name {
        "auto" => Ok(WireProtocol::Auto),
        "ascii" => Ok(WireProtocol::Ascii),
        "binary" => Ok(WireProtocol::Binary),
        other => Err(Exit::usage(format!(
            "Invalid value for binding protocol: {other}\n -- should be one of auto, binary, or \
             ascii"
        ))),
    }
}

/// Scripts read the second word as the version.
fn version() -> String {
    format!("memcached {COMPATIBLE} (larder {})\n", env!("CARGO_PKG_VERSION"))
}

fn help() -> String {
    format!("{}{}", version(), include_str!("help.txt"))
}

fn license() -> String {
    format!(
        "{}\nThis is Larder, which answers as memcached {COMPATIBLE} does and holds none of its \
         code.\nLicensed under either of the Apache License, Version 2.0, or the MIT license, as \
         you choose.\n",
        version()
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn typed(arguments: &[&str]) -> Typed {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        match read(&arguments) {
            Ok(Parsed::Serve(typed)) => *typed,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    #[test]
    fn the_table_names_every_flag_once_and_the_help_has_them_all() {
        let letters: HashSet<u8> = FLAGS.iter().map(|(letter, ..)| *letter).collect();
        assert_eq!(letters.len(), FLAGS.len());
        let help = help();
        for (letter, name, _) in FLAGS {
            assert!(
                help.contains(&format!("-{}", char::from(*letter))),
                "-{}",
                char::from(*letter)
            );
            assert!(help.contains(&format!("--{name}")), "--{name}");
        }
    }

    #[test]
    fn every_flag_is_taken_up() {
        for (letter, _, takes) in FLAGS {
            let value = if *takes == Takes::Argument { "2" } else { "" };
            let mut typed = Typed::default();
            let taken = take(*letter, value, &mut typed);
            let fine = match letter {
                b'h' | b'i' | b'V' => matches!(taken, Err(Stopped::Show(_))),
                b'B' | b'o' => matches!(taken, Err(Stopped::Wrong(_))),
                _ => taken.is_ok() && format!("{typed:?}") != format!("{:?}", Typed::default()),
            };
            assert!(fine, "-{}", char::from(*letter));
        }
    }

    #[test]
    fn values_mean_what_they_mean_to_memcached() {
        let flags =
            typed(&["-I", "2m", "-a", "0770", "-l", "a,b", "-l", "c", "-vvvv", "-p11x", "-D:;"]);
        assert_eq!((flags.item_size, flags.unix_mode), (2 << 20, 0o770));
        assert_eq!(flags.listen.as_deref(), Some("a,b,c"));
        assert_eq!((flags.verbosity, flags.port, flags.delimiter), (3, Some(11), Some(b':')));
        assert_eq!(typed(&["-I", "4096"]).item_size, 4096);
        assert_eq!(typed(&["-a", "999"]).unix_mode, 0);
    }
}
