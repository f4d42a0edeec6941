//! Traces for OpenTelemetry: a span for each recorded request and one below it for its fetch from
//! the origin. A thread of its own sends them to a collector (OTLP over HTTP).
//!
//! A request with a `traceparent` (W3C Trace Context) is recorded if its sender recorded its own
//! part; of the other requests, one in `one_in`. The origin then gets our `traceparent` instead of
//! the client's, so that its spans are below ours. Other requests keep their `traceparent`. Without
//! `[tracing]` the cost of a request is the check whether there is a tracer. A slow or absent
//! collector costs spans, which are counted, and nothing else.

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
/// Longest path, query or user agent in a span, in bytes.
const TEXT: usize = 1024;

/// A finished span.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    pub(crate) trace: u128,
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    /// Microseconds since the UNIX epoch.
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    pub(crate) request: Arc<RequestAttributes>,
    pub(crate) status: u16,
    /// The result as in the access log; only in the span of the request.
    pub(crate) result: Option<&'static str>,
    pub(crate) body_bytes: u64,
}

/// The attributes that both spans of a request have.
#[derive(Debug)]
pub(crate) struct RequestAttributes {
    pub(crate) method: String,
    pub(crate) scheme: &'static str,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) client: IpAddr,
    pub(crate) agent: Option<String>,
}

/// Spans over all workers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Accepted by the collector.
    pub(crate) exported: AtomicU64,
    /// Lost: the queue was full, or the collector failed or refused them.
    pub(crate) dropped: AtomicU64,
}

impl Counts {
    /// The present counts.
    pub(crate) fn figures(&self) -> Spans {
        Spans { exported: self.exported.load(Relaxed), dropped: self.dropped.load(Relaxed) }
    }
}

/// The queue to the exporter, for all workers.
#[derive(Debug)]
pub(crate) struct Tracing {
    queue: mpsc::Sender<Span>,
    one_in: u64,
    pub(crate) counts: Arc<Counts>,
}

impl Tracing {
    /// Starts the exporter's thread. It ends with the process; spans of its last second may be
    /// lost.
    pub(crate) fn start(settings: &TracingSettings) -> io::Result<Arc<Tracing>> {
        let (queue, spans) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        export::start(settings.clone(), spans, counts.clone())?;
        Ok(Arc::new(Tracing { queue, one_in: settings.one_in, counts }))
    }

    /// The tracer of a worker; `seed` differs from worker to worker.
    pub(crate) fn worker(self: &Arc<Self>, seed: u64) -> Tracer {
        Tracer { tracing: self.clone(), random: Cell::new(seed | 1) }
    }
}

/// The tracer of one worker.
#[derive(Debug)]
pub(crate) struct Tracer {
    tracing: Arc<Tracing>,
    random: Cell<u64>,
}

/// The ids of a recorded request.
#[derive(Debug)]
pub(crate) struct TraceIds {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    pub(crate) parent: Option<u64>,
    /// The span of the fetch, if there is one.
    pub(crate) fetch: u64,
    /// The start of the fetch and the arrival of its head, in microseconds of the worker's clock;
    /// 0: none.
    pub(crate) fetched: Cell<(u64, u64)>,
}

impl TraceIds {
    /// The `traceparent` for the origin.
    pub(crate) fn for_origin(&self) -> TraceParent {
        TraceParent { trace: self.trace, span: self.fetch, sampled: true }
    }
}

impl Tracer {
    /// The ids of a request that is recorded, by its `traceparent` or at random.
    pub(crate) fn begin(&self, traceparent: Option<&[u8]>) -> Option<TraceIds> {
        let parent = traceparent.and_then(TraceParent::parse);
        let recorded = match parent {
            Some(parent) => parent.sampled,
            None => {
                self.tracing.one_in != 0 && self.random_bits().is_multiple_of(self.tracing.one_in)
            }
        };
        recorded.then(|| TraceIds {
            trace: parent
                .map_or_else(|| u128::from(self.id()) << 64 | u128::from(self.id()), |p| p.trace),
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

    /// A random number (xorshift64*). Ids have to differ; they need not be hard to guess.
    fn random_bits(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// A random id; never 0, which is no id.
    fn id(&self) -> u64 {
        (self.random_bits() << 11 ^ self.random_bits()).max(1)
    }
}

/// The first [`TEXT`] bytes of a text.
pub(crate) fn cut(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(TEXT)]).into_owned()
}
