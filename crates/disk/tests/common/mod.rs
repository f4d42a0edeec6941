//! A directory in memory whose files fail, tear, lose and reorder writes, flip bits and lose power.

#![allow(dead_code)]

use larder_disk::{Files, Storage};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

/// Sectors are written whole, or not at all.
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

fn apply(data: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, bytes) => {
            let end = *at as usize + bytes.len();
            if data.len() < end {
                data.resize(end, 0);
            }
            data[*at as usize..end].copy_from_slice(bytes);
        }
        Change::Length(length) => data.resize(*length as usize, 0),
    }
}

#[derive(Default)]
struct Inode {
    /// As programs see it.
    data: Vec<u8>,
    /// As it is on the device.
    durable: Vec<u8>,
    /// Changes that are not there yet.
    pending: Vec<Change>,
}

/// Probabilities of faults, of a thousand.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Faults {
    /// Reads that fail.
    pub(crate) read: u32,
    /// Writes, syncs, and changes of names that fail; what they would have done may be done.
    pub(crate) write: u32,
    /// Reads and writes that are short.
    pub(crate) short: u32,
    /// Reads of which one bit is wrong, once.
    pub(crate) flip: u32,
}

struct State {
    rng: SmallRng,
    faults: Faults,
    /// Bytes of the device.
    room: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Earlier states of the names since the last sync.
    between: Vec<BTreeMap<String, u64>>,
    inodes: HashMap<u64, Inode>,
    next: u64,
    /// Counts the lives: files of an earlier one do nothing.
    life: u64,
}

/// See the module. Clones are the same directory.
#[derive(Clone)]
pub(crate) struct Sim(Arc<Mutex<State>>, u64);

/// An open file.
pub(crate) struct SimFile(Arc<Mutex<State>>, u64, u64);

fn error(rng: &mut SmallRng) -> io::Error {
    let errors = [rustix::io::Errno::IO, rustix::io::Errno::NOSPC, rustix::io::Errno::ROFS];
    errors[rng.random_range(0..errors.len())].into()
}

impl State {
    fn chance(&mut self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.rng.random_range(0..1000) < of_thousand
    }

    fn may_write(&mut self) -> io::Result<()> {
        if self.chance(self.faults.write) { Err(error(&mut self.rng)) } else { Ok(()) }
    }

    fn used(&self) -> u64 {
        self.names.values().map(|id| self.inodes[id].data.len() as u64).sum()
    }

    fn rename(&mut self, change: impl FnOnce(&mut BTreeMap<String, u64>)) {
        self.between.push(self.names.clone());
        change(&mut self.names);
    }

    /// The power was lost: of the changes that were not durable, some are on the device.
    fn lose_power(&mut self) {
        let mut states = std::mem::take(&mut self.between);
        states.push(self.names.clone());
        states.push(self.durable_names.clone());
        let at = self.rng.random_range(0..states.len());
        self.names = states.swap_remove(at);
        let mut ids: Vec<u64> = self.inodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let pending = std::mem::take(&mut self.inodes.get_mut(&id).unwrap().pending);
            for change in pending {
                let torn = self.torn(change);
                let inode = self.inodes.get_mut(&id).unwrap();
                torn.iter().for_each(|change| apply(&mut inode.durable, change));
            }
            let inode = self.inodes.get_mut(&id).unwrap();
            inode.data = inode.durable.clone();
        }
        self.durable_names = self.names.clone();
    }

    /// All of a change, nothing of it, or some of its sectors.
    fn torn(&mut self, change: Change) -> Vec<Change> {
        let Change::Write(at, bytes) = change else {
            return if self.rng.random() { vec![change] } else { vec![] };
        };
        match self.rng.random_range(0..3) {
            0 => vec![],
            1 => vec![Change::Write(at, bytes)],
            _ => {
                let (mut out, mut from) = (Vec::new(), 0);
                while from < bytes.len() {
                    let end = (at as usize + from) / SECTOR * SECTOR + SECTOR - at as usize;
                    let end = end.min(bytes.len());
                    if self.rng.random() {
                        out.push(Change::Write(at + from as u64, bytes[from..end].to_vec()));
                    }
                    from = end;
                }
                out
            }
        }
    }
}

impl Sim {
    pub(crate) fn new(seed: u64, room: u64) -> Sim {
        let state = State {
            rng: SmallRng::seed_from_u64(seed),
            faults: Faults::default(),
            room,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            between: Vec::new(),
            inodes: HashMap::new(),
            next: 0,
            life: 0,
        };
        Sim(Arc::new(Mutex::new(state)), 0)
    }

    pub(crate) fn faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// The device has so much room from now on, in bytes.
    pub(crate) fn room(&self, bytes: u64) {
        self.0.lock().room = bytes;
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.0.lock().used()
    }

