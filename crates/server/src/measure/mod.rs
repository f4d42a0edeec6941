//! The registry of all figures: a snapshot of all faces, of the store and of the process.
//!
//! Everything counted has one writer, and readers add up (see the crate `larder_metrics`, which has
//! the figures, the table of metrics and the formats). Each room gives its own figures; this room
//! joins them. Nothing here runs by itself but [`delay::watch`]; the thread of the sweeper calls
//! [`Registry::look`].

mod certificates;
mod conditions;
pub(crate) mod delay;
mod memory;
mod registry;

pub use registry::Registry;

pub(crate) use registry::Parts;
