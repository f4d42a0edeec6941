//! Which sites the purges of tags in the journal are of. Tags belong to a site, by its name; a page
//! on the disk does not say its site, so the site that has its URL now is taken for it. With a
//! purge from before the sites changed, that may be another one than the purge named: the journal
//! says which sites there were, and such a purge means pages with the tag of any site.

use larder_disk::Purge;
use parking_lot::Mutex;

use super::Tier;
use crate::{clock::Ms, settings::Settings};

/// Kind of the record in the disk's journal: a fingerprint of the sites of the purges after it.
pub(super) const SITES: u8 = 7;
/// The fingerprint while they change.
const UNKNOWN: u64 = 0;
/// Time in which all workers have heard of a reload.
const CHANGE: Ms = 10_000;
/// Time after which the record is written again: the journal forgets old ones.
const AGAIN: Ms = 3_600_000;

#[derive(Default)]
struct State {
    now: u64,
    /// When the next record is to be written; `None`: at once.
    next: Option<Ms>,
    changing: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Sites(Mutex<State>);

/// The names and hosts of all sites, in their order, as a number that is not [`UNKNOWN`].
pub(crate) fn fingerprint(settings: &Settings) -> u64 {
    let names: Vec<_> = settings.sites.iter().map(|site| (&site.name, &site.hosts)).collect();
    rapidhash::v3::rapidhash_v3(format!("{names:?}").as_bytes()).max(1)
}

impl Sites {
    /// Those of the start.
    pub(super) fn new(sites: u64) -> Sites {
        Sites(Mutex::new(State { now: sites, ..State::default() }))
    }

    /// Whether a record of the journal is of the sites of now.
    pub(super) fn are_those(&self, purge: &Purge) -> bool {
        let found = purge.what.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let state = self.0.lock();
        !state.changing && found == Some(state.now)
    }

    /// The journal does not say which sites there are: it is noted at once.
    pub(super) fn forgotten(&self) {
        let mut state = self.0.lock();
        if !state.changing {
            state.next = None;
        }
    }
}

impl Tier {
    /// A reload changes the sites, maybe.
    pub(crate) fn sites_are(&self, sites: u64) {
        let mut state = self.sites.0.lock();
        if state.now == sites {
            return;
        }
        *state = State { now: sites, next: Some(self.clock.now() + CHANGE), changing: true };
        drop(state);
        if let Some(disk) = self.disk() {
            disk.purge(SITES, &UNKNOWN.to_le_bytes());
        }
        self.purged.sites_changed(true);
    }

    /// Notes the sites, if it is time.
    pub(super) fn note_sites(&self) {
        let Some(disk) = self.disk() else { return };
        let now = self.clock.now();
        let mut state = self.sites.0.lock();
        if state.next.is_some_and(|at| now < at) {
            return;
        }
        if std::mem::take(&mut state.changing) {
            self.purged.sites_changed(false);
        }
        state.next = Some(now + AGAIN);
        disk.purge(SITES, &state.now.to_le_bytes());
    }
}
