//! Parsing of numbers.

/// A finite number that is not negative.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// A share such as `1%` or `0.01`: above 0 and at most 1.
pub(crate) fn share(text: &str) -> Option<f64> {
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    Some(share).filter(|share| *share > 0.0 && *share <= 1.0)
}
