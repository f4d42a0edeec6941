// The table of protocols: the time of answers in each, where clients speak more than HTTP/1.

import { panel } from './dom';
import * as f from './format';
import type { Follows } from './panels';
import type { Span } from './span';
import { named, quantile, share } from './span';
import { Table } from './table';
import type { Histogram, Protocol } from './types';

interface ProtocolRow {
    name: string;
    rate: number;
    hit: string;
    slowHit: string;
    miss: string;
    slowMiss: string;
}

const answers = (protocol?: Protocol) => (protocol ? protocol.latency.hit.count + protocol.latency.miss.count : 0);

const p = (now: Histogram, then: Histogram | undefined, q: number) => f.micros(quantile(now, then, q));

export function protocols(): Follows {
    const made = panel('protocols', 'Protocols');
    const table = new Table<ProtocolRow>(
        'Protocols',
        [
            { head: 'Protocol', kind: 'url', cell: (row) => row.name },
            { head: 'Answers', kind: 'n', cell: (row) => f.rate(row.rate) },
            { head: 'Hit p50', kind: 'n', cell: (row) => row.hit, minor: true },
            { head: 'Hit p99', kind: 'n', cell: (row) => row.slowHit },
            { head: 'Miss p50', kind: 'n', cell: (row) => row.miss, minor: true },
            { head: 'Miss p99', kind: 'n', cell: (row) => row.slowMiss },
        ],
        (row) => row.name,
        'No HTTP requests yet.',
    );
    made.body.append(table.element);
    const update = ({ now, then, seconds }: Span) => {
        const all = now.http?.protocols ?? [];
        made.element.hidden = !all.some((protocol) => protocol.name !== 'HTTP/1' && answers(protocol) > 0);
        const spoken = all.filter((protocol) => answers(protocol) > 0);
        table.update(spoken.map((protocol): ProtocolRow => {
            const old = named(then?.http?.protocols, protocol.name);
            const { hit, miss } = protocol.latency;
            return {
                name: protocol.name,
                rate: share(answers(protocol) - answers(old), seconds),
                hit: p(hit, old?.latency.hit, 0.5),
                slowHit: p(hit, old?.latency.hit, 0.99),
                miss: p(miss, old?.latency.miss, 0.5),
                slowMiss: p(miss, old?.latency.miss, 0.99),
            };
        }));
    };
    return { element: made.element, update };
}
