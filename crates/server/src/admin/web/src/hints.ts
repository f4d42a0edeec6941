// What to do: plain advice computed from the figures of a span. Pure, so that every rule can be tested by its numbers.

import * as f from './format';
import type { Span } from './span';
import { fromMemory, named, quantile, recorded, share, since, total } from './span';
import type { Counts, Http } from './types';

export interface Hint {
    level: 'bad' | 'warn' | 'info' | 'calm';
    title: string;
    /** What it is about, where the title has a number in it. */
    topic?: string;
    advice: string;
    /** The setting that mends it, to copy. */
    setting?: string;
    /** URLs that show it. */
    evidence?: string[];
    /** Where the documents say more. */
    docs: string;
}

/** Fewer requests than this say nothing about ratios. */
const ENOUGH = 100;

/** Seconds of figures before anything is judged. */
const PATIENCE = 10;
/** A certificate from a file is spoken of so many days before its end. */
const DAYS = 14;
/** Advice stays for so long after its cause was last seen: a page that jumps every second cannot be read. */
const HOLD_MS = 20_000;

const NOTHING_YET: Hint = {
    level: 'calm',
    title: 'No requests yet',
    advice: 'Send one through one of Larder’s HTTP addresses, and it shows here within a second.',
    docs: 'docs/operations.md',
};
const LOOKING: Hint = {
    level: 'calm',
    title: 'Looking…',
    advice: `Advice is computed from the last minute; it needs ${PATIENCE} seconds of figures.`,
    docs: 'docs/dashboard.md',
};
const FINE: Hint = { level: 'calm', title: 'Nothing to do', advice: 'No figure of the last minute stands out.', docs: 'docs/dashboard.md' };

/** Advice as time goes on: the same words do not come and go with every second. */
export class Advice {
    private held = new Map<string, { hint: Hint; until: number }>();

    /** What to say of the last minute; always something. */
    about(span: Span): Hint[] {
        if (span.now.http !== null && span.now.http.requests === 0) return [NOTHING_YET];
        const now = span.now.now_ms;
        for (const hint of causes(span)) this.held.set(hint.topic ?? hint.title, { hint, until: now + HOLD_MS });
        if (span.seconds >= PATIENCE) {
            for (const hint of hints(span)) this.held.set(hint.topic ?? hint.title, { hint, until: now + HOLD_MS });
        }
        for (const [topic, { until }] of this.held) {
            if (until < now) this.held.delete(topic);
        }
        if (this.held.size > 0) return worstFirst([...this.held.values()].map(({ hint }) => hint));
        return [span.seconds < PATIENCE ? LOOKING : FINE];
    }
}

/** The advice for a span, worst first. */
export function hints(span: Span): Hint[] {
    const found = [reload, descriptors, originFailures, serversOut, errors, memory, ratio, notStored, refusedConnections, certificates, disk, remote, loopDelay, slowLog]
        .map((rule) => rule(span))
        .filter((hint): hint is Hint => hint !== null);
    return worstFirst([...found, ...causes(span)]);
}

/** Causes of misses as the server found them, each with its pages and its setting. */
function causes({ now }: Span): Hint[] {
    return (now.advice ?? []).map((cause) => ({
        level: 'warn',
        topic: `${cause.site} ${cause.reason}`,
        title: `${cause.site}: ${f.percent(share(cause.requests, cause.of))} of what missed: ${cause.reason}`,
        advice: cause.text,
        ...(cause.setting === '' ? {} : { setting: cause.setting }),
        evidence: cause.urls,
        docs: 'docs/operations.md',
    }));
}

function worstFirst(list: Hint[]): Hint[] {
    const order = ['bad', 'warn', 'info', 'calm'];
    return list.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}

function reload({ now }: Span): Hint | null {
    if (!now.conditions?.reload_failed) return null;
    return {
        level: 'bad',
        title: 'The last reload failed',
        advice: 'The configuration in use is an older one. larder check says what is wrong with the file; standard error of the server has the reason too.',
        docs: 'docs/operations.md, “Change the configuration while it runs”',
    };
}

function descriptors({ now }: Span): Hint | null {
    if (!now.conditions?.descriptors_short) return null;
    return {
        level: 'bad',
        title: 'No descriptor is left',
        advice: 'New connections wait and files cannot be opened. Raise ulimit -n (LimitNOFILE of the service), or lower http.limits.connections.',
        docs: 'docs/operations.md, “What happens at each limit”',
    };
}

