//! The face without sockets: bytes in, bytes out, over a small store.

mod clients;
mod isolation;
mod messages;
mod protocol;
mod server;
mod tracking;

use std::{net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use larder_store::{Options, Store};

use crate::room::Room;
use crate::{
    clock::{Clock, Ms},
    net::out::Out,
    object::{Client, Peer, Sent, Session as _, Turn},
    settings::{PARTS, RedisSettings, Secret, Share},
};

use super::{Face, Session, Shared};

pub(super) const NOW: Ms = 1_700_000_000_000;

pub(super) fn settings() -> RedisSettings {
    RedisSettings {
        listen: Vec::new(),
        tls: None,
        proxies: Vec::new(),
        databases: 16,
        item_size: 1 << 20,
        bulk: 512 << 20,
        connections: 100,
        idle_timeout: Duration::ZERO,
        receive_timeout: Duration::from_secs(60),
        send_timeout: Duration::from_secs(60),
        subscriber_buffer: 1 << 20,
        password: None,
        users: None,
        acl: None,
        protected: true,
        shutdown: true,
        share_memcached: false,
        no_evictions: false,
        slowlog_micros: Some(10_000),
        backlog: 511,
        share: Share::default(),
    }
}

pub(super) fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

pub(super) fn shared(settings: RedisSettings) -> Arc<Shared> {
    let parts = Some(PARTS);
    let options = Options { budget: 16 << 20, max_value: 1 << 20, parts, ..Options::default() };
    let store: &'static Store = Box::leak(Box::new(Store::open(options).unwrap()));
    let clock = Clock::start();
    Shared::new(settings, store, &Room::new(store, clock), clock, 1)
}

/// One client of a face.
pub(super) struct TestClient {
    pub(super) inner: Arc<Client>,
    session: Session,
    /// Received bytes that are not used yet.
    input: Vec<u8>,
    pub(super) closed: bool,
    /// How often others had their turn between two commands.
    pub(super) yields: usize,
    pub(super) now: Ms,
}

impl TestClient {
    pub(super) fn new(face: &Rc<Face>) -> TestClient {
        TestClient::from(face, "127.0.0.1:4711")
    }

    pub(super) fn from(face: &Rc<Face>, address: &str) -> TestClient {
        let address: SocketAddr = address.parse().unwrap();
        let client = face.shared.clients.enter(Peer::Tcp(address), "127.0.0.1:6379", NOW);
        let session = face.session(client.clone());
        TestClient { inner: client, session, input: Vec::new(), closed: false, yields: 0, now: NOW }
    }

    /// Sends raw bytes; returns the answers so far and the messages.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        // As in a round of several connections.
        self.session.fetch(&self.input);
        self.session.fetch_record();
        self.session.turn_time().begin();
        let (mut out, mut sent) = (Out::default(), Vec::new());
        while !self.closed {
            match self.session.turn(&self.input, self.now, &mut out) {
                Turn::Used(used) => {
                    self.input.drain(..used);
                    if self.input.is_empty() {
                        break;
                    }
                    if self.session.turn_time().is_over() {
                        self.yields += 1;
                        self.session.turn_time().begin();
                    }
                }
                Turn::Flush(used) => {
                    self.input.drain(..used);
                    drain(&mut out, &mut sent);
                }
                Turn::Again(used) => drop(self.input.drain(..used)),
                Turn::More(_) | Turn::Later(..) => break,
                Turn::Close => self.closed = true,
            }
        }
        self.inner.take_mail(out.scratch());
        drain(&mut out, &mut sent);
        sent
    }

    /// Ends its batch; returns the bytes that its session keeps.
    pub(super) fn rest(&mut self) -> u64 {
        self.session.sent(Sent { micros: 0, received: 0, written: 0 });
        self.session.kept()
    }

    /// Sends inline commands, one per line; returns the answers as text.
    pub(super) fn say(&mut self, lines: &str) -> String {
        let mut bytes = lines.replace('\n', "\r\n").into_bytes();
        bytes.extend_from_slice(b"\r\n");
        String::from_utf8(self.send(&bytes)).unwrap()
    }

    /// Returns the messages since the last call.
    pub(super) fn mail(&mut self) -> String {
        let mut bytes = Vec::new();
        self.inner.take_mail(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    /// Switches to RESP3.
    pub(super) fn resp3(mut self) -> TestClient {
        assert!(self.say("hello 3").starts_with("%7\r\n"));
        self
    }
}

fn drain(out: &mut Out, sent: &mut Vec<u8>) {
    out.send(sent).expect("memory takes it");
}

pub(super) fn face() -> Rc<Face> {
    Face::new(&shared(settings()), 0)
}

/// Most connections of a busy site are idle (docs/decisions/0010-connections-at-rest.md).
#[test]
fn a_session_is_small() {
    assert!(size_of::<Session>() <= 224, "{}", size_of::<Session>());
    assert!(size_of::<super::known::Known>() <= 56, "{}", size_of::<super::known::Known>());
}
