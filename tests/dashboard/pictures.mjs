// pictures.mjs ADMIN HTTP DIRECTORY: the dashboard under some load, at three widths, as pictures; what is seen on them is asserted.
// Without hits first: the line of 0 % is drawn, and nothing is praised.

import { join } from 'node:path';
import { finish, get, live, open, same, until } from './lib.mjs';

const [admin, cache, out] = process.argv.slice(2);
const host = { Host: 'wiki.example.org' };
const dashboard = await open(admin, { colorScheme: 'light', reducedMotion: 'reduce' });
const { page } = dashboard;
await live(page);
const picture = (name, what = page, options = {}) => what.screenshot({ path: join(out, `dashboard-${name}.png`), ...options });
await page.setViewportSize({ width: 1440, height: 900 });
await until('the empty state', async () => (await page.locator('#hints').innerText()).includes('No requests yet'));
await picture('empty');
const nothing = await page.locator('#misses').innerText();
same('nothing is praised without requests', /Everything was stored|No misses/.test(nothing), false);

for (let n = 0; n < 30; n += 1) await get(cache, `/api/${n}`, host);
await until('0 % in the tile', async () => (await page.locator('#tile-ratio strong').innerText()) === '0.0 %');
await until('the line of 0 %', async () => ((await page.locator('#ratio path.line').getAttribute('d')) ?? '').length > 5);
await until('no words over it', async () => !(await page.locator('#ratio .chart-empty').isVisible()));

let going = true;
const clients = Array.from({ length: 4 }, async (_, client) => {
    for (let n = client; going && n < 200_000; n += 1) {
        await get(cache, n % 17 === 0 ? `/api/${n % 40}` : `/page/${n % 60}`, host);
        if (n % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    }
});
await until('hits in the tile', async () => Number.parseFloat(await page.locator('#tile-ratio strong').innerText()) > 30);
await until('time saved', async () => /^\d.* (µs|ms|s|min|h)/.test(await page.locator('#tile-saved strong').innerText()));
await until('what it means', async () => /requests that the origin did not get$/.test(await page.locator('#tile-saved .note').innerText()));
await until('no errors', async () => (await page.locator('#tile-errors strong').innerText()) === '0.0 %');
await until('memory', async () => / of /.test(await page.locator('#tile-memory .note').innerText()));
// A picture of a few minutes shows more than one of a few seconds.
const wanted = Number(process.env.LARDER_PICTURES_SECONDS ?? '0');
await page.waitForTimeout(wanted * 1000);

// Links of the advice lead to documents of this server.
const link = page.locator('.hint cite a').first();
const address = await link.getAttribute('href');
const document_ = await get(admin, address);
same(`the document ${address}`, document_.status, 200);

for (const [width, name] of [[1440, 'light'], [1024, 'tablet'], [400, 'phone']]) {
    await page.setViewportSize({ width, height: 900 });
    await until('the charts at this width', async () => (await page.locator('#charts .card').first().boundingBox())?.width < width);
    const rows = await page.locator('#charts .card').evaluateAll((cards) => Object.values(Object.groupBy(cards, (card) => Math.round(card.getBoundingClientRect().top))).map((row) => row.length));
    same(`rows of charts at ${width}`, new Set(rows).size, 1);
    // Of a table that is cut, the last column would not be seen.
    const cut = await page.locator('#origins .table').evaluate((table) => table.scrollWidth - table.clientWidth);
    same(`the table of origins at ${width} is cut by`, cut > 0, false);
    await picture(name, page, { fullPage: true });
}
await page.setViewportSize({ width: 1440, height: 900 });
await page.emulateMedia({ colorScheme: 'dark' });
await picture('dark', page, { fullPage: true });
await page.emulateMedia({ colorScheme: 'light' });
await picture('details', page.locator('#panels'));
await page.locator('#inspect button[type=submit]').click();
await page.locator('#inspect tbody button').first().click();
await until('a page in words', async () => /Fresh: it is/.test(await page.locator('.details .verdict').innerText()));
await picture('inspector', page.locator('#inspect'));
await page.setViewportSize({ width: 1440, height: 900 });
going = false;
await Promise.all(clients);
await finish(dashboard);
