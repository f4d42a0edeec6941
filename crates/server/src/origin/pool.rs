//! Connections to one origin: how many, who waits for one, and which are kept.
//!
//! A permit is the right to have a connection *in use*; idle ones hold none. Connections are
//! opened only when no idle one is left, so in use and idle together never exceed the limit.
//! Tunnels (101) hold no permit either: a few hundred silent WebSockets would keep all other
//! requests waiting; each has a client's connection, and those are limited. Requests that find
//! no permit wait in a queue of limited length ([`Queue`]), in order; so do requests of a client
//! that has its share of them ([`Shares`]). Idle connections are used
//! last in, first out, so that the surplus ages and is closed. The limits are per worker thread
//! (each worker has its own pool, without a lock); tunnels aside, the whole process opens at
//! most workers times `max_connections`.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::Arc,
};

use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Asker, OriginCounters, OriginError, Others,
    connect::{after, earlier, within},
    counters::{Held, count},
    queue::{Queue, Shares},
    tls::Tls,
};
use crate::{
    clock::instant,
    settings::{OriginScheme, OriginSettings},
};

/// A connection that carries one request at a time, and may carry further ones.
pub(super) trait Pooled: Sized + 'static {
    /// Opens one; `tls` secures it where the origin is an https one.
    async fn open(
        settings: &OriginSettings,
        tls: Option<&Tls>,
        counters: &Arc<OriginCounters>,
        deadline: Option<Instant>,
    ) -> Result<Self, OriginError>;

    /// Whether an idle one may carry a request: it is open, and nothing came that nobody asked for
    /// (an answer taken for the wrong request would be a poisoned page).
    fn is_quiet(&self) -> bool;

    /// Whether it is known to be of no further use.
    fn is_closed(&self) -> bool;

    /// The answer is complete; `over`: nothing of it can follow.
    fn answered(&mut self, over: bool);

    /// Whether the last request is written.
    fn is_ready(&self) -> bool;

    /// Waits until the last request is written; false: it never will be.
    async fn ready(&mut self) -> bool;
}

/// The connections of one worker to one origin.
#[derive(Debug)]
pub(super) struct Pool<C> {
    pub(super) settings: Arc<OriginSettings>,
    pub(super) counters: Arc<OriginCounters>,
    /// Made for the first connection; None: the origin is no https one.
    tls: OnceCell<std::io::Result<Option<Tls>>>,
    permits: Arc<Semaphore>,
    queue: Queue,
    shares: Shares,
    idle: RefCell<VecDeque<Idle<C>>>,
    reaping: Cell<bool>,
}

#[derive(Debug)]
struct Idle<C> {
    connection: C,
    /// When it is closed if nobody wants it; None is never.
    until: Option<Instant>,
    _counted: Held,
}

impl<C: Pooled> Pool<C> {
    pub(super) fn new(settings: Arc<OriginSettings>, counters: Arc<OriginCounters>) -> Rc<Self> {
        let permits = settings.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        Rc::new(Pool {
            settings,
            counters,
            tls: OnceCell::new(),
            permits: Arc::new(Semaphore::new(permits)),
            queue: Queue::default(),
            shares: Shares::default(),
            idle: RefCell::default(),
            reaping: Cell::new(false),
        })
    }

    /// A connection for one exchange of this client, idle or new; waits for one when all are in
    /// use.
    pub(super) async fn lease(
        self: &Rc<Self>,
        asker: &Asker,
        total: Option<Instant>,
    ) -> Result<Lease<C>, OriginError> {
        let permit = self.permit(asker, total).await?;
        let (connection, reused) = match self.take_idle() {
            Some(connection) => (connection, true),
            None => (Box::pin(self.open(total)).await?, false),
        };
        Ok(Lease {
            pool: self.clone(),
            permit: Some(permit),
            connection: Some(connection),
            reused,
            keep: true,
        })
    }

    async fn permit(&self, asker: &Asker, total: Option<Instant>) -> Result<Permit, OriginError> {
        let others = asker.others.as_deref();
        // An answer that others wait for is not only its client's.
        let client = asker.client.filter(|_| !others.is_some_and(Others::wait));
        let share = self.shares.of(client, self.settings.max_connections);
        match Permit::try_take(share.as_ref(), &self.permits) {
            Ok(permit) => return Ok(permit),
            Err(TryAcquireError::Closed) => return Err(OriginError::TooManyConnections),
            Err(TryAcquireError::NoPermits) => {}
        }
        let place = self.queue.enter(client, self.settings.max_waiting);
        let _place = place.ok_or(OriginError::TooManyConnections)?;
        count(&self.counters.waited);
        let limit = earlier(after(self.settings.max_wait), total);
        let taken = Box::pin(Permit::take(share.as_ref(), &self.permits, others));
        match within(limit, taken).await {
            Some(Ok(permit)) => Ok(permit),
            _ => Err(OriginError::TooManyConnections),
        }
    }

    async fn open(&self, total: Option<Instant>) -> Result<C, OriginError> {
        let tls = self.tls.get_or_init(|| match &self.settings.scheme {
            OriginScheme::Https(tls) => Tls::new(tls).map(Some),
            OriginScheme::Http | OriginScheme::FastCgi(_) | OriginScheme::Files(_) => Ok(None),
        });
        let tls = tls
            .as_ref()
            .map_err(|error| OriginError::Connect(std::io::Error::other(error.to_string())))?;
        let connection = C::open(&self.settings, tls.as_ref(), &self.counters, total).await?;
        count(&self.counters.opened);
        Ok(connection)
    }

