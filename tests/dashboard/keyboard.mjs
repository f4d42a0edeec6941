// keyboard.mjs ADMIN HTTP: everything can be reached and used without a pointer.

import { finish, get, live, open, same, until } from './lib.mjs';

const [admin, cache] = process.argv.slice(2);
await get(cache, '/page', { Host: 'wiki.example.org' });
const dashboard = await open(admin, { colorScheme: 'light', reducedMotion: 'reduce' });
const { page } = dashboard;
await live(page);
const focused = () => page.evaluate(() => document.activeElement?.id ?? '');

await page.keyboard.press('Tab');
same('first comes the link to the figures', await page.evaluate(() => document.activeElement?.className), 'skip');
await page.keyboard.press('Enter');
await until('the figures', async () => (await focused()) === 'overview');

// Going on with Tab alone, the first chart comes; arrows read it.
await until('a chart by Tab', async () => {
    await page.keyboard.press('Tab');
    return page.evaluate(() => document.activeElement?.classList.contains('frame') ?? false);
});
same('the focus is seen', await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'solid');
await page.keyboard.press('ArrowLeft');
await until('the time read', async () => /^at \d\d:\d\d:\d\d$/.test(await page.locator('#requests .when').innerText()));
await page.keyboard.press('Escape');

await page.keyboard.press('?');
await page.locator('dialog[open]').waitFor();
same('shortcuts are listed', (await page.locator('dialog kbd').count()) >= 10, true);
await page.keyboard.press('Escape');
await until('the list to close', async () => (await page.locator('dialog[open]').count()) === 0);

await page.keyboard.press('/');
await until('the search', async () => (await focused()) === 'inspect-prefix');
await page.keyboard.type('http://wiki.example.org/p?');
same('keys are text in a field', await page.locator('#inspect-prefix').inputValue(), 'http://wiki.example.org/p?');
await page.locator('#inspect-prefix').fill('http://wiki.example.org/p');
await page.keyboard.press('Enter');
await until('a row', async () => (await page.locator('#inspect tbody').innerText()).includes('/page'));
await page.keyboard.press('Escape');

// A page that was opened is told in words, and Esc closes it.
await page.locator('#inspect tbody button').first().click();
await until('the page in words', async () => /Fresh: it is/.test(await page.locator('.details .verdict').innerText()));
for (const word of ['fresh until', 'kept until', 'variant of']) {
    same(`"${word}" is said`, await page.locator('.details dt', { hasText: word }).first().isVisible(), true);
}
same('the rest is folded', await page.locator('.details dt', { hasText: 'record size' }).first().isVisible(), false);
await page.keyboard.press('Escape');
await until('the page to close', async () => !(await page.locator('.details').isVisible()));

await page.keyboard.press('p');
await until('the purge box', async () => (await focused()) === 'purge-what');
await page.keyboard.press('Escape');

await page.keyboard.press('r');
same('the range went on', await page.locator('#ranges [aria-checked="true"]').innerText(), '5 min');
await page.locator('#ranges [aria-checked="true"]').focus();
await page.keyboard.press('ArrowRight');
same('arrows choose', await page.locator('#ranges [aria-checked="true"]').innerText(), '15 min');

await page.keyboard.press('t');
await page.keyboard.press('t');
same('dark', await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
same('dark is dark', ground, 'rgb(15, 20, 22)');

// On a phone panels fold, and the controls stand in one row.
await page.setViewportSize({ width: 400, height: 800 });
same('folded', await page.locator('#log .panel-body').isVisible(), false);
await page.locator('#log .fold').click();
same('open', await page.locator('#log .panel-body').isVisible(), true);
const tops = await page.locator('.how > :visible:not(:empty)').evaluateAll((all) => all.map((one) => one.getBoundingClientRect()).map(({ top, height }) => top + height / 2));
same('controls in one row', Math.max(...tops) - Math.min(...tops) < 12, true);

// At phone width nothing is wider than the page.
for (const width of [360, 390, 768, 1920]) {
    await page.setViewportSize({ width, height: 800 });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    same(`overflow at ${width}`, over, 0);
}
await finish(dashboard);
