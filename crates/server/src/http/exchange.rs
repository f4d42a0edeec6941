//! A request with a connection to answer on.

use std::{
    cell::Cell,
    io::IoSlice,
    pin::{Pin, pin},
    rc::Rc,
};

use larder_proto::http::Version;

use crate::{
    clock::Ms,
    origin::{InterimHead, InterimHeads},
};
use crate::{
    fetch::FetchResult,
    http::{
        body::{Buffer, Received},
        refuse::Answered,
        worker::Worker,
    },
    net::{
        out::Out,
        socket::{Ended, Socket},
    },
    request::Request,
    settings::RulePolicy,
    wire::{Wire, h1::HeadWriter, meta, stream::Stream},
};

/// The client's side of a request that waits.
pub(crate) struct Active<'c> {
    pub(crate) wire: Wire<'c>,
    /// Composed bytes that are not sent.
    pub(crate) out: &'c mut Out,
    pub(crate) body: Received<'c>,
}

impl<'c> Active<'c> {
    /// Of HTTP/1: what follows the head lies in `buf`, from `at` on, and comes from the socket.
    pub(crate) fn h1(
        socket: &'c Socket,
        buf: &'c mut Vec<u8>,
        at: &'c mut usize,
        out: &'c mut Out,
    ) -> Self {
        Self { wire: Wire::H1(socket), out, body: Received::H1(Buffer { socket, buf, at }) }
    }

    /// Of HTTP/2 or 3.
    pub(crate) fn stream(stream: &'c Rc<Stream>, out: &'c mut Out) -> Self {
        Self { wire: Wire::Stream(stream), out, body: Received::Stream(stream) }
    }
}

/// A request, and how it is answered.
pub(crate) struct Exchange<'a, 'r> {
    pub(crate) request: Request<'a, 'r>,
    pub(crate) worker: &'a Rc<Worker>,
    /// The final answer has begun to leave.
    pub(crate) started: Cell<bool>,
}

impl<'a, 'r> Exchange<'a, 'r> {
    pub(crate) fn new(request: Request<'a, 'r>, worker: &'a Rc<Worker>) -> Self {
        Self { request, worker, started: Cell::new(false) }
    }

    /// Another request may follow on this connection.
    pub(crate) fn keep(&self) -> bool {
        self.request.head.keep_alive && !self.worker.draining()
    }

    /// The request as far as an answer of our own depends on it. `keep`: another request may
    /// follow.
    pub(crate) fn answered(&self, keep: bool) -> Answered<'_> {
        let head = self.request.head;
        let (head_only, hsts) = (self.request.is_head(), self.request.hsts());
        Answered { version: head.version, keep, head_only, hsts, retry_after: None }
    }

    /// Sends what was composed.
    pub(crate) async fn send(&self, wire: Wire<'_>, out: &mut Out) -> Result<(), Ended> {
        self.worker.send(wire, out, self.patience()).await
    }

    /// The same with `more` behind it, for which `pinned` bytes of the store are held.
    pub(crate) async fn send_with(
        &self,
        wire: Wire<'_>,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
    ) -> Result<(), Ended> {
        self.worker.send_with(wire, out, more, pinned, self.patience()).await
    }

    fn patience(&self) -> Ms {
        self.request.config.settings.http.limits.send_timeout.as_millis() as Ms
    }

    /// Waits for a fetch. Interim responses go to the client as they come, changed as `policy`
    /// says; a client that leaves ends the wait.
    pub(crate) async fn wait(
        &self,
        wire: Wire<'_>,
        out: &mut Out,
        policy: &RulePolicy,
        mut fetch: Pin<&mut impl Future<Output = FetchResult>>,
        mut interim: InterimHeads,
    ) -> Result<FetchResult, Ended> {
        let mut result = None;
        loop {
            let head = tokio::select! {
                biased;
                Some(head) = interim.recv(), if result.is_none() => Some(head),
                done = &mut fetch, if result.is_none() => {
                    result = Some(done);
                    continue;
                }
                () = wire.gone(), if result.is_none() => return Err(Ended::Closed),
                // They may have come with the answer.
                else => interim.waiting(),
            };
            let Some(head) = head else { return result.ok_or(Ended::Closed) };
            let mut passing = pin!(self.pass_interim(wire, out, policy, head));
            loop {
                tokio::select! {
                    biased;
                    sent = &mut passing => break sent?,
                    // Others may wait for it, too.
                    done = &mut fetch, if result.is_none() => result = Some(done),
                }
            }
        }
    }

    async fn pass_interim(
        &self,
        wire: Wire<'_>,
        out: &mut Out,
        policy: &RulePolicy,
        mut head: InterimHead,
    ) -> Result<(), Ended> {
        if let Some(handling) = &policy.handling {
            handling.edit_interim(&mut head.headers);
        }
        if meta::says_something(head.status, &head.headers) {
            self.write_interim(out.scratch(), &head);
            self.send(wire, out).await?;
        }
        Ok(())
    }

    /// An interim response (RFC 9110 section 15.2), for clients that know them. 100 was said by us
    /// already.
    fn write_interim(&self, out: &mut Vec<u8>, interim: &InterimHead) {
        if self.request.head.version == Version::Http10 || interim.status == 100 {
            return;
        }
        meta::interim_head(HeadWriter(out), interim.status, &interim.headers);
    }
}
