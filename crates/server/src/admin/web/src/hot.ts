// What is asked for most: URLs and keys, sampled by Larder, fetched every few seconds.

import { getJson, path } from './api';
import { choice, panel, text } from './dom';
import * as f from './format';
import { share } from './span';
import { Table } from './table';
import type { Purge, TopUrls, HotKey, TopKeys, HotUrl } from './types';

/** A panel that asks the API by itself now and then. */
export interface Polls {
    element: HTMLElement;
    poll: () => Promise<void>;
}

const ORDERS = [
    ['requests', 'Requests'],
    ['misses', 'Misses'],
    ['bytes', 'Bytes'],
    ['slow', 'Slowest'],
    ['passes', 'Passes'],
] as const;

export function urls(inspect: (url: string) => void): Polls {
    const made = panel('urls', 'Hottest URLs');
    const table = new Table<HotUrl>(
        'Hottest URLs',
        [
            { head: 'URL', kind: 'url', cell: (row) => row.url, press: (row) => inspect(row.url) },
            { head: 'Requests', kind: 'n', cell: (row) => f.count(row.requests) },
            { head: 'Hit ratio', kind: 'n', cell: (row) => f.percent(share(row.hits, row.requests)) },
            { head: 'Misses', kind: 'n', cell: (row) => f.count(row.misses), minor: true },
            { head: 'Bytes', kind: 'n', cell: (row) => f.bytes(row.bytes), minor: true },
            { head: 'Mean', meaning: 'mean time of its answers', kind: 'n', cell: (row) => f.micros(row.mean_us) },
            { head: 'Slowest', kind: 'n', cell: (row) => f.micros(row.max_us) },
        ],
        (row) => `${row.site} ${row.url}`,
        'No URL was sampled yet.',
    );
    const by = choice('Order of URLs', ORDERS, 'requests', () => void poll());
    made.head.append(by.element);
    made.body.append(table.element);
    const poll = async () => {
        const asked = by.get();
        const top = await getJson<TopUrls>(path('/api/v1/top', { by: asked, limit: 12 }));
        if (asked !== by.get()) return;
        text(made.note, `exact up to ${top.exact_per_second} answers from memory a second and thread; beyond, one in ${top.sampled_one_in} counts for all`);
        table.update(top.urls);
    };
    return { element: made.element, poll };
}

/** `faces`: whose keys are shown, of memcached and redis. */
export function keys(faces: () => string[]): Polls {
    const made = panel('keys', 'Hottest keys');
    const table = new Table<HotKey & { face: string }>(
        'Hottest keys of memcached and Redis clients',
        [
            { head: 'Key', kind: 'url', cell: (row) => row.key },
            { head: 'Face', kind: 'text', cell: (row) => row.face },
            { head: 'Gets', meaning: 'estimated since the start, older ones count less', kind: 'n', cell: (row) => f.count(row.gets) },
            { head: 'At least', kind: 'n', cell: (row) => f.count(row.gets_at_least), minor: true },
        ],
        (row) => `${row.face} ${row.key}`,
        'No key was sampled yet.',
    );
    made.body.append(table.element);
    const poll = async () => {
        const all = await Promise.all(faces().map((face) => getJson<TopKeys>(path('/api/v1/keys', { face, limit: 12 }))));
        const rows = all.flatMap((top) => top.keys.map((key) => ({ face: top.face, ...key })));
        text(made.note, `exact up to ${all[0]?.exact_per_second ?? 0} gets a second and thread; beyond, one in ${all[0]?.sampled_one_in ?? 0} counts for all`);
        table.update(rows.sort((a, b) => b.gets - a.gets).slice(0, 12));
    };
    return { element: made.element, poll };
}

export function purges(): Polls & { table: Table<Purge> } {
    const table = new Table<Purge>(
        'Recent purges',
        [
            { head: 'When', cell: (row) => f.clock(row.time_ms) },
            { head: 'Kind', cell: (row) => (row.soft ? `${row.kind}, soft` : row.kind) },
            { head: 'What', kind: 'url', cell: (row) => row.what },
            { head: 'Purged', kind: 'n', cell: (row) => f.count(row.purged) },
            { head: 'By', kind: 'text', cell: (row) => row.by, minor: true },
        ],
        (row) => `${row.time_ms} ${row.kind} ${row.what}`,
        'Nothing was purged yet.',
    );
    const poll = async () => {
        const said = await getJson<Purge[] | { purges: Purge[] }>('/api/v1/purges');
        const list = Array.isArray(said) ? said : said.purges;
        table.update([...list].sort((a, b) => b.time_ms - a.time_ms).slice(0, 12));
    };
    return { element: table.element, poll, table };
}
