//! The memcached face for the connection loop: sessions, and the counting of connections.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use parking_lot::Mutex;

use super::{Face, Session, Shared, echo, session::phase};
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
        if self.shared.echoes.load(Relaxed) {
            echo::print(&format!("<{} new auto-negotiating client connection\n", client.id));
        }
        Face::session(self, client)
    }

    fn count(&self, event: Event) {
        match event {
            Event::Accepted => self.counters.total_connections.one(),
            Event::Refused => {
                self.counters.total_connections.one();
                self.counters.rejected_connections.one();
            }
            Event::Paused(now) => self.pause(now),
            Event::Resumed(now) => self.resume(now),
            Event::Secured { resumed } => self.counters.tls.secured(resumed),
            Event::Unsecured => self.counters.tls.failures.one(),
            Event::Ended(End::Idle | End::Late) => self.counters.idle_kicks.one(),
            Event::Ended(_) => {}
        }
    }

    fn left(&self, client: &Client, end: End, now: Ms) {
        let reason = match (end, client.phase.load(Relaxed)) {
            // Reported when the client sent `shutdown`.
            (_, phase::SHUTDOWN) => None,
            (End::Closed, phase::FAILED) | (End::Broken | End::Stalled, _) => Some("error"),
            (End::Closed, _) => Some("normal"),
            (End::Idle | End::Late, _) => Some("idle_timeout"),
            (End::Drained, _) => Some("shutdown"),
        };
        if let Some(reason) = reason {
            self.stats.saw_end(client, reason, now);
        }
        if self.shared.echoes.load(Relaxed) {
            echo::print(&format!("<{} connection closed.\n", client.id));
        }
    }
}

/// Listeners that the connection limit has paused. memcached has one listener; so its figures run
/// from the first paused listener to the last.
#[derive(Debug, Default)]
pub(crate) struct PausedListeners(Mutex<Paused>);

#[derive(Debug, Default)]
struct Paused {
    listeners: usize,
    /// Time of the first pause, in microseconds.
    since: u64,
}

impl Face {
    fn pause(&self, now: u64) {
        let mut paused = self.shared.paused.0.lock();
        if paused.listeners == 0 {
            paused.since = now;
            self.counters.listen_disabled_num.one();
        }
        paused.listeners += 1;
    }

    fn resume(&self, now: u64) {
        let mut paused = self.shared.paused.0.lock();
        paused.listeners = paused.listeners.saturating_sub(1);
        if paused.listeners == 0 {
            self.counters.time_in_listen_disabled_us.add(now.saturating_sub(paused.since));
        }
    }
}
