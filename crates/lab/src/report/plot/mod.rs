//! Plots as SVG: lines and bars, in the colours of their page, light or dark.
//!
//! plotters draws with marker colours, which [`theme`] replaces by classes, as colours inside an
//! SVG cannot follow the reader's preference. A plot in a page gets its title from the page
//! (`html::Page::plot`); a plot of its own contains title and colours ([`Lines::standalone`],
//! [`Bars::standalone`]).

mod axis;
mod bars;
mod canvas;
mod lines;
#[cfg(test)]
mod tests;
pub(crate) mod theme;

pub use axis::{Axis, Scale, Unit};
pub use bars::Bars;
pub use lines::{Lines, Series};
