//! Connection IDs that name a worker.

use quinn_proto::{ConnectionId, ConnectionIdGenerator};
use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of an ID: the worker, and random ones.
const LENGTH: usize = 8;
/// Bytes that name the worker. They are masked by the others, so that IDs of one worker, or of one
/// connection, have nothing in common for those who do not know the secret (RFC 9000 section 5.1).
const WORKER: usize = 2;

/// Makes the IDs of one worker, and reads those of all.
#[derive(Clone, Copy)]
pub(super) struct Ids {
    worker: u16,
    secret: u64,
}

impl Ids {
    pub(super) fn new(worker: usize, secret: u64) -> Self {
        Self { worker: worker as u16, secret }
    }

    pub(super) fn worker(&self) -> usize {
        usize::from(self.worker)
    }

    /// The worker that a packet names, if its connection has IDs of ours (RFC 9000 sections 17.2
    /// and 17.3). None: the packet begins a connection, or is none.
    pub(super) fn worker_of(&self, packet: &[u8]) -> Option<usize> {
        let first = *packet.first()?;
        let id = if first & 0x80 == 0 {
            packet.get(1..1 + LENGTH)?
        } else {
            // Clients choose the ID of their first packets, Initial (0) and 0-RTT (1), at random.
            let is_later = first >> 4 & 3 >= 2;
            let length = usize::from(*packet.get(5)?);
            (is_later && length == LENGTH).then(|| packet.get(6..6 + LENGTH))??
        };
        let (worker, random) = id.split_first_chunk::<WORKER>()?;
        Some(usize::from(u16::from_be_bytes(*worker) ^ self.mask(random)))
    }

    fn mask(&self, random: &[u8]) -> u16 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.secret.to_be_bytes());
        bytes[8 + WORKER..].copy_from_slice(random);
        rapidhash::v3::rapidhash_v3(&bytes) as u16
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LENGTH];
        // Without random numbers an ID would come twice: quinn makes another then.
        let _ = getrandom(&mut id[WORKER..], GetRandomFlags::empty());
        let named = self.worker ^ self.mask(&id[WORKER..]);
        id[..WORKER].copy_from_slice(&named.to_be_bytes());
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_their_worker() {
        for worker in [0, 1, 7, 300] {
            let (mut ids, reader) = (Ids::new(worker, 77), Ids::new(5, 77));
            let (id, other) = (ids.generate_cid(), ids.generate_cid());
            assert_ne!(id[..WORKER], other[..WORKER]);
            assert_eq!(id.len(), ids.cid_len());
            let short = [&[0x40], &id[..], &[1, 2, 3]].concat();
            assert_eq!(reader.worker_of(&short), Some(worker));
            for (kind, named) in [(0xc0, None), (0xd0, None), (0xe0, Some(worker))] {
                let long = [&[kind, 0, 0, 0, 1, 8], &id[..], &[0]].concat();
                assert_eq!(reader.worker_of(&long), named);
            }
        }
    }

    #[test]
    fn short_packets_name_nobody() {
        let packets =
            [&b""[..], b"\x40", b"\x40\0", b"\xe0\0\0\0\x01\x08\0", b"\xe0\0\0\0\x01\x04\0\0\0\0"];
        for packet in packets {
            assert_eq!(Ids::new(0, 1).worker_of(packet), None, "{packet:x?}");
        }
    }
}
