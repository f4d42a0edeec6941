//! Page of one server: faces, latency, sites, reasons for misses, hottest keys and URLs.

use std::time::Duration;

use larder_metrics::{
    Advice, App as Application, Disk, Histogram, Http, Latencies, Origin, Snapshot,
};
use ratatui::text::Line;

use crate::{
    app::App,
    chart,
    hist::chart_line,
    rates::{ServerState, Span, State, face_between, hit_percent},
    sample::{Sample, hit_percent as site_hit_percent},
    text::{self, count, fit},
};

/// Height of the latency chart in lines.
const CHART: usize = 9;

struct Page<'a> {
    app: &'a App,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl Page<'_> {
    fn line(&mut self, text: &str) {
        self.lines.push(Line::raw(fit(text, self.width)));
    }

    fn head(&mut self, text: &str) {
        self.lines.push(Line::raw(""));
        self.lines.push(Line::styled(fit(text, self.width), self.app.palette.head()));
    }
}

/// All lines of a server's page.
pub(crate) fn lines(app: &App, server: usize, width: usize) -> Vec<Line<'static>> {
    let mut page = Page { app, width, lines: Vec::new() };
    let Some((name, watched)) = app.shown().get(server) else { return page.lines };
    if let State::Down(why) = &watched.state {
        page.lines
            .push(Line::styled(fit(&format!("{name}  DOWN: {why}"), width), app.palette.alarm()));
    }
    let Some(sample) = &watched.last else {
        page.line(&format!("{name}  not seen yet"));
        return page.lines;
    };
    let older = if app.lifetime { None } else { watched.before.as_ref() };
    overview(&mut page, name, watched, sample);
    faces(&mut page, sample, older, watched.span(app.lifetime));
    match &sample.snapshot {
        Some(snapshot) => larder(&mut page, sample, snapshot, older),
        None => {
            page.head("ALL IT SAYS");
            for (name, value) in &sample.lines {
                page.line(&format!("{:<30} {}", name.as_str(), value.as_str()));
            }
        }
    }
    page.lines
}

fn overview(page: &mut Page<'_>, name: &str, watched: &ServerState, sample: &Sample) {
    page.line(&format!(
        "{name}  {} {} {}  up {}",
        sample.kind.name(),
        sample.name.as_str(),
        sample.version.as_str(),
        text::uptime(sample.uptime as u64)
    ));
    let used = text::bytes(sample.used as f64);
    let used = match sample.budget {
        Some(budget) => format!(
            "{used} of {} used ({})",
            text::bytes(budget as f64),
            text::percent(sample.used as f64 * 100.0 / budget as f64)
        ),
        None => format!("{used} used, no limit"),
    };
    let time = watched.took().map_or_else(|| "-".to_owned(), text::time);
    let connections = text::counted(sample.connections, "connection", "connections");
    page.line(&format!("{used}  {connections}  answered in {time}"));
}

fn faces(page: &mut Page<'_>, sample: &Sample, older: Option<&Sample>, span: Option<Span>) {
    let Some(span) = span else {
        page.line("rates come with the second look");
        return;
    };
    let since = if page.app.lifetime { "since its start" } else { "in the last interval" };
    page.head(&format!("FACE       CONN HIT %  GETS/s SETS/s READ/s WRITE/s   {since}"));
    for face in &sample.faces {
        let did = face_between(older, face);
        let rate = |n: u64| count(span.rate(n));
        page.line(&format!(
            "{:<9} {:>5} {:>5} {:>7} {:>6} {:>6} {:>7}",
            face.name,
            face.connections,
            hit_percent(did).map_or_else(|| "-".to_owned(), |hit| format!("{hit:.1}")),
            rate(did.gets),
            rate(did.sets),
            text::bytes(span.rate(did.read)),
            text::bytes(span.rate(did.written)),
        ));
    }
    let commands = crate::sample::COMMANDS.iter().zip(span.commands).filter(|(_, n)| *n > 0);
    let commands: Vec<String> =
        commands.map(|(name, n)| format!("{name} {}", count(span.rate(n)))).collect();
    if !commands.is_empty() {
        page.line(&commands.join("  "));
    }
}

