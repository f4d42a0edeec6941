//! Edge Side Includes (ESI Language 1.0): pages that name the parts they are made of.
//!
//! [`parse`] finds the markup of a page once, when the page is stored. Its result is a [`Plan`]:
//! the text between the markup as ranges of the page, the parts to put in, and the conditions.
//! [`Plan::encode`] gives the bytes that are kept behind the page, [`Plan::decode`] reads them.
//! The page for one request is found by walking the nodes with the facts of that
//! request ([`Facts`]).
//!
//! | markup | effect |
//! |---|---|
//! | `<esi:include src="/a" alt="/b" onerror="continue" ttl="60s"/>` | another page is put in |
//! | `<esi:remove>`, `<esi:comment text=""/>` | left out |
//! | `<!--esi ... -->` | the content; the markers are left out |
//! | `<esi:try>` with `attempt`, `except` | the second, if a part of the first fails |
//! | `<esi:choose>` with `when test=""`, `otherwise` | the first that applies |
//! | `<esi:vars>` | variables in the text have their values |
//! | `<esi:inline name="/a">` | a part that lies in the page itself |
//!
//! Markup that is not understood (no closing tag, no `src`, an unknown name) stays as it is, so
//! that it is seen.

mod codec;
mod expression;
mod facts;
mod parse;
mod scan;
mod target;
mod value;

#[cfg(test)]
mod tests;

pub use expression::{Comparison, Expression, Operand};
pub use facts::Facts;
pub use parse::parse;
pub use target::{Target, resolve};
pub use value::{Escape, Piece, Value, Variable};

/// Elements may lie within each other this deep; deeper ones stay as they are.
pub const MAX_NESTING: usize = 32;
/// Most elements of a page; those that follow stay as they are.
pub const MAX_ELEMENTS: usize = 4096;

/// The markup of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order of the page.
    pub nodes: Vec<Node>,
}

/// The number of nodes in a list, those within others included.
pub fn count(nodes: &[Node]) -> usize {
    let within = |node: &Node| match node {
        Node::Text(..) | Node::Vars(_) | Node::Include(_) => 0,
        Node::Try(attempt, except) => count(attempt) + count(except),
        Node::Choose(branches) => branches.iter().map(|(_, nodes)| count(nodes)).sum(),
        Node::Inline(_, nodes) => count(nodes),
    };
    nodes.iter().map(|node| 1 + within(node)).sum()
}

/// A piece of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// The bytes from the first position up to the second, as they are.
    Text(u32, u32),
    /// Text with variables.
    Vars(Value),
    /// Another page is put in.
    Include(Include),
    /// The second list, if a part of the first fails.
    Try(Vec<Node>, Vec<Node>),
    /// The first branch that applies. A branch without expression always does.
    Choose(Vec<(Option<Expression>, Vec<Node>)>),
    /// A part with a name that includes of this page may have, instead of a request.
    Inline(Box<[u8]>, Vec<Node>),
}

/// `<esi:include>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// Where the part is.
    pub src: Value,
    /// Where another one is, should the first fail.
    pub alt: Option<Value>,
    /// A failure leaves nothing.
    pub continues: bool,
    /// Seconds for which the part is fresh, instead of its own lifetime.
    pub ttl: Option<u32>,
    /// Seconds for which it may be served stale while it is fetched again.
    pub grace: Option<u32>,
}

/// The bytes are not those of a plan for this page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;
