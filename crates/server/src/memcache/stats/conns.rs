//! `stats conns` (protocol.txt, "Connection statistics"): clients by their number in place of a descriptor, then the
//! listening sockets, numbered on.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{super::Face, lines::Lines};
use crate::{
    clock::Ms,
    object::{Client, Peer},
    settings::Listen,
};

/// `stats conns`. `asking`: the client that asks.
pub(super) fn write(face: &Face, asking: &Client, lines: &mut Lines<'_>, now: Ms) {
    let clients = face.shared.clients.list();
    for client in &clients {
        one(client, client.id == asking.id, lines, now);
    }
    let (settings, last) = (face.settings(), clients.last().map_or(0, |client| client.id));
    let uptime = now.saturating_sub(face.shared.started) / 1000;
    for (listen, id) in settings.listen.iter().zip(last + 1..) {
        match listen {
            Listen::Tcp(addr) if addr.is_ipv6() => {
                lines.part(format_args!("{id}:"), "addr", &format_args!("tcp6:{addr}"));
            }
            Listen::Tcp(addr) => lines.part(format_args!("{id}:"), "addr", &format_args!("tcp:{addr}")),
            Listen::Unix { path, .. } => {
                lines.part(format_args!("{id}:"), "addr", &format_args!("unix:{}", path.display()));
            }
        }
        lines.part(format_args!("{id}:"), "state", "conn_listening");
        lines.part(format_args!("{id}:"), "secs_since_last_cmd", &uptime);
    }
}

fn one(client: &Arc<Client>, asking: bool, lines: &mut Lines<'_>, now: Ms) {
    let id = client.id;
    match client.peer {
        Peer::Tcp(addr) => {
            let kind = if addr.is_ipv6() { "tcp6" } else { "tcp" };
            lines.part(format_args!("{id}:"), "addr", &format_args!("{kind}:{addr}"));
            lines.part(format_args!("{id}:"), "listen_addr", &format_args!("{kind}:{}", client.local));
        }
        Peer::Unix => {
            lines.part(format_args!("{id}:"), "addr", &format_args!("unix:{}", client.local));
            lines.part(format_args!("{id}:"), "listen_addr", &format_args!("unix:{}", client.local));
        }
    }
    lines.part(format_args!("{id}:"), "state", if asking { "conn_parse_cmd" } else { "conn_read" });
    let idle = now.saturating_sub(client.active.load(Relaxed)) / 1000;
    lines.part(format_args!("{id}:"), "secs_since_last_cmd", &idle);
}
