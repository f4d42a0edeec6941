//! Counters by name.

use std::sync::Arc;

use parking_lot::Mutex;

/// Names counted per worker, over the life of the process; further ones, which reloads may add, are
/// counted together as [`OTHER`].
pub(super) const NAMES: usize = 256;
/// The name of all beyond [`NAMES`].
pub(super) const OTHER: &str = "other";

/// Counters by name. Names are only ever added, so that the index of a name stays valid across
/// reloads. Used when settings are taken and when figures are read, not for a request.
#[derive(Debug)]
pub(crate) struct Named<T>(Mutex<Vec<(Box<str>, Arc<T>)>>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> Named<T> {
    /// The index of a name; a new name is added.
    pub(super) fn index(&self, name: &str) -> usize {
        let mut all = self.0.lock();
        let find = |all: &[(Box<str>, Arc<T>)], name: &str| {
            all.iter().position(|(known, _)| **known == *name)
        };
        if let Some(at) = find(&all, name) {
            return at;
        }
        let name = if all.len() < NAMES { name } else { OTHER };
        find(&all, name).unwrap_or_else(|| {
            all.push((name.into(), Arc::default()));
            all.len() - 1
        })
    }

    /// The counters of a name.
    pub(crate) fn of(&self, name: &str) -> Arc<T> {
        let at = self.index(name);
        self.0.lock()[at].1.clone()
    }

    /// All names with their counters, in the order of their indexes.
    pub(super) fn all(&self) -> Vec<(Box<str>, Arc<T>)> {
        self.0.lock().clone()
    }
}
