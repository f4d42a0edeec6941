//! The admin interface: the dashboard, metrics, the API, and changes of stored pages.
//!
//! It runs on a thread of its own (`thread`) over axum, reads the counters of others, and walks the
//! store in steps. No client's request depends on it: a broken or flooded admin thread is
//! unreachable, and no more.
//!
//! | file | what |
//! |---|---|
//! | `thread`, `write_timeout` | the thread, its connections and their limits |
//! | `routes`, `guard`, `answer` | the table of routes; permissions; answers and errors in JSON |
//! | `plain`, `measured` | health, readiness, the dashboard's files, sites; figures |
//! | `control` | the unix socket for the same user and root, orders to the process |
//! | `events`, `live`, `tail`, `filter` | server-sent events: figures once a second, requests as they end |
//! | `purges` | purges and bans |
//! | `walk`, `objects`, `object` | stored pages: lists, and one page in full |
//! | `pages`, `monkey` | pages published by other programs; the routes of Monkey's cache plugin |
//! | `web` | the dashboard |

mod answer;
mod control;
mod documents;
mod errors;
mod events;
mod filter;
mod guard;
mod live;
mod measured;
mod monkey;
mod object;
mod objects;
mod page_url;
mod pages;
mod plain;
mod purges;
mod routes;
mod tail;
mod thread;
mod walk;
mod web;
mod write_timeout;

pub use documents::{Documents, provide_documents};

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
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    clock::{Clock, Ms},
    measure::Registry,
    memcache,
    net::tls::face_config,
    redis, request,
    settings::{AdminSettings, Secret, Settings},
    worker::Command,
};

pub use control::{Order, OrderKind};

/// Bytes of the token that is made if the configuration has none; as many bits as a key of AES-128.
const TOKEN_BYTES: usize = 16;

/// Time limit for the end of the admin thread. It owns nothing that has to be closed, so a longer
/// wait is useless.
const END: Duration = Duration::from_secs(1);

/// The arguments of the admin thread.
pub(crate) struct Start {
    pub(crate) settings: Arc<Settings>,
    /// With true: of TLS.
    pub(crate) listeners: Vec<(std::net::TcpListener, bool)>,
    /// For the same user and root.
    pub(crate) control: Option<std::os::unix::net::UnixListener>,
    /// Where the faces listen, for people.
    pub(crate) addresses: Vec<String>,
    pub(crate) clock: Clock,
    pub(crate) store: &'static Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) http: Option<Arc<request::pages::Shared>>,
    pub(crate) memcached: Option<Arc<memcache::Shared>>,
    pub(crate) redis: Option<Arc<redis::Shared>>,
    /// The command queue of each worker.
    pub(crate) commands: Vec<mpsc::Sender<Command>>,
}

/// A change of the listeners; with true: of TLS. There are as many as reloads that change them.
pub(crate) struct AdminListeners {
    pub(crate) opened: Vec<(std::net::TcpListener, bool)>,
    pub(crate) closed: Vec<(SocketAddr, bool)>,
}

/// The state of the admin interface, shared by all requests.
pub(crate) struct App {
    settings: RwLock<Arc<Settings>>,
    admin: RwLock<Arc<AdminSettings>>,
    /// For connections from now on; None: TLS is not spoken.
    tls: RwLock<Option<TlsAcceptor>>,
    /// The token if the configuration has none.
    random: Secret,
    clock: Clock,
    store: &'static Store,
    registry: Arc<Registry>,
    history: History,
    http: Option<Arc<request::pages::Shared>>,
    memcached: Option<Arc<memcache::Shared>>,
    redis: Option<Arc<redis::Shared>>,
    commands: Vec<mpsc::Sender<Command>>,
    draining: AtomicBool,
    stop: Notify,
    /// None: HTTP is not served.
    tail: Option<Arc<tail::Tail>>,
    watchers: live::Watchers,
    /// Permits for walks over the store.
    turns: walk::WalkPermits,
    /// Permits for uploads.
    uploads: Semaphore,
    /// Orders to the process, for its main thread.
    orders: mpsc::Sender<Order>,
    /// Where the faces listen, for people.
    addresses: RwLock<Vec<String>>,
    /// The task that accepts at the control socket.
    local: Mutex<Option<AbortHandle>>,
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

    /// Starts the background tasks; called once, on the thread's runtime.
    fn start_tasks(self: &Arc<App>) {
        tokio::spawn(live::tick(self.clone()));
        if let Some(tail) = &self.tail {
            for feed in tail.take_feeds() {
                tokio::spawn(tail::pass_on(self.clone(), tail.clone(), feed));
            }
        }
    }
}

/// The server's handle to the running admin interface.
pub(crate) struct Admin {
    app: Arc<App>,
    thread: Option<JoinHandle<()>>,
    addresses: Vec<(SocketAddr, bool)>,
    listeners: mpsc::UnboundedSender<AdminListeners>,
    token: String,
    orders: Option<mpsc::Receiver<Order>>,
}

