//! `stats conns` (protocol.txt, "Connection statistics"): the listening sockets, then the clients.
//! Each has a number instead of a descriptor; the sockets come first.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    super::{Face, session::phase},
    lines::Lines,
};
use crate::{
    clock::Ms,
    object::{Client, Peer},
    settings::{Listen, MemcachedSettings},
};

/// Number of listening sockets: a listener per address, and for datagrams one per worker.
pub(crate) fn sockets(settings: &MemcachedSettings, workers: usize) -> u64 {
    (settings.listen.len() + settings.udp.len() * workers) as u64
}

/// `stats conns`. `asking`: the client that asks.
pub(super) fn write(face: &Face, asking: &Client, lines: &mut Lines<'_>, now: Ms) {
    let (settings, started) = (face.settings(), face.shared.started);
    let since = |last: Ms| now.saturating_sub(last.max(started)) / 1000;
    let mut ids = 1..;
    for (listen, id) in settings.listen.iter().zip(&mut ids) {
        match listen {
            Listen::Tcp(addr) if addr.is_ipv6() => {
                lines.part(format_args!("{id}:"), "addr", &format_args!("tcp6:{addr}"));
            }
            Listen::Tcp(addr) => {
                lines.part(format_args!("{id}:"), "addr", &format_args!("tcp:{addr}"))
            }
            Listen::Unix { path, .. } => {
                lines.part(format_args!("{id}:"), "addr", &format_args!("unix:{}", path.display()));
            }
        }
        lines.part(format_args!("{id}:"), "state", "conn_listening");
        lines.part(format_args!("{id}:"), "secs_since_last_cmd", &since(started));
    }
    let udp = settings
        .udp
        .iter()
        .flat_map(|addr| face.shared.stats.workers.iter().map(move |of| (addr, of)));
    for ((addr, worker), id) in udp.zip(&mut ids) {
        let kind = if addr.is_ipv6() { "udp6" } else { "udp" };
        lines.part(format_args!("{id}:"), "UDP", "UDP");
        lines.part(format_args!("{id}:"), "addr", &format_args!("{kind}:{addr}"));
        lines.part(format_args!("{id}:"), "state", "conn_read");
        let idle = since(worker.datagram.load(Relaxed));
        lines.part(format_args!("{id}:"), "secs_since_last_cmd", &idle);
    }
    for client in face.shared.clients.list() {
        connection(&client, client.id == asking.id, lines, now);
    }
}

fn connection(client: &Arc<Client>, asking: bool, lines: &mut Lines<'_>, now: Ms) {
    let (id, local) = (client.id, &client.local);
    let kind = match client.peer {
        Peer::Tcp(addr) if addr.is_ipv6() => "tcp6",
        Peer::Tcp(_) => "tcp",
        Peer::Udp(addr) if addr.is_ipv6() => "udp6",
        Peer::Udp(_) => "udp",
        Peer::Unix => "unix",
    };
    match client.peer {
        Peer::Tcp(addr) => {
            lines.part(format_args!("{id}:"), "addr", &format_args!("{kind}:{addr}"))
        }
        Peer::Udp(addr) => {
            lines.part(format_args!("{id}:"), "UDP", "UDP");
            lines.part(format_args!("{id}:"), "addr", &format_args!("{kind}:{addr}"));
        }
        Peer::Unix => lines.part(format_args!("{id}:"), "addr", &format_args!("{kind}:{local}")),
    }
    lines.part(format_args!("{id}:"), "listen_addr", &format_args!("{kind}:{local}"));
    let state = match client.phase.load(Relaxed) {
        _ if asking => "conn_parse_cmd",
        phase::VALUE => "conn_nread",
        phase::SKIP => "conn_swallow",
        phase::WATCH => "conn_watch",
        phase::FAILED | phase::SHUTDOWN => "conn_closing",
        _ => "conn_read",
    };
    lines.part(format_args!("{id}:"), "state", state);
    let idle = now.saturating_sub(client.active.load(Relaxed)) / 1000;
    lines.part(format_args!("{id}:"), "secs_since_last_cmd", &idle);
}
