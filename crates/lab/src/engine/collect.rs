//! Combines the threads' reports into the result of a run.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Plan,
    tally::Tally,
    worker::{FinalReport, Report},
};
use crate::report::{Cpu, Run, Second};

/// Collector of the threads' reports.
pub(super) struct Collector {
    total: Tally,
    seconds: Vec<Second>,
    pending: BTreeMap<u64, Tally>,
    /// For each thread, the first second it may still report.
    reached: Vec<u64>,
    ends: Vec<FinalReport>,
    open: bool,
}

impl Collector {
    pub(super) fn new(threads: usize, open: bool) -> Collector {
        Collector {
            total: Tally::new(open),
            seconds: Vec::new(),
            pending: BTreeMap::new(),
            reached: vec![0; threads],
            ends: Vec::new(),
            open,
        }
    }

    /// Adds a report, and announces the seconds that are complete with it.
    pub(super) fn take(&mut self, report: Report, on_second: &mut dyn FnMut(u64, &Second)) {
        let Report { thread, second, tally, end } = report;
        self.total.add(&tally);
        self.pending.entry(second).or_insert_with(|| Tally::new(self.open)).add(&tally);
        self.reached[thread] = if end.is_some() { u64::MAX } else { second + 1 };
        self.ends.extend(end);
        let complete = self.reached.iter().copied().min().unwrap_or(0);
        let last = self.pending.keys().next_back().map_or(0, |last| last + 1);
        while (self.seconds.len() as u64) < complete.min(last) {
            let number = self.seconds.len() as u64;
            let second =
                self.pending.remove(&number).map(|tally| shown(&tally)).unwrap_or_default();
            on_second(number, &second);
            self.seconds.push(second);
        }
    }

    /// Called when all threads have ended.
    pub(super) fn finish(self, plan: &Plan, servers: Vec<Cpu>) -> Run {
        let last = self.ends.iter().map(|end| end.last_answer).max().unwrap_or(0);
        let counted = self.ends.iter().map(|end| end.counted).max().unwrap_or_default();
        // A server that falls silent is measured over the rest of the time, too.
        let asked_for = counted.min(plan.until.time.unwrap_or(Duration::MAX));
        let took = Duration::from_nanos(last).saturating_sub(plan.warm_up).max(asked_for);
        let busy = |end: &FinalReport| end.cpu.as_secs_f64() / end.counted.as_secs_f64().max(1e-9);
        let total = self.total;
        Run {
            name: String::new(),
            how: how(plan),
            took,
            requests: total.requests,
            answers: total.answers,
            hits: total.hits,
            misses: total.misses,
            received: total.received,
            sent: total.sent,
            errors: total.errors.iter().map(|(fault, count)| (fault.to_string(), *count)).collect(),
            wrong: total.wrong,
            latency: total.latency,
            service: total.service,
            seconds: self.seconds,
            servers,
            own_cpu: self.ends.iter().map(|end| end.cpu).sum(),
            busiest: self.ends.iter().map(busy).fold(0.0, f64::max),
        }
    }
}

fn shown(tally: &Tally) -> Second {
    Second {
        answers: tally.answers,
        errors: tally.failed(),
        received: tally.received,
        p50: tally.latency.value_at_quantile(0.5),
        p99: tally.latency.value_at_quantile(0.99),
        max: tally.latency.max(),
    }
}

fn how(plan: &Plan) -> Vec<(String, String)> {
    let mut how = vec![
        ("address".to_owned(), plan.address.to_string()),
        ("protocol".to_owned(), plan.spoken()),
        ("connections".to_owned(), plan.connections.to_string()),
        ("depth".to_owned(), plan.depth.to_string()),
        ("threads".to_owned(), plan.threads.to_string()),
        ("pace".to_owned(), plan.pace.to_string()),
    ];
    let show = larder_proto::units::show_duration;
    for (name, time) in [("warm-up", plan.warm_up), ("ramp-up", plan.ramp_up)] {
        if !time.is_zero() {
            how.push((name.to_owned(), show(time)));
        }
    }
    if let Some(each) = plan.per_connection {
        how.push(("requests of each connection".to_owned(), each.to_string()));
    }
    if plan.reconnect {
        how.push(("a new connection".to_owned(), "for each request".to_owned()));
    }
    how.push(("timeout".to_owned(), show(plan.timeout)));
    how
}
