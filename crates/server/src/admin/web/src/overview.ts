// The charts: what the last minutes to the last hour were like.

import { type Chart, type ChartOptions, Chart as TimeChart, type TimeAxis } from './charts';
import * as f from './format';
import type { Recent } from './span';
import { fromMemory, share } from './span';
import type { Samples } from './store';

const column = (name: string) => (samples: Samples, second: number) => samples.at(name, second);

/** A duration; seconds in which nothing was measured say 0 and have no duration. */
const duration = (name: string) => (samples: Samples, second: number) => {
    const value = samples.at(name, second);
    return value > 0 ? value : NaN;
};

const ratio = (samples: Samples, second: number) =>
    share(samples.at('hits', second) + samples.at('stale', second), samples.at('requests', second));

const rest = (samples: Samples, second: number) =>
    ['hits', 'stale', 'misses', 'passes', 'errors'].reduce(
        (left, name) => left - samples.at(name, second),
        samples.at('requests', second),
    );

const positive = (value: (samples: Samples, second: number) => number) => (samples: Samples, second: number) =>
    Math.max(value(samples, second), 0);

const NO_REQUESTS = 'No requests yet';

const CHARTS: ChartOptions[] = [
    {
        id: 'requests',
        title: 'Requests',
        meaning: 'HTTP requests a second, by what became of them',
        stacked: true,
        format: f.rate,
        headline: (samples, second) => f.rate(samples.at('requests', second)),
        empty: NO_REQUESTS,
        series: [
            { label: 'hit', tint: 'c1', merge: 'mean', value: column('hits') },
            { label: 'stale', tint: 'c2', merge: 'mean', value: column('stale') },
            { label: 'miss', tint: 'c3', merge: 'mean', value: column('misses') },
            { label: 'pass', tint: 'c4', merge: 'mean', value: column('passes') },
            { label: 'other', tint: 'c5', merge: 'mean', value: positive(rest) },
            { label: 'error', tint: 'bad', merge: 'mean', value: column('errors') },
        ],
    },
    {
        id: 'ratio',
        title: 'Hit ratio',
        meaning: 'share of requests that memory answered, fresh or stale; the large figure is of ten seconds',
        top: () => 1,
        zero: true,
        format: f.percent,
        empty: NO_REQUESTS,
        series: [{ label: 'each second', tint: 'c1', merge: 'mean', value: ratio }],
    },
    {
        id: 'latency',
        title: 'Latency',
        meaning: 'time until an answer was handed to the system, from memory (hit) and with the origin (miss); axis in powers of ten',
        logarithmic: true,
        format: f.micros,
        empty: NO_REQUESTS,
        series: [
            { label: 'hit p50', tint: 'c1', merge: 'mean', value: duration('hit_p50_us') },
            { label: 'hit p99', tint: 'c1 thin', merge: 'max', value: duration('hit_p99_us') },
            { label: 'miss p50', tint: 'c3', merge: 'mean', value: duration('miss_p50_us') },
            { label: 'miss p99', tint: 'c3 thin', merge: 'max', value: duration('miss_p99_us') },
        ],
    },
    {
        id: 'origin-load',
        title: 'Origin load',
        meaning: 'requests a second that Larder sent to origins, and how many of them failed',
        format: f.rate,
        empty: 'No request went to an origin yet',
        series: [
            { label: 'requests', tint: 'c3', merge: 'mean', value: column('origin_requests') },
            { label: 'failures', tint: 'bad', merge: 'mean', value: column('origin_failures') },
        ],
    },
    {
        id: 'memory-chart',
        title: 'Memory',
        meaning: 'memory the store uses; the axis ends at its budget',
        format: f.bytes,
        empty: 'Nothing is stored yet',
        series: [{ label: 'used', tint: 'c6', merge: 'max', value: column('memory_used') }],
    },
    {
        id: 'traffic',
        title: 'Sent',
        meaning: 'bytes a second sent to clients of all faces',
        format: (value) => (Number.isFinite(value) ? `${f.bytes(value)}/s` : '–'),
        binary: true,
        empty: 'Nothing was sent yet',
        series: [{ label: 'bytes', tint: 'c6', merge: 'mean', value: column('bytes_out') }],
    },
    {
        id: 'gets',
        title: 'Objects',
        meaning: 'keys a second asked for and found by memcached and Redis clients, and values stored',
        format: f.rate,
        empty: 'No memcached or Redis commands yet',
        series: [
            { label: 'gets', tint: 'c3', merge: 'mean', value: column('object_gets') },
            { label: 'found', tint: 'c1', merge: 'mean', value: column('object_hits') },
            { label: 'sets', tint: 'c4', merge: 'mean', value: column('object_sets') },
        ],
    },
    {
        id: 'loop',
        title: 'Event loop delay',
        meaning: 'how late workers got to what was due: 99 of 100 times at most this',
        format: f.micros,
        empty: 'Not measured yet',
        series: [{ label: 'p99', tint: 'c5', merge: 'max', value: duration('loop_delay_p99_us') }],
    },
];

/** Makes the charts. The hit ratio's figure is of ten seconds: one second of a quiet site says little. */
export function overview(axis: TimeAxis, recent: Recent): Chart[] {
    return CHARTS.map((options) => {
        const full = { ...options };
        if (full.id === 'ratio') full.headline = (samples, second) => f.percent(lately(samples, second));
        if (full.id === 'memory-chart') {
            full.top = () => recent.now?.memory.budget ?? null;
            full.headline = (samples, second) => {
                const budget = recent.now?.memory.budget;
                return `${f.bytes(samples.at('memory_used', second))} of ${f.bytes(budget)}`;
            };
        }
        return new TimeChart(axis, full);
    });
}

function lately(samples: Samples, second: number): number {
    let [all, found] = [0, 0];
    for (let at = second - 9; at <= second; at += 1) {
        const requests = samples.at('requests', at);
        if (Number.isNaN(requests)) continue;
        all += requests;
        found += fromMemory({ hit: samples.at('hits', at), stale: samples.at('stale', at) });
    }
    return share(found, all);
}
