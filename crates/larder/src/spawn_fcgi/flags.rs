//! The table of spawn-fcgi's flags, with their effects.

use super::{COMPATIBLE, Exit, Typed};
use crate::getopt::{self, Flag, Takes};

const FLAGS: &[Flag] = &[
    (b'c', "", Takes::Argument),
    (b'd', "", Takes::Argument),
    (b'f', "", Takes::Argument),
    (b'g', "", Takes::Argument),
    (b'?', "", Takes::Nothing),
    (b'h', "", Takes::Nothing),
    (b'n', "", Takes::Nothing),
    (b'a', "", Takes::Argument),
    (b'p', "", Takes::Argument),
    (b'b', "", Takes::Argument),
    (b'u', "", Takes::Argument),
    (b'v', "", Takes::Nothing),
    (b'C', "", Takes::Argument),
    (b'F', "", Takes::Argument),
    (b's', "", Takes::Argument),
    (b'P', "", Takes::Argument),
    (b'U', "", Takes::Argument),
    (b'G', "", Takes::Argument),
    (b'M', "", Takes::Argument),
    (b'S', "", Takes::Nothing),
];

/// Parses all flags. `root`: the flags for root alone have an effect.
pub(super) fn read(arguments: &[String], root: bool) -> Result<Typed, Exit> {
    let mut typed = Typed::default();
    if arguments.is_empty() {
        return Err(Exit::Help { message: None, code: super::FAILED });
    }
    let take = |letter, value: &str| take(letter, value, root, &mut typed);
    typed.words = getopt::each(FLAGS, arguments, take)?;
    Ok(typed)
}

fn take(letter: u8, value: &str, root: bool, typed: &mut Typed) -> Result<(), Exit> {
    let text = || Some(value.to_owned());
    let privileged = || text().filter(|_| root);
    match letter {
        b'f' => typed.program = text(),
        b'd' => typed.directory = text(),
        b'a' => typed.address = text(),
        b'p' => {
            let (port, whole) = strtol(value, 10);
            // Higher bits are lost, as in spawn-fcgi.
            typed.port = port as u16;
            if !whole {
                return Err(Exit::failure(format!("invalid port: {}", typed.port)));
            }
        }
        b's' => typed.socket = text(),
        b'M' => typed.mode = Some(strtol(value, 8).0 as u32 & 0o7777),
        b'C' => typed.children = Some(strtol(value, 10).0 as i32).filter(|count| *count >= 0),
        b'F' => typed.forks = (strtol(value, 10).0 as i32).clamp(1, super::MOST_FORKS),
        b'b' => typed.backlog = strtol(value, 10).0 as i32,
        b'P' => typed.pid_file = text(),
        b'n' => typed.no_fork = true,
        b'c' => typed.root = privileged(),
        b'S' => typed.socket_outside = root,
        b'u' => typed.user = privileged(),
        b'g' => typed.group = privileged(),
        b'U' => typed.socket_user = privileged(),
        b'G' => typed.socket_group = privileged(),
        b'v' => return Err(Exit::Show(format!("{}\n", version()))),
        _ => return Err(Exit::Help { message: None, code: 0 }),
    }
    Ok(())
}

/// As C's `strtol`: blanks, a sign, digits of the radix; the rest is ignored, and no digits are 0.
/// The second value tells whether there was no rest. Saturates.
pub(super) fn strtol(text: &str, radix: u32) -> (i64, bool) {
    let start = text.trim_ascii_start();
    let (negative, digits) = match start.as_bytes().first() {
        Some(b'-') => (true, &start[1..]),
        Some(b'+') => (false, &start[1..]),
        _ => (false, start),
    };
    let count = digits.chars().take_while(|letter| letter.is_digit(radix)).count();
    let mut number = 0i64;
    for digit in digits[..count].chars().filter_map(|letter| letter.to_digit(radix)) {
        number = number.saturating_mul(i64::from(radix)).saturating_add(i64::from(digit));
    }
    let whole = text.is_empty() || (count > 0 && count == digits.len());
    (if negative { -number } else { number }, whole)
}

/// Scripts read the second word as the version.
fn version() -> String {
    let own = env!("CARGO_PKG_VERSION");
    format!("spawn-fcgi v{COMPATIBLE} (larder {own}) - spawns FastCGI processes")
}

pub(super) fn help() -> String {
    include_str!("help.txt").replace("VERSION", &version())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(arguments: &[&str], root: bool) -> Typed {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        match read(&arguments, root) {
            Ok(typed) => typed,
            Err(exit) => panic!("{arguments:?}: {exit:?}"),
        }
    }

    #[test]
    fn the_help_has_every_flag() {
        for (letter, ..) in FLAGS {
            let flag = format!("-{}", char::from(*letter));
            assert!(help().contains(&flag), "{flag}");
        }
    }

    #[test]
    fn values_mean_what_they_mean_to_spawn_fcgi() {
        let flags = typed(&["-p70000", "-M", "0770x", "-Cx", "-F", "0", "-b", "5", "a", "b"], true);
        assert_eq!((flags.port, flags.mode), (4464, Some(0o770)));
        assert_eq!((flags.children, flags.forks, flags.backlog), (Some(0), 1, 5));
        assert_eq!(flags.words, ["a", "b"]);
        assert_eq!(typed(&["-C-3", "-F99999999"], true).children, None);
        assert_eq!(typed(&["-M9"], true).mode, Some(0));
    }

    #[test]
    fn some_flags_are_for_root() {
        let all = ["-u", "a", "-g", "b", "-U", "c", "-G", "d", "-c", "/", "-S"];
        let flags = typed(&all, true);
        assert!(flags.user.is_some() && flags.socket_group.is_some() && flags.socket_outside);
        assert_eq!(format!("{:?}", typed(&all, false)), format!("{:?}", Typed::default()));
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, radix, read) in [
            ("12", 10, (12, true)),
            (" -5x", 10, (-5, false)),
            ("+7", 8, (7, true)),
            ("", 10, (0, true)),
            ("x", 10, (0, false)),
            ("778", 8, (0o77, false)),
            ("99999999999999999999", 10, (i64::MAX, true)),
        ] {
            assert_eq!(strtol(text, radix), read, "{text:?}");
        }
    }
}