fn larder(page: &mut Page<'_>, sample: &Sample, snapshot: &Snapshot, older: Option<&Sample>) {
    let before = older.and_then(|older| older.snapshot.as_deref());
    advice(page, snapshot);
    if let Some(http) = &snapshot.http {
        let before = before.and_then(|before| before.http.as_ref());
        latency(page, http, before);
        sites(page, http, before);
        why_missed(page, http, before);
        origins(page, http);
    }
    apps(page, snapshot);
    let objects = [("memcached", &snapshot.memcached), ("redis", &snapshot.redis)];
    for (name, face) in objects {
        if let Some(face) = face.as_ref().filter(|face| face.latency.count() > 0) {
            page.head(&format!("{} LATENCY since its start", name.to_uppercase()));
            page.line(&quantiles(&face.latency));
        }
    }
    page.head("MEMORY          ITEMS  BYTES EVICTED");
    for space in &snapshot.memory.namespaces {
        page.line(&format!(
            "{:<14} {:>6} {:>6} {:>7}",
            fit(&space.name, 14),
            count(space.items as f64),
            text::bytes(space.bytes as f64),
            count(space.evictions as f64)
        ));
    }
    disk(page, snapshot);
    queues(page, snapshot);
    remote(page, snapshot);
    hottest(page, sample);
}

/// Causes of misses that are shown.
const CAUSES: usize = 4;

fn advice(page: &mut Page<'_>, snapshot: &Snapshot) {
    let states = text::states(snapshot);
    if snapshot.advice.is_empty() && states.is_empty() {
        return;
    }
    page.head("ADVICE of the last minutes");
    states.iter().for_each(|line| page.line(line));
    for cause in snapshot.advice.iter().take(CAUSES) {
        let Advice { site, reason, requests, of, text, setting, urls } = cause;
        page.line(&format!("{site}: {requests} of {of} misses, {reason}"));
        page.line(&format!("  {text}"));
        if !setting.is_empty() {
            page.line(&format!("  {setting}"));
        }
        page.line(&format!("  {}", urls.join(" ")));
    }
}

fn latency(page: &mut Page<'_>, http: &Http, before: Option<&Http>) {
    let before = before.map(|before| before.latency.clone()).unwrap_or_default();
    let hit = http.latency.hit.clone().since(&before.hit);
    let miss = http.latency.miss.clone().since(&before.miss);
    page.head("HTTP LATENCY");
    page.line(&format!("hits:   {}", quantiles(&hit)));
    page.line(&format!("misses: {}", quantiles(&miss)));
    for protocol in http.protocols.iter().filter(|protocol| protocol.name != "HTTP/1") {
        let Latencies { hit, miss } = &protocol.latency;
        for (from, times) in [("hits", hit), ("misses", miss)].iter().filter(|of| of.1.count() > 0)
        {
            page.line(&format!("{} {from}, since the start: {}", protocol.name, quantiles(times)));
        }
    }
    for line in chart::draw(&hit, &miss, page.width, CHART) {
        page.lines.push(chart_line(&line, page.app.palette));
    }
}

fn quantiles(histogram: &Histogram) -> String {
    let shown = |per_mille| text::quantile(histogram, per_mille);
    let count = histogram.count();
    format!("{count} in all, 50% {}, 90% {}, 99% {}", shown(500), shown(900), shown(990))
}

fn sites(page: &mut Page<'_>, http: &Http, before: Option<&Http>) {
    page.head("SITE                 REQUESTS HIT %  SENT   HIT 50%  MISS 50%");
    for site in &http.sites {
        let old = before.and_then(|before| before.sites.iter().find(|old| old.name == site.name));
        let results = site.results.since(&old.map(|old| old.results).unwrap_or_default());
        page.line(&format!(
            "{:<20} {:>8} {:>5} {:>5} {:>9} {:>9}",
            fit(&site.name, 20),
            count(site.requests.saturating_sub(old.map_or(0, |old| old.requests)) as f64),
            site_hit_percent(&results).map_or_else(|| "-".to_owned(), |hit| format!("{hit:.1}")),
            text::bytes(site.bytes_out.saturating_sub(old.map_or(0, |old| old.bytes_out)) as f64),
            text::quantile(&site.latency.hit, 500),
            text::quantile(&site.latency.miss, 500),
        ));
    }
}

