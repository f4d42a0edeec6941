// purge.mjs ADMIN#token=TOKEN HTTP: the purge box purges, with the token from the address or asked for.

import { finish, get, live, open, same, until } from './lib.mjs';

const [admin, cache] = process.argv.slice(2);
const host = { Host: 'wiki.example.org' };
const token = admin.split('#token=')[1];
const hit = async (target) => (await get(cache, target, host)).headers['x-cache'].startsWith('HIT');
const fill = async (target) => {
    await get(cache, target, host);
    await until(`${target} to be stored`, () => hit(target));
};

await fill('/one');
await fill('/blog/a');
await fill('/blog/b');
await fill('/kept');

// Without a token the box asks for it, and a wrong one is refused.
const stranger = await open(admin.split('#')[0]);
await live(stranger.page);
await stranger.page.locator('#purge-what').fill('http://wiki.example.org/one');
await stranger.page.locator('#purge button[type=submit]').click();
await until('the refusal', async () => (await stranger.page.locator('#purge .outcome').innerText()).startsWith('Not purged'));
await until('the field of the token to be ready', () => stranger.page.evaluate(() => document.activeElement?.id === 'purge-token'));
await stranger.page.keyboard.type('wrong');
await stranger.page.keyboard.press('Enter');
await until('the second refusal', async () => (await stranger.page.locator('#purge-token').inputValue()) === '');
same('still stored', await hit('/one'), true);
await stranger.page.locator('#purge-token').fill(token);
await stranger.page.keyboard.press('Enter');
await until('the purge', async () => (await stranger.page.locator('#purge .outcome').innerText()).startsWith('1 entry purged'));
same('purged by the token that was typed', await hit('/one'), false);
await fill('/one');
await stranger.browser.close();

const dashboard = await open(admin);
const { page } = dashboard;
await live(page);
same('the token is gone from the address', page.url(), admin.split('#')[0]);
same('it is not asked for', await page.locator('#purge-token').isVisible(), false);

await page.locator('#purge-what').fill('http://wiki.example.org/one');
await page.locator('#purge button[type=submit]').click();
await until('the purge', async () => (await page.locator('#purge .outcome').innerText()).startsWith('1 entry purged'));
same('purged', await hit('/one'), false);
await until('it among the recent purges', async () => (await page.locator('#purge tbody').innerText()).includes('http://wiki.example.org/one'));

await page.locator('#purge .choice button[data-value="prefix"]').click();
await page.locator('#purge-what').fill('http://wiki.example.org/blog/');
await page.locator('#purge button[type=submit]').click();
same('a prefix asks once more', await page.locator('#purge button[type=submit]').innerText(), 'Press again to purge');
same('and has not purged yet', await hit('/blog/a'), true);
await page.locator('#purge button[type=submit]').click();
await until('the purge', async () => (await page.locator('#purge .outcome').innerText()).startsWith('2 entries purged'));
same('purged', (await hit('/blog/a')) || (await hit('/blog/b')), false);

await page.locator('#purge .choice button[data-value="tags"]').click();
await page.locator('#purge-what').fill('tag-of-kept');
await page.locator('#purge-soft').check();
await page.locator('#purge button[type=submit]').click();
await until('the purge', async () => (await page.locator('#purge .outcome').innerText()).startsWith('1 entry marked stale'));
await until('it among the recent purges as soft', async () => (await page.locator('#purge tbody tr').first().innerText()).includes('soft'));
await finish(dashboard, [/40[13]/]);
