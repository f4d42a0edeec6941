// disconnect.mjs ADMIN: says `lose`, and the page must notice that Larder has ended; says `back`, and it must find it again.

import { finish, live, open, same, until } from './lib.mjs';

const [admin] = process.argv.slice(2);
const dashboard = await open(admin);
const { page } = dashboard;
await live(page);
await until('uptime', async () => (await page.locator('#uptime').innerText()).startsWith('up '));
const clear = () => page.locator('#requests .headline').evaluate((element) => getComputedStyle(element).opacity);
same('live figures are clear', await clear(), '1');
console.log('lose');
await page.locator('body[data-state="waiting"]').waitFor();
same('it says so', await page.locator('#state').innerText(), 'disconnected');
same('figures are greyed', await clear(), '0.5');
await until('when the last sample was', async () => /last sample \d\d:\d\d:\d\d · next attempt in \d+ s/.test(await page.locator('#state-more').innerText()));
same('the figures stay', (await page.locator('#uptime').innerText()).startsWith('up '), true);
// The pause grows: the countdown is at some time longer than the first.
await until('a longer pause', async () => Number(/in (\d+) s/.exec(await page.locator('#state-more').innerText())?.[1]) >= 3);
console.log('back');
await live(page);
same('live figures are clear again', await clear(), '1');
same('nothing is said any more', await page.locator('#state-more').innerText(), '');
await finish(dashboard, [/net::ERR_/]);
