// dictionary.mjs URL CERTIFICATE: Chromium fetches the dictionary that the first document names, and gets later ones by it.

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
        '--disable-features=CompressionDictionaryTransportRequireKnownRootCert',
    ],
});
const context = await browser.newContext();
context.setDefaultTimeout(PATIENCE);
const page = await context.newPage();
let number = 0;
const codings = new Set();
await until('an answer with the dictionary', async () => {
    number = (number % 12) + 1;
    const answer = await page.goto(`${url}/live/${number}`);
    const coding = (await answer.allHeaders())['content-encoding'] ?? 'none';
    codings.add(coding);
    same('the title', await page.title(), `/live/${number}`);
    same('the last line', (await page.locator('p').last().innerText()).endsWith(`is of /live/${number} alone`), true);
    return ['dcz', 'dcb'].includes(coding);
}).catch((error) => {
    throw new Error(`${error}; codings: ${[...codings]}`);
});
await browser.close();
console.log('ok');
