//! Which servers a key is on, with all of them and with those that are left.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Config, ConfigError, Eject, Ring, health::Fleet};

/// The ring of all servers, and with [`Eject::Rehash`] that of those that are left, made anew when one goes or comes back.
#[derive(Debug)]
pub(crate) struct Rings {
    all: Arc<Ring>,
    /// Of which change it is. Held for an instant, and only while a server is away.
    left: Mutex<(u64, Arc<Ring>)>,
}

impl Rings {
    pub(crate) fn new(config: &Config) -> Result<Rings, ConfigError> {
        let all = Arc::new(Ring::new(&config.placement, &config.servers)?);
        Ok(Rings { left: Mutex::new((0, all.clone())), all })
    }

    /// That of all servers.
    pub(crate) fn all(&self) -> &Ring {
        &self.all
    }

    /// That of the servers that take keys now. `None`: all do, or the keys of those that do not go nowhere else.
    pub(crate) fn left(&self, config: &Config, fleet: &Fleet) -> Option<Arc<Ring>> {
        if config.failure.eject == Eject::No || fleet.unserved() == 0 {
            return None;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = fleet.epoch();
        if left.0 != epoch {
            // It could be made of all servers, so it can be made of some.
            let ring = Ring::living(&config.placement, &config.servers, |slot| fleet.serves(slot));
            *left = (epoch, ring.map_or_else(|_| self.all.clone(), Arc::new));
        }
        Some(left.1.clone())
    }
}
