//! Waits for values on the disk.

use super::*;
use crate::{
    disk::Brought,
    memcache::{away::Reading, session::State},
};

/// A batch of keys or commands once waited for a slow disk at each of them.
#[test]
fn after_a_wait_for_nothing_a_session_does_not_wait_as_long() {
    for (brought, rests) in [(Brought::Late, NOW + 200), (Brought::Back, 0), (Brought::Lost, 0)] {
        let server = Server::new();
        let (mut session, mut out) = (server.session(), Out::default());
        session.adopt(&serde_json::json!("text"));
        session.state = State::Reading(Box::new(Reading::ended(brought, NOW)));
        assert!(session.owes(), "it is answered before the server stops");
        assert!(matches!(session.turn(b"mn\r\n", NOW + 100, &mut out), Turn::Flush(4)));
        assert!(!session.owes());
        assert_eq!(session.rests, rests, "{brought:?}");
    }
}
