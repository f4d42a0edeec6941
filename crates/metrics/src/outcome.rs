//! The table of outcomes: what an HTTP request is counted as. The log, the API, the metrics, their
//! documentation and the dashboard have their words from it.

use std::ops::Index;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::MapAccess, de::Visitor};

use crate::Counter;

macro_rules! outcomes {
    ($($(#[doc = $about:literal])* $name:ident = $word:literal, $timed:literal;)*) => {
        /// The outcome of an HTTP request: each request has one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(ts_rs::TS))]
        #[repr(u8)]
        pub enum Outcome {
            $($(#[doc = $about])* #[serde(rename = $word)] $name,)*
        }

        impl Outcome {
            /// All outcomes, in the order of their numbers.
            pub const ALL: [Outcome; [$($word),*].len()] = [$(Outcome::$name,)*];

            /// The word in logs, JSON and metrics.
            pub fn as_str(self) -> &'static str {
                match self { $(Outcome::$name => $word,)* }
            }

            /// The meaning, in a few words.
            pub fn about(self) -> &'static str {
                match self { $(Outcome::$name => concat!($($about),*).trim_ascii_start(),)* }
            }

            /// Whether the time of such an answer is recorded.
            #[inline]
            pub fn timed(self) -> bool {
                const TIMED: [bool; Outcome::ALL.len()] = [$($timed,)*];
                TIMED[self as usize]
            }
        }
    };
}

outcomes! {
    /// answered from memory, fresh
    Hit = "hit", true;
    /// answered from memory, stale, as the rules or the origin's failure allow
    Stale = "stale", true;
    /// answered from memory after the origin confirmed the page
    Refresh = "refresh", true;
    /// followed another request's fetch
    Coalesced = "coalesced", true;
    /// fetched: nothing usable was stored
    Miss = "miss", true;
    /// fetched past the cache, by rule or method
    Pass = "pass", true;
    /// fetched without waiting for others, because the page is known not to be storable
    HitForMiss = "hit_for_miss", true;
    /// answered with the origin's failure
    Error = "error", true;
    /// a purge
    Purge = "purge", false;
    /// a purge that was not permitted
    Denied = "denied", false;
    /// refused by Larder itself: no such site, malformed, too large, a loop
    Refused = "refused", false;
    /// became a tunnel (Upgrade)
    Tunnel = "tunnel", false;
    /// the client left before the answer began
    Aborted = "aborted", false;
}

/// One worker's counter of every outcome.
#[derive(Debug, Default)]
pub struct PerOutcome([Counter; Outcome::ALL.len()]);

impl PerOutcome {
    /// Counts one. Only the owning worker may call it.
    #[inline]
    pub fn one(&self, outcome: Outcome) {
        self.0[outcome as usize].one();
    }
}

/// Requests by outcome. In JSON: a map with every outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Results(
    #[cfg_attr(test, ts(type = "{ [key in Outcome]: number }"))] [u64; Outcome::ALL.len()],
);

impl Index<Outcome> for Results {
    type Output = u64;

    fn index(&self, outcome: Outcome) -> &u64 {
        &self.0[outcome as usize]
    }
}

impl FromIterator<(Outcome, u64)> for Results {
    fn from_iter<I: IntoIterator<Item = (Outcome, u64)>>(counts: I) -> Self {
        let mut results = Self::default();
        counts.into_iter().for_each(|(outcome, count)| results.0[outcome as usize] = count);
        results
    }
}

impl Results {
    /// Every outcome with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.into_iter().zip(self.0)
    }

    /// The sum over all outcomes.
    pub fn total(&self) -> u64 {
        self.sum(Outcome::ALL)
    }

    /// The sum over some outcomes.
    pub fn sum<const N: usize>(&self, outcomes: [Outcome; N]) -> u64 {
        outcomes.into_iter().fold(0, |sum, outcome| sum.saturating_add(self[outcome]))
    }

    /// Adds what one worker counted.
    pub fn add(&mut self, worker: &PerOutcome) {
        self.0.iter_mut().zip(&worker.0).for_each(|(sum, one)| *sum += one.get());
    }

    /// Adds other results.
    pub fn merge(&mut self, other: &Results) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, one)| *sum = sum.saturating_add(one));
    }

    /// The increase since older results.
    pub fn since(&self, older: &Results) -> Results {
        self.iter().map(|(outcome, n)| (outcome, n.saturating_sub(older[outcome]))).collect()
    }
}

impl Serialize for Results {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Results {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ByWord;
        impl<'de> Visitor<'de> for ByWord {
            type Value = Results;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("counts by outcome")
            }

            /// Outcomes of other versions are ignored.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Results, A::Error> {
                let mut results = Results::default();
                while let Some((word, count)) =
                    map.next_entry::<std::borrow::Cow<'_, str>, u64>()?
                {
                    let known = Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == word);
                    known.into_iter().for_each(|outcome| results.0[outcome as usize] = count);
                }
                Ok(results)
            }
        }
        from.deserialize_map(ByWord)
    }
}
