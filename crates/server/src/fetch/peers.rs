//! Other caches before the origin.
//!
//! ```text
//! miss -> queries (ICP, HTCP) --a hit--> that sibling or parent
//!                             |--none, or not in time--> siblings without queries
//!                                     -> the parent that said first that it has none
//!                                     -> parents by the hash of the URL (CARP)
//!                                     -> the other parents in their order -> the origin
//! ```
//!
//! Only requests whose answer may be stored come here. A sibling is asked with `only-if-cached`, so
//! that it fetches nothing, and not where a stale page is validated: it may have the same stale
//! page. The origin is asked where no peer answers.

use std::{cell::Cell, net::IpAddr, pin::pin, rc::Rc, time::Duration};

use http::{HeaderName, HeaderValue, Method, header};
use tokio::{sync::mpsc, time::timeout_at};

use crate::{
    access_log::Hierarchy,
    clock::{Clock, instant},
    family::{Answer, Link, Question, Turn},
    fetch::job::{Keep, Purpose, Sent},
    origin::{self, Group, Interim, OriginError},
    request::{Request, pages::Config, route::Route},
    settings::{PeerRole, PeerSelect},
};

/// Peers that one request is sent to at most: each may take its time to fail. Together they have as
/// long as the longest of their limits (`first_byte_timeout`): a second one that does not answer
/// delays a miss no further, and the origin is asked.
const TRIES: usize = 3;
/// Time by which their limit is longer than that of one: it is to fail by its own.
const SLACK: Duration = Duration::from_millis(200);

/// Where a fetch goes that no tier could answer.
pub(crate) struct Upstream {
    pub(crate) origin: Rc<Group>,
    /// None: no peer is asked.
    family: Option<Relatives>,
    /// How the server that answered was chosen.
    chosen: Cell<Chosen>,
}

/// The peers for one request.
struct Relatives {
    config: Rc<Config>,
    site: String,
    /// Path and query as the client named them.
    target: String,
    siblings: bool,
    clock: Clock,
}

/// How a server was chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chosen {
    Origin,
    Hit(PeerRole),
    Sibling,
    Miss,
    Hash,
    First,
}

impl Upstream {
    /// The way of a request to its origin; `keep`: None, if it is past the cache.
    pub(crate) fn new(
        origin: Rc<Group>,
        request: &Request<'_, '_>,
        route: &Route<'_>,
        keep: Option<&Keep>,
    ) -> Self {
        let links = &request.config.links.all;
        let family = keep.filter(|keep| {
            !links.is_empty() && keep.store && request.head.known.authorization().is_none()
        });
        let family = family.map(|keep| Relatives {
            config: request.config.clone(),
            site: route.site.name.clone(),
            target: route.path.to_string(),
            siblings: keep.purpose == Purpose::Fetch && keep.held.is_none(),
            clock: request.pages.clock,
        });
        Self { origin, family, chosen: Cell::new(Chosen::Origin) }
    }

    /// The server that answered, in Squid's words.
    pub(crate) fn hierarchy(&self, address: IpAddr) -> Hierarchy {
        match self.chosen.get() {
            Chosen::Origin | Chosen::First => Hierarchy::FirstUpPeer(address),
            Chosen::Hit(PeerRole::Parent) => Hierarchy::ParentHit(address),
            Chosen::Hit(PeerRole::Sibling) | Chosen::Sibling => Hierarchy::SiblingHit(address),
            Chosen::Miss => Hierarchy::FirstParentMiss(address),
            Chosen::Hash => Hierarchy::Carp(address),
        }
    }

    /// Asks the peers, then the origin.
    pub(crate) async fn send(&self, request: origin::Request, interim: Option<Interim>) -> Sent {
        self.chosen.set(Chosen::Origin);
        let safe = matches!(request.method, Method::GET | Method::HEAD) && request.body.is_empty();
        if let Some(family) = self.family.as_ref().filter(|_| safe)
            && let Some((response, chosen)) =
                Box::pin(family.send(&request, interim.as_ref())).await
        {
            self.chosen.set(chosen);
            return Ok(response);
        }
        pin!(self.origin.send(request, interim)).await
    }
}

