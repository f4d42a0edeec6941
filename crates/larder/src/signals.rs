//! Signals: SIGHUP reloads, SIGUSR1 prints the statistics, SIGUSR2 upgrades, SIGTERM and SIGINT
//! stop. New certificates and the orders of the control socket arrive here too.

use std::{io, sync::Arc, time::Duration};

use larder_server::Order;
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, mpsc, oneshot},
    time::{sleep, timeout},
};

/// The request of a signal.
#[derive(Debug)]
pub(crate) enum SignalRequest {
    /// SIGHUP.
    Reload,
    /// SIGUSR1.
    Statistics,
    /// SIGUSR2.
    Upgrade,
    /// SIGTERM or SIGINT.
    Stop,
    /// A certificate was ordered.
    Certificates,
    /// It came over the control socket.
    Order(Order),
    /// It is time for a sign of life.
    Watchdog,
}

/// Installed signal handlers, with a small runtime that waits for them. The caller is outside of
/// that runtime, so that it may block.
pub(crate) struct Signals {
    runtime: Runtime,
    hangup: Signal,
    user: Signal,
    user2: Signal,
    terminate: Signal,
    interrupt: Signal,
    renewed: Arc<Notify>,
    /// A stop was requested while something else was done.
    stopped: bool,
}

impl Signals {
    /// Installs the handlers, before the server starts: a signal must neither be lost nor kill a
    /// half-started server.
    pub(crate) fn install() -> io::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _inside = runtime.enter();
        let hangup = signal(SignalKind::hangup())?;
        let user = signal(SignalKind::user_defined1())?;
        let user2 = signal(SignalKind::user_defined2())?;
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(_inside);
        let renewed = Arc::default();
        Ok(Signals { runtime, hangup, user, user2, terminate, interrupt, renewed, stopped: false })
    }

    /// Notified for each certificate that was ordered.
    pub(crate) fn renewed(&self) -> Arc<Notify> {
        self.renewed.clone()
    }

    /// Waits for the next one, or for the time of the watchdog.
    pub(crate) fn wait(
        &mut self,
        orders: &mut Option<mpsc::Receiver<Order>>,
        watchdog: Option<Duration>,
    ) -> SignalRequest {
        if std::mem::take(&mut self.stopped) {
            return SignalRequest::Stop;
        }
        let Signals { runtime, hangup, user, user2, terminate, interrupt, renewed, .. } = self;
        let order = async {
            match orders {
                Some(orders) => orders.recv().await,
                None => None,
            }
        };
        let beat = async {
            match watchdog {
                Some(watchdog) => sleep(watchdog).await,
                None => std::future::pending().await,
            }
        };
        runtime.block_on(async {
            tokio::select! {
                Some(order) = order => SignalRequest::Order(order),
                () = beat => SignalRequest::Watchdog,
                _ = hangup.recv() => SignalRequest::Reload,
                _ = user.recv() => SignalRequest::Statistics,
                _ = user2.recv() => SignalRequest::Upgrade,
                _ = terminate.recv() => SignalRequest::Stop,
                _ = interrupt.recv() => SignalRequest::Stop,
                () = renewed.notified() => SignalRequest::Certificates,
            }
        })
    }

    /// Whether a stop was requested; it is still there for the next wait.
    pub(crate) fn is_stopped(&mut self) -> bool {
        let Signals { runtime, terminate, interrupt, .. } = self;
        let stopped = runtime.block_on(async {
            tokio::select! {
                biased;
                _ = terminate.recv() => true,
                _ = interrupt.recv() => true,
                () = tokio::task::yield_now() => false,
            }
        });
        self.stopped |= stopped;
        self.stopped
    }

    /// Whether all of these answer within this time.
    pub(crate) fn all_answer(&self, asked: Vec<oneshot::Receiver<()>>, within: Duration) -> bool {
        let all = async {
            for answer in asked {
                answer.await.ok()?;
            }
            Some(())
        };
        self.runtime.block_on(async { matches!(timeout(within, all).await, Ok(Some(()))) })
    }

    /// Runs `work` on a thread of its own until it ends, or until another stop is requested.
    /// Returns whether it ended.
    pub(crate) fn during(&mut self, work: impl FnOnce() + Send + 'static) -> bool {
        let (done, ended) = oneshot::channel::<()>();
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
