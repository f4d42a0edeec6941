// queues.mjs ADMIN: the table of queues, and the line about all.

import { finish, live, open, same, until } from './lib.mjs';

const [admin] = process.argv.slice(2);
const dashboard = await open(admin);
const { page } = dashboard;
await live(page);
await page.locator('.choice button[data-value="start"]').click();
await until('the table', async () => (await page.locator('#queues tbody tr').count()) === 3);
await until('all queues', async () => (await page.locator('#queues .said').innerText()).startsWith('7 items of 7 B in 3 queues'));
const cells = async (name) => (await page.locator('#queues tbody tr', { hasText: name }).locator('td, th').allInnerTexts()).map((cell) => cell.trim());
const head = (await page.locator('#queues thead th').allInnerTexts()).map((cell) => cell.trim().toLowerCase());
const of = async (name, column) => (await cells(name))[head.findIndex((cell) => cell.startsWith(column))];
// The queue with the most items is the first.
same('the first', (await page.locator('#queues tbody tr').first().locator('td, th').first().innerText()).trim(), 'mails');
same('items', await of('mails', 'items'), '5');
same('failed', await of('mails', 'failed'), '1');
same('refused', await of('full', 'refused'), '1');
same('a name is text', await page.locator('#queues b').count(), 0);
await finish(dashboard);
