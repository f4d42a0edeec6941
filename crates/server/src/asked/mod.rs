//! Queries and purges of other caches, by UDP: whether a page is stored ([`icp`], [`htcp`]), and
//! that it is forgotten (CLR of HTCP).
//!
//! One worker serves each address: a query costs about as much as a hit without its body. A
//! datagram is answered before the next is taken, so that nothing is kept for senders whose
//! addresses may be false; only those that the configuration names are answered.

mod htcp;
mod icp;

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use larder_proto::{
    http::{HeadLimits, OwnedHead, Parsed, parse_request, slots},
    rules::{Decision, decide},
};
use tokio::net::UdpSocket;

use crate::{
    net::face_name::FaceName,
    page::lookup::Found,
    request::{
        Peer, Request,
        pages::Pages,
        route::{Route, Way, route},
    },
    settings::Net,
};

/// Longest datagram, in bytes.
const LONGEST: usize = 64 << 10;
/// Bytes that the system may keep for a socket until they are read: some 20,000 purges, as
/// MediaWiki sends them when a template changes. The system's own limit may be lower.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Datagrams after which other connections of the worker have their turn.
const TURN: usize = 32;
/// Delay before the next receive after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// Fields of a request that a TST may have.
const SLOTS: usize = 256;
/// A head in a datagram.
const LIMITS: HeadLimits =
    HeadLimits { head_bytes: 2 * LONGEST, request_line: LONGEST, fields: SLOTS };

/// Answers the datagrams of a socket, for ever.
pub(crate) async fn serve(pages: Rc<Pages>, face: FaceName, socket: UdpSocket) {
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER);
    let groups = Groups::join(&pages, face, &socket);
    let (mut received, mut out) = (vec![0; LONGEST], Vec::new());
    let mut turn = 0;
    loop {
        let datagram = match socket.try_recv_from(&mut received) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                turn = 0;
                socket.recv_from(&mut received).await
            }
            datagram => datagram,
        };
        let Ok((length, from)) = datagram else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        out.clear();
        match face {
            FaceName::Icp => icp::answer(&pages, &received[..length], from, &mut out),
            _ => {
                let to = || groups.receivers(&socket, from);
                htcp::answer(&pages, &received[..length], from, to, &mut out).await;
            }
        }
        if !out.is_empty() {
            // An answer that is lost is asked for again, or not.
            let _ = socket.try_send_to(&out, from);
        }
        turn += 1;
        if turn == TURN {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// The multicast groups of a socket.
struct Groups(Vec<SocketAddr>);

impl Groups {
    /// Joins those of the settings. One that cannot be joined is told of.
    fn join(pages: &Pages, face: FaceName, socket: &UdpSocket) -> Self {
        let config = pages.config();
        let settings = config.settings.family.htcp.as_ref().filter(|_| face == FaceName::Htcp);
        let (Some(settings), Ok(local)) = (settings, socket.local_addr()) else {
            return Self(Vec::new());
        };
        let socket = socket2::SockRef::from(socket);
        // Else every group that any program of this machine has joined.
        let _ = socket.set_multicast_all_v4(false);
        let of_this = settings.multicast.iter().filter(|group| group.is_ipv4() == local.is_ipv4());
        for group in of_this.clone() {
            let joined = match group {
                std::net::IpAddr::V4(group) => {
                    let interface = settings.interface.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED);
                    socket.join_multicast_v4(group, &interface)
                }
                std::net::IpAddr::V6(group) => socket.join_multicast_v6(group, 0),
            };
            // A socket that was handed over is in its groups.
            if let Err(error) = joined
                && error.kind() != io::ErrorKind::AddrInUse
            {
                eprintln!("larder: cannot join the group {group}: {error}");
            }
        }
        Self(of_this.map(|group| SocketAddr::new(*group, local.port())).collect())
    }

    /// The addresses that a datagram may have been sent to, for its signature.
    fn receivers(&self, socket: &UdpSocket, from: SocketAddr) -> Vec<SocketAddr> {
        let own = socket.local_addr().ok().and_then(|local| match local.ip().is_unspecified() {
            false => Some(local),
            // The address by which the sender is reached is the one that it has sent to.
            true => {
                let probe = std::net::UdpSocket::bind(SocketAddr::new(local.ip(), 0)).ok()?;
                probe.connect(from).ok()?;
                Some(SocketAddr::new(probe.local_addr().ok()?.ip(), local.port()))
            }
        });
        own.into_iter().chain(self.0.iter().copied()).collect()
    }
}

/// Whether an address is in one of these networks.
fn may_ask(from: &[Net], address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    from.iter().any(|net| net.contains(ip))
}

/// The state of a page here.
enum Here {
    /// Fresh, with this age in seconds.
    Fresh(u32),
    /// Not stored, or not to be used without asking its origin.
    No,
    /// Of no site of this Larder.
    Foreign,
}

/// Looks for the page that a request would get. Nothing is fetched for it.
fn find(pages: &Rc<Pages>, from: SocketAddr, question: &Question<'_>) -> Here {
    with_request(pages, from, question, |request, mut route| {
        let now = request.now();
        if route.way != Way::Lookup {
            return Here::No;
        }
        request.settle_object(&route, now);
        let looked = route.find(request, now);
        let Found::Page(held) = looked.found else { return Here::No };
        match decide(&request.view(), &held.meta, &route.policy.cache, now) {
            Decision::Fresh { age, .. } => Here::Fresh(age),
            _ => Here::No,
        }
    })
    .unwrap_or(Here::Foreign)
}

/// A request as another cache names it.
struct Question<'q> {
    method: &'q str,
    url: &'q str,
    /// Lines of its head, each with its end.
    fields: &'q [u8],
}

/// Calls `f` with the request and where it goes. None: it is no request that is served here.
fn with_request<T>(
    pages: &Rc<Pages>,
    from: SocketAddr,
    question: &Question<'_>,
    f: impl FnOnce(&Request<'_, '_>, Route<'_>) -> T,
) -> Option<T> {
    let Question { method, url, fields } = *question;
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let mut raw = format!("{method} {url} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    for line in fields.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !line.is_empty() && !is_of_the_message(name) {
            raw.extend_from_slice(line);
            raw.extend_from_slice(b"\r\n");
        }
    }
    raw.extend_from_slice(b"\r\n");
    let mut slots = slots::<SLOTS>();
    let Ok(Parsed::Complete(head)) = parse_request(&raw, &mut slots, &LIMITS) else {
        return None;
    };
    let owned = Rc::new(OwnedHead::of(&head, &raw));
    let mut peer = Peer::new(from, false);
    peer.secure = scheme.eq_ignore_ascii_case("https");
    let config = pages.config();
    let request = Request::of_part(pages, &config, peer, &head, &owned, pages.clock.micros());
    let route = route(&request).ok()?;
    Some(f(&request, route))
}

/// Fields of a message that a page does not depend on, or that the URL has.
fn is_of_the_message(name: &[u8]) -> bool {
    const NAMES: [&str; 9] = [
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "expect",
        "upgrade",
        "te",
        "range",
        "max-forwards",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}
