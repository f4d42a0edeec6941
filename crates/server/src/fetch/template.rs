//! Pages that are put together of parts (ESI). Such a page is read whole, its markup is found, and
//! the plan of it lies behind the page in the store: it is not looked for again.

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use larder_proto::{
    esi::parse,
    http::Fields,
    page::{Encoding, PageFlags},
    rules::{Esi, Lifetime, ResponseFacts, esi, strip},
};

use crate::{
    clock::Ms,
    fetch::{
        FetchResult, Source,
        job::{self, Job, Unstored},
        store::NewPage,
    },
    origin::Response,
    page::{
        answer::Answer,
        coding::{self, Undecoded},
        flight::{Again, Landing},
        head::Spelled,
    },
    room::{Counted, Room},
};

/// The markup of pages from this length on is found beside the worker.
const LONG: usize = 32 << 10;

const CROWDED: &str = "there is no memory for the page";

/// A page whose parts are to be put in.
pub(crate) struct Template {
    /// The page, uncoded.
    pub(crate) content: Bytes,
    /// See [`larder_proto::esi::Plan`].
    pub(crate) plan: Bytes,
}

/// Whether a response may have markup: see [`collect`].
pub(super) fn applies(job: &Job, response: &Response, spelled: &Spelled) -> bool {
    let policy = &job.policy.cache;
    let silent = policy.esi == Esi::Surrogate && !spelled.has("surrogate-control");
    esi::may_have_markup(response.status) && policy.esi != Esi::Never && !silent
}

/// Reads a response that may have markup. None: it has none, and its body is there as it was. An
/// error: the page cannot be sent.
pub(super) async fn collect(
    job: &Job,
    response: &mut Response,
    spelled: &mut Spelled,
    now: Ms,
) -> Result<Option<Rc<Template>>, &'static str> {
    if !applies(job, response, spelled) {
        return Ok(None);
    }
    let encoding = {
        let headers = spelled.headers();
        let fields = Fields::new(&headers);
        let facts = ResponseFacts {
            status: response.status,
            fields,
            request_time: now,
            response_time: now,
        };
        if response.upgraded.is_some() || !esi::applies(&facts, &job.policy.cache) {
            return Ok(None);
        }
        Encoding::of(fields.get("content-encoding"))
    };
    if job.head {
        // The fields of the page are not those of the answer that is made of it.
        if job.keep.as_ref().is_none_or(|keep| keep.held.is_none()) {
            for name in ["content-length", "etag", "last-modified", "accept-ranges"] {
                spelled.remove(name);
            }
        }
        return Ok(None);
    }
    let most = job.policy.parts.size;
    if response.body.declared_length().is_some_and(|length| length > most) {
        return Ok(None);
    }
    let room = &job.pages.shared.room;
    let Some(raw) = Box::pin(read(room, response, most)).await? else { return Ok(None) };
    let content = match encoding {
        Encoding::Identity => Some(raw.clone()),
        // Nothing can be said of it.
        Encoding::Other => None,
        _ => Some(decoded(room, raw.clone(), encoding, most).await?),
    };
    let found = match content {
        Some(content) => planned(content).await,
        None => None,
    };
    match found {
        Some((plan, content)) => {
            spelled.remove("content-encoding");
            let mut counted = Counted::new(room);
            if !counted.extend(&plan).await {
                return Err(CROWDED);
            }
            Ok(Some(Rc::new(Template { content, plan: counted.into_bytes() })))
        }
        None => {
            response.body.refill(raw);
            Ok(None)
        }
    }
}

/// The plan of a page, and the page; None: it has no markup.
async fn planned(content: Bytes) -> Option<(Vec<u8>, Bytes)> {
    let is_long = content.len() >= LONG;
    let plan = move || Some((parse(&content)?.encode(), content));
    if is_long { tokio::task::spawn_blocking(plan).await.ok().flatten() } else { plan() }
}

/// Reads a whole body. None: it is longer than `most` bytes, and comes as if nothing was read.
pub(super) async fn read(
    room: &Arc<Room>,
    response: &mut Response,
    most: u64,
) -> Result<Option<Bytes>, &'static str> {
    let mut raw = Counted::new(room);
    while let Some(data) = response
        .body
        .chunk()
        .await
        .map_err(|_| "the site behind this cache did not send the whole page")?
    {
        if !raw.extend(&data).await {
            return Err(CROWDED);
        }
        if raw.len() as u64 > most {
            response.body.refill(raw.into_bytes());
            return Ok(None);
        }
    }
    Ok(Some(raw.into_bytes()))
}

/// The content of a coded body, `most` bytes at the most.
pub(super) async fn decoded(
    room: &Arc<Room>,
    raw: Bytes,
    encoding: Encoding,
    most: u64,
) -> Result<Bytes, &'static str> {
    coding::decoded(room, encoding, raw, most).await.map_err(|fault| match fault {
        Undecoded::Crowded => CROWDED,
        Undecoded::Damaged | Undecoded::TooLong => {
            "the page cannot be decoded, or is longer than it may be"
        }
    })
}

/// Stores a page that is put together of parts, and its plan behind it. Its client gets it as it
/// came; those who waited find it in the store.
pub(super) async fn store(
    mut job: Job,
    response: Response,
    facts: &ResponseFacts<'_>,
    lifetime: Lifetime,
    template: Rc<Template>,
) {
    let Some(keep) = &job.keep else { return };
    let flags = lifetime.flags.without(PageFlags::COMPOSED).with(PageFlags::ESI);
    let page = NewPage::new(&job, keep, &response, facts, Lifetime { flags, ..lifetime });
    let fits = |_: &NewPage| template.content.len() as u64 <= keep.policy.max_object;
    let Some(mut page) = page.filter(fits) else {
        job.pages.counters.store_refused.one();
        let why = Unstored { detail: "too-large", mark: true };
        return pass_on(job, response, facts, Some(why), template).await;
    };
    page.draft.length = None;
    page.draft.meta.nonce = template.content.len() as u64;
    let stored = page.put(&job, &[&template.content, &template.plan]);
    let again = if stored { Again::Stored } else { Again::Alone };
    job.lead.flight.land(Landing::LookAgain(again));
    let own = page.own_answer(&job, facts, &response);
    let reply = job.reply(Arc::new(own), Source::Template(template), &response);
    job.tell(FetchResult::Response(Box::new(reply)));
}

/// [`job::pass_on`] of a page whose parts are to be put in.
pub(super) async fn pass_on(
    mut job: Job,
    response: Response,
    facts: &ResponseFacts<'_>,
    why: Option<Unstored>,
    template: Rc<Template>,
) {
    job::settle(&job, facts, why.as_ref()).await;
    if let Some(why) = &why {
        job.pages.counters.not_stored.one(why.detail);
    }
    job.lead.flight.land(Landing::LookAgain(Again::Alone));
    let head = strip::forwarded_head(facts, &job::reason(&response), &job.policy.cache);
    let answer = Arc::new(Answer {
        status: response.status,
        head,
        length: None,
        meta: None,
        etag: None,
        vary: Vec::new(),
        spelling: None,
    });
    let mut reply = job.reply(answer, Source::Template(template), &response);
    reply.detail = why.map(|why| why.detail);
    job.tell(FetchResult::Response(Box::new(reply)));
}
