//! Requests that come on streams of a connection: what HTTP/2 and 3 share.
//!
//! A request that memory answers is answered at once, without a stream object or a task. One that
//! has to wait gets a [`Stream`] and a task of its own, which composes the answer.

use std::rc::Rc;

use larder_proto::{
    http::{Parsed, Version, parse_request, slots},
    pseudo::Connect,
};
use tokio::task::spawn_local;

use crate::{
    counters::Timing,
    http::{
        conn::{SLOTS, head_limits},
        exchange::{Active, Exchange},
        flow::{self, Now, Waiting},
        log,
        refuse::{self, Answered},
        worker::{Worker, limited_network},
    },
    net::{out::Out, socket::Ended},
    request::{
        Detached, Peer, Request,
        pages::{Config, Pages},
        route::Refusal,
        stalls::Stall,
    },
    wire::stream::{Answer, Mail, Stream},
};

/// The part of all waiting requests that those of one client may be, if that is more than one
/// connection has streams: a few connections could take the places of all other clients.
const CLIENT_PART: usize = 16;

/// The tools of a look at a connection.
pub(super) struct Turn<'c> {
    pub(super) worker: &'c Rc<Worker>,
    pub(super) config: &'c Rc<Config>,
    pub(super) peer: Peer,
    /// When the bytes came, in microseconds.
    pub(super) since: u64,
    pub(super) timing: &'c mut Timing,
}

/// A request whose head has come.
pub(super) struct Begun {
    pub(super) id: u64,
    pub(super) version: Version,
    pub(super) connect: Connect,
}

/// The result of a look at a request.
pub(super) enum Taken {
    /// Its answer is composed.
    Answered,
    /// A task sees it through.
    Waits(Rc<Stream>),
    /// The head is not whole: an error of the codec, which writes whole heads.
    Broken,
}

impl Turn<'_> {
    /// Answers a request into `out`, or leaves it to a task. `head`: in the form of HTTP/1.1.
    pub(super) fn request(
        &mut self,
        begun: &Begun,
        mail: &Rc<Mail>,
        head: &mut Vec<u8>,
        out: &mut Out,
    ) -> Taken {
        let protocol = begun.connect == Connect::Protocol;
        if protocol {
            websocket_key(&self.worker.pages, head);
        }
        let raw = &head[..];
        let mut slots = slots::<SLOTS>();
        let parsed = match parse_request(raw, &mut slots, &head_limits(self.config)) {
            Ok(Parsed::Complete(mut parsed)) => {
                parsed.version = begun.version;
                parsed
            }
            Ok(Parsed::Partial) => return Taken::Broken,
            Err(reject) => {
                self.worker.pages.counters.reject(reject.reason);
                self.refuse(raw, reject.status, reject.reason.as_str(), out);
                return Taken::Answered;
            }
        };
        let (worker, config) = (self.worker, self.config);
        let request =
            Request::new(&worker.pages, config, self.peer.clone(), &parsed, raw, self.since);
        let exchange = Exchange::new(request, worker);
        out.clear();
        if protocol && exchange.request.upgrade().is_none() {
            let refusal = Refusal(501, "of the protocols beside HTTP only websocket is passed on");
            refuse::refusal(&exchange, out, &refusal);
            return Taken::Answered;
        }
        match flow::now(&exchange, out) {
            Now::Answered { .. } => {
                self.timing.push(exchange.request.timed());
                Taken::Answered
            }
            Now::Later(waiting) => {
                let may_wait = exchange.request.may_wait();
                let Some(of_client) = may_wait.then(|| self.counts_waiting()).flatten() else {
                    refuse::refusal(&exchange, out, &flow::CROWDED);
                    return Taken::Answered;
                };
                let stream = Stream::new(begun.id, mail);
                let counted = worker.pages.shared.waits();
                let request = Box::new(exchange.request.detach());
                let (worker, sent) = (worker.clone(), stream.clone());
                spawn_local(async move {
                    later(worker, sent, request, waiting).await;
                    drop((counted, of_client));
                });
                Taken::Waits(stream)
            }
        }
    }

    /// Counts a request that waits for the network of its client, where that is limited. None: the
    /// network has too many.
    fn counts_waiting(&self) -> Option<Option<Stall>> {
        let http = &self.config.settings.http;
        let Some(network) = limited_network(http, self.peer.address.ip()) else {
            return Some(None);
        };
        let limits = &http.limits;
        let of_client = limits.connections_per_client.unwrap_or(0).max(limits.streams as usize);
        // A half at the most: the places of others stay free where there are few of them.
        let most = of_client.max(limits.connections / CLIENT_PART).min(limits.connections / 2);
        self.worker.pages.shared.waiting_clients.enter_up_to(network, most.max(1)).map(Some)
    }

    /// Composes the answer to a request that is not understood. `head`: as far as it is known.
    pub(super) fn refuse(&self, head: &[u8], status: u16, why: &'static str, out: &mut Out) {
        out.clear();
        let now = self.worker.pages.clock.at(self.since);
        let to = Answered { head_only: head.starts_with(b"HEAD "), ..Answered::UNREAD };
        refuse::compose(out.scratch(), now, status, why, to);
        log::unread(self.worker, self.peer.address, status, out.pending());
    }
}

/// Sees a request through that has to wait.
async fn later(
    worker: Rc<Worker>,
    stream: Rc<Stream>,
    request: Box<Detached>,
    waiting: Box<Waiting>,
) {
    let unfinished = Unfinished(stream.clone());
    let mut out = Out::default();
    let waited = async |request: Request<'_, '_>| {
        let exchange = Exchange::new(request, &worker);
        let ended = flow::later(&mut Active::stream(&stream, &mut out), &exchange, *waiting).await;
        log::abandoned(&exchange);
        let mut timing = Timing::default();
        if ended.is_ok() {
            timing.push(exchange.request.timed());
        }
        let times = worker.pages.counters.times(exchange.request.head.version);
        timing.settle(&exchange.request.config.counted, times, worker.pages.clock.micros());
        ended
    };
    let answer = match request.with(&worker.pages, waited).await {
        Ok(_) => Answer::Complete,
        Err(Ended::Closed | Ended::TimedOut | Ended::Drained) => Answer::Broken,
    };
    stream.finish(&mut out, answer);
    drop(unfinished);
}

/// Breaks the answer off if its task ends without one: after a panic.
struct Unfinished(Rc<Stream>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.0.answer.get() == Answer::Composing {
            self.0.finish(&mut Out::default(), Answer::Broken);
        }
    }
}

/// Adds the key that a WebSocket of HTTP/1 has and one on a stream has not (RFC 8441 section 5.1):
/// 16 bytes in base64. The origin's proof that it knows the key is nobody's concern here.
fn websocket_key(pages: &Pages, head: &mut Vec<u8>) {
    let key = format!("{:016x}{:05x}A==", pages.nonce(), pages.nonce() & 0xf_ffff);
    head.truncate(head.len().saturating_sub(2));
    head.extend_from_slice(format!("sec-websocket-key: {key}\r\n\r\n").as_bytes());
}
