//! The last hour, one sample a second, in columns: what a page that has just been opened draws before the first live figure.
//!
//! 18 columns of 4 bytes and two of 8, 3,600 rows: 317 KB, taken once.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

use super::{Merged, Snapshot};

/// Samples kept: an hour.
const ROWS: usize = 3600;
/// Milliseconds from one sample to the next.
const STEP: u64 = 1000;

/// Declares the columns: of `u32` (what is larger counts as the largest), then of `u64`.
macro_rules! columns {
    (small { $($(#[$doc:meta])* $name:ident,)* } large { $($(#[$large_doc:meta])* $large:ident,)* }) => {
        #[derive(Clone, Copy, Debug, Default)]
        struct Row { $($name: u32,)* $($large: u64,)* }

        #[derive(Debug, Default)]
        struct Table { $($name: VecDeque<u32>,)* $($large: VecDeque<u64>,)* }

        impl Table {
            fn new() -> Self {
                Self { $($name: VecDeque::with_capacity(ROWS),)* $($large: VecDeque::with_capacity(ROWS),)* }
            }

            fn push(&mut self, row: &Row) {
                $(push(&mut self.$name, row.$name);)*
                $(push(&mut self.$large, row.$large);)*
            }

            fn from(&self, skip: usize) -> ColumnValues {
                ColumnValues {
                    $($name: self.$name.iter().skip(skip).copied().collect(),)*
                    $($large: self.$large.iter().skip(skip).copied().collect(),)*
                }
            }

            #[cfg(test)]
            fn bytes(&self) -> usize {
                0 $(+ self.$name.capacity() * size_of::<u32>())* $(+ self.$large.capacity() * size_of::<u64>())*
            }
        }

        /// One value a second in each, oldest first.
        #[derive(Clone, Debug, Default, Serialize)]
        pub struct ColumnValues {
            $($(#[$doc])* pub $name: Vec<u32>,)*
            $($(#[$large_doc])* pub $large: Vec<u64>,)*
        }
    };
}

columns! {
    small {
        /// HTTP requests in that second.
        requests,
        /// Of these, answered from memory, fresh.
        hits,
        /// Fetched from the origin because nothing usable was stored.
        misses,
        /// Answered from memory, stale.
        stale,
        /// Sent past the cache.
        passes,
        /// Told that the origin failed.
        errors,
        /// Requests to origins.
        origin_requests,
        /// Of these, failed.
        origin_failures,
        /// Median time of answers from memory in that second, in microseconds; 0 without any.
        hit_p50_us,
        /// 99 of 100 took at most this.
        hit_p99_us,
        /// The same of answers that were waited for.
        miss_p50_us,
        /// The same of answers that were waited for.
        miss_p99_us,
        /// Entries that went because memory was needed, of all faces.
        evictions,
        /// Clients connected at that moment, of all faces.
        connections,
        /// Keys asked for, of the object faces.
        object_gets,
        /// And found.
        object_hits,
        /// Values sent to be stored.
        object_sets,
        /// How late workers got to a timer; 99 of 100 were at most this.
        loop_delay_p99_us,
    }
    large {
        /// Bytes sent to clients, of all faces.
        bytes_out,
        /// Bytes of the store in use at that moment.
        memory_used,
    }
}

fn push<T>(column: &mut VecDeque<T>, value: T) {
    if column.len() >= ROWS {
        column.pop_front();
    }
    column.push_back(value);
}

/// A stretch of the history.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Columns {
    /// Milliseconds from one value to the next.
    pub step_ms: u64,
    /// When the second of the first value began, in milliseconds since the UNIX epoch.
    pub from_ms: u64,
    /// The values.
    pub columns: ColumnValues,
}

/// Sums of what is counted, to be subtracted from each other.
#[derive(Clone, Debug, Default)]
struct Sums {
    requests: u64,
    hits: u64,
    misses: u64,
    stale: u64,
    passes: u64,
    errors: u64,
    origin_requests: u64,
    origin_failures: u64,
    evictions: u64,
    object_gets: u64,
    object_hits: u64,
    object_sets: u64,
    bytes_out: u64,
    hit: Merged,
    miss: Merged,
    loop_delay: Merged,
}

impl Sums {
    fn of(snapshot: &Snapshot) -> Self {
        let objects = || [&snapshot.memcached, &snapshot.redis].into_iter().flatten();
        let mut sums = Sums {
            evictions: snapshot.memory.namespaces.iter().map(|ns| ns.evictions).sum(),
            object_gets: objects().map(|face| face.gets).sum(),
            object_hits: objects().map(|face| face.get_hits).sum(),
            object_sets: objects().map(|face| face.sets).sum(),
            bytes_out: objects().map(|face| face.bytes_out).sum(),
            loop_delay: snapshot.loop_delay.0.clone(),
            ..Sums::default()
        };
        let Some(http) = &snapshot.http else { return sums };
        sums.requests = http.requests;
        sums.hits = http.results.hit;
        sums.misses = http.results.miss + http.results.hit_for_miss;
        sums.stale = http.results.stale;
        sums.passes = http.results.pass;
        sums.errors = http.results.error;
        sums.origin_requests = http.origins.iter().map(|origin| origin.requests).sum();
        sums.origin_failures = http.origins.iter().flat_map(|origin| origin.failures.values()).sum();
        sums.bytes_out += http.bytes_out;
        sums.hit = http.latency.hit.0.clone();
        sums.miss = http.latency.miss.0.clone();
        sums
    }
}

#[derive(Debug)]
struct Inner {
    /// Of the last sample: the second it is of, and what was counted by then.
    last: Option<(u64, Sums)>,
    table: Table,
}

/// An hour of samples.
#[derive(Debug)]
pub struct History(Mutex<Inner>);

impl Default for History {
    fn default() -> Self {
        Self(Mutex::new(Inner { last: None, table: Table::new() }))
    }
}

/// What a second that was missed gets of a count: `parts` were missed together, this is number `part` of them.
fn share(total: u64, part: u64, parts: u64) -> u64 {
    total * (part + 1) / parts - total * part / parts
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl History {
    /// Adds a sample; call it once a second. A second call within a second does nothing; seconds that were missed (a busy
    /// machine, a process that was stopped) get equal parts of what was counted meanwhile. The first call gives the start.
    pub fn push(&self, snapshot: &Snapshot) {
        let (second, sums) = (snapshot.now_ms / STEP, Sums::of(snapshot));
        let mut inner = self.0.lock();
        let Some((last, before)) = inner.last.take() else {
            inner.last = Some((second, sums));
            return;
        };
        let parts = second.saturating_sub(last);
        if parts == 0 {
            inner.last = Some((last, before));
            return;
        }
        let quantile =
            |now: &Merged, then: &Merged, per_mille| small(now.clone().since(then).quantile(per_mille));
        let mut row = Row {
            hit_p50_us: quantile(&sums.hit, &before.hit, 500),
            hit_p99_us: quantile(&sums.hit, &before.hit, 990),
            miss_p50_us: quantile(&sums.miss, &before.miss, 500),
            miss_p99_us: quantile(&sums.miss, &before.miss, 990),
            loop_delay_p99_us: quantile(&sums.loop_delay, &before.loop_delay, 990),
            connections: small(open(snapshot)),
            memory_used: snapshot.memory.used,
            ..Row::default()
        };
        for part in parts.saturating_sub(ROWS as u64)..parts {
            let of = |now: u64, then: u64| share(now.saturating_sub(then), part, parts);
            row.requests = small(of(sums.requests, before.requests));
            row.hits = small(of(sums.hits, before.hits));
            row.misses = small(of(sums.misses, before.misses));
            row.stale = small(of(sums.stale, before.stale));
            row.passes = small(of(sums.passes, before.passes));
            row.errors = small(of(sums.errors, before.errors));
            row.origin_requests = small(of(sums.origin_requests, before.origin_requests));
            row.origin_failures = small(of(sums.origin_failures, before.origin_failures));
            row.evictions = small(of(sums.evictions, before.evictions));
            row.object_gets = small(of(sums.object_gets, before.object_gets));
            row.object_hits = small(of(sums.object_hits, before.object_hits));
            row.object_sets = small(of(sums.object_sets, before.object_sets));
            row.bytes_out = of(sums.bytes_out, before.bytes_out);
            inner.table.push(&row);
        }
        inner.last = Some((second, sums));
    }

    /// The samples of the seconds that began at `ms` or later, and not more than there are.
    pub fn since(&self, ms: u64) -> Columns {
        let inner = self.0.lock();
        let Some((last, _)) = &inner.last else {
            return Columns { step_ms: STEP, ..Columns::default() };
        };
        let held = inner.table.requests.len() as u64;
        let first = last.saturating_sub(held);
        let skip = ms.div_ceil(STEP).saturating_sub(first).min(held);
        Columns { step_ms: STEP, from_ms: (first + skip) * STEP, columns: inner.table.from(skip as usize) }
    }
}

/// Clients connected now.
fn open(snapshot: &Snapshot) -> u64 {
    let http = snapshot.http.as_ref().map_or(0, |http| http.connections.open);
    let objects = [&snapshot.memcached, &snapshot.redis];
    http + objects.into_iter().flatten().map(|face| face.connections.open).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Http, snapshot::empty};

    fn at(second: u64, requests: u64) -> Snapshot {
        let http = Http { requests, ..Http::default() };
        Snapshot { now_ms: second * STEP + 17, http: Some(http), ..empty() }
    }

    #[test]
    fn one_row_a_second_of_what_came_in_it() {
        let history = History::default();
        assert!(history.since(0).columns.requests.is_empty());
        for (second, requests) in [(100, 7), (101, 9), (101, 12), (102, 30)] {
            history.push(&at(second, requests));
        }
        let all = history.since(0);
        assert_eq!((all.from_ms, all.columns.requests), (100_000, vec![2, 21]));
        let last = history.since(100_001);
        assert_eq!((last.from_ms, last.columns.requests), (101_000, vec![21]));
        assert!(history.since(u64::MAX).columns.requests.is_empty());
    }

    #[test]
    fn missed_seconds_share_what_was_counted() {
        let history = History::default();
        history.push(&at(10, 0));
        history.push(&at(14, 10));
        assert_eq!(history.since(0).columns.requests, [2, 3, 2, 3]);
    }

    #[test]
    fn an_hour_is_kept_in_less_than_400_kilobytes() {
        let history = History::default();
        for second in 0..5000 {
            history.push(&at(second, second * 2));
        }
        history.push(&at(50_000, 10_000));
        let columns = history.since(0);
        assert_eq!((columns.columns.requests.len(), columns.from_ms), (ROWS, (50_000 - 3600) * STEP));
        let bytes = history.0.lock().table.bytes();
        assert!(bytes <= 400 * 1000, "{bytes}");
    }
}
