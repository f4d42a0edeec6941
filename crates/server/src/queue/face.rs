//! The queue face for the connection loop: sessions, and the counting of connections.

use std::{rc::Rc, sync::Arc};

use super::{Face, Session, Shared};
use crate::object::{self, Client, face::Event};

impl object::Face for Face {
    type Session = Session;
    type Shared = Shared;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn session(self: &Rc<Self>, client: Arc<Client>) -> Session {
        self.open(client)
    }

    fn count(&self, event: Event) {
        match event {
            Event::Accepted => self.counters.total_connections.one(),
            Event::Refused => {
                self.counters.total_connections.one();
                self.counters.rejected_connections.one();
            }
            _ => {}
        }
    }
}
