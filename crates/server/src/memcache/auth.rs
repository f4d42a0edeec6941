//! Authentication: a text login (protocol.txt, "Authentication") and SASL PLAIN in the binary
//! protocol.
//!
//! A comparison takes a time that depends on lengths only, and every check compares all users. So
//! response times reveal neither names nor passwords.

use larder_proto::memcache::{
    binary::sasl::{MAX_MECHANISM, Sasl},
    sasl::{MAX_MESSAGE, PLAIN, plain},
};

use crate::settings::Users;

/// Longest line before a login, and longest `user password`, in bytes. A client that sends more is
/// disconnected (memcached 1.6.18: 2,048).
pub(crate) const MAX_LOGIN: usize = 2048;

const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
const FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
const BAD_END: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";

/// Returns whether a user with this name and password exists.
pub(crate) fn check(users: &Users, name: &[u8], password: &[u8]) -> bool {
    let mut known = false;
    for (user, secret) in users.iter() {
        // No early exit: every password is compared.
        known |= secret.matches(password) & (user.as_bytes() == name);
    }
    known
}

/// Result of a line from a client that has not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// The line or the login is incomplete; it is complete at this many bytes (0: unknown).
    More(usize),
    /// These bytes were another command or a wrong login; the answer.
    Refused(usize, &'static [u8]),
    /// These bytes logged the client in; the answer.
    In(usize, &'static [u8]),
    /// The login is too long: the connection ends.
    Close,
}

/// Parses the next line of a text client before its login. The login is a `set` of any key with the
/// value `<name> <password>`.
pub(crate) fn text_login(users: &Users, input: &[u8]) -> Login {
    let Some(end) = input.iter().take(MAX_LOGIN).position(|&byte| byte == b'\n') else {
        return if input.len() < MAX_LOGIN { Login::More(0) } else { Login::Close };
    };
    let start = end + 1;
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let Some(len) = value_len(line) else { return Login::Refused(start, UNAUTHENTICATED) };
    let Some(block) = input.get(start..start + len + 2) else {
        return Login::More(start + len + 2);
    };
    let Some(value) = block.strip_suffix(b"\r\n") else {
        return Login::Refused(start + len + 2, BAD_END);
    };
    let Some((name, password, rest)) = token(value) else {
        return Login::Refused(start + len + 2, BAD_TOKEN);
    };
    let known = check(users, name, password) | check(users, name, rest);
    if known {
        Login::In(start + len + 2, b"STORED\r\n")
    } else {
        Login::Refused(start + len + 2, FAILED)
    }
}

/// Splits a value `user password` into the name, the next word (memcached compares this one) and
/// everything behind the name (for passwords with blanks). Leading blanks are ignored.
fn token(value: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let word = |text: &[u8]| text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let start = value.iter().position(|&byte| byte != b' ')?;
    let (name, rest) = value[start..].split_at(word(&value[start..]));
    let rest = &rest[rest.iter().position(|&byte| byte != b' ')?..];
    Some((name, &rest[..word(rest)], rest))
}

/// The value's length in a line `set <key> <flags> <exptime> <bytes> ...`.
fn value_len(line: &[u8]) -> Option<usize> {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    if words.next()? != b"set" {
        return None;
    }
    let bytes = std::str::from_utf8(words.nth(3)?).ok()?.parse().ok()?;
    (bytes <= MAX_LOGIN).then_some(bytes)
}

/// Result of a step of a SASL authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The client is authenticated.
    In,
    /// The client must send its message in another step.
    GoOn,
    /// The name or password is wrong.
    Failed,
    /// The mechanism's name is too long for any mechanism.
    Invalid,
}

