// axe.mjs ADMIN HTTP: axe-core finds nothing to complain of, in both themes, at three widths, and in the default error page.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { finish, get, live, open, same } from './lib.mjs';

const [admin, cache] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] };

/** Every finding: the rule, and where. */
async function findings(page) {
    await page.evaluate(axe);
    const found = await page.evaluate((rules) => window.axe.run(document, rules), rules);
    return found.violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`)).join('\n');
}

await get(cache, '/page', { Host: 'wiki.example.org' });
await get(cache, '/page', { Host: 'wiki.example.org' });
for (const colorScheme of ['light', 'dark']) {
    const dashboard = await open(admin, { colorScheme, reducedMotion: 'reduce' });
    await live(dashboard.page);
    for (const width of [400, 1024, 1440]) {
        await dashboard.page.setViewportSize({ width, height: 900 });
        same(`${colorScheme} at ${width} px`, await findings(dashboard.page), '');
    }
    await finish(dashboard);
}
for (const colorScheme of ['light', 'dark']) {
    const refused = await open(cache, { colorScheme });
    same(`the error page, ${colorScheme}`, await findings(refused.page), '');
    await refused.browser.close();
}
