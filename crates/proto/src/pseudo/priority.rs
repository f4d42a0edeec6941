//! Priorities (RFC 9218).

use crate::http::structured::{Dictionary, Value};

/// How urgent a response is, and whether a part of it is of use (RFC 9218 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, most urgent, to 7.
    pub urgency: u8,
    /// The client uses the response as it arrives: those of one urgency share the connection.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Parses the `priority` field or the value of a PRIORITY_UPDATE frame. Unknown members and
    /// values out of range are ignored; a value that is no dictionary counts as absent.
    pub fn parse(value: &[u8]) -> Self {
        let mut found = Self::default();
        for member in Dictionary::of(value) {
            match member {
                Ok((b"u", Value::Integer([digit @ b'0'..=b'7']))) => found.urgency = digit - b'0',
                Ok((b"i", Value::True)) => found.incremental = true,
                Ok((b"i", Value::False)) => found.incremental = false,
                Ok(_) => {}
                Err(_) => return Self::default(),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("i", 3, true),
            ("u=7, i", 7, true),
            ("i=?0,u=5", 5, false),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=1;x=2, foo=bar", 1, false),
            ("u=1, ,", 3, false),
            ("u=\"1\"", 3, false),
        ] {
            assert_eq!(
                Priority::parse(value.as_bytes()),
                Priority { urgency, incremental },
                "{value}"
            );
        }
    }
}
