//! Applications that Larder runs.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// An application: processes that share one listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSettings {
    /// Its name in `app:NAME`, in the log and in figures.
    pub name: String,
    /// The program and its arguments. A program without a slash is searched in PATH.
    pub command: Vec<String>,
    /// The address of the socket.
    pub listen: AppListen,
    /// The protocol of its requests.
    pub protocol: AppProtocol,
    /// Processes at once, at least 1.
    pub processes: usize,
    /// User ID of the processes, with the name if it has one; None: Larder's.
    pub user: Option<(u32, Option<String>)>,
    /// Group ID of the processes; None: Larder's.
    pub group: Option<u32>,
    /// Variables beside those of Larder's own environment, or None for one that is not there.
    pub env: Vec<(String, Option<String>)>,
    /// Working directory; None: Larder's.
    pub cwd: Option<PathBuf>,
    /// Resource limits of each process, by name, in units of setrlimit(2).
    pub limits: Vec<(&'static str, u64)>,
    /// Age at which a process is replaced; None: it may stay.
    pub max_age: Option<Duration>,
    /// Requests to the application after which its oldest process is replaced; None: it may stay.
    pub max_requests: Option<u64>,
    /// Its use by the workers, under these settings.
    pub usage: Arc<AppUse>,
    /// Path that an HTTP application has to answer before it counts; None: a connection is enough.
    pub ready: Option<String>,
    /// Time for a new process until it is ready.
    pub start_timeout: Duration,
    /// Time for a process to end by itself (SIGTERM), before it is killed.
    pub stop_timeout: Duration,
}

/// The address of an application's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppListen {
    /// A unix socket; `own`: in a directory that Larder makes.
    Unix {
        /// The path.
        path: PathBuf,
        /// Whether the path was chosen by Larder.
        own: bool,
    },
    /// TCP.
    Tcp(SocketAddr),
}

/// The protocol of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppProtocol {
    /// FastCGI: the socket is descriptor 0.
    FastCgi,
    /// HTTP/1.1: the socket is descriptor 0 and descriptor 3 (`LISTEN_FDS`).
    Http,
}

/// The use of an application: the workers count, the thread that runs it reads.
#[derive(Debug, Default)]
pub struct AppUse {
    name: String,
    sent: AtomicU64,
    over: AtomicU64,
}

impl AppUse {
    /// That of an application without requests.
    pub fn new(name: &str) -> AppUse {
        AppUse { name: name.to_owned(), ..AppUse::default() }
    }

    /// The application's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests sent so far.
    pub fn requests(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Requests that wait for a process or are being answered: those whose answer has not begun.
    pub fn waiting(&self) -> u64 {
        let over = self.over.load(Relaxed);
        self.sent.load(Relaxed).saturating_sub(over)
    }

    /// A request is sent; its answer has begun, or there is none, when the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Asking {
        self.sent.fetch_add(1, Relaxed);
        Asking(self.clone())
    }
}

/// Figures are no settings.
impl PartialEq for AppUse {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for AppUse {}

/// A request whose answer has not begun.
#[derive(Debug)]
pub(crate) struct Asking(Arc<AppUse>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.over.fetch_add(1, Relaxed);
    }
}