function originFailures({ now, then }: Span): Hint | null {
    let worst: { name: string; failed: number; of: number; reason: string } | null = null;
    for (const origin of now.http?.origins ?? []) {
        const before = named(then?.http?.origins, origin.name);
        const reasons = since(origin.failures, before?.failures);
        const failed = total(reasons);
        if (failed > (worst?.failed ?? 0)) {
            worst = { name: origin.name, failed, of: origin.requests - (before?.requests ?? 0), reason: largest(reasons) };
        }
    }
    if (worst === null) return null;
    return {
        level: worst.failed > worst.of * 0.05 ? 'bad' : 'warn',
        title: `Origin ${worst.name} fails`,
        advice: `${f.count(worst.failed)} of ${f.count(worst.of)} requests to it failed, mostly “${worst.reason}”. Look whether it runs and answers in time; keep and disconnected let stored pages bridge the gap.`,
        docs: 'docs/operations.md, “What happens at each limit”',
    };
}

function serversOut({ now }: Span): Hint | null {
    const out = (now.http?.origins ?? []).filter((origin) => origin.healthy < origin.servers);
    if (out.length === 0) return null;
    return {
        level: 'warn',
        title: out.length === 1 ? `Server ${out[0]?.name ?? ''} is out` : `${f.count(out.length)} servers of origins are out`,
        advice: `${out.map((origin) => origin.name).slice(0, 3).join(', ')}: they failed several times in a row, or their health checks fail. Requests go to other servers; one comes back when it answers again.`,
        docs: 'docs/operations.md, “Several servers behind one site”',
    };
}

function errors({ now, then }: Span): Hint | null {
    const results = difference(now.http, then?.http);
    const failed = results['error'] ?? 0;
    const all = total(results);
    if (failed === 0 || failed < all * 0.01) return null;
    return {
        level: 'bad',
        topic: 'errors',
        title: `${f.percent(share(failed, all))} of requests end in an error`,
        advice: 'Nothing stored could be served instead. keep says how old a page may be that is served when the origin answers with errors, disconnected when it cannot be reached.',
        docs: 'docs/configuration.md, “What becomes of requests”',
    };
}

function memory({ now, then, seconds }: Span): Hint | null {
    const evicted = now.memory.namespaces.reduce(
        (sum, space) => sum + space.evictions - (named(then?.memory.namespaces, space.name)?.evictions ?? 0),
        0,
    );
    const full = share(now.memory.used, now.memory.budget);
    if (!now.conditions?.memory_short && (!(full > 0.9) || evicted / seconds < 1)) return null;
    return {
        level: 'warn',
        title: 'Memory is full',
        advice: `${f.percent(full)} of ${f.bytes(now.memory.budget)} is used and ${f.rate(evicted / seconds)} entries are evicted before they expire. ${now.conditions?.memory_short ? 'Some were read in the last minute: more memory gives more hits.' : 'If the hit ratio is low, raise memory; it can be used in full.'}`,
        docs: 'docs/configuration.md, “Top level”',
    };
}

function ratio({ now, then }: Span): Hint | null {
    const results = difference(now.http, then?.http);
    const all = total(results);
    const found = share(fromMemory(results), all);
    if (all < ENOUGH || found >= 0.7 || (now.advice ?? []).length > 0) return null;
    const why = since(now.http?.why_missed, then?.http?.why_missed);
    const most = largest(why);
    const part = f.percent(share(why[most] ?? 0, total(why)));
    const advice: Record<string, string> = {
        bypass: `${part} of what missed is sent past the cache. Look which rule says pass, and whether bypass_cookies names cookies that every visitor has; those that do not change a page belong in ignore_cookies.`,
        'uri-miss': `${part} of what missed was never stored or is gone. Look at the hottest URLs by misses: parameters that do not change a page (utm_*, fbclid) belong in drop_query; else lifetimes are short or memory is small.`,
        'vary-miss': `${part} of what missed was stored for other request headers. Look at the Vary of these pages in the inspector: Vary: Cookie stores a copy for each visitor unless vary_cookies names the few that matter.`,
        stale: `${part} of what missed was too old. Raise ttl (or max-age at the origin), or grace: then one refresh runs while all are answered.`,
        request: `${part} of what missed was asked anew by the clients' own Cache-Control. client_cache_control = false leaves that to the site.`,
        method: `${part} of what missed was POST or the like, which no cache can answer.`,
    };
    return {
        level: 'warn',
        topic: 'hit ratio',
        title: `Hit ratio is ${f.percent(found)}`,
        advice: advice[most] ?? 'See “Why missed” and “Not stored” below for what stands in the way.',
        docs: 'docs/configuration.md, “What becomes of requests”',
    };
}

