//! Talking to origins: over HTTP/1.1, and to applications over FastCGI ([`fastcgi`]). Files of this
//! machine are an origin too ([`files`]).
//!
//! Beside the protocols there is what a cache needs around them: a pool with limits, timeouts for
//! every wait, a retry where it is safe, and an answer to the question whether a response is
//! *complete*, because only a complete one may be stored. A fetch is given a head and a [`Body`]
//! whatever the origin is.
//!
//! An [`Origin`] is one server; the origin of a site is a [`Group`] of one or several.
//!
//! The way of a request: `send` -> [`outgoing`] (target, Host, framing) -> [`pool`] (a permit, then
//! an idle connection or a new one from [`connect`]) -> [`exchange`] (write, wait for the [`head`])
//! -> [`Body`] ([`reading`]), which holds the connection until the last byte and then gives it
//! back. All of it runs in the task that waits for the answer: a connection has no task
//! ([`connection`]). [`upload`] is the request's body on its way, [`interim`] that of interim
//! responses, [`stream`] the socket of a connection, [`tls`] what secures it, [`patience`] the
//! waiting; [`accel`] sends the files that answers name.
//!
//! Absent: no following of redirects, no decoding of content, no caching of name lookups (the
//! system does that; with `resolve`, [`group`] keeps addresses), no thread: an `Origin` lives on
//! one worker and is never sent to another.

mod accel;
mod body;
mod channel;
mod connect;
mod connection;
mod counters;
mod error;
mod exchange;
mod fastcgi;
mod files;
mod group;
mod head;
mod interim;
mod local;
mod message;
mod others;
mod outgoing;
mod patience;
mod pool;
mod queue;
mod reading;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod tree;
mod upload;

use std::{cell::Cell, pin::pin, rc::Rc, sync::Arc};

use tokio::time::{Duration, Instant};

pub use body::Body;
pub(crate) use connect::LONGEST_PIECE;
pub use counters::OriginCounters;
pub use error::OriginError;
pub(crate) use files::{KeptContent, KeptFiles, KeptForm, Seen, Watcher};
pub use group::{Group, Groups};
pub use interim::{Interim, InterimHead, InterimHeads, interim};
pub use message::{Asker, BodyFrame, Request, RequestBody, Response};
pub use others::Others;
pub use stream::{OriginStream, Tunnel};

use self::{
    accel::Accel,
    connect::after,
    connection::{Connection, Sending},
    counters::count,
    exchange::{Failure, Interims, exchange, respond},
    fastcgi::FastCgi,
    files::Files,
    outgoing::Outgoing,
    pool::Pool,
    upload::{Progress, Upload},
};
use crate::{
    clock::instant,
    settings::{AppUse, OriginScheme, OriginSettings},
};

/// One server, as one worker thread sees it. All of its futures must run inside that worker's
/// runtime.
#[derive(Debug)]
pub struct Origin {
    settings: Arc<OriginSettings>,
    counters: Arc<OriginCounters>,
    kind: Kind,
    /// None: its answers name no files.
    accel: Option<Accel>,
    /// When a failure of this machine was printed last.
    printed: Cell<Option<Instant>>,
}

/// Between two lines about failures of this machine, of one worker and origin.
const PRINT_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum Kind {
    Http(Rc<Pool<Connection>>),
    FastCgi(FastCgi),
    Files(Files),
}

impl Origin {
    /// An origin without connections; nothing is resolved or opened before the first request.
    pub fn new(settings: Arc<OriginSettings>, counters: Arc<OriginCounters>) -> Rc<Origin> {
        let kind = match &settings.scheme {
            OriginScheme::Http | OriginScheme::Https(_) => {
                Kind::Http(Pool::new(settings.clone(), counters.clone()))
            }
            OriginScheme::FastCgi(application) => {
                let (settings, counters) = (settings.clone(), counters.clone());
                Kind::FastCgi(FastCgi::new(application.clone(), settings, counters))
            }
            OriginScheme::Files(tree) => Kind::Files(Files::new(tree.clone())),
        };
        let accel = Accel::new(&settings.send_files);
        Rc::new(Origin { settings, counters, kind, accel, printed: Cell::new(None) })
    }

    /// The settings this origin was made with.
    pub fn settings(&self) -> &Arc<OriginSettings> {
        &self.settings
    }

    #[cfg(test)]
    fn pool(&self) -> &Pool<Connection> {
        match &self.kind {
            Kind::Http(pool) => pool,
            Kind::FastCgi(_) | Kind::Files(_) => panic!("no HTTP origin"),
        }
    }

