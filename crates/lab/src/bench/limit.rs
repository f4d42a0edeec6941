//! Limits that a run must meet, such as `p99<5ms`.

use std::{fmt, str::FromStr};

use crate::report::Run;

/// A figure of a run and its bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    text: String,
    figure: Figure,
    order: Order,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// Quantile of the latency, 0 to 1; the figure is in nanoseconds.
    Quantile(f64),
    /// Maximum latency in nanoseconds.
    Max,
    Mean,
    /// Correct answers per second.
    Rate,
    Answers,
    Errors,
    Wrong,
    /// Hits in percent of lookups.
    Hits,
    /// Processor time of the server per request, in nanoseconds.
    Cpu,
    /// Processor time of this process per request, in nanoseconds.
    OwnCpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
}

const EXPECTED: &str = "expected a figure (p50, p99.9, max, mean, rate, answers, errors, wrong, \
                        hits, cpu, own-cpu), one of < <= > >= =, and a bound, such as p99<5ms, \
                        rate>10000, errors=0, hits>=90%, cpu<8us";

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let at = text.find(['<', '>', '=']).ok_or(EXPECTED)?;
        let (name, rest) = text.split_at(at);
        let orders = [
            ("<=", Order::AtMost),
            (">=", Order::AtLeast),
            ("==", Order::Equal),
            ("<", Order::Below),
            (">", Order::Above),
            ("=", Order::Equal),
        ];
        let (sign, order) =
            orders.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or(EXPECTED)?;
        let figure = Figure::parse(name.trim()).ok_or(EXPECTED)?;
        let bound = figure.bound(rest[sign.len()..].trim()).ok_or(EXPECTED)?;
        Ok(Limit { text: text.to_owned(), figure, order, bound })
    }
}

impl Figure {
    fn parse(name: &str) -> Option<Figure> {
        Some(match name {
            "max" => Figure::Max,
            "mean" => Figure::Mean,
            "rate" => Figure::Rate,
            "answers" => Figure::Answers,
            "errors" => Figure::Errors,
            "wrong" => Figure::Wrong,
            "hits" => Figure::Hits,
            "cpu" => Figure::Cpu,
            "own-cpu" => Figure::OwnCpu,
            _ => {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                (0.0..=100.0).contains(&percent).then_some(Figure::Quantile(percent / 100.0))?
            }
        })
    }

    fn is_time(self) -> bool {
        matches!(
            self,
            Figure::Quantile(_) | Figure::Max | Figure::Mean | Figure::Cpu | Figure::OwnCpu
        )
    }

    fn bound(self, text: &str) -> Option<f64> {
        let at =
            text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
        let number: f64 = text[..at].replace('_', "").parse().ok()?;
        let factor = match (text[at..].trim(), self) {
            ("ns", figure) if figure.is_time() => 1.0,
            ("us" | "µs", figure) if figure.is_time() => 1e3,
            ("ms", figure) if figure.is_time() => 1e6,
            ("s", figure) if figure.is_time() => 1e9,
            ("%", Figure::Hits) => 1.0,
            ("" | "/s", Figure::Rate) => 1.0,
            ("k" | "k/s", Figure::Rate) => 1e3,
            ("", Figure::Answers | Figure::Errors | Figure::Wrong) => 1.0,
            _ => return None,
        };
        Some(number * factor)
    }

    /// `None`: the run has no such figure.
    fn of(self, run: &Run) -> Option<f64> {
        let latency = (!run.latency.is_empty()).then_some(&run.latency);
        let each = |nanos: u128| (run.requests > 0).then(|| nanos as f64 / run.requests as f64);
        match self {
            Figure::Quantile(quantile) => {
                latency.map(|latency| latency.value_at_quantile(quantile) as f64)
            }
            Figure::Max => latency.map(|latency| latency.max() as f64),
            Figure::Mean => latency.map(|latency| latency.mean()),
            Figure::Rate => {
                let took = run.took.as_secs_f64();
                Some(if took > 0.0 { run.answers as f64 / took } else { 0.0 })
            }
            Figure::Answers => Some(run.answers as f64),
            Figure::Errors => Some(run.errors.values().sum::<u64>() as f64),
            Figure::Wrong => Some(run.wrong as f64),
            Figure::Hits => {
                let known = run.hits + run.misses;
                (known > 0).then(|| 100.0 * run.hits as f64 / known as f64)
            }
            Figure::Cpu => each(run.servers.iter().map(|cpu| cpu.time.as_nanos()).sum()),
            Figure::OwnCpu => each(run.own_cpu.as_nanos()),
        }
    }
}

