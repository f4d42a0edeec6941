//! Think time: the pause between an answer and the connection's next request.

use std::time::Duration;

use larder_proto::units;
use rand::{Rng, rngs::SmallRng};
use rand_distr::{Distribution, Exp1};

/// Longest time drawn from an exponential distribution: one draw in 10^17 exceeds 40 times the
/// mean.
const LONGEST: Duration = Duration::from_secs(3600);

/// Distribution of think times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Think {
    /// No pause.
    #[default]
    None,
    /// A fixed time.
    Fixed(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
    /// Exponential with this mean, as of independent users.
    Exponential(Duration),
}

impl Think {
    /// Parses `10ms`, `1ms-20ms`, `exp:10ms`.
    pub fn parse(text: &str) -> Result<Think, String> {
        let wrong = || format!("think time {text:?}: expected 10ms, 1ms-20ms or exp:10ms");
        let read = |text: &str| units::duration(text).map_err(|_| wrong());
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(Think::Exponential(read(mean)?));
        }
        let Some((least, most)) = text.split_once('-') else {
            return Ok(Think::Fixed(read(text)?));
        };
        let (least, most) = (read(least)?, read(most)?);
        if least > most { Err(wrong()) } else { Ok(Think::Uniform(least, most)) }
    }

    pub(crate) fn draw(self, rng: &mut SmallRng) -> Duration {
        match self {
            Think::None => Duration::ZERO,
            Think::Fixed(time) => time,
            Think::Uniform(least, most) => rng.random_range(least..=most),
            Think::Exponential(mean) => {
                let times: f64 = Exp1.sample(rng);
                mean.mul_f64(times).min(LONGEST)
            }
        }
    }

    pub(crate) fn describe(self) -> Option<String> {
        let show = units::show_duration;
        match self {
            Think::None => None,
            Think::Fixed(time) => Some(show(time)),
            Think::Uniform(least, most) => Some(format!("{} to {}", show(least), show(most))),
            Think::Exponential(mean) => Some(format!("exponential, mean {}", show(mean))),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn seconds(text: &str) -> Vec<f64> {
        let (think, mut rng) = (Think::parse(text).unwrap(), SmallRng::seed_from_u64(5));
        (0..50_000).map(|_| think.draw(&mut rng).as_secs_f64()).collect()
    }

    fn mean(all: &[f64]) -> f64 {
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn draws_are_what_they_say() {
        assert!(seconds("10ms").iter().all(|time| *time == 0.010));
        let uniform = seconds("1ms-21ms");
        assert!(uniform.iter().all(|time| (0.001..=0.021).contains(time)));
        assert!((mean(&uniform) - 0.011).abs() < 0.0002, "{}", mean(&uniform));
        let exponential = seconds("exp:10ms");
        assert!((mean(&exponential) - 0.010).abs() < 0.0002, "{}", mean(&exponential));
        // The standard deviation of an exponential distribution equals its mean; a share of e^-1 is
        // above it.
        let above = exponential.iter().filter(|time| **time > 0.010).count() as f64 / 50_000.0;
        assert!((above - (-1f64).exp()).abs() < 0.01, "{above}");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "10", "5ms-1ms", "exp:", "normal:1ms"] {
            assert!(Think::parse(text).is_err(), "{text}");
        }
    }
}
