// hostile.mjs ADMIN HTTP: a URL that is markup stays text wherever it is shown.

import { finish, get, live, open, same, until } from './lib.mjs';

const [admin, cache] = process.argv.slice(2);
const target = "/<img src=x onerror=window.pwned=1><script>window.pwned=2</script>'\"";
const host = { Host: 'wiki.example.org' };
const raw = `${target.replaceAll(' ', '%20')}`;
const dashboard = await open(admin);
const { page } = dashboard;
await live(page);
await page.keyboard.press('l');
await until('the log to be open', async () => (await page.locator('#log button[aria-pressed]').innerText()) === 'Stop');

// Sampled one in so many: asked for until it is among the hottest.
let going = true;
const load = (async () => {
    while (going) for (let n = 0; n < 50; n += 1) await get(cache, raw, host);
})();
const shows = (place) => async () => (await page.locator(place).allInnerTexts()).some((text) => text.includes('onerror=window.pwned') || text.includes('onerror%3D'));
await until('it in the log', shows('#log tbody'));
await until('it among the hottest', shows('#urls tbody'));
going = false;
await load;
await page.locator('#inspect button[type=submit]').click();
await until('it among what is stored', shows('#inspect tbody'));
await page.locator('#inspect tbody button').first().click();
await until('it in full', shows('#inspect .details h3'));
await until('the verdict', async () => (await page.locator('#inspect .verdict').innerText()).startsWith('Fresh: it is'));
await page.locator('#inspect .details button', { hasText: 'Purge' }).click();
same('it is offered to the purge box', (await page.locator('#purge-what').inputValue()).includes('onerror'), true);

same('nothing was executed', await page.evaluate(() => window.pwned ?? null), null);
same('there is one image, ours', await page.locator('img').count(), 1);
same('there is one script, ours', await page.locator('script').count(), 1);
await finish(dashboard);
