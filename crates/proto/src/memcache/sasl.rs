//! The one SASL mechanism: PLAIN (RFC 4616).

/// Its name.
pub const PLAIN: &[u8] = b"PLAIN";

/// Longest accepted message, in bytes: three fields of 255 characters of up to 4 bytes would be
/// 3,062.
pub const MAX_MESSAGE: usize = 4096;

/// User and password of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Plain<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
}

impl std::fmt::Debug for Plain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plain").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Parses `[authzid] NUL authcid NUL passwd` (RFC 4616 section 2). `None`: it has another form, or
/// the client wants to act as another user, which is never allowed.
pub fn plain(message: &[u8]) -> Option<Plain<'_>> {
    let mut fields = message.split(|&byte| byte == 0);
    let (acting, user, password) = (fields.next()?, fields.next()?, fields.next()?);
    let whole = fields.next().is_none() && !user.is_empty() && !password.is_empty();
    (whole && (acting.is_empty() || acting == user)).then_some(Plain { user, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_messages() {
        let taken = |message| plain(message).map(|plain| (plain.user, plain.password));
        assert_eq!(taken(b"\0user\0secret"), Some((&b"user"[..], &b"secret"[..])));
        assert_eq!(taken(b"user\0user\0secret"), Some((&b"user"[..], &b"secret"[..])));
        assert_eq!(taken(b"other\0user\0secret"), None, "acting as somebody else");
        assert_eq!(taken(b"\0usersecret"), None);
        assert_eq!(taken(b"usersecret"), None);
        assert_eq!(taken(b"\0user\0secret\0"), None, "NUL is no part of a password");
        assert_eq!(taken(b"\0\0secret"), None);
        assert_eq!(taken(b"\0user\0"), None);
        assert_eq!(taken(b""), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        let text = format!("{:?}", plain(b"\0user\0secret").expect("well formed"));
        assert!(!text.contains("99, 114, 101"), "{text}");
    }
}
