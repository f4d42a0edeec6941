//! The sockets of all faces.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use super::{FaceName, StartError, memory::random};
use crate::{
    net::{
        inherited::{Handed, Inherited},
        listen::{self, Address, Listener, Manner},
        quic::Handover,
    },
    settings::{FaceTls, Listen, Settings},
    worker::Relisten,
};

/// Connections the kernel keeps waiting per HTTP listener.
const BACKLOG: i32 = 4096;
/// The same for the admin interface.
const ADMIN_BACKLOG: i32 = 64;

/// An address of the settings; the one that is bound may have a port that the system chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Stream(Listen),
    Datagrams(SocketAddr),
}

/// All addresses of the settings but those of the admin interface and of HTTP/3, which is served at
/// the addresses of HTTPS.
pub(super) fn wanted(settings: &Settings) -> Vec<(FaceName, Wanted)> {
    fn add(all: &mut Vec<(FaceName, Wanted)>, face: FaceName, listen: &[Listen]) {
        all.extend(listen.iter().map(|listen| (face, Wanted::Stream(listen.clone()))));
    }
    fn of_tls(tls: &Option<FaceTls>) -> &[Listen] {
        tls.as_ref().map_or(&[], |tls| &tls.listen)
    }
    let mut all = Vec::new();
    add(&mut all, FaceName::Http, &tcp(&settings.http.listen));
    if let Some(https) = &settings.https {
        add(&mut all, FaceName::Https, &tcp(&https.listen));
    }
    if let Some(face) = &settings.memcached {
        add(&mut all, FaceName::Memcached, &face.listen);
        add(&mut all, FaceName::MemcachedTls, of_tls(&face.tls));
        all.extend(face.udp.iter().map(|at| (FaceName::Memcached, Wanted::Datagrams(*at))));
    }
    if let Some(face) = &settings.redis {
        add(&mut all, FaceName::Redis, &face.listen);
        add(&mut all, FaceName::RedisTls, of_tls(&face.tls));
    }
    // They answer for pages.
    if settings.serves_pages() {
        let icp = settings.family.icp.iter().flat_map(|icp| &icp.listen);
        all.extend(icp.map(|at| (FaceName::Icp, Wanted::Datagrams(*at))));
        let htcp = settings.family.htcp.iter().flat_map(|htcp| &htcp.listen);
        all.extend(htcp.map(|at| (FaceName::Htcp, Wanted::Datagrams(*at))));
    }
    if let Some(face) = &settings.queue {
        add(&mut all, FaceName::Queue, &face.listen);
    }
    all
}

/// The addresses of the admin interface; with true over TLS.
pub(super) fn wanted_admin(settings: &Settings) -> Vec<(SocketAddr, bool)> {
    let Some(admin) = &settings.admin else { return Vec::new() };
    let plain = admin.listen.iter().map(|address| (*address, false));
    let secured = admin.tls.iter().flat_map(|tls| &tls.listen);
    let secured = secured.filter_map(|listen| match listen {
        Listen::Tcp(address) => Some((*address, true)),
        Listen::Unix { .. } => None,
    });
    plain.chain(secured).collect()
}

fn tcp(listen: &[SocketAddr]) -> Vec<Listen> {
    listen.iter().copied().map(Listen::Tcp).collect()
}

/// How the listeners of a face are.
fn manner(face: FaceName, settings: &Settings) -> Manner {
    let (sndbuf, backlog) = match face {
        FaceName::Http | FaceName::Https | FaceName::Http3 => (settings.http.sndbuf, BACKLOG),
        FaceName::Memcached | FaceName::MemcachedTls => {
            (0, settings.memcached.as_ref().map_or(BACKLOG, |face| face.backlog))
        }
        FaceName::Redis | FaceName::RedisTls => {
            (0, settings.redis.as_ref().map_or(BACKLOG, |face| face.backlog))
        }
        FaceName::Icp | FaceName::Htcp => (0, BACKLOG),
        FaceName::Queue => (0, settings.queue.as_ref().map_or(BACKLOG, |face| face.backlog)),
    };
    Manner { sndbuf, backlog, shared: false }
}

/// The sockets of all faces, for each worker; taken from the end, the last worker's first.
#[derive(Default)]
pub(super) struct Sockets {
    pub(super) http: Vec<Vec<Listener>>,
    pub(super) https: Vec<Vec<Listener>>,
    pub(super) quic: Vec<Vec<(UdpSocket, Handover)>>,
    pub(super) memcached: Vec<Vec<Listener>>,
    pub(super) memcached_tls: Vec<Vec<Listener>>,
    /// Of memcached; of ICP and HTCP, which the first worker serves.
    pub(super) udp: Vec<Vec<(FaceName, UdpSocket)>>,
    pub(super) redis: Vec<Vec<Listener>>,
    pub(super) redis_tls: Vec<Vec<Listener>>,
    pub(super) queue: Vec<Vec<Listener>>,
    /// Of the one admin thread; with true of TLS.
    pub(super) admin: Vec<(TcpListener, bool)>,
    pub(super) addresses: Vec<(FaceName, Address)>,
    /// The address in the settings for each of these.
    pub(super) wanted: Vec<Wanted>,
    /// Copies of all of them, for a process that takes over.
    pub(super) kept: Vec<Kept>,
}