    /// Sends one request and waits for the head of the final response (or of a 101). Interim
    /// responses are handed to `interim` as they come.
    ///
    /// It is sent a second time, once and over a new connection, only when a *pooled* connection
    /// (or one to an application that Larder runs) turned out dead before any byte of an answer,
    /// and only when the request is safe and has no body (RFC 9110 section 9.2.2), or when nothing
    /// of it had been written. Dropping the future closes the connection.
    pub async fn send(
        self: &Rc<Self>,
        req: Request,
        interim: Option<Interim>,
    ) -> Result<Response, OriginError> {
        let total = after(self.settings.total_timeout);
        self.try_send(req, interim, total).await.map_err(|unsent| unsent.error)
    }

    /// The same until `total`; an error says whether the request may be sent to another server as
    /// it is.
    async fn try_send(
        &self,
        req: Request,
        interim: Option<Interim>,
        total: Option<Instant>,
    ) -> Result<Response, SendError> {
        let counters = &self.counters;
        count(&counters.requests);
        let begun = instant();
        let _asking = self.settings.app.as_ref().map(AppUse::begin);
        let accel = self.accel.as_ref().map(|accel| (accel, Accel::wanted(&req)));
        let sent = match &self.kind {
            Kind::Http(pool) => pin!(pool.send(req, interim, total)).await,
            Kind::FastCgi(application) => pin!(application.send(req, total)).await,
            Kind::Files(files) => files.send(&req).map_err(SendError::from),
        };
        let sent = match (sent, accel) {
            (Ok(response), Some((accel, wanted))) => {
                accel.follow(response, &wanted).map_err(SendError::from)
            }
            (sent, _) => sent,
        };
        match &sent {
            Ok(_) => counters.ttfb.record((instant() - begun).as_micros() as u64),
            Err(SendError { error, .. }) => {
                counters.count_failure(error);
                self.print(error);
            }
        }
        sent
    }

    /// Prints a failure of this machine: whoever runs it has to see to it.
    fn print(&self, error: &OriginError) {
        if matches!(error, OriginError::Local(_)) && due(&self.printed) {
            eprintln!("larder: {}: {error}", self.settings.name());
        }
    }
}

/// Whether a line may be printed again; notes that it is.
fn due(printed: &Cell<Option<Instant>>) -> bool {
    let now = instant();
    let due = printed.get().is_none_or(|last| now >= last + PRINT_INTERVAL);
    if due {
        printed.set(Some(now));
    }
    due
}

/// A request that failed.
#[derive(Debug)]
struct SendError {
    error: OriginError,
    /// The request's body, where nothing of the request was sent.
    body: Option<RequestBody>,
}

impl From<OriginError> for SendError {
    fn from(error: OriginError) -> Self {
        SendError { error, body: None }
    }
}

impl SendError {
    fn unsent(error: OriginError, body: RequestBody) -> Self {
        SendError { error, body: Some(body) }
    }
}

impl Pool<Connection> {
    async fn send(
        self: &Rc<Self>,
        req: Request,
        interim: Option<Interim>,
        total: Option<Instant>,
    ) -> Result<Response, SendError> {
        let asker = req.asker.clone();
        let (outgoing, body) = Outgoing::new(req, &self.settings)?;
        let repeatable = outgoing.asked.method.is_safe() && body.is_empty();
        let mut lease = match self.lease(&asker, total).await {
            Ok(lease) => lease,
            Err(error) => return Err(SendError::unsent(error, body)),
        };
        if lease.reused {
            count(&self.counters.reused);
        }
        // A process that Larder runs may end at any time, and another one is there.
        let mortal = lease.reused || self.settings.app.is_some();
        let (progress, mut interims) = (Progress::new(), Interims::new(interim));
        let upload = Upload::new(body, progress.clone());
        let request = Sending::new(outgoing.head(), &outgoing.headers, upload);
        let sent = pin!(exchange(&mut lease, request, &mut interims, &progress, total)).await;
        let head = match sent {
            Ok(head) => head,
            Err(failure) => {
                let request = lease.connection().map(Connection::take_back).unwrap_or_default();
                let Failure { error, unsent, connection_was_dead } = failure;
                if !(mortal && (unsent || (connection_was_dead && repeatable))) {
                    return Err(SendError { error, body: unsent.then(|| request.into_body()) });
                }
                count(&self.counters.retried);
                if let Err(error) = lease.renew(total).await {
                    return Err(SendError::unsent(error, request.into_body()));
                }
                let again = exchange(&mut lease, request, &mut interims, &progress, total);
                match Box::pin(again).await {
                    Ok(head) => head,
                    Err(Failure { error, unsent, .. }) => {
                        let request = lease.connection().map(Connection::take_back);
                        let body = request.filter(|_| unsent).map(Sending::into_body);
                        return Err(SendError { error, body });
                    }
                }
            }
        };
        Ok(respond(&outgoing.asked, lease, head, &interims, progress, total)?)
    }
}
