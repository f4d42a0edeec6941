// The tables that follow the snapshots: sites, origins, faces, memory, disk, remote servers, and why requests missed.

import { h, panel, text } from './dom';
import * as f from './format';
import type { Span } from './span';
import { fromMemory, named, quantile, share, since, total } from './span';
import { Bars, Table } from './table';
import type { Histogram, Objects } from './types';
import * as words from './words';

/** A panel that is drawn anew with each span. */
export interface Follows {
    element: HTMLElement;
    update: (span: Span) => void;
}

/** A latency in a table: p50 and p99 of a span. */
const p = (now: Histogram, then: Histogram | undefined, q: number) => f.micros(quantile(now, then, q));

interface SiteRow {
    name: string;
    rate: number;
    ratio: number;
    hit: string;
    miss: string;
    slow: string;
    errors: number;
    bytes: number;
    requests: number;
}

export function sites(): Follows {
    const made = panel('sites', 'Sites');
    const table = new Table<SiteRow>(
        'Sites',
        [
            { head: 'Site', kind: 'url', cell: (row) => row.name },
            { head: 'Requests', kind: 'n', cell: (row) => f.rate(row.rate) },
            { head: 'Hit ratio', kind: 'n', cell: (row) => f.percent(row.ratio) },
            { head: 'Hit p99', kind: 'n', cell: (row) => row.hit, minor: true },
            { head: 'Miss p50', kind: 'n', cell: (row) => row.miss, minor: true },
            { head: 'Miss p99', kind: 'n', cell: (row) => row.slow },
            { head: '5xx', kind: 'n', cell: (row) => f.count(row.errors), mark: (row) => (row.errors > 0 ? 'bad' : '') },
            { head: 'Sent', kind: 'n', cell: (row) => `${f.bytes(row.bytes)}/s`, minor: true },
            { head: 'Total', meaning: 'requests since the start', kind: 'n', cell: (row) => f.count(row.requests) },
        ],
        (row) => row.name,
        'No HTTP requests yet.',
    );
    made.body.append(table.element);
    const update = ({ now, then, seconds }: Span) => {
        // What reached no site, or no site counted by name, is worth a row only when there is any.
        const counted = (now.http?.sites ?? []).filter((site) => site.requests > 0 || !['-', 'other'].includes(site.name));
        const rows = counted.map((site): SiteRow => {
            const old = named(then?.http?.sites, site.name);
            const results = since(site.results, old?.results);
            return {
                name: site.name,
                rate: share(site.requests - (old?.requests ?? 0), seconds),
                ratio: share(fromMemory(results), total(results)),
                hit: p(site.latency.hit, old?.latency.hit, 0.99),
                miss: p(site.latency.miss, old?.latency.miss, 0.5),
                slow: p(site.latency.miss, old?.latency.miss, 0.99),
                errors: (site.status['5xx'] ?? 0) - (old?.status['5xx'] ?? 0),
                bytes: share(site.bytes_out - (old?.bytes_out ?? 0), seconds),
                requests: site.requests,
            };
        });
        table.update(rows.sort((a, b) => b.requests - a.requests).slice(0, 100));
    };
    return { element: made.element, update };
}

/** Whether a server gets requests; one that several origins have may get those of some. */
export function serverState(origin: { healthy: number; servers: number }): string {
    if (origin.servers === 0) return '–';
    if (origin.healthy === origin.servers) return 'in';
    return origin.healthy === 0 ? 'out' : `${f.count(origin.healthy)} of ${f.count(origin.servers)}`;
}

interface OriginRow {
    name: string;
    state: string;
    now: number;
    elsewhere: number;
    rate: number;
    failed: number;
    reasons: string;
    p50: string;
    p99: string;
    open: string;
}

