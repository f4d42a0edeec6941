//! A client's connection: from its first byte to its end.
//!
//! Requests that memory answers are answered in the round of the worker ([`crate::net::slot`]). A
//! connection that has to wait (for the origin, for its client) goes to a task. An idle one has
//! neither task nor buffers. Requests of HTTP/1 are taken here, and one write sends a whole batch
//! of pipelined answers; those of HTTP/2 are taken by [`super::h2`].

use std::{io, pin::pin, rc::Rc};

use larder_proto::http::{HeadLimits, Parsed, Reject, Version, parse_request, slots};

use crate::{clock::Ms, counters::Timing, http::worker::Worker};
use crate::{
    http::{
        exchange::{Active, Exchange},
        flow::{self, Now, Waiting},
        h2::Session,
        log,
        refuse::{self, Answered},
        worker::OpenConnection,
    },
    net::{
        conns::{BUFFER, IoBuffers},
        round::Work,
        slot::{Connection, Next},
        socket::{Ended, Socket, Watch},
        stream::Stream,
        tls::TlsFailure,
        turns::LARGE,
    },
    request::{Detached, Peer, Request, pages::Config},
    wire::Wire,
};

/// Field lines of a request head at the most, whatever the settings say.
pub(super) const SLOTS: usize = 256;
/// Collected answers are sent when they reach this many bytes, even if more requests wait in the
/// buffer.
const BATCH: u64 = 32 * 1024;
/// Room that a full receive buffer grows by, at least.
const READ_STEP: usize = 8192;
/// After the last answer: bytes of what the client still sends that are read, and milliseconds that
/// they are waited for, so that the answer is not lost to a reset.
const LINGER: (usize, Ms) = (256 * 1024, 2000);

/// One client's connection.
pub(crate) struct Conn {
    pub(super) worker: Rc<Worker>,
    pub(super) socket: Socket,
    pub(super) peer: Peer,
    /// A header of the PROXY protocol is still to come.
    pub(super) proxied: bool,
    /// The first bytes may say that the client speaks HTTP/2.
    pub(super) may_be_h2: bool,
    /// `None` while idle.
    pub(super) buffers: Option<Box<IoBuffers>>,
    /// None: HTTP/1.
    pub(super) h2: Option<Box<Session>>,
    /// Counts it among the open ones.
    _open: OpenConnection,
}

/// Work of a task before the connection is idle again. `timing`: of answers that are composed and
/// not sent yet.
pub(crate) enum Todo {
    /// Send the answers. `more`: others can be composed then.
    Flush { timing: Timing, more: bool },
    /// Send the answers, and see this request of HTTP/1 through.
    Later { request: Box<Detached>, waiting: Box<Waiting>, timing: Timing },
    /// Send the answers, and close.
    Close(Timing),
}

/// Result of a look at the buffer.
enum Turn {
    /// A request was answered; look again.
    Again,
    /// The next request is not whole yet.
    NeedMore,
    /// This request has to wait.
    Later(Box<Detached>, Box<Waiting>),
    /// Send the collected answers and close.
    Close,
}

/// Ends our side and reads what the client still sends, within limits.
pub(super) async fn linger(worker: &Worker, socket: &Socket, scrap: &mut Vec<u8>) {
    socket.finish();
    socket.watch.forgive();
    socket.watch.until(worker.pages.clock.now() + LINGER.1);
    let mut left = LINGER.0;
    while left > 0 {
        scrap.clear();
        match socket.read(scrap).await {
            Ok(n) if n > 0 => left = left.saturating_sub(n),
            _ => break,
        }
    }
}

impl Connection for Conn {
    type Todo = Todo;

    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn receive(&mut self) -> Next<Todo> {
        if self.proxied
            && let Err(next) = self.take_proxy_header()
        {
            return next;
        }
        let buffers = self.buffers.get_or_insert_with(|| self.worker.conns.take_buffers());
        if buffers.buf.capacity() == buffers.buf.len() {
            buffers.buf.reserve(READ_STEP);
        }
        let received = self.socket.stream.try_read_buf(&mut buffers.buf);
        if self.peer.tls
            && let Some(next) = self.look_at_tls(&received)
        {
            return next;
        }
        match received {
            Ok(received @ 1..) => {
                self.worker.pages.counters.bytes_in.add(received as u64);
                if self.may_be_h2 { self.look_for_h2() } else { Next::Answer }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if self.unread() == 0 && self.pending() == 0 {
                    self.give_buffers();
                }
                if self.peer.tls && !self.counts() {
                    return Next::Close;
                }
                if self.socket.stream.has_unsent_tls() {
                    return Next::Task(Todo::Flush { timing: Timing::default(), more: false });
                }
                // The settings of HTTP/2 are sent without a request.
                if self.pending() > 0 { Next::Answer } else { Next::Rest }
            }
            Ok(0) | Err(_) => Next::Close,
        }
    }

