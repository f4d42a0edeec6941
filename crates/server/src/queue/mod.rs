//! The queue face: Kestrel's commands over the queues of `larder-queue`.
//!
//! | file | contents |
//! |---|---|
//! | `session.rs` | one client's session: its commands, values on their way in and out |
//! | `items.rs` | items on their way to a client |
//! | `seat.rs` | requests of sessions to the owner, and its answers |
//! | `owner.rs` | the thread that owns all queues: commands |
//! | `fans.rs` | items for queues with children |
//! | `commit.rs` | the end of its batches: group commit, answers |
//! | `waiters.rs` | readers that wait for an item |
//! | `syncer.rs` | the thread that waits for the device |
//! | `stats.rs` | statistics and configuration as text |
//! | `face.rs`, `figures.rs` | the face for the connection loop; its metrics |
//!
//! One [`Shared`] per process, one [`Face`] per worker, one `Session` per client. A session has at
//! most one request under way, so the owner's inbox is bounded by the number of clients.

mod commit;
mod face;
mod fans;
mod figures;
mod items;
mod owner;
mod seat;
mod session;
mod stats;
mod syncer;
mod waiters;

use std::{
    io,
    net::IpAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::Sender,
    },
    thread::JoinHandle,
};

use larder_queue::Figures;
use parking_lot::{Mutex, RwLock};

use self::{owner::Owner, seat::Message, session::Session};
use crate::{
    clock::{Clock, Ms},
    object::{self, COMMANDS, Client, Clients, Limits, TurnTime},
    room::Room,
    settings::QueueSettings,
};

/// Answer to a connection beyond the limit.
const REFUSAL: &[u8] = b"ERROR Too many open connections\r\n";

larder_metrics::counters! {
    /// Counters of one worker since its start.
    pub(crate) struct Counters {
        /// Accepted connections, including refused ones.
        total_connections,
        /// Connections refused because the limit was reached.
        rejected_connections,
        /// Bytes received.
        bytes_read,
        /// Bytes sent.
        bytes_written,
    }
}

/// The state of all queues as the owner has published it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// By name.
    pub(crate) queues: Vec<(String, Figures)>,
    /// Readers that wait for an item.
    pub(crate) waiting: u64,
    /// Memory of items, in bytes.
    pub(crate) memory: u64,
    /// Files were not written, or not had on the device.
    pub(crate) failures: u64,
}

/// State shared by all workers and the owner.
pub(crate) struct Shared {
    settings: RwLock<Arc<QueueSettings>>,
    pub(crate) clients: Arc<Clients>,
    /// One set of counters per worker.
    pub(crate) counters: Box<[Arc<Counters>]>,
    /// When the process started.
    pub(crate) started: Ms,
    /// Clients are disconnected because the server stops: that is no abort of their reads.
    stopping: AtomicBool,
    /// The owner's inbox.
    inbox: Sender<Message>,
    owner: Mutex<Option<JoinHandle<()>>>,
    pub(crate) published: RwLock<Published>,
}

impl Shared {
    /// Opens the queues and starts their owner.
    pub(crate) fn start(
        settings: QueueSettings,
        room: &Arc<Room>,
        clock: Clock,
        workers: usize,
    ) -> io::Result<Arc<Shared>> {
        let (inbox, messages) = std::sync::mpsc::channel();
        let queues = owner::open(&settings, clock.now())?;
        let shared = Arc::new(Shared {
            settings: RwLock::new(Arc::new(settings)),
            clients: Clients::new(room),
            counters: (0..workers).map(|_| Arc::default()).collect(),
            started: clock.now(),
            stopping: AtomicBool::new(false),
            inbox: inbox.clone(),
            owner: Mutex::default(),
            published: RwLock::default(),
        });
        let owner = Owner::new(shared.clone(), queues, inbox, messages, clock)?;
        let thread = std::thread::Builder::new().name("larder-queue".to_owned());
        *shared.owner.lock() = Some(thread.spawn(move || owner.run())?);
        Ok(shared)
    }

    /// The current settings.
    pub(crate) fn settings(&self) -> Arc<QueueSettings> {
        self.settings.read().clone()
    }

    /// Replaces the settings.
    pub(crate) fn reload(&self, settings: QueueSettings) {
        let rules = settings.rules.clone();
        *self.settings.write() = Arc::new(settings);
        let _ = self.inbox.send(Message::Rules(rules));
    }

    /// Clients are disconnected from now on because the server stops.
    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Whether the queues could be closed now: everything is written. To be asked before clients
    /// are disconnected for an upgrade.
    pub(crate) fn write(&self) -> Result<(), String> {
        self.ask(Message::Write)
    }

    /// Another process is about to open the queues: they are closed when this returns. Clients are
    /// gone by then.
    pub(crate) fn release(&self) -> Result<(), String> {
        self.ask(Message::Release)
    }

    fn ask(&self, message: fn(Sender<io::Result<()>>) -> Message) -> Result<(), String> {
        let (done, result) = std::sync::mpsc::channel();
        let _ = self.inbox.send(message(done));
        match result.recv() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the queues cannot be closed: {error}")),
            Err(_) => Err("the queues' thread has ended".to_owned()),
        }
    }

    /// It has not, or has ended: this process goes on with them.
    pub(crate) fn take_back(&self) {
        self.stopping.store(false, Relaxed);
        let _ = self.inbox.send(Message::TakeBack);
    }

    /// Writes everything, and ends the owner.
    pub(crate) fn end(&self) {
        let _ = self.inbox.send(Message::End);
        if let Some(owner) = self.owner.lock().take() {
            let _ = owner.join();
        }
    }
}

impl object::Shared for Shared {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn limits(&self) -> Limits {
        let settings = self.settings.read();
        Limits {
            connections: settings.connections,
            connections_fast: true,
            idle: settings.idle_timeout.as_millis() as Ms,
            receive: settings.receive_timeout.as_millis() as Ms,
            send: settings.send_timeout.as_millis() as Ms,
            gather: 0,
            commands: COMMANDS,
            backlog: settings.backlog,
        }
    }

    fn announces(&self, _address: IpAddr) -> bool {
        false
    }

    fn refusal(&self) -> &'static [u8] {
        REFUSAL
    }
}

/// One worker's view of the face.
pub(crate) struct Face {
    pub(crate) shared: Arc<Shared>,
    /// Counters of this worker, its only writer.
    counters: Arc<Counters>,
    turn_time: TurnTime,
    inbox: Sender<Message>,
}

impl Face {
    pub(crate) fn new(shared: &Arc<Shared>, worker: usize) -> Rc<Face> {
        Rc::new(Face {
            shared: shared.clone(),
            counters: shared.counters.get(worker).cloned().unwrap_or_default(),
            turn_time: TurnTime::default(),
            inbox: shared.inbox.clone(),
        })
    }

    fn open(self: &Rc<Face>, client: Arc<Client>) -> Session {
        Session::new(self.clone(), client)
    }
}

/// Disconnects all clients if the owner fails: nobody would answer them.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.clients.list().iter().for_each(|client| client.kill());
        }
    }
}
