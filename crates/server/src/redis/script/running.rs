//! Scripts in progress, as far as they take longer than a step.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::clock::Ms;
use crate::redis::{attention, shared::Shared};

/// Answer to commands that would wait for a script that runs for long.
pub(crate) const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
/// Milliseconds after which a script runs for long (`lua-time-limit`).
const LONG: Ms = 5000;

/// A script in progress.
#[derive(Debug, Default)]
pub(crate) struct Running {
    pub(super) client: u64,
    pub(super) started: Ms,
    /// It has written: it is not killed any more.
    pub(super) wrote: AtomicBool,
    /// SCRIPT KILL.
    pub(super) killed: AtomicBool,
    is_long: AtomicBool,
}

impl Running {
    /// A script that takes longer than a step.
    pub(super) fn enter(shared: &Shared, client: u64, started: Ms, wrote: bool) -> Arc<Running> {
        let wrote = AtomicBool::new(wrote);
        let running = Arc::new(Running { client, started, wrote, ..Running::default() });
        shared.scripts.running.lock().push(running.clone());
        running
    }

    /// The time has passed: commands that wait for a script that runs for long get an error.
    pub(super) fn look(&self, shared: &Shared, now: Ms) {
        if now.saturating_sub(self.started) >= LONG && !self.is_long.swap(true, Relaxed) {
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

/// Answer to SCRIPT KILL.
pub(super) fn kill(shared: &Shared) -> Result<(), &'static str> {
    let all = shared.scripts.running.lock();
    if all.is_empty() {
        return Err("NOTBUSY No scripts in execution right now.");
    }
    let mut any = false;
    for running in all.iter().filter(|running| !running.wrote.load(Relaxed)) {
        running.killed.store(true, Relaxed);
        any = true;
    }
    any.then_some(()).ok_or(
        "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
         either wait the script termination or kill the server in a hard way using the SHUTDOWN \
         NOSAVE command.",
    )
}
