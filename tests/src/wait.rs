//! Waiting for what must happen, with a deadline instead of a sleep.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything that must happen may take before the test fails. Generous: a build may be
/// running beside us.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Polls `condition` until it holds; fails the test, naming `what`, when it does not within
/// [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Polls `probe` until it gives a value; fails the test, naming `what`, when it does not within
/// [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A door between the test and the threads of its origin: closed at first, opened once, for all.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn closed() -> Gate {
        Gate::default()
    }

    /// Lets everyone through, now and later.
    pub fn open(&self) {
        let (open, changed) = &*self.0;
        *open.lock().unwrap() = true;
        changed.notify_all();
    }

    /// Waits until the gate is open. Returns after twice [`PATIENCE`] anyway, so that a failed test
    /// does not hang its origin: later than any wait of the test ends, which must not be satisfied
    /// by a gate that opened by itself.
    pub fn wait(&self) {
        let (open, changed) = &*self.0;
        let guard = open.lock().unwrap();
        drop(changed.wait_timeout_while(guard, PATIENCE * 2, |open| !*open).unwrap());
    }
}
