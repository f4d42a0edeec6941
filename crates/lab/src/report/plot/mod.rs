//! Plots as SVG: lines and bars, in colours of the page they stand on, light or dark.
//!
//! plotters draws; what it draws in our marker colours is given classes afterwards ([`theme`]), because colours inside an SVG cannot
//! follow the reader's scheme. A plot in a page has its title from the page (`html::Page::plot`); alone, it carries title and colours
//! within ([`Lines::standalone`], [`Bars::standalone`]).

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
