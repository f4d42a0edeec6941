//! What is stored and what is asked with it.

use std::time::Duration;

use bytes::Bytes;

/// An item as a server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The value. Small ones own their memory, or share up to 4 KiB with others of the same multi-get; those above 16 KiB are
    /// the received bytes themselves.
    pub value: Bytes,
    /// What was stored beside it, opaque to the server.
    pub flags: u32,
    /// Its version, for [`Client::cas`](crate::Client::cas). `None` where the protocol does not say it: text answers `get`
    /// without; [`Client::gets`](crate::Client::gets) asks for it.
    pub cas: Option<u64>,
}

/// How long an item lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Until it is evicted.
    #[default]
    Never,
    /// So long from now; parts of a second count as a whole one.
    After(Duration),
    /// Until this time, in seconds since 1970-01-01.
    At(u64),
    /// It is expired as it is stored.
    Now,
}

/// What goes with a value that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// Opaque to the server.
    pub flags: u32,
    /// How long it lives. `append` and `prepend` keep the item's own.
    pub expiry: Expiry,
    /// Only over this version of the item.
    pub cas: Option<u64>,
}

impl Store {
    /// To live so long.
    pub fn lasting(time: Duration) -> Store {
        Store { expiry: Expiry::After(time), ..Store::default() }
    }
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is stored.
    Stored,
    /// The condition was not met: `add` found one, `replace`, `append`, `prepend` found none.
    NotStored,
    /// `cas`: another has stored since.
    Exists,
    /// `cas`: there is no such item (any more).
    NotFound,
}

impl Stored {
    /// Whether it is stored.
    pub fn is_stored(self) -> bool {
        self == Stored::Stored
    }
}
