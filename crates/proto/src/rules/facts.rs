//! The facts of a request and a response that the rules use.

use crate::Ms;
use crate::http::{Fields, Known, Method};

/// A request as the rules see it. Three words and a method: cheap to make on the hit path.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// Method.
    pub method: Method<'a>,
    /// All fields, for Vary.
    pub fields: Fields<'a>,
    /// The fields found in the parser's one pass.
    pub known: &'a Known<'a>,
}

/// The request facts of [`super::storable()`]; the same view.
pub type RequestFacts<'a> = RequestView<'a>;

/// A final response as received.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFacts<'a> {
    /// Status code.
    pub status: u16,
    /// All fields, hop-by-hop ones included.
    pub fields: Fields<'a>,
    /// When the request was sent.
    pub request_time: Ms,
    /// When the response head was received.
    pub response_time: Ms,
}

/// A target URI in parts, as the client named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// `http` or `https`, lower case.
    pub scheme: &'a str,
    /// `host` or `host:port`.
    pub authority: &'a str,
    /// Begins with `/`.
    pub path_and_query: &'a str,
}
