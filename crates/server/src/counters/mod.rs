//! The counters of one worker of the HTTP face. Each worker has its own set and is its only writer;
//! readers add the sets up.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the set, and its sums as figures |
//! | `findings.rs` | causes of misses, of all workers, for advice |
//! | `sites.rs` | requests by site: outcome, status, bytes, time |
//! | `named.rs` | counters by name, at most 256 names |
//! | `reasons.rs` | why requests were forwarded, responses not stored, requests and handshakes refused |
//! | `timing.rs` | the time of answers, one reading of the clock for a batch |

mod findings;
mod named;
mod reasons;
mod sites;
mod timing;

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use larder_metrics::{Http, HttpCounters, Latencies, Origin, Protocol, SampledUrls, Site};
use larder_proto::{
    http::{RejectReason, Version},
    http2::Flood,
};

use crate::{
    net::tls::TlsFailure,
    origin::{Groups, OriginCounters},
    settings::Settings,
};

pub(crate) use self::{
    findings::{Cause, Finding, Findings, Software, trackers},
    sites::Sites,
    timing::{Timed, Times, Timing},
};
use self::{
    named::Named,
    reasons::{ForwardReasons, NotStored, Reasons},
    sites::{SiteCounters, SiteSums},
};

/// The counters of one worker of the HTTP face.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// The counters of the table in `larder_metrics`.
    plain: HttpCounters,
    /// Bytes of the copies from which large pages are sent, now.
    pub(crate) sendfile_cache: Arc<AtomicU64>,
    /// Files of this machine that are kept open, now.
    pub(crate) open_files: Arc<AtomicU64>,
    /// Bytes of the content of small files, now.
    pub(crate) file_memory: Arc<AtomicU64>,
    /// Rejected requests.
    rejected: Reasons<RejectReason>,
    /// Connections that failed for TLS.
    pub(crate) tls_failures: Reasons<TlsFailure>,
    /// Connections of HTTP/2 that ended as a flood.
    pub(crate) http2_floods: Reasons<Flood>,
    /// Requests by site.
    pub(crate) sites: Named<SiteCounters>,
    /// Requests to origins.
    pub(crate) origins: Named<OriginCounters>,
    /// Requests that memory could not answer.
    pub(crate) forwards: ForwardReasons,
    /// Responses not stored.
    pub(crate) not_stored: NotStored,
    /// The time of answers in HTTP/2 and HTTP/3. Those of HTTP/1 are the rest of the sites'.
    times: [Times; 2],
    /// The hottest URLs.
    pub(crate) urls: SampledUrls,
}

impl Deref for Counters {
    type Target = HttpCounters;

    fn deref(&self) -> &HttpCounters {
        &self.plain
    }
}

impl Counters {
    /// `sample`: the hottest URLs are looked for.
    pub(crate) fn new(sample: bool) -> Self {
        Self { urls: SampledUrls::new(sample), ..Self::default() }
    }

    /// The time of answers in a protocol; None: HTTP/1.
    #[inline]
    pub(crate) fn times(&self, version: Version) -> Option<&Times> {
        match version {
            Version::Http10 | Version::Http11 => None,
            Version::Http2 => Some(&self.times[0]),
            Version::Http3 => Some(&self.times[1]),
        }
    }

    /// Counts a rejected request.
    pub(crate) fn reject(&self, reason: RejectReason) {
        self.rejected.one(reason);
    }
}

/// The figures of all workers. Sites of the settings come first, in their order, then those of
/// earlier settings. `groups`: the state of the origins; `open`: connections of clients now.
pub(crate) fn figures(
    workers: &[Arc<Counters>],
    settings: &Settings,
    groups: &Groups,
    open: u64,
) -> Http {
    let mut http = Http::default();
    let mut multiplexed = <[Latencies; 2]>::default();
    let mut origins = BTreeMap::<Box<str>, Origin>::new();
    for worker in workers {
        worker.plain.add_to(&mut http);
        worker.forwards.add_to(&mut http.why_missed);
        worker.not_stored.add_to(&mut http.not_stored);
        worker.rejected.add_to(&mut http.rejected);
        worker.tls_failures.add_to(&mut http.tls_failures);
        worker.http2_floods.add_to(&mut http.http2_floods);
        multiplexed.iter_mut().zip(&worker.times).for_each(|(sum, times)| add(sum, times));
        http.sendfile_cache += worker.sendfile_cache.load(Relaxed);
        http.open_files += worker.open_files.load(Relaxed);
        http.file_memory += worker.file_memory.load(Relaxed);
        for (name, counters) in worker.origins.all() {
            let new = || Origin { name: (*name).to_owned(), ..Origin::default() };
            counters.add_to(origins.entry(name.clone()).or_insert_with(new));
        }
    }
    groups.each(&mut |name, member, settings| {
        let Some(origin) = origins.get_mut(name) else { return };
        origin.under_way += member.under_way();
        origin.limit += member.limit(settings).unwrap_or_default() as u64;
        origin.servers += 1;
        origin.healthy += u64::from(member.is_healthy(settings));
    });
    http.origins = origins.into_values().collect();
    http.connections.open = open;
    let mut all = SiteSums::default();
    for (name, sums) in site_sums(workers, settings) {
        all.merge(&sums);
        http.sites.push(Site {
            name: name.into(),
            requests: sums.results.total(),
            results: sums.results,
            status: sums.statuses(),
            bytes_out: sums.bytes_out,
            latency: sums.latency,
        });
    }
    http.requests = all.results.total();
    (http.results, http.status, http.latency) = (all.results, all.statuses(), all.latency);
    http.protocols = protocols(&http.latency, multiplexed);
    http
}

/// The times by protocol.
fn protocols(all: &Latencies, multiplexed: [Latencies; 2]) -> Vec<Protocol> {
    let mut rest = all.clone();
    for one in &multiplexed {
        rest.hit = rest.hit.since(&one.hit);
        rest.miss = rest.miss.since(&one.miss);
    }
    let [http2, http3] = multiplexed;
    [("HTTP/1", rest), ("HTTP/2", http2), ("HTTP/3", http3)]
        .into_iter()
        .map(|(name, latency)| Protocol { name: name.to_owned(), latency })
        .collect()
}

/// Adds the times of one worker.
fn add(sum: &mut Latencies, [hit, miss]: &Times) {
    sum.hit.add(hit);
    sum.miss.add(miss);
}

/// The sums of each site over all workers.
fn site_sums(workers: &[Arc<Counters>], settings: &Settings) -> Vec<(Box<str>, SiteSums)> {
    let mut sums: Vec<(Box<str>, SiteSums)> = Vec::new();
    for site in &settings.sites {
        if !sums.iter().any(|(name, _)| **name == *site.name) {
            sums.push((site.name.as_str().into(), SiteSums::default()));
        }
    }
    for (name, counters) in workers.iter().flat_map(|worker| worker.sites.all()) {
        let at = sums.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            sums.push((name, SiteSums::default()));
            sums.len() - 1
        });
        sums[at].1.add(&counters);
    }
    sums
}
