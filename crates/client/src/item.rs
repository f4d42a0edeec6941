//! Items, and the options of storing them.

use std::time::Duration;

use bytes::Bytes;

/// An item as stored on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The value. Small values own their memory or share up to 4 KiB with others of the same
    /// multi-get; values above 16 KiB are slices of the receive buffer.
    pub value: Bytes,
    /// Flags stored with the value, opaque to the server.
    pub flags: u32,
    /// Its version, for [`Client::cas`](crate::Client::cas). `None` if the protocol does not send
    /// it: the text protocol's `get` does not, [`Client::gets`](crate::Client::gets) does.
    pub cas: Option<u64>,
}

/// How long an item lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Until it is evicted.
    #[default]
    Never,
    /// For this long from now; fractions of a second are rounded up.
    After(Duration),
    /// Until this Unix time in seconds.
    At(u64),
    /// Expired immediately.
    Now,
}

/// Options of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// Flags, opaque to the server.
    pub flags: u32,
    /// Expiry. `append` and `prepend` keep the item's own.
    pub expiry: Expiry,
    /// Store only if the item has this version.
    pub cas: Option<u64>,
}

impl Store {
    /// Default options with this time to live.
    pub fn lasting(time: Duration) -> Store {
        Store { expiry: Expiry::After(time), ..Store::default() }
    }
}

/// Result of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The value is stored.
    Stored,
    /// The condition failed: the key existed for `add`, or did not for `replace`, `append`,
    /// `prepend`.
    NotStored,
    /// `cas`: the item was changed since.
    Exists,
    /// `cas`: the item does not exist.
    NotFound,
}

impl Stored {
    /// Whether the value is stored.
    pub fn is_stored(self) -> bool {
        self == Stored::Stored
    }
}
