//! A client's connection: reading, sending, and the deadline that ends it.
//!
//! Deadlines cost nothing per request: each connection notes when its patience ends ([`Watch`]),
//! and one sweep per worker and quarter second wakes those whose time has come. No timer is
//! registered and none is cancelled.

use std::{
    cell::Cell,
    future::poll_fn,
    io::{self, IoSlice},
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};

pub(crate) use super::watch::Watch;
use super::{
    out::Out,
    stream::{Stream, TURN},
    turns::LARGE,
};
use crate::clock::{Clock, Ms};

/// How a wait on a connection ended when it did not end well.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The client closed, in order or not.
    Closed,
    /// Its deadline passed.
    TimedOut,
    /// The server is stopping and the connection was idle.
    Drained,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Ended::Closed
    }
}

/// Bytes a client has to take, or to send of a command of an object face, within its patience to be
/// given more of it: a byte a minute is no progress.
pub(crate) const PROGRESS: u64 = 16 * 1024;

/// Milliseconds without progress after which a client counts as stalled: what it holds of the store
/// is counted then.
pub(crate) const STALLED_AFTER: Ms = 2000;

/// How one of several answers on a connection gets on.
#[derive(Default)]
pub(crate) struct Progress {
    /// Bytes taken since `since`, below [`PROGRESS`].
    taken: Cell<u64>,
    /// The first look that found it waiting; 0: none since it got on.
    since: Cell<Ms>,
}

impl Progress {
    /// The client has taken so many bytes of it. `all`: nothing of it waits any more.
    #[inline]
    pub(crate) fn took(&self, bytes: u64, all: bool) {
        let taken = self.taken.get() + bytes;
        if all || taken >= PROGRESS {
            self.taken.set(0);
            self.since.set(0);
        } else {
            self.taken.set(taken);
        }
    }

    /// Milliseconds for which looks have found it waiting without progress. `waits`: some of it
    /// waits for the client.
    pub(crate) fn stands(&self, waits: bool, now: Ms) -> Ms {
        if !waits {
            return 0;
        }
        if self.since.get() == 0 {
            self.taken.set(0);
            self.since.set(now);
        }
        now.saturating_sub(self.since.get())
    }
}

/// Bytes left when the present deadline was set, and that deadline. None: nothing was waited for
/// yet.
pub(crate) type Mark = Option<(u64, Ms)>;

/// How long a client may take over what it is sent.
pub(crate) struct Pace<'p> {
    clock: Clock,
    /// Milliseconds for [`PROGRESS`] bytes, or for all that is left.
    patience: Ms,
    /// Taken along by who goes on later ([`Pace::resume`]).
    pub(crate) mark: Mark,
    stalled: &'p Stalled,
}

impl<'p> Pace<'p> {
    pub(crate) fn new(clock: Clock, patience: Ms, stalled: &'p Stalled) -> Self {
        Self::resume(clock, patience, stalled, None)
    }

    /// Goes on with a wait that was left.
    pub(crate) fn resume(clock: Clock, patience: Ms, stalled: &'p Stalled, mark: Mark) -> Self {
        Self { clock, patience, mark, stalled }
    }

    fn deadline(&mut self, unsent: u64) -> Ms {
        if let Some((then, deadline)) = self.mark
            && then.saturating_sub(unsent) < PROGRESS
        {
            return deadline;
        }
        let deadline = self.clock.now() + self.patience;
        self.mark = Some((unsent, deadline));
        deadline
    }
}

/// Bytes of the store held by clients that do not read, over all workers. Held bytes cannot be
/// evicted; at the limit (half of the memory) the next client that stalls is dropped, so that there
/// is always room for new pages.
pub(crate) struct Stalled {
    held: AtomicU64,
    limit: u64,
}

impl Stalled {
    pub(crate) fn new(limit: u64) -> Self {
        Self { held: AtomicU64::new(0), limit }
    }

    /// Counts bytes as held, until they are given back. False: they are too many, and not counted.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.hold(bytes).map(std::mem::forget).is_some()
    }

    /// Bytes that [`Stalled::take`] counted are not held any more.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn hold(&self, bytes: u64) -> Option<Hold<'_>> {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let hold = Hold(self, bytes);
        (bytes == 0 || before + bytes <= self.limit).then_some(hold)
    }
}

struct Hold<'s>(&'s Stalled, u64);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// A connection with its deadline.
pub(crate) struct Socket {
    pub(crate) stream: Stream,
    pub(crate) watch: Rc<Watch>,
}

/// The most a connection's receive buffer grows by in one step.
const READ_STEP: usize = 8192;

impl Socket {
    /// Forgets the tasks that waited for it.
    pub(crate) fn forget_wakers(&self) {
        self.stream.forget_wakers();
        self.watch.forget_waker();
    }

    /// Appends what can be read to `buf`; 0 is the end.
    pub(crate) async fn read(&self, buf: &mut Vec<u8>) -> Result<usize, Ended> {
        poll_fn(|cx| self.watch.guard(cx, |cx| poll_read_vec(&self.stream, cx, buf))).await
    }

