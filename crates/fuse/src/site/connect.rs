//! Connections to a site, with TLS where its URL says so.

use std::{io, sync::Arc};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::address::Address;

/// Opens connections to one site.
pub(super) struct Connector {
    server: String,
    /// None: the site is one of `http`.
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    /// Fails where the certificate of the site could not be checked.
    pub(super) fn new(address: &Address) -> Result<Connector, String> {
        let tls = if address.is_secure {
            let name = ServerName::try_from(address.host().to_owned());
            let name = name.map_err(|_| format!("{}: not a name of a server", address.host()))?;
            Some((TlsConnector::from(trust()?), name))
        } else {
            None
        };
        Ok(Connector { server: address.server.clone(), tls })
    }

    pub(super) async fn connect(&self) -> io::Result<SendRequest<Empty<Bytes>>> {
        let stream = TcpStream::connect(&self.server).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            Some((tls, name)) => speak(tls.connect(name.clone(), stream).await?).await,
            None => speak(stream).await,
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> io::Result<SendRequest<Empty<Bytes>>> {
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|_| Errno::IO)?;
    tokio::spawn(connection);
    Ok(sender)
}

/// The authorities that this system trusts, and the protocol that is spoken.
fn trust() -> Result<Arc<ClientConfig>, String> {
    let mut config = larder_trust::client_config()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
