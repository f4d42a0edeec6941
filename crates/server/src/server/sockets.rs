//! The sockets of all faces.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
};

use super::{FaceName, StartError, memory::random};
use crate::{
    net::{
        inherited::Inherited,
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
    pub(super) udp: Vec<Vec<UdpSocket>>,
    pub(super) redis: Vec<Vec<Listener>>,
    pub(super) redis_tls: Vec<Vec<Listener>>,
    /// Of the one admin thread; with true of TLS.
    pub(super) admin: Vec<(TcpListener, bool)>,
    pub(super) addresses: Vec<(FaceName, Address)>,
    /// The address in the settings for each of these.
    pub(super) wanted: Vec<Wanted>,
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
        ] {
            listeners.extend(next(per_worker).into_iter().map(|listener| (face, listener)));
        }
        Relisten { listeners, udp: next(&mut self.udp), closed: Vec::new() }
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
            let address = match at {
                Wanted::Stream(listen) => {
                    let own = open.iter().map(|(_, address)| address);
                    let shared = listen::shares_port(listen, own);
                    let manner = Manner { shared, ..manner(*face, settings) };
                    let bound =
                        listen::bind(std::slice::from_ref(listen), workers, manner, inherited)?;
                    let per_worker = match face {
                        FaceName::Http | FaceName::Http3 => &mut self.http,
                        FaceName::Https => &mut self.https,
                        FaceName::Memcached => &mut self.memcached,
                        FaceName::MemcachedTls => &mut self.memcached_tls,
                        FaceName::Redis => &mut self.redis,
                        FaceName::RedisTls => &mut self.redis_tls,
                    };
                    give(per_worker, bound.workers.into_iter().flatten());
                    bound.addresses.into_iter().next()
                }
                Wanted::Datagrams(at) => {
                    let bound = listen::bind_udp(*at, workers, inherited);
                    let (bound, address) = bound.map_err(|error| (Address::Udp(*at), error))?;
                    give(&mut self.udp, bound);
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
        let bound = listen::bind_udp(wanted, workers, inherited);
        let (bound, address) = bound.map_err(|error| (Address::Udp(wanted), error))?;
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
            let bound = listen::bind(&[Listen::Tcp(*address)], 1, manner, inherited)?;
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

/// Removes the files of unix sockets, but not of those that were handed over.
pub(super) fn remove_files(addresses: &[(FaceName, Address)], inherited: &Inherited) {
    let own = |address: &&Address| !listen::is_of_others(address, inherited);
    listen::remove(addresses.iter().map(|(_, address)| address).filter(own));
}
