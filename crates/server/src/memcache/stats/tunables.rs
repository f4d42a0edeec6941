//! Settings that memcached tunes at run time and Larder has no machinery for. They are stored, so
//! that a tool reads back its values, and have no effect.

use crate::settings::MemcachedSettings;

/// Current values; initially the defaults of memcached 1.6.18.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tunables {
    /// `verbosity`.
    pub(super) verbosity: u64,
    /// `slabs automove`.
    pub(super) automove: u64,
    /// `slabs automove ratio`.
    pub(super) automove_ratio: f64,
    /// `lru_crawler enable`, `disable`. This one has an effect: no walks while it is off, as in
    /// memcached.
    pub(super) crawler: bool,
    /// `lru_crawler sleep`, microseconds.
    pub(super) crawler_sleep: u64,
    /// `lru_crawler tocrawl`.
    pub(super) crawler_tocrawl: u64,
    /// `lru mode segmented`, `flat`.
    pub(super) segmented: bool,
    /// `lru tune`: hot and warm per cent, hot and warm age factors.
    pub(super) percent: (u64, u64),
    pub(super) factors: (f64, f64),
    /// `lru temp_ttl`; None: off.
    pub(super) temp_ttl: Option<u64>,
    /// `stats sizes_enable`: if on, `stats sizes` walks over the items.
    pub(super) sizes: bool,
}

impl Tunables {
    pub(super) fn new(settings: &MemcachedSettings) -> Self {
        Self {
            verbosity: u64::from(settings.verbosity),
            automove: 1,
            automove_ratio: 0.8,
            crawler: true,
            crawler_sleep: 100,
            crawler_tocrawl: 0,
            segmented: true,
            percent: (20, 40),
            factors: (0.2, 2.0),
            temp_ttl: None,
            sizes: settings.sizes,
        }
    }
}
