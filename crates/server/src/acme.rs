//! Shared state of certificates by ACME: the answers to challenges that are open now, and how the
//! orders of each name went. The thread that orders writes it; workers and the registry read it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use rustls::sign::CertifiedKey;

use crate::settings::{Certificate, CertificateError};

/// The paths of http-01 begin with this (RFC 8555 section 8.3).
pub(crate) const HTTP_PREFIX: &str = "/.well-known/acme-challenge/";

/// The answers to open challenges, and the state of each name. At most one challenge is open for
/// each name.
#[derive(Debug, Default)]
pub struct Acme {
    /// Key authorizations by token.
    tokens: RwLock<HashMap<String, String>>,
    /// Certificates for handshakes by name.
    certificates: RwLock<HashMap<String, Arc<CertifiedKey>>>,
    names: Mutex<BTreeMap<String, NameState>>,
}

/// The state of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameState {
    /// Seconds since 1970 at which the next order is due; None: not known yet.
    pub renew_at: Option<i64>,
    /// Orders that gave a certificate, since the start.
    pub orders: u64,
    /// Orders that failed, since the start.
    pub failures: u64,
    /// The reason why the last order failed; None: it did not.
    pub reason: Option<String>,
}

/// An answer to a challenge. It is given until this is dropped.
#[derive(Debug)]
pub struct OpenChallenge {
    acme: Arc<Acme>,
    key: Key,
}

#[derive(Debug)]
enum Key {
    Token(String),
    Name(String),
}

impl Acme {
    /// Answers http-01 for this token (RFC 8555 section 8.3).
    pub fn open_http(self: &Arc<Self>, token: &str, authorization: &str) -> OpenChallenge {
        self.tokens.write().insert(token.to_owned(), authorization.to_owned());
        OpenChallenge { acme: self.clone(), key: Key::Token(token.to_owned()) }
    }

    /// Answers tls-alpn-01 for this name; `digest` is the SHA-256 of the key authorization (RFC
    /// 8737 section 3).
    pub fn open_tls(
        self: &Arc<Self>,
        name: &str,
        digest: &[u8],
    ) -> Result<OpenChallenge, CertificateError> {
        let key = Certificate::for_challenge(name, digest)?;
        self.certificates.write().insert(name.to_owned(), Arc::new(key));
        Ok(OpenChallenge { acme: self.clone(), key: Key::Name(name.to_owned()) })
    }

    /// The answer to http-01.
    pub(crate) fn authorization(&self, token: &str) -> Option<String> {
        self.tokens.read().get(token).cloned()
    }

    /// The answer to tls-alpn-01 for a name in lower case.
    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.certificates.read().get(name).cloned()
    }

    /// Changes the state of a name.
    pub fn note(&self, name: &str, change: impl FnOnce(&mut NameState)) {
        change(self.names.lock().entry(name.to_owned()).or_default());
    }

    /// Forgets the names that are not in the list.
    pub fn retain(&self, names: &[String]) {
        self.names.lock().retain(|name, _| names.contains(name));
    }

    /// The state of a name.
    pub fn state(&self, name: &str) -> NameState {
        self.names.lock().get(name).cloned().unwrap_or_default()
    }
}

impl Drop for OpenChallenge {
    fn drop(&mut self) {
        match &self.key {
            Key::Token(token) => drop(self.acme.tokens.write().remove(token)),
            Key::Name(name) => drop(self.acme.certificates.write().remove(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_while_its_challenge_is_open() {
        let acme = Arc::new(Acme::default());
        let open = acme.open_http("token", "token.thumb");
        assert_eq!(acme.authorization("token").as_deref(), Some("token.thumb"));
        assert_eq!(acme.authorization("other"), None);
        drop(open);
        assert_eq!(acme.authorization("token"), None);
        let open = acme.open_tls("a.example", &[7; 32]).expect("a certificate");
        assert!(acme.certificate("a.example").is_some());
        assert!(acme.certificate("b.example").is_none());
        drop(open);
        assert!(acme.certificate("a.example").is_none());
    }
}