export function origins(): Follows {
    const made = panel('origins', 'Origins');
    const table = new Table<OriginRow>(
        'Origins',
        [
            { head: 'Origin', kind: 'url', cell: (row) => row.name },
            { head: 'State', meaning: 'in: gets requests; out: taken out for failures, or unwell by its health checks; –: not in the settings any more', kind: 'text', cell: (row) => row.state, mark: (row) => (row.state === 'in' || row.state === '–' ? '' : 'bad') },
            { head: 'Now', meaning: 'requests to it under way', kind: 'n', cell: (row) => f.count(row.now) },
            { head: 'Requests', kind: 'n', cell: (row) => f.rate(row.rate) },
            { head: 'Failed', kind: 'n', cell: (row) => f.count(row.failed), mark: (row) => (row.failed > 0 ? 'bad' : '') },
            { head: 'Elsewhere', meaning: 'requests that failed there and were sent to another server', kind: 'n', cell: (row) => f.count(row.elsewhere), minor: true },
            { head: 'TTFB p50', meaning: 'time to first byte: from the request to the head of the response', kind: 'n', cell: (row) => row.p50 },
            { head: 'p99', kind: 'n', cell: (row) => row.p99 },
            { head: 'Connections', meaning: 'open now, of these idle', kind: 'n', cell: (row) => row.open, minor: true },
            { head: 'Reasons', kind: 'text', cell: (row) => row.reasons, minor: true },
        ],
        (row) => row.name,
        'No request went to an origin yet.',
    );
    made.body.append(table.element);
    const update = ({ now, then, seconds }: Span) => {
        const rows = (now.http?.origins ?? []).map((origin): OriginRow => {
            const old = named(then?.http?.origins, origin.name);
            const failures = since(origin.failures, old?.failures);
            return {
                name: origin.name,
                state: serverState(origin),
                now: origin.under_way,
                elsewhere: origin.sent_elsewhere - (old?.sent_elsewhere ?? 0),
                rate: share(origin.requests - (old?.requests ?? 0), seconds),
                failed: total(failures),
                reasons: Object.entries(failures).map(([reason, n]) => `${reason} ${f.count(n)}`).join(', ') || '–',
                p50: p(origin.ttfb, old?.ttfb, 0.5),
                p99: p(origin.ttfb, old?.ttfb, 0.99),
                open: `${f.count(origin.connections_open)} / ${f.count(origin.connections_idle)}`,
            };
        });
        table.update(rows.slice(0, 100));
    };
    return { element: made.element, update };
}

interface FaceRow {
    name: string;
    gets: number;
    ratio: number;
    sets: number;
    open: number;
    refused: number;
    p50: string;
    p99: string;
    total: number;
}

export function objects(): Follows {
    const made = panel('objects', 'Objects', 'memcached and Redis');
    const table = new Table<FaceRow>(
        'Object faces',
        [
            { head: 'Face', cell: (row) => row.name },
            { head: 'Gets', kind: 'n', cell: (row) => f.rate(row.gets) },
            { head: 'Hit ratio', kind: 'n', cell: (row) => f.percent(row.ratio) },
            { head: 'Sets', kind: 'n', cell: (row) => f.rate(row.sets) },
            { head: 'p50', meaning: 'memcached: of batches of commands; Redis: of commands', kind: 'n', cell: (row) => row.p50, minor: true },
            { head: 'p99', kind: 'n', cell: (row) => row.p99 },
            { head: 'Clients', kind: 'n', cell: (row) => f.count(row.open) },
            { head: 'Total gets', kind: 'n', cell: (row) => f.count(row.total), minor: true },
        ],
        (row) => row.name,
        'No memcached or Redis address is served.',
    );
    made.body.append(table.element);
    const row = (name: string, face: Objects, old: Objects | null | undefined, seconds: number): FaceRow => ({
        name,
        gets: share(face.gets - (old?.gets ?? 0), seconds),
        ratio: share(face.get_hits - (old?.get_hits ?? 0), face.gets - (old?.gets ?? 0)),
        sets: share(face.sets - (old?.sets ?? 0), seconds),
        open: face.connections.open,
        refused: face.connections.refused,
        p50: p(face.latency, old?.latency, 0.5),
        p99: p(face.latency, old?.latency, 0.99),
        total: face.gets,
    });
    const update = ({ now, then, seconds }: Span) => {
        const rows: FaceRow[] = [];
        if (now.memcached !== null) rows.push(row('memcached', now.memcached, then?.memcached, seconds));
        if (now.redis !== null) rows.push(row('redis', now.redis, then?.redis, seconds));
        table.update(rows);
    };
    return { element: made.element, update };
}

