//! Line charts: one value over another, for several series.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

use super::{
    axis::Axis,
    canvas::{self, Area, DrawResult, LINE, Legend, fine},
    theme,
};

/// Height of the drawing area.
const FIELD: u32 = 240;
/// Most points drawn per series, two per pixel. With more, each stretch keeps its minimum and
/// maximum.
const POINTS: usize = 1600;

/// A series of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Series {
    /// Points in the order of x. NaN as y is a gap.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.to_owned(), points: points.into_iter().collect() }
    }

    /// The points reduced to a visible number.
    fn thinned(&self) -> Vec<(f64, f64)> {
        if self.points.len() <= POINTS {
            return self.points.clone();
        }
        let mut thinned = Vec::with_capacity(POINTS + 2);
        for part in self.points.chunks(self.points.len().div_ceil(POINTS / 2)) {
            let order = |n: &usize| part[*n].1;
            let least = (0..part.len()).min_by(|a, b| order(a).total_cmp(&order(b))).unwrap_or(0);
            let most = (0..part.len()).max_by(|a, b| order(a).total_cmp(&order(b))).unwrap_or(0);
            thinned.push(part[least.min(most)]);
            if least != most {
                thinned.push(part[least.max(most)]);
            }
        }
        thinned
    }
}

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    fixed_y: Option<(f64, f64)>,
}

impl Lines {
    /// An empty chart.
    pub fn new(title: &str, x: Axis, y: Axis) -> Lines {
        Lines { title: title.to_owned(), x, y, series: Vec::new(), fixed_y: None }
    }

    /// Adds a series. Up to eight have distinct colours.
    #[must_use]
    pub fn with(mut self, series: Series) -> Lines {
        self.series.push(series);
        self
    }

    /// Extends the y axis to at least this range, so that several plots can be compared.
    #[must_use]
    pub fn at_least(self, low: f64, high: f64) -> Lines {
        Lines { fixed_y: Some((low, high)), ..self }
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
        let names: Vec<String> = self.series.iter().map(|series| series.name.clone()).collect();
        let legend = Legend::new(&names);
        let title = if titled { LINE } else { 0 };
        let head = title + legend.height() + LINE;
        canvas::render(head + FIELD + 2 * LINE + 10, |area| {
            let left = || canvas::text(HPos::Left, VPos::Center);
            let (title_area, rest) = area.split_vertically(fine(title));
            if titled {
                title_area.draw(&Text::new(self.title.clone(), (0, fine(LINE / 2)), left()))?;
            }
            let (legend_area, rest) = rest.split_vertically(fine(legend.height()));
            legend.draw(&legend_area)?;
            let (label, field) = rest.split_vertically(fine(LINE));
            label.draw(&Text::new(self.y.label.clone(), (0, fine(LINE / 2)), left()))?;
            self.draw_field(&field)
        })
    }

    fn draw_field(&self, area: &Area<'_>) -> DrawResult {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let shown =
            || points().filter(|(x, y)| self.x.place(*x).is_some() && self.y.place(*y).is_some());
        let fixed = self.fixed_y.into_iter().flat_map(|(low, high)| [low, high]);
        let x = self.x.tight(shown().map(|(x, _)| *x));
        let y = self.y.span(shown().map(|(_, y)| *y).chain(fixed));
        let room = y.ticks.iter().map(|(_, label)| canvas::width(label)).max().unwrap_or(0);
        let mut chart = ChartBuilder::on(area)
            .margin_top(fine(12))
            .margin_right(fine(24))
            .x_label_area_size(fine(2 * LINE))
            .y_label_area_size(fine(room + 14))
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(theme::GRID.stroke_width(FINE_LINE))
            .axis_style(theme::INK.stroke_width(FINE_LINE))
            .set_all_tick_mark_size(fine(4))
            .label_style(canvas::text(HPos::Left, VPos::Top))
            .x_desc(self.x.label.clone())
            .draw()?;
        for (n, series) in self.series.iter().enumerate() {
            let place = |(x, y): (f64, f64)| Some((self.x.place(x)?, self.y.place(y)?));
            let placed: Vec<_> = series.thinned().into_iter().map(place).collect();
            let style = theme::series(n).stroke_width(THICK_LINE).filled();
            for part in placed.split(Option::is_none).filter(|part| !part.is_empty()) {
                let part: Vec<(f64, f64)> = part.iter().copied().flatten().collect();
                if let [point] = part[..] {
                    chart.draw_series([Circle::new(point, fine(2), style)])?;
                } else {
                    chart.draw_series(LineSeries::new(part, style))?;
                }
            }
        }
        Ok(())
    }
}

/// Width of grid and axes.
const FINE_LINE: u32 = canvas::FINE;
/// Width of series.
const THICK_LINE: u32 = 2 * canvas::FINE;
