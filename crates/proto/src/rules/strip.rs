//! Which response fields are stored and sent on (RFC 9111 3.1, RFC 9110 7.6.1).

use super::Policy;
use crate::http::Fields;

/// Whether a field of this name is about the connection alone (RFC 9110 7.6.1), whatever Connection says.
pub fn is_hop_by_hop(name: &str) -> bool {
    let _ = name;
    todo!()
}

/// The head to store: status line and the fields that are stored, without the closing empty line. `reason` may be empty.
pub fn stored_head(status: u16, reason: &str, fields: Fields<'_>, policy: &Policy) -> Vec<u8> {
    let _ = (status, reason, fields, policy);
    todo!()
}
