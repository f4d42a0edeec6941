//! Which server is asked for a key: placement, and what is known of the servers' health.
//!
//! [`Client`](crate::Client) asks one; so can who speaks to the servers of a fleet in another language than memcached's.

use std::{sync::Arc, time::Instant};

use crate::{
    Address, Config, ConfigError, Eject, Health, Server, ServerView,
    counters::Counters,
    health::{Fleet, Ticket},
    rings::Rings,
    view,
};

/// Knows which server has a key now, and who is to be probed. Cheap to ask while all are well: one hash and two loads.
#[derive(Debug)]
pub struct Router {
    config: Config,
    rings: Rings,
    fleet: Arc<Fleet>,
}

/// The right, and the duty, to find out whether one server that is down is well again. Dropped without an end, it is a probe that
/// failed.
#[derive(Debug)]
pub struct Probe(Ticket);

impl Probe {
    /// Whom to probe: its index among the servers and the spares behind them.
    pub fn server(&self) -> usize {
        self.0.server()
    }

    /// What came of it.
    pub fn end(self, well: bool) {
        self.0.end(well, Instant::now());
    }
}

impl Router {
    /// Of these servers, learning of failures together with all who share `health`.
    ///
    /// # Errors
    ///
    /// When the configuration is wrong.
    pub fn new(config: Config, health: &Health) -> Result<Router, ConfigError> {
        config.check()?;
        let addresses =
            |servers: &[Server]| -> Vec<Address> { servers.iter().map(|s| s.address.clone()).collect() };
        let fleet = health.fleet(&addresses(&config.servers), &addresses(&config.spares), &config.failure);
        Ok(Router { rings: Rings::new(&config)?, config, fleet })
    }

    /// What it was made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// The index of the server that has this key when all are well.
    pub fn home(&self, key: &[u8]) -> usize {
        self.rings.all().locate(key)
    }

    /// The server to ask for a key, if that needs no more thought: with one copy of each key, and nobody away whose key it
    /// could be.
    pub fn direct(&self, key: &[u8]) -> Option<usize> {
        let slot = self.home(key);
        let whole = self.config.failure.eject == Eject::No || self.fleet.unserved() == 0;
        (self.config.replicas == 1 && whole && self.fleet.is_up(slot)).then_some(slot)
    }

    /// Those that have a key, the first to be asked in front, without those that are down. As many as there are replicas; with
    /// [`Eject::Rehash`] of the servers that are left. Each probe given to `probe` is to be carried out, whatever becomes of the
    /// key.
    pub fn candidates(&self, key: &[u8], mut probe: impl FnMut(Probe)) -> Vec<usize> {
        let now = Instant::now();
        let replicas = self.config.replicas;
        let mut found = Vec::with_capacity(replicas);
        let mut look = |slot, counts: bool| {
            let route = self.fleet.route(slot, now);
            route.probes.into_iter().for_each(|ticket| probe(Probe(ticket)));
            found.extend(route.server.filter(|_| counts));
        };
        match self.rings.left(&self.config, &self.fleet) {
            Some(left) => {
                // Whose key it is when all are well is not asked, but may be due for a probe.
                look(self.rings.all().locate(key), false);
                left.replicas(key, replicas).for_each(|slot| look(slot, true));
            }
            None => self.rings.all().replicas(key, replicas).for_each(|slot| look(slot, true)),
        }
        found
    }

    /// Whether a server is asked at all.
    pub fn is_up(&self, server: usize) -> bool {
        self.fleet.is_up(server)
    }

    /// A connection to it failed, or no answer came in time: to be told once per connection.
    pub fn failed(&self, server: usize) {
        self.fleet.failed(server, Instant::now());
    }

    /// It answered.
    pub fn succeeded(&self, server: usize) {
        self.fleet.succeeded(server);
    }

    /// What is known of a server, with what was counted of it.
    pub fn view<'c>(&self, server: usize, counted: impl Iterator<Item = &'c Counters> + Clone) -> ServerView {
        let (servers, spares) = (&self.config.servers, &self.config.spares);
        let address = &servers.iter().chain(spares).nth(server).unwrap_or(&servers[0]).address;
        let spare = server >= servers.len();
        view::of(address, counted, self.fleet.look(server), spare, self.config.failure.eject)
    }
}