/// The addresses and token of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminView {
    /// Its addresses, with the ports that the system chose; with true over TLS.
    pub addresses: Vec<(SocketAddr, bool)>,
    /// The token of this run; None: the configuration has one.
    pub token: Option<String>,
}

impl Admin {
    /// Starts the thread. Errors are those of the system: no listener, no thread, no randomness.
    pub(crate) fn start(start: Start, admin: AdminSettings) -> io::Result<Admin> {
        let token = random_token()?;
        let random = Secret::new(token.as_bytes()).ok_or(io::ErrorKind::InvalidData)?;
        let addresses = start
            .listeners
            .iter()
            .map(|(listener, tls)| Ok((listener.local_addr()?, *tls)))
            .collect::<io::Result<_>>()?;
        start.registry.set_name(admin.name.clone());
        let live = start.http.as_ref().and_then(|http| http.live.get());
        let (orders, orders_of_thread) = mpsc::channel(control::ORDERS);
        let tail = live.map(|live| tail::Tail::new(live.clone()));
        let app = Arc::new(App {
            tail,
            settings: RwLock::new(start.settings),
            tls: RwLock::new(acceptor(&admin).transpose().map_err(io::Error::other)?),
            admin: RwLock::new(Arc::new(admin)),
            random,
            clock: start.clock,
            store: start.store,
            registry: start.registry,
            history: History::default(),
            http: start.http,
            memcached: start.memcached,
            redis: start.redis,
            commands: start.commands,
            draining: AtomicBool::new(false),
            stop: Notify::new(),
            watchers: live::Watchers::default(),
            turns: walk::WalkPermits::default(),
            uploads: Semaphore::new(pages::UPLOADS),
            orders,
            addresses: RwLock::new(start.addresses),
            local: Mutex::default(),
        });
        let (listeners, of_thread_listeners) = mpsc::unbounded_channel();
        let _ = listeners.send(AdminListeners { opened: start.listeners, closed: Vec::new() });
        let (of_thread, control) = (app.clone(), start.control);
        // Made here: a lack of descriptors ends the start, not the interface of a server that runs.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("larder-admin".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = thread::run(&runtime, &of_thread, of_thread_listeners, control) {
                eprintln!("larder: the admin interface ended: {error}");
            }
        })?;
        let orders = Some(orders_of_thread);
        Ok(Admin { app, thread: Some(thread), addresses, listeners, token, orders })
    }

    /// Its addresses and token.
    pub(crate) fn view(&self) -> AdminView {
        let own = self.app.admin().token.is_none();
        AdminView { addresses: self.addresses.clone(), token: own.then(|| self.token.clone()) }
    }

    /// The orders of operators; once.
    pub(crate) fn take_orders(&mut self) -> Option<mpsc::Receiver<Order>> {
        self.orders.take()
    }

    /// Another process has the listeners, and the control socket.
    pub(crate) fn hand_over(&mut self) {
        let all: Vec<usize> = (0..self.addresses.len()).collect();
        self.relisten(Vec::new(), &all);
        if let Some(task) = self.app.local.lock().take() {
            task.abort();
        }
    }

    /// Opens these listeners, and closes those of these numbers among its addresses.
    pub(crate) fn relisten(
        &mut self,
        opened: Vec<(std::net::TcpListener, bool)>,
        closed: &[usize],
    ) {
        let closed = closed.iter().rev().map(|number| self.addresses.remove(*number)).collect();
        let named = |(listener, tls): &(std::net::TcpListener, bool)| {
            listener.local_addr().ok().map(|address| (address, *tls))
        };
        self.addresses.extend(opened.iter().filter_map(named));
        let _ = self.listeners.send(AdminListeners { opened, closed });
    }

    /// Takes new settings, with the token. `addresses`: where the faces listen, for people.
    pub(crate) fn reload(&self, settings: &Arc<Settings>, addresses: Vec<String>) {
        *self.app.addresses.write() = addresses;
        if let Some(admin) = &settings.admin {
            // The certificate in use stays where the new one cannot be used.
            if let Some(Ok(acceptor)) = acceptor(admin) {
                *self.app.tls.write() = Some(acceptor);
            }
            *self.app.admin.write() = Arc::new(admin.clone());
        }
        *self.app.settings.write() = settings.clone();
    }

    /// Reports the server as not ready: it stops.
    pub(crate) fn draining(&self) {
        self.app.draining.store(true, Ordering::Relaxed);
    }

    /// Ends the thread, its connections with it. If it is in the middle of long work, it ends with
    /// the process.
    pub(crate) fn end(&mut self) {
        self.app.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            join(thread, END);
        }
    }
}

/// Takes TLS off connections; None: it is not spoken.
fn acceptor(admin: &AdminSettings) -> Option<Result<TlsAcceptor, rustls::Error>> {
    Some(face_config(admin.tls.as_ref()?).map(TlsAcceptor::from))
}

/// Waits for the end of a thread, at most about this long. Returns whether it ended.
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

/// The machine's name.
pub(crate) fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
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
