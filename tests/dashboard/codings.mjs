// codings.mjs URL CERTIFICATE: Chromium reads the page /live/CODING in each coding.

import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { PATIENCE, same, until } from './lib.mjs';

const [url, certificate] = process.argv.slice(2);
const key = new X509Certificate(readFileSync(certificate)).publicKey.export({ type: 'spki', format: 'der' });
const browser = await chromium.launch({
    executablePath: process.env.LARDER_CHROMIUM ?? '/usr/bin/chromium',
    args: [
        '--no-sandbox',
        '--disable-dev-shm-usage',
        // The authority of the tests is none that Chromium knows.
        `--ignore-certificate-errors-spki-list=${createHash('sha256').update(key).digest('base64')}`,
    ],
});
const context = await browser.newContext();
context.setDefaultTimeout(PATIENCE);
const page = await context.newPage();
for (const coding of ['zstd', 'br', 'gzip']) {
    await until(`the page in ${coding}`, async () => {
        const answer = await page.goto(`${url}/live/${coding}`);
        const came = (await answer.allHeaders())['content-encoding'];
        same('the title', await page.title(), `/live/${coding}`);
        same('the last line', (await page.locator('p').last().innerText()).endsWith(`is of /live/${coding} alone`), true);
        return came === coding;
    });
}
await browser.close();
console.log('ok');
