//! How many requests a client may send.

/// A rate of requests, with a reserve for several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Requests in `seconds`.
    pub requests: u32,
    /// 1, 60 or 3600.
    pub seconds: u32,
    /// Requests that may come at once, by a client that has sent none for a while.
    pub burst: u32,
}

impl Rate {
    /// The highest rate, and the largest reserve.
    pub const MOST: u32 = 10_000;
}
