//! A request: what is asked, by whom, under which rules. It has no socket; see `http::exchange` for
//! the one that has.

pub(crate) mod changes;
pub(crate) mod errors;
pub(crate) mod journal;
pub(crate) mod limits;
pub(crate) mod object_pages;
pub(crate) mod pages;
pub(crate) mod part;
pub(crate) mod purge;
mod purge_history;
pub(crate) mod route;
pub(crate) mod stalls;

use std::{
    cell::{Cell, OnceCell},
    net::{IpAddr, SocketAddr},
    pin::pin,
    rc::Rc,
    sync::atomic::Ordering,
};

use larder_metrics::Outcome;
use larder_proto::{
    http::{Method, OwnedHead, RequestHead, forwarded, key},
    page::{Encoding, Meta, PageFlags},
    rules::{Forward, RequestView, forward, only_if_cached, strip},
};

use crate::{
    clock::Ms,
    counters::{Software, Timed},
    net::tls::{Client, ClientCertificate, Negotiated},
    request::{
        pages::{Config, Pages},
        purge::keys,
    },
    settings::RulePolicy,
    trace::TraceIds,
};

/// Most caches that [`Request::hops`] tells apart: anybody may send a list of any length, and
/// requests with different numbers are fetched each for itself.
const HOPS: usize = 8;

/// Facts gathered while a request is handled, counted when it ends.
#[derive(Default)]
pub(crate) struct RequestStats {
    /// Place of its site among the counters; 0: none.
    pub(crate) site: Cell<u16>,
    /// Why memory could not answer it. None: it did, or nothing was looked up.
    pub(crate) forward_reason: Cell<Option<Forward>>,
    /// Why its answer is not stored, or the request is passed.
    pub(crate) detail: Cell<Option<&'static str>>,
    /// The software that its answer shows, looked for where the answer is not stored.
    pub(crate) software: Cell<Option<Software>>,
    /// The coding of the content in which it is looked for; None: it is not.
    pub(crate) looks: Cell<Option<Encoding>>,
    /// The value of Vary of an answer for which only others were stored.
    pub(crate) varies: Cell<Option<Vec<u8>>>,
    /// Names the answer in the log, where it is an error of our own.
    pub(crate) reference: OnceCell<Box<str>>,
    /// The outcome that a miss is counted as.
    pub(crate) miss: Cell<Option<Outcome>>,
    /// The outcome that it was counted as; None: it is not counted yet.
    pub(crate) outcome: Cell<Option<Outcome>>,
    /// It is for a part of a page (ESI).
    pub(crate) is_part: bool,
}

impl RequestStats {
    /// Memory does not answer it. The first reason counts: later ones follow from it.
    pub(crate) fn forwarded(&self, why: Forward) {
        if self.forward_reason.get().is_none() {
            self.forward_reason.set(Some(why));
        }
    }
}

/// The other end of the connection that a request came on.
#[derive(Clone)]
pub(crate) struct Peer {
    /// As a proxy tells it where one does (PROXY protocol).
    pub(crate) address: SocketAddr,
    /// The client speaks TLS, with Larder or with the proxy before it.
    pub(crate) secure: bool,
    /// The connection is TLS.
    pub(crate) tls: bool,
    /// It is a proxy that does not say who its client is (PROXY protocol): what the bytes behind it
    /// claim of their client is not believed.
    pub(crate) unnamed: bool,
    /// Of the TLS of the connection, once its handshake has ended.
    pub(crate) negotiated: Option<Negotiated>,
    /// None: it was not asked for a certificate.
    pub(crate) client: Option<Rc<Client>>,
}

impl Peer {
    /// A connection that nothing was received on.
    pub(crate) fn new(address: SocketAddr, tls: bool) -> Self {
        Self { address, secure: tls, tls, unnamed: false, negotiated: None, client: None }
    }

    fn scheme(&self) -> key::Scheme {
        if self.secure { key::Scheme::Https } else { key::Scheme::Http }
    }
}

