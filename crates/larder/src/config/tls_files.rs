//! TLS of an object face by the options of memcached's and redis-server's own names.

use std::{path::PathBuf, sync::Arc};

use larder_server::settings::{Certificate, ClientAuth, FaceTls, Listen, TlsVersion};

use super::{bounded, https::PEM_BYTES};

/// The files and rules as the options name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) ca: Option<PathBuf>,
    /// Clients are asked for certificates: whether they must have one. None: they are not asked.
    pub(crate) required: Option<bool>,
    /// TLS 1.2 is not spoken.
    pub(crate) only_13: bool,
}

impl TlsFiles {
    /// Reads the files. The error is a reason to print.
    pub(crate) fn read(&self, listen: Vec<Listen>) -> Result<FaceTls, String> {
        let read = |what: &str, path: &Option<PathBuf>| {
            let path = path.as_ref().ok_or_else(|| format!("TLS needs {what}"))?;
            let told = |reason| format!("cannot read {}: {reason}", path.display());
            bounded::read(path, PEM_BYTES).map(|(bytes, _)| bytes).map_err(told)
        };
        let chain = read("the file of a certificate", &self.cert)?;
        let key = read("the file of its key", &self.key)?;
        let certificate = Certificate::parse(&chain, &key).map_err(|error| error.to_string())?;
        let clients = match self.required {
            None => None,
            Some(required) => {
                let known = read("the file of authorities that clients are verified by", &self.ca)?;
                let clients = ClientAuth::new(required, &known, None);
                Some(Arc::new(clients.map_err(|error| error.to_string())?))
            }
        };
        let min_version = if self.only_13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        Ok(FaceTls { listen, certificate: Arc::new(certificate), min_version, clients })
    }
}
