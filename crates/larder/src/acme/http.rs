//! Requests to a directory of ACME: HTTP/1.1 over TLS, a connection for each. An order takes about
//! fifteen of them, once in weeks.

use std::{io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, header::HOST};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName},
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// The time for one request with its answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The time for a connection to one address. Behind a broken IPv6 route the others are left.
const CONNECT: Duration = Duration::from_secs(5);

/// Largest answer, in bytes: a chain of certificates has some thousand.
const ANSWER_BYTES: usize = 1 << 20;

/// The client of one directory.
pub(super) struct Client {
    tls: TlsConnector,
}

impl Client {
    /// `roots`: authorities that may sign the directory's certificate.
    pub(super) fn new(roots: &[CertificateDer<'static>]) -> Result<Client, rustls::Error> {
        let mut store = RootCertStore::empty();
        // The system's store may have certificates that rustls cannot use.
        store.add_parsable_certificates(roots.iter().cloned());
        let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Client { tls: TlsConnector::from(Arc::new(config)) })
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

impl HttpClient for Client {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Answer {
        let tls = self.tls.clone();
        Box::pin(async move {
            let asked = request.uri().clone();
            let host = asked.host().unwrap_or_default();
            let answer = match timeout(TIMEOUT, ask(tls, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            };
            let answer = answer.map_err(|error| format!("cannot reach {host}: {error}"));
            Ok(BytesResponse::from(answer.map_err(|error| Error::Other(error.into()))?))
        })
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn ask(
    tls: TlsConnector,
    request: Request<BodyWrapper<Bytes>>,
) -> Result<Response<Full<Bytes>>, Failed> {
    let uri = request.uri().clone();
    let authority = uri.authority().ok_or("the URL has no host")?;
    if uri.scheme_str() != Some("https") {
        return Err("the URL is not https".into());
    }
    let host = authority.host().trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned())?;
    let addresses = lookup_host((host, authority.port_u16().unwrap_or(443))).await?;
    let tcp = connect(addresses, CONNECT).await?;
    let stream = tls.connect(name, tcp).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(HOST, authority.as_str().parse()?);
    parts.uri = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let driven = tokio::spawn(connection);
    let answer = async {
        let (parts, body) =
            sender.send_request(Request::from_parts(parts, body)).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, Full::new(body)))
    };
    let answer = answer.await;
    driven.abort();
    answer
}

/// Connects to the first address that answers within `patience`.
async fn connect(
    addresses: impl Iterator<Item = SocketAddr>,
    patience: Duration,
) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        // A listener whose queue is full drops further handshakes.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind(any).unwrap();
        let silent = silent.listen(1).unwrap();
        let silent_address = silent.local_addr().unwrap();
        let mut queued = Vec::new();
        let patience = Duration::from_secs(1);
        while let Ok(stream) = connect([silent_address].into_iter(), patience).await {
            queued.push(stream);
        }
        let open = std::net::TcpListener::bind(any).unwrap();
        let open = open.local_addr().unwrap();
        let stream = connect([silent_address, open].into_iter(), patience).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
    }
}
