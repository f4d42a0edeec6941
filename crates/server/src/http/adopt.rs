//! Connections between two requests, passed on to the process that takes over, and taken in from
//! the one before.

use serde_json::json;

use crate::{
    clock::Ms,
    http::conn::Conn,
    net::{face_name::FaceName, passing::Passed},
};

impl Conn {
    /// Leaves for the process that takes over. False: it cannot, as it has more than a socket.
    pub(super) fn pass_on(&mut self) -> bool {
        let idle = self.unread() == 0 && self.pending() == 0;
        if self.proxied || self.h2.is_some() || !idle {
            return false;
        }
        let local = self.socket.stream.local_addr();
        let Some((socket, kind)) = self.socket.stream.detach() else { return false };
        self.worker.conns.passing.take(Passed {
            face: FaceName::Http,
            kind,
            client: Some(self.peer.address),
            local: local.map(|at| at.to_string()).unwrap_or_default(),
            state: json!({"secure": self.peer.secure, "unnamed": self.peer.unnamed}),
            socket,
        });
        true
    }

    /// It is not new: its header of the PROXY protocol was taken.
    pub(super) fn begun(&mut self) {
        if self.proxied {
            let limits = &self.worker.pages.config().settings.http.limits;
            let idle = limits.idle_timeout.as_millis() as Ms;
            self.socket.watch.wait_idle(self.worker.pages.clock.now() + idle);
        }
        self.proxied = false;
    }
}