interface SpaceRow {
    name: string;
    items: number;
    bytes: number;
    evicted: number;
    expired: number;
    limits: string;
}

export function memory(): Follows {
    const made = panel('memory', 'Memory');
    const table = new Table<SpaceRow>(
        'Memory by namespace',
        [
            { head: 'Namespace', cell: (row) => row.name },
            { head: 'Entries', kind: 'n', cell: (row) => f.count(row.items) },
            { head: 'Bytes', kind: 'n', cell: (row) => f.bytes(row.bytes) },
            { head: 'Evicted', meaning: 'entries that went because memory was needed', kind: 'n', cell: (row) => f.rate(row.evicted) },
            { head: 'Expired', kind: 'n', cell: (row) => f.rate(row.expired) },
            { head: 'Floor – ceiling', kind: 'n', cell: (row) => row.limits, minor: true },
        ],
        (row) => row.name,
        'Nothing is stored.',
    );
    const used = h('i', { class: 'used' });
    const live = h('i', { class: 'live' });
    const gauge = h('div', { class: 'gauge', 'aria-hidden': 'true' }, used, live);
    const said = h('p', { class: 'said' }, '–');
    made.body.append(gauge, said, table.element);
    const update = ({ now, then, seconds }: Span) => {
        const { budget, payload, fragmentation, resident, namespaces } = now.memory;
        used.style.width = `${(100 * share(now.memory.used, budget)).toFixed(2)}%`;
        live.style.width = `${(100 * share(payload, budget)).toFixed(2)}%`;
        text(
            said,
            `${f.bytes(now.memory.used)} of ${f.bytes(budget)} used, ${f.bytes(payload)} of it keys and values, ` +
                `${f.percent(fragmentation)} fragmentation; process ${f.bytes(resident)} resident`,
        );
        table.update(
            namespaces.map((space) => {
                const old = named(then?.memory.namespaces, space.name);
                return {
                    name: space.name,
                    items: space.items,
                    bytes: space.bytes,
                    evicted: share(space.evictions - (old?.evictions ?? 0), seconds),
                    expired: share(space.expired - (old?.expired ?? 0), seconds),
                    limits: `${f.bytes(space.floor ?? 0)} – ${f.bytes(space.ceiling ?? budget)}`,
                };
            }),
        );
    };
    return { element: made.element, update };
}

interface RemoteRow {
    name: string;
    state: string;
    rate: number;
    ratio: number;
    timeouts: number;
    errors: number;
    p50: string;
    p99: string;
    dropped: number;
}

interface AppRow {
    name: string;
    state: string;
    processes: string;
    waiting: number;
    rate: number;
    restarts: number;
    replaced: number;
    failures: number;
    memory: number;
    reason: string;
}

/** Whether an application answers. */
export function appState(app: { failing: number; processes: number; waiting: number }): string {
    if (app.failing > 0) return 'failing';
    if (app.processes === 0) return 'down';
    return app.waiting > app.processes ? 'queue' : 'up';
}

