//! One worker: a thread with its own runtime, its own listeners on the shared addresses
//! (`SO_REUSEPORT`), and each face's connections, counters and view of the settings. Workers share
//! the store and each face's `Shared`, nothing else.

use std::{io, net::UdpSocket, rc::Rc, sync::Arc, time::Duration};

use larder_metrics::Recorder;
use larder_store::Store;
use tokio::{
    runtime::LocalOptions,
    sync::{mpsc, oneshot},
    task::{JoinHandle, spawn_local},
};

use crate::{
    clock::Clock,
    counters::Counters,
    http, measure, memcache,
    net::{
        accept::Acceptor,
        conns::{Conns, Group, WorkerShared},
        listen::Listener,
        quic,
    },
    object::face::{Face, FaceAcceptor},
    redis,
    remote::Remote,
    request::{self, Peer},
    settings::{FaceTls, Settings},
};

/// Commands to a worker.
pub(crate) enum Command {
    /// Use these settings for every further request.
    Reload(Arc<Settings>),
    /// Answer, to show that the worker is alive.
    Answer(oneshot::Sender<()>),
    /// Take no more connections for pages; those that are open end when they are idle.
    DrainPages,
    /// Stop accepting; end when the last connection has ended, or after this time.
    Drain(Duration),
}

/// The arguments of a worker thread.
pub(crate) struct Start {
    pub(crate) number: usize,
    /// Records how late it handles timers.
    pub(crate) delay: Arc<Recorder>,
    pub(crate) worker_shared: Arc<WorkerShared>,
    pub(crate) store: &'static Store,
    pub(crate) settings: Arc<Settings>,
    pub(crate) http: Option<StartHttp>,
    pub(crate) memcached: Option<StartFace<memcache::Shared>>,
    pub(crate) udp: Vec<UdpSocket>,
    pub(crate) redis: Option<StartFace<redis::Shared>>,
    pub(crate) commands: mpsc::Receiver<Command>,
    /// Notified once the worker accepts connections.
    pub(crate) ready: std::sync::mpsc::Sender<()>,
}

/// The arguments of a worker's HTTP face.
pub(crate) struct StartHttp {
    pub(crate) shared: Arc<request::pages::Shared>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) listeners: Vec<Listener>,
    /// Of HTTPS.
    pub(crate) tls_listeners: Vec<Listener>,
    /// Of HTTP/3.
    pub(crate) quic: Vec<(UdpSocket, quic::Handover)>,
}

/// The arguments of a worker's object face.
pub(crate) struct StartFace<S> {
    pub(crate) shared: Arc<S>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) tls_listeners: Vec<Listener>,
}

/// The faces of a running worker.
#[derive(Default)]
struct Faces {
    http: Option<Rc<http::worker::Worker>>,
    memcached: Option<Rc<FaceAcceptor<memcache::Face>>>,
    redis: Option<Rc<FaceAcceptor<redis::Face>>>,
    /// Of pages.
    accepting_pages: Vec<JoinHandle<()>>,
    /// Of objects.
    accepting: Vec<JoinHandle<()>>,
}

/// The body of a worker thread. Returns when drained.
pub(crate) fn run(start: Start) -> io::Result<()> {
    // A local runtime: a `LocalSet` on top of an ordinary one queues and polls every task twice.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(serve(start))
}

async fn serve(start: Start) -> io::Result<()> {
    let Start {
        number,
        delay,
        worker_shared,
        store,
        settings,
        http,
        memcached,
        udp,
        redis,
        mut commands,
        ready,
    } = start;
    let conns = Conns::new(worker_shared)?;
    let mut faces = Faces::default();
    if let Some(http) = http {
        faces.open_http(http, number, &conns, store, settings.clone())?;
    }
    if let Some(start) = memcached {
        let face = memcache::Face::new(&start.shared, number);
        faces.open_udp(&face, udp, conns.clock)?;
        faces.memcached = Some(faces.open(
            face,
            &conns,
            start,
            settings.memcached.as_ref().and_then(|face| face.tls.as_ref()),
        )?);
    }
    if let Some(start) = redis {
        let face = redis::Face::new(&start.shared, number);
        spawn_local(face.clone().tell_removed());
        faces.redis = Some(faces.open(
            face,
            &conns,
            start,
            settings.redis.as_ref().and_then(|face| face.tls.as_ref()),
        )?);
    }
    let sweeper = conns.clone();
    spawn_local(async move { sweeper.sweep().await });
    spawn_local(measure::delay::watch(conns.clock, delay));
    let watched = conns.clone();
    let mut reactor = spawn_local(async move { watched.reactor.run().await });
    let _ = ready.send(());
    let mut patience = Duration::ZERO;
    loop {
        let command = tokio::select! {
            command = commands.recv() => command,
            failed = &mut reactor => return failed.map_err(io::Error::other)?,
        };
        let Some(command) = command else { break };
        match command {
            Command::Reload(settings) => faces.reload(settings),
            Command::Answer(whom) => {
                let _ = whom.send(());
            }
            Command::DrainPages => faces.drain_pages(&conns),
            Command::Drain(within) => {
                patience = within;
                break;
            }
        }
    }
    faces.drain_pages(&conns);
    for task in &faces.accepting {
        task.abort();
    }
    conns.start_drain(Group::Objects);
    let _ = tokio::time::timeout(patience, conns.drained()).await;
    conns.close_resting();
    Ok(())
}

