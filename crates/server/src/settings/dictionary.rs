//! The dictionary of a site's documents.

/// How the dictionary of a site is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DictionarySettings {
    /// Most bytes of it.
    pub size: u64,
    /// Documents that it is made of, at most.
    pub pages: usize,
    /// Seconds after which it is made anew.
    pub refresh: u32,
}
