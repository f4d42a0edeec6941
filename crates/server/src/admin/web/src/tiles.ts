// The head line: four figures of the last minute, large.

import { h, text } from './dom';
import * as f from './format';
import type { Span } from './span';
import { fromMemory, named, share, since, total } from './span';

class Tile {
    readonly element: HTMLElement;
    private readonly value = h('strong', {}, '–');
    private readonly said = h('span', { class: 'note' }, '');

    constructor(id: string, title: string, meaning: string) {
        this.element = h('div', { class: 'card tile', id, title: meaning }, h('h2', {}, title), this.value, this.said);
    }

    show(value: string, said: string, state = ''): void {
        text(this.value, value);
        text(this.said, said);
        this.element.dataset['state'] = state;
    }
}

/** Microseconds of origin time that hits saved: each as much as a miss took, on average of the site. */
export function saved({ now, then }: Span): { us: number; hits: number } {
    let [us, hits] = [0, 0];
    for (const site of now.http?.sites ?? []) {
        const old = named(then?.http?.sites, site.name);
        const found = fromMemory(since(site.results, old?.results));
        hits += found;
        // Of all misses since the start: the last minute may have had none.
        us += found * (site.latency.miss.count > 0 ? site.latency.miss.sum_us / site.latency.miss.count : 0);
    }
    return { us, hits };
}

export class Tiles {
    private readonly ratio = new Tile('tile-ratio', 'Hit ratio', 'share of requests that memory answered, fresh or stale');
    private readonly saved = new Tile('tile-saved', 'Origin time saved', 'requests that memory answered, each as long as a miss of its site took on average');
    private readonly errors = new Tile('tile-errors', 'Errors', 'requests that ended in an error of Larder or of the origin');
    private readonly memory = new Tile('tile-memory', 'Memory', 'memory the store uses, of its budget');
    readonly elements = [this.ratio, this.saved, this.errors, this.memory].map((tile) => tile.element);

    /** `span`: the last minute. */
    update(span: Span): void {
        const { now, then } = span;
        const all = since(now.http?.results, then?.http?.results);
        const [requests, hits] = [total(all), fromMemory(all)];
        const ever = now.http === null ? 0 : share(fromMemory(now.http.results), total(now.http.results));
        this.ratio.show(f.percent(share(hits, requests)), requests === 0 ? `no requests in the last minute; ${f.percent(ever)} since the start` : `of ${f.counted(requests, 'request')} in the last minute; ${f.percent(ever)} since the start`);
        const worth = saved(span);
        const time = worth.us < 1e6 ? f.micros(worth.us) : f.seconds(worth.us / 1e6);
        this.saved.show(worth.us === 0 ? '–' : time, `in the last minute: ${f.counted(worth.hits, 'request')} that the origin did not get`);
        const failed = all['error'] ?? 0;
        this.errors.show(requests === 0 ? '–' : f.percent(share(failed, requests)), failed === 0 ? 'none in the last minute' : `${f.count(failed)} of ${f.counted(requests, 'request')} in the last minute`, failed === 0 ? '' : 'bad');
        const { used, budget } = now.memory;
        const evicted = now.memory.namespaces.reduce((sum, space) => sum + space.evictions - (named(then?.memory.namespaces, space.name)?.evictions ?? 0), 0);
        this.memory.show(f.percent(share(used, budget)), `${f.bytes(used)} of ${f.bytes(budget)}; ${evicted === 0 ? 'nothing' : f.count(evicted)} evicted in the last minute`);
    }
}
