//! The sample site's server: HTTP/1.1 on a free port of this machine, on a thread of its own.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::site::{Site, SiteRequest};

/// A form of the sample site is a name.
const FORM_BYTES: usize = 4 << 10;
/// Time limit for a purge; without it, a page is stale for a minute.
const PURGE: Duration = Duration::from_secs(2);

/// The running sample site.
pub(super) struct Origin {
    /// Its address.
    pub(super) address: SocketAddr,
    front: Arc<OnceLock<SocketAddr>>,
}

impl Origin {
    /// Lets edits purge at this address, as MediaWiki does with its `$wgCdnServers`.
    pub(super) fn purge_at(&self, front: SocketAddr) {
        // Set once; a second address would be ignored.
        let _ = self.front.set(front);
    }
}

/// Starts it. It ends with the process.
pub(super) fn start(delay: Duration) -> io::Result<Origin> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    let front = Arc::new(OnceLock::new());
    let site = Arc::new(Site::new(delay));
    let known = front.clone();
    std::thread::Builder::new()
        .name("sample-site".to_owned())
        .spawn(move || runtime.block_on(serve(listener, site, known)))?;
    Ok(Origin { address, front })
}

async fn serve(listener: TcpListener, site: Arc<Site>, front: Arc<OnceLock<SocketAddr>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Answers go out at once; a failure only makes them later.
        let _ = stream.set_nodelay(true);
        let (site, front) = (site.clone(), front.clone());
        let service = service_fn(move |request| answer(request, site.clone(), front.clone()));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        // A client may leave at any time.
        tokio::spawn(async move { drop(connection.await) });
    }
}

async fn answer(
    request: Request<Incoming>,
    site: Arc<Site>,
    front: Arc<OnceLock<SocketAddr>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let form = match Limited::new(body, FORM_BYTES).collect().await {
        Ok(form) => String::from_utf8_lossy(&form.to_bytes()).into_owned(),
        Err(_) => String::new(),
    };
    let text = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let request = SiteRequest {
        method: head.method.as_str(),
        path: head.uri.path(),
        cookie: text("cookie"),
        if_none_match: text("if-none-match"),
        form: &form,
    };
    let reply = site.answer(&request).await;
    if let Some(front) = front.get() {
        for path in &reply.purge {
            // The page is edited in any case.
            let _ = tokio::time::timeout(PURGE, purge(*front, path, text("host"))).await;
        }
    }
    Ok(reply.into_response(head.method == "HEAD"))
}

/// The purge that a site sends to the cache when a page has changed.
async fn purge(front: SocketAddr, path: &str, host: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(front).await?;
    let request = format!("PURGE {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer).await?;
    Ok(())
}