fn why_missed(page: &mut Page<'_>, http: &Http, before: Option<&Http>) {
    let old = |why: &str| before.map_or(0, |before| before.why_missed.get(why));
    let counts = http.why_missed.iter().map(|(why, n)| (why, n.saturating_sub(old(why))));
    let mut counts: Vec<_> = counts.filter(|(_, n)| *n > 0).collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let all = counts.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
    page.head("WHY MISSED");
    if counts.is_empty() {
        page.line("nothing was");
    }
    for (why, n) in counts {
        page.line(&format!(
            "{:<16} {:>6} {:>6}",
            why,
            count(n as f64),
            text::percent(n as f64 * 100.0 / all as f64)
        ));
    }
}

fn origins(page: &mut Page<'_>, http: &Http) {
    page.head("ORIGIN (since its start)   STATE  NOW REQUESTS FAILED ELSEWHERE OPEN BYTE 1 50%");
    for origin in &http.origins {
        page.line(&format!(
            "{:<26} {:<5} {:>4} {:>8} {:>6} {:>9} {:>4} {:>10}",
            fit(&origin.name, 26),
            state(origin),
            count(origin.under_way as f64),
            count(origin.requests as f64),
            count(origin.failures.total() as f64),
            count(origin.sent_elsewhere as f64),
            origin.connections_open,
            text::quantile(&origin.ttfb, 500),
        ));
    }
}

/// Whether a server gets requests; one that several origins have may get those of some.
fn state(origin: &Origin) -> String {
    match (origin.healthy, origin.servers) {
        // No settings have it any more.
        (_, 0) => "-".to_owned(),
        (healthy, servers) if healthy == servers => "in".to_owned(),
        (0, _) => "out".to_owned(),
        (healthy, servers) => format!("{healthy}/{servers}"),
    }
}

/// Applications that the Larder runs.
fn apps(page: &mut Page<'_>, snapshot: &Snapshot) {
    if snapshot.apps.is_empty() {
        return;
    }
    page.head("APPLICATION (since its start) STATE    RUN WAIT REQUESTS RESTARTS FAILED MEMORY");
    for app in &snapshot.apps {
        page.line(&format!(
            "{:<29} {:<7} {:>4} {:>4} {:>8} {:>8} {:>6} {:>6}",
            fit(&app.name, 29),
            app_state(app),
            format!("{}/{}", app.processes, app.wanted),
            count(app.waiting as f64),
            count(app.requests as f64),
            count(app.restarts as f64),
            count(app.failures as f64),
            text::bytes(app.memory as f64),
        ));
        if let Some(reason) = app.reason.as_ref().filter(|_| app.restarts + app.failures > 0) {
            page.line(&format!("  last end: {reason}"));
        }
    }
}

/// Whether an application answers: `queue` where more requests wait than it has processes.
fn app_state(app: &Application) -> &'static str {
    match (app.failing > 0, app.processes) {
        (true, _) => "failing",
        (false, 0) => "down",
        (false, processes) if app.waiting > processes => "queue",
        _ => "up",
    }
}

fn disk(page: &mut Page<'_>, snapshot: &Snapshot) {
    let Some(disk) = &snapshot.disk else { return };
    page.head("DISK (since its start)    USED   SIZE  PAGES LOOKUPS  HIT % WRITTEN  AMPL.");
    page.line(&format!(
        "{:<23} {:>6} {:>6} {:>6} {:>7} {:>6} {:>7} {:>6}",
        disk_state(disk),
        text::bytes(disk.used as f64),
        text::bytes(disk.size as f64),
        count(disk.entries as f64),
        count(disk.lookups as f64),
        tenths(disk.hits as f64 * 100.0, disk.lookups),
        text::bytes(disk.written as f64),
        tenths(disk.written as f64, disk.accepted),
    ));
    if disk.reads.count() > 0 {
        page.line(&quantiles(&disk.reads));
    }
}

/// Queues that are shown: those with the most items that wait.
const QUEUES: usize = 20;

