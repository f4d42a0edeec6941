//! Formatting of figures: three or four digits and a unit.

use std::time::Duration;

/// Nanoseconds: `87 ns`, `12.3 µs`, `4.56 ms`, `1.23 s`.
pub fn time_ns(nanoseconds: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    match units.into_iter().find(|(factor, _)| nanoseconds >= factor * 0.9995) {
        Some((factor, unit)) => format!("{} {unit}", three(nanoseconds / factor)),
        None => format!("{nanoseconds:.0} ns"),
    }
}

/// A time, formatted like [`time_ns`].
pub fn time(time: Duration) -> String {
    time_ns(time.as_nanos() as f64)
}

/// A whole number with thousands separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate per second without unit: `123,456`, `12.3`.
pub fn rate(number: u64, time: Duration) -> String {
    let rate = per_second(number, time);
    if rate >= 100.0 { count(rate.round() as u64) } else { three(rate) }
}

/// A rate per second.
pub fn per_second(number: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { number as f64 / time.as_secs_f64() }
}

/// Bytes: `999 B`, `1.23 KiB`, `45.6 MiB`.
pub fn bytes(bytes: f64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(power, _)| bytes >= 2f64.powi(*power)) {
        Some((power, unit)) => format!("{} {unit}", three(bytes / 2f64.powi(power))),
        None => format!("{bytes:.0} B"),
    }
}

/// A share: `98.76 %`, `0.0031 %`; `-` if `whole` is 0.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let percent = part as f64 / whole as f64 * 100.0;
    // A small share is not shown as 0.
    if percent > 0.0 && percent < 0.01 {
        format!("{percent:.4} %")
    } else {
        format!("{percent:.2} %")
    }
}

/// Three digits, or all before the decimal point.
fn three(number: f64) -> String {
    let places = match number {
        _ if number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        for (nanoseconds, text) in [
            (0.0, "0 ns"),
            (87.0, "87 ns"),
            (999.9, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (4_560_000.0, "4.56 ms"),
            (99_990_000.0, "100 ms"),
            (1.5e9, "1.50 s"),
            (2e11, "200 s"),
        ] {
            assert_eq!(time_ns(nanoseconds), text);
        }
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        for (number, text) in
            [(0.0, "0 B"), (1023.0, "1023 B"), (1024.0, "1.00 KiB"), (47_815_065.0, "45.6 MiB")]
        {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(rate(1_000_000, Duration::from_millis(8100)), "123,457");
        assert_eq!(rate(5, Duration::from_secs(2)), "2.50");
        assert_eq!(rate(5, Duration::ZERO), "0.00");
        assert_eq!((share(1, 3).as_str(), share(0, 0).as_str()), ("33.33 %", "-"));
    }
}
