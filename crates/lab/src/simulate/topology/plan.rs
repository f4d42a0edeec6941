//! Parameters of a simulation: Larders, servers, events.

use larder_client::{Placement, Ring, Server};

use crate::simulate::policy::Kind;

/// Most Larders: each takes 24 bytes for every object of the trace.
pub(crate) const MAX_LARDERS: usize = 256;

/// Distribution of clients over Larders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// In turn.
    RoundRobin,
    /// By key: each page is requested from one Larder only.
    Hash,
    /// At random.
    Random,
}

/// A topology. Times are in milliseconds, sizes in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) larders: usize,
    pub(crate) spread: Spread,
    /// Memory of each Larder.
    pub(crate) memory: u64,
    pub(crate) policy: Kind,
    /// Time the origin takes for a page, for which other requests wait.
    pub(crate) render: u64,
    /// `None`: Larders do not share pages.
    pub(crate) fleet: Option<Fleet>,
    pub(crate) events: Vec<Event>,
    /// Length of a window of the counters.
    pub(crate) interval: u64,
    pub(crate) seed: u64,
}

/// A fleet of servers shared by Larders.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) servers: Vec<Server>,
    pub(crate) placement: Placement,
    /// Memory of each server.
    pub(crate) memory: u64,
    pub(crate) policy: Kind,
    /// Larger pages are not shared.
    pub(crate) item_size: u32,
    pub(crate) local_copy: u64,
    /// Whether one Larder renders while the others wait.
    pub(crate) lease: bool,
    /// Whether the keys of a down server go to the other servers.
    pub(crate) eject: bool,
    /// Consecutive failures after which a server is down.
    pub(crate) failure_limit: u32,
    pub(crate) retry_min: u64,
    pub(crate) retry_max: u64,
}

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event {
    /// Time in milliseconds of the trace.
    pub(crate) at: u64,
    pub(crate) what: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EventKind {
    /// A server becomes unreachable.
    Down(usize),
    /// A server comes back, empty or with its contents.
    Up { server: usize, empty: bool },
    /// A Larder restarts with an empty cache.
    Restart(usize),
    /// A share of all pages is purged everywhere.
    Purge(f64),
}

impl Topology {
    /// Checks that the topology can be simulated.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=MAX_LARDERS).contains(&self.larders) {
            return Err(format!("larders: 1 to {MAX_LARDERS}, found {}", self.larders));
        }
        if self.interval == 0 {
            return Err("interval: more than 0 is expected".to_owned());
        }
        let servers = self.fleet.as_ref().map_or(0, |fleet| fleet.servers.len());
        if let Some(fleet) = &self.fleet {
            Ring::new(&fleet.placement, &fleet.servers)
                .map_err(|error| format!("servers: {error}"))?;
        }
        for event in &self.events {
            match event.what {
                EventKind::Down(server) | EventKind::Up { server, .. } if server >= servers => {
                    return Err(format!(
                        "an event is of server {server}, and there are {servers} (the first is 0)"
                    ));
                }
                EventKind::Restart(larder) if larder >= self.larders => {
                    return Err(format!(
                        "an event is of Larder {larder}, and there are {} (the first is 0)",
                        self.larders
                    ));
                }
                EventKind::Purge(share) if !(0.0..=1.0).contains(&share) => {
                    return Err(format!(
                        "purge = {share}: a share of all pages, 0 to 1, is expected"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn describe(&self, what: EventKind) -> String {
        match what {
            EventKind::Down(server) => format!("server {server} away"),
            EventKind::Up { server, empty: true } => format!("server {server} back, empty"),
            EventKind::Up { server, empty: false } => format!("server {server} back"),
            EventKind::Restart(larder) => format!("Larder {larder} restarted"),
            EventKind::Purge(share) => format!("{:.0} % of pages purged", share * 100.0),
        }
    }
}
