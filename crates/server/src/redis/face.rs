//! The Redis face for the connection loop: sessions, and the counting of connections.

use std::{rc::Rc, sync::Arc};

use super::{Face, Session, shared::Shared};
use crate::object::{self, Client, End, face::Event};

impl object::Face for Face {
    type Session = Session;
    type Shared = Shared;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn session(self: &Rc<Self>, client: Arc<Client>) -> Session {
        Face::session(self, client)
    }

    fn count(&self, event: Event) {
        match event {
            Event::Accepted => self.counters.total_connections_received.one(),
            Event::Refused => self.counters.rejected_connections.one(),
            Event::Ended(End::Stalled | End::Late) => self.counters.stalled_connections.one(),
            Event::Secured { resumed } => self.counters.tls.secured(resumed),
            Event::Unsecured => self.counters.tls.failures.one(),
            Event::Paused(_) | Event::Resumed(_) | Event::Ended(_) => {}
        }
    }
}
