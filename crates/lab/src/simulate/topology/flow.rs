//! Counters over time.

use std::ops::AddAssign;

/// Counters of one interval; scaled up if the trace is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Window {
    /// Requests of clients.
    pub(crate) requests: f64,
    /// Answered from a Larder's own memory.
    pub(crate) local: f64,
    /// Of these, answered by an expired copy because the fleet did not answer.
    pub(crate) prolonged: f64,
    /// Answered from the fleet.
    pub(crate) remote: f64,
    /// Waited for another request's answer from the origin.
    pub(crate) waited: f64,
    /// Requests to the origin.
    pub(crate) origin: f64,
    /// Requests the fleet did not answer.
    pub(crate) failed: f64,
    /// Bytes sent to clients.
    pub(crate) to_clients: f64,
    /// Bytes from the fleet to Larders, and in the other direction.
    pub(crate) from_fleet: f64,
    pub(crate) to_fleet: f64,
    /// Bytes from the origin.
    pub(crate) from_origin: f64,
}

impl AddAssign for Window {
    fn add_assign(&mut self, other: Window) {
        self.requests += other.requests;
        self.local += other.local;
        self.prolonged += other.prolonged;
        self.remote += other.remote;
        self.waited += other.waited;
        self.origin += other.origin;
        self.failed += other.failed;
        self.to_clients += other.to_clients;
        self.from_fleet += other.from_fleet;
        self.to_fleet += other.to_fleet;
        self.from_origin += other.from_origin;
    }
}

impl Window {
    /// Multiplies all counters.
    pub(super) fn scale(&mut self, times: f64) {
        let all = [
            &mut self.requests,
            &mut self.local,
            &mut self.prolonged,
            &mut self.remote,
            &mut self.waited,
            &mut self.origin,
            &mut self.failed,
            &mut self.to_clients,
            &mut self.from_fleet,
            &mut self.to_fleet,
            &mut self.from_origin,
        ];
        all.into_iter().for_each(|figure| *figure *= times);
    }
}

/// Load of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) gets: f64,
    pub(crate) hits: f64,
    pub(crate) sets: f64,
    pub(crate) bytes: f64,
    pub(crate) items: f64,
}

/// Counters of a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Flow {
    /// Length of a window in milliseconds.
    pub(crate) interval: u64,
    pub(crate) windows: Vec<Window>,
    pub(crate) total: Window,
    pub(crate) servers: Vec<Load>,
    /// For each event, the origin's requests per second before it (at most ten windows), and the
    /// maximum in a window between it and the next event.
    pub(crate) peaks: Vec<Peak>,
}

/// Effect of an event on the origin, in requests per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Peak {
    pub(crate) at: u64,
    pub(crate) what: String,
    pub(crate) before: f64,
    pub(crate) after: f64,
}

/// Windows before an event that are averaged.
const BEFORE: usize = 10;

impl Flow {
    /// The window of a time.
    pub(super) fn at(&mut self, now: u64) -> &mut Window {
        let at = (now / self.interval) as usize;
        if at >= self.windows.len() {
            self.windows.resize(at + 1, Window::default());
        }
        &mut self.windows[at]
    }

    /// The origin's requests per second in a window.
    pub(crate) fn rate(&self, window: &Window) -> f64 {
        window.origin * 1000.0 / self.interval as f64
    }

    /// Computes the effect of events, after all requests are counted.
    pub(super) fn find_peaks(&mut self, events: &[(u64, String)]) {
        for (number, (at, what)) in events.iter().enumerate() {
            let first = ((at / self.interval) as usize).min(self.windows.len());
            let next = events[number + 1..].iter().map(|(next, _)| *next).find(|next| next > at);
            let end = next.map_or(self.windows.len(), |next| (next / self.interval) as usize);
            let end = end.clamp(first, self.windows.len()).max((first + 1).min(self.windows.len()));
            let before = &self.windows[first.saturating_sub(BEFORE)..first];
            let mean =
                before.iter().map(|w| self.rate(w)).sum::<f64>() / before.len().max(1) as f64;
            let after = self.windows[first..end].iter().map(|w| self.rate(w)).fold(0.0, f64::max);
            self.peaks.push(Peak { at: *at, what: what.clone(), before: mean, after });
        }
    }
}
