//! What the connections of the Redis face share.

use std::{rc::Rc, sync::Arc};

use larder_store::{Namespace, Store};

use crate::{
    clock::Ms,
    object::{COMMANDS, Client, Clients, Limits},
    settings::RedisSettings,
};

use super::session::Session;

/// The namespace of database 0; the others follow. Where the memcached face's namespace is shared, database 0 is
/// [`SHARED_NAMESPACE`].
const FIRST_NAMESPACE: u8 = 2;
/// The memcached face's namespace.
const SHARED_NAMESPACE: u8 = 1;

/// One per process.
pub(crate) struct Shared {
    pub(crate) settings: RedisSettings,
    pub(crate) store: &'static Store,
    pub(crate) clients: Clients,
    pub(crate) started: Ms,
    pub(crate) workers: usize,
}

impl Shared {
    /// `workers`: how many faces there will be.
    pub(crate) fn new(settings: RedisSettings, store: &'static Store, now: Ms, workers: usize) -> Arc<Shared> {
        Arc::new(Shared { settings, store, clients: Clients::default(), started: now, workers })
    }

    /// What clients may do.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            connections: self.settings.connections,
            connections_fast: true,
            idle: self.settings.idle_timeout.as_millis() as Ms,
            send: self.settings.send_timeout.as_millis() as Ms,
            commands: COMMANDS,
            backlog: self.settings.backlog,
        }
    }

    /// What a connection beyond the limit is told.
    pub(crate) fn refusal(&self) -> &'static [u8] {
        b"-ERR max number of clients reached\r\n"
    }

    /// The namespace of a database.
    pub(crate) fn namespace(&self, db: u8) -> Namespace {
        if db == 0 && self.settings.share_memcached { Namespace(SHARED_NAMESPACE) } else { Namespace(FIRST_NAMESPACE + db) }
    }
}

/// One per worker.
pub(crate) struct Face {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
}

impl Face {
    pub(crate) fn new(shared: &Arc<Shared>, worker: usize) -> Rc<Face> {
        Rc::new(Face { shared: shared.clone(), worker })
    }

    /// A conversation with a client that has just connected.
    pub(crate) fn session(self: &Rc<Face>, client: Arc<Client>) -> Session {
        Session::new(self.clone(), client)
    }
}
