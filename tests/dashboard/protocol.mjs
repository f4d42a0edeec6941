// What Chromium speaks with a server: `node protocol.mjs URL SPKI [ORIGIN]`. It trusts the certificate with this hash
// of its key, and begins with QUIC at ORIGIN. The page and a request of its own are fetched; prints the protocol and
// the body of each as JSON.
import { browse } from './lib.mjs';

const [url, spki, quic] = process.argv.slice(2);
const args = [`--ignore-certificate-errors-spki-list=${spki}`];
if (quic) args.push(`--origin-to-force-quic-on=${quic}`);
const { browser, page } = await browse(args);
try {
  await page.goto(url);
  const seen = await page.evaluate(async () => {
    const body = await (await fetch('/70000')).arrayBuffer();
    const entries = ['navigation', 'resource'].flatMap((type) => performance.getEntriesByType(type));
    return { length: body.byteLength, protocols: entries.map((entry) => entry.nextHopProtocol) };
  });
  console.log(JSON.stringify({ text: await page.textContent('body'), ...seen }));
} finally {
  await browser.close();
}
