//! Conclusions as sentences generated from the figures; each requires its rows and states the
//! result either way.

use super::number;
use crate::mediawiki::{
    measure::Outcome,
    rows::{Database, Objects, Pages},
};

/// Means closer than this count as equal: two runs of one row differ by as much.
const EQUAL: f64 = 0.07;

/// The sentences, most important first.
pub(super) fn of(outcomes: &[Outcome]) -> Vec<String> {
    let valid = Valid(outcomes);
    let mut said = Vec::new();
    said.extend(valid.page_caches());
    said.extend(valid.slowness());
    said.extend(valid.object_caches());
    said.extend(valid.both());
    said.extend(valid.side_by_side());
    said.extend(valid.local());
    said.extend(invalid(outcomes));
    said
}

/// The valid rows.
struct Valid<'a>(&'a [Outcome]);

fn ms(value: f64) -> String {
    if value >= 1000.0 {
        format!("{} s", number(value / 1000.0))
    } else {
        format!("{} ms", number(value))
    }
}

/// "3.1 times faster", "12 % slower", "as fast".
fn against(mean: f64, other: f64) -> String {
    let ratio = other / mean;
    match ratio {
        r if (r - 1.0).abs() <= EQUAL => "as fast".to_owned(),
        r if r >= 2.0 => format!("{} times faster", number(r)),
        r if r > 1.0 => format!("{:.0} % faster", (r - 1.0) * 100.0),
        r => format!("{:.0} % slower", (1.0 / r - 1.0) * 100.0),
    }
}

impl Valid<'_> {
    fn row(&self, id: &str) -> Option<&Outcome> {
        self.0.iter().find(|outcome| outcome.row.id == id && outcome.is_valid())
    }

    fn plain(&self, database: Database) -> Option<&Outcome> {
        self.row(if database == Database::Slow { "none-slow" } else { "none" })
    }

    /// Each warm page cache compared with none.
    fn page_caches(&self) -> Vec<String> {
        let warm = self.0.iter().filter(|outcome| {
            outcome.row.warm
                && outcome.row.pages != Pages::None
                && outcome.row.objects == Objects::None
                && outcome.is_valid()
        });
        let sentence = |outcome: &Outcome| {
            let plain = self.plain(outcome.row.database)?;
            Some(format!(
                "{}: {} in the mean where no cache takes {}: {}; {} times as many requests a \
                 second, and {} statements of the database for each answer in the place of {}.",
                outcome.row.title,
                ms(outcome.figures.mean),
                ms(plain.figures.mean),
                against(outcome.figures.mean, plain.figures.mean),
                number(outcome.figures.per_second / plain.figures.per_second),
                number(outcome.statements),
                number(plain.statements),
            ))
        };
        warm.filter_map(sentence).collect()
    }

    /// Cost of the slow database, with and without caches.
    fn slowness(&self) -> Vec<String> {
        let pairs = [
            ("none", "without any cache"),
            ("memcached-warm", "with a warm memcached"),
            ("larder-objects-warm", "with a warm Larder for objects"),
            ("squid-warm", "behind a warm Squid"),
            ("larder-pages-warm", "behind a warm Larder"),
        ];
        let parts: Vec<_> = pairs
            .iter()
            .filter_map(|(id, what)| {
                let (fast, slow) = (self.row(id)?, self.row(&format!("{id}-slow"))?);
                let ratio = slow.figures.mean / fast.figures.mean;
                Some(if (ratio - 1.0).abs() <= EQUAL {
                    format!("{what} nothing")
                } else {
                    format!("{what} {} times the mean time", number(ratio))
                })
            })
            .collect();
        if parts.is_empty() {
            Vec::new()
        } else {
            vec![format!("The slow database costs {}.", parts.join(", "))]
        }
    }

    /// Effect of an object cache.
    fn object_caches(&self) -> Vec<String> {
        let with = self.0.iter().filter(|outcome| {
            outcome.row.objects != Objects::None
                && outcome.row.pages == Pages::None
                && outcome.is_valid()
        });
        let sentence = |outcome: &Outcome| {
            let plain = self.plain(outcome.row.database)?;
            let saved = (1.0 - outcome.figures.mean / plain.figures.mean) * 100.0;
            let saves = if saved >= 0.0 {
                format!("saves {saved:.0} %")
            } else {
                format!("adds {:.0} %", -saved)
            };
            Some(format!(
                "{} {saves} of the mean time ({} to {}) and asks the database {} times for each \
                 answer, not {}.",
                outcome.row.title,
                ms(plain.figures.mean),
                ms(outcome.figures.mean),
                number(outcome.statements),
                number(plain.statements),
            ))
        };
        with.filter_map(sentence).collect()
    }

    /// Pages and objects in one Larder.
    fn both(&self) -> Vec<String> {
        let cold = self.0.iter().filter(|outcome| {
            outcome.row.objects == Objects::Larder
                && outcome.row.pages == Pages::Larder
                && !outcome.row.warm
                && outcome.is_valid()
        });
        let sentence = |outcome: &Outcome| {
            let n = outcome.figures.n;
            format!(
                "{}: of {n} requests to empty caches {} caused a render or waited for one, {} \
                 came from memory; the mean was {}, the longest {}.",
                outcome.row.title,
                n - outcome.page_hits,
                outcome.page_hits,
                ms(outcome.figures.mean),
                ms(outcome.figures.max),
            )
        };
        cold.map(sentence).collect()
    }

    /// Larder compared with Debian's server, row by row.
    fn side_by_side(&self) -> Vec<String> {
        let places = [
            ("larder-objects-cold", "memcached-cold"),
            ("larder-objects-warm", "memcached-warm"),
            ("larder-objects-cold-slow", "memcached-cold-slow"),
            ("larder-objects-warm-slow", "memcached-warm-slow"),
            ("larder-pages-warm", "squid-warm"),
            ("larder-pages-warm-slow", "squid-warm-slow"),
        ];
        let sentence = |(larder, other): &(&str, &str)| {
            let (larder, other) = (self.row(larder)?, self.row(other)?);
            let cost = |outcome: &Outcome, of: &str| {
                outcome
                    .cpu
                    .iter()
                    .find(|cost| cost.of == of)
                    .map_or(f64::NAN, |cost| cost.milliseconds * 1000.0)
            };
            let name = if other.row.pages == Pages::Squid { "Squid" } else { "memcached" };
            Some(format!(
                "{} against {}: {} in the mean ({} and {}); processor time of the cache for each \
                 answer: {:.0} and {:.0} microseconds.",
                larder.row.title,
                other.row.title,
                against(larder.figures.mean, other.figures.mean),
                ms(larder.figures.mean),
                ms(other.figures.mean),
                cost(larder, "Larder"),
                cost(other, name),
            ))
        };
        places.iter().filter_map(sentence).collect()
    }

    fn local(&self) -> Option<String> {
        let (near, far) = (self.row("none-local")?, self.row("none")?);
        Some(format!(
            "The database by its unix socket in the place of TCP: {} ({} and {} in the mean).",
            against(near.figures.mean, far.figures.mean),
            ms(near.figures.mean),
            ms(far.figures.mean),
        ))
    }
}

