//! The addresses of names: one task for an origin, on one worker, looks them up again and again.
//!
//! Every address is a server of the origin. A look-up that fails changes nothing: the addresses
//! that are known stay.

use std::{
    net::{IpAddr, SocketAddr},
    rc::{Rc, Weak},
    time::Duration,
};

use tokio::{
    net::lookup_host,
    task::spawn_local,
    time::{sleep, timeout},
};

use super::Group;

/// Time limit for one look-up. The system's own is longer, and its thread is not ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most addresses of one name; further ones are not used.
const ADDRESSES: usize = 32;

/// Looks up the names of `group` until it is dropped.
pub(super) fn start(group: &Rc<Group>, interval: Duration) {
    spawn_local(run(Rc::downgrade(group), interval));
}

async fn run(group: Weak<Group>, interval: Duration) {
    loop {
        let Some(alive) = group.upgrade() else { return };
        let state = alive.state.clone();
        drop(alive);
        for (place, member) in state.settings.members.iter().enumerate() {
            let (host, port) = (&*member.origin.host, member.origin.port);
            // Sockets and files have no host.
            if host.is_empty() || host.parse::<IpAddr>().is_ok() {
                continue;
            }
            if let Ok(Ok(found)) = timeout(PATIENCE, lookup_host((host, port))).await {
                state.take_addresses(place, &listed(found));
            }
        }
        sleep(interval).await;
    }
}

/// Each once, in an order that is the same for each look-up: names with several addresses are
/// answered in turn.
fn listed(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(ADDRESSES);
    addresses
}
