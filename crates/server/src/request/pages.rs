//! The context of the pages of one worker: the store, the rules, the fetches under way, the tiers,
//! the origins. Nothing here knows a connection.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering},
    },
};

use larder_proto::{http::RequestHead, http2, http3};
use larder_store::Store;
use rustix::process::{Resource, getrlimit};

use crate::{
    access_log::{Logger, live::LiveLog},
    acme::Acme,
    clock::Clock,
    counters::Counters,
    counters::{Findings, Sites},
    disk::Tier,
    family::{Family, Link, Links, PeerState},
    net::sendfile::Budget,
    origin::{Group, Groups, KeptFiles, Watcher},
    page::{compressor::Compressor, flight::Flights, writer::PageWriter},
    remote::{self, Remote},
    request::{
        changes::Changes,
        errors::Errors,
        limits::Limits,
        object_pages::ObjectPages,
        purge::{self, Purger, Tiers},
        stalls::Stalls,
    },
    room::Room,
    settings::{HttpsSettings, OriginGroup, RulePolicy, Settings, Site},
    trace::{TraceIds, Tracer, Tracing},
    wire::{file::FileLines, h1::HitLines},
};

/// The shared state of all workers' HTTP side.
pub(crate) struct Shared {
    pub(crate) flights: Flights,
    /// Client connections open now, over all workers.
    pub(crate) open: AtomicUsize,
    /// Requests of HTTP/2 that wait, over all workers.
    pub(crate) waiting: AtomicUsize,
    /// Where the memory that clients hold is counted.
    pub(crate) room: Arc<Room>,
    /// Clients that stand still and hold a connection to an origin.
    pub(crate) stalls: Stalls,
    /// Connections of each client, where they are limited.
    pub(crate) clients: Stalls,
    /// Requests of HTTP/2 and 3 that wait, by the network of the client.
    pub(crate) waiting_clients: Stalls,
    /// Requests of each client, where they are limited.
    pub(crate) limits: Limits,
    /// Names this process in CDN-Loop (RFC 8586).
    pub(crate) loop_id: String,
    /// Random start, then counted up: no two are alike, and nobody outside can tell them.
    nonces: AtomicU64,
    pub(crate) logger: Option<Arc<Logger>>,
    pub(crate) tracing: Option<Arc<Tracing>>,
    /// The state of the origins.
    pub(crate) groups: Groups,
    /// The latest purges.
    pub(crate) purges: purge::History,
    /// Changes that clients ask for.
    pub(crate) changes: Changes,
    /// The latest errors of our own.
    pub(crate) errors: Errors,
    /// Why requests were not answered from memory.
    pub(crate) findings: Findings,
    /// Where requests are shown as they end; set before the workers start, where there is an admin
    /// interface.
    pub(crate) live: OnceLock<Arc<LiveLog>>,
    /// Pages on disk.
    pub(crate) disk: Option<Arc<Tier>>,
    /// The fleet pages are shared through.
    pub(crate) remote: Option<Arc<remote::Shared>>,
    /// Other caches that are asked before the origin.
    pub(crate) family: Family,
    /// Objects that are served as pages.
    pub(crate) object_pages: Option<ObjectPages>,
    /// The first port of HTTPS; 0: it is not served.
    pub(crate) https_port: AtomicU16,
    /// Open challenges of ACME.
    pub(crate) acme: Arc<Acme>,
    /// Makes the compressed forms of pages.
    pub(crate) compressor: Compressor,
    /// Changes of files of this machine.
    watcher: Arc<Watcher>,
}

impl Shared {
    /// `random`: two numbers nobody outside can guess.
    pub(crate) fn new(
        random: [u64; 2],
        logger: Option<Arc<Logger>>,
        tracing: Option<Arc<Tracing>>,
        (disk, remote): (Option<Arc<Tier>>, Option<Arc<remote::Shared>>),
        clock: Clock,
        object_pages: Option<ObjectPages>,
        room: Arc<Room>,
    ) -> Arc<Self> {
        let loop_id = format!("larder-{:016x}", random[0]);
        Arc::new(Self {
            room,
            stalls: Stalls::default(),
            clients: Stalls::default(),
            waiting_clients: Stalls::default(),
            limits: Limits::default(),
            flights: Flights::new(),
            open: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            family: Family::new(clock, loop_id.clone()),
            loop_id,
            nonces: AtomicU64::new(random[1]),
            logger,
            tracing,
            groups: Groups::default(),
            purges: purge::History::default(),
            changes: Changes::default(),
            errors: Errors::default(),
            findings: Findings::default(),
            live: OnceLock::new(),
            disk,
            remote,
            object_pages,
            https_port: AtomicU16::new(0),
            acme: Arc::default(),
            compressor: Compressor::default(),
            watcher: Watcher::new(),
        })
    }

