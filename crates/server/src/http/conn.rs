//! A client's connection: requests in, answers out, in order.
//!
//! Whatever can be answered from memory is answered at once and collected; one write sends a whole batch of pipelined
//! answers. A request that has to wait for the origin first sends what was collected, then is seen through alone.

use std::{net::SocketAddr, rc::Rc};

use larder_proto::http::{HeadLimits, Parsed, Reject, parse_request, slots};

use crate::{clock::Ms, counters::Timing, http::worker::Worker};
use crate::{
    http::{
        exchange::Exchange,
        flow::{self, Now},
        log,
        refuse::{self, Answered},
    },
    net::{
        out::Out,
        socket::{Ended, Socket, Watch},
        stream::Stream,
    },
    request::{Request, pages::Config},
};

/// Field lines a request head may have at the most, whatever the settings say.
const SLOTS: usize = 256;
/// Collected answers are sent when they reach this many bytes, even if more requests wait in the buffer.
const BATCH: u64 = 32 * 1024;
/// After the last answer: how much of what the client still sends is read, and for how long, so that the answer is not
/// lost to a reset.
const LINGER: (usize, Ms) = (256 * 1024, 2000);

/// One client's connection.
pub(crate) struct Conn {
    pub(crate) worker: Rc<Worker>,
    pub(crate) socket: Socket,
    pub(crate) peer: SocketAddr,
    /// Received bytes; those before `at` are used up.
    pub(crate) buf: Vec<u8>,
    pub(crate) at: usize,
    pub(crate) out: Out,
    /// When the last request was taken up, if it was answered at once: saves asking the clock again. 0: not known.
    now: Ms,
    /// Answers composed whose time is to be taken once they are out.
    timing: Timing,
}

/// What to do after looking at the buffer.
enum Turn {
    /// A request was answered; look again.
    Again,
    /// The next request is not whole yet.
    NeedMore,
    /// The request with a head of so many bytes has to wait.
    Later(usize),
    /// Send what there is and close.
    Close,
}

/// Serves a connection to its end.
pub(crate) async fn serve(worker: Rc<Worker>, stream: Stream, peer: SocketAddr, watch: Rc<Watch>) {
    let socket = Socket { stream, watch };
    let mut conn = Conn {
        worker,
        socket,
        peer,
        buf: Vec::new(),
        at: 0,
        out: Out::default(),
        now: 0,
        timing: Timing::default(),
    };
    let _ = conn.run().await;
    conn.recycle();
}

/// Answers a connection that is one too many, and sees that the answer is not lost to what the client sent meanwhile.
pub(crate) async fn refuse(worker: &Rc<Worker>, stream: Stream, watch: Rc<Watch>) {
    let mut answer = Vec::new();
    refuse::compose(&mut answer, worker.pages.clock.now(), 503, "too many connections", Answered::UNREAD);
    let _ = stream.try_write(&answer);
    linger(worker, &mut Socket { stream, watch }).await;
}

/// Ends our side and reads what the client still sends, within limits.
async fn linger(worker: &Worker, socket: &mut Socket) {
    socket.finish().await;
    socket.watch.forgive();
    socket.watch.until(worker.pages.clock.now() + LINGER.1);
    let mut left = LINGER.0;
    let mut scrap = worker.conns.take_buffer();
    while left > 0 {
        scrap.clear();
        match socket.read(&mut scrap).await {
            Ok(n) if n > 0 => left = left.saturating_sub(n),
            _ => break,
        }
    }
    worker.conns.give_buffer(scrap);
}

impl Conn {
    async fn run(&mut self) -> Result<(), Ended> {
        let mut answers = 1;
        loop {
            let turn = self.turn();
            let ended = match turn {
                Turn::Again if self.out.pending() < BATCH && answers < self.pipeline() => {
                    answers += 1;
                    continue;
                }
                Turn::Again => {
                    answers = 1;
                    self.flush().await?;
                    continue;
                }
                Turn::NeedMore => {
                    answers = 1;
                    self.flush().await?;
                    self.more().await?
                }
                Turn::Later(head) => {
                    self.flush().await?;
                    // Boxed: what a wait needs is no part of a connection at rest.
                    Box::pin(self.later(head)).await?
                }
                Turn::Close => false,
            };
            if !ended {
                self.flush().await?;
                linger(&self.worker, &mut self.socket).await;
                return Ok(());
            }
        }
    }

    /// Sees a request through that has to wait. Its head is parsed again from a copy, as the buffer is needed for what
    /// follows it; that costs a fraction of a microsecond where milliseconds are spent anyway.
    async fn later(&mut self, len: usize) -> Result<bool, Ended> {
        let raw: Box<[u8]> = self.buf[self.at..self.at + len].into();
        self.at += len;
        self.now = 0;
        let (worker, config, peer) = (self.worker.clone(), self.worker.pages.config(), self.peer);
        let mut slots = slots::<SLOTS>();
        let Ok(Parsed::Complete(head)) = parse_request(&raw, &mut slots, &head_limits(&config)) else {
            return Ok(false);
        };
        let since = worker.pages.clock.micros();
        let request = Request::new(&worker.pages, &config, peer, &head, &raw, since);
        let exchange = Exchange::new(request, &worker);
        let ended = flow::later(self, &exchange).await;
        log::abandoned(&exchange);
        if let Some(timed) = exchange.request.timed().filter(|_| ended.is_ok()) {
            self.timing.push(timed);
        }
        ended
    }