/// Copies of the sockets of one address.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) name: String,
    /// Its file belongs to another program.
    pub(super) foreign: bool,
    pub(super) sockets: Vec<OwnedFd>,
}

impl From<Kept> for Handed {
    fn from(Kept { name, foreign, sockets }: Kept) -> Handed {
        Handed { name, foreign, sockets }
    }
}

impl Kept {
    /// Whether it is the socket of this file.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.name.split_once(" unix ").is_some_and(|(_, at)| Path::new(at) == path)
    }

    fn of<'s>(
        name: String,
        foreign: bool,
        sockets: impl IntoIterator<Item = BorrowedFd<'s>>,
    ) -> io::Result<Kept> {
        let sockets = sockets.into_iter().map(|socket| socket.try_clone_to_owned());
        Ok(Kept { name, foreign, sockets: sockets.collect::<io::Result<_>>()? })
    }
}

/// The name of an address for another process.
pub(super) fn name_of(face: FaceName, wanted: &Wanted) -> String {
    match wanted {
        Wanted::Stream(listen) => listen::socket_name(&face.to_string(), listen),
        Wanted::Datagrams(at) => format!("{face} udp {at}"),
    }
}

pub(super) fn admin_name(address: SocketAddr, tls: bool) -> String {
    format!("admin {} {address}", if tls { "tls" } else { "tcp" })
}

/// The sockets of the next worker; none if the face is not served.
pub(super) fn next<T>(per_worker: &mut Vec<Vec<T>>) -> Vec<T> {
    per_worker.pop().unwrap_or_default()
}

/// Adds a socket for each worker.
fn give<T>(per_worker: &mut Vec<Vec<T>>, sockets: impl IntoIterator<Item = T>) {
    for (number, socket) in sockets.into_iter().enumerate() {
        if per_worker.len() <= number {
            per_worker.push(Vec::new());
        }
        per_worker[number].push(socket);
    }
}

impl Sockets {
    /// All sockets of the settings.
    pub(super) fn bind(
        settings: &Settings,
        inherited: &mut Inherited,
    ) -> Result<Sockets, StartError> {
        let mut sockets = Sockets::default();
        let bound = sockets.bind_all(settings, &wanted(settings), &[], inherited);
        match bound.and_then(|()| sockets.bind_admin(&wanted_admin(settings), inherited)) {
            Ok(()) => Ok(sockets),
            Err((address, source)) => {
                remove_files(&sockets.addresses, inherited);
                Err(StartError::Listen { address, source })
            }
        }
    }

    /// Sockets for these addresses, beside those that are open. On an error none is left.
    pub(super) fn bind_more(
        settings: &Settings,
        added: &[(FaceName, Wanted)],
        open: &[(FaceName, Address)],
        inherited: &mut Inherited,
    ) -> Result<Sockets, (Address, io::Error)> {
        let mut sockets = Sockets::default();
        match sockets.bind_all(settings, added, open, inherited) {
            Ok(()) => Ok(sockets),
            Err(failed) => {
                remove_files(&sockets.addresses, inherited);
                Err(failed)
            }
        }
    }

    /// The listeners of the next worker.
    pub(super) fn next_listeners(&mut self) -> Relisten {
        let mut listeners = Vec::new();
        for (face, per_worker) in [
            (FaceName::Http, &mut self.http),
            (FaceName::Https, &mut self.https),
            (FaceName::Memcached, &mut self.memcached),
            (FaceName::MemcachedTls, &mut self.memcached_tls),
            (FaceName::Redis, &mut self.redis),
            (FaceName::RedisTls, &mut self.redis_tls),
            (FaceName::Queue, &mut self.queue),
        ] {
            listeners.extend(next(per_worker).into_iter().map(|listener| (face, listener)));
        }
        let (udp, quic) = (next(&mut self.udp), next(&mut self.quic));
        Relisten { listeners, udp, quic, closed: Vec::new() }
    }

