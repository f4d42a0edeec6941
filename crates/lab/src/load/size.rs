//! Lengths of values. A key always has the same length: the draw is seeded by the key.

use larder_proto::units;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, LogNormal, Pareto};

use super::{parse, value};

/// Longest value of any distribution: the default limit of Larder's objects.
pub(crate) const LONGEST: usize = 64 << 20;

/// Distribution of the lengths of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    typed: String,
    distribution: SizeDistribution,
}

#[derive(Clone, Debug, PartialEq)]
enum SizeDistribution {
    Fixed(usize),
    Uniform(usize, usize),
    LogNormal(LogNormal<f64>, usize),
    Pareto(Pareto<f64>, usize),
    /// Sizes with cumulative shares; the last is 1.
    Weighted(Vec<(usize, f64)>),
}

impl Sizes {
    /// One size.
    pub fn fixed(size: usize) -> Sizes {
        Sizes { typed: format!("{size} B"), distribution: SizeDistribution::Fixed(size) }
    }

    /// Parses `100`, `1k-10k`, `lognormal:MEDIAN:SIGMA[:MAX]`, `pareto:MEDIAN:ALPHA[:MAX]`,
    /// `100:60,1k:30,10k:10`.
    pub fn parse(text: &str) -> Result<Sizes, String> {
        let wrong = || {
            format!(
                "size {text:?}: expected 100, 1k-10k, lognormal:4k:1.2, pareto:4k:1.5 (median and \
                 shape, then the longest if it is not 64MiB), or 100:60,1k:30,10k:10"
            )
        };
        let distribution = if let Some(rest) = text.strip_prefix("lognormal:") {
            let (median, sigma, longest) = shaped(rest).ok_or_else(wrong)?;
            SizeDistribution::LogNormal(
                LogNormal::new(median.ln(), sigma).map_err(|_| wrong())?,
                longest,
            )
        } else if let Some(rest) = text.strip_prefix("pareto:") {
            let (median, alpha, longest) = shaped(rest).ok_or_else(wrong)?;
            // The median of a Pareto distribution is its minimum times the alpha-th root of two.
            let least = median / 2f64.powf(alpha.recip());
            SizeDistribution::Pareto(Pareto::new(least, alpha).map_err(|_| wrong())?, longest)
        } else if text.contains(':') {
            SizeDistribution::Weighted(weighted(text).ok_or_else(wrong)?)
        } else if let Some((least, most)) = text.split_once('-') {
            let (least, most) = (bytes(least).ok_or_else(wrong)?, bytes(most).ok_or_else(wrong)?);
            if least > most {
                return Err(format!("size {text:?}: {least} is more than {most}"));
            }
            SizeDistribution::Uniform(least, most)
        } else {
            SizeDistribution::Fixed(bytes(text).ok_or_else(wrong)?)
        };
        Ok(Sizes { typed: text.to_owned(), distribution })
    }

    /// Length of this key's value in bytes.
    pub fn of(&self, key: &[u8]) -> usize {
        let rng = || SmallRng::seed_from_u64(value::hash(key));
        match &self.distribution {
            SizeDistribution::Fixed(size) => *size,
            SizeDistribution::Uniform(least, most) => rng().random_range(*least..=*most),
            SizeDistribution::LogNormal(sizes, longest) => {
                whole(sizes.sample(&mut rng()), *longest)
            }
            SizeDistribution::Pareto(sizes, longest) => whole(sizes.sample(&mut rng()), *longest),
            SizeDistribution::Weighted(sizes) => {
                let drawn = rng().random::<f64>();
                let found = sizes.iter().find(|(_, below)| drawn < *below).or(sizes.last());
                found.map_or(0, |(size, _)| *size)
            }
        }
    }

    pub(crate) fn describe(&self) -> String {
        self.typed.clone()
    }
}

fn whole(size: f64, longest: usize) -> usize {
    (size.round() as usize).clamp(1, longest)
}

fn bytes(text: &str) -> Option<usize> {
    let size = usize::try_from(units::size(text).ok()?).ok()?;
    Some(size).filter(|size| *size <= LONGEST)
}