/// A request, as received.
pub(crate) struct Request<'a, 'r> {
    pub(crate) pages: &'a Rc<Pages>,
    pub(crate) config: &'a Rc<Config>,
    pub(crate) peer: Peer,
    pub(crate) head: &'a RequestHead<'r>,
    /// Bytes of the head.
    raw: &'a [u8],
    /// The head once it has been copied, for a fetch that outlives the connection's buffer.
    owned: Option<Rc<OwnedHead>>,
    /// When it was taken up, in microseconds of the worker's clock.
    pub(crate) since: u64,
    pub(crate) stats: RequestStats,
    /// None: not recorded.
    pub(crate) trace: Option<TraceIds>,
    /// Value of the answer's `Larder-Debug`; see `http::debug`.
    pub(crate) debug: Cell<Option<Vec<u8>>>,
}

/// A request that outlives the buffer it was received into, with what is known of it so far.
pub(crate) struct Detached {
    config: Rc<Config>,
    peer: Peer,
    head: Rc<OwnedHead>,
    since: u64,
    stats: RequestStats,
    trace: Option<TraceIds>,
    debug: Cell<Option<Vec<u8>>>,
}

impl Detached {
    /// Calls `f` with the request.
    pub(crate) async fn with<T>(
        self,
        pages: &Rc<Pages>,
        f: impl AsyncFnOnce(Request<'_, '_>) -> T,
    ) -> T {
        let Self { config, peer, head, since, stats, trace, debug } = self;
        let lines = head.lines();
        let view = head.head(&lines);
        let owned = Some(head.clone());
        let (raw, config, head) = (head.raw(), &config, &view);
        pin!(f(Request { pages, config, peer, head, raw, owned, since, stats, trace, debug })).await
    }
}

impl<'a, 'r> Request<'a, 'r> {
    pub(crate) fn new(
        pages: &'a Rc<Pages>,
        config: &'a Rc<Config>,
        peer: Peer,
        head: &'a RequestHead<'r>,
        raw: &'a [u8],
        since: u64,
    ) -> Self {
        let trace = pages.trace_of(head);
        let stats = RequestStats::default();
        Self {
            pages,
            config,
            peer,
            head,
            raw,
            owned: None,
            since,
            stats,
            trace,
            debug: Cell::new(None),
        }
    }

    /// A request for a part of a page: it is in no trace.
    pub(crate) fn of_part(
        pages: &'a Rc<Pages>,
        config: &'a Rc<Config>,
        peer: Peer,
        head: &'a RequestHead<'r>,
        owned: &'a Rc<OwnedHead>,
        since: u64,
    ) -> Self {
        Self {
            pages,
            config,
            peer,
            head,
            raw: owned.raw(),
            owned: Some(owned.clone()),
            since,
            stats: RequestStats { is_part: true, ..RequestStats::default() },
            trace: None,
            debug: Cell::new(None),
        }
    }

    /// The head, for a fetch that outlives the request.
    pub(crate) fn owned_head(&self) -> Rc<OwnedHead> {
        self.owned.clone().unwrap_or_else(|| Rc::new(OwnedHead::of(self.head, self.raw)))
    }

    /// The request on its own, without the buffer it was received into.
    pub(crate) fn detach(self) -> Detached {
        let (head, config) = (self.owned_head(), self.config.clone());
        Detached {
            config,
            peer: self.peer,
            head,
            since: self.since,
            stats: self.stats,
            trace: self.trace,
            debug: self.debug,
        }
    }

