//! Scripts in progress, as far as they take longer than a step.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
};

use crate::clock::Ms;
use crate::redis::{attention, shared::Shared};

/// Answer to commands that would wait for a script that runs for long.
pub(super) const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
/// The same for a function.
const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

/// It has written: it is not killed any more.
const WROTE: u8 = 1;
/// SCRIPT KILL: it does not write any more.
const KILLED: u8 = 2;

/// A function in progress, for FUNCTION STATS.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) name: Arc<str>,
    /// The command that has called it; long arguments are shortened.
    pub(super) command: Vec<Vec<u8>>,
}

/// A script in progress.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// None: no function.
    pub(super) called: Option<Called>,
    pub(super) client: u64,
    pub(super) started: Ms,
    /// [`WROTE`] or [`KILLED`], whichever came first.
    state: AtomicU8,
    is_long: AtomicBool,
}

impl Running {
    /// A script that takes longer than a step.
    pub(super) fn enter(
        shared: &Shared,
        called: Option<Called>,
        (client, started): (u64, Ms),
        wrote: bool,
    ) -> Arc<Running> {
        let state = AtomicU8::new(if wrote { WROTE } else { 0 });
        let running = Arc::new(Running { called, client, started, state, ..Running::default() });
        shared.scripts.running.lock().push(running.clone());
        running
    }

    /// Tries to be the first to say what becomes of it; returns whether it is so now.
    fn becomes(&self, state: u8) -> bool {
        let before = self.state.compare_exchange(0, state, Relaxed, Relaxed);
        before.map_or_else(|found| found == state, |_| true)
    }

    /// It is about to write. False: it is killed, and must not.
    pub(super) fn writes(&self) -> bool {
        self.becomes(WROTE)
    }

    /// It is to end: SCRIPT KILL, or it runs for long and the process ends.
    pub(super) fn is_killed(&self, shared: &Shared) -> bool {
        self.state.load(Relaxed) == KILLED
            || self.is_long.load(Relaxed) && shared.scripts.stopping.load(Relaxed)
    }

    /// The time has passed: commands that wait for a script that runs for long get an error.
    pub(super) fn look(&self, shared: &Shared, now: Ms) {
        let long = shared.config.script_time.load(Relaxed);
        if now.saturating_sub(self.started) >= long && !self.is_long.swap(true, Relaxed) {
            attention::set(shared, attention::LONG_SCRIPT, true);
        }
    }

    /// It has ended.
    pub(super) fn leave(&self, shared: &Shared) {
        let mut all = shared.scripts.running.lock();
        all.retain(|other| other.client != self.client);
        let any = all.iter().any(|other| other.is_long.load(Relaxed));
        attention::set(shared, attention::LONG_SCRIPT, any);
    }
}

/// Answer to commands that would wait for a script or function that runs for long.
pub(crate) fn busy(shared: &Shared) -> &'static str {
    let all = shared.scripts.running.lock();
    let is_function =
        all.iter().any(|running| running.is_long.load(Relaxed) && running.called.is_some());
    if is_function { BUSY_FUNCTION } else { BUSY }
}

/// Answer to SCRIPT KILL, or FUNCTION KILL: each ends those of its kind.
pub(super) fn kill(shared: &Shared, functions: bool) -> Result<(), &'static str> {
    let all = shared.scripts.running.lock();
    if all.is_empty() {
        return Err("NOTBUSY No scripts in execution right now.");
    }
    let mut of_kind = all.iter().filter(|running| running.called.is_some() == functions).peekable();
    if of_kind.peek().is_none() {
        return Err(if functions { BUSY } else { BUSY_FUNCTION });
    }
    let killed = of_kind.filter(|running| running.becomes(KILLED)).count();
    (killed > 0).then_some(()).ok_or(
        "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
         either wait the script termination or kill the server in a hard way using the SHUTDOWN \
         NOSAVE command.",
    )
}
