//! How the Redis face lets clients in.

use std::{rc::Rc, sync::Arc};

use super::{Face, Session};
use crate::object::{self, Client, Clients, Limits, face::Event};

impl object::Face for Face {
    type Session = Session;

    fn clients(&self) -> &Clients {
        &self.shared.clients
    }

    fn limits(&self) -> Limits {
        self.shared.limits()
    }

    fn session(self: &Rc<Self>, client: Arc<Client>) -> Session {
        Face::session(self, client)
    }

    fn refusal(&self) -> &'static [u8] {
        self.shared.refusal()
    }

    fn count(&self, event: Event) {
        match event {
            Event::Accepted => self.counters.total_connections_received.one(),
            Event::Refused => self.counters.rejected_connections.one(),
            Event::Paused | Event::Ended(_) => {}
        }
    }
}
