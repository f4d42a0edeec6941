//! Libraries of functions, of all workers: their texts and the functions that they have registered.
//! Each Lua state loads a library when it first calls one of its functions.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use larder_script::Registered;
use parking_lot::RwLock;

use crate::{
    redis::shared::Shared,
    room::{Holding, Room},
};

/// Maximum of libraries.
const LIBRARIES: usize = 1024;
/// Maximum of their texts in bytes: FUNCTION DUMP and FUNCTION RESTORE take them in one step.
pub(super) const BYTES: usize = 1 << 20;
/// Maximum of their functions: FUNCTION LIST answers all of them in one step.
const FUNCTIONS: usize = 4096;
/// Bytes of a library or function beside its texts.
const ENTRY: usize = 200;

/// A library.
#[derive(Debug)]
pub(crate) struct Library {
    /// Its number, which no other library has, also of the same name.
    pub(super) id: u64,
    pub(crate) name: String,
    pub(crate) text: Arc<[u8]>,
    pub(crate) functions: Vec<Registered>,
}

impl Library {
    fn bytes(&self) -> usize {
        let of = |function: &Registered| {
            ENTRY + 2 * function.name.len() + function.description.as_ref().map_or(0, Vec::len)
        };
        ENTRY + self.text.len() + self.functions.iter().map(of).sum::<usize>()
    }
}

/// Ways to deal with libraries that exist when others are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// All are deleted.
    Flush,
    /// One of the same name is an error.
    Append,
    /// One of the same name is replaced.
    Replace,
}

#[derive(Clone, Default)]
struct Table {
    libraries: BTreeMap<String, Arc<Library>>,
    /// Functions by their names in lower case: the library, and the place in it.
    functions: HashMap<String, (Arc<Library>, usize)>,
}

impl Table {
    fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }

    fn add(&mut self, library: Library, policy: Policy) -> Result<(), String> {
        if policy == Policy::Replace {
            self.remove(&library.name);
        } else if self.libraries.contains_key(&library.name) {
            return Err(format!("ERR Library {} already exists", library.name));
        }
        let library = Arc::new(library);
        for (at, function) in library.functions.iter().enumerate() {
            let of_other = match self.functions.entry(function.name.to_ascii_lowercase()) {
                Entry::Vacant(place) => {
                    place.insert((library.clone(), at));
                    false
                }
                // Of names of one library that differ in case alone the first can be called.
                Entry::Occupied(place) => !Arc::ptr_eq(&place.get().0, &library),
            };
            if of_other {
                return Err(format!("ERR Function {} already exists", function.name));
            }
        }
        self.libraries.insert(library.name.clone(), library);
        let texts: usize = self.libraries.values().map(|library| library.text.len()).sum();
        if self.libraries.len() > LIBRARIES || self.functions.len() > FUNCTIONS || texts > BYTES {
            return Err(format!(
                "ERR there may be {LIBRARIES} libraries of {FUNCTIONS} functions and {BYTES} bytes"
            ));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.libraries.values().map(|library| library.bytes()).sum()
    }
}

/// Libraries of the process.
#[derive(Default)]
pub(crate) struct Libraries {
    table: RwLock<(Table, Option<Holding>)>,
    next: AtomicU64,
}

impl Libraries {
    /// A library that was loaded.
    pub(super) fn library(
        &self,
        name: String,
        text: Arc<[u8]>,
        functions: Vec<Registered>,
    ) -> Library {
        Library { id: self.next.fetch_add(1, Relaxed), name, text, functions }
    }

    /// The library of a function, and the function.
    pub(super) fn function(&self, name: &[u8]) -> Option<(Arc<Library>, Registered)> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        let table = self.table.read();
        let (library, at) = table.0.functions.get(&name)?;
        Some((library.clone(), library.functions.get(*at)?.clone()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.table.read().0.libraries.contains_key(name)
    }

    /// Adds libraries, all or none.
    pub(super) fn add(
        &self,
        shared: &Shared,
        libraries: Vec<Library>,
        policy: Policy,
    ) -> Result<(), String> {
        let mut held = self.table.write();
        let mut table = if policy == Policy::Flush { Table::default() } else { held.0.clone() };
        for library in libraries {
            table.add(library, policy)?;
        }
        let before = held.0.bytes() as u64;
        let (own, room) = (&mut held.1, shared.clients.room());
        if !charge(own, room, table.bytes() as u64) {
            charge(own, room, before);
            return Err("OOM no room for the libraries".into());
        }
        held.0 = table;
        shared.locks.declared.forget_functions();
        Ok(())
    }

    /// Deletes a library. False: there is none.
    pub(super) fn delete(&self, shared: &Shared, name: &[u8]) -> bool {
        let mut held = self.table.write();
        let is_gone = std::str::from_utf8(name).is_ok_and(|name| held.0.remove(name));
        let bytes = held.0.bytes() as u64;
        charge(&mut held.1, shared.clients.room(), bytes);
        shared.locks.declared.forget_functions();
        is_gone
    }

    /// All libraries, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Library>> {
        self.table.read().0.libraries.values().cloned().collect()
    }

    /// Number of libraries and functions, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize, usize) {
        let held = self.table.read();
        (held.0.libraries.len(), held.0.functions.len(), held.0.bytes())
    }

    /// The libraries for another run of this server.
    pub(crate) fn passed(&self) -> Vec<(String, Vec<u8>, Functions)> {
        let function = |function: &Registered| {
            (function.name.clone(), function.description.clone(), function.flags)
        };
        let library = |library: &Arc<Library>| {
            let functions = library.functions.iter().map(function).collect();
            (library.name.clone(), library.text.to_vec(), functions)
        };
        self.all().iter().map(library).collect()
    }

    /// The libraries of another run of this server, which were loaded there.
    pub(crate) fn restore(&self, shared: &Shared, libraries: Vec<(String, Vec<u8>, Functions)>) {
        let of = |(name, text, functions): (String, Vec<u8>, Functions)| {
            let registered = |(name, description, flags)| Registered { name, description, flags };
            self.library(name, text.into(), functions.into_iter().map(registered).collect())
        };
        let libraries = libraries.into_iter().map(of).collect();
        // Its limits are those of this one, and an older version's libraries are none to lose a
        // start for.
        let _ = self.add(shared, libraries, Policy::Flush);
    }
}

/// Functions of a library: name, description and flags.
pub(crate) type Functions = Vec<(String, Option<Vec<u8>>, u8)>;

fn charge(held: &mut Option<Holding>, room: &Arc<Room>, bytes: u64) -> bool {
    held.get_or_insert_with(|| Holding::new(room)).resize(bytes)
}
