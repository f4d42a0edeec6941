// What the scripts share: a browser that notes every complaint, and a client that counts what it asked for.

import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { chromium } from 'playwright-core';

/** How long anything that must happen may take, ms; never part of what is asserted. */
export const PATIENCE = 30_000;

/** Starts a browser with further arguments, and a page with these options. */
export async function browse(more = [], options = {}) {
    const browser = await chromium.launch({
        executablePath: process.env.LARDER_CHROMIUM ?? '/usr/bin/chromium',
        // In containers there is neither a user namespace nor a large /dev/shm.
        args: ['--no-sandbox', '--disable-dev-shm-usage', ...more],
    });
    const context = await browser.newContext(options);
    context.setDefaultTimeout(PATIENCE);
    return { browser, page: await context.newPage() };
}

/** The argument for a certificate (a PEM file) whose authority Chromium does not know. */
export function trusted(certificate) {
    const key = new X509Certificate(readFileSync(certificate)).publicKey.export({ type: 'spki', format: 'der' });
    return `--ignore-certificate-errors-spki-list=${createHash('sha256').update(key).digest('base64')}`;
}

/** Opens the dashboard; `complaints` collects what the console, the page and its content security policy say. */
export async function open(url, options = {}) {
    const { browser, page } = await browse([], { viewport: { width: 1280, height: 900 }, ...options });
    const complaints = [];
    const elsewhere = [];
    page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('request', (request) => {
        if (new URL(request.url()).host !== new URL(url).host) elsewhere.push(request.url());
    });
    await page.goto(url);
    return { browser, page, complaints, elsewhere };
}

/** Waits until the page has had live figures. */
export async function live(page) {
    await page.locator('body[data-state="live"]').waitFor();
}

/** Fails with what is said unless the two are equal. */
export function same(what, got, wanted) {
    if (got !== wanted) throw new Error(`${what}: got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
}

/** Polls until `probe` gives something true. */
export async function until(what, probe) {
    const end = Date.now() + PATIENCE;
    let last;
    for (;;) {
        try {
            last = await probe();
            if (last) return last;
        } catch (error) {
            last = error;
        }
        if (Date.now() > end) throw new Error(`waited for ${what}; last: ${last}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });

/** One request, the target sent as it stands; gives status, headers and body. */
export function get(address, target, headers = {}, method = 'GET') {
    const { hostname, port } = new URL(address);
    return new Promise((resolve, reject) => {
        const request = http.request({ agent, hostname, port, path: target, headers, method }, (response) => {
            let body = '';
            response.setEncoding('utf8');
            response.on('data', (piece) => (body += piece));
            response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
        });
        request.on('error', reject);
        request.end();
    });
}

/** The sum of a metric's samples whose labels hold all of these. */
export function sum(metrics, name, ...labels) {
    return metrics
        .split('\n')
        .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
        .filter((line) => labels.every((label) => line.includes(label)))
        .reduce((all, line) => all + Number(line.slice(line.lastIndexOf(' '))), 0);
}

/** The exact number of a bar of the breakdowns, 0 without it. */
export async function bar(page, name) {
    const found = page.locator('.bars li:visible', { has: page.locator(`.bar-name:text-is("${name}")`) }).first();
    if ((await found.count()) === 0) return 0;
    return Number((await found.locator('.bar-value').getAttribute('title')).replaceAll(',', ''));
}

/** Ends the script: nothing may have been complained of, nothing fetched from elsewhere. */
export async function finish({ browser, complaints, elsewhere }, allowed = []) {
    await browser.close();
    const left = complaints.filter((text) => !allowed.some((pattern) => pattern.test(text)));
    same('complaints of the browser', left.join('\n'), '');
    same('requests to elsewhere', elsewhere.join('\n'), '');
    agent.destroy();
    console.log('ok');
}
