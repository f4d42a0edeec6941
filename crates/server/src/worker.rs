//! One worker: a thread with its own runtime, its own listeners on the shared addresses
//! (`SO_REUSEPORT`), and each face's connections, counters and view of the settings. Workers share
//! the store and each face's `Shared`, nothing else.

use std::{io, net::UdpSocket, rc::Rc, sync::Arc, time::Duration};

use larder_metrics::Recorder;
use larder_store::Store;
use tokio::{
    runtime::LocalOptions,
    sync::{Notify, mpsc, oneshot},
    task::{JoinHandle, spawn_local},
};

use crate::{
    asked,
    clock::Clock,
    counters::Counters,
    http, measure, memcache,
    net::{
        accept::{Acceptor, Closing},
        conns::{Conns, Group, WorkerShared},
        face_name::FaceName,
        listen::{Address, Listener},
        passing::{Parcel, Passed},
        quic,
    },
    object::face::{Face, FaceAcceptor},
    queue, redis,
    remote::Remote,
    request::{self, Peer},
    settings::{FaceTls, Settings},
};

/// Commands to a worker.
pub(crate) enum Command {
    /// Use these settings for every further request.
    Reload(Arc<Settings>),
    /// Open and close listeners.
    Listen(Relisten),
    /// Answer, to show that the worker is alive.
    Answer(oneshot::Sender<()>),
    /// Take no more connections for pages; those that are open end when they are idle.
    DrainPages,
    /// Another process is about to take over: accept nothing more, and keep connections that come
    /// to rest. Answered when the listeners are given up.
    Yield(oneshot::Sender<()>),
    /// It has taken over: connections at rest go there.
    PassOn(std::sync::mpsc::Sender<Parcel>),
    /// It has not: go on, with these listeners.
    Resume(Relisten),
    /// Take in a connection of the process before this one.
    Adopt(Passed),
    /// Carry out a purge that follows from a request to the process before this one.
    Purge(Parcel),
    /// Stop accepting; end when the last connection has ended, or after this time.
    Drain(Duration),
}

/// Changes of a worker's listeners.
pub(crate) struct Relisten {
    pub(crate) listeners: Vec<(FaceName, Listener)>,
    /// Of memcached, ICP and HTCP.
    pub(crate) udp: Vec<(FaceName, UdpSocket)>,
    /// Of HTTP/3, whose addresses change with the process alone.
    pub(crate) quic: Vec<(UdpSocket, quic::Handover)>,
    pub(crate) closed: Vec<(FaceName, Address)>,
}

/// A listener that accepts connections.
struct Accepting {
    face: FaceName,
    address: Address,
    task: JoinHandle<()>,
    /// None: there are no connections, and the task is ended.
    closing: Option<Rc<Closing>>,
}

impl Accepting {
    /// Takes what has come so far, and closes the listener.
    fn close(&self) {
        match &self.closing {
            Some(closing) => closing.close(),
            None => self.task.abort(),
        }
    }
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
    pub(crate) udp: Vec<(FaceName, UdpSocket)>,
    pub(crate) redis: Option<StartFace<redis::Shared>>,
    pub(crate) queue: Option<StartFace<queue::Shared>>,
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
    queue: Option<Rc<FaceAcceptor<queue::Face>>>,
    accepting: Vec<Accepting>,
    /// Endpoints of HTTP/3, and the way to end them.
    quic: Vec<(JoinHandle<()>, Rc<Notify>)>,
}

/// How long the end of a worker waits for threads that block.
const BLOCKED: Duration = Duration::from_secs(2);