    fn answer(&mut self, began: u64) -> (Work, Next<Todo>) {
        if self.h2.is_some() { self.answer_h2(began) } else { self.answer_h1(began) }
    }

    fn attend(&mut self) -> Next<Todo> {
        if self.h2.is_some() { self.attend_h2() } else { Next::Rest }
    }

    fn pass(&mut self) -> bool {
        self.worker.conns.passing.is_on() && self.pass_on()
    }

    fn ended(&mut self, ended: Ended) -> Next<Todo> {
        if let Ended::Closed = ended {
            self.socket.reset();
            return Next::Close;
        }
        if self.h2.is_some() {
            return self.ended_h2(&ended);
        }
        self.socket.watch.forgive();
        if self.socket.stream.is_handshaking() {
            self.worker.pages.counters.tls_failures.one(TlsFailure::Timeout);
            return Next::Close;
        }
        if self.unread() == 0 {
            // A request may have arrived meanwhile: closing would reset it.
            return match self.receive() {
                Next::Rest => Next::Close,
                next => next,
            };
        }
        // A client that has begun a request is told that it took too long.
        self.worker.pages.counters.timeouts.header.one();
        self.refuse(408, "the request head took too long");
        Next::Task(Todo::Close(Timing::default()))
    }

    async fn proceed(mut self: Box<Self>, todo: Todo) -> Option<(Box<Self>, Next<Todo>)> {
        let next = pin!(self.run(todo)).await.ok()?;
        Some((self, next))
    }
}

impl Conn {
    /// A connection that nothing was received on.
    pub(crate) fn new(
        worker: Rc<Worker>,
        stream: Stream,
        watch: Rc<Watch>,
        peer: Peer,
        open: OpenConnection,
    ) -> Box<Self> {
        let (config, now) = (worker.pages.config(), worker.pages.clock.now());
        let http = &config.settings.http;
        let (limits, proxied) = (&http.limits, http.announces(peer.address.ip()));
        if peer.tls || proxied {
            watch.wait_head(now + limits.header_timeout.as_millis() as Ms);
        } else {
            watch.wait_idle(now + limits.idle_timeout.as_millis() as Ms);
        }
        Box::new(Self {
            worker,
            socket: Socket { stream, watch },
            may_be_h2: http.h2c && !peer.tls,
            peer,
            proxied,
            buffers: None,
            h2: None,
            _open: open,
        })
    }

    /// Does what a round could not, and sends all answers.
    async fn run(&mut self, todo: Todo) -> Result<Next<Todo>, Ended> {
        self.socket.watch.forgive();
        match todo {
            Todo::Flush { timing, more } if self.h2.is_some() => self.flush_h2(timing, more).await,
            Todo::Flush { mut timing, .. } => {
                let now = self.flush(&mut timing).await?;
                Ok(self.rest_or_answer(now))
            }
            Todo::Later { request, waiting, mut timing } => {
                self.flush(&mut timing).await?;
                let goes_on = pin!(self.later(*request, *waiting, &mut timing)).await?;
                if !goes_on {
                    return self.close(timing).await;
                }
                let now = self.flush(&mut timing).await?;
                Ok(self.rest_or_answer(now))
            }
            Todo::Close(timing) => self.close(timing).await,
        }
    }

    /// Sends the collected answers and closes the connection in order.
    async fn close(&mut self, mut timing: Timing) -> Result<Next<Todo>, Ended> {
        self.flush(&mut timing).await?;
        let buffers = self.buffers.get_or_insert_with(|| self.worker.conns.take_buffers());
        // The rest of a request that is not taken is read away through a short buffer.
        buffers.at = 0;
        buffers.buf.clear();
        buffers.buf.shrink_to(BUFFER);
        self.socket.watch.receives(&self.worker.pages.shared.room, 0);
        Box::pin(linger(&self.worker, &self.socket, &mut buffers.buf)).await;
        Err(Ended::Closed)
    }

    fn rest_or_answer(&mut self, now: Ms) -> Next<Todo> {
        let config = self.worker.pages.config();
        if self.unread() > 0 { Next::Answer } else { self.rest(&config, now) }
    }