    /// The tiers that a purge has to reach.
    pub(crate) fn tiers(&self) -> Tiers<'_> {
        Tiers {
            disk: self.disk.as_ref(),
            fleet: self.remote.as_deref(),
            objects: self.object_pages.as_ref(),
            family: Some(&self.family),
        }
    }

    /// A record in memory took the place of the one on the disk, if there is one.
    pub(crate) fn replaced_on_disk(&self, key: &[u8]) {
        if let Some(disk) = &self.disk {
            disk.replaced(key);
        }
    }

    /// Counts a request that waits, until the result is dropped.
    pub(crate) fn waits(self: &Arc<Self>) -> Waits {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(self.clone())
    }

    pub(crate) fn nonce(&self) -> u64 {
        rapidhash::v3::rapidhash_v3(&self.nonces.fetch_add(1, Ordering::Relaxed).to_le_bytes())
    }
}

/// A request that waits.
pub(crate) struct Waits(Arc<Shared>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Seconds for which clients may remember that HTTP/3 is spoken here.
const ALTERNATIVE_SECONDS: u32 = 86_400;

/// A worker's view of the settings: changed as a whole by a reload.
pub(crate) struct Config {
    pub(crate) settings: Arc<Settings>,
    pub(crate) hit_lines: HitLines,
    /// The same of answers from files of this machine.
    pub(crate) file_lines: FileLines,
    /// Limits of connections of HTTP/2 from now on.
    pub(crate) http2: Arc<http2::Limits>,
    /// The same of HTTP/3.
    pub(crate) http3: Arc<http3::Limits>,
    /// The value of `Alt-Svc` (RFC 7838) in answers over TLS; None: HTTP/3 is not spoken.
    pub(crate) alt_svc: Option<String>,
    /// Some requests are answered before they are routed: challenges of ACME, those that are sent
    /// to HTTPS, or those of clients without the certificate that their site asks for.
    pub(crate) looks_first: bool,
    /// Some pages are objects: their lookups look at these first.
    pub(crate) has_object_pages: bool,
    /// Where its sites are counted.
    pub(crate) counted: Sites,
    origins: Vec<(Arc<OriginGroup>, Rc<Group>)>,
    /// Other caches that are asked before the origins.
    pub(crate) links: Links,
}

impl Config {
    fn new(
        settings: Arc<Settings>,
        counters: &Counters,
        shared: &Shared,
        before: Option<&Config>,
    ) -> Self {
        let mut origins: Vec<(Arc<OriginGroup>, Rc<Group>)> = Vec::new();
        let peers = settings.family.peers.iter().map(|peer| &peer.group);
        for wanted in settings.sites.iter().flat_map(|site| site.origins()).chain(peers) {
            if origins.iter().any(|(known, _)| known == wanted) {
                continue;
            }
            let kept = before.and_then(|b| b.origins.iter().find(|(known, _)| known == wanted));
            let origin = match kept {
                Some((_, origin)) => origin.clone(),
                None => {
                    let counters = |name: &str| counters.origins.of(name);
                    Group::new(wanted.clone(), &shared.groups, counters)
                }
            };
            origins.push((wanted.clone(), origin));
        }
        let counted =
            Sites::new(&counters.sites, settings.sites.iter().map(|site| site.name.as_str()));
        let http = &settings.http;
        let (hit_lines, http2) = (HitLines::new(http), Arc::new(http.http2_limits()));
        let http3 = Arc::new(http.http3_limits());
        let speaks_http3 = settings.https.as_ref().is_some_and(|https| https.http3);
        let port = shared.https_port.load(Ordering::Relaxed);
        let alt_svc = (speaks_http3 && port > 0)
            .then_some(port)
            .map(|port| format!("h3=\":{port}\"; ma={ALTERNATIVE_SECONDS}"));
        let first = |https: &HttpsSettings| https.redirect || https.acme.is_some();
        let looks_first = settings.https.as_ref().is_some_and(first)
            || settings.sites.iter().any(|site| site.client_auth.is_some());
        let file_lines = FileLines::new(http);
        Self {
            hit_lines,
            file_lines,
            http2,
            http3,
            alt_svc,
            looks_first,
            has_object_pages: shared.object_pages.is_some(),
            counted,
            links: Links::new(links(&settings, shared, &origins, before)),
            settings,
            origins,
        }
    }

    /// The site that answers for a host, and its place among the counters.
    pub(crate) fn site_for(&self, host: &str) -> Option<(&Arc<Site>, u16)> {
        let number = self.settings.site_number(host)?;
        Some((self.settings.sites.get(number)?, self.counted.index(number)))
    }

    fn watch_origins(&self) {
        self.origins.iter().for_each(|(_, origin)| origin.watch());
    }

    /// The origin for a request; origins with equal settings share their connections.
    pub(crate) fn origin(&self, site: &Site, policy: &RulePolicy) -> Option<Rc<Group>> {
        let of_rule = policy.handling.as_ref().and_then(|handling| handling.origin.as_ref());
        let wanted = of_rule.unwrap_or(&site.origin);
        self.origins.iter().find(|(known, _)| known == wanted).map(|(_, origin)| origin.clone())
    }
}

/// The peers of the settings; one that stays keeps its socket.
fn links(
    settings: &Settings,
    shared: &Shared,
    origins: &[(Arc<OriginGroup>, Rc<Group>)],
    before: Option<&Config>,
) -> Vec<Rc<Link>> {
    let states = shared.family.take(&settings.family.peers);
    let link = |state: &Arc<PeerState>| {
        let same = |link: &&Rc<Link>| Arc::ptr_eq(&link.state, state);
        if let Some(kept) = before.and_then(|before| before.links.all.iter().find(same)) {
            return Some(kept.clone());
        }
        let group = &state.settings.group;
        let (_, group) = origins.iter().find(|(known, _)| known == group)?;
        Some(Link::new(state.clone(), group.clone()))
    };
    states.iter().filter_map(link).collect()
}

/// One worker's pages.
pub(crate) struct Pages {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: &'static Store,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    /// The fleet pages are shared through.
    pub(crate) remote: Option<Rc<Remote>>,
    pub(crate) tracer: Option<Tracer>,
    /// Files of this machine, ready to be sent.
    pub(crate) files: KeptFiles,
    config: RefCell<Rc<Config>>,
    /// It looks after the origins.
    watches: Cell<bool>,
    /// Compressed forms sent so far.
    forms_sent: Cell<u32>,
}

/// One of so many requests for compressed forms is counted as demand.
const FORM_SAMPLE: u32 = 64;

impl Pages {
    pub(crate) fn new(
        shared: Arc<Shared>,
        store: &'static Store,
        clock: Clock,
        counters: Arc<Counters>,
        settings: Arc<Settings>,
        remote: Option<Rc<Remote>>,
    ) -> Rc<Self> {
        let files = kept_files(&settings, &counters, &shared);
        let config = Rc::new(Config::new(settings, &counters, &shared, None));
        let tracer = shared.tracing.as_ref().map(|tracing| tracing.worker(shared.nonce()));
        Rc::new(Self {
            shared,
            store,
            clock,
            counters,
            remote,
            tracer,
            files,
            config: RefCell::new(config),
            watches: Cell::new(false),
            forms_sent: Cell::new(0),
        })
    }

    /// This worker looks after the origins for all workers, now and after a reload.
    pub(crate) fn watch_origins(&self) {
        self.watches.set(true);
        self.config().watch_origins();
    }

    pub(crate) fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    /// Uses these settings for every request from now on.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        let config = Config::new(settings, &self.counters, &self.shared, Some(&self.config()));
        if self.watches.get() {
            config.watch_origins();
        }
        *self.config.borrow_mut() = Rc::new(config);
        self.shared.findings.forget();
    }

    /// Writes pages.
    pub(crate) fn writer(&self) -> PageWriter<'_> {
        PageWriter { store: self.store, flights: &self.shared.flights, clock: self.clock }
    }

    /// Purges pages, here and in the fleet.
    pub(crate) fn purger(&self, soft: bool) -> Purger<'_> {
        Purger::new(self.writer(), self.shared.tiers(), soft)
    }

    /// Counts a compressed form that is sent. True: its demand is to be reported.
    pub(crate) fn samples_form(&self) -> bool {
        let sent = self.forms_sent.get().wrapping_add(1);
        self.forms_sent.set(sent);
        sent.is_multiple_of(FORM_SAMPLE)
    }

    /// A number that no other call returns.
    pub(crate) fn nonce(&self) -> u64 {
        self.shared.nonce()
    }

    /// The request's part of a trace, if it is recorded.
    #[inline]
    pub(crate) fn trace_of(&self, head: &RequestHead<'_>) -> Option<TraceIds> {
        self.tracer.as_ref()?.begin(head.known.traceparent())
    }
}

/// Divisor of the process's limit of open files: the kept files of all workers take that part of it
/// at the most, clients come first.
const PART_OF_FILES: u64 = 4;

/// One worker's files of this machine, within its part of the memory and of the descriptors.
fn kept_files(settings: &Settings, counters: &Counters, shared: &Shared) -> KeptFiles {
    let workers = settings.threads;
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / PART_OF_FILES;
    let files = usize::try_from(allowed).unwrap_or(usize::MAX).min(settings.http.open_files);
    let limit = (settings.file_memory() / workers as u64, files / workers);
    let (memory, open) = (counters.file_memory.clone(), counters.open_files.clone());
    let budget = Budget::new(limit, memory, open);
    KeptFiles::new(budget, shared.nonce(), shared.watcher.clone())
}
