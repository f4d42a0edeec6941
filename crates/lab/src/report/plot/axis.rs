//! Axes: positions of values, and tick labels.

use std::ops::Range;

use crate::report::show;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from 0 if values are near it.
    #[default]
    Linear,
    /// Logarithmic. Values not above 0 are left out.
    Log,
    /// Shares below 1 (0.99 for the 99th percentile), with equal space for each further nine.
    Percentile,
}

/// Unit of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Numbers: 1,500 is `1.5 k`.
    #[default]
    Number,
    /// Seconds, shown as ns, µs, ms, s, min or h.
    Seconds,
    /// Bytes, shown as KiB, MiB, ...
    Bytes,
    /// Shares of one, shown in per cent.
    Share,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) scale: Scale,
    pub(super) from_zero: bool,
}

impl Axis {
    /// An axis with a label, which includes the unit where tick labels do not: `requests per
    /// second`.
    pub fn new(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_owned(), unit, scale: Scale::Linear, from_zero: true }
    }

    /// Changes the scale.
    #[must_use]
    pub fn scale(self, scale: Scale) -> Axis {
        Axis { scale, ..self }
    }

    /// Starts at the lowest value instead of 0.
    #[must_use]
    pub fn not_from_zero(self) -> Axis {
        Axis { from_zero: false, ..self }
    }

    /// Position of a value, or `None` if it has none.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let at = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Percentile => -(1.0 - value).log10(),
        };
        at.is_finite().then_some(at)
    }

    /// The ends of an axis for these values, as positions, and its ticks with labels.
    pub(super) fn span(&self, values: impl Iterator<Item = f64>) -> Span {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for at in values.filter_map(|value| self.place(value)) {
            (low, high) = (low.min(at), high.max(at));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        match self.scale {
            Scale::Linear => self.linear(low, high),
            Scale::Log => self.log(low, high),
            Scale::Percentile => Self::percentile(high),
        }
    }

    /// Like `span`, but a linear axis ends at its last value.
    pub(super) fn tight(&self, values: impl Iterator<Item = f64>) -> Span {
        let all: Vec<f64> = values.collect();
        let mut span = self.span(all.iter().copied());
        let ends =
            all.iter().copied().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
                (low.min(at), high.max(at))
            });
        if self.scale == Scale::Linear && ends.0 < ends.1 {
            (span.low, span.high) = (if self.from_zero { ends.0.min(0.0) } else { ends.0 }, ends.1);
            let slack = (span.high - span.low) * 1e-9;
            span.ticks.retain(|(at, _)| *at >= span.low - slack && *at <= span.high + slack);
        }
        span
    }

    fn linear(&self, low: f64, high: f64) -> Span {
        let low = if self.from_zero { low.min(0.0) } else { low };
        let high = if high > low { high } else { low + if low == 0.0 { 1.0 } else { low.abs() } };
        let step = self.step((high - low) / TICKS);
        // An axis of time ends shortly after its last value; values get a whole step.
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let ticks = (0..=(last - first) as u32).map(|n| (first + f64::from(n)) * step);
        let unit = |at| (at, self.unit.show(at, step));
        Span { low: first * step, high: last * step, ticks: ticks.map(unit).collect() }
    }

    /// The next of 1, 2, 5, 10, ...; for bytes the next power of two.
    fn step(&self, least: f64) -> f64 {
        if self.unit == Unit::Bytes && least > 1.0 {
            return 2f64.powf(least.log2().ceil());
        }
        let power = 10f64.powf(least.log10().floor());
        [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|step| step * power)
            .find(|step| *step >= least * 0.999)
            .unwrap_or(least)
    }

    fn log(&self, low: f64, high: f64) -> Span {
        if self.unit == Unit::Bytes {
            return self.doublings(low, high);
        }
        let (first, last) = (low.floor(), high.ceil().max(low.floor() + 1.0));
        let every = ((last - first) / DECADES).ceil().max(1.0);
        let count = ((last - first) / every) as u32;
        let mut ticks = Vec::new();
        for n in 0..=count {
            let at = first + f64::from(n) * every;
            let value = 10f64.powf(at);
            ticks.push((at, self.unit.show(value, value)));
            // With few decades there is room for ticks between them.
            if last - first <= 2.0 && at < last {
                ticks.extend(
                    [2.0f64, 5.0]
                        .map(|times| (at + times.log10(), self.unit.show(value * times, value))),
                );
            }
        }
        Span { low: first, high: last, ticks }
    }

    /// Bytes: ticks at powers of two, since sizes of caches are round in these.
    fn doublings(&self, low: f64, high: f64) -> Span {
        let two = 2f64.log10();
        let first = (low / two + 1e-9).floor();
        let last = (high / two - 1e-9).ceil().max(first + 1.0);
        // Few ticks: each power, then each second one (a factor of 4), and so on.
        let every = 2f64.powf(((last - first) / DECADES).log2().ceil().max(0.0));
        // Ticks that lie at the same sizes whatever the ends are: 1, 4, 16, 64 MiB.
        let (first, last) = ((first / every).floor() * every, (last / every).ceil() * every);
        let ticks = (0..=((last - first) / every) as u32).map(|n| first + f64::from(n) * every);
        let tick = |power: f64| (power * two, self.unit.show(2f64.powf(power), 2f64.powf(power)));
        Span { low: first * two, high: last * two, ticks: ticks.map(tick).collect() }
    }

    fn percentile(high: f64) -> Span {
        const ALL: [(f64, &str); 9] = [
            (0.0, "0 %"),
            (0.5, "50 %"),
            (0.75, "75 %"),
            (0.9, "90 %"),
            (0.99, "99 %"),
            (0.999, "99.9 %"),
            (0.9999, "99.99 %"),
            (0.99999, "99.999 %"),
            (0.999_999, "99.9999 %"),
        ];
        let high = high.clamp(1.0, 6.0);
        let place = |share: f64| -(1.0 - share).log10();
        let ticks = ALL.iter().map(|(share, label)| (place(*share), (*label).to_owned()));
        Span { low: 0.0, high, ticks: ticks.filter(|(at, _)| *at <= high + 1e-6).collect() }
    }
}

