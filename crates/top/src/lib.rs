//! What caches do, live in a terminal: `larder top`, `larder log` and `larder hist`.
//!
//! A *server* is a Larder (asked over its admin API), a memcached or a Redis. A task for each asks it once an interval
//! (`poll`) and gives a `Sample`: counters since its start, under names that are the same for all kinds. Two samples of one server
//! make `Figures`: the rates between them, or since the start (`rates`). `table` sets figures out in columns, and `view` and
//! `once` show the same table, on a terminal and as text.
//!
//! What a server says is not trusted: names, keys and URLs come in as [`Text`](text::Text), which holds nothing that a terminal
//! would obey; answers have a greatest length; and a server that does not answer holds up no other.

#![forbid(unsafe_code)]

mod address;
mod args;
mod ask;
mod poll;
mod rates;
mod sample;
mod snapshot;
mod table;
mod text;

pub use args::{HistArgs, LogArgs, TopArgs};
