// Puts the page together: one connection, one store of samples, and panels that follow them.

import { getJson, path, setToken, takeTokenFromAddress } from './api';
import { TimeAxis } from './charts';
import { byId, choice, h, text, unfold } from './dom';
import * as f from './format';
import { Advice, type Hint } from './hints';
import { keys, urls, type Polls } from './hot';
import { inspector } from './inspector';
import { keyboard } from './keyboard';
import { Live, type State } from './live';
import { log } from './log';
import { overview } from './overview';
import * as panels from './panels';
import { protocols } from './protocols';
import { purgeBox } from './purge';
import { Recent } from './span';
import { Samples } from './store';
import { Tiles } from './tiles';
import { nextTheme, setTheme, theme } from './theme';
import type { Columns, Snapshot } from './types';

/** How often hottest URLs, keys and purges are asked for, ms. */
const POLL_MS = 4_000;
const RANGES = [
    ['300', '5 min'],
    ['900', '15 min'],
    ['3600', '1 h'],
] as const;
const LOOKS = [
    ['minute', 'Last minute'],
    ['start', 'Since start'],
] as const;

takeTokenFromAddress();
setTheme(theme());

const samples = new Samples();
const recent = new Recent();
const axis = new TimeAxis(samples);
const advice = new Advice();
const tiles = new Tiles();
let startedMs = 0;
let state: State = { kind: 'loading' };

const purge = purgeBox();
const inspect = inspector((url) => purge.offer(url));
const tail = log((url) => inspect.open(url));
const hotUrls = urls((url) => inspect.open(url));
const hotKeys = keys(() => (['memcached', 'redis'] as const).filter((face) => recent.now !== null && recent.now[face] !== null));
const follows = [panels.sites(), panels.misses(), panels.origins(), panels.memory(), panels.objects(), panels.disk(), panels.remote(), panels.apps(), panels.queues(), protocols()];
const range = choice('Time shown in charts', RANGES, '3600', (value) => axis.setRange(Number(value)));
const look = choice('Time counted in tables', LOOKS, 'minute', () => showTables());

function build(): void {
    byId('ranges').append(range.element);
    byId('looks').append(look.element);
    byId('tiles').append(...tiles.elements);
    byId('charts').append(...overview(axis, recent).map((chart) => chart.element));
    const [sites, misses, origins, memory, objects, disk, remote, apps, queues, byProtocol] = follows.map((panel) => panel.element);
    // Two columns, each without holes, whatever is hidden or long.
    const columns = [
        [sites, byProtocol, misses, hotUrls.element, disk, remote],
        [origins, apps, queues, memory, objects, hotKeys.element, purge.element],
    ];
    for (const column of columns) {
        byId('panels').append(h('div', { class: 'column' }, ...column.map((element) => element ?? null)));
    }
    byId('panels').append(inspect.element, tail.element);
    // A link to a section opens it.
    for (const link of document.querySelectorAll('nav a')) {
        link.addEventListener('click', () => unfold(document.querySelector(link.getAttribute('href') ?? '')));
    }
    byId('theme').addEventListener('click', showTheme);
    byId('help').addEventListener('click', () => keys_.help());
    byId('retry').addEventListener('click', () => live.connect());
    byId('pause').addEventListener('click', freeze);
    byId('token-form').addEventListener('submit', (event) => {
        event.preventDefault();
        const input = byId('token-input') as HTMLInputElement;
        setToken(input.value.trim());
        input.value = '';
        live.connect();
    });
    text(byId('theme'), `Theme: ${theme()}`);
}

function showTheme(): void {
    text(byId('theme'), `Theme: ${nextTheme()}`);
}

/** Stops the charts and tables where they are, to read them; samples go on being collected. */
function freeze(): void {
    axis.frozen = axis.frozen === null ? samples.last : null;
    byId('pause').setAttribute('aria-pressed', String(axis.frozen !== null));
    text(byId('pause'), axis.frozen === null ? 'Pause' : 'Go on');
    axis.draw();
    showTables();
}

async function catchUp(): Promise<void> {
    const since = samples.last === 0 ? 0 : samples.last * 1000;
    samples.fill(await getJson<Columns>(path('/api/v1/history', { since })));
    if (axis.frozen === null) axis.draw();
}

function showSnapshot(snapshot: Snapshot): void {
    // A restarted Larder has no history of what was before; what this page has seen stays.
    if (startedMs !== 0 && startedMs !== snapshot.started_ms) axis.frozen = null;
    startedMs = snapshot.started_ms;
    recent.push(snapshot);
    document.title = `${snapshot.name} – Larder`;
    text(byId('name'), snapshot.name);
    text(byId('version'), `Larder ${snapshot.larder}`);
    text(byId('uptime'), `up ${f.seconds(snapshot.uptime_s)}`);
    byId('uptime').title = `process ${snapshot.pid}, ${snapshot.threads} threads, since ${f.moment(snapshot.started_ms)}`;
    const http = snapshot.http;
    text(byId('total'), http === null ? 'HTTP is not served' : `${f.exact(http.requests)} requests`);
    text(byId('open'), http === null ? '' : f.counted(http.connections.open, 'connection'));
    document.body.classList.toggle('no-objects', snapshot.memcached === null && snapshot.redis === null);
    showTables();
    catchUp().catch(() => {});
}

