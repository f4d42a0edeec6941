//! Specification of a trace on the command line.

use std::path::PathBuf;

use crate::load::trace::Format;

/// Popularity of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Zipf, constant.
    Zipf,
    /// Equal for all keys.
    Uniform,
    /// Zipf; every 100,000 requests are followed by 50,000 consecutive requests of keys requested
    /// once.
    Scan,
    /// Zipf; every second request is of a key requested once.
    OneHit,
    /// Zipf; after every 250,000 requests popularity moves by a sixteenth of the keys.
    Drift,
}

/// Sizes of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Lognormal by key: median 300 bytes, sigma 1, from 16 bytes to 4 KiB.
    Lognormal,
    /// One size.
    Fixed(u32),
}

/// A synthetic trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Synthetic {
    pub(crate) shape: Shape,
    /// Exponent of Zipf's law.
    pub(crate) skew: f64,
    pub(crate) keys: u32,
    pub(crate) requests: u64,
    pub(crate) values: Values,
    /// Time to live in seconds; 0: no limit.
    pub(crate) ttl: u32,
    /// Share of writes.
    pub(crate) writes: f64,
    /// Requests per second of trace time.
    pub(crate) rate: f64,
    pub(crate) seed: u64,
}

impl Default for Synthetic {
    /// `zipf:0.9` of `larder bench compare --plan hitratio`.
    fn default() -> Synthetic {
        Synthetic {
            shape: Shape::Zipf,
            skew: 0.9,
            keys: 1_000_000,
            requests: 4_000_000,
            values: Values::Lognormal,
            ttl: 0,
            writes: 0.0,
            rate: 10_000.0,
            seed: 11,
        }
    }
}

/// Source of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    Synthetic(Synthetic),
    /// A recorded trace: file, and format if given.
    File(PathBuf, Option<Format>),
}

impl Spec {
    /// Parses `zipf:0.9`, `uniform`, `scan:0.9`, `onehit:0.9`, `drift:0.9` or a path; the other
    /// parameters of a synthetic trace are in `base`.
    pub(crate) fn parse(text: &str, format: Option<&str>, base: Synthetic) -> Result<Spec, String> {
        let (name, rest) =
            text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let shape = match name {
            "zipf" => Shape::Zipf,
            "uniform" => Shape::Uniform,
            "scan" => Shape::Scan,
            "onehit" => Shape::OneHit,
            "drift" => Shape::Drift,
            _ => return Ok(Spec::File(text.into(), format.map(Format::parse).transpose()?)),
        };
        let skew = match rest {
            None => base.skew,
            Some(skew) => {
                skew.parse().ok().filter(|skew: &f64| (0.0..=5.0).contains(skew)).ok_or_else(
                    || {
                        format!(
                            "the skew of trace {text:?} has to be a number from 0 to 5, as in \
                             {name}:0.9"
                        )
                    },
                )?
            }
        };
        Ok(Spec::Synthetic(Synthetic { shape, skew, ..base }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_as_people_write_them() {
        let of = |text| Spec::parse(text, Some("twitter"), Synthetic::default());
        let drift = Synthetic { shape: Shape::Drift, skew: 1.1, ..Synthetic::default() };
        assert_eq!(of("drift:1.1"), Ok(Spec::Synthetic(drift)));
        assert!(matches!(
            of("uniform"),
            Ok(Spec::Synthetic(Synthetic { shape: Shape::Uniform, .. }))
        ));
        assert_eq!(of("a/b:c.csv"), Ok(Spec::File("a/b:c.csv".into(), Some(Format::Twitter))));
        assert!(of("zipf:many").is_err_and(|error| error.contains("zipf:0.9")));
    }
}
