//! Seeing what Larder does: counters and histograms, read as one [`Snapshot`], as text for Prometheus, as an hour of
//! history, as the hottest URLs.
//!
//! | file | what |
//! |---|---|
//! | `histogram.rs` | durations: one histogram per worker, merged on reading |
//! | `counted.rs` | what a worker counts of HTTP by site, result and reason |
//! | `snapshot.rs` | everything there is to know at one moment; its JSON is the API's |
//! | `registry.rs` | where all of it is found |
//! | `faces.rs`, `plain.rs` | what is found there, gathered; under its plain names |
//! | `delay.rs` | how late workers get to what is ready |
//! | `table/`, `text.rs` | every metric with its meaning; as text for Prometheus |
//! | `history.rs` | one sample a second, for an hour |
//! | `hot.rs` | a sampled sketch of the URLs asked for most |
//!
//! Everything counted has one writer (see `counters.rs`); whoever reads adds up. Nothing here runs by itself: who wants a
//! figure asks for it.

pub(crate) mod counted;
pub(crate) mod delay;
mod faces;
mod histogram;
mod history;
pub(crate) mod hot;
mod plain;
mod registry;
mod snapshot;
mod table;
mod text;

pub use histogram::{Histogram, Merged};
pub use history::{Columns, History};
pub use hot::{By, HotUrl, Top};
pub use registry::Registry;
pub use snapshot::*;
pub use table::{docs, names};

pub(crate) use registry::Parts;
