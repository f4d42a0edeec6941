// What happened between two snapshots: counters are cumulative, what one wants to see is the difference.

import type { Counts, Histogram, Snapshot } from './types';

/** Seconds the tables look back. */
const LOOK_BACK = 60;

/** Two snapshots of one process; `then` null: since it started. */
export interface Span {
    now: Snapshot;
    then: Snapshot | null;
    seconds: number;
}

/** Keeps the snapshots of the last minute. */
export class Recent {
    private kept: Snapshot[] = [];

    /** Adds one. A restarted Larder counts from zero, so what was before goes. */
    push(snapshot: Snapshot): void {
        const last = this.kept.at(-1);
        if (last !== undefined && (last.started_ms !== snapshot.started_ms || snapshot.now_ms <= last.now_ms)) this.kept = [];
        this.kept.push(snapshot);
        const from = snapshot.now_ms - LOOK_BACK * 1000 - 500;
        while ((this.kept[0]?.now_ms ?? from) < from) this.kept.shift();
    }

    get now(): Snapshot | null {
        return this.kept.at(-1) ?? null;
    }

    /** The last minute, or as much of it as this page has seen. */
    minute(): Span | null {
        const [then, now] = [this.kept[0], this.now];
        if (then === undefined || now === null) return null;
        return { now, then, seconds: (now.now_ms - then.now_ms) / 1000 };
    }

    sinceStart(): Span | null {
        const now = this.now;
        return now === null ? null : { now, then: null, seconds: Math.max(now.uptime_s, 1) };
    }
}

/** Sum of all counts. */
export function total(counts: Counts | undefined): number {
    return Object.values(counts ?? {}).reduce((sum, n) => sum + n, 0);
}

/** Counts less what they were, without zeros. */
export function since(now: Counts | undefined, then: Counts | undefined): Counts {
    const difference: Counts = {};
    for (const [name, value] of Object.entries(now ?? {})) {
        const more = value - (then?.[name] ?? 0);
        if (more > 0) difference[name] = more;
    }
    return difference;
}

/** Answers that came from memory: fresh, or stale and allowed. */
export function fromMemory(results: Counts): number {
    return (results['hit'] ?? 0) + (results['stale'] ?? 0);
}

/** `part / whole`; NaN, which is shown as a dash, of nothing. */
export function share(part: number, whole: number): number {
    return whole > 0 ? part / whole : NaN;
}

/** What was recorded in between: count and buckets. */
function between(now: Histogram, then: Histogram | undefined): [number, number][] {
    const before = new Map(then?.buckets ?? []);
    return now.buckets
        .map(([upper, n]): [number, number] => [upper, n - (before.get(upper) ?? 0)])
        .filter(([, n]) => n > 0);
}

/** How many were recorded in between. */
export function recorded(now: Histogram, then: Histogram | undefined): number {
    return now.count - (then?.count ?? 0);
}

/** A quantile, in microseconds, of what was recorded in between: within its bucket as if evenly spread. NaN of nothing. */
export function quantile(now: Histogram, then: Histogram | undefined, q: number): number {
    if (then === undefined) {
        // Larder's own are from finer buckets.
        if (now.count === 0) return NaN;
        if (q === 0.5) return now.p50_us;
        if (q === 0.99) return now.p99_us;
    }
    const buckets = between(now, then);
    const all = buckets.reduce((sum, [, n]) => sum + n, 0);
    if (all === 0) return NaN;
    let left = q * all;
    for (const [upper, n] of buckets) {
        if (left <= n) {
            const lower = upper / Math.SQRT2;
            return Math.min(lower + (upper - lower) * (left / n), now.max_us);
        }
        left -= n;
    }
    return now.max_us;
}

/** The entry of the same name in the older snapshot. */
export function named<T extends { name: string }>(list: T[] | undefined, name: string): T | undefined {
    return list?.find((one) => one.name === name);
}
