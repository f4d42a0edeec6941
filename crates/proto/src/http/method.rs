//! Request methods and the properties RFC 9110 9.2 gives them.

/// A request method. Methods are case-sensitive (RFC 9110 9.1): `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method<'a> {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// `PATCH` (RFC 5789)
    Patch,
    /// `PURGE`, the method that tells a cache to remove a page (an extension of Squid and Varnish).
    Purge,
    /// Any other token, as received.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// The method of a token.
    pub fn of(token: &'a str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            "PATCH" => Self::Patch,
            "PURGE" => Self::Purge,
            other => Self::Other(other),
        }
    }

    /// The token.
    pub const fn as_str(&self) -> &'a str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
            Self::Patch => "PATCH",
            Self::Purge => "PURGE",
            Self::Other(token) => token,
        }
    }

    /// Whether the client requests no change of state (RFC 9110 9.2.1). Unknown methods are not
    /// safe.
    pub const fn is_safe(&self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Whether sending it twice has the effect of sending it once (RFC 9110 9.2.2).
    pub const fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete | Self::Purge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for (token, safe, idempotent) in [
            ("GET", true, true),
            ("HEAD", true, true),
            ("OPTIONS", true, true),
            ("TRACE", true, true),
            ("PUT", false, true),
            ("DELETE", false, true),
            ("PURGE", false, true),
            ("POST", false, false),
            ("PATCH", false, false),
            ("CONNECT", false, false),
            ("get", false, false),
            ("BREW", false, false),
        ] {
            let method = Method::of(token);
            assert_eq!(method.as_str(), token);
            assert_eq!((method.is_safe(), method.is_idempotent()), (safe, idempotent), "{token}");
        }
        assert_eq!(Method::of("get"), Method::Other("get"));
    }
}
