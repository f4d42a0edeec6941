// One stored page in full, with its variants, and in words whether it is fresh and why.

import { getJson, path } from './api';
import { h, text } from './dom';
import * as f from './format';

const HIT_FOR_MISS =
    'Not stored: only a marker that its answers may not be kept, so that requests for it do not wait for each other (hit-for-miss).';

type Value = string | number | boolean | null | Value[] | { [name: string]: Value };
type Variant = { [name: string]: Value };

export class Details {
    readonly element = h('article', { class: 'details', 'aria-label': 'One stored page', tabindex: -1 });
    private asked = 0;

    constructor(private readonly purge: (url: string) => void) {
        this.element.hidden = true;
    }

    async open(url: string): Promise<void> {
        this.asked += 1;
        const mine = this.asked;
        this.element.hidden = false;
        this.show(url, h('p', { class: 'empty' }, 'Loading…'));
        try {
            const page = await getJson<{ url: string; hit_for_miss?: boolean; variants: Variant[] }>(path('/api/v1/object', { url }));
            if (mine !== this.asked) return;
            if (page.variants.length > 0) this.show(url, ...page.variants.map((variant, n) => this.variant(variant, n, page.variants.length)));
            else this.show(url, h('p', { class: 'empty' }, page.hit_for_miss === true ? HIT_FOR_MISS : 'No variant of it is stored.'));
        } catch (error) {
            if (mine === this.asked) this.show(url, h('p', { class: 'empty' }, error instanceof Error ? error.message : 'It cannot be shown.'));
        }
        this.element.focus({ preventScroll: true });
        this.element.scrollIntoView({ block: 'nearest' });
    }

    /** False: nothing was open. */
    close(): boolean {
        const was = !this.element.hidden;
        this.element.hidden = true;
        // An answer that is on its way opens nothing.
        this.asked += 1;
        return was;
    }

    private show(url: string, ...content: HTMLElement[]): void {
        const purge = h('button', { type: 'button' }, 'Purge…');
        purge.addEventListener('click', () => this.purge(url));
        const close = h('button', { type: 'button' }, 'Close');
        close.addEventListener('click', () => this.close());
        const title = h('h3', { class: 'url' });
        text(title, url);
        this.element.replaceChildren(h('header', {}, title, purge, close), ...content);
    }

    private variant(variant: Variant, n: number, of: number): HTMLElement {
        const row = (name: string, value: Node | string) => h('div', {}, h('dt', {}, name), h('dd', {}, value));
        const list = h('dl', {}, ...words(variant).map(([name, value]) => row(name, value)));
        const rest = h('dl');
        for (const [name, value] of ordered(variant)) rest.append(row(label(name), shown(name, value)));
        return h(
            'section',
            {},
            of > 1 ? h('h4', {}, `Variant ${n + 1} of ${of}`) : null,
            h('p', { class: 'verdict' }, verdict(variant)),
            list,
            h('details', {}, h('summary', {}, 'Everything that is stored with it'), rest),
        );
    }
}

/** What one looks for first; the rest follows as it comes. */
const FIRST = ['status', 'state', 'age_s', 'freshness_s', 'ttl_s', 'initial_age_s', 'resident_s', 'stale_while_revalidate_s', 'stale_if_error_s', 'vary', 'tags', 'size', 'record_size', 'encoding', 'etag', 'head'];

function ordered(variant: Variant): [string, Value][] {
    const rank = (name: string) => (FIRST.indexOf(name) + FIRST.length + 1) % (FIRST.length + 1);
    return Object.entries(variant).sort((a, b) => rank(a[0]) - rank(b[0]));
}

function number(value: Value | undefined): number | null {
    return typeof value === 'number' ? value : null;
}

