//! Sessions over a real, small store, without sockets: bytes in, bytes out. The expected answers
//! are those of memcached 1.6.18.

mod auth;
mod large;
mod meta;
mod text;
mod waits;

use std::{cell::Cell, rc::Rc, sync::Arc};

use larder_store::{Options, Store};

use super::Session;
use crate::room::Room;
use crate::{
    clock::{Clock, Ms},
    memcache::{Face, Shared},
    net::out::Out,
    object::{Client, Peer, Session as _, Turn},
    settings::{Listen, MemcachedSettings},
};

const NOW: Ms = 1_795_200_944_007;

fn settings() -> MemcachedSettings {
    MemcachedSettings::plain(vec![Listen::Tcp(([127, 0, 0, 1], 11211).into())])
}

/// A face with one worker.
struct Server {
    face: Rc<Face>,
    client: Arc<Client>,
    /// Looks keys up before their command, as in a round of several connections; else as a task
    /// continues.
    rounds: Cell<bool>,
}

/// Result of a session.
#[derive(Debug, PartialEq, Eq)]
struct Output {
    answers: Vec<u8>,
    closed: bool,
}

impl Server {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: MemcachedSettings) -> Self {
        let options = Options { budget: 32 << 20, max_value: 16 << 20, ..Options::default() };
        let store: &'static Store = Box::leak(Box::new(Store::open(options).unwrap()));
        let shared =
            Shared::new(settings, store, (&Room::new(store, Clock::start()), None), NOW, 1);
        let peer = Peer::Tcp(([127, 0, 0, 1], 4711).into());
        let client = shared.clients.enter(peer, "127.0.0.1:11211", NOW);
        Self { face: Face::new(&shared, 0), client, rounds: Cell::new(true) }
    }

    fn session(&self) -> Session {
        self.face.session(self.client.clone())
    }

    /// Sends `parts` in order and collects the answers.
    fn exchange<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>, now: Ms) -> Output {
        let mut session = self.session();
        let mut out = Out::default();
        let mut output = Output { answers: Vec::new(), closed: false };
        let mut input = Vec::new();
        for part in parts {
            input.extend_from_slice(part);
            if self.rounds.get() {
                session.fetch(&input);
                session.fetch_record();
            }
            if output.feed(&mut session, &mut input, now, &mut out) {
                break;
            }
        }
        output
    }

    /// The complete answer to `input`, sent at once.
    #[track_caller]
    fn ask(&self, input: &str) -> String {
        self.at(NOW, input)
    }

    #[track_caller]
    fn at(&self, now: Ms, input: &str) -> String {
        let output = self.exchange([input.as_bytes()], now);
        assert!(!output.closed, "{input:?} closed");
        String::from_utf8(output.answers).unwrap()
    }
}

impl Output {
    /// Lets the session consume `input`, as the connection loop does. Returns true if it closed.
    fn feed(&mut self, session: &mut Session, input: &mut Vec<u8>, now: Ms, out: &mut Out) -> bool {
        // A turn that uses no bytes and answers nothing must change the state: only a few in a row.
        let mut idle = 0;
        loop {
            let turn = session.turn(input, now, out);
            let pending = out.pending();
            out.send(&mut self.answers).expect("memory takes it");
            let used = match turn {
                Turn::Used(used) | Turn::Flush(used) | Turn::Again(used) => used,
                Turn::More(whole) => {
                    assert!(
                        whole == 0 || whole > input.len(),
                        "it has {} and wants {whole}",
                        input.len()
                    );
                    return false;
                }
                Turn::Later(..) => panic!("memcached's commands never wait"),
                Turn::Close => {
                    self.closed = true;
                    return true;
                }
            };
            input.drain(..used);
            idle = if used == 0 && pending == 0 { idle + 1 } else { 0 };
            assert!(idle < 4, "the session goes round in circles");
            if input.is_empty() && matches!(turn, Turn::Used(_)) {
                return false;
            }
        }
    }
}

/// Sends `input` whole, then to a new server split at every position: the answers are the same.
#[track_caller]
fn is_the_same_however_split(input: &[u8], expected: &str) {
    let whole = Server::new().exchange([input], NOW);
    assert_eq!(String::from_utf8_lossy(&whole.answers), expected);
    let server = Server::new();
    for at in 1..input.len() {
        server.face.store.flush(crate::memcache::OBJECTS, NOW);
        let (first, second) = input.split_at(at);
        let split = server.exchange([first, second], NOW);
        assert_eq!(String::from_utf8_lossy(&split.answers), expected, "split at {at}");
    }
    server.face.store.flush(crate::memcache::OBJECTS, NOW);
    let bytes = server.exchange(input.chunks(1), NOW);
    assert_eq!(String::from_utf8_lossy(&bytes.answers), expected, "byte by byte");
}
