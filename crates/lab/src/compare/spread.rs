//! Median and quartiles of a figure over many rounds.

use serde::Serialize;

/// Median and quartiles of a figure over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) q1: f64,
    pub(crate) q3: f64,
    /// Number of rounds.
    pub(crate) n: usize,
}

impl Spread {
    /// `None` without any value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let at = share * (sorted.len() - 1) as f64;
            let (below, above) = (at.floor() as usize, at.ceil() as usize);
            sorted[below] + (sorted[above] - sorted[below]) * (at - at.floor())
        };
        let n = sorted.len();
        (n > 0).then(|| Self { median: quantile(0.5), q1: quantile(0.25), q3: quantile(0.75), n })
    }

    /// `1.23 (1.20-1.26)`.
    pub(crate) fn ratio(&self) -> String {
        format!("{:.2} ({:.2}-{:.2})", self.median, self.q1, self.q3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_rounds() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, q1: 2.0, q3: 4.0, n: 5 });
        let spread = Spread::of([1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 1.5, q1: 1.25, q3: 1.75, n: 2 });
        assert_eq!(Spread::of([7.0]).unwrap(), Spread { median: 7.0, q1: 7.0, q3: 7.0, n: 1 });
        assert_eq!(Spread::of([]), None);
    }
}
