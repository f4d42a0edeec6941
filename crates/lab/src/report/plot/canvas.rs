//! Parts common to all plots: drawing area, legend, text.

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::theme;

/// Subpixels per pixel, as plotters draws in whole units.
pub(super) const FINE: u32 = 4;
/// Width of a plot in pixels.
pub(super) const WIDTH: u32 = 860;
/// Height of a line of text.
pub(super) const LINE: u32 = 20;
/// Height of letters.
const LETTER: u32 = 13;
/// Approximate width of a letter: no fonts are read, the reader's own are used.
const ADVANCE: f64 = 7.0;

/// The drawing area of a plot.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Drawing into a string fails only by a bug in plotters.
pub(super) type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Text style: small letters in the text colour. (The backend divides sizes by 1.24.)
pub(super) fn text(horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    let style = ("sans-serif", f64::from(fine(LETTER)) * 1.24).into_font().color(&theme::INK);
    style.pos(Pos::new(horizontal, vertical))
}

/// Pixels in plotters' units.
pub(super) fn fine(pixels: u32) -> i32 {
    (pixels * FINE) as i32
}

/// Approximate width of a text in pixels.
pub(super) fn width(text: &str) -> u32 {
    (text.chars().count() as f64 * ADVANCE).ceil() as u32
}

/// Legend: names in the order of their colours, on as many lines as needed.
pub(super) struct Legend<'a> {
    names: &'a [String],
    /// Horizontal position and line of each name.
    places: Vec<(u32, u32)>,
    lines: u32,
}

impl<'a> Legend<'a> {
    /// A legend for these names; a single series needs none.
    pub(super) fn new(names: &'a [String]) -> Legend<'a> {
        let (mut places, mut x, mut line) = (Vec::new(), 0, 0);
        if names.len() > 1 {
            for name in names {
                let wide = width(name) + 38;
                if x > 0 && x + wide > WIDTH {
                    (x, line) = (0, line + 1);
                }
                places.push((x, line));
                x += wide;
            }
        }
        let lines = if places.is_empty() { 0 } else { line + 1 };
        Legend { names, places, lines }
    }

    pub(super) fn height(&self) -> u32 {
        self.lines * LINE
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> DrawResult {
        for (n, ((x, line), name)) in self.places.iter().zip(self.names).enumerate() {
            let middle = fine(line * LINE + LINE / 2);
            let swatch = [(fine(*x), middle - fine(5)), (fine(x + 16), middle + fine(5))];
            area.draw(&Rectangle::new(swatch, theme::series(n).filled()))?;
            let style = text(HPos::Left, VPos::Center);
            area.draw(&Text::new(name.clone(), (fine(x + 22), middle), style))?;
        }
        Ok(())
    }
}

/// Draws a figure; on an error it contains the message, so that the report is still written.
pub(super) fn render(height: u32, draw: impl FnOnce(&Area<'_>) -> DrawResult) -> String {
    let mut svg = String::new();
    let result = {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH * FINE, height * FINE)).into_drawing_area();
        draw(&area).and_then(|()| area.present())
    };
    match result {
        Ok(()) => svg,
        Err(error) => {
            let (width, height) = (WIDTH * FINE, LINE * FINE);
            let why = crate::report::html::escaped(&error.to_string());
            format!(
                "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
                 xmlns=\"http://www.w3.org/2000/svg\">\
                 <text y=\"60\" font-size=\"52\" fill=\"currentColor\">not drawn: \
                 {why}</text></svg>"
            )
        }
    }
}
