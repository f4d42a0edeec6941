//! Informs other Larders of purges at once. Purges that do not reach them are read from the fleet.
//!
//! One request has several purges:
//!
//! ```text
//! PURGE / HTTP/1.1
//! Host: (the peer's)
//! Authorization: Bearer (remote.peer_token_file)
//! Larder-Purge: journal
//! Larder-Journal: (hexadecimal: a part of the journal)
//! ```
//!
//! A peer answers 204 when it has the purges, and executes them next. It does not forward them:
//! only the Larder that a client asked informs others.

use std::{rc::Rc, sync::Arc, sync::atomic::Ordering, time::Duration};

use http::{HeaderMap, HeaderValue, Method};
use tokio::{sync::mpsc, task::spawn_local, time::timeout};

use super::{
    Shared,
    journal::{Entry, Log, Name, parcel},
};
use crate::{
    origin::{Asker, Origin, Request, RequestBody},
    settings::OriginSettings,
};

/// Purges that may wait for a peer; it reads further ones from the fleet, which is counted.
const WAITING: usize = 8192;
/// Purges in one request.
const AT_ONCE: usize = 64;
/// Bytes of purges in one request; twice that in hexadecimal fits every server's limit for a
/// request's head.
const BYTES: usize = 6 << 10;
/// Attempts of a request, with growing pauses between them.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Time limit for a peer's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The queues to all peers.
pub(crate) struct Peers(Vec<mpsc::Sender<(Name, Entry)>>);

impl Peers {
    /// Starts the tasks that inform peers, on this runtime.
    pub(crate) fn start(shared: &Arc<Shared>) -> Peers {
        let Some(token) = shared.settings.peer_token.as_ref() else { return Peers(Vec::new()) };
        let start = |peer: &Arc<OriginSettings>| {
            let (send, purges) = mpsc::channel(WAITING);
            let telling = Telling {
                shared: shared.clone(),
                origin: Origin::new(peer.clone(), Arc::default()),
                token: token.field.clone(),
            };
            spawn_local(telling.run(purges));
            send
        };
        Peers(shared.settings.peers.iter().map(start).collect())
    }

    /// Queues a purge for all peers.
    pub(crate) fn tell(&self, shared: &Shared, purges: &[(Name, Entry)]) {
        for peer in &self.0 {
            for purge in purges {
                // A long purge is left to the fleet.
                if purge.1.len() > BYTES || peer.try_send(purge.clone()).is_err() {
                    shared.untold.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

struct Telling {
    shared: Arc<Shared>,
    origin: Rc<Origin>,
    token: HeaderValue,
}

impl Telling {
    async fn run(self, mut purges: mpsc::Receiver<(Name, Entry)>) {
        let mut some = Vec::with_capacity(AT_ONCE);
        while purges.recv_many(&mut some, AT_ONCE).await > 0 {
            while !some.is_empty() {
                let mut bytes = 0;
                let fit = some.iter().take_while(|(_, entry)| {
                    bytes += entry.len() + 16;
                    bytes <= BYTES + 16
                });
                let count = fit.count().max(1);
                let told = self.tell(parcel(some.drain(..count))).await;
                let counter = if told { &self.shared.told } else { &self.shared.untold };
                counter.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }

    /// Sends a request. Returns whether the peer accepted it.
    async fn tell(&self, parcel: Log) -> bool {
        let Ok(field) = HeaderValue::from_str(&hex(&parcel.encode())) else { return false };
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(FIRST_PAUSE * 2u32.pow(attempt - 1)).await;
            }
            let Ok(Ok(mut response)) =
                timeout(PATIENCE, self.origin.send(self.request(&field), None)).await
            else {
                continue;
            };
            // The connection can be reused after its answer is read.
            while let Ok(Ok(Some(_))) = timeout(PATIENCE, response.body.chunk()).await {}
            match response.status {
                204 => return true,
                // It is busy.
                503 => {}
                // It refuses, and will refuse the next time.
                _ => return false,
            }
        }
        false
    }

    fn request(&self, field: &HeaderValue) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::AUTHORIZATION, self.token.clone());
        headers.insert("larder-purge", HeaderValue::from_static("journal"));
        headers.insert("larder-journal", field.clone());
        let method = Method::from_bytes(b"PURGE").unwrap_or(Method::DELETE);
        Request {
            method,
            target: "/".to_owned(),
            visited: None,
            headers,
            body: RequestBody::Empty,
            upgrade: false,
            asker: Asker::default(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())
}

/// Takes purges from a peer. Returns the status of the answer.
pub(crate) fn hear(
    shared: &Shared,
    authorization: Option<&[u8]>,
    journal: Option<&[u8]>,
    now: crate::clock::Ms,
) -> u16 {
    let offered = authorization.and_then(|field| field.split_at_checked(7));
    let token = shared.settings.peer_token.as_ref();
    let believed = matches!((token, offered), (Some(token), Some((scheme, offered)))
        if scheme.eq_ignore_ascii_case(b"bearer ") && token.secret.matches(offered));
    if !believed {
        return 403;
    }
    let Some(log) = journal.and_then(unhex).as_deref().and_then(Log::decode) else { return 400 };
    shared.journal.hear(log, now);
    shared.heard.fetch_add(1, Ordering::Relaxed);
    shared.reading.want();
    204
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(hex(&bytes).as_bytes()), Some(bytes));
        assert_eq!(unhex(b"abc"), None);
        assert_eq!(unhex(b"0g"), None);
        assert_eq!(unhex(b""), Some(Vec::new()));
    }
}