fn invalid(outcomes: &[Outcome]) -> Vec<String> {
    let wrong = outcomes.iter().filter(|outcome| !outcome.is_valid());
    wrong
        .map(|outcome| {
            format!("{} is not valid: {}.", outcome.row.title, outcome.faults.join("; "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mediawiki::rows::{Figures, ROWS};

    fn outcome(id: &str, mean: f64) -> Outcome {
        let row = ROWS.into_iter().find(|row| row.id == id).unwrap();
        let figures = Figures {
            n: 100,
            mean,
            median: mean,
            p90: mean,
            min: mean,
            max: mean,
            per_second: 1e3 / mean,
            kb_per_second: 1.0,
        };
        Outcome {
            row,
            users: 5,
            figures,
            page_hits: 0,
            statements: 40.0,
            cpu: Vec::new(),
            compared: 1,
            faults: Vec::new(),
            began: 0.0,
            series: Vec::new(),
        }
    }

    #[test]
    fn sentences_say_what_was_measured_whichever_way_it_came_out() {
        let better = of(&[outcome("none", 100.0), outcome("memcached-warm", 75.0)]);
        assert!(
            better.iter().any(|said| said.contains("saves 25 % of the mean time")),
            "{better:?}"
        );
        let worse = of(&[outcome("none", 100.0), outcome("memcached-warm", 125.0)]);
        assert!(worse.iter().any(|said| said.contains("adds 25 % of the mean time")), "{worse:?}");
        let pages = of(&[outcome("none", 100.0), outcome("squid-warm", 4.0)]);
        assert!(pages.iter().any(|said| said.contains("25.0 times faster")), "{pages:?}");
    }

    #[test]
    fn a_row_that_is_not_valid_teaches_nothing_but_that() {
        let mut wrong = outcome("memcached-warm", 75.0);
        wrong.faults.push("nothing was there".to_owned());
        assert_eq!(
            of(&[outcome("none", 100.0), wrong]),
            ["memcached warm is not valid: nothing was there."]
        );
        assert_eq!(of(&[]), Vec::<String>::new());
    }

    #[test]
    fn close_means_are_equal() {
        assert_eq!(against(100.0, 105.0), "as fast");
        assert_eq!(against(100.0, 150.0), "50 % faster");
        assert_eq!(against(150.0, 100.0), "50 % slower");
        assert_eq!(against(10.0, 100.0), "10.0 times faster");
    }
}