    /// The directory as the next process finds it. `power`: the machine stopped, not only the
    /// process.
    pub(crate) fn next_life(&self, power: bool) -> Sim {
        let mut state = self.0.lock();
        state.life += 1;
        if power {
            state.lose_power();
        }
        Sim(self.0.clone(), state.life)
    }

    /// Flips one bit of a file on the device.
    pub(crate) fn flip_one(&self, which: impl Fn(&str) -> bool) {
        let mut state = self.0.lock();
        let ids: Vec<u64> =
            state.names.iter().filter(|(name, _)| which(name)).map(|(_, id)| *id).collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[state.rng.random_range(0..ids.len())];
        let length = state.inodes[&id].data.len();
        if length == 0 {
            return;
        }
        // Mostly where something is.
        let used = state.inodes[&id].data.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
        let at = state.rng.random_range(0..used);
        let bit = 1 << state.rng.random_range(0..8);
        let inode = state.inodes.get_mut(&id).unwrap();
        inode.data[at] ^= bit;
        if let Some(byte) = inode.durable.get_mut(at) {
            *byte ^= bit;
        }
    }

    fn locked<T>(&self, f: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock();
        if state.life != self.1 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        f(&mut state)
    }

    fn file(&self, id: u64) -> SimFile {
        SimFile(self.0.clone(), id, self.1)
    }
}

impl Files for Sim {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.locked(|state| Ok(state.names.keys().cloned().collect()))
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let id = self.locked(|state| {
            state.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
        })?;
        Ok(self.file(id))
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let id = self.locked(|state| {
            state.may_write()?;
            let id = state.next;
            state.next += 1;
            state.inodes.insert(id, Inode::default());
            state.rename(|names| {
                names.insert(name.to_owned(), id);
            });
            Ok(id)
        })?;
        Ok(self.file(id))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.locked(|state| {
            state.may_write()?;
            if !state.names.contains_key(name) {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.rename(|names| {
                names.remove(name);
            });
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.locked(|state| {
            state.may_write()?;
            let id = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
            state.rename(|names| {
                names.remove(from);
                names.insert(to.to_owned(), id);
            });
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.locked(|state| {
            state.may_write()?;
            state.durable_names = state.names.clone();
            state.between.clear();
            Ok(())
        })
    }
}

impl SimFile {
    fn locked<T>(&self, f: impl FnOnce(&mut State, u64) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock();
        if state.life != self.2 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        f(&mut state, self.1)
    }

    fn change(&self, change: Change) -> io::Result<()> {
        self.locked(|state, id| {
            let grows = match &change {
                Change::Length(length) => *length,
                Change::Write(at, bytes) => at + bytes.len() as u64,
            }
            .saturating_sub(state.inodes[&id].data.len() as u64);
            if grows > 0 && state.used() + grows > state.room {
                return Err(rustix::io::Errno::NOSPC.into());
            }
            let failed = state.may_write();
            if failed.is_err() && state.rng.random() {
                return failed;
            }
            let inode = state.inodes.get_mut(&id).unwrap();
            apply(&mut inode.data, &change);
            inode.pending.push(change);
            failed
        })
    }
}

impl Storage for SimFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.locked(|state, id| {
            if state.chance(state.faults.read) {
                return Err(rustix::io::Errno::IO.into());
            }
            let mut length = bytes.len();
            if length > 1 && state.chance(state.faults.short) {
                length = state.rng.random_range(1..length);
            }
            let flips = state.chance(state.faults.flip);
            let data = &state.inodes[&id].data;
            let from = (at as usize).min(data.len());
            let end = (from + length).min(data.len());
            bytes[..end - from].copy_from_slice(&data[from..end]);
            if flips && end > from {
                let at = state.rng.random_range(0..end - from);
                bytes[at] ^= 1 << state.rng.random_range(0..8);
            }
            Ok(end - from)
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let short = self.locked(|state, _| Ok(state.chance(state.faults.short)))?;
        let length = match short && bytes.len() > 1 {
            true => self.locked(|state, _| Ok(state.rng.random_range(1..bytes.len())))?,
            false => bytes.len(),
        };
        self.change(Change::Write(at, bytes[..length].to_vec()))?;
        Ok(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.locked(|state, id| Ok(state.inodes[&id].data.len() as u64))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(Change::Length(length))
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let now = self.length()?;
        if now < length { self.change(Change::Length(length)) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.locked(|state, id| {
            state.may_write()?;
            let inode = state.inodes.get_mut(&id).unwrap();
            for change in std::mem::take(&mut inode.pending) {
                apply(&mut inode.durable, &change);
            }
            Ok(())
        })
    }
}
