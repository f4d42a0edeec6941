//! Many keys at once: split by server, all servers in flight together, answers in the order asked.

use std::{collections::BTreeMap, io};

use tokio::{sync::oneshot, time};

use crate::{
    Client, Error, Item,
    op::{Answer, Keys, Op},
    peer::Told,
};

/// Most keys of one request: long enough that the head costs nothing, short enough that others get in between.
const KEYS: usize = 100;

type Got = Result<Option<Item>, Error>;

/// One request to one server: the places of the keys among all, and the keys.
struct Part {
    places: Vec<usize>,
    keys: Keys,
}

/// What one server is asked: requests of at most [`KEYS`] keys.
type Parts = BTreeMap<usize, Vec<Part>>;

/// A request that was sent.
struct Sent {
    places: Vec<usize>,
    answer: Result<oneshot::Receiver<Result<Answer, Error>>, Error>,
}

/// Adds a key to the last request, or to a new one with room for about so many more such keys.
fn add(parts: &mut Vec<Part>, place: usize, (prefix, key): (&[u8], &[u8]), share: usize) {
    if parts.last().is_none_or(|part| part.places.len() == KEYS) {
        let (room, bytes) = (share.min(KEYS), prefix.len() + key.len() + 4);
        parts.push(Part { places: Vec::with_capacity(room), keys: Keys::with_room(room, room * bytes) });
    }
    if let Some(part) = parts.last_mut() {
        part.places.push(place);
        part.keys.push(prefix, key);
    }
}

impl Client {
    /// The items under many keys, in the order asked; each has an answer of its own. One server's failure is no other's.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Vec<Got> {
        self.many(keys, false).await
    }

    /// As [`Client::get_many`], with the items' versions whatever the protocol.
    pub async fn gets_many(&self, keys: &[&[u8]]) -> Vec<Got> {
        self.many(keys, true).await
    }

    async fn many(&self, keys: &[&[u8]], cas: bool) -> Vec<Got> {
        let mut found: Vec<Got> = Vec::with_capacity(keys.len());
        found.resize_with(keys.len(), || Err(Error::Down));
        let replicas = self.inner.config.replicas;
        // Looked up once: whoever fails in one round is not among them in the next.
        let copies: Vec<Vec<usize>> = match replicas {
            1 => Vec::new(),
            _ => keys.iter().map(|key| self.candidates(key)).collect(),
        };
        let mut open: Vec<usize> = (0..keys.len()).collect();
        // Each round asks those again whose server failed: the next replica, or, with one copy, the same place once more when
        // its connection ended under way.
        for round in 0..replicas.max(2) {
            let mut parts = Parts::new();
            // A server's share of the keys, and a half more, for they are not spread evenly.
            let share = open.len() * 3 / self.inner.config.servers.len() / 2 + 1;
            for place in open {
                let server = match replicas {
                    1 => self.route(keys[place]),
                    _ => copies[place].get(round).copied().ok_or(Error::Down),
                };
                match (self.prefix_of(keys[place]), server) {
                    (Ok(prefix), Ok(server)) => {
                        add(parts.entry(server).or_default(), place, (prefix, keys[place]), share);
                    }
                    (Err(error), _) => found[place] = Err(error),
                    (_, Err(error)) if round == 0 => found[place] = Err(error),
                    // What the last one said says more.
                    _ => {}
                }
            }
            let sent = self.send(parts, cas).await;
            collect(sent, &mut found).await;
            let again = |got: &Got| match got {
                Err(Error::Closed(_)) => true,
                Err(Error::Key) | Ok(_) => false,
                Err(_) => replicas > 1,
            };
            open = (0..keys.len()).filter(|place| again(&found[*place])).collect();
            if open.is_empty() {
                break;
            }
        }
        found
    }

    /// Sends all parts: first those for which there is room, so that no server waits for another, then the rest, within one
    /// time for writing in all.
    async fn send(&self, parts: Parts, cas: bool) -> Vec<Sent> {
        let mut sent = Vec::with_capacity(parts.len());
        let mut late = Vec::new();
        for (server, parts) in parts {
            for Part { places, keys } in parts {
                let (told, answer) = oneshot::channel();
                match self.peer(server).submit_now(Op::Get { keys, cas }, Told::Caller(told)) {
                    Ok(()) => sent.push(Sent { places, answer: Ok(answer) }),
                    Err((op, told)) => late.push((server, places, op, told, answer)),
                }
            }
        }
        let until = time::Instant::now() + self.inner.config.timeouts.write;
        for (server, places, op, told, answer) in late {
            let submitted = self.peer(server).submit_until(op, told, until).await;
            sent.push(Sent { places, answer: submitted.map(|()| answer) });
        }
        sent
    }
}

async fn collect(sent: Vec<Sent>, found: &mut [Got]) {
    for Sent { places, answer } in sent {
        let answer = match answer {
            Ok(answer) => answer.await.unwrap_or(Err(Error::Closed(io::ErrorKind::Other))),
            Err(error) => Err(error),
        };
        match answer {
            Ok(Answer::Items(items)) if items.len() == places.len() => {
                for (place, item) in places.into_iter().zip(items) {
                    found[place] = Ok(item);
                }
            }
            Ok(other) => {
                let error = other.unexpected::<()>();
                places.into_iter().for_each(|place| found[place] = error.clone().map(|()| None));
            }
            Err(error) => places.into_iter().for_each(|place| found[place] = Err(error.clone())),
        }
    }
}