/** Applications that Larder runs; hidden while there are none. */
export function apps(): Follows {
    const made = panel('apps', 'Applications');
    made.element.hidden = true;
    const table = new Table<AppRow>(
        'Applications',
        [
            { head: 'Application', kind: 'text', cell: (row) => row.name },
            { head: 'State', meaning: 'up: it answers; queue: more requests wait than it has processes; down: no process runs; failing: its processes end again and again', kind: 'text', cell: (row) => row.state, mark: (row) => (row.state === 'up' ? '' : 'bad') },
            { head: 'Processes', meaning: 'that run, of those that are wanted', kind: 'n', cell: (row) => row.processes },
            { head: 'Waiting', meaning: 'requests sent to it whose answer has not begun', kind: 'n', cell: (row) => f.count(row.waiting) },
            { head: 'Requests', kind: 'n', cell: (row) => f.rate(row.rate) },
            { head: 'Restarts', meaning: 'processes that ended by themselves and were started again', kind: 'n', cell: (row) => f.count(row.restarts), mark: (row) => (row.restarts > 0 ? 'bad' : '') },
            { head: 'Replaced', meaning: 'processes that were replaced by a reload, their age or a number of requests', kind: 'n', cell: (row) => f.count(row.replaced), minor: true },
            { head: 'Failed starts', kind: 'n', cell: (row) => f.count(row.failures), mark: (row) => (row.failures > 0 ? 'bad' : ''), minor: true },
            { head: 'Memory', meaning: 'resident memory of its processes', kind: 'n', cell: (row) => f.bytes(row.memory) },
            { head: 'Last end', meaning: 'why a process ended last', kind: 'text', cell: (row) => row.reason, minor: true },
        ],
        (row) => row.name,
        'No applications.',
    );
    made.body.append(table.element);
    const update = ({ now, then, seconds }: Span) => {
        made.element.hidden = (now.apps ?? []).length === 0;
        const rows = (now.apps ?? []).map((app): AppRow => {
            const old = named(then?.apps, app.name);
            return {
                name: app.name,
                state: appState(app),
                processes: `${f.count(app.processes)} / ${f.count(app.wanted)}`,
                waiting: app.waiting,
                rate: share(app.requests - (old?.requests ?? 0), seconds),
                restarts: app.restarts - (old?.restarts ?? 0),
                replaced: app.replaced - (old?.replaced ?? 0),
                failures: app.failures - (old?.failures ?? 0),
                memory: app.memory,
                reason: app.reason ?? '–',
            };
        });
        table.update(rows.slice(0, 100));
    };
    return { element: made.element, update };
}

interface DiskRow {
    state: string;
    used: string;
    entries: number;
    rate: number;
    ratio: number;
    p50: string;
    p99: string;
    written: number;
    amplification: string;
    evicted: number;
    failures: number;
}

/** Whether the disk is in use, and whether all that is on it is known. */
export function diskState(disk: { up: number; load_ms: number }): string {
    if (disk.up === 0) return 'off';
    return disk.load_ms === 0 ? 'loading' : 'up';
}

/** Hidden while there is no disk. */
export function disk(): Follows {
    const made = panel('disk', 'Disk');
    made.element.hidden = true;
    const table = new Table<DiskRow>(
        'Disk',
        [
            { head: 'State', meaning: 'loading: what is there is not all known yet; off: it failed, and is tried again', kind: 'state', cell: (row) => row.state, mark: (row) => (row.state === 'off' ? 'bad' : 'good') },
            { head: 'Used', kind: 'n', cell: (row) => row.used },
            { head: 'Pages', kind: 'n', cell: (row) => f.count(row.entries) },
            { head: 'Lookups', kind: 'n', cell: (row) => f.rate(row.rate) },
            { head: 'Hit ratio', kind: 'n', cell: (row) => f.percent(row.ratio) },
            { head: 'Read p50', kind: 'n', cell: (row) => row.p50, minor: true },
            { head: 'p99', kind: 'n', cell: (row) => row.p99 },
            { head: 'Written', kind: 'n', cell: (row) => `${f.bytes(row.written)}/s` },
            { head: 'Amplification', meaning: 'bytes written for one that was accepted, since the start', kind: 'n', cell: (row) => row.amplification, minor: true },
            { head: 'Evicted', kind: 'n', cell: (row) => f.count(row.evicted), minor: true },
            { head: 'Failures', kind: 'n', cell: (row) => f.count(row.failures), mark: (row) => (row.failures > 0 ? 'bad' : '') },
        ],
        () => 'disk',
        'No disk.',
    );
    made.body.append(table.element);
    const update = ({ now, then, seconds }: Span) => {
        made.element.hidden = now.disk === null;
        if (now.disk === null) return;
        const [own, old] = [now.disk, then?.disk];
        const lookups = own.lookups - (old?.lookups ?? 0);
        table.update([
            {
                state: diskState(own),
                used: `${f.bytes(own.used)} / ${f.bytes(own.size)}`,
                entries: own.entries,
                rate: share(lookups, seconds),
                ratio: share(own.hits - (old?.hits ?? 0), lookups),
                p50: p(own.reads, old?.reads, 0.5),
                p99: p(own.reads, old?.reads, 0.99),
                written: share(own.written - (old?.written ?? 0), seconds),
                amplification: own.accepted > 0 ? (own.written / own.accepted).toFixed(2) : '–',
                evicted: own.evicted - (old?.evicted ?? 0),
                failures: own.failures - (old?.failures ?? 0),
            },
        ]);
    };
    return { element: made.element, update };
}

