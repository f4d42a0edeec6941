//! Pages that are put together of parts (ESI): the page says where other pages go in it.
//!
//! Such a page has a plan of its markup behind it (`fetch::template` found it once). For each
//! request the plan is walked ([`expand`]): conditions are judged, texts are ranges of the page,
//! and each part is a request of its own without a connection ([`part`]), with its own rules, key,
//! freshness and flight. Parts that memory has are there at once; if all are, the answer is a hit
//! with one write ([`whole`]). The others are requested at the same time by tasks, and the answer
//! is sent in the order of the page as they come ([`send`]); a HEAD, a condition or a range waits
//! for all of them.
//!
//! Clients that take a coding of the site get the answer compressed ([`coded`]).
//!
//! An answer that is put together has an entity tag of its own, made of those of its pieces, where
//! all of it is known before its head is sent; else it is for its client alone.

mod coded;
mod expand;
mod part;
mod read;
mod send;
mod whole;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use larder_proto::{
    esi::{self, Node, Plan},
    page::{PageFlags, Verify, view},
};
use larder_store::Entry;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{
    clock::Ms,
    fetch::{Reply, Source, Template},
    http::{
        deliver::Delivered,
        exchange::{Active, Exchange},
        served::Served,
    },
    net::{out::Out, socket::Ended},
    origin::Body,
    page::{flight::Follower, forms::copied, head::field, lookup::StoredPage},
    request::{pages::Pages, part::PartRequest, route::Route},
    settings::{Parts, RulePolicy},
    wire::Wire,
};

/// Most nodes of markup that one answer is made of, those of its parts included: they are looked at
/// without a pause. A part with more has failed, with [`TOO_LONG`].
const NODES: u32 = 1 << 15;

/// The status of a part for which a limit of the answer leaves no room: their number, their depth,
/// their markup.
const TOO_LONG: u16 = 508;

// Each element makes one node at the most, and one of the text behind it.
const _: () = assert!(NODES as usize > 2 * esi::MAX_ELEMENTS + 1);

/// Parts of one answer that are requested at the same time, or whose bodies wait for their turn and
/// keep their connections to origins. One of them is always that which the client waits for.
const AT_ONCE: usize = 32;

/// A page whose parts are to be put in.
pub(super) enum Page {
    Stored(StoredPage, Served),
    /// As it came from the origin just now.
    Fetched(Box<Reply>),
}

/// A piece of an answer.
#[derive(Clone)]
enum Piece {
    /// The bytes from the first position of a stored record up to the second.
    Stored(Entry<'static>, u64, u64),
    Ready(Bytes),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Stored(_, from, to) => to - from,
            Self::Ready(bytes) => bytes.len() as u64,
        }
    }

    /// The bytes from a position on that lie together; none: they are not there.
    fn chunk_at(&self, at: u64) -> &[u8] {
        match self {
            Self::Stored(entry, from, to) => {
                let chunk = entry.chunk_at(from + at);
                let left = (to - from).saturating_sub(at);
                &chunk[..(chunk.len() as u64).min(left) as usize]
            }
            Self::Ready(bytes) => bytes.get(at as usize..).unwrap_or_default(),
        }
    }
}

/// The next of an answer.
enum Segment {
    Piece(Piece),
    /// A part that was requested.
    Part(Coming),
    /// A part that has come.
    Arrived(Arrived),
    /// If a part of the first fails, the second takes its place.
    Try(Vec<Segment>, Rc<Text>, Vec<Node>),
}

/// A part that is waited for.
struct Coming {
    arrives: oneshot::Receiver<Arrived>,
    /// Told when the client waits for this part.
    is_next: Rc<Notify>,
}

/// The right to request a part, and to keep its connection.
struct Slot {
    _permit: OwnedSemaphorePermit,
    /// It is the one of the part that the client waits for.
    is_last: bool,
}

/// A part that was waited for.
enum Arrived {
    /// It is there, or lies in memory with parts of its own.
    Segments(Vec<Segment>),
    /// It comes, and others may follow it too.
    Follow(Follower),
    /// It comes for this client alone: what was read of it, and the rest, which keeps its place
    /// among the parts that are requested.
    Alone(Bytes, Box<Body>, Option<Slot>),
    Failed(Failed),
}

