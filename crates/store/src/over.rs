//! The reason why a key is not found, for statistics: an expired entry stays in memory until it is
//! swept.

use crate::held::Held;
use crate::index::Seen;
use crate::store::Store;
use crate::types::{Ms, Namespace};

/// Why an existing entry is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// It has expired.
    Expired,
    /// It was stored before a flush.
    Flushed,
}

impl Store {
    /// Why [`Store::peek`] does not find `key`; `None`: there is no entry, or it is alive.
    pub fn over(&self, ns: Namespace, key: &[u8], now: Ms) -> Option<Over> {
        let hash = self.hash(ns, key).ok()?;
        let held = self.index.find(&self.segments, hash, |slot, value, loc| {
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else {
                return Seen::Changed;
            };
            if held.record().is(ns, key) { Seen::Yes(held) } else { Seen::No }
        })?;
        let record = held.record();
        if self.is_flushed(&record) {
            return Some(Over::Flushed);
        }
        record.expires().filter(|at| *at <= now).map(|_| Over::Expired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Options, Put};

    #[test]
    fn what_is_over_is_told_from_what_never_was() {
        let store = Store::open(Options { budget: 8 << 20, ..Options::default() }).unwrap();
        let ns = Namespace(1);
        let put = |key: &[u8], expires| {
            store.set(ns, key, Put { value: &[b"v"], expires, ..Put::default() }, 1000).unwrap();
        };
        put(b"lives", None);
        put(b"short", Some(2000));
        let all = |now| [&b"lives"[..], b"short", b"never"].map(|key| store.over(ns, key, now));
        assert_eq!(all(1999), [None, None, None]);
        assert_eq!(all(2000), [None, Some(Over::Expired), None]);
        store.flush(ns, 2000);
        assert_eq!(all(2000), [Some(Over::Flushed), Some(Over::Flushed), None]);
        assert_eq!(store.over(Namespace(2), b"short", 2000), None);
    }
}
