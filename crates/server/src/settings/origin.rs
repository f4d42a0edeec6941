//! One server of an origin.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use larder_proto::proxy_protocol;

use super::{AppUse, FastCgiSettings, OriginTls, TreeSettings};

/// The protocol of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginScheme {
    /// HTTP/1.1, over TCP or a unix socket.
    Http,
    /// The same over TLS and TCP.
    Https(Arc<OriginTls>),
    /// FastCGI, over TCP or a unix socket.
    FastCgi(Arc<FastCgiSettings>),
    /// Files of this machine.
    Files(Arc<TreeSettings>),
}

impl OriginScheme {
    /// As in URLs.
    pub fn as_str(&self) -> &'static str {
        match self {
            OriginScheme::Http => "http",
            OriginScheme::Https(_) => "https",
            OriginScheme::FastCgi(_) => "fcgi",
            OriginScheme::Files(_) => "files",
        }
    }

    /// The application; None: the origin is none.
    pub fn application(&self) -> Option<&Arc<FastCgiSettings>> {
        match self {
            OriginScheme::FastCgi(settings) => Some(settings),
            OriginScheme::Http | OriginScheme::Https(_) | OriginScheme::Files(_) => None,
        }
    }
}

/// The form of targets (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// Path and query.
    #[default]
    Origin,
    /// The whole URL, as proxies and other caches want it.
    Absolute,
}

/// One server of an origin, with its time limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSettings {
    /// Its protocol.
    pub scheme: OriginScheme,
    /// The form of targets, of HTTP.
    pub target: TargetForm,
    /// Host name or address, brackets of an IPv6 address removed; empty for a unix socket and
    /// for files.
    pub host: String,
    /// TCP port; 0 for a unix socket and for files.
    pub port: u16,
    /// Its unix socket; None: it is reached by TCP.
    pub socket: Option<PathBuf>,
    /// Its address; None: the name is looked up for each connection.
    pub address: Option<SocketAddr>,
    /// The application that Larder runs, if it is one.
    pub app: Option<Arc<AppUse>>,
    /// Directories whose files its answers may name (X-Accel-Redirect, X-Sendfile), each with the
    /// beginning of the paths for it, which ends with a slash. Empty: such fields are passed on.
    pub send_files: Vec<(String, Arc<TreeSettings>)>,
    /// Connections to it begin with a header of the PROXY protocol, which names no client: each is
    /// for requests of many.
    pub proxy_protocol: Option<proxy_protocol::Version>,
    /// `Host` sent to the origin; None: the client's.
    pub host_header: Option<String>,
    /// Time limit for the TCP connection.
    pub connect_timeout: Duration,
    /// Time limit from the sent request to the head of the final response.
    pub first_byte_timeout: Duration,
    /// Time limit between two pieces of the body.
    pub between_bytes_timeout: Duration,
    /// Time limit for the whole response.
    pub total_timeout: Duration,
    /// Connections at once, per worker thread. Tunnels (101) do not count.
    pub max_connections: usize,
    /// Requests waiting for a connection, per worker thread; the next one gets 503.
    pub max_waiting: usize,
    /// Time limit for the wait for a connection, then 503.
    pub max_wait: Duration,
    /// Idle connections kept, per worker thread.
    pub idle_connections: usize,
    /// Time for which an idle connection is kept.
    pub idle_timeout: Duration,
}

impl OriginSettings {
    /// `http://host:port`, `fcgi+unix:/path`, `app:name`: its name in figures and listings.
    pub fn name(&self) -> String {
        if let Some(app) = &self.app {
            return format!("app:{}", app.name());
        }
        let scheme = self.scheme.as_str();
        if let Some(path) = &self.socket {
            return format!("{scheme}+unix:{}", path.display());
        }
        if let OriginScheme::Files(tree) = &self.scheme {
            return format!("{scheme}:{}", tree.root.display());
        }
        if self.host.contains(':') {
            return format!("{scheme}://[{}]:{}", self.host, self.port);
        }
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

/// Values for tests; the defaults of the program are in its table of options.
#[cfg(test)]
impl Default for OriginSettings {
    fn default() -> Self {
        OriginSettings {
            scheme: OriginScheme::Http,
            target: TargetForm::Origin,
            host: "127.0.0.1".to_owned(),
            port: 80,
            socket: None,
            address: None,
            app: None,
            send_files: Vec::new(),
            proxy_protocol: None,
            host_header: None,
            connect_timeout: Duration::from_secs(3),
            first_byte_timeout: Duration::from_secs(60),
            between_bytes_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(3600),
            max_connections: 128,
            max_waiting: 1024,
            max_wait: Duration::from_secs(60),
            idle_connections: 32,
            idle_timeout: Duration::from_secs(30),
        }
    }
}