impl Arrived {
    /// A part whose content is there.
    fn ready(content: Bytes) -> Self {
        Self::Segments(vec![Segment::Piece(Piece::Ready(content))])
    }
}

/// A part that cannot be put in.
struct Failed {
    /// Of its answer, or what a client would have been told.
    status: u16,
    /// Where it was to come from.
    src: String,
}

/// A part is missing, and nobody waits.
struct Missing;

/// A page with parts, for one request.
struct Text {
    source: Content,
    /// The request it answers.
    request: PartRequest,
    /// How deep it lies in other pages.
    depth: u32,
    budget: Rc<Budget>,
}

/// The bytes of a page.
enum Content {
    /// In the store, from this position of the record on.
    Stored(Entry<'static>, u64),
    Fetched(Rc<Template>),
}

/// The state that all parts of one answer share.
struct Budget {
    pages: Rc<Pages>,
    /// Limits, by the rule of the page that was asked for.
    limits: Parts,
    /// Parts that may still be requested.
    left: Cell<u32>,
    /// Nodes that may still be looked at.
    nodes: Cell<u32>,
    /// Parts that were left to tasks.
    begun: Cell<u64>,
    /// A part is not for others.
    private: Cell<bool>,
    /// The values of `Vary` of parts that have variants.
    vary: RefCell<Vec<Vec<u8>>>,
    /// Parts that are missing are requested.
    waits: bool,
    /// For all but one of [`AT_ONCE`] parts.
    slots: Arc<Semaphore>,
    /// For the part that the client waits for: else parts behind it could keep all slots, and wait
    /// for it.
    last_slot: Arc<Semaphore>,
}

impl Budget {
    fn new(pages: &Rc<Pages>, policy: &Arc<RulePolicy>, waits: bool) -> Rc<Self> {
        Rc::new(Self {
            pages: pages.clone(),
            limits: policy.parts.clone(),
            left: Cell::new(policy.parts.number),
            nodes: Cell::new(NODES),
            begun: Cell::new(0),
            private: Cell::new(false),
            vary: RefCell::default(),
            waits,
            slots: Arc::new(Semaphore::new(AT_ONCE - 1)),
            last_slot: Arc::new(Semaphore::new(1)),
        })
    }

    /// The answer has a part with this head, which may be another for another request.
    fn varies_as(&self, head: &[u8]) {
        let Some(value) = field(head, "vary") else { return };
        let mut all = self.vary.borrow_mut();
        if !value.eq_ignore_ascii_case(b"accept-encoding") && !all.iter().any(|one| one == value) {
            all.push(value.to_vec());
        }
    }

    /// Counts the nodes of a page or a part. False: that is more than one answer may be made of.
    fn takes(&self, nodes: &[Node]) -> bool {
        let number = u32::try_from(esi::count(nodes)).unwrap_or(u32::MAX);
        let left = self.nodes.get().checked_sub(number);
        left.is_some_and(|left| {
            self.nodes.set(left);
            true
        })
    }

    /// A slot, once there is one; `is_next` is told if the client waits for the part.
    async fn slot(&self, is_next: &Notify) -> Option<Slot> {
        let last = async {
            is_next.notified().await;
            self.last_slot.clone().acquire_owned().await
        };
        let (permit, is_last) = tokio::select! {
            biased;
            permit = self.slots.clone().acquire_owned() => (permit, false),
            permit = last => (permit, true),
        };
        Some(Slot { _permit: permit.ok()?, is_last })
    }
}

impl Text {
    /// The markup of the page that was asked for.
    fn plan(&self) -> Vec<Node> {
        let plan = self.source.plan();
        // One page alone is below the limit.
        let _fits = self.budget.takes(&plan);
        plan
    }
}

impl Content {
    fn piece(&self, from: u32, to: u32) -> Piece {
        match self {
            Self::Stored(entry, at) => {
                Piece::Stored(entry.clone(), at + u64::from(from), at + u64::from(to))
            }
            Self::Fetched(template) => {
                Piece::Ready(template.content.slice(from as usize..to as usize))
            }
        }
    }

