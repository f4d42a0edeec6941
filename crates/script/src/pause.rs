//! Events of a machine, and the points at which a script can be left.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use corosensei::Yielder;
use larder_proto::resp::{Owned, Version};
use mlua::{Error, Lua, Result, WeakLua};

use crate::native::Outcome;

/// A script to run, or to compile.
#[derive(Clone, Debug)]
pub struct Task {
    /// SHA-1 of its text, in hexadecimal digits; or the name of a function.
    pub name: Arc<str>,
    /// Its text, or that of the function's library.
    pub text: Arc<[u8]>,
    /// The work to do with it.
    pub work: Work,
    /// KEYS.
    pub keys: Vec<Vec<u8>>,
    /// ARGV.
    pub args: Vec<Vec<u8>>,
    /// RESP version of its reply.
    pub version: Version,
}

/// Kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Run the script.
    Run,
    /// Compile it (SCRIPT LOAD).
    Compile,
    /// Load a library (FUNCTION LOAD). A success has an empty reply, and leaves its functions
    /// ([`Machine::take_registered`](crate::Machine::take_registered)).
    Load,
    /// Call a function of the library with this number, which no other library ever has.
    Call(u64),
}

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: Option<Vec<u8>>,
    /// Bits, in the order of [`FLAGS`].
    pub flags: u8,
}

/// Flags of functions and scripts.
pub const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Reason for which [`Machine::resume`](crate::Machine::resume) returns.
#[derive(Debug)]
pub enum Event {
    /// The script calls a command; the next resume brings its reply in RESP2, or in RESP3 if the
    /// second field says so (`redis.setresp`).
    Call(Owned, Version),
    /// `redis.acl_check_cmd`: the next resume brings `1`, `0`, or nothing for an unknown command.
    Check(Owned),
    /// The time slice is over.
    Slice,
    /// A line for the log, with its level from 0 (debug) to 3 (warning).
    Log(u8, Vec<u8>),
    /// The script has ended with this reply, or nothing was running.
    Done(Vec<u8>),
}

/// Input of a resume.
pub(crate) enum Input {
    Run(Box<Task>),
    /// The reply to a call.
    Reply(Vec<u8>),
    Go,
    Quit,
}

/// State shared by the two sides of the coroutine.
pub(crate) struct Control {
    /// Is the time slice over?
    pub(crate) is_over: Box<dyn Fn() -> bool>,
    /// Maximum of the state's memory in bytes.
    pub(crate) memory: usize,
    /// RESP version of the replies that the script gets (`redis.setresp`).
    pub(crate) version: Cell<Version>,
    pub(crate) killed: Cell<bool>,
    /// Lua instructions between two looks at the time.
    pub(crate) interval: Cell<u32>,
    /// A look in this slice found that it was not over.
    pub(crate) has_looked: Cell<bool>,
    /// Work since the last look ([`Pause::work`]).
    pub(crate) work: Cell<usize>,
    /// Functions of the library that was loaded last.
    pub(crate) registered: RefCell<Vec<Registered>>,
    /// Source and line at which the script was stopped.
    pub(crate) killed_at: RefCell<Option<(String, usize)>>,
    pub(crate) lua: RefCell<Option<WeakLua>>,
    /// The last script's reply is the error of a command that it has called.
    pub(crate) counted: Cell<bool>,
}

/// The script's side of the coroutine.
#[derive(Clone)]
pub(crate) struct Pause<'a> {
    pub(crate) yielder: &'a Yielder<Input, Event>,
    pub(crate) control: Rc<Control>,
}

/// Work between two looks at the time, in bytes: some 0.1 ms.
pub(crate) const WORK: usize = 256 << 10;

/// Error that ends a script by force.
pub(crate) const KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";

impl Pause<'_> {
    /// Leaves the script if its time slice is over. Call it after each small part of long work.
    pub(crate) fn look(&self) -> Result<()> {
        if (self.control.is_over)() {
            self.yielder.suspend(Event::Slice);
        }
        if self.control.killed.get() {
            return Err(Error::runtime(KILLED));
        }
        Ok(())
    }

    /// Counts work of natives, in bytes of text; leaves the script if its time slice is over when
    /// enough was done. So that many calls on texts of some size, between which no hook runs, and
    /// one on a long text take no longer than a slice.
    pub(crate) fn work(&self, bytes: usize) -> Outcome<()> {
        let done = self.control.work.get() + bytes;
        if done < WORK {
            self.control.work.set(done);
            return Ok(());
        }
        self.control.work.set(0);
        Ok(self.look()?)
    }

    /// Has the caller act on an event, and returns its answer.
    pub(crate) fn ask(&self, event: Event) -> Vec<u8> {
        match self.yielder.suspend(event) {
            Input::Reply(bytes) => bytes,
            Input::Run(_) | Input::Go | Input::Quit => Vec::new(),
        }
    }

    /// Returns whether a result may have this length; if not, an error for the script.
    pub(crate) fn has_room(&self, len: usize) -> Outcome<()> {
        if len > self.control.memory / 2 { Err("not enough memory".into()) } else { Ok(()) }
    }

    /// Collects garbage until a cycle has ended.
    pub(crate) fn collect(&self, lua: &Lua) -> Result<()> {
        for step in 1_u32.. {
            if lua.gc_step()? {
                break;
            }
            if step.is_multiple_of(16) && (self.control.is_over)() {
                self.yielder.suspend(Event::Slice);
            }
        }
        Ok(())
    }
}
