//! The thread of the admin interface: its own runtime, so that its requests neither wait for a
//! worker nor delay one.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::Service as _, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    runtime::Runtime,
    sync::{Semaphore, mpsc},
};

use super::{AdminListeners, App, routes, write_timeout::WriteTimeout};

/// The priority below the workers', in steps of `nice`: about a third of their processor time if
/// all are busy.
const NICE: i32 = 5;
/// Time limit from the wait for a request to the end of its head; idle connections are kept as
/// long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a request head, else 431; also the read buffer of a connection.
const HEAD_BYTES: usize = 32 << 10;
/// Fields of a request, else 431.
const FIELDS: usize = 64;
/// Pause after `accept` failed for lack of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections of the control socket at once; its clients are few, and do not share the permits of
/// the others, so that a flood of those does not lock the operator out.
const CONTROL_CONNECTIONS: usize = 32;

/// Time limit for the last answers over the control socket when the server has stopped.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    /// At an address.
    At(SocketAddr),
    /// Over the control socket: this user of this machine.
    Local(u32),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::At(address) => address.ip().to_canonical().fmt(f),
            Peer::Local(user) => write!(f, "user {user}"),
        }
    }
}

/// The body of the thread. Returns when told to stop.
pub(super) fn run(
    runtime: &Runtime,
    app: &Arc<App>,
    listeners: mpsc::UnboundedReceiver<AdminListeners>,
    control: Option<std::os::unix::net::UnixListener>,
) -> io::Result<()> {
    // Workers have priority if the processors are busy. The thread runs even if this fails.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    runtime.block_on(async {
        let router = routes::router(app.clone());
        let permits = Arc::new(Semaphore::new(app.admin().connections));
        tokio::spawn(listen(app.clone(), listeners, router.clone(), permits));
        let local = Arc::new(Semaphore::new(CONTROL_CONNECTIONS));
        if let Some(control) = control {
            let control = UnixListener::from_std(control)?;
            let task = tokio::spawn(accept_local(control, router.clone(), local.clone()));
            *app.local.lock() = Some(task.abort_handle());
        }
        app.start_tasks();
        app.stopped().await;
        // The order to stop gets its answer.
        let all = CONTROL_CONNECTIONS as u32;
        let _ = tokio::time::timeout(LAST_ANSWERS, local.acquire_many(all)).await;
        Ok(())
    })
}

/// Keeps the listeners as they are to be.
async fn listen(
    app: Arc<App>,
    mut changes: mpsc::UnboundedReceiver<AdminListeners>,
    router: Router,
    permits: Arc<Semaphore>,
) {
    let mut open = Vec::new();
    while let Some(AdminListeners { opened, closed }) = changes.recv().await {
        for (listener, tls) in opened {
            let address = listener.local_addr();
            let (Ok(address), Ok(listener)) = (address, TcpListener::from_std(listener)) else {
                continue;
            };
            let secured = tls.then(|| app.clone());
            let task = tokio::spawn(accept(listener, secured, router.clone(), permits.clone()));
            open.push(((address, tls), task));
        }
        for (_, task) in open.extract_if(.., |(address, _)| closed.contains(address)) {
            task.abort();
        }
    }
}

/// `secured`: connections are TLS, by its present certificate.
async fn accept(
    listener: TcpListener,
    secured: Option<Arc<App>>,
    router: Router,
    permits: Arc<Semaphore>,
) {
    let service = TowerToHyperService::new(router);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // A connection beyond the limit is closed; clients try again.
        let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
        let service = service.clone();
        let tls = secured.as_ref().map(|app| app.tls.read().clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let stream = WriteTimeout::new(stream);
            match tls {
                None => serve(stream, Peer::At(peer), service).await,
                Some(None) => {}
                Some(Some(acceptor)) => {
                    let shaken = tokio::time::timeout(HEADER_TIMEOUT, acceptor.accept(stream));
                    if let Ok(Ok(stream)) = shaken.await {
                        serve(stream, Peer::At(peer), service).await;
                    }
                }
            }
            drop(permit);
        });
    }
}

/// Connections of the control socket. The permissions of its file may be looser than meant, so the
/// kernel is asked whose each one is.
async fn accept_local(listener: UnixListener, router: Router, permits: Arc<Semaphore>) {
    let service = TowerToHyperService::new(router);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(user) = stream.peer_cred().map(|peer| peer.uid()) else { continue };
        if user != 0 && user != rustix::process::geteuid().as_raw() {
            continue;
        }
        let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
        let service = service.clone();
        tokio::spawn(async move {
            serve(WriteTimeout::new(stream), Peer::Local(user), service).await;
            drop(permit);
        });
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    service: TowerToHyperService<Router>,
) {
    let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        service.call(Request::from(request))
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.max_buf_size(HEAD_BYTES).max_headers(FIELDS);
    // Errors of a connection concern its client only.
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}