/// Approximate number of ticks.
const TICKS: f64 = 6.0;
/// Most decades with a tick each.
const DECADES: f64 = 8.0;

/// Range of an axis, as positions.
#[derive(Debug, PartialEq)]
pub(super) struct Span {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Ranged for Span {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, at: &f64, (from, to): (i32, i32)) -> i32 {
        from + ((at - self.low) / (self.high - self.low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // No ticks between the main ones.
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.iter().map(|(at, _)| *at).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Span {
    fn format_ext(&self, at: &f64) -> String {
        self.ticks
            .iter()
            .find(|(place, _)| place == at)
            .map_or(String::new(), |(_, label)| label.clone())
    }
}

impl Unit {
    /// A single value with three digits.
    pub(super) fn precise(self, value: f64) -> String {
        let step = if value == 0.0 { 1.0 } else { 10f64.powf(value.abs().log10().floor() - 2.0) };
        match self {
            Unit::Bytes => show::bytes(value),
            Unit::Seconds if value >= 0.0 => show::time_ns(value * 1e9),
            _ => self.show(value, step),
        }
    }

    /// A value on an axis whose ticks are `step` apart.
    pub(super) fn show(self, value: f64, step: f64) -> String {
        let table: &[(f64, &str)] = match self {
            Unit::Number => &[(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")],
            Unit::Seconds => &[
                (3600.0, " h"),
                (60.0, " min"),
                (1.0, " s"),
                (1e-3, " ms"),
                (1e-6, " µs"),
                (1e-9, " ns"),
            ],
            Unit::Bytes => &[
                (KIBI * KIBI * KIBI * KIBI, " TiB"),
                (KIBI * KIBI * KIBI, " GiB"),
                (KIBI * KIBI, " MiB"),
                (KIBI, " KiB"),
                (1.0, " B"),
            ],
            Unit::Share => return format!("{} %", decimals(value * 100.0, step * 100.0)),
        };
        if value == 0.0 {
            return "0".to_owned();
        }
        // Minutes and hours only if whole.
        let fits = |factor: f64| {
            let size = value.abs() * 1.000_001;
            size >= factor
                && (self != Unit::Seconds
                    || factor <= 1.0
                    || (size >= 2.0 * factor && whole(step / factor)))
        };
        let (factor, name) = table
            .iter()
            .find(|(factor, _)| fits(*factor))
            .or(table.last())
            .copied()
            .unwrap_or((1.0, ""));
        format!("{}{name}", decimals(value / factor, step / factor))
    }
}

const KIBI: f64 = 1024.0;

fn whole(number: f64) -> bool {
    (number - number.round()).abs() < 1e-6 && number > 0.5
}

/// With as many decimals as `step` needs, at most four.
fn decimals(value: f64, step: f64) -> String {
    let places = (0..4).find(|places| whole(step * 10f64.powi(*places))).unwrap_or(4) as usize;
    let text = format!("{value:.places$}");
    if places == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.span(values.iter().copied()).ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let number = Axis::new("", Unit::Number);
        assert_eq!(labels(&number, &[3.0, 97.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&number, &[0.0, 12_345.0]), ["0", "5 k", "10 k", "15 k"]);
        assert_eq!(labels(&number, &[0.7]), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(&number, &[]), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(&number, &[5.0]), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(
            labels(&number.clone().not_from_zero(), &[100.0, 104.0]),
            ["100", "101", "102", "103", "104"]
        );
        assert_eq!(
            labels(&Axis::new("", Unit::Share), &[0.0, 1.0]),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(
            labels(&Axis::new("", Unit::Bytes), &[3e6]),
            ["0", "512 KiB", "1 MiB", "1.5 MiB", "2 MiB", "2.5 MiB", "3 MiB"]
        );
        assert_eq!(
            labels(&Axis::new("", Unit::Seconds), &[0.0, 0.003]),
            ["0", "500 µs", "1 ms", "1.5 ms", "2 ms", "2.5 ms", "3 ms"]
        );
    }

    #[test]
    fn decades_and_percentiles() {
        let log = Axis::new("", Unit::Seconds).scale(Scale::Log);
        assert_eq!(
            labels(&log, &[0.00003, 0.5]),
            ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]
        );
        assert_eq!(labels(&log, &[0.003, 0.0]), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        let bytes = Axis::new("", Unit::Bytes).scale(Scale::Log);
        let mib = f64::from(1 << 20);
        assert_eq!(
            labels(&bytes, &[16.0 * mib, 256.0 * mib]),
            ["16 MiB", "32 MiB", "64 MiB", "128 MiB", "256 MiB"]
        );
        assert_eq!(
            labels(&bytes, &[1e4, 1e9]),
            ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB", "4 GiB"]
        );
        assert_eq!(labels(&bytes, &[3.0 * mib]), ["2 MiB", "4 MiB"]);
        let percentile = Axis::new("", Unit::Share).scale(Scale::Percentile);
        assert_eq!(
            labels(&percentile, &[0.5, 0.9995]),
            ["0 %", "50 %", "75 %", "90 %", "99 %", "99.9 %"]
        );
        assert_eq!(percentile.place(1.0), None);
        assert_eq!(log.place(0.0), None);
    }
}