/// Parses `MEDIAN:SHAPE[:MAX]`.
fn shaped(text: &str) -> Option<(f64, f64, usize)> {
    let mut parts = text.split(':');
    let median = bytes(parts.next()?).filter(|median| *median > 0)?;
    let shape = parse::number(parts.next()?).filter(|shape| *shape > 0.0)?;
    let longest = parts.next().map_or(Some(LONGEST), bytes).filter(|longest| *longest >= median)?;
    parts.next().is_none().then_some((median as f64, shape, longest))
}

fn weighted(text: &str) -> Option<Vec<(usize, f64)>> {
    let mut sizes = Vec::new();
    let mut sum = 0.0;
    for part in text.split(',') {
        let (size, weight) = part.split_once(':')?;
        sum += parse::number(weight)?;
        sizes.push((bytes(size)?, sum));
    }
    for (_, below) in &mut sizes {
        *below /= sum;
    }
    (sum > 0.0).then_some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str) -> Vec<usize> {
        let sizes = Sizes::parse(text).unwrap();
        let mut all: Vec<usize> =
            (0..20_000).map(|n| sizes.of(format!("key-{n}").as_bytes())).collect();
        all.sort_unstable();
        all
    }

    fn share_below(all: &[usize], limit: f64) -> f64 {
        all.iter().filter(|size| (**size as f64) < limit).count() as f64 / all.len() as f64
    }

    /// Four standard deviations of a share of 20,000 draws.
    #[track_caller]
    fn assert_share(found: f64, expected: f64) {
        let limit = 4.0 * (expected * (1.0 - expected) / 20_000.0).sqrt();
        assert!((found - expected).abs() <= limit, "{found}, not {expected}");
    }

    #[test]
    fn a_key_has_one_size() {
        for text in ["100", "1k-10k", "lognormal:4k:1.2", "pareto:4k:1.5", "100:60,1k:30,10k:10"] {
            let sizes = Sizes::parse(text).unwrap();
            assert_eq!(sizes.of(b"some key"), sizes.clone().of(b"some key"));
        }
    }

    #[test]
    fn uniform_covers_its_range_evenly() {
        let all = drawn("1k-10k");
        assert!(all[0] >= 1024 && all[all.len() - 1] <= 10_240);
        for quarter in 1..4 {
            let share = f64::from(quarter) / 4.0;
            assert_share(share_below(&all, 1024.0 + share * 9217.0), share);
        }
    }

    #[test]
    fn lognormal_has_its_median_and_spread() {
        let all = drawn("lognormal:4k:1.2");
        assert_share(share_below(&all, 4096.0), 0.5);
        // One sigma to each side contains 68.27 %.
        let inside =
            share_below(&all, 4096.0 * 1.2f64.exp()) - share_below(&all, 4096.0 * (-1.2f64).exp());
        assert_share(inside, 0.6827);
    }

    #[test]
    fn pareto_has_its_median_and_tail() {
        let all = drawn("pareto:4k:1.5");
        assert_share(share_below(&all, 4096.0), 0.5);
        let least = 4096.0 / 2f64.powf(1.0 / 1.5);
        assert!(all[0] as f64 >= least - 1.0);
        assert_share(share_below(&all, 10.0 * least), 1.0 - 10f64.powf(-1.5));
        let capped = drawn("pareto:4k:0.5:64k");
        assert_eq!(capped[capped.len() - 1], 65_536);
    }

    #[test]
    fn weights_are_shares() {
        let all = drawn("100:60,1k:30,10k:10");
        for (size, share) in [(100, 0.6), (1024, 0.3), (10_240, 0.1)] {
            assert_share(
                all.iter().filter(|found| **found == size).count() as f64 / 20_000.0,
                share,
            );
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "x",
            "-5",
            "10k-1k",
            "lognormal:0:1",
            "lognormal:1k",
            "pareto:1k:0",
            "1k:x",
            "1k:0",
            "1TiB",
        ] {
            assert!(Sizes::parse(text).is_err(), "{text}");
        }
        assert_eq!(Sizes::parse("0").unwrap().of(b"k"), 0);
    }
}
