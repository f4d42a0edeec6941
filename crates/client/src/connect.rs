//! Connections of one's own making: TLS, or whatever else stands between the client and a server.
//!
//! The client brings no TLS along: which library, which roots and which client certificate are the user's to say. A
//! [`Connector`] makes each connection; [`dial`] is what it begins with where it wraps a plain one.
//!
//! ```no_run
//! # mod tls { // stands for tokio_rustls
//! #     use larder_client::Connection;
//! #     pub struct TlsConnector;
//! #     impl TlsConnector {
//! #         pub async fn connect(&self, _: &str, plain: Box<dyn Connection>) -> std::io::Result<Box<dyn Connection>> { Ok(plain) }
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
//! Config { connector: Some(Arc::new(Tls(tls)).into()), ..Config::new([Server::tcp("cache.example", 11212)]) }
//! # }
//! ```

use std::{fmt, io, pin::Pin, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Address, lane::Stream};

/// A connection as it is made: dropped when it is not there in time.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send + 'a>>;

/// Bytes to a server and back. What is written is flushed behind each batch.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Makes connections, probes' among them.
pub trait Connector: Send + Sync {
    /// A connection to this server, ready for the first request. It has [`Timeouts::connect`](crate::Timeouts) for it, the
    /// greeting included; an error is a failure of the server ([`Error::Connect`](crate::Error::Connect) with its kind).
    fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a>;
}

/// A connector as [`Config`](crate::Config) has it. Equal to its clones alone.
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

/// A plain connection, as the client makes them without a connector: TCP_NODELAY is set, and of a name's addresses the first that
/// answers is taken.
///
/// # Errors
///
/// The last address's.
pub async fn dial(address: &Address) -> io::Result<Box<dyn Connection>> {
    Ok(Box::new(Stream::connect(address).await?))
}
