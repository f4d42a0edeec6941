//! Finds listeners through the system instead of a connection: a server would count a connection,
//! give it a place and print it.

use std::path::Path;

/// The state of a socket that listens, in `/proc/net/tcp` (TCP_LISTEN of the kernel's
/// include/net/tcp_states.h).
const LISTEN: &str = "0A";

/// The flag of a socket that listens, in `/proc/net/unix` (__SO_ACCEPTCON; proc_net_unix(5)).
const ACCEPTS: &str = "00010000";

/// Whether anybody listens on this TCP port, at whatever address.
pub fn port(port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().any(|table| {
        // Without IPv6 there is no such table.
        let sockets = std::fs::read_to_string(table).unwrap_or_default();
        sockets.lines().any(|line| {
            let mut columns = line.split_ascii_whitespace().skip(1);
            columns.next().is_some_and(|local| local.ends_with(&suffix))
                && columns.nth(1) == Some(LISTEN)
        })
    })
}

/// Whether anybody listens on the socket with this path.
pub fn path(path: &Path) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    sockets.lines().any(|line| {
        let columns: Vec<_> = line.split_ascii_whitespace().collect();
        columns.get(3) == Some(&ACCEPTS) && columns.get(7).is_some_and(|of| Path::new(of) == path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_is_seen_and_a_connection_is_none() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let number = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", number)).unwrap();
        assert!(port(number) && !port(client.local_addr().unwrap().port()));
        let scratch = Scratch::new("listening");
        let at = scratch.file("socket");
        assert!(!path(&at));
        let _listener = UnixListener::bind(&at).unwrap();
        assert!(path(&at));
    }
}
