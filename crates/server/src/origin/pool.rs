//! Connections to one origin: how many, who waits for one, and which are kept.
//!
//! A permit is the right to have a connection *in use*; idle ones hold none. Connections are opened
//! only when no idle one is left, so in use and idle together never exceed the limit. Tunnels (101)
//! hold no permit either: a few hundred silent WebSockets would keep all other requests waiting;
//! each has a client's connection, and those are limited. Requests that find no permit wait in a
//! queue of limited length, in order. Idle connections are used last in, first out, so that the
//! surplus ages and is closed. The limits are per worker thread (each worker has its own pool,
//! without a lock); tunnels aside, the whole process opens at most workers times `max_connections`.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::Arc,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError},
    time::{Instant, sleep_until, timeout},
};

use super::{
    OriginCounters, OriginError,
    connect::{Connection, after, earlier, within},
    counters::{Held, count},
    tls::Tls,
};
use crate::{
    clock::instant,
    settings::{OriginScheme, OriginSettings},
};

/// The connections of one worker to one origin.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) settings: Arc<OriginSettings>,
    pub(super) counters: Arc<OriginCounters>,
    /// Made for the first connection; None: the origin speaks plain HTTP.
    tls: OnceCell<std::io::Result<Option<Tls>>>,
    permits: Arc<Semaphore>,
    waiting: Cell<usize>,
    idle: RefCell<VecDeque<Idle>>,
    reaping: Cell<bool>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// When it is closed if nobody wants it; None is never.
    until: Option<Instant>,
    _counted: Held,
}

impl Pool {
    pub(super) fn new(settings: Arc<OriginSettings>, counters: Arc<OriginCounters>) -> Rc<Pool> {
        let permits = settings.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        Rc::new(Pool {
            settings,
            counters,
            tls: OnceCell::new(),
            permits: Arc::new(Semaphore::new(permits)),
            waiting: Cell::new(0),
            idle: RefCell::default(),
            reaping: Cell::new(false),
        })
    }

    /// A connection for one exchange, idle or new; waits for one when all are in use.
    pub(super) async fn lease(
        self: &Rc<Self>,
        total: Option<Instant>,
    ) -> Result<Lease, OriginError> {
        let permit = self.permit(total).await?;
        let (connection, reused) = match self.take_idle() {
            Some(connection) => (connection, true),
            None => (self.open(total).await?, false),
        };
        Ok(Lease {
            pool: self.clone(),
            permit: Some(permit),
            connection: Some(connection),
            reused,
            keep: true,
        })
    }

    async fn permit(&self, total: Option<Instant>) -> Result<OwnedSemaphorePermit, OriginError> {
        match self.permits.clone().try_acquire_owned() {
            Ok(permit) => return Ok(permit),
            Err(TryAcquireError::Closed) => return Err(OriginError::TooManyConnections),
            Err(TryAcquireError::NoPermits) => {}
        }
        if self.waiting.get() >= self.settings.max_waiting {
            return Err(OriginError::TooManyConnections);
        }
        count(&self.counters.waited);
        let _place = QueuePlace::take(&self.waiting);
        // Waiting here is waiting for the origin's first byte: it has no more patience than that.
        let limit = earlier(after(self.settings.first_byte_timeout), total);
        match within(limit, self.permits.clone().acquire_owned()).await {
            Some(Ok(permit)) => Ok(permit),
            _ => Err(OriginError::TooManyConnections),
        }
    }

    async fn open(&self, total: Option<Instant>) -> Result<Connection, OriginError> {
        let tls = self.tls.get_or_init(|| match &self.settings.scheme {
            OriginScheme::Http => Ok(None),
            OriginScheme::Https(tls) => Tls::new(tls).map(Some),
        });
        let tls = tls
            .as_ref()
            .map_err(|error| OriginError::Connect(std::io::Error::other(error.to_string())))?;
        let mut connection =
            Connection::open(&self.settings, tls.as_ref(), &self.counters, total).await?;
        count(&self.counters.opened);
        connection.counted = Some(Held::new(&self.counters, |counters| &counters.open));
        Ok(connection)
    }

    /// The youngest idle connection that still lives.
    fn take_idle(&self) -> Option<Connection> {
        let now = instant();
        let mut idle = self.idle.borrow_mut();
        while let Some(candidate) = idle.pop_back() {
            let young = candidate.until.is_none_or(|until| now < until);
            let sender = &candidate.connection.sender;
            // Looked at first, so that bytes nobody asked for are counted also where hyper has seen
            // them already.
            let quiet = candidate.connection.socket.is_quiet();
            if young && quiet && sender.is_ready() && !sender.is_closed() {
                return Some(candidate.connection);
            }
        }
        None
    }

    fn put_idle(self: &Rc<Self>, connection: Connection) {
        if self.settings.idle_connections == 0 || connection.sender.is_closed() {
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

    /// Closes what nobody wanted for the idle timeout (and what died meanwhile); says when to look
    /// again.
    fn prune(&self) -> Option<Instant> {
        let now = instant();
        let mut idle = self.idle.borrow_mut();
        idle.retain(|one| {
            one.until.is_none_or(|until| now < until) && !one.connection.sender.is_closed()
        });
        idle.front().and_then(|oldest| oldest.until)
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    #[cfg(test)]
    pub(super) fn available(&self) -> usize {
        self.permits.available_permits()
    }
}

/// Runs while there are idle connections.
async fn reap(pool: Weak<Pool>) {
    loop {
        let next = match pool.upgrade() {
            Some(pool) => match pool.prune() {
                Some(next) => next,
                None => return pool.reaping.set(false),
            },
            None => return,
        };
        sleep_until(next).await;
    }
}

/// A place in the queue, given back however the waiting ends.
struct QueuePlace<'a>(&'a Cell<usize>);

impl<'a> QueuePlace<'a> {
    fn take(waiting: &'a Cell<usize>) -> QueuePlace<'a> {
        waiting.set(waiting.get() + 1);
        QueuePlace(waiting)
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection in use. Dropped, it is closed: only [`Lease::finish`] keeps it.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Rc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
    connection: Option<Connection>,
    /// It has served another request before.
    pub(super) reused: bool,
    /// It may serve another one after this.
    pub(super) keep: bool,
}

impl Lease {
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Replaces a dead connection by a new one. The idle ones go too: what killed this one (an
    /// origin started anew) has most likely killed them, and the limit counts them.
    pub(super) async fn renew(&mut self, total: Option<Instant>) -> Result<(), OriginError> {
        self.connection = None;
        self.pool.idle.borrow_mut().clear();
        self.connection = Some(self.pool.open(total).await?);
        self.reused = false;
        Ok(())
    }

    /// The exchange is complete: the connection may serve the next one. When the origin answered
    /// before it had the whole request, the rest of the request is still being sent; that may go on
    /// for the between-bytes timeout.
    pub(super) fn finish(mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.socket.answered(self.keep);
        if !self.keep {
            return;
        }
        if connection.sender.is_ready() || connection.sender.is_closed() {
            return self.pool.put_idle(connection);
        }
        let (pool, permit) = (self.pool.clone(), self.permit.take());
        tokio::task::spawn_local(async move {
            let ready =
                timeout(pool.settings.between_bytes_timeout, connection.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) {
                pool.put_idle(connection);
            }
            drop(permit);
        });
    }

    /// The connection became a tunnel: it stays open until the tunnel is dropped, but its place is
    /// free again.
    pub(super) fn upgrade(mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.detach();
        }
    }
}