    pub(crate) fn view(&self) -> RequestView<'_> {
        RequestView { method: self.head.method, fields: self.head.fields, known: &self.head.known }
    }

    /// Whether the peer is a proxy whose word about the client counts.
    pub(crate) fn trusted(&self) -> bool {
        let proxies = &self.config.settings.http.trusted_proxies;
        !proxies.is_empty()
            && !self.peer.unnamed
            && proxies.iter().any(|net| net.contains(self.peer.address.ip()))
    }

    pub(crate) fn is_head(&self) -> bool {
        self.head.method == Method::Head
    }

    /// Its answer, whose time is to be taken; None: it is not counted, or of no interest.
    #[inline]
    pub(crate) fn timed(&self) -> Option<Timed> {
        let stats = &self.stats;
        Timed::of(
            stats.outcome.get()?,
            self.since,
            stats.site.get(),
            stats.forward_reason.get().is_some(),
        )
    }

    pub(crate) fn now(&self) -> Ms {
        self.pages.clock.now()
    }

    /// The scheme the client used: what a trusted proxy says it was, or that of the connection.
    pub(crate) fn scheme(&self) -> key::Scheme {
        let told = self.head.known.x_forwarded_proto().filter(|_| self.trusted());
        told.and_then(|name| std::str::from_utf8(name).ok())
            .and_then(key::Scheme::named)
            .unwrap_or(self.peer.scheme())
    }

    /// Address of the client: the peer, or the one that a trusted proxy names.
    pub(crate) fn client(&self) -> IpAddr {
        let peer = self.peer.address.ip().to_canonical();
        let proxies = &self.config.settings.http.trusted_proxies;
        let named = self.head.known.x_forwarded_for().is_some() && !self.peer.unnamed;
        if proxies.is_empty() || !named {
            return peer;
        }
        let lines: Vec<&[u8]> = self.head.fields.all("x-forwarded-for").collect();
        forwarded::client_by_x_forwarded_for(lines.into_iter(), peer, |ip| {
            proxies.iter().any(|net| net.contains(ip))
        })
    }

    /// The addresses the request came by, as far as trusted proxies vouch for them: the client's
    /// first, the peer's last.
    pub(crate) fn chain(&self) -> Vec<IpAddr> {
        let proxies = &self.config.settings.http.trusted_proxies;
        let lines: Vec<&[u8]> = self.head.fields.all("x-forwarded-for").collect();
        forwarded::chain(lines.into_iter(), self.peer.address.ip(), |ip| {
            !self.peer.unnamed && proxies.iter().any(|net| net.contains(ip))
        })
    }

    /// The value of `Strict-Transport-Security` in the answer. None: there is none, or the client
    /// came by plain HTTP, where no answer has it (RFC 6797 section 7.2).
    pub(crate) fn hsts(&self) -> Option<&str> {
        let https = self.config.settings.https.as_ref().filter(|_| self.peer.secure)?;
        https.hsts.as_deref()
    }

    /// The host, as the origin is told: spelled as in the key, so that an odd spelling changes
    /// nothing for others.
    pub(crate) fn host(&self) -> Option<String> {
        let host = self.head.host.as_ref()?;
        let name = host.host.strip_suffix('.').unwrap_or(host.host).to_ascii_lowercase();
        let port = host.port.filter(|port| *port != self.scheme().default_port());
        Some(port.map_or_else(|| name.clone(), |port| format!("{name}:{port}")))
    }

    /// The host a trusted proxy names besides Host: passed on, and part of the key, since origins
    /// make links of it.
    pub(crate) fn forwarded_host(&self) -> Option<&[u8]> {
        let named = self.head.known.x_forwarded_host().filter(|_| self.trusted())?;
        let same = |host: String| named.eq_ignore_ascii_case(host.as_bytes());
        (!self.host().is_some_and(same)).then_some(named)
    }

    /// The certificate that the client has shown to this site.
    pub(crate) fn certificate(&self) -> Option<forward::Certificate<'_>> {
        let client = self.peer.client.as_ref()?;
        let host = self.head.host.as_ref().map_or("", |host| host.host);
        let (site, _) = self.config.site_for(host)?;
        let ClientCertificate { field, subject, .. } = client.certificate.as_ref()?;
        let wanted = site.client_auth.as_ref().is_some_and(|auth| auth.id == client.auth.id);
        wanted.then_some(forward::Certificate { field, subject })
    }

    /// Appends to a key what stands behind path and query.
    pub(crate) fn write_behind(&self, policy: &RulePolicy, key: &mut Vec<u8>) {
        let host = self.forwarded_host();
        if host.is_some() || !policy.key_fields.is_empty() {
            let (fields, certificate) = (self.head.fields, self.certificate());
            let lines = forward::key_lines(fields, self.trusted(), certificate, &policy.key_fields);
            key::write_behind(key, host, lines);
        }
    }

    /// The keys of a URL of the host asked, for a purge.
    pub(crate) fn page_keys(&self, path: &str) -> Vec<Vec<u8>> {
        let Some(host) = &self.head.host else { return Vec::new() };
        keys(host.host, host.port, path)
    }

    /// The protocol to switch to: WebSocket, and nothing that would carry requests past the rules
    /// (h2c).
    pub(crate) fn upgrade(&self) -> Option<&[u8]> {
        self.head.upgrade.filter(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
    }

    /// Another request may wait without a connection of its own: as many as there may be
    /// connections.
    pub(crate) fn may_wait(&self) -> bool {
        self.pages.shared.waiting.load(Ordering::Relaxed)
            < self.config.settings.http.limits.connections
    }

    /// Max-Forwards (RFC 9110 section 7.6.2).
    pub(crate) fn max_forwards(&self) -> Option<u32> {
        std::str::from_utf8(self.head.fields.get("max-forwards")?).ok()?.parse().ok()
    }

    /// The request has cookies by which a page may differ, although it does not say so.
    #[inline]
    pub(crate) fn counts_cookies(&self, policy: &RulePolicy) -> bool {
        self.head.known.cookie().is_some() && policy.counts_cookies(self.head.fields.all("cookie"))
    }

    /// A stored response without a lifetime of the site's, while the request has cookies by which
    /// it may differ: it is not used without the origin's word.
    #[inline]
    pub(crate) fn is_for_others(&self, meta: &Meta, policy: &RulePolicy) -> bool {
        meta.flags.any(PageFlags::COOKIELESS) && self.counts_cookies(policy)
    }

    /// The client wants nothing kept of this, and that counts here.
    pub(crate) fn no_store(&self, policy: &RulePolicy) -> bool {
        policy.cache.honour_client_cc
            && self.head.known.cache_control().is_some()
            && self
                .head
                .fields
                .elements("cache-control")
                .any(|d| d.eq_ignore_ascii_case(b"no-store"))
    }

    /// Connection names fields that are not the connection's own: they would be dropped on the way
    /// to the origin, and with them what selects the variant.
    pub(crate) fn connection_hides_fields(&self) -> bool {
        let known = |option: &[u8]| {
            std::str::from_utf8(option)
                .is_ok_and(|name| strip::is_hop_by_hop(name) || name.eq_ignore_ascii_case("close"))
        };
        self.head.known.connection().is_some()
            && !self.head.fields.elements("connection").all(known)
    }

    /// The client accepts what is stored alone. Other caches may say so to every site: a sibling
    /// must not be made to fetch.
    pub(crate) fn only_if_cached(&self, policy: &RulePolicy) -> bool {
        if self.head.known.cache_control().is_none() {
            return false;
        }
        let says = || {
            let mut directives = self.head.fields.elements("cache-control");
            directives.any(|directive| directive.eq_ignore_ascii_case(b"only-if-cached"))
        };
        only_if_cached(&self.view(), &policy.cache) || (says() && self.is_of_the_family())
    }

    /// It comes from another cache that the configuration names.
    fn is_of_the_family(&self) -> bool {
        let (family, address) = (&self.config.settings.family, self.peer.address);
        family.may_ask(address.ip().to_canonical()) || self.pages.shared.family.has(address)
    }

    /// The number of caches that the request has passed (RFC 8586), where peers are asked; else 0.
    ///
    /// A fetch waits for a peer, whose fetch may wait for one here. Requests with equal numbers
    /// wait for each other, and a peer gets the request with a higher number. So no circle of
    /// caches waits for itself, whichever of them are asked for a page at the same time.
    pub(crate) fn hops(&self) -> u8 {
        if self.config.links.all.is_empty() || self.head.known.cdn_loop().is_none() {
            return 0;
        }
        self.head.fields.elements("cdn-loop").count().min(HOPS) as u8
    }

    /// This process has seen the request before: it was sent in a circle (RFC 8586).
    pub(crate) fn loops(&self) -> bool {
        self.head.known.cdn_loop().is_some()
            && self
                .head
                .fields
                .elements("cdn-loop")
                .any(|id| id == self.pages.shared.loop_id.as_bytes())
    }
}
