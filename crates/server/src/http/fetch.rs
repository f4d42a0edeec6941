//! Asking the origin, or waiting for whoever asks already: the client's side of a fetch. The other side is `bring`.

use std::{rc::Rc, sync::Arc};

use larder_proto::{
    http::{BodyFraming, Fields, Method, Version, parse_fields},
    page::{Meta, Verify, view},
    rules::{ErrorCause, Forward, Uri, conditions, invalidate, partial, split_head, update::with_fields},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_local,
};

use super::{
    answer::Answer,
    ask::{self, Mode},
    asked::Asked,
    body::FRAMES,
    bring::{self, Client, Job, Keep},
    compose,
    conn::Conn,
    flight::{Follower, Joined, Landing, Lead, Tail},
    flow::Route,
    lookup::{Held, look},
    out::Out,
    purge, refuse,
    socket::{Ended, Socket},
    variant,
};
use crate::{
    access_log::Hierarchy,
    origin::{BodyFrame, InterimHead, OriginError, Request, RequestBody},
};

/// Interim responses that may wait for the client.
const INTERIM: usize = 8;

/// What is to be fetched, and why.
pub(crate) struct Plan {
    pub(crate) why: Forward,
    /// What the store has: to be validated, completed, or served should the origin fail.
    pub(crate) held: Option<Held>,
    /// The key of the variant; None: the primary key.
    pub(crate) variant: Option<Vec<u8>>,
    /// Do not wait for others, do not let others wait.
    pub(crate) solo: bool,
    /// The response may be stored.
    pub(crate) store: bool,
    /// Others who share the fleet may have what is wanted.
    pub(crate) fleet: bool,
}

impl Plan {
    pub(crate) fn new(why: Forward, held: Option<Held>, variant: Option<Vec<u8>>) -> Self {
        let fleet = matches!(why, Forward::UriMiss | Forward::VaryMiss | Forward::Miss | Forward::Stale);
        Self { why, held, variant, solo: false, store: true, fleet }
    }
}

/// What a fetch came to, for one client.
pub(crate) enum News {
    /// Here it is.
    Reply(Box<Reply>),
    /// Look into the store again.
    LookAgain,
    /// Look again: the page is there now, and came from the fleet.
    Shared,
    /// Look again: the page there was confirmed by the origin just now, whatever its age says.
    Validated,
    /// What came is for somebody else: ask for yourself.
    Alone,
    /// The origin failed.
    Failed(Arc<Failure>),
}

/// A failure, as the client is told.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: ErrorCause,
    pub(crate) status: u16,
    pub(crate) why: &'static str,
}

impl Failure {
    pub(crate) fn of(error: &OriginError) -> Self {
        let why = match error.status() {
            504 => "the site behind this cache did not answer in time",
            503 => "the site behind this cache is too busy",
            400 => "the request could not be passed on",
            _ => "the site behind this cache could not be reached or did not answer correctly",
        };
        Self { cause: ErrorCause::Disconnected, status: error.status(), why }
    }
}

/// A response on its way to one client.
pub(crate) struct Reply {
    pub(crate) answer: Arc<Answer>,
    pub(crate) source: Source,
    pub(crate) why: Forward,
    /// Followed somebody else's fetch.
    pub(crate) collapsed: bool,
    /// There was something in the store, used or not.
    pub(crate) found: bool,
    /// Why it is not stored.
    pub(crate) detail: Option<&'static str>,
    pub(crate) hierarchy: Hierarchy,
    /// The client's own conditions are still to be looked at: the origin was not told.
    pub(crate) conditions: bool,
}

/// Where a body comes from.
pub(crate) enum Source {
    Follow(Follower),
    Tail(mpsc::Receiver<Tail>),
    /// With the protocol's name.
    Tunnel(hyper::upgrade::OnUpgrade, Vec<u8>),
}

/// Fetches for a client: leads a flight or joins one.
pub(crate) async fn fetch(
    conn: &mut Conn,
    asked: &Asked<'_, '_>,
    route: &Route<'_>,
    plan: Plan,
) -> Result<News, Ended> {
    let mut plan = plan;
    // Alone is who found that what others have is not for it.
    plan.fleet &= plan.store && !plan.solo;
    let solo = plan.solo || !joins(asked, &plan);
    let key = plan.variant.as_deref().unwrap_or(&route.key);
    let flights = &asked.worker.shared.flights;
    let lead = if solo {
        flights.solo(key, &route.key)
    } else {
        match flights.join(key, &route.key) {
            Joined::Leader(lead) => lead,
            Joined::Follower(flight) => {
                asked.worker.counters.coalesced_waits.one();
                let landing = tokio::select! {
                    biased;
                    landing = flight.landed() => landing,
                    () = conn.socket.gone() => return Err(Ended::Closed),
                };
                return Ok(follow(asked, route, &plan, landing));
            }
        }
    };
    if !solo && overtaken(asked, route, &plan) {
        lead.flight.land(Landing::Stored { validated: false });
        return Ok(News::LookAgain);
    }
    let why = plan.why;
    let found = plan.held.is_some();
    let (request, keep) = prepare(asked, route, plan, solo, asked.head.known.range().is_some());
    let (client, waiting) = client();
    spawn(asked, route, lead, request, Some(client), Some(keep))?;
    let mut news = wait(&conn.socket, &mut conn.out, asked, waiting).await?;
    if let News::Reply(reply) = &mut news {
        (reply.why, reply.found) = (why, found);
    }
    Ok(news)
}