impl Faces {
    fn open_http(
        &mut self,
        start: StartHttp,
        number: usize,
        conns: &Rc<Conns>,
        store: &'static Store,
        settings: Arc<Settings>,
    ) -> io::Result<()> {
        let StartHttp { shared, counters, listeners, tls_listeners, quic } = start;
        let open = |tier| Remote::open(tier, number, store, conns.clock, shared.nonce());
        let remote = shared.remote.clone().map(open).transpose().map_err(io::Error::other)?;
        let pages =
            request::pages::Pages::new(shared, store, conns.clock, counters, settings, remote);
        if number == 0 {
            request::journal::start(&pages).map_err(io::Error::other)?;
            pages.watch_origins();
        }
        let worker = http::worker::Worker::new(pages, conns.clone()).map_err(io::Error::other)?;
        let plain = listeners.into_iter().map(|listener| (listener, false));
        let tls = tls_listeners.into_iter().map(|listener| (listener, true));
        for (listener, tls) in plain.chain(tls) {
            let (acceptor, worker) = (Acceptor::open(listener, &conns.reactor)?, worker.clone());
            self.accepting_pages.push(spawn_local(async move {
                loop {
                    // HTTP listens on TCP only, so every peer has an address.
                    if let (stream, Some(address)) = acceptor.next().await {
                        worker.admit(stream, Peer::new(address, tls));
                    }
                }
            }));
        }
        for (socket, handover) in quic {
            // It goes on while the worker drains: its connections have no tasks of their own.
            let service = http::h3::Http3(worker.clone());
            spawn_local(quic::Endpoint::new(socket, handover, service)?.run());
        }
        self.http = Some(worker);
        Ok(())
    }

    /// Ends the acceptance of connections for pages. Again: nothing more happens.
    fn drain_pages(&mut self, conns: &Conns) {
        for task in self.accepting_pages.drain(..) {
            task.abort();
        }
        if !conns.draining(Group::Pages) {
            conns.start_drain(Group::Pages);
        }
    }

    fn open<F: Face>(
        &mut self,
        face: Rc<F>,
        conns: &Rc<Conns>,
        start: StartFace<F::Shared>,
        tls: Option<&FaceTls>,
    ) -> io::Result<Rc<FaceAcceptor<F>>> {
        let acceptor = FaceAcceptor::new(face, conns.clone());
        acceptor.reload(tls);
        let plain = start.listeners.into_iter().map(|listener| (listener, false));
        let secured = start.tls_listeners.into_iter().map(|listener| (listener, true));
        for (listener, tls) in plain.chain(secured) {
            let listener = Acceptor::open(listener, &conns.reactor)?;
            self.accepting.push(spawn_local(acceptor.clone().accept(listener, tls)));
        }
        Ok(acceptor)
    }

    fn open_udp(
        &mut self,
        face: &Rc<memcache::Face>,
        sockets: Vec<UdpSocket>,
        clock: Clock,
    ) -> io::Result<()> {
        for socket in sockets {
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            self.accepting.push(spawn_local(memcache::udp::serve(face.clone(), socket, clock)));
        }
        Ok(())
    }

    fn reload(&self, settings: Arc<Settings>) {
        if let Some(memcached) = &self.memcached {
            memcached.reload(settings.memcached.as_ref().and_then(|face| face.tls.as_ref()));
        }
        if let Some(redis) = &self.redis {
            redis.reload(settings.redis.as_ref().and_then(|face| face.tls.as_ref()));
        }
        if let Some(http) = &self.http {
            http.reload(settings);
        }
    }
}