impl Limit {
    /// Whether the limit needs the server's processor time.
    pub(super) fn needs_server(&self) -> bool {
        self.figure == Figure::Cpu
    }

    /// The measured value if the limit is missed. A figure that was not measured counts as missed.
    pub(super) fn missed(&self, run: &Run) -> Option<String> {
        let Some(found) = self.figure.of(run) else {
            return Some("nothing was measured".to_owned());
        };
        let holds = match self.order {
            Order::Below => found < self.bound,
            Order::AtMost => found <= self.bound,
            Order::Above => found > self.bound,
            Order::AtLeast => found >= self.bound,
            Order::Equal => found == self.bound,
        };
        (!holds).then(|| self.shown(found))
    }

    fn shown(&self, found: f64) -> String {
        match self.figure {
            figure if figure.is_time() => match found {
                _ if found >= 1e9 => format!("{:.3} s", found / 1e9),
                _ if found >= 1e6 => format!("{:.3} ms", found / 1e6),
                _ => format!("{:.1} us", found / 1e3),
            },
            Figure::Hits => format!("{found:.2} %"),
            Figure::Rate => format!("{found:.0} per second"),
            _ => format!("{found}"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use hdrhistogram::Histogram;

    use super::*;
    use crate::report::Cpu;

    /// 1000 answers of 1 to 1000 us in two seconds, 900 of them hits; 3 errors; 10 ms of server
    /// time.
    fn run() -> Run {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("bounds");
        for micros in 1..=1000 {
            latency.record(micros * 1000).expect("within bounds");
        }
        Run {
            name: String::new(),
            how: Vec::new(),
            took: Duration::from_secs(2),
            requests: 1003,
            answers: 1000,
            hits: 900,
            misses: 100,
            received: 0,
            sent: 0,
            errors: BTreeMap::from([("timeout".to_owned(), 3)]),
            wrong: 0,
            latency,
            service: None,
            seconds: Vec::new(),
            servers: vec![Cpu { pid: 1, time: Duration::from_micros(10_030) }],
            own_cpu: Duration::from_micros(5015),
            busiest: 0.1,
        }
    }

    #[test]
    fn limits_hold_or_do_not() {
        for (text, holds) in [
            ("p50<=502us", true),
            ("p50 < 0.4ms", false),
            ("p99<1ms", true),
            ("p99.9>0.9ms", true),
            ("max<=1.01ms", true),
            ("max<1us", false),
            ("mean<501us", true),
            ("rate>499", true),
            ("rate>=0.5k", true),
            ("rate>501/s", false),
            ("answers=1000", true),
            ("errors=0", false),
            ("errors<=3", true),
            ("wrong==0", true),
            ("hits>=90%", true),
            ("hits>90%", false),
            ("cpu<=10us", true),
            ("cpu<9.9us", false),
            ("own-cpu<=5us", true),
        ] {
            let limit: Limit = text.parse().expect(text);
            assert_eq!(limit.missed(&run()).is_none(), holds, "{text}: {:?}", limit.missed(&run()));
        }
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let nothing = Run {
            requests: 0,
            answers: 0,
            hits: 0,
            misses: 0,
            latency: crate::engine::histogram(),
            ..run()
        };
        for text in ["p99<5ms", "hits>=0%", "cpu<1s"] {
            assert!(text.parse::<Limit>().expect(text).missed(&nothing).is_some(), "{text}");
        }
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for text in [
            "",
            "p99",
            "p99<",
            "p99<5",
            "p101<5ms",
            "speed>3",
            "errors<5ms",
            "rate<5ms",
            "hits>3",
            "p99~5ms",
            "<5ms",
        ] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
