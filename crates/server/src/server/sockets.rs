//! The sockets of all faces.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
};

use super::{FaceName, StartError, memory::random};
use crate::{
    net::{
        inherited::Inherited,
        listen::{self, Address, Bound, Listener, Manner},
        quic::Handover,
    },
    settings::{Listen, Settings},
};

/// Connections the kernel keeps waiting per HTTP listener.
const BACKLOG: i32 = 4096;
/// The same for the admin interface.
const ADMIN_BACKLOG: i32 = 64;

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
}

/// The sockets of the next worker; none if the face is not served.
pub(super) fn next<T>(per_worker: &mut Vec<Vec<T>>) -> Vec<T> {
    per_worker.pop().unwrap_or_default()
}

impl Sockets {
    pub(super) fn bind(
        settings: &Settings,
        inherited: &mut Inherited,
    ) -> Result<Sockets, StartError> {
        let mut sockets = Sockets::default();
        match sockets.bind_all(settings, inherited) {
            Ok(()) => Ok(sockets),
            Err((address, source)) => {
                remove_files(&sockets.addresses, inherited);
                Err(StartError::Listen { address, source })
            }
        }
    }

    fn bind_all(
        &mut self,
        settings: &Settings,
        inherited: &mut Inherited,
    ) -> Result<(), (Address, io::Error)> {
        let workers = settings.threads.max(1);
        let tcp = |listen: &[SocketAddr]| -> Vec<Listen> {
            listen.iter().copied().map(Listen::Tcp).collect()
        };
        let manner = Manner { sndbuf: settings.http.sndbuf, backlog: BACKLOG };
        let http = tcp(&settings.http.listen);
        self.http = self.keep(FaceName::Http, listen::bind(&http, workers, manner, inherited)?);
        if let Some(https) = &settings.https {
            let bound = listen::bind(&tcp(&https.listen), workers, manner, inherited)?;
            let addresses = bound.addresses.clone();
            self.https = self.keep(FaceName::Https, bound);
            if https.http3 {
                self.bind_quic(&addresses, workers, inherited)?;
            }
        }
        if let Some(face) = &settings.memcached {
            let manner = Manner { sndbuf: 0, backlog: face.backlog };
            self.memcached = self
                .keep(FaceName::Memcached, listen::bind(&face.listen, workers, manner, inherited)?);
            if let Some(tls) = &face.tls {
                let bound = listen::bind(&tls.listen, workers, manner, inherited)?;
                self.memcached_tls = self.keep(FaceName::MemcachedTls, bound);
            }
            self.udp = (0..workers).map(|_| Vec::new()).collect();
            for &wanted in &face.udp {
                let bound = listen::bind_udp(wanted, workers, inherited);
                let (bound, address) = bound.map_err(|error| (Address::Udp(wanted), error))?;
                self.addresses.push((FaceName::Memcached, address));
                self.udp.iter_mut().zip(bound).for_each(|(sockets, socket)| sockets.push(socket));
            }
        }
        if let Some(face) = &settings.redis {
            let manner = Manner { sndbuf: 0, backlog: face.backlog };
            self.redis =
                self.keep(FaceName::Redis, listen::bind(&face.listen, workers, manner, inherited)?);
            if let Some(tls) = &face.tls {
                let bound = listen::bind(&tls.listen, workers, manner, inherited)?;
                self.redis_tls = self.keep(FaceName::RedisTls, bound);
            }
        }
        if let Some(admin) = &settings.admin {
            let manner = Manner { sndbuf: 0, backlog: ADMIN_BACKLOG };
            let secured = admin.tls.as_ref().map_or(&[][..], |tls| &tls.listen);
            for (listen, tls) in [(&tcp(&admin.listen)[..], false), (secured, true)] {
                let bound = listen::bind(listen, 1, manner, inherited)?;
                self.admin.extend(bound.workers.into_iter().flatten().filter_map(|listener| {
                    match listener {
                        Listener::Tcp(listener) => Some((listener, tls)),
                        Listener::Unix(..) => None,
                    }
                }));
            }
        }
        Ok(())
    }

    /// HTTP/3 is served at the addresses of HTTPS.
    fn bind_quic(
        &mut self,
        https: &[Address],
        workers: usize,
        inherited: &mut Inherited,
    ) -> Result<(), (Address, io::Error)> {
        self.quic = (0..workers).map(|_| Vec::new()).collect();
        for address in https {
            let Address::Tcp(wanted) = *address else { continue };
            let bound = listen::bind_udp(wanted, workers, inherited);
            let (bound, address) = bound.map_err(|error| (Address::Udp(wanted), error))?;
            self.addresses.push((FaceName::Http3, address));
            let sockets = bound.into_iter().zip(Handover::between(workers, random()));
            self.quic.iter_mut().zip(sockets).for_each(|(own, socket)| own.push(socket));
        }
        Ok(())
    }

    fn keep(&mut self, face: FaceName, bound: Bound) -> Vec<Vec<Listener>> {
        self.addresses.extend(bound.addresses.into_iter().map(|address| (face, address)));
        bound.workers
    }
}

/// Removes the files of unix sockets, but not of those that were handed over.
pub(super) fn remove_files(addresses: &[(FaceName, Address)], inherited: &Inherited) {
    let own = |address: &&Address| !listen::is_of_others(address, inherited);
    listen::remove(addresses.iter().map(|(_, address)| address).filter(own));
}
