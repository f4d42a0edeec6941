//! The figures of one moment. As JSON they are the answer of `GET /api/v1/stats`, version 1.
//!
//! Numbers are counted since the start unless their description says otherwise; `_us` are
//! microseconds, `_ms` milliseconds (since the UNIX epoch for moments), memory and traffic are in
//! bytes. A face that is not served is `null`. Readers count missing figures as 0 and ignore
//! unknown ones, so that they can watch other versions.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{
    Advice, App, Certificate, Compression, Conditions, Disk, Family, Histogram, Http, LogFigures,
    Memory, Objects, Queues, Remote, Spans,
};

/// The version of the form below; a field that is added does not change it.
pub const VERSION: u32 = 1;

/// The figures of one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Snapshot {
    /// The version of this form.
    pub version: u32,
    /// The version of the program.
    pub larder: String,
    /// The name of this instance.
    pub name: String,
    /// The number of the process.
    pub pid: u32,
    /// Its start.
    pub started_ms: u64,
    /// The moment of these figures.
    pub now_ms: u64,
    /// Seconds between the two.
    pub uptime_s: u64,
    /// Worker threads.
    pub threads: usize,
    /// The store.
    pub memory: Memory,
    /// The HTTP face.
    pub http: Option<Http>,
    /// Compressed forms of pages; null: no site has them.
    pub compression: Option<Compression>,
    /// Causes of misses and their settings, of the last minutes.
    pub advice: Vec<Advice>,
    /// The certificates of HTTPS.
    pub certificates: Vec<Certificate>,
    /// The applications that Larder runs.
    pub apps: Vec<App>,
    /// The memcached face.
    pub memcached: Option<Objects>,
    /// The Redis face.
    pub redis: Option<Objects>,
    /// The queue face.
    pub queues: Option<Queues>,
    /// The disk tier.
    pub disk: Option<Disk>,
    /// The remote tier.
    pub remote: Option<Remote>,
    /// The family of caches; null: there is none.
    pub family: Option<Family>,
    /// How late workers handle a timer: the waiting time of all ready work.
    pub loop_delay: Histogram,
    /// States of the whole process.
    pub conditions: Conditions,
    /// The access log.
    pub log: LogFigures,
    /// Spans for the collector of traces; null: requests are not traced.
    pub tracing: Option<Spans>,
}

/// Counts by a word: reasons, commands, events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(transparent)]
pub struct Counts(BTreeMap<Cow<'static, str>, u64>);

impl Counts {
    /// Adds to the count of a word.
    pub fn add(&mut self, word: impl Into<Cow<'static, str>>, count: u64) {
        let sum = self.0.entry(word.into()).or_default();
        *sum = sum.saturating_add(count);
    }

    /// The count of a word; 0 if there is none.
    pub fn get(&self, word: &str) -> u64 {
        self.0.get(word).copied().unwrap_or(0)
    }

    /// Every word with its count, in the order of the words.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(word, count)| (&**word, *count))
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl<W: Into<Cow<'static, str>>> FromIterator<(W, u64)> for Counts {
    fn from_iter<I: IntoIterator<Item = (W, u64)>>(counts: I) -> Self {
        let mut sums = Self::default();
        counts.into_iter().for_each(|(word, count)| sums.add(word, count));
        sums
    }
}

/// Rows of the snapshot that share metrics: each metric has a sample of every row.
pub(crate) trait Row {
    /// The labels that identify a row.
    const LABELS: &'static [&'static str];

    /// Calls `f` with every row and the values of its labels.
    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self));
}

/// Declares a table of figures: one line is the field of the JSON, its description, its metric for
/// Prometheus and that metric's documentation, and the counter of a worker.
///
/// - `counts` are counted by workers, in the struct of [`Counter`](crate::Counter)s named after
///   `from`; `figures` are set by the code that makes the snapshot. Both are `u64`.
/// - A figure with a name and an "if this rises" is a metric; its description is the metric's help.
/// - `nested` are tables of their own with counters of their own; `with` are other fields.
macro_rules! figures {
    (
        $(#[$about:meta])* pub struct $name:ident $(from $cells:ident)? {
            $(counts { $($(#[doc = $count_help:literal])+ $count:ident
                $(: $count_metric:literal, $count_rises:literal)?;)* })?
            $(figures { $($(#[doc = $help:literal])+ $figure:ident
                $(: $kind:ident $metric:literal, $rises:literal)?;)* })?
            $(nested {
                $($(#[$nested_doc:meta])*
                $nested:ident: $nested_type:ident from $nested_cells:ident;)*
            })?
            $(with { $($(#[$more_doc:meta])* $more:ident: $more_type:ty;)* })?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(ts_rs::TS))]
        #[serde(default)]
        pub struct $name {
            $($($(#[$more_doc])* pub $more: $more_type,)*)?
            $($($(#[doc = $count_help])+ pub $count: u64,)*)?
            $($($(#[doc = $help])+ pub $figure: u64,)*)?
            $($($(#[$nested_doc])* pub $nested: $nested_type,)*)?
        }

        $crate::snapshot::cells! {
            $($cells)? of $name {
                $($($(#[doc = $count_help])+ $count,)*)?
            } {
                $($($(#[$nested_doc])* $nested: $nested_cells,)*)?
            }
        }

        impl $name {
            /// The metrics of the figures, in the order of the table; None: it has none.
            #[allow(dead_code, reason = "a nested table has no metrics")]
            pub(crate) const METRICS: &'static [Option<$crate::table::Metric>] = &[
                $($($crate::snapshot::metric!(
                    $name, $count, [$(Counter $count_metric, $count_rises)?], $($count_help),+
                ),)*)?
                $($($crate::snapshot::metric!(
                    $name, $figure, [$($kind $metric, $rises)?], $($help),+
                ),)*)?
            ];
        }
    };
}
pub(crate) use figures;

/// The counters of one worker behind a table, if the table has counts.
macro_rules! cells {
    (of $name:ident {} {}) => {};
    (
        $cells:ident of $name:ident { $($(#[$doc:meta])+ $count:ident,)* }
        { $($(#[$nested_doc:meta])* $nested:ident: $nested_cells:ident,)* }
    ) => {
        /// The counters of one worker, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct $cells {
            $($(#[$doc])+ pub $count: $crate::Counter,)*
            $($(#[$nested_doc])* pub $nested: $nested_cells,)*
        }

        impl $cells {
            /// Adds the counts of the worker to the figures of all.
            pub fn add_to(&self, figures: &mut $name) {
                $(figures.$count = figures.$count.wrapping_add(self.$count.get());)*
                $(self.$nested.add_to(&mut figures.$nested);)*
            }
        }
    };
}
pub(crate) use cells;

/// A metric of one figure of each row.
macro_rules! metric {
    ($row:ident, $field:ident, [], $($help:literal),+) => { None };
    ($row:ident, $field:ident, [$kind:ident $name:literal, $rises:literal], $($help:literal),+) => {
        Some($crate::table::Metric {
            name: $name,
            kind: $crate::table::Kind::$kind,
            labels: <$row as $crate::snapshot::Row>::LABELS,
            help: concat!($($help),+),
            rises: $rises,
            read: |snapshot, to| {
                let mut count = |labels: &[&str], row: &$row| to.count(labels, row.$field);
                <$row as $crate::snapshot::Row>::each(snapshot, &mut count);
            },
        })
    };
}
pub(crate) use metric;