impl Relatives {
    /// The answer of a peer; None: none has one.
    async fn send(
        &self,
        request: &origin::Request,
        interim: Option<&Interim>,
    ) -> Option<(origin::Response, Chosen)> {
        let url = self.url(request)?;
        let eligible = |link: &&Rc<Link>| {
            let settings = link.settings();
            settings.is_for(&self.site) && (self.siblings || settings.role == PeerRole::Parent)
        };
        let links: Vec<&Rc<Link>> = self.config.links.all.iter().filter(eligible).collect();
        let asked = self.ask(request, &url, &links).await;
        let longest = links.iter().map(|link| link.settings().patience()).max()?;
        let deadline = instant() + longest + SLACK;
        let mut left = TRIES;
        let mut tried: Vec<&Rc<Link>> = Vec::new();
        let order = asked.into_iter().chain(self.unasked(&url, &links));
        // A hit of a query comes first, siblings before parents.
        let mut order: Vec<(&Rc<Link>, Chosen)> = order.collect();
        order.sort_by_key(|(_, chosen)| match chosen {
            Chosen::Hit(_) => 0,
            Chosen::Sibling => 1,
            Chosen::Miss => 2,
            Chosen::Hash => 3,
            Chosen::First | Chosen::Origin => 4,
        });
        for (link, chosen) in order {
            if left == 0 {
                break;
            }
            if tried.iter().any(|other| Rc::ptr_eq(other, link)) {
                continue;
            }
            let Some(turn) = link.state.turn(self.clock.now()) else { continue };
            left -= 1;
            tried.push(link);
            let fetch = self.fetch(link, turn, request, interim.cloned());
            match timeout_at(deadline, fetch).await {
                Ok(Some(response)) => return Some((response, chosen)),
                Ok(None) => {}
                // The time of all peers together is over.
                Err(_) => break,
            }
        }
        None
    }

    /// The URL of a request; it is the same for every member of the family.
    fn url(&self, request: &origin::Request) -> Option<String> {
        let host = request.headers.get(header::HOST)?.to_str().ok()?;
        let scheme = if request.asker.secure { "https" } else { "http" };
        Some(format!("{scheme}://{host}{}", self.target))
    }

    /// Peers that are not queried.
    fn unasked<'l>(
        &'l self,
        url: &str,
        links: &[&'l Rc<Link>],
    ) -> impl Iterator<Item = (&'l Rc<Link>, Chosen)> {
        let here = |link: &Rc<Link>| links.iter().any(|one| Rc::ptr_eq(one, link));
        let hashed = self.config.links.hashed(url.as_bytes()).filter(|link| here(link));
        let hashed: Vec<_> = hashed.map(|link| (link, Chosen::Hash)).collect();
        let first = links.iter().filter(|link| link.settings().select == PeerSelect::First);
        let first = first.map(|link| match link.settings().role {
            PeerRole::Sibling => (*link, Chosen::Sibling),
            PeerRole::Parent => (*link, Chosen::First),
        });
        let first: Vec<_> = first.collect();
        hashed.into_iter().chain(first)
    }