    /// Answers the requests in the buffer without waiting.
    fn answer_h1(&mut self, began: u64) -> (Work, Next<Todo>) {
        let config = self.worker.pages.config();
        let pipeline = config.settings.http.limits.pipeline;
        let mut timing = self.worker.timing.take();
        let mut work = Work { bytes: self.unread() as u64, ..Work::default() };
        let next = loop {
            let turn = self.turn(&config, began, &mut timing);
            if !matches!(turn, Turn::NeedMore) {
                // The deadline of this request's head, even if it passed meanwhile.
                self.socket.watch.forgive();
            }
            work.commands += 1;
            let pending = self.pending();
            match turn {
                Turn::Again if pending < BATCH && work.commands < pipeline => continue,
                Turn::Again | Turn::NeedMore => match self.send_in_round(&mut work) {
                    Ok(()) => {
                        let now = self.settle(&config, &mut timing);
                        let again = matches!(turn, Turn::Again);
                        if again && self.unread() > 0 {
                            // Others have their turn first.
                            break Next::Answer;
                        }
                        break self.rest(&config, now);
                    }
                    Err(Ended::TimedOut) => {}
                    // The timings are dropped: nothing was sent.
                    Err(_) => return (work, Next::Close),
                },
                Turn::Later(..) | Turn::Close => {}
            }
            let todo = match turn {
                Turn::Again => Todo::Flush { timing, more: true },
                Turn::NeedMore => Todo::Flush { timing, more: false },
                Turn::Later(request, waiting) => Todo::Later { request, waiting, timing },
                Turn::Close => Todo::Close(timing),
            };
            return (work, Next::Task(todo));
        };
        self.worker.timing.set(timing);
        (work, next)
    }

    /// Sees a request through that has to wait.
    async fn later(
        &mut self,
        request: Detached,
        waiting: Waiting,
        timing: &mut Timing,
    ) -> Result<bool, Ended> {
        let Self { worker, socket, buffers, .. } = self;
        let buffers = buffers.get_or_insert_with(|| worker.conns.take_buffers());
        let IoBuffers { buf, at, out } = &mut **buffers;
        let waited = async |request: Request<'_, '_>| {
            let exchange = Exchange::new(request, worker);
            let mut active = Active::h1(socket, buf, at, out);
            let ended = pin!(flow::later(&mut active, &exchange, waiting)).await;
            log::abandoned(&exchange);
            if ended.is_ok() {
                timing.push(exchange.request.timed());
            }
            ended
        };
        pin!(request.with(&worker.pages, waited)).await
    }

    /// Takes the next request from the buffer, if it is whole.
    fn turn(&mut self, config: &Rc<Config>, since: u64, timing: &mut Timing) -> Turn {
        let Some(buffers) = self.buffers.as_mut().filter(|buffers| buffers.at < buffers.buf.len())
        else {
            return Turn::NeedMore;
        };
        let mut slots = slots::<SLOTS>();
        let unread = &buffers.buf[buffers.at..];
        match parse_request(unread, &mut slots, &head_limits(config)) {
            Ok(Parsed::Partial) => Turn::NeedMore,
            Ok(Parsed::Complete(head)) => {
                let (worker, raw) = (&self.worker, &unread[..head.len]);
                let request =
                    Request::new(&worker.pages, config, self.peer.clone(), &head, raw, since);
                let exchange = Exchange::new(request, worker);
                match flow::now(&exchange, &mut buffers.out) {
                    Now::Answered { keep } => {
                        timing.push(exchange.request.timed());
                        buffers.at += head.len;
                        if keep { Turn::Again } else { Turn::Close }
                    }
                    Now::Later(waiting) => {
                        let request = Box::new(exchange.request.detach());
                        buffers.at += head.len;
                        Turn::Later(request, waiting)
                    }
                }
            }
            Err(reject) => {
                self.reject(reject);
                Turn::Close
            }
        }
    }

    /// Answers a request that cannot be understood. The start of the next one is unknown: the
    /// connection ends.
    fn reject(&mut self, reject: Reject) {
        self.worker.pages.counters.reject(reject.reason);
        self.refuse(reject.status, reject.reason.as_str());
    }

    /// Composes and logs the answer to a request that was not read.
    pub(super) fn refuse(&mut self, status: u16, why: &'static str) {
        let buffers = self.buffers.get_or_insert_with(|| self.worker.conns.take_buffers());
        let before = buffers.out.pending();
        refuse::compose(
            buffers.out.scratch(),
            self.worker.pages.clock.now(),
            status,
            why,
            Answered::UNREAD,
        );
        log::unread(&self.worker, self.peer.address, status, buffers.out.pending() - before);
    }

