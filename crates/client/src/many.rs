//! Multi-key reads: keys are split by server, servers are asked in parallel, answers keep the order
//! of the keys.

use std::{collections::BTreeMap, io};

use tokio::{sync::oneshot, time};

use crate::{
    Client, Error, Item,
    op::{Answer, Keys, Op},
    peer::ReplyTo,
};

/// Most keys in one request: enough to amortise the head, few enough to let other requests in
/// between.
const KEYS: usize = 100;

type GetResult = Result<Option<Item>, Error>;

/// One request to one server: its keys, and their indices in the caller's list.
struct Part {
    indices: Vec<usize>,
    keys: Keys,
}

/// Requests for each server, of at most [`KEYS`] keys.
type Parts = BTreeMap<usize, Vec<Part>>;

/// A submitted request.
struct PendingRequest {
    indices: Vec<usize>,
    answer: Result<oneshot::Receiver<Result<Answer, Error>>, Error>,
}

/// Adds a key to the last request, or to a new one with capacity for about `share` keys of this
/// size.
fn add(parts: &mut Vec<Part>, index: usize, (prefix, key): (&[u8], &[u8]), share: usize) {
    if parts.last().is_none_or(|part| part.indices.len() == KEYS) {
        let (room, bytes) = (share.min(KEYS), prefix.len() + key.len() + 4);
        parts.push(Part {
            indices: Vec::with_capacity(room),
            keys: Keys::with_room(room, room * bytes),
        });
    }
    if let Some(part) = parts.last_mut() {
        part.indices.push(index);
        part.keys.push(prefix, key);
    }
}

impl Client {
    /// The items under many keys, in order; each key has its own result. A failed server affects
    /// only its own keys.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Vec<GetResult> {
        self.many(keys, false).await
    }

    /// Like [`Client::get_many`], and returns the items' versions in every protocol.
    pub async fn gets_many(&self, keys: &[&[u8]]) -> Vec<GetResult> {
        self.many(keys, true).await
    }

    async fn many(&self, keys: &[&[u8]], cas: bool) -> Vec<GetResult> {
        let mut found: Vec<GetResult> = Vec::with_capacity(keys.len());
        found.resize_with(keys.len(), || Err(Error::Down));
        let replicas = self.inner.config.replicas;
        // Computed once: a server that fails in one round is not asked in the next.
        let copies: Vec<Vec<usize>> = match replicas {
            1 => Vec::new(),
            _ => keys.iter().map(|key| self.candidates(key)).collect(),
        };
        let mut open: Vec<usize> = (0..keys.len()).collect();
        // Each round retries the keys whose server failed: on the next replica, or with one copy on
        // the same server once more if its connection closed.
        for round in 0..replicas.max(2) {
            let mut parts = Parts::new();
            // A server's share of the keys plus a half, as keys are not spread evenly.
            let share = open.len() * 3 / self.inner.config.servers.len() / 2 + 1;
            for index in open {
                let server = match replicas {
                    1 => self.route(keys[index]),
                    _ => copies[index].get(round).copied().ok_or(Error::Down),
                };
                match (self.prefix_of(keys[index]), server) {
                    (Ok(prefix), Ok(server)) => {
                        add(parts.entry(server).or_default(), index, (prefix, keys[index]), share);
                    }
                    (Err(error), _) => found[index] = Err(error),
                    (_, Err(error)) if round == 0 => found[index] = Err(error),
                    // The later error says more.
                    _ => {}
                }
            }
            let sent = self.send(parts, cas).await;
            collect(sent, &mut found).await;
            let again = |got: &GetResult| match got {
                Err(Error::Closed(_)) => true,
                Err(Error::Key) | Ok(_) => false,
                Err(_) => replicas > 1,
            };
            open = (0..keys.len()).filter(|index| again(&found[*index])).collect();
            if open.is_empty() {
                break;
            }
        }
        found
    }

    /// Submits all requests: first those for which there is room, so that no server waits for
    /// another; then the rest, all within one write timeout.
    async fn send(&self, parts: Parts, cas: bool) -> Vec<PendingRequest> {
        let mut sent = Vec::with_capacity(parts.len());
        let mut late = Vec::new();
        for (server, parts) in parts {
            for Part { indices, keys } in parts {
                let (reply_to, answer) = oneshot::channel();
                match self.peer(server).submit_now(Op::Get { keys, cas }, ReplyTo::Caller(reply_to))
                {
                    Ok(()) => sent.push(PendingRequest { indices, answer: Ok(answer) }),
                    Err((op, reply_to)) => late.push((server, indices, op, reply_to, answer)),
                }
            }
        }
        let until = time::Instant::now() + self.inner.config.timeouts.write;
        for (server, indices, op, reply_to, answer) in late {
            let submitted = self.peer(server).submit_until(op, reply_to, until).await;
            sent.push(PendingRequest { indices, answer: submitted.map(|()| answer) });
        }
        sent
    }
}

async fn collect(sent: Vec<PendingRequest>, found: &mut [GetResult]) {
    for PendingRequest { indices, answer } in sent {
        let answer = match answer {
            Ok(answer) => answer.await.unwrap_or(Err(Error::Closed(io::ErrorKind::Other))),
            Err(error) => Err(error),
        };
        match answer {
            Ok(Answer::Items(items)) if items.len() == indices.len() => {
                for (index, item) in indices.into_iter().zip(items) {
                    found[index] = Ok(item);
                }
            }
            Ok(other) => {
                let error = other.unexpected::<()>();
                indices.into_iter().for_each(|index| found[index] = error.clone().map(|()| None));
            }
            Err(error) => indices.into_iter().for_each(|index| found[index] = Err(error.clone())),
        }
    }
}
