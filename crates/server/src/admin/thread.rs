//! The thread of the admin interface: its own runtime, so that nothing asked here waits for a
//! worker or keeps one from its clients.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::Service as _, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use super::{App, patient::Patient, routes};

/// How far below the workers its share of a processor is, in steps of `nice`: about a third of
/// theirs where all are busy.
const NICE: i32 = 5;
/// From the first wait for a request to the end of its head; also how long an idle connection is
/// kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a request head, else 431; also what is read ahead of a connection.
const HEAD_BYTES: usize = 32 << 10;
/// Fields of a request, else 431.
const FIELDS: usize = 64;
/// After `accept` failed for want of descriptors or memory, how long to leave the queue to the
/// kernel.
const PAUSE: Duration = Duration::from_millis(50);

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// The body of the thread. Returns when told to stop.
pub(super) fn run(app: &Arc<App>, listeners: Vec<std::net::TcpListener>) -> io::Result<()> {
    // Workers go first where the processors are busy. That it could not be said is no reason not to
    // run.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let router = routes::router(app.clone());
        let places = Arc::new(Semaphore::new(app.admin().connections));
        for listener in listeners {
            let listener = TcpListener::from_std(listener)?;
            tokio::spawn(accept(listener, router.clone(), places.clone()));
        }
        app.start_tasks();
        app.stopped().await;
        Ok(())
    })
}

async fn accept(listener: TcpListener, router: Router, places: Arc<Semaphore>) {
    let service = TowerToHyperService::new(router);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // One too many is closed: whoever looks after a cache in trouble comes again.
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let service = service.clone();
        tokio::spawn(async move {
            serve(stream, peer, service).await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, service: TowerToHyperService<Router>) {
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        service.call(Request::from(request))
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.max_buf_size(HEAD_BYTES).max_headers(FIELDS);
    // How a connection ends is its client's business.
    let _ = builder.serve_connection(TokioIo::new(Patient::new(stream)), answer).await;
}