/** Hidden while there is no remote tier. */
export function remote(): Follows {
    const made = panel('remote', 'Remote servers');
    made.element.hidden = true;
    const table = new Table<RemoteRow>(
        'Remote servers',
        [
            { head: 'Server', kind: 'url', cell: (row) => row.name },
            { head: 'State', kind: 'state', cell: (row) => row.state, mark: (row) => (row.state === 'up' ? 'good' : 'bad') },
            { head: 'Lookups', kind: 'n', cell: (row) => f.rate(row.rate) },
            { head: 'Hit ratio', kind: 'n', cell: (row) => f.percent(row.ratio) },
            { head: 'Timeouts', kind: 'n', cell: (row) => f.count(row.timeouts), mark: (row) => (row.timeouts > 0 ? 'bad' : '') },
            { head: 'Errors', kind: 'n', cell: (row) => f.count(row.errors), minor: true },
            { head: 'p50', kind: 'n', cell: (row) => row.p50, minor: true },
            { head: 'p99', kind: 'n', cell: (row) => row.p99 },
            { head: 'Writes dropped', kind: 'n', cell: (row) => f.count(row.dropped), minor: true },
        ],
        (row) => row.name,
        'No remote servers.',
    );
    made.body.append(table.element);
    const update = ({ now, then, seconds }: Span) => {
        made.element.hidden = now.remote === null;
        const rows = (now.remote?.servers ?? []).map((server): RemoteRow => {
            const old = named(then?.remote?.servers, server.name);
            const lookups = server.lookups - (old?.lookups ?? 0);
            return {
                name: server.name,
                state: server.state,
                rate: share(lookups, seconds),
                ratio: share(server.hits - (old?.hits ?? 0), lookups),
                timeouts: server.timeouts - (old?.timeouts ?? 0),
                errors: server.errors - (old?.errors ?? 0),
                p50: p(server.latency, old?.latency, 0.5),
                p99: p(server.latency, old?.latency, 0.99),
                dropped: server.writes_dropped - (old?.writes_dropped ?? 0),
            };
        });
        table.update(rows.slice(0, 200));
    };
    return { element: made.element, update };
}

/** Requests by result, why they missed, and why answers were not stored. */
export function misses(): Follows {
    const made = panel('misses', 'Why missed');
    const parts = [
        { title: 'Results', bars: new Bars('No requests.', words.result), of: (s: Span) => since(s.now.http?.results, s.then?.http?.results) },
        { title: 'Why it went to the origin', bars: new Bars('No misses.', words.whyMissed), of: (s: Span) => since(s.now.http?.why_missed, s.then?.http?.why_missed) },
        { title: 'Not stored because', bars: new Bars('Everything was stored.', words.notStored), of: (s: Span) => since(s.now.http?.not_stored, s.then?.http?.not_stored) },
    ];
    made.body.classList.add('thirds');
    for (const part of parts) made.body.append(h('div', {}, h('h3', {}, part.title), part.bars.element));
    const update = (span: Span) => {
        // Without requests there is nothing to praise.
        const [all, missed] = [total(parts[0]?.of(span)), total(parts[1]?.of(span))];
        for (const part of parts) {
            const nothing = all === 0 ? 'No requests in this time.' : part.title === 'Not stored because' && missed === 0 ? 'No misses.' : undefined;
            part.bars.update(part.of(span), (n, of) => `${f.count(n)} · ${f.percent(of)}`, nothing);
        }
    };
    return { element: made.element, update };
}