function notStored({ now, then }: Span): Hint | null {
    const reasons = since(now.http?.not_stored, then?.http?.not_stored);
    const most = largest(reasons);
    const all = total(difference(now.http, then?.http));
    if ((now.advice ?? []).length > 0 || most !== 'set-cookie' || all < ENOUGH || (reasons[most] ?? 0) < all * 0.1) return null;
    return {
        level: 'info',
        title: 'Answers with Set-Cookie are not stored',
        advice: `${f.count(reasons[most])} answers were not kept because they set a cookie. Keep the origin from setting it on pages that are for everyone; allow_set_cookie stores them with the cookie, which is then everybody's.`,
        docs: 'docs/conformance.md',
    };
}

function refusedConnections({ now, then }: Span): Hint | null {
    const faces = [
        [now.http?.connections, then?.http?.connections],
        [now.memcached?.connections, then?.memcached?.connections],
        [now.redis?.connections, then?.redis?.connections],
    ] as const;
    const refused = faces.reduce((sum, [a, b]) => sum + (a?.refused ?? 0) - (b?.refused ?? 0), 0);
    if (refused <= 0) return null;
    return {
        level: 'bad',
        title: 'Connections are refused',
        advice: `${f.count(refused)} clients found the limit of connections reached. Raise it, or shorten idle timeouts.`,
        docs: 'docs/operations.md, “What happens at each limit”',
    };
}

function certificates({ now }: Span): Hint | null {
    const left = (ends: number): number => (ends - now.now_ms) / 86_400_000;
    const failed = now.certificates.filter((held) => held.reason !== null);
    const ending = now.certificates.filter((held) => held.source === 'file' && left(held.expires_ms) < DAYS);
    const worst = failed[0] ?? ending[0];
    if (worst === undefined) return null;
    const missing = worst.source === 'self-signed' || left(worst.expires_ms) < 0;
    return {
        level: missing ? 'bad' : 'warn',
        topic: 'certificates',
        title: worst.reason === null ? `The certificate of ${worst.name} ends` : `No new certificate for ${worst.name}`,
        advice: `${worst.reason ?? 'Replace its file and send SIGHUP'}. ${missing ? 'Browsers refuse the one that is shown.' : `The one in use is good for ${Math.floor(left(worst.expires_ms))} more days.`}`,
        docs: 'docs/operations.md, “Serve HTTPS”',
    };
}

function disk({ now }: Span): Hint | null {
    if (now.disk === null || now.disk.up > 0) return null;
    return {
        level: 'bad',
        topic: 'disk',
        title: 'The disk is not used',
        advice: 'It could not be opened, read or written; standard error says why. It is tried again every 10 s, and pages come from memory and the origin meanwhile.',
        docs: 'docs/operations.md, “Keep pages on disk”',
    };
}

function remote({ now }: Span): Hint | null {
    const gone = (now.remote?.servers ?? []).filter((server) => server.state !== 'up');
    if (gone.length === 0) return null;
    return {
        level: 'warn',
        topic: 'remote',
        title: `${gone.length} of ${now.remote?.servers.length} remote servers not up`,
        advice: `${gone.map((server) => `${server.name} (${server.state})`).slice(0, 3).join(', ')}. Pages that lie there are fetched from the origin until it is back.`,
        docs: 'docs/remote.md',
    };
}

function loopDelay({ now, then }: Span): Hint | null {
    const late = quantile(now.loop_delay, then?.loop_delay, 0.99);
    if (!(late > 20_000) || recorded(now.loop_delay, then?.loop_delay) < 20) return null;
    return {
        level: late > 100_000 ? 'bad' : 'warn',
        title: 'Workers are late',
        advice: `One in a hundred times a worker is ${f.micros(late)} late: the processors are busy. Give the machine less else to do, or Larder more threads where there are cores.`,
        docs: 'docs/operations.md, “Watching: see what it does”',
    };
}

function slowLog({ now, then }: Span): Hint | null {
    const lost = now.log.dropped - (then?.log.dropped ?? 0);
    if (lost <= 0) return null;
    return {
        level: 'info',
        title: 'Log lines are lost',
        advice: `${f.count(lost)} lines of the access log were dropped because the disk did not keep up. Requests never wait for it.`,
        docs: 'docs/operations.md, “Logs: write and rotate them”',
    };
}

function difference(now: Http | null, then: Http | null | undefined): Counts {
    return since(now?.results, then?.results);
}

function largest(counts: Counts): string {
    return Object.entries(counts).reduce((most, one) => (one[1] > most[1] ? one : most), ['', 0])[0];
}
