//! Custom connections: TLS, or another transport between client and server.
//!
//! The client includes no TLS: library, roots and client certificates are the user's choice. A
//! [`Connector`] makes each connection; it may wrap a plain one made by [`dial`].
//!
//! ```no_run
//! # mod tls { // stands for tokio_rustls
//! #     use larder_client::Connection;
//! #     pub struct TlsConnector;
//! #     impl TlsConnector {
//! #         pub async fn connect(
//! #             &self, _: &str, plain: Box<dyn Connection>,
//! #         ) -> std::io::Result<Box<dyn Connection>> {
//! #             Ok(plain)
//! #         }
//! #     }
//! # }
//! use larder_client::{Address, Config, Connecting, Connection, Connector, Server, dial};
//! use std::sync::Arc;
//!
//! struct Tls(tls::TlsConnector);
//!
//! impl Connector for Tls {
//!     fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a> {
//!         Box::pin(async move {
//!             let plain = dial(address).await?;
//!             let Address::Tcp(host, _) = address else { return Ok(plain) };
//!             Ok(Box::new(self.0.connect(host, plain).await?) as Box<dyn Connection>)
//!         })
//!     }
//! }
//!
//! # fn example(tls: tls::TlsConnector) -> Config {
//! let servers = [Server::tcp("cache.example", 11212)];
//! Config { connector: Some(Arc::new(Tls(tls)).into()), ..Config::new(servers) }
//! # }
//! ```

use std::{fmt, io, pin::Pin, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Address, lane::Stream};

/// The future of a connection; dropped at the connect timeout.
pub type Connecting<'a> =
    Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send + 'a>>;

/// A byte stream to a server. Writes are flushed after each batch.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Makes connections, including those for probes.
pub trait Connector: Send + Sync {
    /// A connection to this server, ready for the first request. It must be made, handshake
    /// included, within [`Timeouts::connect`](crate::Timeouts). An error counts as a failure of the
    /// server ([`Error::Connect`](crate::Error::Connect) with its kind).
    fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a>;
}

/// A connector in a [`Config`](crate::Config). Equal only to its clones.
#[derive(Clone)]
pub struct SharedConnector(Arc<dyn Connector>);

impl SharedConnector {
    pub(crate) fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a> {
        self.0.connect(address)
    }
}

impl<C: Connector + 'static> From<Arc<C>> for SharedConnector {
    fn from(connector: Arc<C>) -> SharedConnector {
        SharedConnector(connector)
    }
}

impl fmt::Debug for SharedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedConnector")
    }
}

impl PartialEq for SharedConnector {
    fn eq(&self, other: &SharedConnector) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedConnector {}

/// A plain connection, as made without a connector: TCP_NODELAY is set; of a name's addresses, the
/// first that accepts is used.
///
/// # Errors
///
/// The error of the last address tried.
pub async fn dial(address: &Address) -> io::Result<Box<dyn Connection>> {
    Ok(Box::new(Stream::connect(address).await?))
}
