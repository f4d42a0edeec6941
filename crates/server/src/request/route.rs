//! Where a request goes: its site, its rules, its key.

use std::{borrow::Cow, sync::Arc};

use larder_proto::{
    http::{BodyFraming, Method, dictionary, has_dot_segment, key, query},
    rules::Forward,
};

use crate::{
    clock::Ms,
    page::{
        lookup::{Found, LookupResult, look},
        spelling::{self, Rules},
    },
    request::Request,
    settings::{RequestView as RuleView, RulePolicy, Site},
};

/// Where a request goes.
pub(crate) struct Route<'a> {
    pub(crate) site: Cow<'a, Arc<Site>>,
    pub(crate) policy: Cow<'a, Arc<RulePolicy>>,
    /// Path and query, as looked up and as sent to the origin.
    pub(crate) path: Cow<'a, str>,
    /// The primary key that the page is looked for under.
    pub(crate) key: Vec<u8>,
    /// That of the request's own spelling, where the page lies under another (No-Vary-Search).
    pub(crate) spelled: Option<Vec<u8>>,
    pub(crate) way: Way,
}

impl Route<'_> {
    /// The route on its own.
    pub(crate) fn into_owned(self) -> Route<'static> {
        Route {
            site: Cow::Owned(self.site.into_owned()),
            policy: Cow::Owned(self.policy.into_owned()),
            path: Cow::Owned(self.path.into_owned()),
            key: self.key,
            spelled: self.spelled,
            way: self.way,
        }
    }

    /// The primary key of the request's own spelling.
    pub(crate) fn asked(&self) -> &[u8] {
        self.spelled.as_deref().unwrap_or(&self.key)
    }

    /// Looks for the page that answers the request, by its own spelling and then by those that the
    /// rules of its path name.
    pub(crate) fn find(&mut self, request: &Request<'_, '_>, now: Ms) -> LookupResult {
        let looked = look(request.pages.store, &self.key, &request.view(), &self.policy, now);
        if !matches!(looked.found, Found::Nothing) && self.spelled.is_none() {
            return looked;
        }
        self.find_spelled(request, looked, now)
    }

    /// The same where nothing was found by its own spelling.
    #[cold]
    fn find_spelled(
        &mut self,
        request: &Request<'_, '_>,
        looked: LookupResult,
        now: Ms,
    ) -> LookupResult {
        let store = request.pages.store;
        let look_under = |key: &[u8]| look(store, key, &request.view(), &self.policy, now);
        let exact = match &self.spelled {
            Some(asked) => look_under(asked),
            None => looked,
        };
        let asked = self.asked();
        let rules = match exact.found {
            Found::Nothing if spelling::has_query(asked) => Rules::load(store, asked, now),
            _ => None,
        };
        let (mut latest, mut found) = (None, None);
        let keys = rules.iter().flat_map(|rules| rules.keys(asked)).enumerate();
        for (age, key) in keys.filter(|(_, key)| key != asked) {
            let mut looked = look_under(&key);
            if let Found::Page(held) = &looked.found {
                if spelling::answers(held, asked) {
                    found = Some((key, looked));
                    break;
                }
                looked = LookupResult { found: Found::Nothing, variant: None };
            }
            // Where nothing is found, the latest rule says who waits for whom.
            if age == 0 {
                latest = Some((key, looked));
            }
        }
        let Some((key, looked)) = found.or(latest) else {
            if let Some(asked) = self.spelled.take() {
                self.key = asked;
            }
            return exact;
        };
        let before = std::mem::replace(&mut self.key, key);
        self.spelled.get_or_insert(before);
        looked
    }

    /// Looks for the page under the key where it was looked for before.
    pub(crate) fn look(&self, request: &Request<'_, '_>, now: Ms) -> LookupResult {
        let looked = look(request.pages.store, &self.key, &request.view(), &self.policy, now);
        match (&self.spelled, &looked.found) {
            (Some(asked), Found::Page(held)) if !spelling::answers(held, asked) => {
                LookupResult { found: Found::Nothing, variant: None }
            }
            _ => looked,
        }
    }

    /// Whether a rule has come meanwhile by which the page would lie under another spelling.
    pub(crate) fn is_spelled_anew(&self, request: &Request<'_, '_>) -> bool {
        self.spelled.is_none()
            && spelling::has_query(&self.key)
            && Rules::load(request.pages.store, &self.key, request.now()).is_some_and(|rules| {
                rules.keys(&self.key).next().is_some_and(|key| key != self.key)
            })
    }
}

