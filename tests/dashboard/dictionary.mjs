// dictionary.mjs URL CERTIFICATE: Chromium fetches the dictionary that the first document names, and gets later ones by it.

import { browse, same, trusted, until } from './lib.mjs';

const [url, certificate] = process.argv.slice(2);
const { browser, page } = await browse([
    trusted(certificate),
    '--disable-features=CompressionDictionaryTransportRequireKnownRootCert',
]);
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
