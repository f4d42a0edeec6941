//! Talking to origins over HTTP/1.1.
//!
//! hyper speaks the protocol; this room adds what a cache needs around it: a pool with limits,
//! timeouts for every wait, a retry where it is safe, and an answer to the question whether a
//! response is *complete*, because only a complete one may be stored.
//!
//! The way of a request: `send` -> [`outgoing`] (target, Host, framing) -> [`pool`] (a permit, then
//! an idle connection or a new one from [`connect`]) -> [`exchange`] (write, wait for the head) ->
//! [`Body`], which holds the connection until the last byte and then gives it back. [`upload`] is
//! the request's body on its way, [`stream`] the socket beneath hyper, [`tls`] what secures it,
//! [`patience`] the waiting.
//!
//! Absent: no following of redirects, no decoding of content, no caching of name lookups
//! (the system does that), no thread: an `Origin` lives on one worker and is never sent to another.

mod body;
mod connect;
mod counters;
mod error;
mod exchange;
mod message;
mod outgoing;
mod patience;
mod pool;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod upload;

use std::{rc::Rc, sync::Arc};

use tokio::time::Instant;

pub use body::Body;
pub use counters::OriginCounters;
pub use error::OriginError;
pub use message::{BodyFrame, Interim, InterimHead, Request, RequestBody, Response};
pub use stream::{OriginStream, Tunnel, tunnel};

use self::{
    connect::after,
    counters::count,
    exchange::{Failure, exchange, respond},
    outgoing::Outgoing,
    pool::Pool,
    upload::Progress,
};
use crate::{clock::instant, settings::OriginSettings};

/// One origin, as one worker thread sees it. All of its futures must run inside that worker's
/// runtime.
#[derive(Debug)]
pub struct Origin {
    pool: Rc<Pool>,
}

impl Origin {
    /// An origin without connections; nothing is resolved or opened before the first request.
    pub fn new(settings: Arc<OriginSettings>, counters: Arc<OriginCounters>) -> Rc<Origin> {
        Rc::new(Origin { pool: Pool::new(settings, counters) })
    }

    /// The settings this origin was made with.
    pub fn settings(&self) -> &Arc<OriginSettings> {
        &self.pool.settings
    }

    /// Sends one request and waits for the head of the final response (or of a 101). Interim
    /// responses are handed to `interim` as they come.
    ///
    /// It is sent a second time, once and over a new connection, only when a *pooled* connection
    /// turned out dead before any byte of an answer, and only when the request is safe and has no
    /// body (RFC 9110 section 9.2.2), or when nothing of it had been written. Dropping the future
    /// closes the connection.
    pub async fn send(
        self: &Rc<Self>,
        req: Request,
        interim: Option<Interim>,
    ) -> Result<Response, OriginError> {
        let counters = &self.pool.counters;
        count(&counters.requests);
        let total = after(self.pool.settings.total_timeout);
        let begun = instant();
        let sent = self.dispatch(req, interim, total).await;
        match &sent {
            Ok(_) => counters.ttfb.record((instant() - begun).as_micros() as u64),
            Err(error) => counters.count_failure(error),
        }
        sent
    }

    async fn dispatch(
        &self,
        req: Request,
        interim: Option<Interim>,
        total: Option<Instant>,
    ) -> Result<Response, OriginError> {
        let counters = &self.pool.counters;
        let interim = interim.map(|interim| (interim, counters.clone()));
        let (outgoing, body) = Outgoing::new(req, interim, &self.pool.settings)?;
        let asked = outgoing.asked.clone();
        let repeatable = asked.method.is_safe() && body.is_empty();
        let mut lease = self.pool.lease(total).await?;
        if lease.reused {
            count(&counters.reused);
        }
        let spare = (lease.reused && repeatable).then(|| outgoing.clone());
        let progress = Progress::new();
        let request = outgoing.build(body, progress.clone());
        let response = match exchange(&mut lease, request, &progress, total).await {
            Ok(response) => response,
            Err(failure) => {
                let again = match (failure, spare) {
                    (Failure { unsent: Some(request), .. }, _) if lease.reused => request,
                    (Failure { connection_was_dead: true, .. }, Some(spare)) => {
                        spare.build(RequestBody::Empty, progress.clone())
                    }
                    (Failure { error, .. }, _) => return Err(error),
                };
                count(&counters.retried);
                lease.renew(total).await?;
                exchange(&mut lease, again, &progress, total)
                    .await
                    .map_err(|failure| failure.error)?
            }
        };
        respond(&asked, lease, response, progress, total)
    }
}
