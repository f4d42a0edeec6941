//! What came of a run, and how it is shown: text, JSON, HTML with plots.
//!
//! A [`Run`] is shown whole by [`text()`], [`json()`] and [`html()`]. Experiments with other things to tell build pages of their own from
//! [`html::Page`], [`html::Table`] and [`plot`].

pub mod html;
mod json;
mod machine;
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

/// What came of a run, as a page of its own.
pub fn html(run: &Run) -> String {
    html::page(run).html()
}