    fn bind_all(
        &mut self,
        settings: &Settings,
        wanted: &[(FaceName, Wanted)],
        open: &[(FaceName, Address)],
        inherited: &mut Inherited,
    ) -> Result<(), (Address, io::Error)> {
        let workers = settings.threads.max(1);
        for (face, at) in wanted {
            let name = name_of(*face, at);
            let path = match at {
                Wanted::Stream(Listen::Unix { path, .. }) => Some(path.as_path()),
                _ => None,
            };
            let handed = inherited.handed(&name, path);
            let foreign = handed.as_ref().is_some_and(|handed| handed.foreign);
            let address = match at {
                Wanted::Stream(listen) => {
                    let own = open.iter().map(|(_, address)| address);
                    let shared = listen::shares_port(listen, own);
                    let manner = Manner { shared, ..manner(*face, settings) };
                    let bound = match handed {
                        Some(handed) => listen::adopt(listen, handed.sockets, workers, manner)
                            .map_err(|error| (listen_address(listen), error))?,
                        None => {
                            listen::bind(std::slice::from_ref(listen), workers, manner, inherited)?
                        }
                    };
                    let first = bound.workers.iter().flatten().next();
                    let one = matches!(listen, Listen::Unix { .. });
                    let copied = bound.workers.iter().flatten().map(Listener::descriptor);
                    let foreign =
                        foreign || path.is_some_and(|path| inherited.is_from_manager(path));
                    let kept = match first {
                        Some(first) if one => Kept::of(name, foreign, [first.descriptor()]),
                        _ => Kept::of(name, foreign, copied),
                    };
                    self.kept.push(kept.map_err(|error| (listen_address(listen), error))?);
                    let per_worker = match face {
                        FaceName::Http | FaceName::Http3 => &mut self.http,
                        FaceName::Https => &mut self.https,
                        FaceName::Memcached => &mut self.memcached,
                        FaceName::MemcachedTls => &mut self.memcached_tls,
                        FaceName::Redis => &mut self.redis,
                        FaceName::RedisTls => &mut self.redis_tls,
                        // They have datagrams alone.
                        FaceName::Icp | FaceName::Htcp => continue,
                        FaceName::Queue => &mut self.queue,
                    };
                    give(per_worker, bound.workers.into_iter().flatten());
                    bound.addresses.into_iter().next()
                }
                Wanted::Datagrams(at) => {
                    let workers = match face {
                        FaceName::Icp | FaceName::Htcp => 1,
                        _ => workers,
                    };
                    let bound = match handed {
                        Some(handed) => listen::adopt_udp(handed.sockets, workers),
                        None => listen::bind_udp(*at, workers, inherited),
                    };
                    let failed = |error| (Address::Udp(*at), error);
                    let (bound, address) = bound.map_err(failed)?;
                    let kept = Kept::of(name, false, bound.iter().map(AsFd::as_fd));
                    self.kept.push(kept.map_err(failed)?);
                    give(&mut self.udp, bound.into_iter().map(|socket| (*face, socket)));
                    Some(address)
                }
            };
            let Some(address) = address else { continue };
            self.addresses.push((*face, address.clone()));
            self.wanted.push(at.clone());
            let http3 = settings.https.as_ref().is_some_and(|https| https.http3);
            if *face == FaceName::Https && http3 {
                self.bind_quic(&address, at, workers, inherited)?;
            }
        }
        Ok(())
    }

    /// HTTP/3 is served at the addresses of HTTPS.
    fn bind_quic(
        &mut self,
        https: &Address,
        at: &Wanted,
        workers: usize,
        inherited: &mut Inherited,
    ) -> Result<(), (Address, io::Error)> {
        let Address::Tcp(wanted) = *https else { return Ok(()) };
        let failed = |error| (Address::Udp(wanted), error);
        let name = name_of(FaceName::Http3, at);
        let bound = match inherited.handed(&name, None) {
            Some(handed) => listen::adopt_udp(handed.sockets, workers),
            None => listen::bind_udp(wanted, workers, inherited),
        };
        let (bound, address) = bound.map_err(failed)?;
        let kept = Kept::of(name, false, bound.iter().map(AsFd::as_fd));
        self.kept.push(kept.map_err(failed)?);
        self.addresses.push((FaceName::Http3, address));
        self.wanted.push(at.clone());
        give(&mut self.quic, bound.into_iter().zip(Handover::between(workers, random())));
        Ok(())
    }

    /// The admin interface's.
    pub(super) fn bind_admin(
        &mut self,
        wanted: &[(SocketAddr, bool)],
        inherited: &mut Inherited,
    ) -> Result<(), (Address, io::Error)> {
        let manner = Manner { sndbuf: 0, backlog: ADMIN_BACKLOG, shared: false };
        for (address, tls) in wanted {
            let (listen, name) = (Listen::Tcp(*address), admin_name(*address, *tls));
            let failed = |error| (Address::Tcp(*address), error);
            let bound = match inherited.handed(&name, None) {
                Some(handed) => {
                    listen::adopt(&listen, handed.sockets, 1, manner).map_err(failed)?
                }
                None => listen::bind(&[listen], 1, manner, inherited)?,
            };
            let copied = bound.workers.iter().flatten().map(Listener::descriptor);
            self.kept.push(Kept::of(name, false, copied).map_err(failed)?);
            let tls = *tls;
            self.admin.extend(bound.workers.into_iter().flatten().filter_map(|listener| {
                match listener {
                    Listener::Tcp(listener) => Some((listener, tls)),
                    Listener::Unix(..) => None,
                }
            }));
        }
        Ok(())
    }
}

fn listen_address(listen: &Listen) -> Address {
    match listen {
        Listen::Tcp(address) => Address::Tcp(*address),
        Listen::Unix { path, .. } => Address::Unix(path.clone()),
    }
}

/// Removes the files of unix sockets, but not of those that were handed over.
pub(super) fn remove_files(addresses: &[(FaceName, Address)], inherited: &Inherited) {
    let own = |address: &&Address| !listen::is_of_others(address, inherited);
    listen::remove(addresses.iter().map(|(_, address)| address).filter(own));
}
