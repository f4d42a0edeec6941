// The object inspector: which pages are stored, and everything that is known of one.

import { getJson, path } from './api';
import { h, panel, text, unfold } from './dom';
import { Details } from './details';
import * as f from './format';
import { Table } from './table';
import type { ObjectRow } from './types';

/** Rows fetched at once, and at most shown: who wants more narrows the search. */
const PAGE = 50;
const MOST = 500;

export interface Inspector {
    element: HTMLElement;
    focus: () => void;
    /** Shows one URL. */
    open: (url: string) => void;
    /** Closes the page that was opened. False: none was. */
    close: () => boolean;
}

function field(id: string, label: string, control: HTMLElement): HTMLElement {
    control.id = id;
    return h('div', { class: 'field' }, h('label', { for: id }, label), control);
}

function variant(row: ObjectRow): string {
    return row.vary === null ? '–' : Object.entries(row.vary).map(([name, value]) => `${name}: ${value ?? 'none'}`).join(', ');
}

export function inspector(purge: (url: string) => void): Inspector {
    const made = panel('inspect', 'Stored pages');
    const prefix = h('input', { type: 'search', placeholder: 'http://example.org/', autocomplete: 'off', spellcheck: 'false' });
    const site = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false' });
    const tag = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false' });
    const state = h('select', {}, ...['any', 'fresh', 'stale'].map((name) => h('option', { value: name }, name)));
    const size = h('input', { type: 'text', placeholder: '0', inputmode: 'numeric', autocomplete: 'off' });
    const form = h(
        'form',
        { class: 'fields', role: 'search', 'aria-label': 'Stored pages' },
        field('inspect-prefix', 'URL begins with', prefix),
        field('inspect-site', 'Site', site),
        field('inspect-tag', 'Tag', tag),
        field('inspect-state', 'State', state),
        field('inspect-size', 'At least, bytes', size),
        h('button', { type: 'submit', class: 'primary' }, 'Search'),
    );
    const details = new Details(purge);
    const table = new Table<ObjectRow>(
        'Stored pages',
        [
            { head: 'URL', kind: 'url', cell: (row) => row.url, press: (row) => void details.open(row.url) },
            { head: 'State', kind: 'state', cell: (row) => row.state, mark: (row) => (row.state === 'fresh' ? 'good' : 'warn') },
            { head: 'Status', kind: 'n', cell: (row) => String(row.status), minor: true },
            { head: 'Size', kind: 'n', cell: (row) => f.bytes(row.size) },
            { head: 'Age', kind: 'n', cell: (row) => f.seconds(row.age_s) },
            { head: 'Fresh for', meaning: 'negative: stale for so long', kind: 'n', cell: (row) => f.seconds(row.ttl_s) },
            { head: 'Read', meaning: 'whether it was ever served', cell: (row) => (row.read ? 'yes' : 'no'), minor: true },
            { head: 'Variant', meaning: 'the request headers this one is for', kind: 'text', cell: variant, minor: true },
            { head: 'Type', kind: 'text', cell: (row) => row.content_type ?? '–', minor: true },
            { head: 'Tags', kind: 'text', cell: (row) => row.tags.join(' '), minor: true },
        ],
        (row) => `${row.forwarded_host ?? ''} ${row.url} ${variant(row)}`,
        'No stored page matches.',
    );
    table.say('Search to see what is stored; an empty search shows everything.');
    const more = h('button', { type: 'button' }, 'More');
    more.hidden = true;
    let rows: ObjectRow[] = [];
    let cursor: string | null = null;
    let asked = 0;
    const search = async (from: string | null) => {
        asked += 1;
        const mine = asked;
        if (from === null) rows = [];
        const at = path('/api/v1/objects', {
            prefix: prefix.value.trim(),
            site: site.value.trim(),
            tag: tag.value.trim(),
            state: state.value === 'any' ? null : state.value,
            min_size: size.value.trim(),
            limit: PAGE,
            cursor: from,
        });
        try {
            const found = await getJson<{ objects: ObjectRow[]; cursor: string | null }>(at);
            if (mine !== asked) return;
            rows = [...rows, ...found.objects].slice(0, MOST);
            cursor = found.cursor;
            table.update(rows);
            more.hidden = cursor === null || rows.length >= MOST;
            text(made.note, `${f.count(rows.length)} shown${cursor === null ? '' : ', there is more'}`);
        } catch (error) {
            table.say(error instanceof Error ? error.message : 'The search failed.');
        }
    };
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        void search(null);
    });
    more.addEventListener('click', () => void search(cursor));
    // What was opened stands above the rows: fifty of them would hide it.
    table.element.classList.add('rows');
    table.element.tabIndex = 0;
    made.body.append(form, details.element, table.element, more);
    return {
        element: made.element,
        focus: () => {
            unfold(made.element);
            prefix.focus();
        },
        close: () => details.close(),
        open: (url) => {
            unfold(made.element);
            made.element.scrollIntoView({ block: 'start' });
            void details.open(url);
        },
    };
}
