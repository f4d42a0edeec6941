//! Mapping of keys to all servers, and to the servers that are up.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Config, ConfigError, Eject, Ring, health::Fleet};

/// The ring of all servers and, with [`Eject::Rehash`], the ring of those that are up, rebuilt on
/// each change.
#[derive(Debug)]
pub(crate) struct Rings {
    all: Arc<Ring>,
    /// The ring of live servers and the epoch it was built for. Locked briefly, and only while a
    /// server is down.
    left: Mutex<(u64, Arc<Ring>)>,
}

impl Rings {
    pub(crate) fn new(config: &Config) -> Result<Rings, ConfigError> {
        let all = Arc::new(Ring::new(&config.placement, &config.servers)?);
        Ok(Rings { left: Mutex::new((0, all.clone())), all })
    }

    /// The ring of all servers.
    pub(crate) fn all(&self) -> &Ring {
        &self.all
    }

    /// The ring of the servers that are up. `None`: all are, or keys of down servers are not moved.
    pub(crate) fn left(&self, config: &Config, fleet: &Fleet) -> Option<Arc<Ring>> {
        if config.failure.eject == Eject::No || fleet.unserved() == 0 {
            return None;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = fleet.epoch();
        if left.0 != epoch {
            // A ring of all servers could be made, so one of some can.
            let ring = Ring::living(&config.placement, &config.servers, |slot| fleet.serves(slot));
            *left = (epoch, ring.map_or_else(|_| self.all.clone(), Arc::new));
        }
        Some(left.1.clone())
    }
}
