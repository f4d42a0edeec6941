//! Applications that Larder runs: processes that are started, watched and stopped.
//!
//! | file | |
//! |---|---|
//! | `mod.rs` | the thread, and what the main thread tells it |
//! | `socket.rs` | listening sockets: opened, replaced, taken away |
//! | `application.rs` | one application: its slots, reloads, ages |
//! | `slot.rs` | a place for one process, filled again whenever it ends |
//! | `process.rs` | one process: its start, its end, its group |
//! | `ready.rs` | asks an application whether it answers |
//! | `output.rs` | the lines that processes print |
//! | `guard.rs` | a process that ends all groups if Larder is killed |
//! | `reap.rs` | the duty of process 1 |
//!
//! All processes of an application take their requests from one listening socket, which stays open
//! in Larder: while a process is started again, connections wait in the kernel. Workers know
//! nothing of this room; an application is an origin with an address.

mod application;
mod guard;
mod output;
mod process;
mod ready;
mod reap;
mod slot;
mod socket;

use std::{collections::BTreeMap, io, sync::Arc, thread::JoinHandle};

use larder_server::{
    app::Apps,
    settings::{AppListen, AppSettings, Settings},
};
use tokio::{
    runtime::Builder,
    sync::{mpsc, oneshot},
    task::LocalSet,
};

pub(crate) use self::guard::{COMMAND as GUARD_COMMAND, run as run_guard};
use self::{application::Application, guard::Guard, socket::Listening};

/// Orders that may wait for the thread or for an application; each takes no more than a moment.
const ORDERS: usize = 16;

/// The order to an application.
#[derive(Debug)]
pub(crate) enum Order {
    /// Replaces all processes, one after the other, by ones with these settings.
    Replace(Arc<AppSettings>),
    /// Ends all processes.
    Stop,
}

/// The order to the thread.
enum Command {
    /// Runs these and no others. New sockets are beside the application.
    Run(Vec<(Arc<AppSettings>, Option<Listening>)>),
    /// Ends all processes, and then the thread; the sender is dropped at the end.
    Stop(oneshot::Sender<()>),
}

/// Sockets that were opened for new settings, and are not in use yet.
#[derive(Debug, Default)]
pub(crate) struct Opened(BTreeMap<String, Listening>);

/// The thread, as the main thread sees it.
#[derive(Default)]
pub(crate) struct Supervisor {
    /// Where the running applications listen.
    listening: BTreeMap<String, AppListen>,
    thread: Option<(mpsc::Sender<Command>, JoinHandle<()>)>,
}

impl Supervisor {
    /// Opens the sockets of applications that are new or moved. The error names the address.
    pub(crate) fn open(&self, settings: &Settings) -> Result<Opened, String> {
        let mut opened = BTreeMap::new();
        for app in &settings.apps {
            if self.listening.get(&app.name) != Some(&app.listen) {
                let listening = Listening::open(&app.listen)
                    .map_err(|reason| format!("app {}: {reason}", app.name))?;
                opened.insert(app.name.clone(), listening);
            }
        }
        Ok(Opened(opened))
    }

    /// Runs the applications of the settings with these sockets; those that run already are
    /// replaced, and others are stopped.
    pub(crate) fn run(
        &mut self,
        settings: &Settings,
        mut opened: Opened,
        state: Arc<Apps>,
    ) -> io::Result<()> {
        if self.thread.is_none() && (!settings.apps.is_empty() || reap::is_wanted()) {
            self.thread = Some(start(state)?);
        }
        let Some((commands, _)) = &self.thread else { return Ok(()) };
        let apps = settings.apps.iter();
        let apps = apps.map(|app| (app.clone(), opened.0.remove(&app.name))).collect();
        let listening = settings.apps.iter().map(|app| (app.name.clone(), app.listen.clone()));
        self.listening = listening.collect();
        commands.blocking_send(Command::Run(apps)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Ends all processes, and waits for that: at most for their `stop_timeout`.
    pub(crate) fn stop(self) {
        let Some((commands, thread)) = self.thread else { return };
        let (done, ended) = oneshot::channel();
        if commands.blocking_send(Command::Stop(done)).is_ok() {
            let _ = ended.blocking_recv();
        }
        drop(commands);
        let _ = thread.join();
    }
}

/// Processes are killed when the thread that started them ends (PR_SET_PDEATHSIG), so one thread
/// starts them all, and lives as long as the program.
fn start(state: Arc<Apps>) -> io::Result<(mpsc::Sender<Command>, JoinHandle<()>)> {
    let (send, commands) = mpsc::channel(ORDERS);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("larder-apps".to_owned());
    let thread = thread.spawn(move || {
        let local = LocalSet::new();
        local.block_on(&runtime, run(commands, state));
    })?;
    Ok((send, thread))
}

/// A running application.
struct Running {
    listen: AppListen,
    orders: mpsc::Sender<Order>,
    task: tokio::task::JoinHandle<()>,
}

async fn run(mut commands: mpsc::Receiver<Command>, state: Arc<Apps>) {
    let guard = Guard::new();
    tokio::task::spawn_local(guard.clone().keep());
    if reap::is_wanted() {
        tokio::task::spawn_local(reap::reap(guard.clone()));
    }
    let mut running: BTreeMap<String, Running> = BTreeMap::new();
    let mut leaving = Vec::new();
    while let Some(command) = commands.recv().await {
        let apps = match command {
            Command::Run(apps) => apps,
            Command::Stop(done) => {
                for (_, app) in std::mem::take(&mut running) {
                    let _ = app.orders.send(Order::Stop).await;
                    leaving.push(app.task);
                }
                for task in leaving.drain(..) {
                    let _ = task.await;
                }
                drop(done);
                return;
            }
        };
        let mut before = std::mem::take(&mut running);
        for (settings, opened) in apps {
            let name = settings.name.clone();
            if let Some(app) = before.remove(&name) {
                if opened.is_none() && app.listen == settings.listen {
                    let _ = app.orders.send(Order::Replace(settings)).await;
                    running.insert(name, app);
                    continue;
                }
                before.insert(name.clone(), app);
            }
            let Some(listening) = opened else { continue };
            let (orders, received) = mpsc::channel(ORDERS);
            let listen = settings.listen.clone();
            state.begin(&name);
            let app = Application::new(settings, listening, state.clone(), guard.clone());
            let task = tokio::task::spawn_local(app.run(received));
            if let Some(moved) = before.remove(&name) {
                let _ = moved.orders.send(Order::Stop).await;
                leaving.push(moved.task);
            }
            running.insert(name, Running { listen, orders, task });
        }
        for (_, app) in before {
            let _ = app.orders.send(Order::Stop).await;
            leaving.push(app.task);
        }
        leaving.retain(|task| !task.is_finished());
        state.retain(&running.keys().cloned().collect::<Vec<_>>());
    }
}
