//! Signals: SIGHUP reloads, SIGUSR1 prints the counters, SIGTERM and SIGINT stop.

use std::io;

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGHUP.
    Reload,
    /// SIGUSR1.
    Counters,
    /// SIGTERM or SIGINT.
    Stop,
}

/// Installed signal handlers, and a small runtime to wait for them in. The caller stays outside of
/// that runtime, so that it may block.
pub(crate) struct Signals {
    runtime: Runtime,
    hangup: Signal,
    user: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers. Before anything is started: a signal must not be lost, nor kill a
    /// server half up.
    pub(crate) fn install() -> io::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _inside = runtime.enter();
        let hangup = signal(SignalKind::hangup())?;
        let user = signal(SignalKind::user_defined1())?;
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(_inside);
        Ok(Signals { runtime, hangup, user, terminate, interrupt })
    }

    /// Waits for the next one.
    pub(crate) fn wait(&mut self) -> Asked {
        let Signals { runtime, hangup, user, terminate, interrupt } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = hangup.recv() => Asked::Reload,
                _ = user.recv() => Asked::Counters,
                _ = terminate.recv() => Asked::Stop,
                _ = interrupt.recv() => Asked::Stop,
            }
        })
    }

    /// Runs `work` on a thread of its own until it ends, or until one more stop is asked for.
    /// Whether it ended.
    pub(crate) fn during(&mut self, work: impl FnOnce() + Send + 'static) -> bool {
        let (done, ended) = tokio::sync::oneshot::channel::<()>();
        let worker = std::thread::spawn(move || {
            work();
            drop(done);
        });
        let Signals { runtime, terminate, interrupt, .. } = self;
        let ended = runtime.block_on(async {
            tokio::select! {
                _ = ended => true,
                _ = terminate.recv() => false,
                _ = interrupt.recv() => false,
            }
        });
        if ended {
            let _ = worker.join();
        }
        ended
    }
}