    /// Received bytes that are not used up.
    pub(super) fn unread(&self) -> usize {
        self.buffers.as_ref().map_or(0, |buffers| buffers.buf.len() - buffers.at)
    }

    /// Composed bytes that are not sent.
    pub(super) fn pending(&self) -> u64 {
        self.buffers.as_ref().map_or(0, |buffers| buffers.out.pending())
    }

    /// Sends the collected answers without waiting. [`Ended::TimedOut`]: the client does not take
    /// all of them now.
    pub(super) fn send_now(&mut self) -> Result<(), Ended> {
        let Some(buffers) = self.buffers.as_mut() else { return Ok(()) };
        let pending = buffers.out.pending();
        if pending == 0 {
            return Ok(());
        }
        let result = buffers.out.send(&mut &self.socket.stream);
        self.worker.pages.counters.bytes_out.add(pending - buffers.out.pending());
        result.map_err(|error| if is_later(&error) { Ended::TimedOut } else { Ended::Closed })
    }

    /// The same in a round, to whose work the bytes are added. Where others wait to send much, so
    /// does this connection, in a task.
    pub(super) fn send_in_round(&mut self, work: &mut Work) -> Result<(), Ended> {
        let pending = self.pending();
        if pending >= LARGE && self.socket.stream.turns().is_over() {
            return Err(Ended::TimedOut);
        }
        let sent = self.send_now();
        work.bytes += pending - self.pending();
        sent
    }

    /// Sends the collected answers. Returns the time, in milliseconds.
    async fn flush(&mut self, timing: &mut Timing) -> Result<Ms, Ended> {
        let config = self.worker.pages.config();
        if let Some(buffers) = self.buffers.as_mut().filter(|buffers| !buffers.out.is_empty()) {
            let patience = config.settings.http.limits.send_timeout.as_millis() as Ms;
            // The client takes its time: what it is sent is its memory.
            let held = buffers.buf.capacity() + buffers.out.composed() as usize;
            if !self.socket.watch.receives(&self.worker.pages.shared.room, held) {
                return Err(Ended::Closed);
            }
            self.worker.send(Wire::H1(&self.socket), &mut buffers.out, patience).await?;
        }
        if self.socket.stream.has_unsent_tls() {
            let patience = config.settings.http.limits.send_timeout.as_millis() as Ms;
            self.socket.flush_tls(self.worker.pages.clock.now() + patience).await?;
        }
        Ok(self.settle(&config, timing))
    }

    /// Records how long the sent answers took. Returns the time, in milliseconds.
    pub(super) fn settle(&self, config: &Config, timing: &mut Timing) -> Ms {
        let micros = self.worker.pages.clock.micros();
        let version = if self.h2.is_some() { Version::Http2 } else { Version::Http11 };
        timing.settle(&config.counted, self.worker.pages.counters.times(version), micros);
        self.worker.pages.clock.at(micros)
    }

    /// All answers are sent: waits for more bytes.
    pub(super) fn rest(&mut self, config: &Config, now: Ms) -> Next<Todo> {
        let limits = &config.settings.http.limits;
        let watch = &self.socket.watch;
        match &mut self.buffers {
            Some(buffers) if buffers.at < buffers.buf.len() => {
                buffers.buf.drain(..buffers.at);
                buffers.at = 0;
                watch.wait_head(now + limits.header_timeout.as_millis() as Ms);
                if !watch.receives(&self.worker.pages.shared.room, buffers.buf.capacity()) {
                    return self.crowded();
                }
            }
            _ => {
                watch.wait_idle(now + limits.idle_timeout.as_millis() as Ms);
                watch.receives(&self.worker.pages.shared.room, 0);
                self.give_buffers();
            }
        }
        Next::Rest
    }

    /// There is no room for the rest of a request head.
    fn crowded(&mut self) -> Next<Todo> {
        self.refuse(503, "too many requests are arriving");
        Next::Task(Todo::Close(Timing::default()))
    }

    pub(super) fn give_buffers(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            self.worker.conns.give_buffers(buffers);
        }
    }
}

/// A try that is to be repeated.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Drop for Conn {
    fn drop(&mut self) {
        if let Some(session) = &mut self.h2 {
            session.release(&self.worker);
        }
        self.give_buffers();
    }
}

pub(super) fn head_limits(config: &Config) -> HeadLimits {
    let limits = &config.settings.http.limits;
    HeadLimits {
        head_bytes: limits.head_bytes,
        request_line: limits.request_line,
        fields: limits.fields,
    }
}