/// Which steps a request takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Lookup,
    Pass(Forward),
    Purge,
}

/// A request that is answered by us: status and reason.
pub(crate) struct Refusal(pub(crate) u16, pub(crate) &'static str);

/// receive, route: whose page is it, under what key, by which rules.
pub(crate) fn route<'a>(request: &Request<'a, '_>) -> Result<Route<'a>, Refusal> {
    let head = request.head;
    if matches!(head.method, Method::Connect | Method::Trace) {
        return Err(Refusal(405, "this method is not served here"));
    }
    if head.method == Method::Options && request.max_forwards() == Some(0) {
        return Err(Refusal(
            200,
            "this cache answers for itself: the request was not to be passed on",
        ));
    }
    if request.loops() {
        return Err(Refusal(508, "the request came back to where it was sent from"));
    }
    let host = head.host.as_ref().map_or("", |authority| authority.host);
    let Some((site, place)) = request.config.site_for(host) else {
        return Err(Refusal(421, "no site of this name is served here"));
    };
    request.stats.site.set(place);
    let target = head.target.path_and_query;
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let fields = head.fields;
    let any = |name: &str, test: &mut dyn FnMut(&[u8]) -> bool| fields.all(name).any(test);
    // A purge means the page that a GET would get.
    let purges = purges(head.method, site);
    let method = if purges { "GET" } else { head.method.as_str() };
    let policy = site.policy(&RuleView { method, path, any: &any });
    let confined = policy.handling.as_ref().is_some_and(|handling| handling.confines());
    if confined && has_dot_segment(path.as_bytes()) {
        return Err(Refusal(400, "the path has a segment of dots"));
    }
    let path = query::normalise_query(target, &policy.drop_query, policy.sort_query);
    let mut key = Vec::with_capacity(64 + path.len());
    let port = head.host.as_ref().and_then(|authority| authority.port).unwrap_or(0);
    key::write_key(&mut key, request.scheme(), host, port, path.as_bytes());
    request.write_behind(&policy, &mut key);
    let way = if purges { Way::Purge } else { way(request, &policy) };
    Ok(Route { site: Cow::Borrowed(site), policy, path, key, spelled: None, way })
}

/// Whether the method purges: PURGE, and the BAN of plugins for Varnish, where somebody may purge.
/// Elsewhere BAN is the site's own.
fn purges(method: Method<'_>, site: &Site) -> bool {
    let permitted = || !site.purge.from.is_empty() || site.purge.token.is_some();
    method == Method::Purge || (method == Method::Other("BAN") && permitted())
}

fn way(request: &Request<'_, '_>, policy: &RulePolicy) -> Way {
    let head = request.head;
    match head.method {
        Method::Get | Method::Head => {}
        _ => return Way::Pass(Forward::Method),
    }
    // A condition on the origin's state is not for a cache to judge (RFC 9111 section 4.3.2).
    if head.known.if_match().is_some() || head.known.if_unmodified_since().is_some() {
        return Way::Pass(Forward::Request);
    }
    let cookies = || {
        head.known.cookie().is_some()
            && head.fields.all("cookie").any(|line| policy.bypassed_by(line))
    };
    // A GET with a body: what the origin makes of the body is in no key.
    let special = head.framing != BodyFraming::None
        || request.upgrade().is_some()
        || request.connection_hides_fields();
    let unkeyed = policy.handling.as_ref().is_some_and(|handling| handling.unkeyed);
    if special || ((policy.pass || unkeyed || cookies()) && !is_dictionary(request, policy)) {
        return Way::Pass(Forward::Bypass);
    }
    Way::Lookup
}

/// Whether a request is for the dictionary of its site's documents, which is made here: neither a
/// cookie nor a rule sends it to the origin.
fn is_dictionary(request: &Request<'_, '_>, policy: &RulePolicy) -> bool {
    policy.cache.dictionary && request.head.target.path_and_query == dictionary::PATH
}
