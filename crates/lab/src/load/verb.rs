//! What a request wants.

/// What a request wants. HTTP: `Get` is GET, `Set` PUT, `Delete` DELETE, `Head` HEAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read.
    #[default]
    Get,
    /// Write.
    Set,
    /// Take out.
    Delete,
    /// The head of an answer alone.
    Head,
}

impl Verb {
    /// As it is typed and shown.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Set => "set",
            Verb::Delete => "delete",
            Verb::Head => "head",
        }
    }
}
