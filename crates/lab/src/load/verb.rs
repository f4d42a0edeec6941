//! Kinds of operations.

/// Kind of an operation. In HTTP `Get` is GET, `Set` PUT, `Delete` DELETE, `Head` HEAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read.
    #[default]
    Get,
    /// Write.
    Set,
    /// Delete.
    Delete,
    /// Only the head of the answer.
    Head,
}

impl Verb {
    /// Name for command line and display.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Set => "set",
            Verb::Delete => "delete",
            Verb::Head => "head",
        }
    }
}
