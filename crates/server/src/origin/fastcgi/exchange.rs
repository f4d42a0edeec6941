//! One request on one connection: records out, records in, both at a time, since an application may
//! answer before it has read the whole request.

use std::{
    future::{pending, poll_fn},
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use larder_proto::fcgi::{self, Decoder, End, Limits, Params, Step};
use tokio::{
    task::{coop::poll_proceed, spawn_local},
    time::{Instant, timeout},
};

use super::{connection::Connection, log::Log};
use crate::origin::{
    OriginCounters, OriginError,
    patience::patiently,
    pool::{Lease, Pooled},
    reading::READS,
    stream::is_gone,
    upload::{Aborted, Part, Progress, Upload},
};

/// Limits on the records of an answer.
const LIMITS: Limits = Limits { stderr: 16 << 10 };

/// Output that is read for nothing, so that a connection can be kept: output behind the head of an
/// answer that has no content. With more of it the connection is closed.
const DRAIN_BYTES: usize = 64 << 10;

/// A request under way. Dropped before its end, it tells the application and closes the connection.
#[derive(Debug)]
pub(super) struct Exchange {
    lease: Lease<Connection>,
    id: u16,
    decoder: Decoder,
    /// Records to be written; those before `written` are.
    out: Vec<u8>,
    written: usize,
    /// The body that is still to be sent.
    upload: Option<Upload>,
    /// A write failed because the application has closed its side; an answer may have come before.
    deaf: bool,
    /// Bytes of the request have been written.
    pub(super) sent: bool,
    /// A record of the answer has begun.
    pub(super) received: bool,
    pub(super) progress: Rc<Progress>,
    log: Log,
    over: bool,
}

/// A piece of an answer.
#[derive(Debug)]
pub(super) enum Event {
    /// Output; never empty.
    Output(Bytes),
    /// The end of the answer.
    End(End),
}

impl Exchange {
    /// Makes a request ready to be sent.
    pub(super) fn new(
        mut lease: Lease<Connection>,
        params: &Params,
        upload: Upload,
        progress: Rc<Progress>,
        log: Log,
    ) -> Exchange {
        let id = lease.connection().map_or(1, Connection::next_id);
        let mut out = Vec::with_capacity(1536);
        fcgi::begin(id, true, &mut out);
        params.write(id, &mut out);
        let upload = (!upload.is_over()).then_some(upload);
        if upload.is_none() {
            fcgi::stdin_end(id, &mut out);
        }
        Exchange {
            lease,
            id,
            decoder: Decoder::new(id, LIMITS),
            out,
            written: 0,
            upload,
            deaf: false,
            sent: false,
            received: false,
            progress,
            log,
            over: false,
        }
    }

    pub(super) fn lease(&mut self) -> &mut Lease<Connection> {
        &mut self.lease
    }

    pub(super) fn counters(&self) -> &OriginCounters {
        &self.lease.pool().counters
    }

    /// The next piece of the answer. Cancel safe.
    pub(super) async fn event(&mut self) -> Result<Event, OriginError> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// The same, unless the application is silent for the time between two pieces of a body.
    pub(super) async fn event_in_time(
        &mut self,
        total: Option<Instant>,
    ) -> Result<Event, OriginError> {
        let (progress, limit) =
            (self.progress.clone(), self.lease.pool().settings.between_bytes_timeout);
        match patiently(self.event(), &progress, limit, total).await {
            Ok(event) => event,
            Err(late) => Err(late.error(OriginError::BetweenBytesTimeout)),
        }
    }

    /// Goes on with the request. Never ends.
    pub(super) async fn upload(&mut self) {
        // An error comes again with the next event.
        let _ = poll_fn(|cx| self.poll_send(cx)).await;
        pending().await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, OriginError>> {
        // Records that were received already leave others their turn, too.
        ready!(poll_proceed(cx)).made_progress();
        for _ in 0..READS {
            if let Some(event) = self.decode()? {
                return Poll::Ready(Ok(event));
            }
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
            let Some(connection) = self.lease.connection() else {
                return Poll::Ready(Err(OriginError::Truncated));
            };
            match ready!(connection.poll_read(cx)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Poll::Ready(Err(OriginError::Truncated)),
            }
        }
        // An application that says nothing of use without end must not hold the thread.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Decodes received bytes. None: more are needed.
    fn decode(&mut self) -> Result<Option<Event>, OriginError> {
        let Some(connection) = self.lease.connection() else { return Ok(None) };
        let input = &mut connection.input;
        loop {
            let step = self.decoder.decode(input);
            let step = step.map_err(|error| OriginError::Malformed(error.to_string()))?;
            self.received |= step != Step::Need;
            match step {
                Step::Need => return Ok(None),
                Step::Skip { used } => input.advance(used),
                Step::Stderr { used, data } => {
                    self.log.write(data);
                    input.advance(used);
                }
                Step::Stdout { used, data } => {
                    let before = used - data.len();
                    let mut output = input.split_to(used);
                    output.advance(before);
                    return Ok(Some(Event::Output(output.freeze())));
                }
                Step::End { used, end } => {
                    input.advance(used);
                    self.over = true;
                    return Ok(Some(Event::End(end)));
                }
            }
        }
    }

    /// Writes until all is written.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        loop {
            let Some(connection) = self.lease.connection() else { return Poll::Ready(Ok(())) };
            while self.written < self.out.len() && !self.deaf {
                match ready!(connection.poll_write(cx, &self.out[self.written..])) {
                    Ok(bytes) => {
                        self.written += bytes;
                        self.sent |= bytes > 0;
                    }
                    Err(error) if is_gone(&error) => self.deaf = true,
                    Err(_) => return Poll::Ready(Err(OriginError::Truncated)),
                }
            }
            self.out.clear();
            self.written = 0;
            let Some(upload) = self.upload.as_mut().filter(|_| !self.deaf) else {
                return Poll::Ready(Ok(()));
            };
            match ready!(upload.poll_part(cx)) {
                Ok(Part::Data(data)) => fcgi::stdin(self.id, &data, &mut self.out),
                Ok(Part::Trailers(_) | Part::End) => {}
                Err(Aborted) => return Poll::Ready(Err(OriginError::BodyAborted)),
            }
            // Its end goes with the last of it. An application that reads as much as was announced
            // would find a late one before its next request (libfcgi closes the connection then).
            if upload.is_over() {
                self.upload = None;
                fcgi::stdin_end(self.id, &mut self.out);
            }
        }
    }

    fn all_sent(&self) -> bool {
        self.upload.is_none() && self.out.is_empty() && !self.deaf
    }

    /// The body that is still to be sent, all of it if nothing was written; the connection is
    /// closed.
    pub(super) fn take_back(mut self) -> Option<Upload> {
        self.upload.take()
    }

    /// After the end of the answer: the connection may serve the next request.
    pub(super) fn finish(mut self) {
        let keeps = self
            .lease
            .connection()
            .is_some_and(|connection| !connection.is_closed() && connection.input.is_empty());
        self.lease.keep = self.over && self.all_sent() && keeps;
        self.over = true;
        self.lease.finish();
    }

    /// Reads the rest of an answer that nobody wants, in a task of its own.
    pub(super) fn drain(mut self) {
        let limit = self.lease.pool().settings.between_bytes_timeout;
        spawn_local(async move {
            let mut left = DRAIN_BYTES;
            let drained = timeout(limit, async {
                loop {
                    match self.event().await {
                        Ok(Event::Output(output)) => left = left.checked_sub(output.len())?,
                        Ok(Event::End(End::Complete(_))) => return Some(()),
                        Ok(Event::End(_)) | Err(_) => return None,
                    }
                }
            });
            if matches!(drained.await, Ok(Some(()))) {
                self.finish();
            }
        });
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Between two records only, and if it can be sent at once: the connection is closed anyway.
        if !self.over && self.sent && self.written == self.out.len() {
            let mut record = Vec::new();
            fcgi::abort(self.id, &mut record);
            if let Some(connection) = self.lease.connection() {
                let _ = connection.try_write(&record);
            }
        }
    }
}