    /// The markup. One that cannot be read is that of another server (a page of the fleet): the
    /// page is sent without its parts then.
    fn plan(&self) -> Vec<Node> {
        let (plan, length) = match self {
            Self::Stored(entry, at) => {
                let Ok(page) = view(entry.head(), entry.len(), Verify::Layout) else {
                    return Vec::new();
                };
                let length = page.content_len();
                (copied(entry, at + length, page.body_len - length), length)
            }
            Self::Fetched(template) => (template.plan.to_vec(), template.content.len() as u64),
        };
        match Plan::decode(&plan, length) {
            Ok(plan) => plan.nodes,
            // A page with markup is shorter than 4 GiB.
            Err(_) => vec![Node::Text(0, length.min(u64::from(u32::MAX)) as u32)],
        }
    }

    fn of(held: &StoredPage) -> Option<Self> {
        let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
        Some(Self::Stored(held.entry.clone(), page.body_at as u64))
    }
}

impl Page {
    /// The key under which the page is stored; None: it came just now.
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Stored(held, _) => Some(held.entry.key()),
            Self::Fetched(_) => None,
        }
    }

    fn expires(&self) -> Option<Ms> {
        match self {
            Self::Stored(held, _) => held.entry.expires(),
            Self::Fetched(_) => None,
        }
    }

    fn content(&self) -> Option<Content> {
        match self {
            Self::Stored(held, _) => Content::of(held),
            Self::Fetched(reply) => match &reply.source {
                Source::Template(template) => Some(Content::Fetched(template.clone())),
                _ => None,
            },
        }
    }
}

/// Answers with a stored page, if all its parts are in memory. Gives the page back if not.
#[allow(clippy::result_large_err)]
#[cold]
pub(super) fn hit(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    held: StoredPage,
    served: &Served,
    policy: &Arc<RulePolicy>,
) -> Result<Delivered, StoredPage> {
    let Some(source) = Content::of(&held) else { return Err(held) };
    let budget = Budget::new(exchange.request.pages, policy, false);
    let request = PartRequest::of(&exchange.request);
    let text = Rc::new(Text { source, request, depth: 0, budget: budget.clone() });
    let mut segments = Vec::new();
    if expand::expand(&text, text.plan(), &mut segments).is_err() {
        return Err(held);
    }
    let Some(pieces) = expand::pieces(&budget, segments) else { return Err(held) };
    let page = Page::Stored(held, *served);
    let hash = whole::hash(exchange, &pieces);
    let mut answer = whole::Answer { pieces: &pieces, hash, coding: None };
    let kept;
    if let Some(encoding) = coded::offered(exchange, &page, policy) {
        let made = coded::Made { pieces: &pieces, hash, encoding };
        match coded::form(&budget, &page, made) {
            coded::Form::Plain => {}
            coded::Form::Kept(piece) => {
                kept = [piece];
                answer = whole::Answer { pieces: &kept, hash, coding: Some(encoding) };
            }
            // It is answered now, or with 504.
            _ if exchange.request.only_if_cached(policy) => {}
            // A task compresses it.
            coded::Form::Missing | coded::Form::Passing => match page {
                Page::Stored(held, _) => return Err(held),
                Page::Fetched(_) => {}
            },
        }
    }
    Ok(whole::compose(exchange, out, (&page, policy), &answer, &budget, true))
}

/// Answers with a page, some parts of which are not there. True: the connection goes on.
pub(super) async fn serve(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    page: Page,
) -> Result<bool, Ended> {
    serve_on(conn.wire, conn.out, exchange, route, page).await
}

/// [`serve`] on a wire.
pub(super) async fn serve_on(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    page: Page,
) -> Result<bool, Ended> {
    send::serve(wire, out, exchange, &route.policy, page).await
}

/// Whether a stored page has parts of its own.
fn is_made(held: &StoredPage) -> bool {
    held.meta.flags.any(PageFlags::ESI)
}
