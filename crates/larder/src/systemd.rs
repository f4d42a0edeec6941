//! The two sides of a service manager, both by sockets and the environment: what is told to it
//! (sd_notify(3)), and the listening sockets that it hands over (sd_listen_fds(3)).

use std::{
    env, io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

use larder_server::{
    Inherited, InheritedSocket,
    settings::{Listen, Settings},
};
use listenfd::ListenFd;

/// The variables that are about this process alone, not about those that it starts.
pub(crate) const VARIABLES: [&str; 7] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    crate::upgrade::VARIABLE,
];

/// Tells the service manager a state, if there is one that listens.
pub(crate) fn notify(state: &str) {
    if let Err(error) = send(state) {
        eprintln!("larder: warning: the service manager is not told {state:?}: {error}");
    }
}

fn send(state: &str) -> io::Result<()> {
    let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// The configuration is being read again, with the time that `Type=notify-reload` wants.
pub(crate) fn notify_reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// The time between two signs of life: half of what the service manager waits for one. None: it
/// waits for none.
pub(crate) fn watchdog() -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    let meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && meant)?;
    Some(Duration::from_micros(micros / 2).max(Duration::from_millis(1)))
}

/// Takes the sockets that were handed over. One whose name is that of a face (`http`, `https`,
/// `memcached`, `redis`, `queue`, `admin`) replaces the configured addresses of this face; another
/// is used if its address is configured.
pub(crate) fn inherit() -> (Inherited, Named) {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut handed = ListenFd::from_env();
    let (mut sockets, mut named) = (Vec::new(), Named::default());
    for index in 0..handed.len() {
        let name = names.next().unwrap_or_default();
        match socket(&mut handed, index) {
            Ok(Some(socket)) => {
                named.note(name, &socket);
                sockets.push(socket);
            }
            Ok(None) => {}
            Err(error) => {
                eprintln!("larder: warning: descriptor {} is not used: {error}", index + 3);
            }
        }
    }
    (Inherited::new(sockets), named)
}

fn socket(handed: &mut ListenFd, index: usize) -> io::Result<Option<InheritedSocket>> {
    if let Ok(Some(listener)) = handed.take_tcp_listener(index) {
        return Ok(Some(InheritedSocket::Tcp(listener)));
    }
    if let Ok(Some(socket)) = handed.take_udp_socket(index) {
        return Ok(Some(InheritedSocket::Udp(socket)));
    }
    let listener = handed.take_unix_listener(index)?;
    Ok(listener.map(InheritedSocket::Unix))
}

/// The addresses of the sockets that are named like a face.
#[derive(Clone, Default)]
pub(crate) struct Named {
    pub(crate) http: Vec<std::net::SocketAddr>,
    pub(crate) https: Vec<std::net::SocketAddr>,
    pub(crate) admin: Vec<std::net::SocketAddr>,
    pub(crate) memcached: Vec<Listen>,
    pub(crate) redis: Vec<Listen>,
    pub(crate) queue: Vec<Listen>,
}

/// An address in one word: `127.0.0.1:80`, `/run/socket`.
pub(crate) fn in_words(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) => address.to_string(),
        Listen::Unix { path, .. } => path.display().to_string(),
    }
}

impl Named {
    fn note(&mut self, name: &str, socket: &InheritedSocket) {
        let (tcp, listen) = match socket {
            InheritedSocket::Tcp(listener) => {
                let Ok(address) = listener.local_addr() else { return };
                (Some(address), Listen::Tcp(address))
            }
            InheritedSocket::Unix(listener) => {
                let Ok(address) = listener.local_addr() else { return };
                let Some(path) = address.as_pathname() else { return };
                (None, Listen::Unix { path: path.to_owned(), mode: 0o600 })
            }
            InheritedSocket::Udp(_) => return,
        };
        self.enter(name, tcp, listen);
    }

    /// Notes an address in one word.
    pub(crate) fn add(&mut self, name: &str, at: &str) {
        match at.parse() {
            Ok(address) => self.enter(name, Some(address), Listen::Tcp(address)),
            Err(_) => {
                let listen = Listen::Unix { path: at.into(), mode: 0o600 };
                self.enter(name, None, listen);
            }
        }
    }

    fn enter(&mut self, name: &str, tcp: Option<std::net::SocketAddr>, listen: Listen) {
        match name {
            "http" => self.http.extend(tcp),
            "https" => self.https.extend(tcp),
            "admin" => self.admin.extend(tcp),
            "memcached" => self.memcached.push(listen),
            "redis" => self.redis.push(listen),
            "queue" => self.queue.push(listen),
            _ => {}
        }
    }

    /// A face that is not configured stays off.
    pub(crate) fn replace(&self, settings: &mut Settings) {
        fn set<T: Clone>(listen: &mut Vec<T>, with: &[T]) {
            if !with.is_empty() {
                *listen = with.to_vec();
            }
        }
        set(&mut settings.http.listen, &self.http);
        if let Some(https) = &mut settings.https {
            set(&mut https.listen, &self.https);
        }
        if let Some(admin) = &mut settings.admin {
            set(&mut admin.listen, &self.admin);
        }
        if let Some(face) = &mut settings.memcached {
            set(&mut face.listen, &self.memcached);
        }
        if let Some(face) = &mut settings.redis {
            set(&mut face.listen, &self.redis);
        }
        if let Some(face) = &mut settings.queue {
            set(&mut face.listen, &self.queue);
        }
    }
}