/** Whether it is fresh, in words, from its sums. */
function verdict(variant: Variant): string {
    const state = typeof variant['state'] === 'string' ? variant['state'] : null;
    const age = number(variant['age_s']);
    const left = number(variant['ttl_s']);
    const why = typeof variant['why'] === 'string' ? ` ${variant['why']}` : '';
    if (age === null || left === null) return `${state ?? 'Its freshness is not known.'}${why}`;
    const lifetime = f.seconds(number(variant['freshness_s']) ?? age + left);
    if (state === 'fresh' || (state === null && left > 0)) {
        return `Fresh: it is ${f.seconds(age)} old and may be used until it is ${lifetime} old, ${f.seconds(left)} from now.${why}`;
    }
    const past = left <= 0 ? `its lifetime of ${lifetime} ended ${f.seconds(-left)} ago` : 'it was marked stale (soft purge, or no-cache)';
    return `Stale: it is ${f.seconds(age)} old, and ${past}. It is confirmed or fetched anew before or while it is served.${why}`;
}

/** What one wants to know of a page, in words. */
function words(variant: Variant): [string, Node | string][] {
    const now = Date.now();
    const left = number(variant['ttl_s']);
    const list: [string, Node | string][] = [];
    const put = (name: string, value: Node | string | null) => {
        if (value !== null && value !== '') list.push([name, value]);
    };
    put('status', String(variant['status'] ?? '–'));
    if (left !== null && variant['state'] === 'fresh') put('fresh until', `${f.moment(now + left * 1000)}, for ${f.seconds(left)}`);
    const expires = number(variant['expires_ms']) ?? 0;
    put('kept until', expires > 0 ? `${f.moment(expires)}, or until its memory is needed` : 'its memory is needed');
    const while_ = number(variant['stale_while_revalidate_s']) ?? 0;
    if (while_ > 0) put('served stale', `for ${f.seconds(while_)} while it is fetched anew`);
    const errors = number(variant['stale_if_error_s']) ?? 0;
    if (errors > 0) put('if the origin fails', `served for ${f.seconds(errors)} after its lifetime`);
    const vary = variant['vary'];
    put('variant of', vary !== null && typeof vary === 'object' && !Array.isArray(vary) ? requests(vary) : 'none: it is for all requests');
    if (Array.isArray(variant['tags']) && variant['tags'].length > 0) put('tags', shown('tags', variant['tags']));
    put('size', `${f.bytes(number(variant['size']))}${typeof variant['encoding'] === 'string' && variant['encoding'] !== 'identity' ? `, coded with ${variant['encoding']}` : ''}`);
    put('served', variant['read'] === true ? `last ${f.moment(number(variant['last_read_ms']) ?? now)}` : 'not yet');
    return list;
}

/** The requests that a variant is for. */
function requests(vary: { [name: string]: Value }): string {
    const parts = Object.entries(vary).map(([name, value]) => (value === null ? `without ${name}` : `with ${name}: ${String(value)}`));
    return parts.length === 0 ? 'none: it is for all requests' : `requests ${parts.join(', ')}`;
}

/** `freshness.lifetime_s` -> `freshness lifetime`. */
function label(name: string): string {
    return name.replace(/_(s|ms|us)$/, '').replaceAll('_', ' ');
}

function shown(name: string, value: Value): Node | string {
    if (value === null) return '–';
    if (typeof value === 'number') {
        if (name.endsWith('_ms')) return value === 0 ? '–' : f.moment(value);
        if (name === 'date_s' || name === 'last_modified_s') return value === 0 ? '–' : f.moment(value * 1000);
        if (name.endsWith('_s')) return f.seconds(value);
        if (name === 'size' || name === 'record_size') return `${f.bytes(value)} (${f.exact(value)})`;
        return String(value);
    }
    if (Array.isArray(value)) {
        if (value.length === 0) return '–';
        // Fields come as pairs or lines, tags as words.
        const lines = value.map((one) => (Array.isArray(one) ? one.map(String).join(': ') : plain(one)));
        return h('span', { class: 'lines' }, lines.join(name === 'tags' ? ' ' : '\n'));
    }
    if (typeof value === 'object') {
        const lines = Object.entries(value).map(([key, one]) => [label(key), ': ', shown(key, one)] as const);
        return h('span', { class: 'lines' }, ...lines.map((line) => h('span', {}, ...line)));
    }
    return String(value);
}

function plain(value: Value): string {
    if (value === null || typeof value !== 'object') return String(value);
    const pair = value as { name?: Value; value?: Value };
    if (pair.name !== undefined && pair.value !== undefined) return `${String(pair.name)}: ${String(pair.value)}`;
    return JSON.stringify(value);
}
