//! Shares of operations.

use rand::{Rng, rngs::SmallRng};

use super::{Verb, parse};

/// Operations with their shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix(Vec<(Verb, f64)>);

impl Mix {
    /// A single operation.
    pub fn only(verb: Verb) -> Mix {
        Mix(vec![(verb, 1.0)])
    }

    /// Parses `get=90,set=10`: any numbers, normalised by their sum.
    pub fn parse(text: &str) -> Result<Mix, String> {
        let wrong = |why: &str| format!("mix {text:?}: {why}");
        let mut shares: Vec<(Verb, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, share) = part
                .split_once('=')
                .ok_or_else(|| wrong("expected shares such as get=90,set=10"))?;
            let verb = match name.trim() {
                "get" => Verb::Get,
                "set" | "put" => Verb::Set,
                "delete" => Verb::Delete,
                "head" => Verb::Head,
                _ => return Err(wrong("expected get, set, delete or head")),
            };
            let share =
                parse::number(share).ok_or_else(|| wrong("a share is a number, 0 or more"))?;
            if shares.iter().any(|(other, _)| *other == verb) {
                return Err(wrong("an operation has one share"));
            }
            shares.push((verb, share));
        }
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum <= 0.0 {
            return Err(wrong("at least one share must be more than 0"));
        }
        Ok(Mix(shares.into_iter().map(|(verb, share)| (verb, share / sum)).collect()))
    }

    /// Share of an operation, 0 to 1.
    pub fn share(&self, verb: Verb) -> f64 {
        self.0.iter().find(|(other, _)| *other == verb).map_or(0.0, |(_, share)| *share)
    }

    pub(crate) fn pick(&self, rng: &mut SmallRng) -> Verb {
        if let [(verb, _)] = self.0[..] {
            return verb;
        }
        let mut left = rng.random::<f64>();
        for (verb, share) in &self.0 {
            if left < *share {
                return *verb;
            }
            left -= share;
        }
        // Rounding error: the last operation with a share.
        self.0.iter().rev().find(|(_, share)| *share > 0.0).map_or(Verb::Get, |(verb, _)| *verb)
    }

    pub(crate) fn describe(&self) -> String {
        let part = |(verb, share): &(Verb, f64)| format!("{} {:.4} %", verb.name(), share * 100.0);
        let text = self.0.iter().map(part).collect::<Vec<_>>().join(", ");
        text.replace(".0000 %", " %")
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn shares_are_what_they_say() {
        let mix = Mix::parse("get=90,set=9,delete=1,head=0").unwrap();
        let mut rng = SmallRng::seed_from_u64(3);
        let draws = 200_000;
        let mut counts = [0u32; 4];
        for _ in 0..draws {
            counts[mix.pick(&mut rng) as usize] += 1;
        }
        for (verb, share) in
            [(Verb::Get, 0.9), (Verb::Set, 0.09), (Verb::Delete, 0.01), (Verb::Head, 0.0)]
        {
            let found = f64::from(counts[verb as usize]) / f64::from(draws);
            // Four standard deviations of a binomial share.
            let limit = 4.0 * (share * (1.0 - share) / f64::from(draws)).sqrt();
            assert!((found - share).abs() <= limit, "{verb:?}: {found}");
        }
    }

    #[test]
    fn any_numbers_are_shares_of_their_sum() {
        assert_eq!(Mix::parse("get=3,set=1").unwrap(), Mix::parse("get=75, set=25").unwrap());
        assert_eq!(Mix::parse("get=3,set=1").unwrap().describe(), "get 75 %, set 25 %");
        for text in ["", "get", "get=x", "get=-1", "get=0", "get=1,get=2", "append=1"] {
            assert!(Mix::parse(text).is_err(), "{text}");
        }
    }
}