/// Whether others may wait for this request's response, and it for theirs. A range or the answer to a HEAD is of no use
/// to others; what was fetched with credentials is not theirs.
fn joins(asked: &Asked<'_, '_>, plan: &Plan) -> bool {
    let known = &asked.head.known;
    plan.store
        && asked.head.method == Method::Get
        && known.range().is_none()
        && known.authorization().is_none()
}

/// Between the lookup and the lead somebody else may have landed.
fn overtaken(asked: &Asked<'_, '_>, route: &Route<'_>, plan: &Plan) -> bool {
    let looked = look(asked.worker.store, &route.key, &asked.view(), &route.policy, asked.now());
    let before = plan.held.as_ref().map(|held| held.entry.version());
    match looked.found {
        super::lookup::Found::Page(held) => before != Some(held.entry.version()),
        super::lookup::Found::HitForMiss => true,
        _ => looked.variant != plan.variant,
    }
}

/// What somebody else's landing means for this request.
fn follow(asked: &Asked<'_, '_>, route: &Route<'_>, plan: &Plan, landing: Landing) -> News {
    let streaming = match landing {
        Landing::Streaming(streaming) => streaming,
        Landing::Stored { validated: true } => return News::Validated,
        Landing::Stored { validated: false } => return News::LookAgain,
        Landing::Alone => return News::Alone,
        Landing::Failed(failure) => return News::Failed(failure),
    };
    if !variant::selects(&streaming.answer.vary, &asked.view(), &route.policy) {
        return News::LookAgain;
    }
    let Some(follower) = streaming.follow() else { return News::Alone };
    News::Reply(Box::new(Reply {
        answer: streaming.answer.clone(),
        source: Source::Follow(follower),
        why: plan.why,
        collapsed: true,
        found: plan.held.is_some(),
        detail: None,
        hierarchy: Hierarchy::None,
        conditions: true,
    }))
}

/// A request past the cache, on its way.
pub(crate) struct Passing {
    pub(crate) waiting: Waiting,
    /// Where the request's body goes.
    pub(crate) frames: Option<mpsc::Sender<BodyFrame>>,
}

/// Starts a request past the cache.
pub(crate) fn pass(asked: &Asked<'_, '_>, route: &Route<'_>) -> Result<Passing, Ended> {
    let lead = asked.worker.shared.flights.solo(&[], &[]);
    let (frames, body) = match asked.head.framing {
        BodyFraming::None => (None, RequestBody::Empty),
        framing => {
            let (send, frames) = mpsc::channel(FRAMES);
            let length = match framing {
                BodyFraming::Length(length) => Some(length),
                _ => None,
            };
            (Some(send), RequestBody::Stream { length, frames })
        }
    };
    let request = request(asked, route, &Mode::Pass, body, asked.upgrade().is_some());
    let (client, waiting) = client();
    spawn(asked, route, lead, request, Some(client), None)?;
    Ok(Passing { waiting, frames })
}

/// What a successful unsafe request changed is forgotten (RFC 9111 section 4.4).
pub(crate) fn invalidate(asked: &Asked<'_, '_>, route: &Route<'_>, reply: &Reply) {
    let Some((_, lines)) = split_head(&reply.answer.head) else { return };
    let authority = asked.head.host.map(|host| host.to_string()).unwrap_or_default();
    let uri = Uri { scheme: asked.scheme().as_str(), authority: &authority, path_and_query: &route.path };
    let status = reply.answer.status;
    let targets = with_fields(lines, |fields| invalidate::targets(&asked.head.method, &uri, status, fields));
    for path in targets.unwrap_or_default() {
        purge::request::invalidate(asked, route, &path);
    }
}

/// Refreshes a stale page behind the back of the client that was served it.
///
/// It goes out in that client's name, so a client with credentials does not cause one: what it got would not be stored.
pub(crate) fn refresh(asked: &Asked<'_, '_>, route: &Route<'_>) {
    if asked.head.method != Method::Get || asked.head.known.authorization().is_some() {
        return;
    }
    let looked = look(asked.worker.store, &route.key, &asked.view(), &route.policy, asked.now());
    let super::lookup::Found::Page(held) = looked.found else { return };
    let key = looked.variant.as_deref().unwrap_or(&route.key).to_vec();
    let Joined::Leader(lead) = asked.worker.shared.flights.join(&key, &route.key) else { return };
    let plan = Plan::new(Forward::Stale, Some(held), looked.variant);
    let (request, keep) = prepare(asked, route, plan, false, false);
    let _ = spawn(asked, route, lead, request, None, Some(keep));
}

