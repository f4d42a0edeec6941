//! Bars: one value for each of several things, for one or several series. They lie, so that the names of the things are read easily.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

use super::{
    axis::{Axis, Scale},
    canvas::{self, Area, Drawn, LINE, Legend, WIDTH, fine},
    theme,
};

/// Height of a bar.
const BAR: u32 = 16;
/// Between the bars of one thing and those of the next.
const GAP: u32 = 12;
/// Most of the width that names take.
const NAMES: u32 = 300;

/// Bars beside names.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    title: String,
    axis: Axis,
    things: Vec<String>,
    series: Vec<(String, Vec<f64>)>,
}

impl Bars {
    /// Things without values yet.
    pub fn new<T: Into<String>>(title: &str, axis: Axis, things: impl IntoIterator<Item = T>) -> Bars {
        let things = things.into_iter().map(Into::into).collect();
        // Bars have lengths; only a linear axis gives these a meaning.
        Bars { title: title.to_owned(), axis: axis.scale(Scale::Linear), things, series: Vec::new() }
    }

    /// A value for each thing, in their order; NaN where there is none.
    #[must_use]
    pub fn with(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Bars {
        self.series.push((name.to_owned(), values.into_iter().collect()));
        self
    }

    /// What it shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// For a page: colours and title are the page's.
    pub fn svg(&self) -> String {
        theme::dressed(&self.draw(false), &self.title, false)
    }

    /// For a file of its own.
    pub fn standalone(&self) -> String {
        theme::dressed(&self.draw(true), &self.title, true)
    }

    fn draw(&self, titled: bool) -> String {
        let names: Vec<String> = self.series.iter().map(|(name, _)| name.clone()).collect();
        let legend = Legend::new(&names);
        let title = if titled { LINE } else { 0 };
        let each = BAR * self.series.len() as u32 + GAP;
        let body = each * self.things.len() as u32;
        canvas::drawn(title + legend.height() + LINE + body + GAP, |area| {
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

    fn draw_bars(&self, area: &Area<'_>, each: u32) -> Drawn {
        let values = || self.series.iter().flat_map(|(_, values)| values.iter().copied());
        let span = self.axis.span(values());
        let names = self.things.iter().map(|name| canvas::width(name)).max().unwrap_or(0).min(NAMES) + 12;
        // Room for the number behind the longest bar.
        let field = f64::from(WIDTH - names - 90);
        let at = |value: f64| {
            fine(names) + ((value - span.low) / (span.high - span.low) * field * f64::from(fine(1))) as i32
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
                let Some(value) = values.get(n).copied().filter(|value| value.is_finite()) else { continue };
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

/// So that it fits beside the bars.
fn shortened(name: &str) -> String {
    if canvas::width(name) <= NAMES {
        return name.to_owned();
    }
    let kept = (NAMES / canvas::width("m")) as usize - 1;
    name.chars().take(kept).chain(['…']).collect()
}
