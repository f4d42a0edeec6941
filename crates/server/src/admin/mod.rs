//! The admin interface: the dashboard, metrics, the API, and the ways to change what is stored.
//!
//! It runs on a thread of its own (`thread`) over axum, reads what others count, and walks the
//! store in steps. Nothing here is on the way of a client's request: the worst a broken or flooded
//! admin thread does is to be unreachable.
//!
//! | file | what |
//! |---|---|
//! | `thread`, `patient` | the thread, its connections and their limits |
//! | `routes`, `guard`, `answer` | the table of routes; who may; answers and errors in JSON |
//! | `plain`, `measured` | health, readiness, the dashboard's files, sites; figures |
//! | `events`, `live`, `tail`, `filter` | server-sent events: figures once a second, requests as they end |
//! | `purges`, `ban` | purging, and the expressions of bans |
//! | `walk`, `objects`, `object` | what is stored: lists, and one page in full |
//! | `pages`, `monkey` | pages published by other programs; the routes of Monkey's cache plugin |
//! | `web` | the dashboard |

mod answer;
mod events;
mod filter;
mod guard;
mod live;
mod measured;
mod monkey;
mod object;
mod objects;
mod pages;
mod patient;
mod place;
mod plain;
mod purges;
mod routes;
mod tail;
mod thread;
mod walk;
mod web;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use larder_metrics::History;
use larder_store::Store;
use parking_lot::RwLock;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::{
    clock::{Clock, Ms},
    measure::Registry,
    memcache, redis, request,
    settings::{AdminSettings, Secret, Settings},
    worker::Order,
};

/// Bytes of the token made for a run where no file has one; as many bits as a key of AES-128.
const TOKEN_BYTES: usize = 16;

/// For the admin thread to end when the server does: nothing it holds needs an end, so it is not
/// worth a longer stop.
const END: Duration = Duration::from_secs(1);

/// What the admin thread is started with.
pub(crate) struct Start {
    pub(crate) settings: Arc<Settings>,
    pub(crate) listeners: Vec<std::net::TcpListener>,
    pub(crate) clock: Clock,
    pub(crate) store: &'static Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) http: Option<Arc<request::pages::Shared>>,
    pub(crate) memcached: Option<Arc<memcache::Shared>>,
    pub(crate) redis: Option<Arc<redis::Shared>>,
    /// To each worker.
    pub(crate) orders: Vec<mpsc::Sender<Order>>,
}

/// What every request to the admin interface finds.
pub(crate) struct App {
    settings: RwLock<Arc<Settings>>,
    admin: RwLock<Arc<AdminSettings>>,
    /// What permits changes where no file says.
    random: Secret,
    clock: Clock,
    store: &'static Store,
    registry: Arc<Registry>,
    history: History,
    http: Option<Arc<request::pages::Shared>>,
    memcached: Option<Arc<memcache::Shared>>,
    redis: Option<Arc<redis::Shared>>,
    orders: Vec<mpsc::Sender<Order>>,
    draining: AtomicBool,
    stop: Notify,
    /// None: HTTP is not served.
    tail: Option<Arc<tail::Tail>>,
    watchers: live::Watchers,
    /// For walks over the store.
    turns: walk::Turns,
    /// For pages that come in.
    uploads: Semaphore,
}

impl App {
    fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    fn admin(&self) -> Arc<AdminSettings> {
        self.admin.read().clone()
    }

    fn now(&self) -> Ms {
        self.clock.now()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    async fn stopped(&self) {
        self.stop.notified().await;
    }

    /// Starts what runs besides the requests; called once, on the thread's runtime.
    fn start_tasks(self: &Arc<App>) {
        tokio::spawn(live::tick(self.clone()));
        if let Some(tail) = &self.tail {
            for feed in tail.take_feeds() {
                tokio::spawn(tail::pass_on(self.clone(), tail.clone(), feed));
            }
        }
    }
}

/// The running admin interface, as the server holds it.
pub(crate) struct Admin {
    app: Arc<App>,
    thread: Option<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
    token: String,
}

/// Where the admin interface is, and how to get in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminView {
    /// Where it listens, with the ports the system picked.
    pub addresses: Vec<SocketAddr>,
    /// The token of this run; None: the one in the file counts.
    pub token: Option<String>,
}

impl Admin {
    /// Starts the thread. An error is one of the system: no listener, no thread, no randomness.
    pub(crate) fn start(start: Start, admin: AdminSettings) -> io::Result<Admin> {
        let token = random_token()?;
        let random = Secret::new(token.as_bytes()).ok_or(io::ErrorKind::InvalidData)?;
        let addresses =
            start.listeners.iter().map(std::net::TcpListener::local_addr).collect::<Result<_, _>>()?;
        start.registry.set_name(admin.name.clone());
        let live = start.http.as_ref().and_then(|http| http.live.get());
        let tail = live.map(|live| tail::Tail::new(live.clone()));
        let app = Arc::new(App {
            tail,
            settings: RwLock::new(start.settings),
            admin: RwLock::new(Arc::new(admin)),
            random,
            clock: start.clock,
            store: start.store,
            registry: start.registry,
            history: History::default(),
            http: start.http,
            memcached: start.memcached,
            redis: start.redis,
            orders: start.orders,
            draining: AtomicBool::new(false),
            stop: Notify::new(),
            watchers: live::Watchers::default(),
            turns: walk::Turns::default(),
            uploads: Semaphore::new(pages::UPLOADS),
        });
        let (of_thread, listeners) = (app.clone(), start.listeners);
        let thread = std::thread::Builder::new().name("larder-admin".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = thread::run(&of_thread, listeners) {
                eprintln!("larder: the admin interface ended: {error}");
            }
        })?;
        Ok(Admin { app, thread: Some(thread), addresses, token })
    }

    /// Where it is, and how to get in.
    pub(crate) fn view(&self) -> AdminView {
        let own = self.app.admin().token.is_none();
        AdminView { addresses: self.addresses.clone(), token: own.then(|| self.token.clone()) }
    }

    /// New settings, a new token among them.
    pub(crate) fn reload(&self, settings: &Arc<Settings>) {
        if let Some(admin) = &settings.admin {
            *self.app.admin.write() = Arc::new(admin.clone());
        }
        *self.app.settings.write() = settings.clone();
    }

    /// From now on the server is not ready: it stops.
    pub(crate) fn draining(&self) {
        self.app.draining.store(true, Ordering::Relaxed);
    }

    /// Ends the thread, its connections with it. One that is in the middle of long work is left to
    /// the end of the process.
    pub(crate) fn end(&mut self) {
        self.app.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            join(thread, END);
        }
    }
}

/// Waits for a thread's end, at most about so long; whether it ended.
fn join(thread: JoinHandle<()>, patience: Duration) -> bool {
    let mut left = patience;
    while !thread.is_finished() {
        if left.is_zero() {
            return false;
        }
        let step = left.min(Duration::from_millis(5));
        std::thread::sleep(step);
        left -= step;
    }
    thread.join().is_ok()
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_busy_does_not_hold_up_the_end() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            let _ = held.recv();
        });
        assert!(!join(busy, Duration::from_millis(20)));
        drop(hold);
        assert!(join(std::thread::spawn(|| ()), Duration::from_secs(60)));
    }
}
