//! Results of a run, and their presentation as text, JSON, and HTML with plots.
//!
//! [`text()`], [`json()`] and [`html()`] present a [`Run`]. Experiments with other results build
//! pages from [`html::Page`], [`html::Table`] and [`plot`].

pub mod html;
mod json;
pub(crate) mod machine;
mod percentiles;
pub mod plot;
mod run;
pub mod show;
#[cfg(test)]
mod tests;
mod text;

pub use json::json;
pub use machine::machine;
pub use run::{Cpu, Run, Second};
pub use text::text;

/// A run as an HTML page.
pub fn html(run: &Run) -> String {
    html::page(run).html()
}