function showTables(): void {
    const span = look.get() === 'minute' ? recent.minute() : recent.sinceStart();
    if (span === null || axis.frozen !== null) return;
    const shown = look.get() === 'minute' ? `last ${Math.round(span.seconds)} s` : 'since the start';
    text(byId('span'), shown);
    for (const panel of follows) panel.update(span);
    const lately = recent.minute();
    if (lately === null) return;
    tiles.update(lately);
    showHints(advice.about(lately));
}

function showHints(list: Hint[]): void {
    const shown = list.slice(0, 4);
    const signature = JSON.stringify(shown.map((hint) => [hint.level, hint.topic ?? hint.title]));
    const home = byId('hints');
    if (home.dataset['shown'] === signature) {
        shown.forEach((hint, n) => {
            const [title, advice] = home.children[n]?.children ?? [];
            if (title !== undefined) text(title, hint.title);
            if (advice !== undefined) text(advice, hint.advice);
        });
        return;
    }
    home.dataset['shown'] = signature;
    // Read out when there is other advice, not whenever a number in it changes.
    text(byId('announced'), shown.map((hint) => hint.title).join('. '));
    home.replaceChildren(
        ...shown.map((hint) =>
            h(
                'li',
                { class: `hint ${hint.level}` },
                h('strong', {}, hint.title),
                h('span', { class: 'advice' }, hint.advice),
                h('cite', {}, h('a', { href: address(hint.docs), target: '_blank', rel: 'noopener' }, hint.docs)),
                ...(hint.setting === undefined ? [] : [h('code', { class: 'setting' }, hint.setting)]),
                ...(hint.evidence ?? []).map((url) => h('span', { class: 'evidence' }, url)),
            ),
        ),
    );
}

/** Where this server serves a document, at the section that is named: `docs/x.md, “Section”`. */
function address(docs: string): string {
    const [file = '', section] = docs.split(', ');
    const anchor = (section ?? '').toLowerCase().replace(/[^a-z0-9 _-]/g, '').replaceAll(' ', '-');
    return `/${file}${anchor === '' ? '' : `#${anchor}`}`;
}

function showState(next: State): void {
    state = next;
    document.body.dataset['state'] = next.kind;
    byId('token-form').hidden = next.kind !== 'locked';
    byId('retry').hidden = next.kind !== 'waiting';
    tick();
}

/** What changes with time alone: the countdown to the next attempt. */
function tick(): void {
    const seen = recent.now === null ? 'no sample yet' : `last sample ${f.clock(recent.now.now_ms)}`;
    const words = {
        loading: () => 'connecting…',
        live: () => 'live',
        locked: () => 'token needed',
        waiting: () => 'disconnected',
    };
    text(byId('state'), words[state.kind]());
    const more =
        state.kind === 'waiting'
            ? `${seen} · next attempt in ${Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1000))} s`
            : state.kind === 'locked'
              ? state.why
              : '';
    text(byId('state-more'), more);
    byId('state').title = state.kind === 'waiting' ? state.why : '';
}

async function poll(): Promise<void> {
    if (state.kind !== 'live' || document.hidden || axis.frozen !== null) return;
    const polls: Polls[] = [purge];
    if (recent.now?.http !== null) polls.push(hotUrls);
    if (recent.now?.memcached !== null || recent.now?.redis !== null) polls.push(hotKeys);
    await Promise.allSettled(polls.map((one) => one.poll()));
}

function jump(id: string): void {
    const element = byId(id);
    unfold(element);
    element.scrollIntoView({ block: 'start' });
    element.focus({ preventScroll: true });
}

const keys_ = keyboard([
    { key: '/', does: 'search stored pages', run: () => inspect.focus() },
    { key: 'p', does: 'purge', run: () => (unfold(byId('purge')), purge.focus()) },
    { key: 'l', does: 'start or stop the live log', run: () => (jump('log'), tail.toggle()) },
    { key: 'o', does: 'overview', run: () => jump('overview') },
    { key: 's', does: 'sites', run: () => jump('sites') },
    { key: 'm', does: 'why missed', run: () => jump('misses') },
    { key: 'u', does: 'hottest URLs', run: () => jump('urls') },
    { key: 'r', does: 'next time range of the charts', run: () => range.set(RANGES[(RANGES.findIndex(([v]) => v === range.get()) + 1) % 3]?.[0] ?? '300') },
    { key: 'w', does: 'tables: last minute or since the start', run: () => look.set(look.get() === 'minute' ? 'start' : 'minute') },
    { key: ' ', does: 'pause and go on (space)', run: freeze },
    { key: 't', does: 'theme: system, light, dark', run: showTheme },
], () => void inspect.close());

const live = new Live({ opened: () => catchUp().then(() => void setTimeout(() => void poll(), 300)), snapshot: showSnapshot, state: showState });
build();
showState(state);
setInterval(tick, 500);
setInterval(() => void poll(), POLL_MS);
live.connect();