fn queues(page: &mut Page<'_>, snapshot: &Snapshot) {
    let Some(queues) = &snapshot.queues else { return };
    page.head(
        "QUEUE (since its start)    ITEMS  BYTES  OPEN    AGE   ADDED   TAKEN REFUSED FAILED",
    );
    let mut largest: Vec<_> = queues.largest.iter().collect();
    largest.sort_by_key(|queue| std::cmp::Reverse(queue.items));
    for queue in largest.iter().take(QUEUES) {
        page.line(&format!(
            "{:<24} {:>7} {:>6} {:>5} {:>6} {:>7} {:>7} {:>7} {:>6}",
            fit(&queue.name, 24),
            count(queue.items as f64),
            text::bytes(queue.bytes as f64),
            count(queue.open as f64),
            text::time(Duration::from_millis(queue.age_ms)),
            count(queue.added as f64),
            count(queue.taken as f64),
            count(queue.refused.saturating_add(queue.discarded) as f64),
            count(queue.failed.saturating_add(queue.damaged) as f64),
        ));
    }
    page.line(&format!(
        "{}, {} of {}, {} of them in memory, {} of journals; {}{}",
        text::counted(queues.count, "queue", "queues"),
        text::counted(queues.items, "item", "items"),
        text::bytes(queues.bytes as f64),
        text::bytes(queues.memory as f64),
        text::bytes(queues.journal as f64),
        text::counted(queues.waiting, "reader waits", "readers wait"),
        match queues.failures {
            0 => String::new(),
            failures => format!("; {} FAILED WRITES", count(failures as f64)),
        },
    ));
}

/// A ratio with one decimal; `-`: there is nothing to divide by.
fn tenths(part: f64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", part / whole as f64) }
}

/// Whether the disk is in use, and whether all that is on it is known yet.
fn disk_state(disk: &Disk) -> &'static str {
    match (disk.up, disk.load_ms) {
        (0, _) => "off",
        (_, 0) => "loading",
        _ => "up",
    }
}

fn remote(page: &mut Page<'_>, snapshot: &Snapshot) {
    let Some(remote) = &snapshot.remote else { return };
    page.head("REMOTE (since its start)  STATE   LOOKUPS  HITS TIMEOUTS ERRORS");
    for server in &remote.servers {
        page.line(&format!(
            "{:<25} {:<8} {:>6} {:>5} {:>8} {:>6}",
            fit(&server.name, 25),
            fit(&server.state, 8),
            count(server.lookups as f64),
            count(server.hits as f64),
            count(server.timeouts as f64),
            count(server.errors as f64),
        ));
    }
}

fn hottest(page: &mut Page<'_>, sample: &Sample) {
    let Some(details) = &sample.details else { return };
    if !details.urls.urls.is_empty() {
        page.head("REQUESTS HIT %   MEAN HOTTEST URLS (estimates)");
        for hot in &details.urls.urls {
            let hit = hot.hits as f64 * 100.0 / hot.requests.max(1) as f64;
            page.line(&format!(
                "{:>8} {:>5.1} {:>6} {}",
                count(hot.requests as f64),
                hit.clamp(0.0, 100.0),
                text::time(Duration::from_micros(hot.mean_us)),
                hot.url
            ));
        }
    }
    for (face, keys) in
        [("MEMCACHED", &details.memcached_keys.keys), ("REDIS", &details.redis_keys.keys)]
    {
        if !keys.is_empty() {
            page.head(&format!("    GETS HOTTEST KEYS, {face} (estimates)"));
        }
        for hot in keys {
            page.line(&format!("{:>8} {}", count(hot.gets as f64), hot.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_up_or_says_why_not() {
        for (failing, processes, waiting, expected) in
            [(0, 2, 2, "up"), (0, 2, 3, "queue"), (0, 0, 0, "down"), (1, 1, 0, "failing")]
        {
            let app = Application { failing, processes, waiting, ..Application::default() };
            assert_eq!(app_state(&app), expected);
        }
    }

    #[test]
    fn a_disk_is_off_or_loading_or_up() {
        for (up, load_ms, expected) in
            [(0, 0, "off"), (0, 9, "off"), (1, 0, "loading"), (1, 9, "up")]
        {
            assert_eq!(disk_state(&Disk { up, load_ms, ..Disk::default() }), expected);
        }
        assert_eq!((tenths(125.0, 100), tenths(0.0, 0)), ("1.2".to_owned(), "-".to_owned()));
    }

    #[test]
    fn a_server_is_in_or_out() {
        for (healthy, servers, expected) in
            [(1, 1, "in"), (0, 1, "out"), (1, 2, "1/2"), (2, 2, "in"), (0, 0, "-")]
        {
            let origin = Origin { healthy, servers, ..Origin::default() };
            assert_eq!(state(&origin), expected);
        }
    }
}
