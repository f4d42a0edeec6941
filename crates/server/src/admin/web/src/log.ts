// The live log: requests as they are answered, filtered by Larder, so that what is not asked for is not sent.

import { ApiError, openStream, path } from './api';
import { h, panel, text } from './dom';
import * as f from './format';
import { readEvents } from './sse';
import type { LogLine } from './types';

/** Rows kept; older ones go. */
const ROWS = 200;
/** Between two redraws, ms: a thousand requests a second are no thousand layouts. */
const REDRAW_MS = 200;

export interface Log {
    element: HTMLElement;
    toggle: () => void;
    focus: () => void;
}

const FILTERS = [
    ['url', 'URL contains', '/wiki/'],
    ['status', 'Status', '5xx,404'],
    ['result', 'Result', 'miss,pass'],
    ['site', 'Site', ''],
    ['method', 'Method', 'GET'],
    ['slower_than_ms', 'Slower than, ms', '100'],
] as const;

export function log(inspect: (url: string) => void): Log {
    const made = panel('log', 'Live log');
    const inputs = FILTERS.map(([name, , example]) =>
        h('input', { id: `log-${name}`, name, type: 'text', placeholder: example, autocomplete: 'off', spellcheck: 'false' }),
    );
    const start = h('button', { type: 'submit', class: 'primary', 'aria-pressed': 'false' }, 'Start');
    const clear = h('button', { type: 'button' }, 'Clear');
    const form = h(
        'form',
        { class: 'fields', 'aria-label': 'Filter of the live log' },
        ...FILTERS.map(([name, label], n) => h('div', { class: 'field' }, h('label', { for: `log-${name}` }, label), inputs[n] ?? null)),
        start,
        clear,
    );
    const body = h('tbody');
    const heads = ['Time', 'Took', 'Status', 'Result', 'Bytes', 'Protocol', 'Method', 'URL', 'Client'];
    const table = h('table', { 'aria-label': 'Requests, newest first' }, h('thead', {}, h('tr', {}, ...heads.map((head) => h('th', { scope: 'col' }, head)))), body);
    const state = h('p', { class: 'empty', role: 'status' }, 'Start shows requests as they are answered, newest first.');
    made.body.append(form, state, h('div', { class: 'table log-rows', tabindex: 0, role: 'region', 'aria-label': 'Requests of the live log' }, table));

    let abort: AbortController | null = null;
    let waiting: LogLine[] = [];
    let seen = 0;
    let dropped = 0;
    let timer = 0;
    const say = () => {
        const lost = dropped > 0 ? `; ${f.exact(dropped)} not shown because this page was too slow` : '';
        text(state, abort === null ? `Stopped after ${f.exact(seen)} requests${lost}.` : `${f.exact(seen)} requests${lost}`);
    };
    const flush = () => {
        timer = 0;
        const rows = waiting.slice(-ROWS).reverse().map((line) => row(line, inspect));
        waiting = [];
        body.prepend(...rows);
        while (body.childElementCount > ROWS) body.lastElementChild?.remove();
        say();
    };
    const later = () => {
        if (timer === 0) timer = setTimeout(flush, REDRAW_MS);
    };
    const take = (event: string, data: string) => {
        if (event === 'dropped') dropped += (JSON.parse(data) as { count: number }).count;
        if (event === 'request') {
            seen += 1;
            waiting.push(JSON.parse(data) as LogLine);
            if (waiting.length > 2 * ROWS) waiting = waiting.slice(-ROWS);
        }
        later();
    };
    const pressed = () => {
        text(start, abort === null ? 'Start' : 'Stop');
        start.setAttribute('aria-pressed', String(abort !== null));
    };
    const stop = () => {
        abort?.abort();
        abort = null;
        pressed();
        say();
    };
    const begin = async () => {
        const mine = new AbortController();
        abort = mine;
        [seen, dropped] = [0, 0];
        pressed();
        text(state, 'Waiting for requests…');
        let why = 'Larder closed the connection';
        try {
            const filter = Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()]));
            const stream = await openStream(path('/api/v1/log', filter), mine.signal);
            await readEvents(stream, (message) => take(message.event, message.data));
        } catch (error) {
            why = error instanceof ApiError || error instanceof Error ? error.message : why;
        }
        if (abort !== mine) return;
        stop();
        text(state, `The log ended: ${why}`);
    };
    const toggle = () => (abort === null ? void begin() : stop());
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        toggle();
    });
    clear.addEventListener('click', () => {
        waiting = [];
        body.replaceChildren();
    });
    return { element: made.element, toggle, focus: () => start.focus() };
}

function row(line: LogLine, inspect: (url: string) => void): HTMLElement {
    const link = h('button', { type: 'button', class: 'link' });
    text(link, line.url);
    link.addEventListener('click', () => inspect(line.url));
    const bad = line.status >= 500 ? 'n bad' : 'n';
    return h(
        'tr',
        {},
        h('td', { class: 'n' }, f.clock(line.time_ms)),
        h('td', { class: 'n' }, f.micros(line.elapsed_us)),
        h('td', { class: bad }, String(line.status)),
        h('td', { title: line.result }, line.outcome),
        h('td', { class: 'n' }, f.bytes(line.bytes)),
        h('td', { title: line.tls ?? 'no TLS' }, line.http_version),
        h('td', {}, line.method),
        h('td', { class: 'url', title: line.url }, link),
        h('td', {}, line.client),
    );
}
