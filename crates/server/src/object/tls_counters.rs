//! Handshakes of TLS with clients of an object face.

larder_metrics::counters! {
    /// Counters of one worker since its start.
    pub(crate) struct TlsCounters {
        /// Handshakes that succeeded.
        handshakes,
        /// Handshakes of clients that had a ticket.
        resumed,
        /// Connections that ended before their handshake was done.
        failures,
    }
}

impl TlsCounters {
    /// Counts a handshake that succeeded. `resumed`: the client had a ticket.
    pub(crate) fn secured(&self, resumed: bool) {
        self.handshakes.one();
        if resumed {
            self.resumed.one();
        }
    }
}
