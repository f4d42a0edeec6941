// numbers.mjs ADMIN HTTP: what the page shows agrees with /metrics and with what was asked for, while and after it is asked.

import { bar, finish, get, live, open, same, sum, until } from './lib.mjs';

const [admin, cache] = process.argv.slice(2);
const before = await get(admin, '/metrics');
same('requests before', sum(before.body, 'larder_http_requests_total'), 0);

const dashboard = await open(admin);
const { page } = dashboard;
await live(page);
await until('the empty state', async () => (await page.locator('#hints').innerText()).includes('No requests yet'));
await until('an empty chart that says so', async () => (await page.locator('#requests .chart-empty').innerText()) === 'No requests yet');

const done = { hit: 0, miss: 0, pass: 0 };
async function ask(target) {
    const answer = await get(cache, target, { Host: 'wiki.example.org' });
    same(`status of ${target}`, answer.status, 200);
    const said = answer.headers['x-cache'] ?? '';
    if (target.startsWith('/api/')) done.pass += 1;
    else if (said.startsWith('HIT')) done.hit += 1;
    else done.miss += 1;
}
for (let n = 0; n < 30; n += 1) await ask(`/page/${n}`);
for (let n = 0; n < 20; n += 1) await ask(`/api/${n}`);
// Load with eight connections until the page shows it as it happens.
let going = true;
const clients = Array.from({ length: 8 }, async (_, client) => {
    for (let n = client; going && n < 200_000; n += 1) await ask(`/page/${n % 30}`);
});
await until('requests a second', async () => /^[1-9]/.test(await page.locator('#requests .headline').innerText()));
await until('a line in the chart', async () => ((await page.locator('#requests path.line').first().getAttribute('d')) ?? '').length > 20);
await until('latency', async () => /^\d.* (µs|ms)$/.test(await page.locator('#latency .headline').innerText()));
going = false;
await Promise.all(clients);

const all = done.hit + done.miss + done.pass;
await page.locator('.choice button[data-value="start"]').click();
await until('the total', async () => (await page.locator('#total').innerText()) === `${all.toLocaleString('en-US')} requests`);
const metrics = (await get(admin, '/metrics')).body;
same('requests in /metrics', sum(metrics, 'larder_http_requests_total'), all);
for (const result of ['hit', 'miss', 'pass']) {
    same(`${result} in /metrics`, sum(metrics, 'larder_http_requests_total', `result="${result}"`), done[result]);
}
for (const result of ['hit', 'miss', 'pass']) {
    await until(`${result} on the page`, async () => (await bar(page, result)) === done[result]);
}
const ratio = done.hit / all;
const text = await page.locator('#sites tbody tr', { hasText: 'wiki.example.org' }).innerText();
const percent = Number(/([\d.]+) %/.exec(text)?.[1]);
if (Math.abs(percent / 100 - ratio) > 0.001) throw new Error(`hit ratio of the site: ${percent} %, wanted ${100 * ratio} %`);
await finish(dashboard);