    /// Ends when the client has closed its side while nothing more was expected of it. A client
    /// that closes only its sending side and goes on reading cannot be told from one that left, and
    /// is taken for one (as nginx does).
    pub(crate) async fn gone(&self) {
        let mut more = false;
        let gone = |cx: &mut Context<'_>| {
            if self.watch.leaves() {
                return Poll::Ready(());
            }
            if !more {
                match self.stream.poll_peek(cx) {
                    Poll::Ready(Ok(false) | Err(_)) => return Poll::Ready(()),
                    // The next request is there already: nothing can be learnt behind it.
                    Poll::Ready(Ok(true)) => more = true,
                    Poll::Pending => {}
                }
            }
            let _ = self.watch.wait::<()>(cx);
            Poll::Pending
        };
        poll_fn(gone).await;
    }

    /// The same while something else sends on this connection.
    pub(crate) async fn read_shared(&self, buf: &mut Vec<u8>) -> Result<usize, Ended> {
        buf.reserve(READ_STEP);
        poll_fn(|cx| self.watch.guard(cx, |cx| self.stream.poll_read_buf(cx, buf))).await
    }

    /// Sends all of `out`. Returns how many bytes that were.
    pub(crate) async fn flush(&self, out: &mut Out, pace: &mut Pace<'_>) -> Result<u64, Ended> {
        let total = out.pending();
        self.begin_turn(total).await;
        while let Err(error) = out.send(&mut &self.stream) {
            self.ready_after(error, out.pending(), &|| out.pinned(), pace, false).await?;
        }
        Ok(total)
    }

    /// Sends what TLS itself has to say, such as the rest of a handshake's flight, until
    /// `deadline`.
    pub(crate) async fn flush_tls(&self, deadline: Ms) -> Result<(), Ended> {
        while let Err(error) = self.stream.try_flush_tls() {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error.into());
            }
            self.ready(deadline, false).await?;
        }
        Ok(())
    }

    /// Sends all of `out` (composed bytes only) and `more` behind it. `pinned`: bytes of the store
    /// held meanwhile, asked for when the client has stalled (a fill that is followed grows).
    pub(crate) async fn send_with(
        &self,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
        pace: &mut Pace<'_>,
    ) -> Result<u64, Ended> {
        let scratch = std::mem::take(out.scratch());
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(1 + more.len());
        slices.push(IoSlice::new(&scratch));
        slices.extend_from_slice(more);
        let total = slices.iter().map(|slice| slice.len() as u64).sum();
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        self.begin_turn(total).await;
        let mut taken = 0;
        while !left.is_empty() {
            if taken >= TURN {
                self.stream.turns().next().await;
                taken = 0;
            }
            let sent = match left[0].get(..TURN as usize) {
                Some(part) => self.stream.try_write(part),
                None => self.stream.try_send(left),
            };
            match sent {
                Ok(sent) => {
                    IoSlice::advance_slices(&mut left, sent);
                    taken += sent as u64;
                }
                Err(error) => {
                    let unsent = left.iter().map(|slice| slice.len() as u64).sum();
                    self.ready_after(error, unsent, pinned, pace, false).await?;
                }
            }
        }
        *out.scratch() = scratch;
        out.clear();
        Ok(total)
    }

    /// Waits until more can be sent (or, where `reads`, something be received), if that is what
    /// `error` says. `unsent`: any number that falls by what the client takes.
    pub(crate) async fn ready_after(
        &self,
        error: io::Error,
        unsent: u64,
        pinned: &dyn Fn() -> u64,
        pace: &mut Pace<'_>,
        reads: bool,
    ) -> Result<(), Ended> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => {
                let deadline = pace.deadline(unsent);
                let soon = pace.clock.now() + STALLED_AFTER;
                if deadline <= soon {
                    return self.ready(deadline, reads).await;
                }
                match self.ready(soon, reads).await {
                    Err(Ended::TimedOut) => self.watch.forgive(),
                    other => return other,
                }
                let _held = pace.stalled.hold(pinned()).ok_or(Ended::TimedOut)?;
                self.ready(deadline, reads).await
            }
            _ => Err(error.into()),
        }
    }

    async fn ready(&self, deadline: Ms, reads: bool) -> Result<(), Ended> {
        let _owes = self.watch.awaits_client();
        self.watch.until(deadline);
        let poll = |cx: &mut Context<'_>| match self.stream.poll_write_ready(cx) {
            Poll::Pending if reads => self.stream.poll_read_ready(cx),
            polled => polled,
        };
        let mut waited = false;
        let turns = self.stream.turns();
        let ready = poll_fn(|cx| {
            let polled = self.watch.guard(cx, |cx| poll(cx).map(Ok));
            waited |= polled.is_pending();
            polled
        });
        let ready = ready.await;
        self.watch.until(0);
        if !waited {
            // The socket takes more: the client's turn is over.
            turns.next().await;
        } else if ready.is_ok() {
            // Many clients may take more at once.
            turns.begin().await;
        }
        ready
    }

    /// Waits for a turn in which so many bytes can be sent.
    pub(crate) async fn begin_turn(&self, bytes: u64) {
        if bytes >= LARGE {
            self.stream.turns().begin().await;
        }
    }

    /// The end of the connection is not to be taken for the end of the body: it is reset.
    pub(crate) fn reset(&self) {
        self.stream.reset_on_close();
    }

    /// Ends the sending side, so that the peer reads what was sent before the end.
    pub(crate) fn finish(&self) {
        let _ = self.stream.finish();
    }
}

/// Reads once, with room for a step at least.
pub(crate) fn poll_read_vec(
    stream: &Stream,
    cx: &mut Context<'_>,
    buf: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    if buf.capacity() == buf.len() {
        buf.reserve(READ_STEP);
    }
    stream.poll_read_buf(cx, buf)
}
