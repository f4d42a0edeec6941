//! A place for one process of an application. When the process ends by itself, the next one is
//! started: at once, or after a wait if it ended early.

use std::{
    cell::Cell,
    os::fd::OwnedFd,
    process::ExitStatus,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use larder_server::{
    app::{Apps, Backoff, GOOD_RUN},
    settings::AppSettings,
};
use tokio::{
    sync::oneshot,
    task::{JoinHandle, spawn_local},
    time::{sleep, timeout},
};

use super::{guard::Guard, output::Output, process::Process};
use crate::launch::plain;

/// Time in which a process ends that cannot run.
const SETTLE: Duration = Duration::from_millis(200);

/// Shared by the slots of an application.
pub(super) struct Common {
    pub(super) name: String,
    pub(super) state: Arc<Apps>,
    pub(super) guard: Rc<Guard>,
    pub(super) output: Rc<Output>,
    /// Slots whose processes end again and again.
    pub(super) looping: Cell<usize>,
    /// Notified when that changes.
    pub(super) changed: tokio::sync::Notify,
}

/// A slot, filled by a task.
pub(super) struct Slot {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    facts: Rc<Facts>,
    pub(super) began: Instant,
}

/// How the processes of a slot did.
#[derive(Default)]
struct Facts {
    /// Processes that ended, or could not be started.
    ended: Cell<usize>,
}

impl Slot {
    pub(super) fn start(
        common: &Rc<Common>,
        settings: &Arc<AppSettings>,
        socket: &Arc<OwnedFd>,
    ) -> Slot {
        let (stop, stopped) = oneshot::channel();
        let facts = Rc::<Facts>::default();
        let filling = Filling {
            common: common.clone(),
            settings: settings.clone(),
            socket: socket.clone(),
            facts: facts.clone(),
            backoff: Backoff::default(),
            looping: false,
        };
        let task = spawn_local(filling.run(stopped));
        Slot { stop, task, facts, began: Instant::now() }
    }

    /// Whether no process of it has ended so far.
    pub(super) fn is_good(&self) -> bool {
        self.facts.ended.get() == 0
    }

    /// Gives its process the time in which it would end if it cannot run. Whether it runs.
    pub(super) async fn settle(&self) -> bool {
        let mut left = SETTLE.as_millis() / LOOK.as_millis();
        while left > 0 && self.is_good() {
            sleep(LOOK).await;
            left -= 1;
        }
        self.is_good()
    }

    /// Ends its process. The task that does so is the result.
    pub(super) fn stop(self) -> JoinHandle<()> {
        let _ = self.stop.send(());
        self.task
    }
}

const LOOK: Duration = Duration::from_millis(10);

struct Filling {
    common: Rc<Common>,
    settings: Arc<AppSettings>,
    socket: Arc<OwnedFd>,
    facts: Rc<Facts>,
    backoff: Backoff,
    looping: bool,
}

impl Filling {
    async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        loop {
            let Common { output, guard, .. } = &*self.common;
            let began = Instant::now();
            let reason = match Process::start(&self.settings, &self.socket, output, guard) {
                Ok(process) => match self.watch(process, &mut stop).await {
                    Some(reason) => reason,
                    None => break,
                },
                Err(error) => {
                    self.note(|state| state.failures += 1);
                    format!("cannot start: {}", plain(&error))
                }
            };
            self.facts.ended.set(self.facts.ended.get() + 1);
            let wait = self.backoff.ended(began.elapsed());
            self.tell(&reason, wait);
            self.note(|state| state.reason = Some(reason));
            if timeout(wait, &mut stop).await.is_ok() {
                break;
            }
            self.note(|state| state.restarts += 1);
        }
        self.set_looping(false);
    }

    /// Waits until the process ends by itself; the result is the reason. None: it was stopped.
    async fn watch(
        &mut self,
        mut process: Process,
        stop: &mut oneshot::Receiver<()>,
    ) -> Option<String> {
        let number = process.number();
        self.note(|state| state.running.push(number));
        let status = loop {
            let good = async {
                match self.looping {
                    true => sleep(GOOD_RUN).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                status = process.wait() => break Some(status),
                () = good => {
                    self.set_looping(false);
                    eprintln!("larder: app {}[{number}]: runs again", self.common.name);
                }
                _ = &mut *stop => break None,
            }
        };
        if status.is_none() {
            process.stop(self.settings.stop_timeout).await;
        }
        self.note(|state| state.running.retain(|pid| *pid != number));
        let status = status?;
        Some(format!("process {number} ended: {}", status.map_or_else(|e| plain(&e), describe)))
    }

    /// Each end is told; waits keep the lines few.
    fn tell(&mut self, reason: &str, wait: Duration) {
        let name = &self.common.name;
        if self.backoff.is_loop() && !self.looping {
            eprintln!(
                "larder: app {name}: {reason}; its processes end again and again: from now on they \
                 are started after waits of up to 10 s"
            );
            self.set_looping(true);
        } else if wait.is_zero() {
            eprintln!("larder: app {name}: {reason}; started again");
        } else {
            eprintln!("larder: app {name}: {reason}; next start in {} ms", wait.as_millis());
        }
    }

    fn set_looping(&mut self, looping: bool) {
        if looping == std::mem::replace(&mut self.looping, looping) {
            return;
        }
        let common = &self.common;
        let count = common.looping.get();
        common.looping.set(if looping { count + 1 } else { count - 1 });
        let failing = common.looping.get() > 0;
        self.note(|state| state.failing = failing);
        common.changed.notify_one();
    }

    fn note(&self, change: impl FnOnce(&mut larder_server::app::AppState)) {
        self.common.state.note(&self.common.name, change);
    }
}

/// "exit code 3", "signal 9".
fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;

    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
