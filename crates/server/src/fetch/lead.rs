//! A fetch in the task of the client that leads it.

use std::{cell::RefCell, future::poll_fn, pin::Pin, rc::Rc, sync::Arc};

use larder_proto::rules::ErrorCause;
use tokio::{sync::oneshot, task::spawn_local};

use crate::{
    fetch::{
        FetchResult,
        job::{self, Client, Job, Keep},
        peers::Upstream,
        uncoded,
    },
    net::reused::Reused,
    origin::{self, Interim},
    page::flight::{Failure, Lead},
    request::{Request, route::Route},
};

/// Asks the origin, and waits for the result.
pub(super) async fn to_end(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    lead: Lead,
    outgoing: origin::Request,
    interim: Interim,
    keep: Option<Keep>,
) -> FetchResult {
    let (reply, told) = oneshot::channel();
    let client = Some(Client { reply, interim });
    let led = job(request, route, lead, outgoing, client, keep).map(Led::new);
    let result = match led {
        Some(led) => led.result(told).await,
        None => None,
    };
    if let Some(traced) = &request.trace {
        traced.fetched.set((traced.fetched.get().0, request.pages.clock.micros()));
    }
    // A fetch that ended without a result has no origin: our failure.
    result.unwrap_or_else(|| {
        FetchResult::Failed(Arc::new(Failure {
            cause: ErrorCause::Disconnected,
            status: 500,
            why: "something went wrong inside the cache",
            detail: None,
        }))
    })
}

/// A fetch that runs in the task of the client that leads it, until this client is told. The rest
/// of it (an answer on its way into the store; all of it, if the client leaves) goes on in a task
/// of its own: most answers that are not stored need none.
struct Led<F: Future<Output = ()> + 'static>(Option<Reused<F>>);

impl<F: Future<Output = ()> + 'static> Led<F> {
    fn new(job: F) -> Self {
        Self(Some(Reused::new(job)))
    }

    async fn result(mut self, told: oneshot::Receiver<FetchResult>) -> Option<FetchResult> {
        let mut told = told;
        poll_fn(|cx| {
            if let Some(job) = &mut self.0
                && Pin::new(job).poll(cx).is_ready()
            {
                self.0 = None;
            }
            Pin::new(&mut told).poll(cx)
        })
        .await
        .ok()
    }
}

impl<F: Future<Output = ()> + 'static> Drop for Led<F> {
    fn drop(&mut self) {
        if let Some(job) = self.0.take()
            && !std::thread::panicking()
        {
            spawn_local(job);
        }
    }
}

/// The fetch, to be run. None: the site has no origin.
pub(super) fn job(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    lead: Lead,
    mut outgoing: origin::Request,
    client: Option<Client>,
    keep: Option<Keep>,
) -> Option<impl Future<Output = ()> + use<>> {
    let origin = request.config.origin(&route.site, &route.policy)?;
    let upstream = Upstream::new(origin, request, route, keep.as_ref());
    outgoing.asker.others = Some(lead.flight.others.clone());
    let job = Job {
        pages: Rc::clone(request.pages),
        config: Rc::clone(request.config),
        upstream,
        lead,
        client,
        address: request.client(),
        accepted: uncoded::accepted(request.head.fields),
        keep,
        policy: Arc::clone(&route.policy),
        head: outgoing.method == http::Method::HEAD,
        part: request.stats.is_part,
        lease: RefCell::default(),
    };
    Some(job::run(job, outgoing))
}
