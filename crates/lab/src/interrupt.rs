//! Ctrl-C and SIGTERM: servers are ended in order, results so far are shown.

use std::{
    process,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use crate::peers;

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Exit code of shells for SIGINT: 128 plus the signal's number.
const INTERRUPTED: i32 = 130;

/// From now on the first SIGINT, SIGTERM or SIGHUP only sets [`requested`]; the second kills the
/// started servers and ends the process.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let (ready, watched) = mpsc::channel();
        // Without the thread the signals end the process as usual.
        let _unwatched =
            thread::Builder::new().name("signals".to_owned()).spawn(move || wait(&ready));
        let _ready = watched.recv();
    });
}

/// Whether an interruption was requested.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

fn wait(ready: &mpsc::Sender<()>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let kinds =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds else { return };
        let _heard = ready.send(());
        for again in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if again {
                peers::end_all();
                process::exit(INTERRUPTED);
            }
            REQUESTED.store(true, Ordering::Relaxed);
        }
    });
}
