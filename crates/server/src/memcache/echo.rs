//! The log of `-vv`: commands and answers on standard error, for debugging. A worker that prints
//! waits for the terminal, as in memcached. While the log is off, it costs one read of a flag per
//! command.
//!
//! `<13 get foo` came from connection 13, `>13 END` went to it. The number is that of `stats conns`
//! (in memcached a file descriptor). Values are not printed. Of binary requests and responses only
//! the header is printed.

use std::{fmt::Write as _, io::Write as _};

use super::session::{Session, State};
use crate::{
    clock::Ms,
    net::out::{COPY_LIMIT, Out},
    object::Turn,
};

/// Most bytes printed of a command line: the longest line that memcached reads.
const SHOWN: usize = 2048;
/// Length of a header of the binary protocol, in bytes.
const HEADER: usize = 24;

/// Prints all lines with one write, so that lines of other workers do not come between.
pub(super) fn print(lines: &str) {
    // Without standard error there is nobody to report to.
    let _ = std::io::stderr().lock().write_all(lines.as_bytes());
}

/// Executes a turn of `session` and prints its commands and answers.
#[cold]
#[inline(never)]
pub(super) fn turn(session: &mut Session, input: &[u8], now: Ms, out: &mut Out) -> Turn {
    let (id, known, ready) = (
        session.client.id,
        session.is_known(),
        matches!(session.state, State::Ready | State::Block),
    );
    let before = out.scratch().len();
    let turn = session.step(input, now, out);
    let mut lines = String::new();
    let taken = !matches!(turn, Turn::More(_));
    if !known && session.is_known() {
        let protocol = if session.is_binary() { "binary" } else { "ascii" };
        let _ = writeln!(lines, "{id}: Client using the {protocol} protocol");
    } else if ready && taken && session.is_binary() {
        header(
            &mut lines,
            &format!("<{id} Read binary protocol data:"),
            &format!("<{id}   "),
            input,
        );
    } else if ready && taken {
        let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let _ =
            writeln!(lines, "<{id} {}", String::from_utf8_lossy(&line[..line.len().min(SHOWN)]));
    }
    let answer = out.scratch().get(before..).unwrap_or_default();
    if session.is_binary() {
        header(&mut lines, &format!(">{id} Writing bin response:"), &format!(">{id}  "), answer);
    } else {
        answers(&mut lines, id, answer);
    }
    print(&lines);
    turn
}

/// Composes the lines that memcached prints of a text answer: no values, no statistics, and no
/// successful answers of meta commands.
fn answers(lines: &mut String, id: u64, mut answer: &[u8]) {
    let mut quiet = false;
    while let Some(end) = answer.iter().position(|&byte| byte == b'\n') {
        let line = answer[..end].strip_suffix(b"\r").unwrap_or(&answer[..end]);
        answer = &answer[end + 1..];
        let mut words = line.split(|&byte| byte == b' ');
        let verb = words.next().unwrap_or_default();
        match verb {
            b"VALUE" => {
                let (key, size) =
                    (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
                let _ = writeln!(lines, ">{id} sending key {}", String::from_utf8_lossy(key));
                answer = behind_value(answer, size);
            }
            b"VA" => answer = behind_value(answer, words.next().unwrap_or_default()),
            b"STAT" => quiet = true,
            // Lines of a dump: `key=foo exp=...`, `mg foo`. There may be millions.
            _ if verb.starts_with(b"key=") || verb == b"mg" => quiet = true,
            b"HD" | b"EN" | b"NF" | b"NS" | b"EX" | b"ME" => {}
            _ if quiet || line.is_empty() => {}
            _ => {
                let _ = writeln!(lines, ">{id} {}", String::from_utf8_lossy(line));
            }
        }
    }
}

/// The part of `answer` behind a value; `size` is the value's length in decimal. A large value is
/// not part of the composed answer.
fn behind_value<'a>(answer: &'a [u8], size: &[u8]) -> &'a [u8] {
    let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok()).unwrap_or(0);
    let here = if size > COPY_LIMIT { 0 } else { size };
    answer.get(here + 2..).unwrap_or_default()
}

/// Prints the header at the start of `bytes`, four bytes per line.
fn header(lines: &mut String, title: &str, start: &str, bytes: &[u8]) {
    let Some(header) = bytes.get(..HEADER) else { return };
    let _ = writeln!(lines, "{title}");
    for row in header.chunks(4) {
        lines.push_str(start);
        for byte in row {
            let _ = write!(lines, " 0x{byte:02x}");
        }
        lines.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of memcached 1.6.18 at `-vv`.
    #[test]
    fn answers_are_printed_like_memcacheds() {
        let shown = |answer: &[u8]| {
            let mut lines = String::new();
            answers(&mut lines, 13, answer);
            lines
        };
        assert_eq!(shown(b"END\r\n"), ">13 END\n");
        assert_eq!(
            shown(b"VALUE foo 0 3\r\nbar\r\nVALUE a\xff 0 4 7\r\nEND\n\r\nEND\r\n"),
            ">13 sending key foo\n>13 sending key a\u{fffd}\n>13 END\n"
        );
        assert_eq!(shown(b"VALUE large 0 5000\r\n\r\nEND\r\n"), ">13 sending key large\n>13 END\n");
        assert_eq!(shown(b"VA 2 f0\r\nab\r\nHD\r\nEN\r\nMN\r\n"), ">13 MN\n");
        assert_eq!(shown(b"STAT pid 1\r\nEND\r\n"), "");
        assert_eq!(shown(b"key=foo exp=-1 la=1 cas=1\nkey=bar exp=-1 la=1 cas=2\nEND\r\n"), "");
        assert_eq!(shown(b"mg foo\r\nmg bar\r\nEN\r\n"), "");
        assert_eq!(shown(b"CLIENT_ERROR bad data chunk\r\n"), ">13 CLIENT_ERROR bad data chunk\n");
    }
}