/// The body of a worker thread. Returns when drained.
pub(crate) fn run(start: Start) -> io::Result<()> {
    // A local runtime: a `LocalSet` on top of an ordinary one queues and polls every task twice.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    let served = runtime.block_on(serve(start));
    // A read of a device that hangs does not hold up the end.
    runtime.shutdown_timeout(BLOCKED);
    served
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
        queue,
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
        let tls = settings.memcached.as_ref().and_then(|face| face.tls.as_ref());
        faces.memcached = Some(Faces::open(face, &conns, tls));
        faces.listen_all(FaceName::Memcached, start.listeners, &conns)?;
        faces.listen_all(FaceName::MemcachedTls, start.tls_listeners, &conns)?;
    }
    if let Some(start) = redis {
        faces.open_redis(start, number, &conns, &settings)?;
    }
    faces.open_udp(udp, conns.clock)?;
    if let Some(start) = queue {
        faces.queue = Some(Faces::open(queue::Face::new(&start.shared, number), &conns, None));
        faces.listen_all(FaceName::Queue, start.listeners, &conns)?;
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
            Command::Listen(relisten) => faces.relisten(relisten, &conns),
            Command::Answer(whom) => {
                let _ = whom.send(());
            }
            Command::Yield(done) => {
                faces.give_way(&conns).await;
                let _ = done.send(());
            }
            Command::PassOn(to) => conns.passing.pass(to),
            Command::Resume(relisten) => faces.resume(relisten, &conns),
            Command::Adopt(passed) => faces.adopt(passed),
            Command::Purge(parcel) => faces.purge(parcel),
            Command::DrainPages => faces.drain_pages(&conns),
            Command::Drain(within) => {
                patience = within;
                break;
            }
        }
    }
    faces.drain_pages(&conns);
    for accepting in &faces.accepting {
        accepting.task.abort();
    }
    conns.start_drain(Group::Objects);
    let _ = tokio::time::timeout(patience, conns.drained()).await;
    conns.close_resting();
    Ok(())
}

