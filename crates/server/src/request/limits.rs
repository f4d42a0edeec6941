//! Limits of requests by client: a bucket of tokens for each address, or network, and each rate.
//!
//! The table has a fixed size and no lock. A slot is one number: the moment up to which its bucket
//! is used up (the generic cell rate algorithm), and a tag of the client in its low bits. Where all
//! slots of a client are taken, the one with the oldest moment is given up: a bucket that is full
//! again is not worth keeping.

use std::{
    net::IpAddr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rapidhash::v3::rapidhash_v3;

pub(crate) use crate::net::network;
use crate::{clock::Ms, settings::Rate};

/// Slots of the table: half a megabyte, made when the first limit is met.
const SLOTS: usize = 1 << 16;
/// Slots among which a client has its own.
const WAYS: usize = 4;
/// Low bits of a slot that tell clients apart.
const TAG_BITS: u32 = 20;
const TAG: u64 = (1 << TAG_BITS) - 1;
/// Steps of time in a millisecond: the 44 bits of a moment are good for 34 years.
const STEPS: u64 = 16;

/// The buckets of all clients.
#[derive(Debug, Default)]
pub(crate) struct Limits(OnceLock<Table>);

#[derive(Debug)]
struct Table {
    begun: Ms,
    /// Nobody outside can tell who shares slots with whom.
    seed: u64,
    slots: Box<[AtomicU64]>,
}

impl Limits {
    /// Takes a token of a client at `now`. An error: there is none, and the next one comes after
    /// so many milliseconds. `seed` is a random number.
    pub(crate) fn take(&self, client: IpAddr, rate: Rate, now: Ms, seed: u64) -> Result<(), Ms> {
        let table = self.0.get_or_init(|| Table {
            begun: now,
            seed,
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        });
        // Moment 0 is never used: it is an empty slot's.
        let now = now.saturating_sub(table.begun) * STEPS + 1;
        table.take(client, rate, now).map_err(|steps| steps.div_ceil(STEPS))
    }
}

impl Table {
    fn take(&self, client: IpAddr, rate: Rate, now: u64) -> Result<(), u64> {
        let hash = self.hash(client, rate);
        let (tag, set) = (hash & TAG, (hash >> TAG_BITS) as usize % (SLOTS / WAYS));
        let ways = &self.slots[set * WAYS..(set + 1) * WAYS];
        let of = |slot: &AtomicU64| slot.load(Relaxed);
        let own = ways.iter().find(|slot| of(slot) & TAG == tag && of(slot) != 0);
        let oldest = || ways.iter().min_by_key(|slot| of(slot) >> TAG_BITS);
        let Some(slot) = own.or_else(oldest) else { return Ok(()) };
        let step = u64::from(rate.seconds) * 1000 * STEPS / u64::from(rate.requests.max(1));
        let reserve = step.max(1) * u64::from(rate.burst.max(1));
        loop {
            let held = of(slot);
            let used = if held & TAG == tag { (held >> TAG_BITS).max(now) } else { now };
            let next = used + step.max(1);
            if next > now + reserve {
                return Err(next - now - reserve);
            }
            let new = next << TAG_BITS | tag;
            if slot.compare_exchange_weak(held, new, Relaxed, Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    fn hash(&self, client: IpAddr, rate: Rate) -> u64 {
        let mut bytes = [0; 36];
        let address = match client {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        bytes[..16].copy_from_slice(&address.to_le_bytes());
        bytes[16..20].copy_from_slice(&rate.requests.to_le_bytes());
        bytes[20..24].copy_from_slice(&rate.seconds.to_le_bytes());
        bytes[24..28].copy_from_slice(&rate.burst.to_le_bytes());
        bytes[28..].copy_from_slice(&self.seed.to_le_bytes());
        rapidhash_v3(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const RATE: Rate = Rate { requests: 2, seconds: 1, burst: 3 };

    fn client(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(n).into()
    }

    #[test]
    fn a_reserve_is_used_up_and_comes_back_at_the_rate() {
        let limits = Limits::default();
        let take = |now| limits.take(client(1), RATE, now, 7);
        assert_eq!((0..3).map(|_| take(1000)).collect::<Vec<_>>(), [Ok(()); 3]);
        assert_eq!(take(1000), Err(500));
        assert_eq!(take(1499), Err(1));
        assert_eq!(take(1500), Ok(()));
        assert_eq!(take(1500), Err(500));
        assert_eq!(limits.take(client(2), RATE, 1500, 7), Ok(()), "another client");
        let slow = Rate { requests: 1, seconds: 3600, burst: 1 };
        assert_eq!(limits.take(client(1), slow, 1500, 7), Ok(()), "another limit");
        assert_eq!(limits.take(client(1), slow, 1500, 7), Err(3_600_000));
        assert_eq!((0..4).filter(|_| take(60_000).is_ok()).count(), 3, "no more than the reserve");
    }

    #[test]
    fn a_client_at_its_limit_stays_there_while_many_others_come() {
        let limits = Limits::default();
        let minute = Rate { requests: 1, seconds: 60, burst: 1 };
        limits.take(client(0), minute, 1000, 7).expect("the first");
        for n in 1..20_000 {
            limits.take(client(n), RATE, 1000, 7).expect("a token");
        }
        assert!(limits.take(client(0), minute, 1000, 7).is_err());
    }

    #[test]
    fn clients_are_networks() {
        let of =
            |text: &str, v4, v6| network(text.parse().expect("an address"), v4, v6).to_string();
        assert_eq!(of("10.1.2.3", 32, 64), "10.1.2.3");
        assert_eq!(of("10.1.2.3", 24, 64), "10.1.2.0");
        assert_eq!(of("10.1.2.3", 0, 64), "0.0.0.0");
        assert_eq!(of("::ffff:10.1.2.3", 24, 64), "10.1.2.0");
        assert_eq!(of("2001:db8::1:2:3:4", 32, 64), "2001:db8::");
        assert_eq!(of("2001:db8::1", 32, 128), "2001:db8::1");
    }
}
