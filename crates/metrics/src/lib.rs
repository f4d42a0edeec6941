//! Counters, histograms and the hottest URLs and keys, and everything that is made from them: one
//! [`Snapshot`], its JSON, the text for Prometheus, an hour of history.
//!
//! | file | contents |
//! |---|---|
//! | `counter.rs` | a counter with one writer, sets of them |
//! | `histogram.rs` | durations: a recorder per worker, histograms for readers |
//! | `sketch.rs` | Space-Saving: the keys with the highest counts, in bounded memory |
//! | `hot_urls.rs` | the hottest URLs of a worker |
//! | `outcome.rs` | the table of outcomes of an HTTP request |
//! | `snapshot.rs`, `http.rs`, `app.rs`, `objects.rs`, `queues.rs`, `remote.rs`, `family.rs`, `process.rs` | the snapshot: tables of its figures, with their metrics |
//! | `table.rs`, `text.rs` | all metrics; their documentation; their text for Prometheus |
//! | `history.rs` | the table of columns; one sample a second for an hour |
//! | `api.rs` | other answers of the admin API that have more than one reader |
//!
//! The types that are JSON are the only definition of the admin API's figures: the server writes
//! them, `larder top` reads them, and the dashboard's `types.ts` is generated from them by a test.
//! Nothing here reads a clock, a file or a socket.

mod advice;
mod api;
mod app;
mod certificates;
mod compression;
mod counter;
mod disk;
mod family;
mod histogram;
mod history;
mod hot_urls;
mod http;
mod objects;
mod origins;
mod outcome;
mod pace;
mod process;
mod queues;
mod remote;
mod sketch;
mod snapshot;
mod table;
mod text;

#[cfg(test)]
mod tests;

pub use advice::Advice;
pub use api::*;
pub use app::*;
pub use certificates::*;
pub use compression::*;
pub use counter::Counter;
pub use disk::*;
pub use family::*;
pub use histogram::{Histogram, Recorder};
pub use history::{Columns, History};
pub use hot_urls::{By, HotUrl, HotUrls, SampledUrls, Seen, Source, TopUrls, top_urls};
pub use http::*;
pub use objects::*;
pub use outcome::{Outcome, PerOutcome, Results};
pub use pace::Pace;
pub use process::*;
pub use queues::*;
pub use remote::*;
pub use sketch::{Sketch, Slot, hash};
pub use snapshot::*;
pub use table::{docs, names};
pub use text::{Format, prometheus};
