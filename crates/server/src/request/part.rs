//! Requests for the parts of a page: nobody sent them, and no connection waits for their answers.

use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
};

use larder_proto::{
    esi::{Facts, Target},
    http::{Fields, HeadLimits, OwnedHead, Parsed, RequestHead, parse_request, slots},
    rules::strip,
};

use crate::request::{
    Peer, Request,
    pages::{Config, Pages},
};

/// Fields that a part may have, one line each, and some more.
const SLOTS: usize = 256;
/// A head of a client with another target.
const LIMITS: HeadLimits =
    HeadLimits { head_bytes: 1 << 20, request_line: 16 << 10, fields: SLOTS };

/// A request without a connection.
#[derive(Clone)]
pub(crate) struct PartRequest {
    config: Rc<Config>,
    peer: Peer,
    head: Rc<OwnedHead>,
    /// The fields that a part's request takes over: the same for all parts.
    passed: Rc<OnceCell<Passed>>,
    since: u64,
    /// Of the same scheme and host as the request of the client.
    own_host: bool,
}

impl PartRequest {
    /// The client's own request.
    pub(crate) fn of(request: &Request<'_, '_>) -> Self {
        Self {
            config: request.config.clone(),
            peer: request.peer.clone(),
            head: request.owned_head(),
            passed: Rc::default(),
            since: request.since,
            own_host: true,
        }
    }

    /// Calls `f` with the request.
    pub(crate) fn with<T>(&self, pages: &Rc<Pages>, f: impl FnOnce(&Request<'_, '_>) -> T) -> T {
        let lines = self.head.lines();
        let head = self.head.head(&lines);
        f(&self.view(pages, &head))
    }

    /// The same for what has to wait.
    pub(crate) async fn with_later<T>(
        &self,
        pages: &Rc<Pages>,
        f: impl AsyncFnOnce(&Request<'_, '_>) -> T,
    ) -> T {
        let lines = self.head.lines();
        let head = self.head.head(&lines);
        f(&self.view(pages, &head)).await
    }

    fn view<'a, 'r>(&'a self, pages: &'a Rc<Pages>, head: &'a RequestHead<'r>) -> Request<'a, 'r> {
        let (config, peer) = (&self.config, self.peer.clone());
        Request::of_part(pages, config, peer, head, &self.head, self.since)
    }

    /// A GET of another place in the name of the same visitor. Without `credentials` it has neither
    /// his cookies nor his authorization; another host never gets them. None: there is no such
    /// request.
    pub(crate) fn to(&self, pages: &Rc<Pages>, target: &Target, credentials: bool) -> Option<Self> {
        let (raw, own_host) = self.with(pages, |request| {
            let host = request.host()?;
            let authority = target.authority.as_deref().unwrap_or(&host);
            let own_host = self.own_host && authority.eq_ignore_ascii_case(&host);
            let path = &target.path_and_query;
            let mut raw = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
            let passed = self.passed.get_or_init(|| Passed::of(request.head.fields));
            raw.extend_from_slice(&passed.open);
            if credentials && own_host {
                raw.extend_from_slice(&passed.secret);
            }
            raw.extend_from_slice(b"Accept-Encoding: identity\r\n\r\n");
            Some((raw, own_host))
        })?;
        let mut slots = slots::<SLOTS>();
        let Ok(Parsed::Complete(head)) = parse_request(&raw, &mut slots, &LIMITS) else {
            return None;
        };
        let head = Rc::new(OwnedHead::of(&head, &raw));
        Some(Self {
            config: self.config.clone(),
            peer: self.peer.clone(),
            head,
            passed: Rc::default(),
            since: self.since,
            own_host,
        })
    }
}

/// Field lines of a client's request that the requests of parts have, too.
#[derive(Default)]
struct Passed {
    open: Vec<u8>,
    /// The visitor's credentials.
    secret: Vec<u8>,
}

impl Passed {
    fn of(fields: Fields<'_>) -> Self {
        // A client may name thousands of options: they are searched, not gone through for each.
        let mut named: Vec<_> =
            fields.elements("connection").map(<[u8]>::to_ascii_lowercase).collect();
        named.sort_unstable();
        let mut passed = Self::default();
        for (name, value) in fields.iter() {
            let is_named = || named.binary_search(&name.to_ascii_lowercase().into_bytes()).is_ok();
            if is_of_the_page(name) || strip::is_hop_by_hop(name) || is_named() {
                continue;
            }
            let secret = ["cookie", "authorization"].iter().any(|n| name.eq_ignore_ascii_case(n));
            let lines = if secret { &mut passed.secret } else { &mut passed.open };
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
        passed
    }
}

/// Fields of a request that are about the page the client asked for, and not about its parts: its
/// host, its conditions and ranges, its body, its codings.
fn is_of_the_page(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "host",
        "range",
        "expect",
        "accept-encoding",
        "larder-debug",
        "max-forwards",
        "surrogate-capability",
        "traceparent",
    ];
    let starts =
        |with: &str| name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    starts("if-")
        || starts("content-")
        || NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

impl Request<'_, '_> {
    /// Calls `f` with the variables that markup may name.
    pub(crate) fn with_facts<T>(&self, f: impl FnOnce(&Facts<'_>) -> T) -> T {
        let host = self.host().unwrap_or_default();
        let target = self.head.target.path_and_query;
        f(&Facts { fields: self.head.fields, host: &host, target, personal: &Cell::new(false) })
    }
}
