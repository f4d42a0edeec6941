//! At a stop: pages and slices that memory has and the disk has not, the hottest first.

use std::io;

use larder_disk::{Directory, Disk, Writer};
use larder_store::{Cursor, Keep};

use super::{KEPT, Tier};
use crate::{
    clock::Ms,
    page::{lookup::PAGES, published::PUBLISHED},
};

/// Entries looked at in one step.
const STEP: usize = 256;

/// Writes those that were asked for more than once, and published pages, until the time is over: in
/// each round those that were asked for at least so often, as the store counts it.
pub(super) fn write(
    tier: &Tier,
    disk: &Disk<Directory>,
    writer: &mut Writer<Directory>,
    until: Ms,
) -> io::Result<()> {
    for (least, ns) in [3, 2, 1, 0].into_iter().flat_map(|least| KEPT.map(|ns| (least, ns))) {
        let mut cursor = Some(Cursor::START);
        while let Some(at) = cursor {
            if tier.clock.now() >= until {
                return Ok(());
            }
            let mut keys = Vec::new();
            cursor = tier.store.scan(ns, at, STEP, &mut |key, info| {
                let published = ns == PAGES && info.flags == PUBLISHED;
                if (info.fetched || published) && !info.stale {
                    keys.push(Box::<[u8]>::from(key));
                }
                Keep::Keep
            });
            for key in &keys {
                if tier.clock.now() >= until {
                    return Ok(());
                }
                let entry = tier.store.peek(ns, key, tier.clock.now());
                if entry.is_some_and(|entry| entry.frequency() >= least) {
                    tier.put_key(disk, writer, (ns, key))?;
                }
            }
        }
    }
    Ok(())
}
