//! Latency histogram on a logarithmic axis, hits (`|`) and misses (`#`) apart, as drawn by
//! varnishhist.

use larder_metrics::Histogram;

use crate::text::{count, fit};

/// The axis goes from a microsecond to a hundred seconds.
const DECADES: usize = 8;
const MARKS: [&str; DECADES] = ["1µs", "10µs", "100µs", "1ms", "10ms", "100ms", "1s", "10s"];
/// Buckets span at most a factor of the square root of two.
const WIDEST: f64 = std::f64::consts::SQRT_2;
/// Smallest chart that is drawn.
const LEAST: (usize, usize) = (DECADES * 2, 2);

/// Draws both into `width` columns and `height` lines, with scale and axis below.
pub(crate) fn draw(hit: &Histogram, miss: &Histogram, width: usize, height: usize) -> Vec<String> {
    let (width, height) = (width.max(LEAST.0), height.max(LEAST.1 + 2) - 2);
    let per_decade = width / DECADES;
    let columns = per_decade * DECADES;
    let (hits, misses) = (spread(hit, per_decade), spread(miss, per_decade));
    let highest = (0..columns).map(|x| hits[x] + misses[x]).fold(0.0, f64::max);
    let sign = (highest / height as f64).max(1.0);
    let mut lines = Vec::with_capacity(height + 2);
    for y in (0..height).rev() {
        let line = (0..columns).map(|x| {
            let misses_high = signs(misses[x], sign);
            match y {
                y if y < misses_high => '#',
                y if y < (misses_high + signs(hits[x], sign)).min(height) => '|',
                _ => ' ',
            }
        });
        lines.push(line.collect::<String>().trim_end().to_owned());
    }
    let begin = |n: usize| format!("+{}", "-".repeat(n.saturating_sub(1)));
    lines.push(begin(per_decade).repeat(DECADES));
    lines.push(
        MARKS
            .map(|mark| format!("{:per_decade$}", fit(mark, per_decade)))
            .concat()
            .trim_end()
            .to_owned(),
    );
    lines.push(fit(
        &format!(
            "| {} hits  # {} misses  (one sign: {})",
            hit.count(),
            miss.count(),
            count(sign.ceil())
        ),
        width,
    ));
    lines
}

/// Number of signs; at least one for any count above 0.
fn signs(n: f64, sign: f64) -> usize {
    if n > 0.0 { (n / sign).round().max(1.0) as usize } else { 0 }
}

/// Counts by column: a bucket's count is split among the columns it covers.
fn spread(histogram: &Histogram, per_decade: usize) -> Vec<f64> {
    let mut columns = vec![0.0; per_decade * DECADES];
    let last = columns.len() - 1;
    let buckets: Vec<_> = histogram.fine().map(|(upper, n)| (upper as f64, n)).collect();
    let ratios = buckets.windows(2).map(|two| two[1].0 / two[0].0);
    let width = ratios.filter(|ratio| *ratio > 1.0).fold(WIDEST, f64::min);
    let place = |us: f64| us.max(1.0).log10() * per_decade as f64;
    for (upper, n) in &buckets {
        let (from, to) = (place(upper / width), place(*upper));
        let first = (from as usize).min(last);
        let end = (to as usize).min(last);
        for (x, column) in columns.iter_mut().enumerate().take(end + 1).skip(first) {
            let covered = (to.min((x + 1) as f64) - from.max(x as f64)) / (to - from);
            // At the ends of the axis a bucket lies in a single column.
            let share = if first == end || !covered.is_finite() { 1.0 } else { covered.max(0.0) };
            *column += share * *n as f64;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(buckets: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        buckets.iter().for_each(|(upper, n)| histogram.add_class(*upper, *n));
        histogram
    }

    #[test]
    fn every_request_is_in_one_column() {
        let histogram = histogram(&[(0, 5), (90, 10), (128, 7), (1000, 1), (u64::MAX, 2)]);
        let sum: f64 = spread(&histogram, 10).iter().sum();
        assert!((sum - 25.0).abs() < 1e-6, "{sum}");
        assert_eq!(spread(&histogram, 10)[0], 5.0);
        assert_eq!(spread(&histogram, 10)[79], 2.0);
    }

    #[test]
    fn hits_and_misses_stand_where_their_times_are() {
        let lines = draw(&histogram(&[(150, 100)]), &histogram(&[(150_000, 1)]), 80, 8);
        assert_eq!(lines.len(), 9);
        let at = |sign| lines[..6].iter().filter_map(|line| line.find(sign)).min();
        assert_eq!(lines[5].find('#').map(|x| x / 10), Some(5), "{lines:#?}");
        assert_eq!(at('|').map(|x| x / 10), Some(2), "{lines:#?}");
        assert!(lines[7].starts_with("1µs       10µs      100µs     1ms"), "{}", lines[7]);
        assert!(lines[8].contains("100 hits  # 1 misses"), "{}", lines[8]);
    }

    #[test]
    fn it_fits_and_never_fails() {
        let some = histogram(&[(0, 2), (8, u64::MAX), (u64::MAX, 1)]);
        for (width, height) in [(0, 0), (16, 3), (80, 24), (300, 100)] {
            let lines = draw(&some, &Histogram::default(), width, height);
            assert!(lines.iter().all(|line| line.chars().count() <= width.max(16)), "{lines:#?}");
        }
    }
}