/// Executes one step. `begun`: the previous step returned [`Step::GoOn`]. Only [`MAX_MESSAGE`]
/// bytes of the message are read.
pub(crate) fn sasl(users: &Users, sasl: &Sasl<'_>, message: &[u8], begun: bool) -> Step {
    if sasl.mechanism.len() > MAX_MECHANISM {
        return Step::Invalid;
    }
    if sasl.mechanism != PLAIN || message.len() > MAX_MESSAGE || (sasl.step && !begun) {
        return Step::Failed;
    }
    if message.is_empty() && !sasl.step {
        return Step::GoOn;
    }
    let known = plain(message).is_some_and(|plain| check(users, plain.user, plain.password));
    if known { Step::In } else { Step::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Secret;

    fn two_users() -> Users {
        let user = |name: &str, password: &[u8]| {
            (name.to_owned(), Secret::new(password).expect("not empty"))
        };
        [user("user", b"secret"), user("u2", b"pw:colon")].into()
    }

    #[test]
    fn a_login_lets_in() {
        let (ok, stored) = (b"set x 0 0 11\r\nuser secret\r\n", &b"STORED\r\n"[..]);
        assert_eq!(text_login(&two_users(), ok), Login::In(ok.len(), stored));
        assert_eq!(
            text_login(&two_users(), b"set x a b 11\nuser secret\r\nget a\r\n"),
            Login::In(26, stored)
        );
        assert_eq!(
            text_login(&two_users(), b"set x 0 0 11 noreply\r\nu2 pw:colon\r\n"),
            Login::In(35, stored)
        );
        // Blanks and further words are ignored, as in memcached 1.6.18.
        for value in [" user secret", "user  secret", "user secret ", "user secret x"] {
            let login = format!("set x 0 0 {}\r\n{value}\r\n", value.len());
            assert_eq!(
                text_login(&two_users(), login.as_bytes()),
                Login::In(login.len(), stored),
                "{value}"
            );
        }
        let blanks: Users = [("user".to_owned(), Secret::new(b"a b").expect("not empty"))].into();
        assert_eq!(text_login(&blanks, b"set x 0 0 8\r\nuser a b\r\n"), Login::In(23, stored));
    }

    #[test]
    fn anything_else_does_not() {
        let refused = |input: &'static [u8]| match text_login(&two_users(), input) {
            Login::Refused(used, answer) => (used, answer),
            other => panic!("{other:?}"),
        };
        for line in [
            &b"get a\r\n"[..],
            b"version\r\n",
            b"quit\r\n",
            b"mn\r\n",
            b"set x 0 0\r\n",
            b"set x 0 0 abc\r\n",
            b"set x 0 0 -1\r\n",
            b"set x 0 0 2049\r\n",
            b"add x 0 0 11\r\n",
        ] {
            assert_eq!(refused(line), (line.len(), UNAUTHENTICATED));
        }
        assert_eq!(refused(b"set x 0 0 8\r\nuser sec\r\nget a\r\n"), (23, FAILED));
        assert_eq!(refused(b"set x 0 0 12\r\nuser secrets\r\n"), (28, FAILED));
        assert_eq!(
            refused(b"set x 0 0 13\r\nuser pw:colon\r\n"),
            (29, FAILED),
            "another's password"
        );
        // Answers of memcached 1.6.18.
        assert_eq!(refused(b"set x 0 0 4\r\nuser\r\n"), (19, BAD_TOKEN));
        assert_eq!(refused(b"set x 0 0 5\r\nuser \r\n"), (20, BAD_TOKEN));
        assert_eq!(refused(b"set x 0 0 0\r\n\r\n"), (15, BAD_TOKEN));
        assert_eq!(refused(b"set x 0 0 11\r\nuser secretXX"), (27, BAD_END));
    }

    #[test]
    fn a_login_in_pieces() {
        let whole = b"set x 0 0 11\r\nuser secret\r\n";
        for end in 0..whole.len() {
            let expected = if end < 14 { 0 } else { whole.len() };
            assert_eq!(text_login(&two_users(), &whole[..end]), Login::More(expected), "{end}");
        }
        assert_eq!(text_login(&two_users(), &[b'x'; MAX_LOGIN - 1]), Login::More(0));
        assert_eq!(text_login(&two_users(), &[b'x'; MAX_LOGIN]), Login::Close);
    }

    #[test]
    fn steps() {
        let first = |mechanism, message: &[u8]| {
            sasl(&two_users(), &Sasl { mechanism, step: false, len: 0 }, message, false)
        };
        assert_eq!(first(b"PLAIN", b"\0user\0secret"), Step::In);
        assert_eq!(first(b"PLAIN", b"\0u2\0pw:colon"), Step::In);
        assert_eq!(first(b"PLAIN", b"\0user\0wrong"), Step::Failed);
        assert_eq!(first(b"PLAIN", b"\0nobody\0secret"), Step::Failed);
        assert_eq!(first(b"plain", b"\0user\0secret"), Step::Failed);
        assert_eq!(first(b"CRAM-MD5", b""), Step::Failed);
        assert_eq!(first(&[b'P'; 33], b"\0user\0secret"), Step::Invalid);
        assert_eq!(first(b"PLAIN", b""), Step::GoOn);
        let step = |message: &[u8], begun| {
            sasl(&two_users(), &Sasl { mechanism: b"PLAIN", step: true, len: 0 }, message, begun)
        };
        assert_eq!(step(b"\0user\0secret", false), Step::Failed, "nothing was begun");
        assert_eq!(step(b"\0user\0secret", true), Step::In);
        assert_eq!(step(b"", true), Step::Failed);
    }
}