    /// Takes the next request from the buffer, if it is whole.
    fn turn(&mut self) -> Turn {
        if self.at == self.buf.len() {
            return Turn::NeedMore;
        }
        let config = self.worker.pages.config();
        let mut slots = slots::<SLOTS>();
        let unread = &self.buf[self.at..];
        match parse_request(unread, &mut slots, &head_limits(&config)) {
            Ok(Parsed::Partial) => Turn::NeedMore,
            Ok(Parsed::Complete(head)) => {
                let (worker, raw) = (&self.worker, &unread[..head.len]);
                let since = worker.pages.clock.micros();
                self.now = worker.pages.clock.at(since);
                let request = Request::new(&worker.pages, &config, self.peer, &head, raw, since);
                let exchange = Exchange::new(request, worker);
                match flow::now(&exchange, &mut self.out) {
                    Now::Answered { keep } => {
                        if let Some(timed) = exchange.request.timed() {
                            self.timing.push(timed);
                        }
                        self.at += head.len;
                        if keep { Turn::Again } else { Turn::Close }
                    }
                    Now::Later => Turn::Later(head.len),
                }
            }
            Err(reject) => {
                self.reject(reject);
                Turn::Close
            }
        }
    }

    /// Answers a request that cannot be understood. Where the next one starts is unknown: the connection ends.
    pub(crate) fn reject(&mut self, reject: Reject) {
        self.worker.pages.counters.reject(reject.reason);
        let before = self.out.pending();
        refuse::compose(
            self.out.scratch(),
            self.worker.pages.clock.now(),
            reject.status,
            reject.reason.as_str(),
            Answered::UNREAD,
        );
        log::unread(&self.worker, self.peer, reject.status, self.out.pending() - before);
    }

    /// Answers collected at the most before they are sent.
    fn pipeline(&self) -> usize {
        self.worker.pages.config().settings.http.limits.pipeline
    }

    /// Sends what was collected.
    pub(crate) async fn flush(&mut self) -> Result<(), Ended> {
        if !self.out.is_empty() {
            let patience = self.worker.pages.config().settings.http.limits.send_timeout.as_millis() as Ms;
            self.worker.send(&self.socket, &mut self.out, patience).await?;
        }
        if !self.timing.is_empty() {
            let now = self.worker.pages.clock.micros();
            self.now = self.worker.pages.clock.at(now);
            self.timing.settle(&self.worker.pages.config().counted, now);
        }
        Ok(())
    }

    /// Waits for more bytes. False: there will be no further request.
    async fn more(&mut self) -> Result<bool, Ended> {
        let config = self.worker.pages.config();
        let limits = &config.settings.http.limits;
        let now = match std::mem::take(&mut self.now) {
            0 => self.worker.pages.clock.now(),
            now => now,
        };
        let read = if self.at == self.buf.len() {
            self.recycle();
            self.socket.watch.wait_idle(now + limits.idle_timeout.as_millis() as Ms);
            let worker = &self.worker;
            let (take, give) = (|| worker.conns.take_buffer(), |buffer| worker.conns.give_buffer(buffer));
            self.socket.first(&mut self.buf, take, give).await
        } else {
            self.compact();
            self.socket.watch.wait_head(now + limits.header_timeout.as_millis() as Ms);
            self.socket.read(&mut self.buf).await
        };
        match read {
            Ok(0) => Ok(false),
            Ok(n) => {
                self.worker.pages.counters.bytes_in.add(n as u64);
                Ok(true)
            }
            Err(Ended::Drained) => Ok(false),
            Err(Ended::TimedOut) => Ok(self.timed_out()),
            Err(ended) => Err(ended),
        }
    }

    /// A request that began is told that it took too long; a connection that was idle is not told anything.
    fn timed_out(&mut self) -> bool {
        self.socket.watch.forgive();
        if self.at < self.buf.len() {
            self.worker.pages.counters.timeouts.header.one();
            let before = self.out.pending();
            refuse::compose(
                self.out.scratch(),
                self.worker.pages.clock.now(),
                408,
                "the request head took too long",
                Answered::UNREAD,
            );
            log::unread(&self.worker, self.peer, 408, self.out.pending() - before);
        }
        false
    }

    /// Moves what is not used up to the front of the buffer.
    pub(crate) fn compact(&mut self) {
        if self.at > 0 {
            self.buf.drain(..self.at);
            self.at = 0;
        }
    }

    /// Gives the buffer back: an idle connection holds none.
    fn recycle(&mut self) {
        self.at = 0;
        let buffer = std::mem::take(&mut self.buf);
        if buffer.capacity() > 0 {
            self.worker.conns.give_buffer(buffer);
        }
    }
}

fn head_limits(config: &Config) -> HeadLimits {
    let limits = &config.settings.http.limits;
    HeadLimits { head_bytes: limits.head_bytes, request_line: limits.request_line, fields: limits.fields }
}
