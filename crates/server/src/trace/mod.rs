//! Traces for OpenTelemetry: a request as a span, and its fetch from the origin as a span below it, sent to a collector by a
//! thread of its own (OTLP over HTTP).
//!
//! A request that brings a `traceparent` (W3C Trace Context) is recorded when its sender recorded its own part; of the others,
//! one in so many. The origin then gets our `traceparent` instead of the client's, so that its spans come to stand below
//! ours. What is not recorded passes through as it came. Without `[tracing]` a request costs nothing but the look whether there is
//! a tracer. A collector that is slow or gone costs spans, which are counted, and nothing else.

mod export;
mod otlp;

use std::{
    cell::Cell,
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use larder_metrics::Spans;
use larder_proto::http::TraceParent;
use tokio::sync::mpsc;

pub(crate) use self::otlp::Kind;
use crate::settings::TracingSettings;

/// Spans that may wait for the exporter, of all workers together; more are dropped and counted.
const QUEUE: usize = 4096;
/// The longest path, query or agent that is told.
const TEXT: usize = 1024;

/// A finished piece of work.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    pub(crate) trace: u128,
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    /// Microseconds since the UNIX epoch.
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    pub(crate) request: Arc<Told>,
    pub(crate) status: u16,
    /// What the cache did, as in the access log; of the request's span.
    pub(crate) result: Option<&'static str>,
    pub(crate) body_bytes: u64,
}

/// What both spans of a request say of it.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) method: String,
    pub(crate) scheme: &'static str,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) client: IpAddr,
    pub(crate) agent: Option<String>,
}

/// What became of spans, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Taken by the collector.
    pub(crate) exported: AtomicU64,
    /// Not taken: the queue was full, or the collector failed or refused them.
    pub(crate) dropped: AtomicU64,
}

impl Counts {
    /// The present counts.
    pub(crate) fn figures(&self) -> Spans {
        Spans { exported: self.exported.load(Relaxed), dropped: self.dropped.load(Relaxed) }
    }
}

/// The way to the exporter, for all workers.
#[derive(Debug)]
pub(crate) struct Tracing {
    queue: mpsc::Sender<Span>,
    one_in: u64,
    pub(crate) counts: Arc<Counts>,
}

impl Tracing {
    /// Starts the exporter's thread. It ends with the process; spans of its last second may be lost then.
    pub(crate) fn start(settings: &TracingSettings) -> io::Result<Arc<Tracing>> {
        let (queue, spans) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        export::start(settings.clone(), spans, counts.clone())?;
        Ok(Arc::new(Tracing { queue, one_in: settings.one_in, counts }))
    }

    /// A worker's own handle; `seed` differs from worker to worker.
    pub(crate) fn worker(self: &Arc<Self>, seed: u64) -> Tracer {
        Tracer { tracing: self.clone(), dice: Cell::new(seed | 1) }
    }
}

/// A worker's handle.
#[derive(Debug)]
pub(crate) struct Tracer {
    tracing: Arc<Tracing>,
    dice: Cell<u64>,
}

/// A request that is recorded.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    pub(crate) parent: Option<u64>,
    /// The span of the fetch, should there be one.
    pub(crate) fetch: u64,
    /// When the fetch went out and when its head came, in microseconds of the worker's clock; 0: not.
    pub(crate) fetched: Cell<(u64, u64)>,
}

impl Traced {
    /// What the origin is told.
    pub(crate) fn for_origin(&self) -> TraceParent {
        TraceParent { trace: self.trace, span: self.fetch, sampled: true }
    }
}

impl Tracer {
    /// Whether this request is recorded, by its `traceparent` or by lot.
    pub(crate) fn begin(&self, traceparent: Option<&[u8]>) -> Option<Traced> {
        let parent = traceparent.and_then(TraceParent::parse);
        let recorded = match parent {
            Some(parent) => parent.sampled,
            None => self.tracing.one_in != 0 && self.roll().is_multiple_of(self.tracing.one_in),
        };
        recorded.then(|| Traced {
            trace: parent.map_or_else(|| u128::from(self.id()) << 64 | u128::from(self.id()), |p| p.trace),
            span: self.id(),
            parent: parent.map(|parent| parent.span),
            fetch: self.id(),
            fetched: Cell::new((0, 0)),
        })
    }

    /// Hands a span over; never waits.
    pub(crate) fn end(&self, span: Span) {
        if self.tracing.queue.try_send(span).is_err() {
            self.tracing.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    /// xorshift64*: ids have to differ, nobody has to be unable to guess them.
    fn roll(&self) -> u64 {
        let mut x = self.dice.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.dice.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// Never 0, which is no id.
    fn id(&self) -> u64 {
        (self.roll() << 11 ^ self.roll()).max(1)
    }
}

/// At most so much of a text.
pub(crate) fn cut(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(TEXT)]).into_owned()
}
