//! Counts by the address of clients: answers and bodies that stand still and hold a connection to
//! an origin, connections.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

use crate::net::network;

/// Answers and bodies that clients of one address (of IPv6, of one network of 64 bits) may let
/// stand still.
const PER_CLIENT: usize = 32;

/// Counts by address, over all workers. As many as are counted are kept.
#[derive(Clone, Default)]
pub(crate) struct Stalls(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Stalls {
    /// One more of this address, until the result is dropped. None: it is one too many.
    pub(crate) fn enter(&self, client: IpAddr) -> Option<Stall> {
        self.enter_up_to(network(client, 32, 64), PER_CLIENT)
    }

    /// The same of this network, of which there may be `most`.
    pub(crate) fn enter_up_to(&self, client: IpAddr, most: usize) -> Option<Stall> {
        let mut stalls = self.0.lock();
        let count = stalls.entry(client).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(stalls);
        Some(Stall(self.clone(), client))
    }
}

/// One that is counted.
pub(crate) struct Stall(Stalls, IpAddr);

impl Drop for Stall {
    fn drop(&mut self) {
        let mut stalls = self.0.0.lock();
        if let Some(count) = stalls.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                stalls.remove(&self.1);
            }
        }
    }
}
