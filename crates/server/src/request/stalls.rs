//! Clients that stand still and hold a connection to an origin meanwhile, by address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;

/// Answers that clients of one address (of IPv6, of one network of 64 bits) may let stand still.
const PER_CLIENT: usize = 32;

/// Counts answers that stand still, over all workers.
#[derive(Clone, Default)]
pub(crate) struct Stalls(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Stalls {
    /// One more of this address, until the result is dropped. None: it is one too many.
    pub(crate) fn enter(&self, client: IpAddr) -> Option<Stall> {
        let client = network(client);
        let mut stalls = self.0.lock();
        let count = stalls.entry(client).or_default();
        if *count >= PER_CLIENT {
            return None;
        }
        *count += 1;
        drop(stalls);
        Some(Stall(self.clone(), client))
    }
}

/// An answer that stands still.
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

fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
        }
        other => other,
    }
}
