//! A request as it was received, and what it says about who asks and how.

use std::{
    cell::Cell,
    io::IoSlice,
    net::{IpAddr, SocketAddr},
    rc::Rc,
};

use larder_proto::{
    http::{Method, RequestHead, forwarded, key},
    rules::{Forward, RequestView, strip},
};

use super::{
    out::Out,
    socket::{Ended, Socket},
};
use crate::{
    clock::Ms,
    http::worker::{Config, Worker},
    measure::counted::{Outcome, Timed},
    settings::RulePolicy,
    trace::Traced,
};

/// What is found out about a request on its way, to be counted at its end.
#[derive(Default)]
pub(crate) struct Noted {
    /// The place of its site among the counters; 0: none.
    pub(crate) site: Cell<u16>,
    /// Why memory could not answer it; None: it did, or nobody looked.
    pub(crate) why: Cell<Option<Forward>>,
    /// What a miss is counted as.
    pub(crate) miss: Cell<Option<Outcome>>,
    /// What it was counted as; None: it is not counted yet.
    pub(crate) outcome: Cell<Option<Outcome>>,
}

impl Noted {
    /// Memory does not answer it. The first reason counts: what comes later is a consequence.
    pub(crate) fn forwarded(&self, why: Forward) {
        if self.why.get().is_none() {
            self.why.set(Some(why));
        }
    }
}

/// A request, as received.
pub(crate) struct Asked<'a, 'r> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) config: &'a Rc<Config>,
    pub(crate) peer: SocketAddr,
    pub(crate) head: &'a RequestHead<'r>,
    /// The bytes of the head, for whoever outlives the connection's buffer.
    pub(crate) raw: &'a [u8],
    /// When it was taken up, in microseconds of the worker's clock.
    pub(crate) since: u64,
    /// The final answer has begun to leave.
    pub(crate) begun: Cell<bool>,
    /// What is to be counted of it.
    pub(crate) noted: Noted,
    /// None: not recorded.
    pub(crate) trace: Option<Traced>,
    /// What `Larder-Debug` will say; see [`super::debug`].
    pub(crate) debug: Cell<Option<Vec<u8>>>,
}

impl<'a> Asked<'a, '_> {
    pub(crate) fn view(&self) -> RequestView<'_> {
        RequestView { method: self.head.method, fields: self.head.fields, known: &self.head.known }
    }

    /// Whether the peer is a proxy whose word about the client counts.
    pub(crate) fn trusted(&self) -> bool {
        let proxies = &self.config.settings.http.trusted_proxies;
        !proxies.is_empty() && proxies.iter().any(|net| net.contains(self.peer.ip()))
    }

    /// Another request may follow on this connection.
    pub(crate) fn keep(&self) -> bool {
        self.head.keep_alive && !self.worker.conns.draining.get()
    }

    pub(crate) fn is_head(&self) -> bool {
        self.head.method == Method::Head
    }

    /// Its answer, whose time is to be taken; None: it is not counted, or of no interest.
    #[inline]
    pub(crate) fn timed(&self) -> Option<Timed> {
        let noted = &self.noted;
        Timed::of(noted.outcome.get()?, self.since, noted.site.get(), noted.why.get().is_some())
    }

    pub(crate) fn now(&self) -> Ms {
        self.worker.clock.now()
    }

    /// Sends what was composed.
    pub(crate) async fn send(&self, socket: &Socket, out: &mut Out) -> Result<(), Ended> {
        let patience = self.config.settings.http.limits.send_timeout.as_millis() as Ms;
        self.worker.send(socket, out, patience).await
    }

    /// The same with `more` behind it, for which `pinned` bytes of the store are held.
    pub(crate) async fn send_with(
        &self,
        socket: &Socket,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
    ) -> Result<(), Ended> {
        let patience = self.config.settings.http.limits.send_timeout.as_millis() as Ms;
        self.worker.send_with(socket, out, more, pinned, patience).await
    }

    /// The scheme the client used: what a trusted proxy says it was.
    pub(crate) fn scheme(&self) -> key::Scheme {
        let told = self.head.known.x_forwarded_proto().filter(|_| self.trusted());
        told.and_then(|name| std::str::from_utf8(name).ok())
            .and_then(key::Scheme::named)
            .unwrap_or(key::Scheme::Http)
    }

    /// Who asked: the peer, or whom a trusted proxy names.
    pub(crate) fn client(&self) -> IpAddr {
        let peer = self.peer.ip().to_canonical();
        let proxies = &self.config.settings.http.trusted_proxies;
        if proxies.is_empty() || self.head.known.x_forwarded_for().is_none() {
            return peer;
        }
        let lines: Vec<&[u8]> = self.head.fields.all("x-forwarded-for").collect();
        forwarded::client_by_x_forwarded_for(lines.into_iter(), peer, |ip| {
            proxies.iter().any(|net| net.contains(ip))
        })
    }

    /// Who is asked, as the origin is told: spelled as in the key, so that whoever spells it oddly changes nothing for
    /// others.
    pub(crate) fn host(&self) -> Option<String> {
        let host = self.head.host.as_ref()?;
        let name = host.host.strip_suffix('.').unwrap_or(host.host).to_ascii_lowercase();
        let port = host.port.filter(|port| *port != self.scheme().default_port());
        Some(port.map_or_else(|| name.clone(), |port| format!("{name}:{port}")))
    }

    /// The host a trusted proxy names besides Host: passed on, and part of the key, since origins make links of it.
    pub(crate) fn forwarded_host(&self) -> Option<&[u8]> {
        let named = self.head.known.x_forwarded_host().filter(|_| self.trusted())?;
        (Some(named) != self.host().as_deref().map(str::as_bytes)).then_some(named)
    }

    /// Appends it to a key, behind a byte that no path has.
    pub(crate) fn write_forwarded_host(&self, key: &mut Vec<u8>) {
        if let Some(host) = self.forwarded_host() {
            key.push(0);
            key.extend(host.iter().map(u8::to_ascii_lowercase));
        }
    }

    /// The protocol to switch to: WebSocket, and nothing that would carry requests past the rules (h2c).
    pub(crate) fn upgrade(&self) -> Option<&[u8]> {
        self.head.upgrade.filter(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
    }

    /// Max-Forwards (RFC 9110 section 7.6.2).
    pub(crate) fn max_forwards(&self) -> Option<u32> {
        std::str::from_utf8(self.head.fields.get("max-forwards")?).ok()?.parse().ok()
    }

    /// The client wants nothing kept of this, and that counts here.
    pub(crate) fn no_store(&self, policy: &RulePolicy) -> bool {
        policy.cache.honour_client_cc
            && self.head.known.cache_control().is_some()
            && self.head.fields.elements("cache-control").any(|d| d.eq_ignore_ascii_case(b"no-store"))
    }

    /// Connection names fields that are not the connection's own: they would be dropped on the way to the origin, and
    /// with them what selects the variant.
    pub(crate) fn connection_hides_fields(&self) -> bool {
        let known = |option: &[u8]| {
            std::str::from_utf8(option)
                .is_ok_and(|name| strip::is_hop_by_hop(name) || name.eq_ignore_ascii_case("close"))
        };
        self.head.known.connection().is_some() && !self.head.fields.elements("connection").all(known)
    }

    /// This process has seen the request before: it was sent in a circle (RFC 8586).
    pub(crate) fn loops(&self) -> bool {
        self.head.known.cdn_loop().is_some()
            && self.head.fields.elements("cdn-loop").any(|id| id == self.worker.shared.loop_id.as_bytes())
    }
}
