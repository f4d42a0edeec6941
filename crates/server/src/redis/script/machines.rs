//! The Lua states of a worker.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use larder_script::{Machine, Settings};

use crate::redis::shared::Face;
use crate::room::Holding;

/// Maximum of scripts in progress per worker.
const MACHINES: usize = 8;
/// Idle states kept per worker.
const IDLE: usize = 2;
/// Maximum of a state's memory, as a part (1/n) of what clients may hold, and its limits in bytes.
const PART: u64 = 2;
const LEAST: u64 = 8 << 20;
const MOST: u64 = 128 << 20;
/// Memory is charged in steps of this size.
const STEP: usize = 256 << 10;

/// A Lua state with what belongs to it.
pub(super) struct State {
    pub(super) machine: Machine,
    /// End of the current step, in microseconds.
    pub(super) until: Rc<Cell<u64>>,
    held: Holding,
}

impl State {
    /// Charges its memory. False: there is no room.
    pub(super) fn hold(&mut self) -> bool {
        self.held.resize(self.machine.memory().next_multiple_of(STEP) as u64)
    }
}

/// The states of one worker.
#[derive(Default)]
pub(crate) struct Machines {
    idle: RefCell<Vec<State>>,
    used: Cell<usize>,
}

impl Machines {
    /// Returns whether another script may begin.
    pub(crate) fn has_one(&self) -> bool {
        self.used.get() < MACHINES
    }

    /// A state for a script. None: too many run, or there is no memory.
    pub(super) fn take(&self, face: &Face) -> Option<State> {
        if !self.has_one() {
            return None;
        }
        let state = self.idle.borrow_mut().pop().or_else(|| new(face))?;
        self.used.set(self.used.get() + 1);
        Some(state)
    }

    /// Takes a state back after its script.
    pub(super) fn give(&self, mut state: State) {
        self.used.set(self.used.get() - 1);
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE && state.hold() {
            idle.push(state);
        }
    }
}

/// Maximum of a state's memory, in bytes.
fn memory(face: &Face) -> u64 {
    (face.room / PART).clamp(LEAST, MOST)
}

fn new(face: &Face) -> Option<State> {
    let until = Rc::new(Cell::new(0));
    let (clock, end) = (face.clock, until.clone());
    let machine = Machine::new(Settings {
        memory: memory(face) as usize,
        is_over: Box::new(move || clock.micros() >= end.get()),
        seed: face.shared.random(),
    });
    let mut held = Holding::new(face.shared.clients.room());
    let has_room = held.resize(STEP as u64);
    machine.ok().filter(|_| has_room).map(|machine| State { machine, until, held })
}