    /// Queries those that are queried, and waits for a hit, for all answers, or as long as is
    /// worth it. A peer that has not answered for long is queried and not waited for.
    async fn ask<'l>(
        &self,
        request: &origin::Request,
        url: &str,
        links: &[&'l Rc<Link>],
    ) -> Option<(&'l Rc<Link>, Chosen)> {
        let queried = || links.iter().filter(|link| link.settings().queries.is_some());
        queried().next()?;
        let fields = lines(request);
        let method = request.method.as_str().as_bytes();
        let question = Question { method, url: url.as_bytes(), fields: &fields };
        let (heard, mut answers) = mpsc::channel(links.len());
        let mut waiting = Vec::new();
        let (mut longest, begun) = (Duration::ZERO, instant());
        let mut under_way = Vec::new();
        for (place, link) in links.iter().enumerate() {
            if link.settings().queries.is_none() {
                continue;
            }
            let alive = link.state.is_alive();
            let Some(asked) = link.ask(&question, place, &heard) else { continue };
            under_way.push(asked);
            if alive {
                longest = longest.max(link.settings().query_timeout);
                waiting.push(place);
            }
        }
        drop(heard);
        let mut nearest: Option<(u64, usize)> = None;
        while !waiting.is_empty() {
            let Ok(Some(heard)) = timeout_at(begun + longest, answers.recv()).await else { break };
            let link = links[heard.place];
            match heard.answer {
                Answer::Hit => return Some((link, Chosen::Hit(link.settings().role))),
                Answer::Miss if link.settings().role == PeerRole::Parent => {
                    let distance = heard.micros / u64::from(link.settings().weight);
                    if nearest.is_none_or(|(least, _)| distance < least) {
                        nearest = Some((distance, heard.place));
                    }
                }
                Answer::Miss | Answer::Refused => {}
                // It is known at once that it does not answer.
                Answer::Gone => link.state.silent(),
            }
            waiting.retain(|place| *place != heard.place);
        }
        waiting.iter().for_each(|place| links[*place].state.silent());
        nearest.map(|(_, place)| (links[place], Chosen::Miss))
    }

    /// Sends the request to a peer. None: another one is to be asked.
    async fn fetch(
        &self,
        link: &Rc<Link>,
        turn: Turn<'_>,
        request: &origin::Request,
        interim: Option<Interim>,
    ) -> Option<origin::Response> {
        let sibling = link.settings().role == PeerRole::Sibling;
        let has = |name: &HeaderName| request.headers.contains_key(name);
        let wants_part = has(&header::RANGE);
        let has_conditions = has(&header::IF_NONE_MATCH) || has(&header::IF_MODIFIED_SINCE);
        let mut request = request.spare();
        (request.target, request.visited) = (self.target.clone(), None);
        if sibling {
            let only = HeaderValue::from_static("only-if-cached");
            request.headers.append(header::CACHE_CONTROL, only);
        }
        let counts = &link.state.counts;
        counts.fetches.one();
        let response = match link.group.send(request, interim).await {
            Ok(response) => response,
            // As many requests as may be are under way: it is busy, not gone.
            Err(OriginError::TooManyConnections) => return None,
            Err(_) => {
                turn.failed(self.clock.now());
                return None;
            }
        };
        if sibling && response.status == 504 {
            turn.answered();
            counts.false_hits.one();
            return None;
        }
        if is_its_own(&response) && matches!(response.status, 421 | 500..) {
            turn.failed(self.clock.now());
            return None;
        }
        turn.answered();
        if is_its_own(&response) || is_unasked(response.status, wants_part, has_conditions) {
            counts.failures.one();
            return None;
        }
        Some(response)
    }
}

/// Whether an answer is one to another request: a part, or that nothing has changed.
fn is_unasked(status: u16, wants_part: bool, has_conditions: bool) -> bool {
    match status {
        206 | 416 => !wants_part,
        304 | 412 => !has_conditions,
        100..200 => true,
        _ => false,
    }
}

/// Whether an answer is the peer's refusal or failure instead of the site's answer: another one may
/// fare better, the origin at last.
fn is_its_own(response: &origin::Response) -> bool {
    match response.status {
        // It wants a password of us; it does not serve the site; its own origin fails; the request
        // came to it a second time.
        407 | 421 | 502..=504 | 508 => true,
        // Squid names what its own pages are for, others may say it as RFC 9209 has it. If it was a
        // cache behind the peer, the origin will answer the same.
        400.. => {
            let errors = |value: &HeaderValue| {
                let mut parts = value.as_bytes().split(|byte| matches!(byte, b';' | b','));
                parts.any(|part| part.trim_ascii().starts_with(b"error="))
            };
            response.headers.contains_key("x-squid-error")
                || response.headers.get_all("proxy-status").iter().any(errors)
        }
        _ => false,
    }
}

/// The fields of a request as lines, as HTCP has them.
fn lines(request: &origin::Request) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in &request.headers {
        // A TST asks about a page, whatever the client has of it.
        if matches!(name.as_str(), "host" | "if-none-match" | "if-modified-since" | "range") {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out
}
