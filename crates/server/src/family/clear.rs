//! Peers are told of purges (HTCP CLR): else the page comes back from one of them.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use larder_proto::{
    htcp::{Head, Opcode, Specifier, auth},
    http::key::{Scheme, parse_key},
};

use super::{Family, PeerState, line::with_signing};

impl Family {
    /// Tells peers that a page is purged, by its keys. No answer is waited for: a datagram may be
    /// lost.
    pub(crate) fn clear(&self, keys: &[Vec<u8>]) {
        let peers = self.peers();
        if peers.iter().all(|peer| peer.settings.clears.is_none()) {
            return;
        }
        let urls: Vec<Vec<u8>> = keys.iter().filter_map(|key| url(key)).collect();
        // It says that a cache sent it: that one has told its own peers.
        let fields = format!("CDN-Loop: {}\r\n", self.loop_id);
        for peer in peers.iter() {
            for url in &urls {
                let fields = fields.as_bytes();
                let specifier = Specifier { method: b"HEAD", url, version: b"HTTP/1.1", fields };
                if peer.send_clear(&specifier).is_ok() {
                    peer.counts.clears.one();
                }
            }
        }
    }
}

impl PeerState {
    fn send_clear(&self, specifier: &Specifier<'_>) -> io::Result<()> {
        let to = self.settings.clears.ok_or(io::ErrorKind::InvalidInput)?;
        let mut held = self.clears.lock();
        let socket = match held.take() {
            Some(socket) => socket,
            None => open(to)?,
        };
        let way = auth::Way { from: socket.local_addr()?, to };
        let mut out = Vec::new();
        let head = Head::request(Opcode::Clr, self.clock.micros() as u32, false);
        let written = with_signing(self.settings.key.as_ref().map(|key| (key, way)), |sign| {
            head.write(&mut out, |out| specifier.write_clr(out), sign)
        });
        if !written {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // An error is that of an earlier datagram, which nobody took; this one is sent again.
        let sent = socket.send(&out).or_else(|_| socket.send(&out));
        *held = Some(socket);
        sent.map(|_| ())
    }
}

fn open(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The URL of a key.
fn url(key: &[u8]) -> Option<Vec<u8>> {
    let parts = parse_key(key)?;
    let (scheme, default) = match parts.scheme {
        Scheme::Http => ("http", 80),
        Scheme::Https => ("https", 443),
    };
    let mut url = format!("{scheme}://{}", parts.host).into_bytes();
    if parts.port != 0 && parts.port != default {
        url.extend_from_slice(format!(":{}", parts.port).as_bytes());
    }
    let (path, _) = larder_proto::http::key::split_behind(parts.path_and_query);
    url.extend_from_slice(path);
    Some(url)
}

#[cfg(test)]
mod tests {
    use larder_proto::http::key::write_key;

    use super::*;

    #[test]
    fn urls_of_keys() {
        let of = |scheme, port| {
            let mut key = Vec::new();
            write_key(&mut key, scheme, "A.example", port, b"/x?y");
            url(&key).map(|url| String::from_utf8(url).expect("text"))
        };
        assert_eq!(of(Scheme::Http, 0).as_deref(), Some("http://a.example/x?y"));
        assert_eq!(of(Scheme::Http, 80).as_deref(), Some("http://a.example/x?y"));
        assert_eq!(of(Scheme::Https, 8443).as_deref(), Some("https://a.example:8443/x?y"));
    }
}
