//! How the memcached face lets clients in.

use std::{rc::Rc, sync::Arc};

use super::{Face, Session, Shared};
use crate::{
    clock::Ms,
    object::{self, Client, End, face::Event},
};

impl object::Face for Face {
    type Session = Session;
    type Shared = Shared;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn session(self: &Rc<Self>, client: Arc<Client>) -> Session {
        self.stats.saw_connection(&client, client.since);
        Face::session(self, client)
    }

    fn count(&self, event: Event) {
        match event {
            Event::Accepted => self.counters.total_connections.one(),
            Event::Refused => {
                self.counters.total_connections.one();
                self.counters.rejected_connections.one();
            }
            Event::Paused => self.counters.listen_disabled_num.one(),
            Event::Ended(End::Idle) => self.counters.idle_kicks.one(),
            Event::Ended(_) => {}
        }
    }

    fn left(&self, client: &Client, end: End, now: Ms) {
        let reason = match end {
            End::Closed => "normal",
            End::Idle => "idle_timeout",
            End::Stalled => "error",
            End::Drained => "shutdown",
        };
        self.stats.saw_end(client, reason, now);
    }
}
