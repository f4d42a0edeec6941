//! Vary: which request fields select a variant, and in what form they are compared (RFC 9111 4.1).

use super::{Policy, RequestView};
use crate::http::Fields;

/// What Vary says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// Nothing: one representation for all.
    None,
    /// `*`: no two requests are alike.
    Star,
    /// These fields select: lower case, sorted, each once.
    Names(Vec<String>),
}

/// Reads the response's Vary.
pub fn names(response: Fields<'_>) -> Vary {
    let _ = response;
    todo!()
}

/// The value of the request's field `name` (lower case) in the form that is compared; `None` when the request lacks it.
pub fn normalise(name: &str, req: &RequestView<'_>, policy: &Policy) -> Option<Vec<u8>> {
    let _ = (name, req, policy);
    todo!()
}
