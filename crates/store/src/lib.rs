//! The store: keys, bytes, expiry, tags. Knows no protocol.

mod store;
mod types;

pub use store::{Entry, Fill, FillReader, MAX_CONTIGUOUS, Store};
pub use types::*;
