//! Connections between two requests, passed to the process that takes over from this one. Bytes
//! that a client has sent meanwhile are in the socket, and go with it.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::mpsc::Sender,
};

use serde_json::{Value, json};

use super::{face_name::FaceName, stream::Kind};

/// A connection at rest, without its process.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) face: FaceName,
    pub(crate) kind: Kind,
    /// The client, as a proxy named it where one did.
    pub(crate) client: Option<SocketAddr>,
    /// The address it came in at, as clients are told it.
    pub(crate) local: String,
    /// The face's knowledge of it.
    pub(crate) state: Value,
    pub(crate) socket: OwnedFd,
}

impl Passed {
    /// As a message.
    pub(crate) fn describe(&self) -> Value {
        json!({
            "kind": "connection",
            "face": self.face.to_string(),
            "unix": self.kind == Kind::Unix,
            "client": self.client,
            "local": self.local,
            "state": self.state,
        })
    }

    /// From a message; `None`: it is none of a connection that this process knows.
    pub(crate) fn of(message: &Value, socket: OwnedFd) -> Option<Passed> {
        let face = match message["face"].as_str()? {
            "http" => FaceName::Http,
            "memcached" => FaceName::Memcached,
            "redis" => FaceName::Redis,
            "queue" => FaceName::Queue,
            _ => return None,
        };
        Some(Passed {
            face,
            kind: if message["unix"].as_bool()? { Kind::Unix } else { Kind::Tcp },
            client: serde_json::from_value(message["client"].clone()).ok()?,
            local: message["local"].as_str()?.to_owned(),
            state: message["state"].clone(),
            socket,
        })
    }

    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Something for the process that takes over.
#[derive(Debug)]
pub(crate) enum Parcel {
    Connection(Passed),
    /// Pages by their primary keys are to be purged.
    Keys(Vec<Vec<u8>>),
    /// Pages of a site with these tags are to be purged.
    Tags(String, Vec<Vec<u8>>),
}

/// Where connections go that come to rest.
#[derive(Default)]
enum Way {
    /// They stay.
    #[default]
    Stay,
    /// They are kept until it is certain that there is a successor.
    Keep(Vec<Passed>),
    /// To the successor.
    Pass(Sender<Parcel>),
}

/// A worker's way for connections at rest.
#[derive(Default)]
pub(crate) struct Passing {
    /// Looked at whenever a connection comes to rest.
    on: Cell<bool>,
    way: RefCell<Way>,
}

impl Passing {
    /// Connections that come to rest are to leave.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// From now on they are kept.
    pub(crate) fn keep(&self) {
        *self.way.borrow_mut() = Way::Keep(Vec::new());
        self.on.set(true);
    }

    /// From now on they are passed, and those that were kept.
    pub(crate) fn pass(&self, to: Sender<Parcel>) {
        self.on.set(true);
        if let Way::Keep(kept) = self.way.replace(Way::Pass(to.clone())) {
            kept.into_iter().for_each(|passed| drop(to.send(Parcel::Connection(passed))));
        }
    }

    /// There is no successor: those that were kept.
    pub(crate) fn stay(&self) -> Vec<Passed> {
        self.on.set(false);
        match self.way.take() {
            Way::Keep(kept) => kept,
            _ => Vec::new(),
        }
    }

    /// Takes one.
    pub(crate) fn take(&self, passed: Passed) {
        match &mut *self.way.borrow_mut() {
            Way::Stay => {}
            Way::Keep(kept) => kept.push(passed),
            Way::Pass(to) => drop(to.send(Parcel::Connection(passed))),
        }
    }
}