/// Takes in clients of pages until the listener is closed.
async fn accept_pages(
    worker: Rc<http::worker::Worker>,
    acceptor: Acceptor,
    tls: bool,
    closing: Rc<Closing>,
) {
    while let Some((stream, address)) = acceptor.next_until(&closing).await {
        // HTTP listens on TCP only, so every peer has an address.
        if let Some(address) = address {
            worker.admit(stream, Peer::new(address, tls));
        }
    }
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
        self.http = Some(worker.clone());
        self.listen_all(FaceName::Http, listeners, conns)?;
        self.listen_all(FaceName::Https, tls_listeners, conns)?;
        self.open_quic(quic)
    }

    fn open_quic(&mut self, quic: Vec<(UdpSocket, quic::Handover)>) -> io::Result<()> {
        let Some(worker) = &self.http else { return Ok(()) };
        for (socket, handover) in quic {
            // It goes on while the worker drains: its connections have no tasks of their own.
            let (service, stop) = (http::h3::Http3(worker.clone()), Rc::<Notify>::default());
            let endpoint = quic::Endpoint::new(socket, handover, service)?;
            self.quic.push((spawn_local(endpoint.run(stop.clone())), stop));
        }
        Ok(())
    }

    /// Ends the acceptance of connections for pages. Again: nothing more happens.
    fn drain_pages(&mut self, conns: &Conns) {
        let is_page =
            |accepting: &mut Accepting| matches!(accepting.face, FaceName::Http | FaceName::Https);
        for accepting in self.accepting.extract_if(.., is_page) {
            accepting.task.abort();
        }
        if !conns.draining(Group::Pages) {
            conns.start_drain(Group::Pages);
        }
    }

    /// Another process is about to take over.
    async fn give_way(&mut self, conns: &Conns) {
        self.give_up_listeners().await;
        conns.passing.keep();
        conns.start_drain(Group::Objects);
        conns.wake_all();
    }

    /// It has not.
    fn resume(&mut self, relisten: Relisten, conns: &Rc<Conns>) {
        conns.stop_drain(Group::Objects);
        let kept = conns.passing.stay();
        self.relisten(relisten, conns);
        kept.into_iter().for_each(|passed| self.adopt(passed));
    }

    /// Closes all listeners, which other processes have too: what waits in them is theirs.
    async fn give_up_listeners(&mut self) {
        for accepting in self.accepting.drain(..) {
            accepting.task.abort();
            let _ = accepting.task.await;
        }
        for (endpoint, stop) in self.quic.drain(..) {
            stop.notify_one();
            let _ = endpoint.await;
        }
    }

    /// Takes in a connection of another process. One of a face that is not served is closed.
    fn adopt(&self, passed: Passed) {
        fn into<F: Face>(face: &Option<Rc<FaceAcceptor<F>>>, passed: Passed) {
            if let Some(face) = face {
                spawn_local(face.clone().adopt(passed));
            }
        }
        match (passed.face, &self.http) {
            (FaceName::Http, Some(http)) => http.adopt(passed),
            (FaceName::Memcached, _) => into(&self.memcached, passed),
            (FaceName::Redis, _) => into(&self.redis, passed),
            (FaceName::Queue, _) => into(&self.queue, passed),
            _ => {}
        }
    }

    fn purge(&self, parcel: Parcel) {
        let Some(http) = &self.http else { return };
        let pages = http.pages.clone();
        spawn_local(async move {
            let purger = pages.purger(false);
            match parcel {
                Parcel::Keys(keys) => drop(purger.page(&keys).await),
                Parcel::Tags(site, tags) => drop(purger.tags(&site, &tags).await),
                Parcel::Connection(_) => {}
            }
        });
    }

    fn listen_all(
        &mut self,
        face: FaceName,
        listeners: Vec<Listener>,
        conns: &Rc<Conns>,
    ) -> io::Result<()> {
        listeners.into_iter().try_for_each(|listener| self.listen(face, listener, conns))
    }

    /// Accepts connections of a face that is served.
    fn listen(&mut self, face: FaceName, listener: Listener, conns: &Rc<Conns>) -> io::Result<()> {
        let address = listener.address()?;
        let acceptor = Acceptor::open(listener, &conns.reactor)?;
        let closing = Rc::<Closing>::default();
        let tls = matches!(face, FaceName::Https | FaceName::MemcachedTls | FaceName::RedisTls);
        let (http, memcached, redis, queue) =
            (self.http.clone(), self.memcached.clone(), self.redis.clone(), self.queue.clone());
        let told = closing.clone();
        let task = match face {
            FaceName::Http | FaceName::Https | FaceName::Http3 => {
                http.map(|worker| spawn_local(accept_pages(worker, acceptor, tls, told)))
            }
            FaceName::Memcached | FaceName::MemcachedTls => {
                memcached.map(|face| spawn_local(face.accept(acceptor, tls, told)))
            }
            // They have datagrams alone.
            FaceName::Icp | FaceName::Htcp => None,
            FaceName::Redis | FaceName::RedisTls => {
                redis.map(|face| spawn_local(face.accept(acceptor, tls, told)))
            }
            FaceName::Queue => queue.map(|face| spawn_local(face.accept(acceptor, tls, told))),
        };
        let closing = Some(closing);
        self.accepting.extend(task.map(|task| Accepting { face, address, task, closing }));
        Ok(())
    }

    /// Opens and closes listeners.
    fn relisten(&mut self, relisten: Relisten, conns: &Rc<Conns>) {
        for (face, listener) in relisten.listeners {
            if let Err(error) = self.listen(face, listener, conns) {
                eprintln!("larder: a thread cannot listen: {error}");
            }
        }
        if let Err(error) = self.open_quic(relisten.quic) {
            eprintln!("larder: a thread cannot listen: {error}");
        }
        if let Err(error) = self.open_udp(relisten.udp, conns.clock) {
            eprintln!("larder: a thread cannot listen: {error}");
        }
        let is_closed = |accepting: &mut Accepting| {
            let mut closed = relisten.closed.iter();
            closed.any(|(face, at)| *face == accepting.face && *at == accepting.address)
        };
        for accepting in self.accepting.extract_if(.., is_closed) {
            accepting.close();
        }
    }

    fn open<F: Face>(face: Rc<F>, conns: &Rc<Conns>, tls: Option<&FaceTls>) -> Rc<FaceAcceptor<F>> {
        let acceptor = FaceAcceptor::new(face, conns.clone());
        acceptor.reload(tls);
        acceptor
    }

    fn open_redis(
        &mut self,
        start: StartFace<redis::Shared>,
        number: usize,
        conns: &Rc<Conns>,
        settings: &Settings,
    ) -> io::Result<()> {
        let face = redis::Face::new(&start.shared, number);
        spawn_local(face.clone().tell_removed());
        let tls = settings.redis.as_ref().and_then(|face| face.tls.as_ref());
        self.redis = Some(Faces::open(face, conns, tls));
        self.listen_all(FaceName::Redis, start.listeners, conns)?;
        self.listen_all(FaceName::RedisTls, start.tls_listeners, conns)
    }

    fn open_udp(&mut self, sockets: Vec<(FaceName, UdpSocket)>, clock: Clock) -> io::Result<()> {
        for (face, socket) in sockets {
            let address = Address::Udp(socket.local_addr()?);
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            let task = match (face, &self.memcached, &self.http) {
                (FaceName::Memcached, Some(memcached), _) => {
                    spawn_local(memcache::udp::serve(memcached.face().clone(), socket, clock))
                }
                (FaceName::Icp | FaceName::Htcp, _, Some(http)) => {
                    spawn_local(asked::serve(http.pages.clone(), face, socket))
                }
                _ => continue,
            };
            self.accepting.push(Accepting { face, address, task, closing: None });
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
        if let Some(queue) = &self.queue {
            queue.reload(None);
        }
        if let Some(http) = &self.http {
            http.reload(settings);
        }
    }
}
