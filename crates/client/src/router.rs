//! Choice of the server for a key: placement combined with the servers' health.
//!
//! [`Client`](crate::Client) uses it; so can users that speak other protocols to a fleet.

use std::{sync::Arc, time::Instant};

use crate::{
    Address, Config, ConfigError, Eject, Health, Server, ServerView,
    counters::Counters,
    health::{Fleet, ProbeTicket},
    rings::Rings,
    view,
};

/// Chooses the server for a key and hands out probes. Costs one hash and two loads while all
/// servers are up.
#[derive(Debug)]
pub struct Router {
    config: Config,
    rings: Rings,
    fleet: Arc<Fleet>,
}

/// The right and the duty to probe one down server. Dropping it without [`Probe::end`] counts as a
/// failed probe.
#[derive(Debug)]
pub struct Probe(ProbeTicket);

impl Probe {
    /// Index of the server to probe, among the servers followed by the spares.
    pub fn server(&self) -> usize {
        self.0.server()
    }

    /// Ends the probe with its result.
    pub fn end(self, well: bool) {
        self.0.end(well, Instant::now());
    }
}

impl Router {
    /// A router for these servers that shares knowledge of failures through `health`.
    ///
    /// # Errors
    ///
    /// When the configuration is wrong.
    pub fn new(config: Config, health: &Health) -> Result<Router, ConfigError> {
        config.check()?;
        let addresses = |servers: &[Server]| -> Vec<Address> {
            servers.iter().map(|s| s.address.clone()).collect()
        };
        let fleet =
            health.fleet(&addresses(&config.servers), &addresses(&config.spares), &config.failure);
        Ok(Router { rings: Rings::new(&config)?, config, fleet })
    }

    /// The configuration the router was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Index of the server that has this key when all servers are up.
    pub fn home(&self, key: &[u8]) -> usize {
        self.rings.all().locate(key)
    }

    /// The server for a key in the common case: one copy of each key, and no server down that could
    /// have this key.
    pub fn direct(&self, key: &[u8]) -> Option<usize> {
        let slot = self.home(key);
        let whole = self.config.failure.eject == Eject::No || self.fleet.unserved() == 0;
        (self.config.replicas == 1 && whole && self.fleet.is_up(slot)).then_some(slot)
    }

    /// The servers to ask for a key, in order, without those that are down: one for each replica;
    /// with [`Eject::Rehash`], chosen among the servers that are up. The caller carries out each
    /// probe passed to `probe`, independent of the key.
    pub fn candidates(&self, key: &[u8], mut probe: impl FnMut(Probe)) -> Vec<usize> {
        let now = Instant::now();
        let replicas = self.config.replicas;
        let mut found = Vec::with_capacity(replicas);
        let mut add = |slot, counts: bool| {
            let route = self.fleet.route(slot, now);
            route.probes.into_iter().for_each(|ticket| probe(Probe(ticket)));
            found.extend(route.server.filter(|_| counts));
        };
        match self.rings.left(&self.config, &self.fleet) {
            Some(left) => {
                // The key's own server is not asked, but a probe of it may be due.
                add(self.rings.all().locate(key), false);
                left.replicas(key, replicas).for_each(|slot| add(slot, true));
            }
            None => self.rings.all().replicas(key, replicas).for_each(|slot| add(slot, true)),
        }
        found
    }

    /// Whether requests go to this server.
    pub fn is_up(&self, server: usize) -> bool {
        self.fleet.is_up(server)
    }

    /// Counts a failed connection or a timeout: once per connection.
    pub fn failed(&self, server: usize) {
        self.fleet.failed(server, Instant::now());
    }

    /// Counts an answer.
    pub fn succeeded(&self, server: usize) {
        self.fleet.succeeded(server);
    }

    /// State of a server, combined with these counters.
    pub fn view<'c>(
        &self,
        server: usize,
        counted: impl Iterator<Item = &'c Counters> + Clone,
    ) -> ServerView {
        let (servers, spares) = (&self.config.servers, &self.config.spares);
        let address = &servers.iter().chain(spares).nth(server).unwrap_or(&servers[0]).address;
        let spare = server >= servers.len();
        view::of(address, counted, self.fleet.snapshot(server), spare, self.config.failure.eject)
    }
}
