//! What is simulated: Larders, servers, what befalls them.

use larder_client::{Placement, Ring, Server};

use crate::simulate::policy::Kind;

/// Most Larders: each has 24 bytes for every object of the trace.
pub(crate) const MAX_LARDERS: usize = 256;

/// How clients are spread over Larders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// One after the other.
    RoundRobin,
    /// By key: each page is asked of one Larder only.
    Hash,
    /// As the dice fall.
    Random,
}

/// A whole arrangement. Times are milliseconds, sizes bytes.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) larders: usize,
    pub(crate) spread: Spread,
    /// Of each Larder.
    pub(crate) memory: u64,
    pub(crate) policy: Kind,
    /// The origin's time for a page: for so long others wait for it.
    pub(crate) render: u64,
    /// None: each Larder is alone before the origin.
    pub(crate) fleet: Option<Fleet>,
    pub(crate) events: Vec<Event>,
    /// What is counted is counted for each of these.
    pub(crate) interval: u64,
    pub(crate) seed: u64,
}

/// The servers that Larders share.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) servers: Vec<Server>,
    pub(crate) placement: Placement,
    /// Of each server.
    pub(crate) memory: u64,
    pub(crate) policy: Kind,
    /// Longer pages are not shared.
    pub(crate) item_size: u32,
    pub(crate) local_copy: u64,
    /// Does one Larder render while the others wait?
    pub(crate) lease: bool,
    /// Do the keys of a server that is down go to the others?
    pub(crate) eject: bool,
    /// Failures in a row until a server is down.
    pub(crate) failure_limit: u32,
    pub(crate) retry_min: u64,
    pub(crate) retry_max: u64,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event {
    /// Milliseconds of the trace.
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    /// A server refuses, or cannot be reached.
    Down(usize),
    /// It is back: empty, or with all it had.
    Up { server: usize, empty: bool },
    /// A Larder begins anew, empty.
    Restart(usize),
    /// This share of all pages is purged everywhere.
    Purge(f64),
}

impl Topology {
    /// Makes sure that it can be run.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=MAX_LARDERS).contains(&self.larders) {
            return Err(format!("larders: 1 to {MAX_LARDERS}, found {}", self.larders));
        }
        if self.interval == 0 {
            return Err("interval: more than 0 is expected".to_owned());
        }
        let servers = self.fleet.as_ref().map_or(0, |fleet| fleet.servers.len());
        if let Some(fleet) = &self.fleet {
            Ring::new(&fleet.placement, &fleet.servers).map_err(|error| format!("servers: {error}"))?;
        }
        for event in &self.events {
            match event.what {
                What::Down(server) | What::Up { server, .. } if server >= servers => {
                    return Err(format!(
                        "an event is of server {server}, and there are {servers} (the first is 0)"
                    ));
                }
                What::Restart(larder) if larder >= self.larders => {
                    return Err(format!(
                        "an event is of Larder {larder}, and there are {} (the first is 0)",
                        self.larders
                    ));
                }
                What::Purge(share) if !(0.0..=1.0).contains(&share) => {
                    return Err(format!("purge = {share}: a share of all pages, 0 to 1, is expected"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn describe(&self, what: What) -> String {
        match what {
            What::Down(server) => format!("server {server} away"),
            What::Up { server, empty: true } => format!("server {server} back, empty"),
            What::Up { server, empty: false } => format!("server {server} back"),
            What::Restart(larder) => format!("Larder {larder} restarted"),
            What::Purge(share) => format!("{:.0} % of pages purged", share * 100.0),
        }
    }
}