/// The request to the origin, and what is needed to judge and store its answer. `range`: the client wants a part.
fn prepare(asked: &Asked<'_, '_>, route: &Route<'_>, plan: Plan, solo: bool, range: bool) -> (Request, Keep) {
    let mut slots = [larder_proto::http::EMPTY_HEADER; 256];
    let page = plan.held.as_ref().and_then(|held| {
        view(held.entry.head(), held.entry.len(), Verify::Layout).ok().map(|page| (page, &held.meta))
    });
    let fields = page
        .as_ref()
        .and_then(|(page, _)| split_head(page.head))
        .and_then(|(_, fields)| parse_fields(fields, &mut slots).ok());
    let mode = match (&page, fields) {
        (Some((page, meta)), Some(fields)) => mode(range, meta, page.etag, fields),
        _ if range => Mode::Range,
        _ => Mode::Whole,
    };
    let request = request(asked, route, &mode, RequestBody::Empty, false);
    let ranged = matches!(mode, Mode::Range);
    let purpose = match mode {
        Mode::Validate(_) => bring::Purpose::Validate,
        Mode::Complete { .. } => bring::Purpose::Complete,
        _ => bring::Purpose::Fetch,
    };
    let keep = Keep {
        raw: asked.raw.into(),
        policy: Arc::clone(&route.policy),
        primary: route.key.clone(),
        variant: plan.variant,
        held: plan.held,
        purpose,
        ranged,
        site: route.site.name.clone(),
        store: plan.store,
        mark: !solo,
        ask_fleet: plan.fleet && route.site.remote && asked.worker.remote.is_some(),
        shared: plan.store && route.site.remote,
    };
    (request, keep)
}

/// How to ask when the store has something. A part is never asked for where the whole page is stored: it would take its
/// place.
fn mode<'a>(range: bool, meta: &Meta, etag: Option<&'a [u8]>, fields: Fields<'a>) -> Mode<'a> {
    if let Some(part) = &meta.partial {
        if range {
            return Mode::Range;
        }
        // Without a strong tag the parts could not be told to be of one version.
        let validator = etag.filter(|tag| tag.starts_with(b"\"")).map(<[u8]>::to_vec);
        return match (partial::missing(part, None), validator) {
            (Some(range), Some(validator)) => Mode::Complete { range, validator },
            _ => Mode::Whole,
        };
    }
    let conditions = conditions(etag, fields);
    if conditions.is_empty() { Mode::Whole } else { Mode::Validate(conditions) }
}

fn request(
    asked: &Asked<'_, '_>,
    route: &Route<'_>,
    mode: &Mode<'_>,
    body: RequestBody,
    upgrade: bool,
) -> Request {
    let method = http::Method::from_bytes(asked.head.method.as_str().as_bytes()).unwrap_or(http::Method::GET);
    Request {
        method,
        target: route.path.to_string(),
        headers: ask::headers(asked, route, mode),
        body,
        upgrade,
    }
}

/// The waiting half of a fetch.
pub(crate) struct Waiting {
    reply: oneshot::Receiver<News>,
    interim: mpsc::Receiver<InterimHead>,
}

fn client() -> (Client, Waiting) {
    let (reply, waiting) = oneshot::channel();
    let (send, interim) = mpsc::channel(INTERIM);
    (Client { reply, interim: send }, Waiting { reply: waiting, interim })
}

fn spawn(
    asked: &Asked<'_, '_>,
    route: &Route<'_>,
    lead: Lead,
    request: Request,
    client: Option<Client>,
    keep: Option<Keep>,
) -> Result<(), Ended> {
    let origin = asked.config.origin(route.site).ok_or(Ended::Closed)?;
    let job = Job {
        worker: Rc::clone(asked.worker),
        config: Rc::clone(asked.config),
        origin,
        lead,
        client,
        keep,
        policy: Arc::clone(&route.policy),
        head: asked.is_head(),
        lease: std::cell::RefCell::default(),
    };
    spawn_local(bring::run(job, request));
    Ok(())
}

/// A task that ended without a word (it panicked) is our failure.
fn silent() -> News {
    News::Failed(Arc::new(Failure {
        cause: ErrorCause::Disconnected,
        status: 500,
        why: "something went wrong inside the cache",
    }))
}

/// Waits for the reply; interim responses go to the client as they come.
pub(crate) async fn wait(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    mut waiting: Waiting,
) -> Result<News, Ended> {
    loop {
        tokio::select! {
            biased;
            Some(interim) = waiting.interim.recv() => {
                write_interim(out.scratch(), asked, &interim);
                asked.send(socket, out).await?;
            }
            news = &mut waiting.reply => {
                if let Some(traced) = &asked.trace {
                    traced.fetched.set((traced.fetched.get().0, asked.worker.clock.micros()));
                }
                return Ok(news.unwrap_or_else(|_| silent()));
            }
            () = socket.gone() => return Err(Ended::Closed),
        }
    }
}

/// An interim response (RFC 9110 section 15.2), for clients that know them. 100 was said by us already.
fn write_interim(out: &mut Vec<u8>, asked: &Asked<'_, '_>, interim: &InterimHead) {
    if asked.head.version == Version::Http10 || interim.status == 100 {
        return;
    }
    compose::interim_head(out, interim.status, refuse::phrase(interim.status), &interim.headers);
}
