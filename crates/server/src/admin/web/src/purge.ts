// The purge box. What reaches far (prefixes, bans) asks once more before it is done.

import { ApiError, postJson, setToken, token } from './api';
import { choice, h, panel, text } from './dom';
import * as f from './format';
import { purges, type Polls } from './hot';

const KINDS = [
    ['url', 'URL'],
    ['prefix', 'Prefix'],
    ['tags', 'Tag'],
    ['ban', 'Ban'],
] as const;
type Kind = (typeof KINDS)[number][0];

const ASKS: Record<Kind, { label: string; example: string }> = {
    url: { label: 'URL of one page', example: 'http://example.org/page' },
    prefix: { label: 'URL that the pages begin with', example: 'http://example.org/blog/' },
    tags: { label: 'Tags, separated by spaces', example: 'article-17 frontpage' },
    ban: { label: 'Expression', example: 'url ~ "^/blog/" && age > 1h' },
};

export interface PurgeBox extends Polls {
    focus: () => void;
    /** Fills in the URL of a page. */
    offer: (url: string) => void;
}

export function purgeBox(): PurgeBox {
    const made = panel('purge', 'Purge');
    const what = h('input', { id: 'purge-what', name: 'what', type: 'text', autocomplete: 'off', spellcheck: 'false', required: true });
    const label = h('label', { for: 'purge-what' });
    const soft = h('input', { id: 'purge-soft', type: 'checkbox' });
    const secret = h('input', { id: 'purge-token', type: 'password', autocomplete: 'off' });
    const secretRow = h('div', { class: 'field' }, h('label', { for: 'purge-token' }, 'Token (kept until this tab is closed)'), secret);
    const go = h('button', { type: 'submit', class: 'primary' }, 'Purge');
    const said = h('p', { class: 'outcome', role: 'status' });
    let armed = '';
    const disarm = () => {
        armed = '';
        text(go, 'Purge');
        go.classList.remove('armed');
    };
    const ask = (kind: Kind) => {
        text(label, ASKS[kind].label);
        what.placeholder = ASKS[kind].example;
        disarm();
    };
    const kind = choice<Kind>('What to purge', KINDS, 'url', ask);
    ask('url');
    what.addEventListener('input', disarm);
    secretRow.hidden = token() !== '';
    const form = h(
        'form',
        { class: 'purge-form', 'aria-label': 'Purge' },
        kind.element,
        h('div', { class: 'field wide' }, label, what),
        secretRow,
        h('div', { class: 'row' }, h('label', { class: 'check', title: 'Marks pages as stale instead of removing them: they may still bridge a failing origin' }, soft, 'soft: keep as stale'), go),
        said,
    );
    const history = purges();
    const show = (message: string, bad: boolean) => {
        text(said, message);
        said.classList.toggle('bad', bad);
    };
    const send = async () => {
        if (secret.value !== '') setToken(secret.value);
        const value = what.value.trim();
        const order = { [kind.get()]: kind.get() === 'tags' ? value.split(/\s+/) : value, soft: soft.checked };
        go.disabled = true;
        show('Purging…', false);
        try {
            const { purged } = await postJson<{ purged: number }>('/api/v1/purge', order);
            show(`${f.count(purged)} ${purged === 1 ? 'entry' : 'entries'} ${soft.checked ? 'marked stale' : 'purged'}: ${value}`, false);
            secret.value = '';
            secretRow.hidden = true;
            history.poll().catch(() => {});
        } catch (error) {
            refused(error);
        } finally {
            go.disabled = false;
            disarm();
        }
    };
    const refused = (error: unknown) => {
        show(`Not purged: ${error instanceof Error ? error.message : 'unknown error'}`, true);
        if (!(error instanceof ApiError) || !error.wantsToken) return;
        secretRow.hidden = false;
        secret.value = '';
        secret.focus();
    };
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        const far = kind.get() === 'prefix' || kind.get() === 'ban';
        if (far && armed !== what.value) {
            armed = what.value;
            text(go, 'Press again to purge');
            go.classList.add('armed');
            return;
        }
        void send();
    });
    made.body.append(form, h('h3', {}, 'Recent purges'), history.element);
    return {
        element: made.element,
        poll: history.poll,
        focus: () => what.focus(),
        offer: (url) => {
            kind.set('url');
            what.value = url;
            what.focus();
        },
    };
}
