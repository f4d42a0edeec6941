//! Files of users and passwords, as memcached's `-Y` takes them: a line each, `user:password`.

use std::{path::Path, sync::Arc};

use larder_server::settings::{Secret, Users};

use super::bounded;

/// Largest file of users, in bytes.
const FILE_BYTES: usize = 1 << 20;

/// The most users in a file: each login is compared with all of them.
const MOST: usize = 1024;

/// The users of a file, and whether everybody may read it. The error is a reason to print behind
/// the file's name.
pub(crate) fn read(path: &Path) -> Result<(Users, bool), String> {
    let (text, mode) = bounded::read(path, FILE_BYTES)?;
    Ok((parse(&text)?, mode & 0o004 != 0))
}

/// The users of a text. Empty lines are skipped; a password is the text behind the first colon,
/// without a line end.
pub(crate) fn parse(text: &[u8]) -> Result<Users, String> {
    let mut users = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let at = line.iter().position(|byte| *byte == b':');
        let (name, password) = at
            .map(|at| (&line[..at], &line[at + 1..]))
            .ok_or_else(|| malformed(number, "has no colon"))?;
        let name = std::str::from_utf8(name).map_err(|_| malformed(number, "is not UTF-8 text"))?;
        if name.is_empty() {
            return Err(malformed(number, "has no user"));
        }
        let password = Secret::new(password).ok_or_else(|| malformed(number, "has no password"))?;
        users.push((name.to_owned(), password));
    }
    match users.len() {
        0 => Err("it names no user".to_owned()),
        1..=MOST => Ok(Arc::from(users)),
        many => Err(format!("it names {many} users; at most {MOST}")),
    }
}

fn malformed(number: usize, what: &str) -> String {
    format!("line {} {what}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_users() {
        let users = parse(b"anna:secret\n\nbob:pass:word \r\n").expect("good");
        let names: Vec<&str> = users.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["anna", "bob"]);
        assert!(users[0].1.matches(b"secret"));
        assert!(users[1].1.matches(b"pass:word "), "only the first colon divides; blanks count");
    }

    #[test]
    fn what_lets_everyone_or_nobody_in_is_refused() {
        for (text, reason) in [
            ("", "it names no user"),
            ("anna:a\nbob\n", "line 2 has no colon"),
            (":secret\n", "line 1 has no user"),
            ("anna:\n", "line 1 has no password"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(reason.to_owned()), "{text:?}");
        }
        let many: String = (0..=MOST).map(|number| format!("user{number}:secret\n")).collect();
        assert!(parse(many.as_bytes()).is_err_and(|reason| reason.contains("at most 1024")));
    }
}
