// codings.mjs URL CERTIFICATE: Chromium reads the page /live/CODING in each coding.

import { browse, same, trusted, until } from './lib.mjs';

const [url, certificate] = process.argv.slice(2);
const { browser, page } = await browse([trusted(certificate)]);
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