interface QueueRow {
    name: string;
    items: number;
    bytes: number;
    open: number;
    age: string;
    added: number;
    taken: number;
    refused: number;
    failed: number;
    aborted: number;
    expired: number;
    journal: number;
}

/** The queue face: the queues with the most items that wait. Hidden while it is not served. */
export function queues(): Follows {
    const made = panel('queues', 'Queues');
    made.element.hidden = true;
    const table = new Table<QueueRow>(
        'Queues',
        [
            { head: 'Queue', kind: 'text', cell: (row) => row.name },
            { head: 'Items', meaning: 'items that wait', kind: 'n', cell: (row) => f.count(row.items) },
            { head: 'Bytes', kind: 'n', cell: (row) => f.bytes(row.bytes), minor: true },
            { head: 'Open', meaning: 'items that readers have opened and not closed', kind: 'n', cell: (row) => f.count(row.open) },
            { head: 'Age', meaning: 'how long the item read last had waited', kind: 'n', cell: (row) => row.age },
            { head: 'Added', kind: 'n', cell: (row) => f.rate(row.added) },
            { head: 'Taken', kind: 'n', cell: (row) => f.rate(row.taken) },
            { head: 'Refused', meaning: 'items refused or discarded, since the queue was full', kind: 'n', cell: (row) => f.count(row.refused), mark: (row) => (row.refused > 0 ? 'bad' : '') },
            { head: 'Failed', meaning: 'items that were aborted too often, or whose bytes on disk were damaged', kind: 'n', cell: (row) => f.count(row.failed), mark: (row) => (row.failed > 0 ? 'bad' : '') },
            { head: 'Aborted', meaning: 'open reads that ended by /abort, or by a reader that left', kind: 'n', cell: (row) => f.count(row.aborted), minor: true },
            { head: 'Expired', kind: 'n', cell: (row) => f.count(row.expired), minor: true },
            { head: 'Journal', kind: 'n', cell: (row) => f.bytes(row.journal), minor: true },
        ],
        (row) => row.name,
        'No queues.',
    );
    const said = h('p', { class: 'said' }, '–');
    made.body.append(said, table.element);
    const update = ({ now, then, seconds }: Span) => {
        const all = now.queues ?? null;
        made.element.hidden = all === null;
        if (all === null) return;
        const failures = all.failures - (then?.queues?.failures ?? 0);
        text(
            said,
            `${f.counted(all.items, 'item')} of ${f.bytes(all.bytes)} in ${f.counted(all.count, 'queue')}, ${f.bytes(all.memory)} in memory, ` +
                `${f.bytes(all.journal)} of journals; ${f.counted(all.waiting, 'reader waits', 'readers wait')}` +
                (failures > 0 ? `; ${f.counted(failures, 'failed write')}: see standard error` : ''),
        );
        const rows = [...all.largest].sort((a, b) => b.items - a.items).slice(0, 20);
        table.update(
            rows.map((queue): QueueRow => {
                const old = named(then?.queues?.largest, queue.name);
                const grown = (figure: (of: typeof queue) => number) => figure(queue) - (old ? figure(old) : 0);
                return {
                    name: queue.name,
                    items: queue.items,
                    bytes: queue.bytes,
                    open: queue.open,
                    age: f.seconds(queue.age_ms / 1000),
                    added: share(grown((of) => of.added), seconds),
                    taken: share(grown((of) => of.taken), seconds),
                    refused: grown((of) => of.refused + of.discarded),
                    failed: grown((of) => of.failed + of.damaged),
                    aborted: grown((of) => of.aborted),
                    expired: grown((of) => of.expired),
                    journal: queue.journal,
                };
            }),
        );
    };
    return { element: made.element, update };
}