    /// The youngest idle connection that still lives.
    fn take_idle(&self) -> Option<C> {
        let now = instant();
        let mut idle = self.idle.borrow_mut();
        while let Some(candidate) = idle.pop_back() {
            let young = candidate.until.is_none_or(|until| now < until);
            let connection = candidate.connection;
            // Looked at first, so that bytes nobody asked for are counted also where they were read
            // already.
            let quiet = connection.is_quiet();
            if young && quiet && connection.is_ready() && !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn put_idle(self: &Rc<Self>, connection: C) {
        if self.settings.idle_connections == 0 || connection.is_closed() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.settings.idle_connections {
            idle.pop_front();
        }
        let _counted = Held::new(&self.counters, |counters| &counters.idle);
        idle.push_back(Idle { connection, until: after(self.settings.idle_timeout), _counted });
        drop(idle);
        if !self.reaping.replace(true) {
            tokio::task::spawn_local(reap(Rc::downgrade(self)));
        }
    }

    /// Closes the idle connections: what killed one of them has most likely killed all.
    pub(super) fn forget_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    /// Closes what nobody wanted for the idle timeout (and what died meanwhile); says when to look
    /// again.
    fn prune(&self) -> Option<Instant> {
        let now = instant();
        let mut idle = self.idle.borrow_mut();
        idle.retain(|one| one.until.is_none_or(|until| now < until) && !one.connection.is_closed());
        idle.front().and_then(|oldest| oldest.until)
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    #[cfg(test)]
    pub(super) fn available(&self) -> usize {
        self.permits.available_permits()
    }
}

/// Runs while there are idle connections.
async fn reap<C: Pooled>(pool: Weak<Pool<C>>) {
    loop {
        let Some(alive) = pool.upgrade() else { return };
        let application = alive.settings.scheme.application().cloned();
        let released = application.as_ref().map(|application| application.release.asked());
        let mut released = released.map(|asked| Box::pin(asked.notified()));
        // Before it is looked at what there is, so that nothing is missed.
        if let Some(released) = &mut released {
            released.as_mut().enable();
        }
        let Some(next) = alive.prune() else { return alive.reaping.set(false) };
        drop(alive);
        match released {
            Some(released) => {
                within(Some(next), released).await;
            }
            None => sleep_until(next).await,
        }
    }
}

/// The right to use a connection, and the part of the client's share that it takes.
#[derive(Debug)]
struct Permit {
    _share: Option<OwnedSemaphorePermit>,
    _connection: OwnedSemaphorePermit,
}

impl Permit {
    fn try_take(
        share: Option<&Arc<Semaphore>>,
        connections: &Arc<Semaphore>,
    ) -> Result<Permit, TryAcquireError> {
        let _share = share.map(|share| share.clone().try_acquire_owned()).transpose()?;
        Ok(Permit { _share, _connection: connections.clone().try_acquire_owned()? })
    }

    /// The share first: a client that has used it up does not stand before others in the queue.
    /// Once others wait for the same answer, it is not needed.
    async fn take(
        share: Option<&Arc<Semaphore>>,
        connections: &Arc<Semaphore>,
        others: Option<&Others>,
    ) -> Result<Permit, AcquireError> {
        let _share = match (share, others) {
            (Some(share), None) => Some(share.clone().acquire_owned().await?),
            (Some(share), Some(others)) => tokio::select! {
                biased;
                share = share.clone().acquire_owned() => Some(share?),
                () = others.come() => None,
            },
            (None, _) => None,
        };
        Ok(Permit { _share, _connection: connections.clone().acquire_owned().await? })
    }
}

/// A connection in use. Dropped, it is closed: only [`Lease::finish`] keeps it.
#[derive(Debug)]
pub(super) struct Lease<C> {
    pool: Rc<Pool<C>>,
    permit: Option<Permit>,
    connection: Option<C>,
    /// It has served another request before.
    pub(super) reused: bool,
    /// It may serve another one after this.
    pub(super) keep: bool,
}

impl<C: Pooled> Lease<C> {
    pub(super) fn pool(&self) -> &Pool<C> {
        &self.pool
    }

    pub(super) fn connection(&mut self) -> Option<&mut C> {
        self.connection.as_mut()
    }

    /// Replaces a dead connection by a new one. The idle ones go too: what killed this one (an
    /// origin started anew) has most likely killed them, and the limit counts them.
    pub(super) async fn renew(&mut self, total: Option<Instant>) -> Result<(), OriginError> {
        self.connection = None;
        self.pool.forget_idle();
        self.connection = Some(Box::pin(self.pool.open(total)).await?);
        self.reused = false;
        Ok(())
    }

    /// The exchange is complete: the connection may serve the next one. When the origin answered
    /// before it had the whole request, the rest of the request is still being sent; that may go on
    /// for the between-bytes timeout.
    pub(super) fn finish(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.answered(self.keep);
        if !self.keep {
            return;
        }
        if connection.is_ready() || connection.is_closed() {
            return self.pool.put_idle(connection);
        }
        let (pool, permit) = (self.pool.clone(), self.permit.take());
        tokio::task::spawn_local(async move {
            let ready = timeout(pool.settings.between_bytes_timeout, connection.ready()).await;
            if matches!(ready, Ok(true)) {
                pool.put_idle(connection);
            }
            drop(permit);
        });
    }

    /// Takes the connection out of the pool: its place is free again.
    pub(super) fn into_connection(mut self) -> Option<C> {
        self.connection.take()
    }
}
