//! Bar charts: one value for each item, in one or several series. Bars are horizontal, so that
//! names are readable.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

use super::{
    axis::{Axis, Scale},
    canvas::{self, Area, DrawResult, LINE, Legend, WIDTH, fine},
    theme,
};

/// Height of a bar in pixels.
const BAR: u32 = 16;
/// Distance between the bars of two items.
const GAP: u32 = 12;
/// Most width of names.
const NAMES: u32 = 300;

/// A bar chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    title: String,
    axis: Axis,
    things: Vec<String>,
    series: Vec<(String, Vec<f64>)>,
}

impl Bars {
    /// A chart of items without values.
    pub fn new<T: Into<String>>(
        title: &str,
        axis: Axis,
        things: impl IntoIterator<Item = T>,
    ) -> Bars {
        let things = things.into_iter().map(Into::into).collect();
        // The length of a bar is only meaningful on a linear axis.
        Bars {
            title: title.to_owned(),
            axis: axis.scale(Scale::Linear),
            things,
            series: Vec::new(),
        }
    }

    /// Adds a series with a value for each item, in order; NaN for a missing value.
    #[must_use]
    pub fn with(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Bars {
        self.series.push((name.to_owned(), values.into_iter().collect()));
        self
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// SVG for a page, which provides colours and title.
    pub fn svg(&self) -> String {
        theme::themed(&self.draw(false), &self.title, false)
    }

    /// SVG as a file of its own.
    pub fn standalone(&self) -> String {
        theme::themed(&self.draw(true), &self.title, true)
    }

    fn draw(&self, titled: bool) -> String {
        let names: Vec<String> = self.series.iter().map(|(name, _)| name.clone()).collect();
        let legend = Legend::new(&names);
        let title = if titled { LINE } else { 0 };
        let each = BAR * self.series.len() as u32 + GAP;
        let body = each * self.things.len() as u32;
        canvas::render(title + legend.height() + LINE + body + GAP, |area| {
            let left = || canvas::text(HPos::Left, VPos::Center);
            let (title_area, rest) = area.split_vertically(fine(title));
            if titled {
                title_area.draw(&Text::new(self.title.clone(), (0, fine(LINE / 2)), left()))?;
            }
            let (legend_area, rest) = rest.split_vertically(fine(legend.height()));
            legend.draw(&legend_area)?;
            let (label, rest) = rest.split_vertically(fine(LINE));
            label.draw(&Text::new(self.axis.label.clone(), (0, fine(LINE / 2)), left()))?;
            self.draw_bars(&rest, each)
        })
    }

    fn draw_bars(&self, area: &Area<'_>, each: u32) -> DrawResult {
        let values = || self.series.iter().flat_map(|(_, values)| values.iter().copied());
        let span = self.axis.span(values());
        let names =
            self.things.iter().map(|name| canvas::width(name)).max().unwrap_or(0).min(NAMES) + 12;
        // Room for the number after the longest bar.
        let field = f64::from(WIDTH - names - 90);
        let at = |value: f64| {
            fine(names)
                + ((value - span.low) / (span.high - span.low) * field * f64::from(fine(1))) as i32
        };
        let zero = at(0.0_f64.clamp(span.low, span.high));
        for (n, thing) in self.things.iter().enumerate() {
            let top = each * n as u32 + GAP / 2;
            let middle = fine(top + (each - GAP) / 2);
            area.draw(&Text::new(
                shortened(thing),
                (fine(names - 8), middle),
                canvas::text(HPos::Right, VPos::Center),
            ))?;
            for (place, (_, values)) in self.series.iter().enumerate() {
                let Some(value) = values.get(n).copied().filter(|value| value.is_finite()) else {
                    continue;
                };
                let from = top + BAR * place as u32;
                let (left, right) = (zero.min(at(value)), zero.max(at(value)).max(zero + fine(1)));
                let bar = [(left, fine(from) + fine(1)), (right, fine(from + BAR) - fine(1))];
                area.draw(&Rectangle::new(bar, theme::series(place).filled()))?;
                let number = self.axis.unit.precise(value);
                let style = canvas::text(HPos::Left, VPos::Center);
                area.draw(&Text::new(number, (right + fine(6), fine(from + BAR / 2)), style))?;
            }
        }
        let axis = [(zero, 0), (zero, fine(each * self.things.len() as u32))];
        area.draw(&PathElement::new(axis, theme::INK.stroke_width(canvas::FINE)))
    }
}

/// A name shortened to fit beside the bars.
fn shortened(name: &str) -> String {
    if canvas::width(name) <= NAMES {
        return name.to_owned();
    }
    let kept = (NAMES / canvas::width("m")) as usize - 1;
    name.chars().take(kept).chain(['…']).collect()
}
